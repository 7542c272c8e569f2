"""Checks of an index page, without opening its files (F-70 to F-72)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wheelfit.checking import checks, tool_profiles
from wheelfit.checking.findings import Finding, Location
from wheelfit.checking.wheels.wheel import filename_findings
from wheelfit.core.filename import (
    parse_index_file_name,
    parse_wheel_filename,
    sdist_release,
    wheel_filename_of,
)
from wheelfit.errors import InvalidFilename
from wheelfit.sources.urls import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wheelfit.checking.tool_profiles import Profile
    from wheelfit.core.filename import Release, WheelFilename
    from wheelfit.sources.page import File


@dataclass(slots=True)
class ListedRelease:
    """The files that a page lists of one release."""

    wheels: list[tuple[File, WheelFilename]] = field(default_factory=list)
    index_files: list[File] = field(default_factory=list)
    has_source: bool = False

    @property
    def files(self) -> Iterator[File]:
        """Every file except source distributions."""
        yield from (file for file, _ in self.wheels)
        yield from self.index_files

    @property
    def has_variants(self) -> bool:
        """Whether there are variants or index files."""
        return bool(self.index_files) or any(name.is_variant for _, name in self.wheels)


def listed_releases(files: Iterable[File]) -> dict[Release, ListedRelease]:
    """Return wheels, index files and source distributions by release; other files are ignored."""
    releases: dict[Release, ListedRelease] = {}
    for file in files:
        if file.filename.endswith(".whl"):
            if (name := wheel_filename_of(file.filename)) is None:
                continue
            release = releases.setdefault((name.name, name.version), ListedRelease())
            release.wheels.append((file, name))
        elif (release_key := parse_index_file_name(file.filename)) is not None:
            releases.setdefault(release_key, ListedRelease()).index_files.append(file)
        elif (source := sdist_release(file.filename)) is not None:
            releases.setdefault(source, ListedRelease()).has_source = True
    return dict(sorted(releases.items()))


def check_listing(
    files: Iterable[File],
    notes: Iterable[str],
    where: str,
    profiles: frozenset[Profile] = frozenset(),
    *,
    name_of: Callable[[File], str] = lambda file: redact(file.url),
) -> Iterator[Finding]:
    """Yield findings about the entries of a page.

    :param notes: remarks about entries that could not be parsed.
    :param name_of: returns the name of a file in findings; default: its URL without credentials.
    """
    files = list(files)
    page = Location(where)
    for note in notes:
        yield page.finding(checks.STRANGE_ENTRY, note)
    yield from tool_profiles.project_findings(files, page, profiles)
    for file in files:
        location = Location(name_of(file))
        if file.filename.endswith(".whl"):
            try:
                name = parse_wheel_filename(file.filename)
            except InvalidFilename as error:
                yield location.finding(checks.INVALID_FILENAME, error.message)
                continue
            yield from filename_findings(name, location)
            yield from tool_profiles.wheel_findings(name, file.size, location, profiles)
        elif parse_index_file_name(file.filename) is not None:
            if file.forbidden:
                yield location.finding(
                    checks.FORBIDDEN_ATTRIBUTE, f"its entry has {', '.join(file.forbidden)}"
                )
            if not file.hashes:
                yield location.finding(checks.NO_HASH, f"{where} has no hash of it")
