"""Sources of the dependencies of a project: folders, archives and repositories of its own tables.

Read are ``[tool.wheelfit.sources]`` and ``[tool.uv.sources]``, which have the same shape; of one
dependency the former counts. Indexes there are settings and are read elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.utils import InvalidName, canonicalize_name

from wheelfit.core.markers import parse_marker
from wheelfit.core.strict_json import shown
from wheelfit.errors import InvalidMarker

if TYPE_CHECKING:
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.core.markers import Marker

TOOLS = ("wheelfit", "uv")
"""The tables below ``tool`` that are read, those that count more first."""
KINDS = ("path", "git", "url", "workspace")
"""The keys of which one is the kind of source; ``index`` is a setting."""
_REVISIONS = ("rev", "tag", "branch")
_KEYS = frozenset(
    (*KINDS, *_REVISIONS, "subdirectory", "editable", "package", "marker", "extra", "group")
)

Fault = Callable[[tuple[str | int, ...], str], None]


class ProjectSource(NamedTuple):
    """The source of one dependency of a project."""

    url: str
    """``file:`` of a folder, archive or wheel, ``https:`` of a file, ``git+…:`` of a repository."""
    editable: bool = False
    """Whether an environment uses the folder itself."""
    marker: Marker | None = None
    """When it counts; None: always."""
    extra: NormalizedName | None = None
    """The extra of the project whose requirements it is for; None: any."""
    group: NormalizedName | None = None
    """The dependency group whose requirements it is for; None: any."""


def is_own_source(row: object) -> bool:
    """Return whether a row of ``sources`` is of the project, and no name of an index."""
    rows = row if isinstance(row, list) else [row]
    return any(isinstance(one, Mapping) and not one.keys().isdisjoint(KINDS) for one in rows)


def read_sources(
    table: Mapping[str, Any], folder: Path, fault: Fault
) -> Mapping[NormalizedName, tuple[ProjectSource, ...]]:
    """Return the sources of the dependencies of a project, by name.

    :param table: its ``pyproject.toml``.
    :param folder: its folder, the base of relative paths.
    :param fault: called with the path of an invalid value, and the reason.
    """
    sources_of: dict[NormalizedName, tuple[ProjectSource, ...]] = {}
    for tool in TOOLS:
        sources = _at(table, "tool", tool, "sources")
        for key, value in sources.items():
            steps = ("tool", tool, "sources", key)
            if not is_own_source(value):
                continue
            try:
                name = canonicalize_name(key, validate=True)
            except InvalidName:
                fault(steps, "is not a valid project name")
                continue
            rows = value if isinstance(value, list) else [value]
            read = [_source(row, folder, steps, fault) for row in rows]
            sources_of.setdefault(name, tuple(one for one in read if one is not None))
    return sources_of


def _at(table: Mapping[str, Any], *steps: str) -> Mapping[str, Any]:
    value: Any = table
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _source(
    row: object, folder: Path, steps: tuple[str, ...], fault: Fault
) -> ProjectSource | None:
    if not isinstance(row, Mapping) or row.keys().isdisjoint(KINDS):
        return None  # an index, which is a setting
    problem = _problem(row)
    if problem:
        fault(steps, problem)
        return None
    if row.get("workspace") is False:
        return None
    try:
        marker = parse_marker(row["marker"]) if "marker" in row else None
    except InvalidMarker as error:
        fault(steps, f"{shown(row['marker'])} is not a marker: {error.message}")
        return None
    return ProjectSource(
        _url(row, folder),
        row.get("editable", False),
        marker,
        canonicalize_name(row["extra"]) if "extra" in row else None,
        canonicalize_name(row["group"]) if "group" in row else None,
    )


def _problem(row: Mapping[str, Any]) -> str:
    """Return the fault of a source; empty: none."""
    kinds = [key for key in KINDS if key in row]
    if len(kinds) > 1:
        return f"has both {kinds[0]} and {kinds[1]}"
    if unknown := sorted(row.keys() - _KEYS):
        return f"{unknown[0]} is an unknown key"
    for key, value in row.items():
        kind: type = bool if key in ("workspace", "editable", "package") else str
        if not isinstance(value, kind) or value == "":
            return f"{key} must be {'true or false' if kind is bool else 'a string'}"
    if row.get("workspace") is True:
        return "workspaces are not supported; write the path of the member"
    if len([key for key in _REVISIONS if key in row]) > 1:
        return "has more than one of rev, tag and branch"
    return ""


def _url(row: Mapping[str, Any], folder: Path) -> str:
    within = f"#subdirectory={row['subdirectory']}" if "subdirectory" in row else ""
    if "git" in row:
        revision = next((row[key] for key in _REVISIONS if key in row), None)
        address = row["git"].removeprefix("git+")
        return f"git+{address}" + (f"@{revision}" if revision else "") + within
    if "url" in row:
        return f"{row['url']}{within}"
    path = folder / str(row["path"])
    if "subdirectory" in row and path.is_dir():
        return (path / str(row["subdirectory"])).absolute().as_uri()
    return path.absolute().as_uri() + within
