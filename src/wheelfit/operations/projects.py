"""The project of a request."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfit.errors import UsageError, did_you_mean, reporting_os_errors
from wheelfit.operations.user_folders import refuse_pipe
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration, UserError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.locking.request import LockNeeds
    from wheelfit.operations.requests import ProjectOptions, ProjectRequirements, SourceOptions
    from wheelfit.resolution.project_file import ProjectFile
    from wheelfit.resolution.request import RequestedRequirement

_NAME = "pyproject.toml"
_LARGEST = 4 << 20
"""Bytes of the longest file."""


def is_project_file(name: str) -> bool:
    """Return whether a path names a ``pyproject.toml``."""
    return "://" not in name and PurePath(name).name == _NAME


def open_project(name: str) -> ProjectFile:
    """Read the requirements of a project.

    :param name: its ``pyproject.toml``, or the folder of it.
    :raises FileProblem: it cannot be read.
    :raises InvalidDocument: ``invalid-project``; it is not a valid ``pyproject.toml``.
    """
    path = Path(name)
    if path.is_dir():
        path /= _NAME
    with reporting_os_errors(
        "the project's file cannot be read",
        where=str(path),
        hint="name requirements, or the project with --project",
    ):
        refuse_pipe(path)
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    from wheelfit.resolution.project_file import read_project_file  # few commands read TOML

    return read_project_file(data, str(path))


def group_of(text: str) -> Sequence[RequestedRequirement]:
    """Return the requirements of a dependency group.

    :param text: as ``NAME`` or ``PATH:NAME``, with the path of a ``pyproject.toml``.
    :raises FileProblem: the file cannot be read.
    :raises InvalidDocument: ``invalid-project``; it is not a valid ``pyproject.toml``.
    :raises UsageError: the path is of another file, or there is no such group.
    """
    path, _, name = text.rpartition(":")
    if path and not is_project_file(path):
        raise UsageError(
            f"groups are in a {_NAME}, and {path} is called otherwise", where=f"--group {text}"
        )
    project = open_project(path or _NAME)
    return project.groups[_known(name, project.groups, "dependency group", f"--group {text}")]


def works_on_project(request: ProjectRequirements) -> bool:
    """Return whether a request is about a project: one is named, or no requirement is."""
    is_named = request.requirements or request.requirement or request.editable
    return request.project is not None or not is_named


def nearest_project(name: str | None) -> Path:
    """Return the ``pyproject.toml`` that is named, else that of this folder or the nearest above.

    :param name: the file, or the folder of it; None: none is named.
    :raises FileProblem: it does not exist.
    """
    if name is not None:
        path = Path(name)
        return path / _NAME if path.is_dir() else path
    here = Path.cwd()
    for folder in (here, *here.parents):
        with suppress(PermissionError):  # a folder above may be closed to this user
            if (folder / _NAME).is_file():
                return Path(_NAME) if folder == here else folder / _NAME
    raise FileProblem(
        f"there is no {_NAME} in this folder or in one above",
        where=str(here),
        hint="write one with [project], name and version, or name another with --project",
    )


def check_folder_pins(names: Iterable[str], request: SourceOptions) -> None:
    """Raise if a package that the project of this folder pins to an index may come from another.

    Such a command ignores the project's file, which may be untrusted; but a private name in it must
    not be taken from a public index either.

    :param names: of the requested or chosen packages, normalised or not.
    :raises UserError: one of them is pinned by that file.
    """
    if request.index_url is not None or request.no_index:
        return
    try:
        path = nearest_project(None)
    except FileProblem:
        return
    pins = dict(_pins(path))
    own = {pin.project for pin in request.pin_table}
    for name in map(canonicalize_name, names):
        if name in pins and name not in own:
            raise UserError(
                f"{name} is pinned to the index {pins[name]!r} by a project that this command "
                "does not follow",
                code="pinned-elsewhere",
                where=str(path),
                hint=f"`wheelfit add {name}` and `wheelfit sync` take it from there, "
                "and -i URL says for this command where packages come from",
            )


def _pins(path: Path) -> Iterator[tuple[NormalizedName, str]]:
    """Yield the projects that a file pins, each with the name of its index."""
    data = b""
    with suppress(OSError):
        data = path.read_bytes()
    if b"sources" not in data:
        return
    from wheelfit.core.strict_toml import load  # few projects pin anything

    try:
        tool = load(data).get("tool", {})
    except ValueError:  # commands that work on the project report the fault
        return
    for owner in ("wheelfit", "uv"):
        table = tool.get(owner, {}) if isinstance(tool, dict) else {}
        sources = table.get("sources", {}) if isinstance(table, dict) else {}
        for name, said in sources.items() if isinstance(sources, dict) else ():
            for row in said if isinstance(said, list) else [said]:
                if isinstance(row, dict) and isinstance(row.get("index"), str):
                    yield canonicalize_name(name), row["index"]


def project_request(request: ProjectOptions, project: ProjectFile | None = None) -> LockNeeds:
    """Return the part of a lock request that a project accounts for.

    :param project: the content of its file; None: read from the disk.
    :raises FileProblem: its file cannot be read.
    :raises InvalidDocument: ``invalid-project``; it is not a valid ``pyproject.toml``.
    :raises UsageError: it has no such extra or group.
    :raises InvalidConfiguration: a default group does not exist.
    """
    from wheelfit.locking.request import LockNeeds, Root

    project = project or open_project(request.project or _NAME)
    extras = _narrowed(project.extras, request.extra, request.no_extra, "extra")
    groups = _narrowed(project.groups, request.group, request.no_group, "dependency group")
    roots = [Root(asked.requirement, asked.where) for asked in project.dependencies]
    roots += [
        Root(asked.requirement, asked.where, extra=name)
        for name, needs in extras.items()
        for asked in needs
    ]
    roots += [
        Root(asked.requirement, asked.where, group=name)
        for name, needs in groups.items()
        for asked in needs
    ]
    return LockNeeds(
        roots=tuple(roots),
        requires_python=project.requires_python,
        extras=tuple(extras),
        groups=tuple(groups),
        default_groups=tuple(_defaults(request.default_groups, project, groups)),
        conflicts=tuple(_conflicts(project, extras, groups)),
    )


def _conflicts(
    project: ProjectFile, extras: Collection[str], groups: Collection[str]
) -> Iterator[tuple[str, ...]]:
    """Yield the conflicting markers among the locked extras and groups."""
    from wheelfit.locking.request import in_extras, in_groups

    for members in project.conflicts:
        left = [
            in_extras(member.name) if member.kind == "extra" else in_groups(member.name)
            for member in members
            if member.name in (extras if member.kind == "extra" else groups)
        ]
        if len(left) > 1:
            yield tuple(left)


def _defaults(
    names: Sequence[str], project: ProjectFile, groups: Collection[NormalizedName]
) -> Sequence[NormalizedName]:
    """Return the default groups that are locked."""
    for name in names:
        if canonicalize_name(name) not in project.groups:
            raise InvalidConfiguration(
                f"there is no dependency group {name} that could be a default one",
                where=project.where,
            )
    return [one for one in map(canonicalize_name, names) if one in groups]


def _narrowed(
    known: Mapping[NormalizedName, Sequence[RequestedRequirement]],
    only: Sequence[str],
    without: Sequence[str],
    what: str,
) -> Mapping[NormalizedName, Sequence[RequestedRequirement]]:
    """Return the extras or groups that are wanted."""
    option = f"--{what.rpartition(' ')[2]}"
    wanted = {_known(name, known, what, f"{option} {name}") for name in only} or set(known)
    if ":all:" in without:
        wanted = {_known(name, known, what, f"{option} {name}") for name in only}
    wanted -= {
        _known(name, known, what, f"--no-{option[2:]} {name}")
        for name in without
        if name != ":all:"
    }
    return {name: needs for name, needs in known.items() if name in wanted}


def _known(name: str, known: Collection[NormalizedName], what: str, where: str) -> NormalizedName:
    normalized = canonicalize_name(name)
    if normalized not in known:
        hint = did_you_mean(normalized, known, f"there are: {', '.join(known) or 'none'}")
        raise UsageError(f"the project has no {what} {name}", where=where, hint=hint)
    return normalized
