"""The folders, archives and repositories from which a project takes dependencies.

They are in ``[tool.wheelfit.sources]`` and ``[tool.uv.sources]``, which have the same form; if both
list a dependency, wheelfit's is used. Indexes in them are settings, which are read elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from packaging.utils import InvalidName, NormalizedName, canonicalize_name

from wheelfit.core.markers import Marker, parse_marker
from wheelfit.core.strict_json import shown
from wheelfit.core.table_reader import FaultList, Table, section
from wheelfit.errors import InvalidMarker

if TYPE_CHECKING:
    from pathlib import Path


TOOLS = ("wheelfit", "uv")
"""The tables below ``tool`` that are read, in order of precedence."""
KINDS = ("path", "git", "url", "workspace")
"""The keys for the location of a source; each source has exactly one."""
_REVISIONS = ("rev", "tag", "branch")
_KEYS = frozenset(
    (*KINDS, *_REVISIONS, "subdirectory", "editable", "package", "marker", "extra", "group")
)


class ProjectSource(NamedTuple):
    """The source of one dependency of a project."""

    url: str
    """``file:`` for a folder, archive or wheel, ``https:`` for a file, ``git+…:`` for a
    repository."""
    editable: bool = False
    """Whether to install the folder as editable."""
    marker: Marker | None = None
    """The marker under which it is used; None: always."""
    extra: NormalizedName | None = None
    """The extra of the project whose requirements it is for; None: any."""
    group: NormalizedName | None = None
    """The dependency group whose requirements it is for; None: any."""


def is_own_source(value: object) -> bool:
    """Return whether a value of ``sources`` has locations, not only indexes."""
    rows = value if isinstance(value, list) else [value]
    return any(isinstance(row, Mapping) and not row.keys().isdisjoint(KINDS) for row in rows)


def read_sources(root: Table, folder: Path) -> Mapping[NormalizedName, tuple[ProjectSource, ...]]:
    """Return the sources of dependencies, by name of the dependency.

    :param root: the content of ``pyproject.toml``.
    :param folder: the folder of the project, the base of relative paths.
    """
    by_name: dict[NormalizedName, tuple[ProjectSource, ...]] = {}
    for tool in TOOLS:
        sources = section(root.content, FaultList(), "tool", tool, "sources")
        for key, value in () if sources is None else sources.content.items():
            steps = ("tool", tool, "sources", key)
            if not is_own_source(value):
                continue
            try:
                name = canonicalize_name(key, validate=True)
            except InvalidName:
                root.fault("is not a valid project name", *steps)
                continue
            rows = value if isinstance(value, list) else [value]
            parsed = (_source(row, folder, steps, root) for row in rows)
            by_name.setdefault(name, tuple(source for source in parsed if source is not None))
    return by_name


def _source(row: object, folder: Path, steps: tuple[str, ...], root: Table) -> ProjectSource | None:
    """Return a source; None for an index, for a source that is turned off, and after a fault."""
    if not isinstance(row, Mapping) or row.keys().isdisjoint(KINDS):
        return None  # an index, which is a setting
    problem = _problem(row)
    if problem:
        root.fault(problem, *steps)
        return None
    if row.get("workspace") is False:
        return None
    try:
        marker = parse_marker(row["marker"]) if "marker" in row else None
    except InvalidMarker as error:
        root.fault(f"{shown(row['marker'])} is not a marker: {error.message}", *steps)
        return None
    return ProjectSource(
        _url(row, folder),
        row.get("editable", False),
        marker,
        canonicalize_name(row["extra"]) if "extra" in row else None,
        canonicalize_name(row["group"]) if "group" in row else None,
    )


def _problem(row: Mapping[str, Any]) -> str:
    kinds = [key for key in KINDS if key in row]
    if len(kinds) > 1:
        return f"has both {kinds[0]} and {kinds[1]}"
    if unknown := sorted(row.keys() - _KEYS):
        return f"{unknown[0]} is an unknown key"
    for key, value in row.items():
        value_type: type = bool if key in ("workspace", "editable", "package") else str
        if not isinstance(value, value_type) or value == "":
            return f"{key} must be {'true or false' if value_type is bool else 'a string'}"
    if row.get("workspace") is True:
        return "workspaces are not supported; write the path of the member"
    if len([key for key in _REVISIONS if key in row]) > 1:
        return "has more than one of rev, tag and branch"
    return ""


def _url(row: Mapping[str, Any], folder: Path) -> str:
    fragment = f"#subdirectory={row['subdirectory']}" if "subdirectory" in row else ""
    if "git" in row:
        revision = next((row[key] for key in _REVISIONS if key in row), None)
        repository = row["git"].removeprefix("git+")
        return f"git+{repository}" + (f"@{quote(revision)}" if revision else "") + fragment
    if "url" in row:
        # The URL may have a fragment already, as a hash.
        return str(row["url"]) + (fragment.replace("#", "&") if "#" in row["url"] else fragment)
    path = folder / str(row["path"])
    if "subdirectory" in row and path.is_dir():
        return (path / str(row["subdirectory"])).absolute().as_uri()
    return path.absolute().as_uri() + fragment
