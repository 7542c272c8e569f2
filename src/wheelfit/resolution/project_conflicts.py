"""Extras and dependency groups that a project declares to conflict.

Read are ``conflicts`` of ``[tool.wheelfit]`` and of ``[tool.uv]``, which have the same shape:
``[[{ extra = "cpu" }, { extra = "cu128" }]]``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from packaging.utils import InvalidName, canonicalize_name

if TYPE_CHECKING:
    from packaging.utils import NormalizedName

Fault = Callable[[tuple[str | int, ...], str], None]


@dataclass(frozen=True, slots=True)
class Member:
    """One extra or group that conflicts with others."""

    kind: Literal["extra", "group"]
    name: NormalizedName

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def read_conflicts(
    table: Mapping[str, Any],
    name: NormalizedName | None,
    known: Collection[Member],
    fault: Fault,
) -> tuple[tuple[Member, ...], ...]:
    """Return the conflicts: of the members of each at most one may be requested.

    :param table: the ``pyproject.toml``.
    :param name: the name of the project; None: it is not a package.
    :param known: its extras and groups.
    :param fault: called with the path of an invalid value, and the reason.
    """
    conflicts: dict[tuple[Member, ...], None] = {}
    for tool in ("wheelfit", "uv"):
        tables = table.get("tool")
        own = tables.get(tool) if isinstance(tables, Mapping) else None
        rows = own.get("conflicts", []) if isinstance(own, Mapping) else []
        steps = ("tool", tool, "conflicts")
        if not isinstance(rows, list):
            fault(steps, "must be a list of lists of tables")
            continue
        for index, row in enumerate(rows):
            members = _members((*steps, index), row, name, known, fault)
            if members is not None:
                conflicts[members] = None
    return tuple(conflicts)


def _members(
    steps: tuple[str | int, ...],
    row: object,
    name: NormalizedName | None,
    known: Collection[Member],
    fault: Fault,
) -> tuple[Member, ...] | None:
    members: dict[Member, None] = {}
    for index, one in enumerate(row if isinstance(row, list) else [row]):
        member = _member(one, name)
        if isinstance(member, str):
            fault((*steps, index), member)
            return None
        if member not in known:
            fault((*steps, index), f"the project has no {member}")
            return None
        members[member] = None
    if len(members) < 2:
        fault(steps, "names fewer than two extras or groups")
        return None
    return tuple(members)


def _member(row: object, project: NormalizedName | None) -> Member | str:
    """Return an extra or group; a text is the reason it is not valid."""
    if not isinstance(row, Mapping) or not row.keys() <= {"extra", "group", "package"}:
        return 'must be a table as { extra = "cpu" }'
    if not all(isinstance(value, str) for value in row.values()):
        return "must name an extra or a group with a string"
    if "package" in row and canonicalize_name(row["package"]) != project:
        return "names another package; workspaces are not supported"
    if ("extra" in row) == ("group" in row):
        return "must name either an extra or a group"
    kind: Literal["extra", "group"] = "extra" if "extra" in row else "group"
    try:
        return Member(kind, canonicalize_name(row[kind], validate=True))
    except InvalidName:
        return f"{row[kind][:80]!r} is not a name"
