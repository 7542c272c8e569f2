"""The proof that a lock is up to date, without resolving again.

A resolution depends on the request and on the pages of its sources: for locked projects, on the
files of the locked releases, since these versions stay while they meet the request; for other
examined projects, on all files. If none of them has changed, the same lock would be written again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelfit.core.filename import parse_index_file_name, sdist_release
from wheelfit.core.versions import parse_version, without_build
from wheelfit.sources.concurrency import map_concurrently
from wheelfit.sources.file_readers import RepositoryWrapper
from wheelfit.sources.page import VARIANTS_SUFFIX, File, ProjectPage
from wheelfit.sources.release_files import PageFiles
from wheelfit.sources.repository import Repository, stamp_of
from wheelfit.sources.urls import file_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wheelfit.locking.document import Lock

_CONNECTIONS = 12
"""The most pages that are requested at the same time."""


class RecordingRepository(RepositoryWrapper):
    """A repository that records the projects whose pages were read."""

    def __init__(self, repository: Repository) -> None:
        super().__init__(repository)
        self.names: set[NormalizedName] = set()

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, or None if it is not known."""
        self.names.add(name)
        return super().project(name)


class Validator(NamedTuple):
    """The part of a project's listing on which a lock depends."""

    digest: str
    """The digest of that part; empty: no source has the project."""
    stamp: str = ""
    """The result of `wheelfit.sources.repository.stamp_of` for the page; empty: none."""
    fresh_seconds: float = 0.0
    """Seconds for which the page need not be requested again; 0 if several sources have it."""


def read_validators(
    lock: Lock, names: Iterable[NormalizedName], repository: Repository
) -> dict[str, Validator]:
    """Read the validators of projects.

    :param names: the projects that were examined for the lock.
    :raises WheelfitError: a source cannot be read.
    """
    versions = _versions(lock)
    all_names = sorted({*names, *versions})
    read = partial(_validator, repository, versions)
    return dict(
        zip(map(str, all_names), map_concurrently(all_names, read, most=_CONNECTIONS), strict=True)
    )


def is_valid(
    lock: Lock,
    expected: Mapping[str, Validator],
    repository: Repository,
    is_fresh: Callable[[NormalizedName], bool] = lambda _name: False,
) -> bool:
    """Return whether the pages of all projects are unchanged.

    An unchanged page is not parsed.

    :param expected: the result of `read_validators`.
    :param is_fresh: returns whether the page of a project is still fresh, if its index allows
        caching.
    :raises WheelfitError: a source cannot be read.
    """
    versions = _versions(lock)

    def is_same(name: NormalizedName) -> bool:
        validator = expected[name]
        if validator.stamp and stamp_of(repository, name) == validator.stamp:
            return True
        return _validator(repository, versions, name).digest == validator.digest

    names = map(canonicalize_name, expected)
    names_to_check = [
        name for name in names if not (expected[name].fresh_seconds and is_fresh(name))
    ]
    return all(map_concurrently(names_to_check, is_same, most=_CONNECTIONS))


def _versions(lock: Lock) -> Mapping[NormalizedName, AbstractSet[Version]]:
    versions: dict[NormalizedName, set[Version]] = {}
    for package in lock.packages:
        if package.version is not None:
            versions.setdefault(package.name, set()).add(package.version)
    return versions


def request_digest(*parts: object) -> str:
    """Return a digest of a request; equal requests have equal digests in every process.

    :param parts: the values that decide the resolution besides the sources: frozen dataclasses,
        mappings, sets, sequences, and values with an unambiguous text.
    """
    text = json.dumps(list(map(_as_json, parts)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def version_in_filename(filename: str) -> Version | None:
    """Return the version in the name of a wheel, index file or source distribution; else None."""
    if filename.endswith(".whl"):
        parts = filename.split("-", 2)
        return _parse_version(parts[1]) if len(parts) == 3 else None
    release = parse_index_file_name(filename) or sdist_release(filename)
    return None if release is None else release[1]


def files_of_releases(page: ProjectPage, versions: Iterable[Version]) -> Iterable[File]:
    """Return the files of some releases, possibly with files of others that were read with them."""
    # Joined builds, such as 2.9+cu126 and 2.9+cu128, are of one release with several versions.
    if isinstance(page.files, PageFiles) and not page.has_joined_builds:
        return page.files.of(versions)
    return page.files


@lru_cache(maxsize=8192)
def _parse_version(text: str) -> Version | None:
    try:
        return parse_version(text.replace("_", "-"))
    except InvalidVersion:
        return None


def _validator(
    repository: Repository,
    versions: Mapping[NormalizedName, AbstractSet[Version]],
    name: NormalizedName,
) -> Validator:
    page = repository.project(name)
    if page is None:
        return Validator("")
    files = page.files
    if name in versions:
        # Builds from an index of the owner differ in their local versions only.
        has_builds = page.bridge is not None and page.bridge.is_of_indexes
        files = tuple(
            file
            for file in files_of_releases(page, versions[name])
            for version in [version_in_filename(file.filename)]
            if version in versions[name]
            or (has_builds and version and without_build(version) in versions[name])
        )
    rows = sorted(json.dumps(_row(file, repository)) for file in files)
    digest = request_digest(page.source, page.bridge, page.status, rows)
    # Files without a hash on the page are read each time, but selectors are made by wheelfit.
    is_reliable = all(file.hashes or file.is_selector for file in files)
    return Validator(digest, page.stamp, page.fresh_seconds) if is_reliable else Validator(digest)


def _row(file: File, repository: Repository) -> list[object]:
    """Return the data of a file on a page, with its state if the page has no hash of it."""
    content: object = sorted(file.hashes.items())
    if file.is_selector:
        content = ""
    elif not file.hashes and file.is_local:
        status = Path(file_path(file.url)).stat()
        content = [status.st_size, status.st_mtime_ns]
    elif not file.hashes and file.filename.endswith(VARIANTS_SUFFIX):
        content = hashlib.sha256(repository.read(file)).hexdigest()
    return [
        file.filename,
        file.url,
        content,
        file.requires_python,
        file.yanked,
        file.size,
        file.upload_time,
        sorted((file.metadata_hashes or {}).items()),
        None if file.declared_document is None else file.declared_document.hex(),
    ]


def _as_json(value: object) -> Any:
    """Return a value as JSON, with sets and mappings in a fixed order."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, FunctionType):
        # The functions in a request return hints for errors, which do not affect the lock.
        return value.__qualname__
    if isinstance(value, Struct):
        return _fields_as_json(value, value.__struct_fields__)
    if fields := getattr(value, "__dataclass_fields__", None):
        return _fields_as_json(value, fields)
    if isinstance(value, Mapping):
        pairs = [[_as_json(key), _as_json(item)] for key, item in value.items()]
        return sorted(pairs, key=json.dumps)
    if isinstance(value, AbstractSet):
        return sorted(map(_as_json, value), key=json.dumps)
    if isinstance(value, (list, tuple)):
        return list(map(_as_json, value))
    return str(value)


def _fields_as_json(value: object, names: Iterable[str]) -> list[Any]:
    return [type(value).__name__, [[name, _as_json(getattr(value, name))] for name in names]]
