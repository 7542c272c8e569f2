"""The labels of wheels in a folder that were published without one.

The wheels of a family have labels by the family alone. In a folder they keep the names under which
pip takes them too, and a file beside each lists the builds it counts as.
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
    """A build that a wheel is."""

    variant: dict[str, Any]
    """Its variant metadata, as a ``variant.json`` has it."""
    requires: list[str] = []
    """The requirements beyond its METADATA (PEP 508)."""


class _Labels(Struct):
    """The content of such a file."""

    builds: dict[str, _Build]


def labels_of(content: bytes) -> Mapping[str, Any]:
    """Return the builds that a file names, by label.

    :raises ValueError: it is no such file.
    """
    builds = msgspec.json.decode(content, type=_Labels).builds
    if not builds or not all(map(is_label, builds)):
        raise ValueError("it names no labels")
    return builds


def written(file: File, label: Label, before: Mapping[str, Any]) -> bytes:
    """Return the content of the file beside a wheel that is a build by a declaration.

    :param file: the wheel.
    :param label: as which it was chosen.
    :param before: the builds that are named there already.
    """
    build = _Build(json.loads(file.declared or b"{}"), list(file.needs or ()))
    builds = dict(sorted({**before, label: build}.items()))
    return msgspec.json.format(msgspec.json.encode(_Labels(builds)), indent=1) + b"\n"


def labelled(file: File, builds: Mapping[str, Any]) -> list[File]:
    """Return a wheel as each of the builds that it is.

    :param file: the wheel, under the name that it was published with.
    :param builds: as `labels_of` returns them.
    :raises InvalidFilename: it is no wheel, or has a label itself.
    """
    filename = parse_wheel_filename(file.filename)
    if filename.label is not None:
        raise InvalidFilename("a wheel with a label has no other one", where=file.filename)
    return [
        structs.replace(
            file,
            filename=with_label(filename, Label(label)).text,
            declared=msgspec.json.encode(build.variant),
            needs=tuple(build.requires),
        )
        for label, build in builds.items()
    ]
