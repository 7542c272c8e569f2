"""Builds from source, prepared only when the first one is needed."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from wheelfit.sources.file_readers import RepositoryWrapper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packaging.utils import NormalizedName

    from wheelfit.installation.builds.building import BuildingRepository
    from wheelfit.resolution.request import DirectSource, DirectWheel
    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.repository import Files, Repository


class DeferredBuilding(RepositoryWrapper):
    """A ``Repository`` with wheels that can be built, prepared when the first one is needed.

    :param open_: returns the building repository.
    """

    def __init__(self, repository: Repository, open_: Callable[[], BuildingRepository]) -> None:
        super().__init__(repository)
        self._open = open_
        self._building: BuildingRepository | None = None
        self._lock = Lock()

    @property
    def building(self) -> BuildingRepository:
        """The building repository."""
        with self._lock:
            if self._building is None:
                self._building = self._open()
            return self._building

    def close(self) -> None:
        """End running children, and remove all temporary files."""
        if self._building is not None:
            self._building.close()

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, with the wheels built so far."""
        return (self._building or self._repository).project(name)

    def _reader(self, file: File) -> Files:
        return self._repository if file.origin is None else self.building

    def direct_wheel(self, source: DirectSource) -> DirectWheel:
        """Return the wheel of a project that the user named, built or not."""
        return self.building.direct_wheel(source)

    def needs_consent(self, file: File) -> bool:
        """Return whether a wheel would have to be built, and may not be."""
        return self.is_unbuilt(file) and self.building.needs_consent(file)

    def has_requirements(self, file: File) -> bool:
        """Return whether a wheel's requirements are known, or its build backend may be run."""
        return not self.needs_consent(file) or self.building.has_requirements(file)

    @property
    def mode(self) -> str:
        """The mode for source distributions that the user did not name."""
        return self.building.policy.consent.mode

    @property
    def why_impossible(self) -> str:
        """The reason nothing can be built; empty: it can."""
        return self.building.policy.why_impossible

    def allow(self, names: Iterable[NormalizedName]) -> None:
        """Allow builds of the source distributions of some projects."""
        self.building.allow(names)

    def build(self, file: File) -> None:
        """Build a wheel; from then on it is listed by its true name."""
        self.building.build(file)

    @staticmethod
    def is_unbuilt(file: File) -> bool:
        """Return whether a wheel must be built before it can be installed."""
        return file.origin is not None and not file.origin.is_built
