"""Known vulnerabilities of releases, as records of the OSV schema describe them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
from msgspec import Struct
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from wheelfit.core.versions import version_of

if TYPE_CHECKING:
    from collections.abc import Iterator


LARGEST_RECORD = 4 << 20
"""Bytes of the largest record that is read."""
_ECOSYSTEM = "PyPI"
_LONGEST_TEXT = 5_000
_LONGEST_WORD = 200
_MOST_ALIASES = 50
_MOST_EVENTS = 2_000
_MOST_VERSIONS = 20_000
_FIXED, _INTRODUCED, _LAST_AFFECTED = range(3)
"""Kinds of events, in the order in which events of one version are applied.

A version that is both fixed and introduced is affected; if one is both introduced and the last
affected, it alone is affected.
"""


class Event(Struct, frozen=True):
    """A bound of a range; one of the fields is set."""

    introduced: str | None = None
    """The first affected version; ``0``: the first of all."""
    fixed: str | None = None
    """The first version that is not affected any more."""
    last_affected: str | None = None
    """The last affected version."""
    limit: str | None = None
    """The version from which on nothing is known."""


class Vulnerability(Struct, frozen=True):
    """A vulnerability of a project."""

    id: str
    """As ``PYSEC-2021-9``."""
    project: NormalizedName
    summary: str = ""
    """One line; may be empty."""
    details: str = ""
    """Untrusted Markdown, cut if it is long."""
    aliases: tuple[str, ...] = ()
    """The same vulnerability in other databases, such as ``CVE-2021-3281``."""
    withdrawn: str | None = None
    """When it was withdrawn, in RFC 3339; None: it is valid."""
    ranges: tuple[tuple[Event, ...], ...] = ()
    versions: tuple[str, ...] = ()
    """Affected versions that are listed one by one, as written."""

    @property
    def link(self) -> str:
        """The page about it on osv.dev."""
        return f"https://osv.dev/vulnerability/{quote(self.id, safe='')}"

    @property
    def fixed_in(self) -> tuple[str, ...]:
        """The versions in which it is fixed, in their order."""
        fixed = {event.fixed for events in self.ranges for event in events if event.fixed}
        return tuple(sorted(fixed, key=lambda text: _version(text) or Version("0")))

    def affected(self) -> Affected:
        """Return the parsed affected versions."""
        return Affected(
            frozenset(filter(None, map(version_of, self.versions))),
            tuple(map(_read_range, self.ranges)),
        )


class AffectedRange(Struct, frozen=True):
    """A range of affected versions."""

    events: tuple[tuple[Version, int], ...]
    """Sorted versions, each with its event."""
    limits: tuple[Version, ...]
    """A version is in the range only if it is below one of them; empty: there is no limit."""

    def __contains__(self, version: Version) -> bool:
        is_affected = False
        for bound, kind in self.events:
            if kind == _INTRODUCED and version >= bound:
                is_affected = True
            elif (kind == _FIXED and version >= bound) or (
                kind == _LAST_AFFECTED and version > bound
            ):
                is_affected = False
        return is_affected and (not self.limits or any(version < limit for limit in self.limits))


class Affected(Struct, frozen=True):
    """The versions that a vulnerability affects."""

    versions: frozenset[Version]
    ranges: tuple[AffectedRange, ...]

    def __contains__(self, version: Version) -> bool:
        # Databases have no local versions: 2.8.0+cu128 is as vulnerable as 2.8.0.
        public = Version(version.public) if version.local else version
        is_listed = version in self.versions or public in self.versions
        return is_listed or any(public in affected for affected in self.ranges)


def _read_range(events: tuple[Event, ...]) -> AffectedRange:
    """Return a range; an invalid bound makes it larger, never smaller."""
    bounds: list[tuple[Version, int]] = []
    limits = [_version(event.limit) for event in events if event.limit is not None]
    for event in events:
        if event.introduced is not None:
            bounds.append((_version(event.introduced) or Version("0.dev0"), _INTRODUCED))
        for text, kind in ((event.fixed, _FIXED), (event.last_affected, _LAST_AFFECTED)):
            if text is not None and (version := _version(text)) is not None:
                bounds.append((version, kind))
    valid_limits = tuple(limit for limit in limits if limit is not None)
    # A limit that is not a version, such as ``*``, admits every version.
    return AffectedRange(tuple(sorted(bounds)), () if None in limits else valid_limits)


def _version(text: str) -> Version | None:
    """Return a version; None for an invalid one and for ``0``."""
    return None if text == "0" else version_of(text)


class _RawPackage(Struct):
    ecosystem: str = ""
    name: str = ""


class _RawRange(Struct):
    type: str = ""
    events: list[Event] | None = None


class _RawAffected(Struct):
    package: _RawPackage | None = None
    ranges: list[_RawRange] | None = None
    versions: list[str] | None = None


class _RawRecord(Struct):
    id: str
    summary: str | None = None
    details: str | None = None
    aliases: list[str] | None = None
    withdrawn: str | None = None
    affected: list[_RawAffected] | None = None


_DECODER = msgspec.json.Decoder(_RawRecord)


def read_record(data: bytes) -> tuple[Vulnerability, ...]:
    """Read a record of the OSV schema; return its entries on projects of the registry.

    Ranges of commits do not describe releases, and are ignored.

    :raises ValueError: it is no such record.
    """
    if len(data) > LARGEST_RECORD:
        raise ValueError(f"it has more than {LARGEST_RECORD} bytes")
    try:
        record = _DECODER.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(str(error)[:_LONGEST_WORD]) from None
    if not record.id or len(record.id) > _LONGEST_WORD or not record.id.isprintable():
        raise ValueError("it has no usable id")
    return tuple(_split_by_project(record))


def _split_by_project(record: _RawRecord) -> Iterator[Vulnerability]:
    by_project: dict[NormalizedName, list[_RawAffected]] = {}
    for affected in record.affected or ():
        package = affected.package
        if package is not None and package.ecosystem.partition(":")[0] == _ECOSYSTEM:
            by_project.setdefault(canonicalize_name(package.name), []).append(affected)
    aliases = tuple(
        alias for alias in (record.aliases or ())[:_MOST_ALIASES] if len(alias) < _LONGEST_WORD
    )
    for project, entries in by_project.items():
        all_ranges = [item for entry in entries for item in entry.ranges or ()]
        ranges = [tuple(item.events or ()) for item in all_ranges if item.type != "GIT"]
        versions = [text for entry in entries for text in entry.versions or ()]
        if sum(map(len, ranges)) > _MOST_EVENTS or len(versions) > _MOST_VERSIONS:
            raise ValueError(f"it lists too many versions of {project[:80]}")
        yield Vulnerability(
            record.id,
            project,
            " ".join((record.summary or "").split())[:_LONGEST_TEXT],
            (record.details or "")[:_LONGEST_TEXT],
            aliases,
            record.withdrawn,
            tuple(ranges),
            # Records repeat the same few versions.
            tuple(map(sys.intern, versions)),
        )
