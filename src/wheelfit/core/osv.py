"""Known vulnerabilities of releases, as records of the OSV schema describe them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
from msgspec import Struct
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelfit.core.versions import parse_version

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
_FIXED, _INTRODUCED, _LAST = range(3)
"""The order of events at one version: what is fixed there may begin there again, and what begins
and ends there affects that version alone."""


class Event(Struct, frozen=True):
    """A version at which something changes; one of these is given."""

    introduced: str | None = None
    """The first affected version; ``0``: all from the beginning."""
    fixed: str | None = None
    """The first version that is not affected any more."""
    last_affected: str | None = None
    """The last affected version."""
    limit: str | None = None
    """The first version that nothing is known of."""


class Vulnerability(Struct, frozen=True):
    """A vulnerability of a project."""

    id: str
    """As ``PYSEC-2021-9``."""
    project: NormalizedName
    summary: str = ""
    """One line; may be empty."""
    details: str = ""
    """Markdown by a stranger, cut if it is long."""
    aliases: tuple[str, ...] = ()
    """The same vulnerability in other databases, as ``CVE-2021-3281``."""
    withdrawn: str | None = None
    """When it was withdrawn, in RFC 3339; None: it counts."""
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
        """Return the versions that it affects, read."""
        return Affected(
            frozenset(filter(None, map(_version, self.versions))),
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
        for moment, kind in self.events:
            if kind == _INTRODUCED and version >= moment:
                is_affected = True
            elif (kind == _FIXED and version >= moment) or (kind == _LAST and version > moment):
                is_affected = False
        return is_affected and (not self.limits or any(version < one for one in self.limits))


class Affected(Struct, frozen=True):
    """The versions that a vulnerability affects."""

    versions: frozenset[Version]
    ranges: tuple[AffectedRange, ...]

    def __contains__(self, version: Version) -> bool:
        # Databases know no builds: 2.8.0+cu128 is as vulnerable as 2.8.0.
        public = Version(version.public) if version.local else version
        return version in self.versions or public in self.versions or any(
            public in one for one in self.ranges
        )  # fmt: skip


def _read_range(events: tuple[Event, ...]) -> AffectedRange:
    """Return a range; a bound that is no version makes it larger, never smaller."""
    bounds: list[tuple[Version, int]] = []
    limits = []
    for event in events:
        if event.introduced is not None:
            bounds.append((_version(event.introduced) or Version("0.dev0"), _INTRODUCED))
        for text, kind in ((event.fixed, _FIXED), (event.last_affected, _LAST)):
            if text is not None and (version := _version(text)) is not None:
                bounds.append((version, kind))
        if event.limit is not None and (version := _version(event.limit)) is not None:
            limits.append(version)
    return AffectedRange(tuple(sorted(bounds)), tuple(limits))


def _version(text: str) -> Version | None:
    """Return a version; None for an invalid one, and for the start of all versions."""
    try:
        return None if text == "0" else parse_version(text)
    except InvalidVersion:
        return None


class _Package(Struct):
    ecosystem: str = ""
    name: str = ""


class _Range(Struct):
    type: str = ""
    events: list[Event] | None = None


class _Affected(Struct):
    package: _Package | None = None
    ranges: list[_Range] | None = None
    versions: list[str] | None = None


class _Record(Struct):
    id: str
    summary: str | None = None
    details: str | None = None
    aliases: list[str] | None = None
    withdrawn: str | None = None
    affected: list[_Affected] | None = None


_DECODER = msgspec.json.Decoder(_Record)


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
    return tuple(_of_projects(record))


def _of_projects(record: _Record) -> Iterator[Vulnerability]:
    by_project: dict[NormalizedName, list[_Affected]] = {}
    for one in record.affected or ():
        package = one.package
        if package is not None and package.ecosystem.partition(":")[0] == _ECOSYSTEM:
            by_project.setdefault(canonicalize_name(package.name), []).append(one)
    aliases = tuple(
        alias for alias in (record.aliases or ())[:_MOST_ALIASES] if len(alias) < _LONGEST_WORD
    )
    for project, several in by_project.items():
        ranges = [one for each in several for one in each.ranges or () if one.type != "GIT"]
        versions = [text for each in several for text in each.versions or ()]
        if (
            sum(len(one.events or ()) for one in ranges) > _MOST_EVENTS
            or len(versions) > _MOST_VERSIONS
        ):
            raise ValueError(f"it names more than {_MOST_VERSIONS} versions of {project[:80]}")
        yield Vulnerability(
            record.id,
            project,
            " ".join((record.summary or "").split())[:_LONGEST_TEXT],
            (record.details or "")[:_LONGEST_TEXT],
            aliases,
            record.withdrawn,
            tuple(tuple(one.events or ()) for one in ranges),
            # The same few versions are named again and again.
            tuple(map(sys.intern, versions)),
        )
