"""The future size of a project, compared with the limits of an index (B-53)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.building.publishing.refusals import FILE_TOO_LARGE, PROJECT_TOO_LARGE
from wheelfit.building.publishing.release_files import FileKind
from wheelfit.checking.findings import CheckedFile, Severity
from wheelfit.checking.pages import sort_files
from wheelfit.checking.tool_profiles import LARGEST_FILE, LARGEST_PROJECT
from wheelfit.core.sizes import size_in_words
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.building.publishing.release_files import OutgoingFile
    from wheelfit.checking.findings import Finding
    from wheelfit.sources.page import File

_SHOWN = 3
_FEW = 3
"""Further releases for which there is space; with fewer a higher limit should be requested."""


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """The size limits of an index; None: unknown."""

    file: int | None = None
    """Bytes of one file."""
    project: int | None = None
    """Bytes of all files of a project."""


NO_LIMITS = UploadLimits()
PUBLIC_REGISTRY = UploadLimits(LARGEST_FILE, LARGEST_PROJECT)
"""The default limits of the public registry."""
GIT_HOSTS = UploadLimits(100 << 20)
"""The limit of GitHub for files of a repository, from which its Pages are published."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The present and future size of a project."""

    project: NormalizedName
    there: int
    """Size of the files on the index, as far as known, in bytes."""
    new: int
    """Bytes that come in addition."""
    largest: int
    """Size of the largest new file, in bytes."""
    limits: UploadLimits

    @property
    def after(self) -> int:
        """Bytes when all is published."""
        return self.there + self.new

    @property
    def left(self) -> int | None:
        """Bytes for which there is room afterwards; None: without end."""
        return None if self.limits.project is None else self.limits.project - self.after

    @property
    def further(self) -> int | None:
        """The number of further releases of this size that fit; None: unknown."""
        if self.left is None or not self.new:
            return None
        return max(0, self.left // self.new)

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "project": self.project,
            "current_size": self.there,
            "new_size": self.new,
            "total_size": self.after,
            "largest_file": self.largest,
            "file_limit": self.limits.file,
            "project_limit": self.limits.project,
            "further_releases": self.further,
        }

    def __str__(self) -> str:
        words = f"{self.project}: {size_in_words(self.new)} are new"
        if self.there:
            words += f", {size_in_words(self.after)} together with what is there"
        if self.limits.project is not None:
            words += f", of {size_in_words(self.limits.project)}"
        if self.further is not None:
            words += f"; room for {self.further} more of this size"
        return words


def forecast(
    new: Sequence[OutgoingFile],
    there: Mapping[NormalizedName, Sequence[File]],
    limits: UploadLimits,
) -> tuple[tuple[Forecast, ...], tuple[Finding, ...]]:
    """Return the future size of each project, and findings about large files and projects."""
    forecasts = []
    for project in sorted(there):
        sizes = [one.size for one in new if one.release[0] == project]
        known = sum(file.size or 0 for file in there[project])
        forecasts.append(Forecast(project, known, sum(sizes), max(sizes, default=0), limits))
    return tuple(forecasts), (
        *_large_files(new, limits),
        *_large_projects(forecasts, there),
    )


def _large_files(new: Sequence[OutgoingFile], limits: UploadLimits) -> Iterator[Finding]:
    for one in new:
        if limits.file is not None and one.size > limits.file:
            message = f"it has {size_in_words(one.size)}, more than {size_in_words(limits.file)}"
            message += _heaviest(one)
            yield CheckedFile(str(one.path)).found(FILE_TOO_LARGE, message)


def _heaviest(outgoing: OutgoingFile) -> str:
    """Return the largest members of a wheel, which may become distributions of their own."""
    if outgoing.kind is FileKind.SOURCE:
        return ""
    try:
        with WheelArchive(outgoing.path, lenient=True) as wheel:
            members = sorted(wheel.members, key=lambda member: -member.compressed_size)
    except InvalidWheel:  # which is found, too
        return ""
    named = [
        f"{member.name} ({size_in_words(member.compressed_size)})" for member in members[:_SHOWN]
    ]
    return f"; most of it is {', '.join(named)}"


def _largest_releases(files: Sequence[File]) -> str:
    """Return the largest releases of an index, whose removal could make room."""
    sizes: dict[Version, int] = {}
    for file in files:
        for _, version in sort_files([file]):
            sizes[version] = sizes.get(version, 0) + (file.size or 0)
    largest = sorted(sizes, key=lambda version: (-sizes[version], version))[:_SHOWN]
    named = [f"{version} ({size_in_words(sizes[version])})" for version in largest]
    return f"; the largest releases there are {', '.join(named)}" if named else ""


def _large_projects(
    forecasts: Sequence[Forecast], there: Mapping[NormalizedName, Sequence[File]]
) -> Iterator[Finding]:
    for one in forecasts:
        limit = one.limits.project
        if limit is None or not one.new:
            continue
        place = CheckedFile(str(one.project))
        if one.after > limit:
            message = (
                f"{size_in_words(one.there)} are there and {size_in_words(one.new)} are new, "
                f"more than {size_in_words(limit)}{_largest_releases(there[one.project])}"
            )
            yield place.found(PROJECT_TOO_LARGE, message)
        elif one.further is not None and one.further < _FEW:
            message = f"afterwards there is room for {one.further} more releases of this size"
            yield place.found(PROJECT_TOO_LARGE, message, severity=Severity.WARNING)
