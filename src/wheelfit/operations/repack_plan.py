"""A plan to join releases of several projects as variants of one."""

from __future__ import annotations

from configparser import ConfigParser, Error
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from wheelfit.building.abi.release_comparison import LibraryFiles
from wheelfit.building.repack.joining import (
    FamilyProject,
    JoinableWheel,
    WheelSummary,
    join_releases,
    joined_name,
    label_of,
    repack_file,
    wheel_differences,
)
from wheelfit.core.core_metadata import read_metadata
from wheelfit.core.filename import wheel_filename_of
from wheelfit.core.labels import NULL, Label
from wheelfit.errors import UsageError
from wheelfit.operations.indexes import open_indexes, read_settings
from wheelfit.operations.plain_data import plain_fields
from wheelfit.operations.requirements import project_name
from wheelfit.operations.rewriting import find_wheels
from wheelfit.operations.targets import named_project
from wheelfit.sources.bridges.catalogue import KnownFamilies, known_families
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.bytes_source import ByteSource, open_local
from wheelfit_runtime.errors import ProjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.building.repack.joining import JoinedRelease
    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.core.properties import PropertySet
    from wheelfit.core.requirements import Requirement
    from wheelfit.operations.context import Context
    from wheelfit.operations.repack import RepackRequest

SHOWN = 10
"""The number of newest releases in a plan; older ones are added if they can be joined."""
_MAX_COMPARED = 3
"""The number of releases whose wheels are compared."""


@dataclass(frozen=True, slots=True)
class RepackPlan:
    """The conversion of releases of several projects to releases of one."""

    name: str
    projects: tuple[FamilyProject, ...]
    releases: tuple[JoinedRelease, ...]
    """The newest first."""
    sources: tuple[str, ...] = ()
    """The files in the request, for the command; empty for projects of an index."""

    @property
    def newest(self) -> JoinedRelease | None:
        """The newest release that can be joined."""
        return next((release for release in self.releases if not release.obstacles), None)

    def notes(self) -> Iterator[str]:
        """Yield notes for the operator of the joined project's index."""
        newest = self.newest
        if newest is None:
            yield (
                "to join releases of different versions, name one of each project (NAME==VERSION) "
                f"if they are builds of the same; otherwise make each a release of {self.name} "
                "with --name, and let variants of packages that use it require the one they need"
            )
            return
        newer = [release for release in self.releases if release.version > newest.version]
        if newer:
            names = sorted({project.name for release in newer for project, _ in release.parts})
            yield (
                f"only {', '.join(names)} {'has' if len(names) == 1 else 'have'} releases after "
                f"{newest.version}: leave these out of "
                f"the index, or every machine gets {newer[0].version} as the newest"
            )
        yield from newest.notes()

    @property
    def config(self) -> str:
        """The configuration that joins the newest release; empty if none can be joined."""
        return "" if self.newest is None else repack_file(self.name, self.newest)

    @property
    def command(self) -> str:
        """The command that joins it; empty if none can be joined."""
        if self.newest is None:
            return ""
        sources = self.sources or tuple(
            f"{project.name}=={version}" for project, version in self.newest.parts
        )
        namespaces = dict.fromkeys(
            namespace
            for project, _ in self.newest.parts
            for namespace in (project.properties.namespaces if project.properties else ())
        )
        words = [word for namespace in namespaces for word in ("--provider", namespace)]
        return " ".join(
            ["wheelfit wheel repack --config repack.toml -o dist", *words, *sources, "--index-file"]
        )

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {
            "version": 1,
            "name": self.name,
            "projects": [
                plain_fields(
                    project,
                    "name label",
                    properties=None
                    if project.properties is None
                    else list(map(str, project.properties)),
                )
                for project in self.projects
            ],
            "releases": [_release(release) for release in self.releases],
            "notes": list(self.notes()),
            "config": self.config or None,
            "command": self.command or None,
        }


def _release(release: JoinedRelease) -> dict[str, object]:
    return plain_fields(
        release,
        "version absent obstacles",
        parts={project.name: str(version) for project, version in release.parts},
        targets=[
            {"python": python, "platform": platform, "projects": list(names)}
            for (python, platform), names in release.targets().items()
        ],
        differences=[
            plain_fields(
                difference, "message", what=difference.aspect, rule=difference.rule or None
            )
            for difference in release.differences
        ],
        notes=list(release.notes()),
    )


def plan_repack(request: RepackRequest, context: Context) -> RepackPlan:
    """Return the plan that joins projects with one build each as variants of one project.

    :raises UsageError: fewer than two projects, or names without a common beginning.
    """
    with ExitStack() as stack:
        requirements = [  # None: a file
            named_project(wheel, request, versions_suffice=True) for wheel in request.wheels
        ]
        files = tuple(
            text
            for text, requirement in zip(request.wheels, requirements, strict=True)
            if requirement is None
        )
        finder = _Wheels(request, context, stack)
        for requirement in requirements:
            if requirement is not None:
                finder.find_published(requirement)
        finder.find_files(files)
        families = known_families(context.environ, shipped_bridges=request.shipped_bridges)
        name, projects = _projects(finder.listed, request.name, families)
        releases, examined = [], 0
        for number, release in enumerate(join_releases(projects)):
            is_examined = not release.obstacles and examined < _MAX_COMPARED
            if is_examined:
                examined += 1
                summaries = {
                    project.name: finder.summary(project.releases[version])
                    for project, version in release.parts
                }
                releases.append(replace(release, differences=tuple(wheel_differences(summaries))))
            elif number < SHOWN:
                releases.append(release)
    return RepackPlan(name, projects, tuple(releases), files)


