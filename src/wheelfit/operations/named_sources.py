"""Projects that a lock is made for, named as folders, archives or repositories."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.markers import parse_marker
from wheelfit.core.requirements import Requirement
from wheelfit.locking.request import Root
from wheelfit.locking.stand_ins import stand_in_of
from wheelfit.operations.requirements import source_of
from wheelfit.projects.names import is_repository_url
from wheelfit.resolution.listing import made_up_name
from wheelfit.resolution.request import GivenSource, RequestedRequirement, given_wheel
from wheelfit.sources.urls import last_segment
from wheelfit_runtime.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.core.markers import Marker
    from wheelfit.locking.document import Lock
    from wheelfit.projects.version_control import RepositoryUrl
    from wheelfit.resolution.project_sources import ProjectSource
    from wheelfit.resolution.request import GivenWheel


def open_named(
    source: GivenSource,
    given: Callable[[GivenSource], GivenWheel],
    old: Lock | None,
    folder: Path,
    free: Collection[NormalizedName] | None,
) -> GivenWheel:
    """Return the wheel that represents a project on every machine.

    For a repository, the commit of an older lock for the same revision is kept, as long as it is
    available.

    :param given: opens it, and returns the wheel that represents it here.
    :param old: the older lock; None: there is none.
    :param free: names of projects whose commit need not stay; None: none need.
    """
    if old is None or free is None or not is_repository_url(source.url):
        return _as_unbuilt(given(source))
    from wheelfit.projects.version_control import parse_repository_url

    wanted = parse_repository_url(source.url, where=source.where)
    commit = _locked_commit(wanted, old, folder, free)
    if commit is None:
        return _as_unbuilt(given(source))
    try:
        wheel = given(structs.replace(source, url=_at(source.url, wanted, commit)))
    except NetworkError as error:
        if error.reference != "checkout-failed":
            raise
        return _as_unbuilt(given(source))
    return _as_unbuilt(_as_requested(wheel, wanted, commit))


def root_of(source: GivenSource, opened: Callable[[GivenSource], GivenWheel]) -> Root:
    """Return the root of a lock for a named project."""
    wheel = opened(source)
    named = Requirement(wheel.requirement().name, source.extras, marker=source.marker)
    return Root(named, source.where, wheel=wheel)


def from_sources(
    root: Root,
    sources: Mapping[NormalizedName, Sequence[ProjectSource]],
    opened: Callable[[GivenSource], GivenWheel],
) -> Iterator[Root]:
    """Yield a requirement as its project's tables have it: of a folder, archive or repository."""
    requirement = root.requirement
    bare = structs.replace(requirement, marker=None)
    named = source_of(RequestedRequirement(bare, root.where))
    if named is not None:
        yield _from(root, named, None, opened)
        return
    yield root  # without a matching marker of a source, it is used alone
    for one in sources.get(requirement.name, ()) if requirement.url is None else ():
        if one.extra not in (None, root.extra) or one.group not in (None, root.group):
            continue
        if last_segment(one.url).endswith(".whl"):
            wheel = given_wheel(one.url, where=root.where)
            yield replace(root, requirement=_limited(requirement, one.marker), wheel=wheel)
            continue
        given = GivenSource(one.url, requirement.name, editable=one.editable, where=root.where)
        yield _from(root, given, one.marker, opened)


def _from(
    root: Root,
    source: GivenSource,
    marker: Marker | None,
    opened: Callable[[GivenSource], GivenWheel],
) -> Root:
    """Return a requirement with the wheel of its source; extras are its own."""
    wheel = opened(structs.replace(source, extras=frozenset()))
    requirement = _limited(structs.replace(root.requirement, url=None), marker)
    return replace(root, requirement=requirement, wheel=wheel)


def _limited(requirement: Requirement, marker: Marker | None) -> Requirement:
    """Return a requirement that applies only if a marker matches, too."""
    if marker is None:
        return requirement
    own = requirement.marker
    both = marker if own is None else parse_marker(f"({own}) and ({marker})")
    return structs.replace(requirement, marker=both)


def _locked_commit(
    wanted: RepositoryUrl, old: Lock, folder: Path, free: Collection[NormalizedName]
) -> str | None:
    """Return the commit that a lock has for the revision of a repository; None: it has none."""
    stand_in = stand_in_of(folder)
    for package in old.packages:
        source = package.source
        if source is None or source.kind != "vcs" or package.name in free:
            continue
        asked_for = source.requested_revision, source.subdirectory.strip("/")
        if asked_for != (wanted.revision, wanted.subdirectory):
            continue
        origin = stand_in(package).origin
        if origin is not None and (origin.direct_url or {}).get("url") == wanted.url:
            return source.commit
    return None


def _at(url: str, wanted: RepositoryUrl, commit: str) -> str:
    """Return the URL of a repository at a commit, with the login that it has."""
    bare, hash_, fragment = url.partition("#")
    if wanted.revision is not None:
        bare = bare.removesuffix(f"@{wanted.revision}")
    return f"{bare}@{commit}{hash_}{fragment}"


def _as_requested(wheel: GivenWheel, wanted: RepositoryUrl, commit: str) -> GivenWheel:
    """Return a wheel of a repository with the requested revision in its record."""
    origin = wheel.file.origin
    if origin is None:
        return wheel
    origin = structs.replace(origin, name=str(wanted), direct_url=wanted.record(commit))
    return structs.replace(wheel, file=structs.replace(wheel.file, origin=origin))


def _as_unbuilt(wheel: GivenWheel) -> GivenWheel:
    """Return the file of a project that fits every machine, though it was built for this one."""
    origin = wheel.file.origin
    if origin is None or not origin.is_built:
        return wheel
    filename = parse_wheel_filename(wheel.file.filename)
    made_up = made_up_name(filename.name, filename.version)
    unbuilt = structs.replace(
        wheel.file, filename=made_up, origin=structs.replace(origin, is_built=False)
    )
    return structs.replace(wheel, file=unbuilt)
