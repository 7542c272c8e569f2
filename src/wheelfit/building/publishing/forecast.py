"""The future size of a project, compared with the limits of an index (B-53)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.building.publishing.refusals import FILE_TOO_LARGE, PROJECT_TOO_LARGE
from wheelfit.building.publishing.release_files import FileKind, OutgoingFile
from wheelfit.checking.findings import Finding, Location, Severity
from wheelfit.checking.pages import listed_releases
from wheelfit.checking.tool_profiles import MAX_FILE_SIZE, MAX_PROJECT_SIZE
from wheelfit.core.sizes import size_in_words
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import InvalidWheel
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.sources.page import File

_SHOWN = 3
"""Files or releases that a message lists."""
_MIN_FURTHER = 3
"""Further releases; if fewer fit, a higher limit should be requested."""


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """The size limits of an index; None: unknown."""

    file: int | None = None
    """Bytes of one file."""
    project: int | None = None
    """Bytes of all files of a project."""


NO_LIMITS = UploadLimits()
PUBLIC_REGISTRY = UploadLimits(MAX_FILE_SIZE, MAX_PROJECT_SIZE)
"""The default limits of the public registry."""
GIT_HOSTS = UploadLimits(100 << 20)
"""The limit of GitHub for files in repositories, from which GitHub Pages are published."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The present and future size of a project."""

    project: NormalizedName
    current_size: int
    """Bytes of the files on the index; files of unknown size count as empty."""
    new_size: int
    """Bytes of the new files."""
    largest_file: int
    """Bytes of the largest new file."""
    limits: UploadLimits

    @property
    def total_size(self) -> int:
        """Bytes after publishing."""
        return self.current_size + self.new_size

    @property
    def remaining(self) -> int | None:
        """Bytes below the limit after publishing; None without a limit."""
        return None if self.limits.project is None else self.limits.project - self.total_size

    @property
    def further_releases(self) -> int | None:
        """The number of further releases of this size that fit; None: unknown."""
        if self.remaining is None or not self.new_size:
            return None
        return max(0, self.remaining // self.new_size)

    def to_mapping(self) -> dict[str, object]:
        """Return the forecast as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "project": self.project,
            "current_size": self.current_size,
            "new_size": self.new_size,
            "total_size": self.total_size,
            "largest_file": self.largest_file,
            "file_limit": self.limits.file,
            "project_limit": self.limits.project,
            "further_releases": self.further_releases,
        }

    def __str__(self) -> str:
        words = f"{self.project}: {size_in_words(self.new_size)} new"
        if self.current_size:
            words += f", {size_in_words(self.total_size)} with the files on the index"
        if self.limits.project is not None:
            words += f", of {size_in_words(self.limits.project)}"
        if self.further_releases is not None:
            words += f"; room for {self.further_releases} more of this size"
        return words


def forecast(
    new: Sequence[OutgoingFile],
    index_files: Mapping[NormalizedName, Sequence[File]],
    limits: UploadLimits,
) -> tuple[tuple[Forecast, ...], tuple[Finding, ...]]:
    """Return the future size of each project, and findings about large files and projects."""
    forecasts = []
    for project in sorted(index_files):
        sizes = [file.size for file in new if file.release[0] == project]
        size = sum(file.size or 0 for file in index_files[project])
        forecasts.append(Forecast(project, size, sum(sizes), max(sizes, default=0), limits))
    return tuple(forecasts), (
        *_large_file_findings(new, limits),
        *_large_project_findings(forecasts, index_files),
    )


def _large_file_findings(new: Sequence[OutgoingFile], limits: UploadLimits) -> Iterator[Finding]:
    for file in new:
        if limits.file is not None and file.size > limits.file:
            message = f"it has {size_in_words(file.size)}, more than {size_in_words(limits.file)}"
            message += _heaviest(file)
            yield Location(str(file.path)).finding(FILE_TOO_LARGE, message)


def _heaviest(outgoing: OutgoingFile) -> str:
    """Name the largest members of a wheel: its project may move them to other distributions."""
    if outgoing.kind is FileKind.SOURCE:
        return ""
    try:
        with WheelArchive(outgoing.path, lenient=True) as wheel:
            members = sorted(wheel.members, key=lambda member: -member.compressed_size)
    except InvalidWheel:  # another check reports it
        return ""
    largest = [
        f"{member.name} ({size_in_words(member.compressed_size)})" for member in members[:_SHOWN]
    ]
    return f"; most of it is {', '.join(largest)}"


def _largest_releases(files: Sequence[File]) -> str:
    """Return the largest releases of a project on an index, whose removal would free space."""
    sizes: dict[Version, int] = {}
    for file in files:
        for _, version in listed_releases([file]):
            sizes[version] = sizes.get(version, 0) + (file.size or 0)
    largest = sorted(sizes, key=lambda version: (-sizes[version], version))[:_SHOWN]
    releases = [f"{version} ({size_in_words(sizes[version])})" for version in largest]
    return f"; the largest releases there are {', '.join(releases)}" if releases else ""


def _large_project_findings(
    forecasts: Sequence[Forecast], index_files: Mapping[NormalizedName, Sequence[File]]
) -> Iterator[Finding]:
    for project_forecast in forecasts:
        limit = project_forecast.limits.project
        if limit is None or not project_forecast.new_size:
            continue
        location = Location(str(project_forecast.project))
        if project_forecast.total_size > limit:
            message = (
                f"{size_in_words(project_forecast.current_size)} on the index and "
                f"{size_in_words(project_forecast.new_size)} new, more than {size_in_words(limit)}"
                f"{_largest_releases(index_files[project_forecast.project])}"
            )
            yield location.finding(PROJECT_TOO_LARGE, message)
        elif (
            project_forecast.further_releases is not None
            and project_forecast.further_releases < _MIN_FURTHER
        ):
            releases = count_of(project_forecast.further_releases, "more release")
            message = f"afterwards there is room for {releases} of this size"
            yield location.finding(PROJECT_TOO_LARGE, message, severity=Severity.WARNING)