def _projects(
    wheels_by_project: Mapping[NormalizedName, Mapping[Version, Sequence[JoinableWheel]]],
    requested_name: str | None,
    families: KnownFamilies,
) -> tuple[str, tuple[FamilyProject, ...]]:
    """Return the name of the joined project, and the projects with their labels."""
    if len(wheels_by_project) < 2:
        raise UsageError("joining needs several projects", hint="name the projects to join")
    name = project_name(requested_name) if requested_name else joined_name(list(wheels_by_project))
    if not name:
        raise UsageError(
            f"{', '.join(wheels_by_project)} have no name in common", hint="set one with --name"
        )
    family = families.named(name)
    projects = []
    for project, releases in wheels_by_project.items():
        label, properties = _from_bridge(family, project, max(releases)) or (
            label_of(project, name),
            None,
        )
        wheels = {version: tuple(listed) for version, listed in releases.items()}
        projects.append(FamilyProject(project, label, properties, wheels))
    return name, tuple(projects)


def _from_bridge(
    family: BridgeFamily | None, project: str, version: Version
) -> tuple[Label | None, PropertySet] | None:
    """Return label and properties of a project by its bridge; None if there is none.

    A null variant of a bridge becomes a plain wheel.
    """
    for member in () if family is None else family.members_of(version):
        if member.distribution == project:
            return (None if member.label == NULL else member.label), member.when
    return None


class _Wheels:
    """The wheels of a request, by project and version."""

    def __init__(self, request: RepackRequest, context: Context, stack: ExitStack) -> None:
        self._request = request.with_options(no_bridges=True)  # wheels under their published names
        self._context = context
        self._stack = stack
        self._open: dict[str, Callable[[], ByteSource]] = {}
        self.listed: dict[NormalizedName, dict[Version, list[JoinableWheel]]] = {}

    def find_published(self, requirement: Requirement) -> None:
        """Add the wheels of a project of an index.

        :raises ProjectNotFound: the index has no wheels of it in the required versions.
        """
        name = requirement.name
        settings = read_settings(self._request, self._context.environ)
        repository = self._stack.enter_context(open_indexes(self._request, settings, self._context))
        page = repository.project(name)
        if page is None:
            raise ProjectNotFound(f"{name} was not found in any index", where=repository.name)
        for file in page.files:
            if file.yanked is None:
                open_source = partial(repository.open, file)
                self._add(file.filename, file.size, open_source, requirement.specifier.contains)
        if name not in self.listed:
            raise ProjectNotFound(f"there are no wheels of {requirement}", where=repository.name)

    def find_files(self, names: Sequence[str]) -> None:
        """Add wheel files, and the wheels in folders."""
        for path in find_wheels(names) if names else ():
            self._add(path.name, path.stat().st_size, partial(open_local, path), lambda _: True)

    def _add(
        self,
        filename: str,
        size: int | None,
        open_source: Callable[[], ByteSource],
        is_requested: Callable[[Version], bool],
    ) -> None:
        name = wheel_filename_of(filename)
        if name is not None and is_requested(name.version):
            releases = self.listed.setdefault(name.name, {})
            releases.setdefault(name.version, []).append(JoinableWheel(name, size))
            self._open[filename] = open_source

    def summary(self, wheels: Sequence[JoinableWheel]) -> WheelSummary:
        """Return the summary of one of several wheels, preferably one for Linux."""
        ranked = sorted(
            wheels, key=lambda wheel: ("linux" not in wheel.filename.text, wheel.filename.text)
        )
        filename = ranked[0].filename
        self._context.reporter.detail(f"reading {filename.text}")
        with (
            closing(self._open[filename.text]()) as source,
            WheelArchive(source, filename) as archive,
        ):
            return _summary(archive)


def _summary(archive: WheelArchive) -> WheelSummary:
    core = read_metadata(archive.metadata(), archive.where)
    libraries = LibraryFiles()
    libraries.add_exports_of(archive)
    return WheelSummary(
        frozenset(core.requires_texts),
        str(core.requires_python or ""),
        frozenset(core.provides_extra),
        frozenset(_commands(archive)),
        frozenset(_modules(archive)),
        "" if libraries.exports is None else str(libraries.exports.level),
    )


def _commands(archive: WheelArchive) -> Iterator[str]:
    name = f"{archive.dist_info}/entry_points.txt"
    if name not in archive:
        return
    parser = ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    try:
        parser.read_string(archive.read(name).decode("utf-8", "replace"))
    except Error:
        return  # `wheelfit check` reports the fault
    for group in parser.sections():
        yield from (f"{group}:{name}" for name in parser[group])


def _modules(archive: WheelArchive) -> Iterator[str]:
    """Yield the top-level names that a wheel installs for imports."""
    for name in archive.names():
        top, slash, _ = name.partition("/")
        if top.endswith((".dist-info", ".data", ".libs")):
            continue
        if slash:
            yield top
        elif top.endswith((".py", ".so", ".pyd")):
            yield top.partition(".")[0]
