"""The project of a request: its ``pyproject.toml``, groups, pins, and part of a lock request."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.errors import UsageError, did_you_mean, reporting_os_errors
from wheelfit.operations.user_folders import refuse_pipe
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration, UserError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from wheelfit.locking.request import LockNeeds
    from wheelfit.operations.requests import (
        ProjectOptions,
        ProjectRequirementOptions,
        SourceOptions,
    )
    from wheelfit.resolution.project_file import ProjectFile
    from wheelfit.resolution.request import RequestedRequirement

_NAME = "pyproject.toml"
_MAX_SIZE = 4 << 20
"""Bytes of a ``pyproject.toml``."""


def is_project_file(name: str) -> bool:
    """Return whether a path is that of a ``pyproject.toml``."""
    return "://" not in name and PurePath(name).name == _NAME


def open_project(name: str) -> ProjectFile:
    """Read the requirements of a project.

    :param name: the path of its ``pyproject.toml`` or folder.
    :raises FileProblem: the file cannot be read.
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
            data = file.read(_MAX_SIZE + 1)
    from wheelfit.resolution.project_file import read_project_file  # few commands read TOML

    return read_project_file(data, str(path))


def group_of(text: str) -> Sequence[RequestedRequirement]:
    """Return the requirements of a dependency group.

    :param text: ``NAME``, or ``PATH:NAME`` with the path of a ``pyproject.toml``.
    :raises FileProblem: the file cannot be read.
    :raises InvalidDocument: ``invalid-project``; it is not a valid ``pyproject.toml``.
    :raises UsageError: the path is that of another file, or the project has no such group.
    """
    path, _, name = text.rpartition(":")
    if path and not is_project_file(path):
        raise UsageError(
            f"dependency groups are in a {_NAME}, which {path} is not", where=f"--group {text}"
        )
    project = open_project(path or _NAME)
    group = _checked_name(name, project.groups, "dependency group", f"--group {text}")
    return project.groups[group]


def works_on_project(request: ProjectRequirementOptions) -> bool:
    """Return whether a request is about a project: it names one, or has no requirements."""
    has_requirements = request.requirements or request.requirement or request.editable
    return request.project is not None or not has_requirements


def nearest_project(name: str | None) -> Path:
    """Return the path of a project's ``pyproject.toml``.

    :param name: the path of the file or its folder; None for the current folder or the nearest one
        above it with such a file.
    :raises FileProblem: neither the current folder nor one above it has such a file.
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
    """Check that no package is pinned to an index by the project of this folder.

    For commands that ignore the project's file, which may be untrusted: a private name in it must
    not be taken from a public index either.

    :param names: names of the requested or chosen packages, normalised or not.
    :raises UserError: one of them is pinned by that file, and not by the user's settings.
    """
    if request.index_url is not None or request.no_index:
        return
    try:
        path = nearest_project(None)
    except FileProblem:
        return
    pins = dict(_pins(path))
    pinned_by_user = {pin.project for pin in request.pin_table}
    for name in map(canonicalize_name, names):
        if name in pins and name not in pinned_by_user:
            raise UserError(
                f"{name} is pinned to the index {pins[name]!r} by a project that this command "
                "does not follow",
                code="pinned-elsewhere",
                where=str(path),
                hint=f"`wheelfit add {name}` and `wheelfit sync` take it from there; "
                "-i URL sets the index for this command",
            )


def _pins(path: Path) -> Iterator[tuple[NormalizedName, str]]:
    """Yield the projects that a ``pyproject.toml`` pins, each with the name of its index."""
    data = b""
    with suppress(OSError):
        data = path.read_bytes()
    if b"sources" not in data:
        return
    from wheelfit.core.strict_toml import load  # few projects have pins

    try:
        tool = load(data).get("tool", {})
    except ValueError:  # commands that work on the project report the fault
        return
    for tool_name in ("wheelfit", "uv"):
        table = tool.get(tool_name, {}) if isinstance(tool, dict) else {}
        sources = table.get("sources", {}) if isinstance(table, dict) else {}
        for name, value in sources.items() if isinstance(sources, dict) else ():
            for row in value if isinstance(value, list) else [value]:
                if isinstance(row, dict) and isinstance(row.get("index"), str):
                    yield canonicalize_name(name), row["index"]


def project_request(request: ProjectOptions, project: ProjectFile | None = None) -> LockNeeds:
    """Return the part of a lock request that comes from a project.

    :param project: the content of its file; None reads it.
    :raises FileProblem: its file cannot be read.
    :raises InvalidDocument: ``invalid-project``; it is not a valid ``pyproject.toml``.
    :raises UsageError: it has no such extra or group.
    :raises InvalidConfiguration: a default group does not exist.
    """
    from wheelfit.locking.request import LockNeeds, Root

    project = project or open_project(request.project or _NAME)
    extras = _selected(project.extras, request.extra, request.no_extra, "extra")
    groups = _selected(project.groups, request.group, request.no_group, "dependency group")
    roots = [Root(line.requirement, line.where) for line in project.dependencies]
    for name, lines in extras.items():
        roots += [Root(line.requirement, line.where, extra=name) for line in lines]
    for name, lines in groups.items():
        roots += [Root(line.requirement, line.where, group=name) for line in lines]
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
    """Yield the conflicts among the selected extras and groups, as tuples of markers."""
    from wheelfit.locking.request import in_extras, in_groups

    for members in project.conflicts:
        markers = []
        for member in members:
            if member.kind == "extra" and member.name in extras:
                markers.append(in_extras(member.name))
            elif member.kind == "group" and member.name in groups:
                markers.append(in_groups(member.name))
        if len(markers) > 1:
            yield tuple(markers)


def _defaults(
    names: Sequence[str], project: ProjectFile, groups: Collection[NormalizedName]
) -> Sequence[NormalizedName]:
    """Return the default groups among the selected ones."""
    for name in names:
        if canonicalize_name(name) not in project.groups:
            raise InvalidConfiguration(
                f"the default dependency group {name} does not exist", where=project.where
            )
    return [name for name in map(canonicalize_name, names) if name in groups]


def _selected(
    declared: Mapping[NormalizedName, Sequence[RequestedRequirement]],
    only: Sequence[str],
    without: Sequence[str],
    kind: str,
) -> Mapping[NormalizedName, Sequence[RequestedRequirement]]:
    """Return the selected extras or groups.

    :param declared: all of them, with their requirements.
    :param only: names to select; empty selects all, unless ``:all:`` is excluded.
    :param without: names to exclude, or ``:all:``.
    :param kind: ``extra`` or ``dependency group``.
    """
    option = kind.rpartition(" ")[2]
    selected = {_checked_name(name, declared, kind, f"--{option} {name}") for name in only}
    if not selected and ":all:" not in without:
        selected = set(declared)
    for name in without:
        if name != ":all:":
            selected.discard(_checked_name(name, declared, kind, f"--no-{option} {name}"))
    return {name: lines for name, lines in declared.items() if name in selected}


def _checked_name(
    name: str, declared: Collection[NormalizedName], kind: str, where: str
) -> NormalizedName:
    """Return the normalised name of an extra or group.

    :raises UsageError: the project does not have it.
    """
    normalized = canonicalize_name(name)
    if normalized not in declared:
        hint = did_you_mean(normalized, declared, f"there are: {', '.join(declared) or 'none'}")
        raise UsageError(f"the project has no {kind} {name}", where=where, hint=hint)
    return normalized
