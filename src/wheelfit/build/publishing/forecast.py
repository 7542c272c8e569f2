"""How large a project will be, held against what an index allows (B-53)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.build.publishing.refusals import FILE_TOO_LARGE, PROJECT_TOO_LARGE
from wheelfit.check.findings import Place, Severity
from wheelfit.core.sizes import size_in_words
from wheelfit.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.build.publishing.outgoing import Outgoing
    from wheelfit.check.findings import Finding
    from wheelfit.sources.page import File

__all__ = ["NO_LIMITS", "PUBLIC_REGISTRY", "Forecast", "Limits", "forecast"]


def __dir__() -> list[str]:
    return __all__


_FEW = 3
"""Further releases for which there is room; with fewer it is time to ask for more."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Say how much an index takes; None: nobody said."""

    file: int | None = None
    """Bytes of one file."""
    project: int | None = None
    """Bytes of all files of a project."""


NO_LIMITS = Limits()
PUBLIC_REGISTRY = Limits(100_000_000, 10_000_000_000)
"""What the public registry allows who has not asked for more."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Hold how large a project is and will be."""

    project: NormalizedName
    there: int
    """Bytes of what is on the index already, as far as it says."""
    new: int
    """Bytes that come in addition."""
    largest: int
    """Bytes of the largest file that comes."""
    limits: Limits

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
        """How many more releases of this size there is room for; None: not to be said."""
        if self.left is None or not self.new:
            return None
        return max(0, self.left // self.new)

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "project": self.project,
            "there": self.there,
            "new": self.new,
            "after": self.after,
            "largest": self.largest,
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
    new: Sequence[Outgoing], there: Mapping[NormalizedName, Sequence[File]], limits: Limits
) -> tuple[tuple[Forecast, ...], tuple[Finding, ...]]:
    """Say how large each project will be, and what is too large.

    :param new: files that are not on the index yet.
    :param there: by project: what is.
    :param limits: of the index.
    """
    forecasts = []
    for project in sorted(there):
        sizes = [one.size for one in new if one.release[0] == project]
        known = sum(file.size or 0 for file in there[project])
        forecasts.append(Forecast(project, known, sum(sizes), max(sizes, default=0), limits))
    return tuple(forecasts), (*_large_files(new, limits), *_large_projects(forecasts))


def _large_files(new: Sequence[Outgoing], limits: Limits) -> Iterator[Finding]:
    for one in new:
        if limits.file is not None and one.size > limits.file:
            message = f"it has {size_in_words(one.size)}, more than {size_in_words(limits.file)}"
            yield Place(str(one.path)).found(FILE_TOO_LARGE, message)


def _large_projects(forecasts: Sequence[Forecast]) -> Iterator[Finding]:
    for one in forecasts:
        limit = one.limits.project
        if limit is None or not one.new:
            continue
        place = Place(str(one.project))
        if one.after > limit:
            message = (
                f"{size_in_words(one.there)} are there and {size_in_words(one.new)} are new, "
                f"more than {size_in_words(limit)}"
            )
            yield place.found(PROJECT_TOO_LARGE, message)
        elif one.further is not None and one.further < _FEW:
            message = f"afterwards there is room for {one.further} more releases of this size"
            yield place.found(PROJECT_TOO_LARGE, message, severity=Severity.WARNING)
