"""Requirements on folders, archives and repositories, as roots of a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.markers import Marker, parse_marker
from wheelfit.core.requirements import Requirement
from wheelfit.locking.request import Root
from wheelfit.locking.stand_ins import stand_in_of
from wheelfit.operations.requirements import source_of
from wheelfit.projects.names import is_repository_url
from wheelfit.resolution.listing import provisional_filename
from wheelfit.resolution.request import DirectSource, RequestedRequirement, direct_wheel
from wheelfit.sources.urls import last_segment
from wheelfit_runtime.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.locking.document import Lock
    from wheelfit.projects.version_control import RepositoryUrl
    from wheelfit.resolution.project_sources import ProjectSource
    from wheelfit.resolution.request import DirectWheel


def open_locked_source(
    source: DirectSource,
    open_on_machine: Callable[[DirectSource], DirectWheel],
    existing: Lock | None,
    folder: Path,
    upgradable: Collection[NormalizedName] | None,
) -> DirectWheel:
    """Return the wheel that represents a project on all machines.

    For a repository, the commit of an older lock for the same revision is kept, as long as it is
    available.

    :param open_on_machine: returns the wheel that represents a project on this machine.
    :param existing: the older lock; None if there is none.
    :param folder: the folder of the lock, to which its paths are relative.
    :param upgradable: names of projects whose commit may change; None: all may.
    """
    if existing is not None and upgradable is not None and is_repository_url(source.url):
        from wheelfit.projects.version_control import parse_repository_url

        requested = parse_repository_url(source.url, where=source.where)
        commit = _locked_commit(requested, existing, folder, upgradable)
        if commit is not None:
            at_commit = structs.replace(source, url=_at_commit(source.url, requested, commit))
            try:
                return _as_unbuilt(_as_requested(open_on_machine(at_commit), requested, commit))
            except NetworkError as error:
                if error.reference != "checkout-failed":
                    raise
    return _as_unbuilt(open_on_machine(source))


def source_root(source: DirectSource, open_wheel: Callable[[DirectSource], DirectWheel]) -> Root:
    """Return the root of a lock for a requested folder, archive or repository."""
    wheel = open_wheel(source)
    requirement = Requirement(wheel.requirement().name, source.extras, marker=source.marker)
    return Root(requirement, source.where, wheel=wheel)


def with_project_sources(
    root: Root,
    sources: Mapping[NormalizedName, Sequence[ProjectSource]],
    open_wheel: Callable[[DirectSource], DirectWheel],
) -> Iterator[Root]:
    """Yield a root of a project, and a copy for each source that the project's tables list.

    A root with a URL has that as its only source.

    :param sources: the sources in the tables of the project, by name.
    """
    requirement = root.requirement
    without_marker = structs.replace(requirement, marker=None)
    url_source = source_of(RequestedRequirement(without_marker, root.where))
    if url_source is not None:
        yield _with_source(root, url_source, None, open_wheel)
        return
    yield root  # for machines on which no marker of a source matches
    if requirement.url is not None:
        return
    for source in sources.get(requirement.name, ()):
        if source.extra not in (None, root.extra) or source.group not in (None, root.group):
            continue
        if last_segment(source.url).endswith(".whl"):
            wheel = direct_wheel(source.url, where=root.where)
            marked = _with_marker(requirement, source.marker)
            yield structs.replace(root, requirement=marked, wheel=wheel)
            continue
        direct_source = DirectSource(
            source.url, requirement.name, editable=source.editable, where=root.where
        )
        yield _with_source(root, direct_source, source.marker, open_wheel)


def _with_source(
    root: Root,
    source: DirectSource,
    marker: Marker | None,
    open_wheel: Callable[[DirectSource], DirectWheel],
) -> Root:
    """Return a root with the wheel of a source; extras are left to the requirement."""
    wheel = open_wheel(structs.replace(source, extras=frozenset()))
    requirement = _with_marker(structs.replace(root.requirement, url=None), marker)
    return structs.replace(root, requirement=requirement, wheel=wheel)


def _with_marker(requirement: Requirement, marker: Marker | None) -> Requirement:
    """Return a requirement that applies only if a second marker matches, too."""
    if marker is None:
        return requirement
    first_marker = requirement.marker
    combined = marker if first_marker is None else parse_marker(f"({first_marker}) and ({marker})")
    return structs.replace(requirement, marker=combined)


def _locked_commit(
    requested: RepositoryUrl, existing: Lock, folder: Path, upgradable: Collection[NormalizedName]
) -> str | None:
    """Return the commit that a lock has for the revision of a repository; None if it has none."""
    stand_in = stand_in_of(folder)
    for package in existing.packages:
        source = package.source
        if source is None or source.kind != "vcs" or package.name in upgradable:
            continue
        locked = source.requested_revision, source.subdirectory.strip("/")
        if locked != (requested.revision, requested.subdirectory):
            continue
        origin = stand_in(package).origin
        if origin is not None and (origin.direct_url or {}).get("url") == requested.url:
            return source.commit
    return None


def _at_commit(url: str, requested: RepositoryUrl, commit: str) -> str:
    """Return the URL of a repository at a commit, with any login of the URL."""
    bare, hash_sign, fragment = url.partition("#")
    if requested.revision is not None:
        bare = bare.rpartition("@")[0]
    return f"{bare}@{commit}{hash_sign}{fragment}"


def _as_requested(wheel: DirectWheel, requested: RepositoryUrl, commit: str) -> DirectWheel:
    """Return a wheel of a repository with the requested revision in its ``direct_url.json``."""
    origin = wheel.file.origin
    if origin is None:
        return wheel
    origin = structs.replace(origin, name=str(requested), direct_url=requested.direct_url(commit))
    return structs.replace(wheel, file=structs.replace(wheel.file, origin=origin))


def _as_unbuilt(wheel: DirectWheel) -> DirectWheel:
    """Return the wheel of a project as if it were not built yet, so that it fits all machines."""
    origin = wheel.file.origin
    if origin is None or not origin.is_built:
        return wheel
    filename = parse_wheel_filename(wheel.file.filename)
    placeholder = provisional_filename(filename.name, filename.version)
    unbuilt = structs.replace(
        wheel.file, filename=placeholder, origin=structs.replace(origin, is_built=False)
    )
    return structs.replace(wheel, file=unbuilt)
