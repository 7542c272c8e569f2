"""Builds of the sources in a lock that are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.locking.stand_ins import stand_in_of
from wheelfit.resolution.request import DirectSource

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.installation.builds.consent import Consent
    from wheelfit.installation.builds.deferred import DeferredBuilding
    from wheelfit.locking.document import LockedPackage
    from wheelfit.sources.page import File
    from wheelfit.sources.repository import Files


class LockedBuilds:
    """The wheels in place of sources in a lock, built only if they are to be installed.

    :param consent: the consent to builds; an entry in a lock is none.
    """

    def __init__(self, deferred: DeferredBuilding, consent: Consent, folder: Path) -> None:
        self.files: Files = deferred
        """Reads the files that the lock names, and those that are built."""
        self._deferred = deferred
        self._consent = consent
        self._stand_in = stand_in_of(folder)
        self._allowed: set[NormalizedName] = set()
        self._packages: dict[tuple[str, str], LockedPackage] = {}
        self._built: dict[NormalizedName, File] = {}

    def wheel(self, package: LockedPackage) -> File:
        """Return the wheel of a source, with a placeholder as its name until it is built.

        :param package: an entry with a source.
        :raises FileProblem: a path in the lock cannot be read, or may not be.
        """
        built = self._built.get(package.name)
        if built is not None:
            return built
        file = self._stand_in(package)
        self._packages[file.url, file.filename] = package
        return file

    @property
    def mode(self) -> str:
        """The consent to build packages that the user has not named."""
        return self._consent.mode

    @property
    def impossible(self) -> str:
        """The reason why building is impossible; empty if it is possible."""
        return self._deferred.impossible

    def needs_consent(self, file: File) -> bool:
        """Return whether a wheel must be built, and may not be."""
        if not self.is_unbuilt(file):
            return False
        name = self._packages[file.url, file.filename].name
        is_allowed = name in self._consent.names or name in self._allowed
        return not (is_allowed or self.mode == "always") or bool(self.impossible)

    def has_requirements(self, file: File) -> bool:  # noqa: ARG002 - of any file
        """Return True, since the lock has the requirements."""
        return True

    def allow(self, names: Iterable[NormalizedName]) -> None:
        """Permit builds of some packages."""
        self._allowed.update(names)

    def is_unbuilt(self, file: File) -> bool:
        """Return whether a wheel must be built before it can be installed."""
        return self._deferred.is_unbuilt(file)

    def build(self, file: File) -> None:
        """Build a wheel, which `wheel` returns from then on.

        :param file: as `wheel` returned it.
        :raises WheelfitError: the source cannot be fetched, or its backend failed.
        """
        package = self._packages[file.url, file.filename]
        building = self._deferred.building
        building.allow([package.name])
        if file.origin is not None and file.origin.direct_url is not None:
            file = building.given(_given_source(package, file)).file
        self._built[package.name] = building.build(file)


def _given_source(package: LockedPackage, file: File) -> DirectSource:
    source = package.source
    hashes = frozenset(file.hashes.items())
    is_editable = source is not None and source.editable
    return DirectSource(
        file.url, package.name, hashes=hashes, editable=is_editable, where="the lock"
    )
