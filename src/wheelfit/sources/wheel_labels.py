"""Files beside plain wheels that list labels for them.

A bridge presents wheels that were published without a label as variants. In a folder of downloads
such a wheel has its published name, so that pip can use it too, and a JSON file beside it lists the
labels from the bridge.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from wheelfit.core.filename import parse_wheel_filename, with_label
from wheelfit.core.labels import Label, is_label
from wheelfit.errors import InvalidFilename

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.sources.page import File


class _Build(Struct, rename="kebab"):
    """The variant of a wheel under one of its labels."""

    variant: dict[str, Any]
    """The variant metadata, as in ``variant.json``."""
    requires: list[str] = []
    """The requirements beyond those in METADATA (PEP 508)."""


class _LabelsFile(Struct):
    """The content of the file beside a wheel."""

    builds: dict[str, _Build]
    """By label."""


def parse_labels_file(content: bytes) -> Mapping[str, Any]:
    """Return the builds that a file lists, by label.

    :raises ValueError: it is not a file with labels.
    """
    builds = msgspec.json.decode(content, type=_LabelsFile).builds
    if not builds or not all(map(is_label, builds)):
        raise ValueError("it has no valid labels")
    return builds


def labels_file(file: File, label: Label, before: Mapping[str, Any]) -> bytes:
    """Return the content of the file beside a wheel, with one more label."""
    build = _Build(json.loads(file.declared_document or b"{}"), list(file.added_requirements or ()))
    builds = dict(sorted({**before, label: build}.items()))
    return msgspec.json.format(msgspec.json.encode(_LabelsFile(builds)), indent=1) + b"\n"


def with_labels(file: File, builds: Mapping[str, Any]) -> list[File]:
    """Return a wheel once for each of its labels.

    :param file: the wheel, under the name that it was published with.
    :param builds: the result of `parse_labels_file`.
    :raises InvalidFilename: it is not a wheel, or its name has a label.
    """
    filename = parse_wheel_filename(file.filename)
    if filename.label is not None:
        raise InvalidFilename(
            "the name of the wheel has a label, so a file cannot add others",
            where=file.filename,
        )
    return [
        structs.replace(
            file,
            filename=with_label(filename, Label(label)).text,
            declared_document=msgspec.json.encode(build.variant),
            added_requirements=tuple(build.requires),
        )
        for label, build in builds.items()
    ]
