"""Extras and dependency groups that a project declares to conflict.

They are in ``conflicts`` of ``[tool.wheelfit]`` and ``[tool.uv]``, which have the same form:
``[[{ extra = "cpu" }, { extra = "cu128" }]]``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from packaging.utils import InvalidName, NormalizedName, canonicalize_name

from wheelfit.core.table_reader import FaultList, Table, section


@dataclass(frozen=True, slots=True)
class ConflictMember:
    """An extra or group that conflicts with others."""

    kind: Literal["extra", "group"]
    name: NormalizedName

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def read_conflicts(
    root: Table, name: NormalizedName | None, known: Collection[ConflictMember]
) -> tuple[tuple[ConflictMember, ...], ...]:
    """Return the declared conflicts; at most one member of each may be requested.

    :param root: the content of ``pyproject.toml``.
    :param name: the name of the project; None if it is not a package.
    """
    conflicts: dict[tuple[ConflictMember, ...], None] = {}
    for tool in ("wheelfit", "uv"):
        settings = section(root.content, FaultList(), "tool", tool)
        rows = [] if settings is None else settings.content.get("conflicts", [])
        steps = ("tool", tool, "conflicts")
        if not isinstance(rows, list):
            root.fault("must be a list of lists of tables", *steps)
            continue
        for index, row in enumerate(rows):
            members = _members((*steps, index), row, name, known, root)
            if members is not None:
                conflicts[members] = None
    return tuple(conflicts)


def _members(
    steps: tuple[str | int, ...],
    row: object,
    name: NormalizedName | None,
    known: Collection[ConflictMember],
    root: Table,
) -> tuple[ConflictMember, ...] | None:
    """Return the members of a conflict; None after a fault."""
    members: dict[ConflictMember, None] = {}
    for index, item in enumerate(row if isinstance(row, list) else [row]):
        member = _member(item, name)
        if isinstance(member, str):
            root.fault(member, *steps, index)
            return None
        if member not in known:
            root.fault(f"the project has no {member}", *steps, index)
            return None
        members[member] = None
    if len(members) < 2:
        root.fault("names fewer than two extras or groups", *steps)
        return None
    return tuple(members)


def _member(item: object, project: NormalizedName | None) -> ConflictMember | str:
    """Return an extra or group, or the reason why it is invalid."""
    if not isinstance(item, Mapping) or not item.keys() <= {"extra", "group", "package"}:
        return 'must be a table as { extra = "cpu" }'
    if not all(isinstance(value, str) for value in item.values()):
        return "must name an extra or a group with a string"
    if "package" in item and canonicalize_name(item["package"]) != project:
        return "names another package; workspaces are not supported"
    if ("extra" in item) == ("group" in item):
        return "must name either an extra or a group"
    kind: Literal["extra", "group"] = "extra" if "extra" in item else "group"
    try:
        return ConflictMember(kind, canonicalize_name(item[kind], validate=True))
    except InvalidName:
        return f"{item[kind][:80]!r} is not a name"
