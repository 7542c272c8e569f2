"""Builds of the sources that a lock names, each once it is to be installed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from packaging.version import Version

from wheelfit.locking.repository import address_of
from wheelfit.resolution.listing import made_up_name
from wheelfit.resolution.request import GivenSource
from wheelfit.sources.page import File, Origin
from wheelfit.sources.urls import file_path, redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packaging.utils import NormalizedName

    from wheelfit.installation.builds.consent import Consent
    from wheelfit.installation.builds.deferred import DeferredBuilding
    from wheelfit.locking.document import LockedPackage, LockedSource
    from wheelfit.sources.repository import Files

_UNKNOWN = Version("0")
"""The version of what says it only when it is built."""
_OF_REPOSITORIES = ("ssh", "git")
"""Schemes of URLs of repositories, and of nothing else."""


class LockedBuilds:
    """The wheels that stand for the sources of a lock, built only if they are to be installed.

    :param deferred: builds wheels.
    :param consent: what may be built; to be named in a lock is no consent.
    :param folder: the folder of the lock file.
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
        """Return the wheel of a source, by its true name once it is built.

        :param package: an entry with a source.
        :raises FileProblem: the lock names a place that may or can not be read.
        """
        built = self._built.get(package.name)
        if built is not None:
            return built
        file = self._stand_in(package)
        self._packages[file.url, file.filename] = package
        return file

    @property
    def mode(self) -> str:
        """What is done about sources whose package nobody named."""
        return self._consent.mode

    @property
    def impossible(self) -> str:
        """Why nothing can be built; empty: it can."""
        return self._deferred.impossible

    def needs_consent(self, file: File) -> bool:
        """Return whether a wheel would have to be built, and may not be.

        :param file: as listed.
        """
        if not self.is_unbuilt(file):
            return False
        name = self._packages[file.url, file.filename].name
        is_allowed = name in self._consent.names or name in self._allowed
        return not (is_allowed or self.mode == "always") or bool(self.impossible)

    def knows_needs(self, file: File) -> bool:  # noqa: ARG002 - of any file
        """Return that the needs are known: the lock has them."""
        return True

    def allow(self, names: Iterable[NormalizedName]) -> None:
        """Allow builds of some packages.

        :param names: of the packages.
        """
        self._allowed.update(names)

    def is_unbuilt(self, file: File) -> bool:
        """Return whether a wheel must be built before it can be installed.

        :param file: as listed.
        """
        return self._deferred.is_unbuilt(file)

    def build(self, file: File) -> None:
        """Build a wheel; from then on `wheel` returns it by its true name.

        :param file: as `wheel` returned it.
        :raises WheelfitError: the source cannot be had, or its backend failed.
        """
        package = self._packages[file.url, file.filename]
        building = self._deferred.building
        building.allow([package.name])
        if file.origin is not None and file.origin.direct_url is not None:
            file = building.given(_given(package, file)).file
        self._built[package.name] = building.build(file)


def stand_in_of(folder: Path | None) -> Callable[[LockedPackage], File]:
    """Return what makes the wheels that stand for sources of a lock, without opening any.

    :param folder: the folder of the lock file; None: it came from elsewhere.
    """
    return partial(_stand_in, folder)


def _stand_in(folder: Path | None, package: LockedPackage) -> File:
    source = package.source
    if source is None:
        raise ValueError(package)
    url, origin = _place(source, package, folder)
    version = package.version or _version_in(source, url)
    if version is None:
        version, origin = _UNKNOWN, replace(origin, has_version=False)
    return File(
        made_up_name(package.name, version),
        url,
        source.hashes,
        size=source.size,
        source="the lock",
        origin=origin,
    )


def _place(source: LockedSource, package: LockedPackage, folder: Path | None) -> tuple[str, Origin]:
    """Return the URL of a source, and what is built from there."""
    if source.kind == "vcs":
        return _repository(source, package, folder)
    url = address_of(source, source.filename or package.name, where="the lock", folder=folder)
    if source.kind == "sdist":
        return url, Origin(source.filename)
    within = {"subdirectory": source.subdirectory} if source.subdirectory else {}
    if source.kind == "archive":
        record = {"url": url, "archive_info": {"hashes": dict(source.hashes)}, **within}
        fragment = f"#subdirectory={source.subdirectory}" if source.subdirectory else ""
        return url + fragment, Origin(redact(url), record)
    if source.subdirectory:
        url = f"{url.rstrip('/')}/{source.subdirectory.strip('/')}"
    about = {"editable": True} if source.editable else {}
    return url, Origin(file_path(url), {"url": url, "dir_info": about})


def _repository(
    source: LockedSource, package: LockedPackage, folder: Path | None
) -> tuple[str, Origin]:
    from wheelfit.projects.version_control import parse_repository_url

    if source.url is not None and urlsplit(source.url).scheme in _OF_REPOSITORIES:
        address = source.url
    else:
        address = address_of(source, package.name, where="the lock", folder=folder)
    fragment = f"#subdirectory={source.subdirectory}" if source.subdirectory else ""
    url = f"{source.system}+{address}@{source.commit}{fragment}"
    repository = parse_repository_url(url, where="the lock")
    return url, Origin(str(repository), repository.record(source.commit))


def _version_in(source: LockedSource, url: str) -> Version | None:
    """Return the version that a directory says it has, without asking its backend."""
    from wheelfit.projects.static_metadata import core_metadata_of, of_project_file

    data = of_project_file(Path(file_path(url))) if source.kind == "directory" else None
    return None if data is None else core_metadata_of(data, url).version


def _given(package: LockedPackage, file: File) -> GivenSource:
    source = package.source
    hashes = frozenset(file.hashes.items())
    is_editable = source is not None and source.editable
    return GivenSource(
        file.url, package.name, hashes=hashes, editable=is_editable, where="the lock"
    )
