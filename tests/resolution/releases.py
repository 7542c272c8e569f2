"""Releases with variants, to choose from and installed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.core.core_metadata import CoreMetadata
from wheelfit.core.index_metadata import read_wheel_document
from wheelfit.core.labels import parse_label
from wheelfit.resolution.request import InstalledBuild
from wheelfit.resolution.resolution import Pin
from wheelfit.testing.repositories import FakeRepository
from wheelfit.testing.wheels import single_label_document


def add_release(
    repository: FakeRepository,
    release: str,
    document: Mapping[str, Any],
    requires: Iterable[str] | Mapping[str, Iterable[str]] = (),
    *,
    plain: bool = False,
    tags: str = "py3-none-any",
    extras: Iterable[str] = (),
) -> None:
    """Add a release with a wheel for each label of its metadata, and its index file.

    :param release: ``name version``.
    :param requires: the requirements of every wheel, or by label.
    :param plain: whether it has a plain wheel too, whose label is the empty text.
    """
    name, version = release.replace("-", "_").split()
    for label in (*document["variants"], *([""] if plain else [])):
        repository.add_wheel(
            f"{name}-{version}-{tags}{'-' if label else ''}{label}.whl",
            requires=requires.get(label, ()) if isinstance(requires, dict) else requires,
            extras=extras,
            document=single_label_document(document, label) if label else None,
        )
    repository.add_file(f"{name}-{version}-variants.json", document)


def installed_build(
    release: str,
    label: str = "",
    document: Mapping[str, object] | None = None,
    requires: Sequence[str] = (),
) -> InstalledBuild:
    """Return an installed release.

    :param release: ``name version``.
    :param label: its label; empty: it is a plain wheel.
    :param document: the variant metadata of the release.
    """
    name, version = release.split()
    core = CoreMetadata(canonicalize_name(name), Version(version), requires_texts=tuple(requires))
    if document is None:
        return InstalledBuild(core.name, core.version, lambda: core)
    data = json.dumps(single_label_document(document, label)).encode()
    read = read_wheel_document(data, parse_label(label), where=release)
    properties = read.variants[parse_label(label)]
    return InstalledBuild(
        core.name, core.version, lambda: core, parse_label(label), properties, read
    )


def reasons(pin: Pin | None) -> dict[str, str]:
    """Return the reason of each wheel that was considered for a pin, by label."""
    assert pin is not None
    return {
        str(verdict.filename.label): verdict.reason for verdict in pin.choice.selection.verdicts
    }
