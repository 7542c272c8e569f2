"""Comparison of families of distributions with the registry and the indexes of their members.

Only pages, metadata and the central directories of wheels are read.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name

from wheelfit.core.core_metadata import CoreMetadata, read_metadata
from wheelfit.core.filename import WheelFilename, parse_wheel_filename, wheel_filename_of
from wheelfit.operations.indexes import open_indexes, read_settings, settings_for_source
from wheelfit.operations.plain_data import PlainReport
from wheelfit.operations.requests import SourceOptions
from wheelfit.sources.bridges.catalogue import known_families
from wheelfit.sources.concurrency import map_concurrently
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import WheelfitError
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packaging.version import Version

    from wheelfit.core.bridges import BridgeFamily, FamilyMember
    from wheelfit.operations.context import Context
    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.repository import Repository

_Wheels: TypeAlias = "list[tuple[WheelFilename, File]]"
_MOST = 8
"""Families, or projects of a family, that are read at the same time."""
_SHARED = frozenset({"nvidia/__init__.py"})
"""Files that distributions of one vendor share; they are not compared."""
_MAJOR = pattern(
    r"-cu(?:da)?(1[1-9])x?\b"  # nvidia-nccl-cu12, cupy-cuda12x
    r"|\[cu(1[1-9])\]"  # numba-cuda[cu12]
    r"|^cuda-toolkit .*==\ ?(1[1-9])"  # cuda-toolkit[cublas]==12.*
    r"|^nvidia-(?:cublas|cuda-runtime|cuda-nvrtc)\b(?!-).*?(?:==|~=)\ ?(1[1-9])\."
)
"""The CUDA major of a requirement."""


class CheckBridgesRequest(SourceOptions):
    """The families to check, and the registry to compare them with."""

    names: tuple[str, ...] = ()
    """Names, or paths of files; none: every shipped family."""


@dataclass(slots=True)
class FamilyCheck:
    """The result of checking a family."""

    family: BridgeFamily
    newest: dict[str, str] = field(default_factory=dict)
    """The newest release of each distribution, or of each project at each place."""
    faults: list[str] = field(default_factory=list)
    """False statements in the file of the family, each as a clause."""

    def to_json(self) -> dict[str, object]:
        """Return the object of a family in ``--json``."""
        return {"name": self.family.name, "newest": self.newest, "faults": self.faults}


@dataclass(frozen=True, slots=True)
class BridgeChecksReport(PlainReport):
    """The result of checking each family."""

    families: tuple[FamilyCheck, ...]

    @property
    def has_faults(self) -> bool:
        """Whether the file of a family has a false statement."""
        return any(check.faults for check in self.families)


def check_bridges(request: CheckBridgesRequest, context: Context) -> BridgeChecksReport:
    """Compare families with the registry and the indexes of their members.

    :raises InvalidDocument: ``invalid-bridge``; a file does not describe a family.
    :raises NetworkError: the registry cannot be read.
    """
    catalogue = known_families(context.environ, shipped_bridges=request.shipped_bridges)
    families = [catalogue.find(name) for name in request.names or catalogue.names()]
    settings = read_settings(request, context.environ)
    without_bridges = request.with_options(no_bridges=True)
    with ExitStack() as stack:

        @cache
        def open_place(url: str, *, is_page: bool = False) -> Repository:
            place_settings = (
                settings_for_source(settings, url, is_page=is_page) if url else settings
            )
            return stack.enter_context(open_indexes(without_bridges, place_settings, context))

        registry = open_place("")

        def check(family: BridgeFamily) -> FamilyCheck:
            if family.is_of_indexes:
                return _check_indexes(family, open_place)
            return check_names(family, registry)

        return BridgeChecksReport(tuple(map_concurrently(families, check, most=_MOST)))


# --- families of names ---------------------------------------------------------------------


def check_names(family: BridgeFamily, registry: Repository) -> FamilyCheck:
    """Compare a family, whose members differ in their names, with the registry.

    :raises NetworkError: the registry cannot be read.
    """
    check = FamilyCheck(family)
    pages = {name: registry.project(name) for name in family.distributions}
    releases = {name: _releases(page) for name, page in pages.items()}
    for name, versions in releases.items():
        if versions:
            check.newest[name] = str(max(versions))
        else:
            check.faults.append(f"{name} has no wheels")
    extras: set[str] = set()
    contents = {}
    for member in family.members:
        published = releases[member.distribution]
        matching = [version for version in published if member.covers_release(family.name, version)]
        if not matching:
            if published:
                check.faults.append(f"no release of {member.distribution} is {member.versions}")
            continue
        newest = max(matching)
        wheels = [wheel for wheel in published[newest] if member.covers_tags(wheel[0].tags)]
        if not wheels:
            check.faults.append(
                f"{member.distribution} {newest} has no wheel for {listed(member.platforms, 'or')}"
            )
            continue
        _, file = max(wheels, key=_platform_preference)
        core = read_metadata(registry.metadata(file), file.filename)
        extras |= core.provides_extra
        check.faults += _contradictions(member, core)
        contents[member.distribution] = _files(registry, file)
    check.faults += [
        f"no member has the extra {extra}" for extra in family.extras if extra not in extras
    ]
    pairs = itertools.combinations(contents.values(), 2)
    has_shared_files = any((left & right) - _SHARED for left, right in pairs)
    # Members of an exclusive family own the same files, so only one can be installed.
    if len(contents) > 1 and has_shared_files != family.exclusive:
        verb = "own" if has_shared_files else "do not own"
        value = str(family.exclusive).lower()
        check.faults.append(f"exclusive is {value}, but members {verb} the same files")
    return check


def _releases(page: ProjectPage | None) -> Mapping[Version, _Wheels]:
    """Return the wheels of final releases, or of all releases if none is final."""
    releases: dict[Version, _Wheels] = {}
    for filename, file in _wheels(page):
        releases.setdefault(filename.version, []).append((filename, file))
    final = {version: wheels for version, wheels in releases.items() if not version.is_prerelease}
    return final or releases


def _wheels(page: ProjectPage | None) -> Iterator[tuple[WheelFilename, File]]:
    for file in () if page is None else page.files:
        if file.yanked is None and (filename := wheel_filename_of(file.filename)) is not None:
            yield filename, file


def _platform_preference(wheel: tuple[WheelFilename, File]) -> tuple[bool, str]:
    """Return the sort key that puts the wheel for x86-64 Linux last."""
    platforms = {tag.platform for tag in wheel[0].tags}
    is_preferred = any("linux" in platform and "x86_64" in platform for platform in platforms)
    return is_preferred, wheel[0].text.split("-", 2)[2]


def _contradictions(member: FamilyMember, core: CoreMetadata) -> Iterator[str]:
    """Yield requirements of a member that contradict its rule."""
    bounds = member.when.values("nvidia", "cuda_version_lower_bound")
    required = {
        group
        for text in core.requires_texts
        for match in _MAJOR.finditer(text)
        for group in match.groups()
        if group is not None
    }
    majors = {bound.partition(".")[0] for bound in bounds}
    if required and majors and not majors & required:
        yield (
            f"{core.name} {core.version} needs libraries of CUDA {', '.join(sorted(required))}, "
            f"but its rule is for {', '.join(sorted(majors))}"
        )
    missing_extras = [extra for extra in member.extras if extra not in core.provides_extra]
    if missing_extras:
        yield f"{core.name} {core.version} has no extra {listed(missing_extras, 'or')}"
    cuda_requirements = {
        text for text in core.requires_texts if "extra" not in text and _MAJOR.search(text)
    }
    if cuda_requirements and not member.when and member.distribution.endswith("-cpu"):
        yield f"{core.name} {core.version} needs {min(cuda_requirements)}, but is for any machine"


def _files(registry: Repository, file: File) -> set[str]:
    filename = parse_wheel_filename(file.filename)
    with (
        closing(registry.open(file)) as content,
        WheelArchive(content, filename, where=file.filename) as archive,
    ):
        return {name for name in archive.names() if ".dist-info/" not in name}


# --- families of indexes -------------------------------------------------------------------


class _OpenPlace(Protocol):
    """A function that opens an index or a page; with an empty URL, the registry."""

    def __call__(self, url: str, *, is_page: bool = False) -> Repository: ...


def _check_indexes(family: BridgeFamily, open_place: _OpenPlace) -> FamilyCheck:
    """Compare a family of indexes with the places of its members."""
    check = FamilyCheck(family)
    by_place: dict[str, list[FamilyMember]] = {}
    for member in family.members:
        if not member.files:  # wheels on no page cannot be compared
            by_place.setdefault(member.location, []).append(member)
    hosts: set[str] = set()
    unreadable: dict[str, list[str]] = {}
    for place, members in by_place.items():
        # The registry, a URL, or a path below the base of the family.
        url = place if not place or "://" in place else f"{family.base}/{place}"
        repository = open_place(url, is_page=bool(members[0].page))
        try:
            pages = _pages(family, members, repository)
        except WheelfitError as error:
            unreadable.setdefault(error.message, []).append(place or "the registry")
            continue
        used: set[FamilyMember] = set()
        for page in pages:
            used |= _check_page(family, place, page, check)
            if place:
                hosts |= {str(urlsplit(file.url).hostname) for _, file in _wheels(page)}
        for member in members:
            # In the registry, a member for any machine may be source only.
            if member not in used and (place or member.when):
                rule = f"{member.label} {member.versions} {' '.join(member.platforms)}".strip()
                check.faults.append(f"no wheel in {place or 'the registry'} matches {rule}")
    check.faults += [f"{listed(places)}: {reason}" for reason, places in unreadable.items()]
    other_hosts = hosts.difference(family.only_hosts)
    if family.only_hosts and other_hosts:
        check.faults.append(
            f"files are on {listed(sorted(other_hosts))}, which hosts does not name"
        )
    check.faults += _unknown_builds(family, open_place(family.base))
    return check


def _pages(
    family: BridgeFamily, members: Sequence[FamilyMember], repository: Repository
) -> list[ProjectPage]:
    """Return the pages of the projects of members; projects with ``*`` have none."""
    names = {name for member in members for name in member.projects or family.projects}
    projects = [canonicalize_name(name) for name in sorted(names) if "*" not in name]
    return [
        page
        for page in map_concurrently(projects, repository.project, most=_MOST)
        if page is not None
    ]


def _check_page(
    family: BridgeFamily, place: str, page: ProjectPage, check: FamilyCheck
) -> set[FamilyMember]:
    """Return the members with wheels on a page; report a newest wheel without a member."""
    used: set[FamilyMember] = set()
    newest: Version | None = None
    unmatched: dict[Version, str] = {}
    for filename, _ in _wheels(page):
        version = filename.version
        if version.is_prerelease:
            continue
        newest = version if newest is None else max(newest, version)
        members = [
            member
            for member in family.members_of(version, page.name)
            if member.location == place
            and member.covers_tags(filename.tags)
            and member.local in ("", version.local)
        ]
        used.update(members)
        if not members and place:
            unmatched[version] = filename.text
    if newest is not None:
        check.newest[f"{page.name} in {place or 'the registry'}"] = str(newest)
    if newest in unmatched:
        check.faults.append(f"{unmatched[newest]} in {place} matches no member")
    return used


def _unknown_builds(family: BridgeFamily, root: Repository) -> Iterator[str]:
    """Yield the builds without a member on the page of the base index, which lists all builds."""
    with_member = {member.local for member in family.members}
    for name in family.projects:
        page = None
        if "*" not in name:
            with suppress(WheelfitError):  # most have no such page
                page = root.project(canonicalize_name(name))
        builds = {
            filename.version
            for filename, _ in _wheels(page)
            if filename.version.local and not filename.version.is_prerelease
        }
        for local in sorted({build.local for build in builds if build.local} - with_member):
            latest = max(build for build in builds if build.local == local)
            yield f"no member is for builds like {name} {latest}"
