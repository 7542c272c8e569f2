"""Stand-ins for the wheels that are to be built from the sources of a lock."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import replace
from packaging.version import Version

from wheelfit.locking.repository import url_of_entry
from wheelfit.resolution.listing import provisional_filename
from wheelfit.sources.page import File, WheelOrigin
from wheelfit.sources.urls import file_path, redact

if TYPE_CHECKING:
    from collections.abc import Callable

    from wheelfit.locking.document import LockedPackage, LockedSource

_UNKNOWN_VERSION = Version("0")
"""The version of a source whose version only a build shows."""
_REPOSITORY_SCHEMES = ("ssh", "git")
"""URL schemes that only repositories have."""


def stand_in_of(folder: Path | None) -> Callable[[LockedPackage], File]:
    """Return a function that returns a stand-in wheel for a source of a lock, without opening it.

    :param folder: the folder of the lock file; None: the lock is not a local file.
    """
    return partial(_stand_in, folder)


def _stand_in(folder: Path | None, package: LockedPackage) -> File:
    source = package.source
    if source is None:
        raise ValueError(package)
    url, origin = _location(source, package, folder)
    version = package.version or _version_in(source, url)
    if version is None:
        version, origin = _UNKNOWN_VERSION, replace(origin, has_version=False)
    return File(
        provisional_filename(package.name, version),
        url,
        source.hashes,
        size=source.size,
        source="the lock",
        origin=origin,
    )


def _location(
    source: LockedSource, package: LockedPackage, folder: Path | None
) -> tuple[str, WheelOrigin]:
    """Return the URL of a source, and the origin of its wheel."""
    if source.kind == "vcs":
        return _repository(source, package, folder)
    url = url_of_entry(source, source.filename or package.name, where="the lock", folder=folder)
    if source.kind == "sdist":
        return url, WheelOrigin(source.filename)
    if source.kind == "archive":
        subdirectory = {"subdirectory": source.subdirectory} if source.subdirectory else {}
        direct_url = {"url": url, "archive_info": {"hashes": dict(source.hashes)}, **subdirectory}
        fragment = f"#subdirectory={source.subdirectory}" if source.subdirectory else ""
        return url + fragment, WheelOrigin(redact(url), direct_url)
    if source.subdirectory:
        url = f"{url.rstrip('/')}/{source.subdirectory.strip('/')}"
    dir_info = {"editable": True} if source.editable else {}
    return url, WheelOrigin(file_path(url), {"url": url, "dir_info": dir_info})


def _repository(
    source: LockedSource, package: LockedPackage, folder: Path | None
) -> tuple[str, WheelOrigin]:
    from wheelfit.projects.version_control import parse_repository_url

    if source.url is not None and urlsplit(source.url).scheme in _REPOSITORY_SCHEMES:
        address = source.url
    else:
        address = url_of_entry(source, package.name, where="the lock", folder=folder)
    fragment = f"#subdirectory={source.subdirectory}" if source.subdirectory else ""
    url = f"{source.system}+{address}@{source.commit}{fragment}"
    repository = parse_repository_url(url, where="the lock")
    return url, WheelOrigin(str(repository), repository.direct_url(source.commit))


def _version_in(source: LockedSource, url: str) -> Version | None:
    """Return the static version of a directory, without its backend."""
    from wheelfit.projects.static_metadata import core_metadata_of, read_pyproject_metadata

    data = read_pyproject_metadata(Path(file_path(url))) if source.kind == "directory" else None
    return None if data is None else core_metadata_of(data, url).version
