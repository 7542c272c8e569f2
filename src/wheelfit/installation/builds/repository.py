"""A repository with wheels that are built from source when they are needed.

A project that can be built is listed as a release with one plain wheel that is compatible
everywhere (F-108). Its file name is provisional until the wheel is built; then the wheel is listed
by its real name, and the choice is repeated, so that it is checked like any other wheel.

A project without consent to build is chosen like the others, by the metadata that can be read
without running code; without such metadata it counts as having no requirements. No code of it is
ever run.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from wheelfit.sources.file_readers import RepositoryWrapper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packaging.utils import NormalizedName

    from wheelfit.installation.builds.building import WheelBuilder
    from wheelfit.resolution.request import DirectSource, DirectWheel
    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.repository import Files, Repository


class BuildingRepository(RepositoryWrapper):
    """A ``Repository`` with wheels that can be built; their builder is made for the first one.

    :param make_builder: returns the builder, given the repository for build requirements.
    """

    def __init__(
        self, repository: Repository, make_builder: Callable[[Repository], WheelBuilder]
    ) -> None:
        super().__init__(repository)
        self._make_builder = make_builder
        self._existing_builder: WheelBuilder | None = None
        self._lock = Lock()

    @property
    def _builder(self) -> WheelBuilder:
        with self._lock:
            if self._existing_builder is None:
                self._existing_builder = self._make_builder(self)
            return self._existing_builder

    def close(self) -> None:
        """End running children, and remove all temporary files."""
        if self._existing_builder is not None:
            self._existing_builder.close()

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, with the wheels built so far."""
        page, builder = self._repository.project(name), self._existing_builder
        return page if page is None or builder is None else builder.with_built_wheels(page)

    def _reader(self, file: File) -> Files:
        return self._repository if file.origin is None else self._builder

    def direct_wheel(self, source: DirectSource) -> DirectWheel:
        """Return the wheel of a project that the user named, built or not."""
        return self._builder.direct_wheel(source)

    def needs_consent(self, file: File) -> bool:
        """Return whether a wheel would have to be built, and may not be."""
        return self.is_unbuilt(file) and self._builder.needs_consent(file)

    def has_requirements(self, file: File) -> bool:
        """Return whether a wheel's requirements are known, or its build backend may be run."""
        return not self.needs_consent(file) or self._builder.has_requirements(file)

    @property
    def mode(self) -> str:
        """The mode for source distributions that the user did not name."""
        return self._builder.policy.consent.mode

    @property
    def why_impossible(self) -> str:
        """The reason nothing can be built; empty: it can."""
        return self._builder.policy.why_impossible

    def allow(self, names: Iterable[NormalizedName]) -> None:
        """Allow builds of the source distributions of some projects."""
        self._builder.allow(names)

    def build(self, file: File) -> File:
        """Build a wheel, and return it as it is listed from then on, by its real name.

        :raises BuildFailed: its backend failed, or built something else.
        """
        return file if file.origin is None else self._builder.build(file)

    @staticmethod
    def is_unbuilt(file: File) -> bool:
        """Return whether a wheel must be built before it can be installed."""
        return file.origin is not None and not file.origin.is_built
