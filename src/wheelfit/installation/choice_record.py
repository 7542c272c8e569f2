"""The record of a choice, kept in the ``.dist-info`` folder (F-96).

``variant.json`` of the wheel has the properties, but not the name of the chosen file, and a plain
wheel may contain one too (F-10). So every installation adds ``wheelfit.json`` with the file name,
its label, and its verified hashes.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.json import decode

from wheelfit.core.labels import Label, is_label

if TYPE_CHECKING:
    from collections.abc import Mapping

CHOICE_FILE = "wheelfit.json"
"""The name of the record in ``.dist-info``."""


class HostAndOverrides(Struct, frozen=True):
    """The machine that a file was chosen for, and the overrides of its detection (P-73)."""

    host: str | None = None
    """The name of a host file, without its folder, or of a preset; None: this machine."""
    overrides: tuple[str, ...] = ()
    """The settings that replaced or narrowed detection: ``NAME=value``, or an option."""


class RecordedChoice(Struct, frozen=True):
    """The file that a distribution was installed from."""

    filename: str
    label: Label | None
    """Its label; None if it was a plain wheel."""
    hashes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Hashes the file was checked against, algorithm to hexadecimal digest."""
    host_and_overrides: HostAndOverrides = HostAndOverrides()
    """The machine and the overrides with which it was chosen."""


def format_choice(choice: RecordedChoice) -> bytes:
    """Return the content of ``wheelfit.json``."""
    content = {
        "version": 1,
        "filename": choice.filename,
        "label": choice.label,
        "hashes": dict(sorted(choice.hashes.items())),
        "host": choice.host_and_overrides.host,
        "overrides": list(choice.host_and_overrides.overrides),
    }
    return (json.dumps(content, indent=2) + "\n").encode("utf-8")


class _File(Struct):
    """The keys of ``wheelfit.json``; a later version may add others."""

    version: Literal[1]
    filename: str
    label: str | None
    hashes: dict[str, str]
    host: str | None = None
    overrides: list[str] = field(default_factory=list)


def parse_choice(data: bytes) -> RecordedChoice | None:
    """Return the content of ``wheelfit.json``, or None if it is not valid.

    The caller falls back on ``variant.json`` then.
    """
    try:
        content = decode(data, type=_File)
    except (ValueError, RecursionError):
        return None
    if content.label is not None and not is_label(content.label):
        return None
    return RecordedChoice(
        content.filename,
        None if content.label is None else Label(content.label),
        MappingProxyType(content.hashes),
        HostAndOverrides(content.host, tuple(content.overrides)),
    )
