"""The ``pyproject.toml`` of a project, as values: its requirements, extras and groups.

Read are ``[project]`` (PEP 621) and ``[dependency-groups]`` (PEP 735). A field that needs the build
backend is an error, for nothing is built here. Requirements of the project on itself, as
``demo[all]``, are replaced by the requirements of its extras.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidName, canonicalize_name

from wheelfit.core import strict_toml
from wheelfit.core.markers import parse_marker
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.strict_json import path_of, shown
from wheelfit.core.table_reader import FaultList, Table
from wheelfit.core.toml_lines import lines_of, with_lines
from wheelfit.errors import InvalidRequirement
from wheelfit.resolution.project_conflicts import ConflictMember, read_conflicts
from wheelfit.resolution.project_sources import read_sources
from wheelfit.resolution.request import RequestedRequirement
from wheelfit_runtime.errors import Fault, FileProblem, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.markers import Marker
    from wheelfit.resolution.project_sources import ProjectSource

_Needs: TypeAlias = tuple[RequestedRequirement, ...]
_DEEPEST = 100
"""Extras and groups that may stand for each other in a row."""
_MOST = 20_000
"""Requirements that all lists together may come to; conditions can double them at every step."""


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """The requirements of a project."""

    where: str
    """The file."""
    name: NormalizedName | None = None
    """None: the file describes no package, only groups."""
    requires_python: SpecifierSet | None = None
    """The Pythons it is for; None: not stated."""
    dependencies: _Needs = ()
    """The requirements without extras."""
    extras: Mapping[NormalizedName, _Needs] = field(default_factory=dict, hash=False)
    """The requirements of each extra, with those of extras it includes."""
    groups: Mapping[NormalizedName, _Needs] = field(default_factory=dict, hash=False)
    """The requirements of each group, with those of groups it includes."""

    sources: Mapping[NormalizedName, tuple[ProjectSource, ...]] = field(
        default_factory=dict, hash=False
    )
    """Where dependencies come from that come from no index."""
    conflicts: tuple[tuple[ConflictMember, ...], ...] = ()
    """Extras and groups of which at most one of each may be requested."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))
        object.__setattr__(self, "extras", MappingProxyType(dict(self.extras)))
        object.__setattr__(self, "groups", MappingProxyType(dict(self.groups)))


def read_project_file(data: bytes, where: str) -> ProjectFile:
    """Read the requirements of a project.

    :param data: the bytes of its ``pyproject.toml``.
    :param where: the file.
    :raises FileProblem: it is not TOML.
    :raises InvalidDocument: ``invalid-project``; the file is not valid; lists all faults at once.
    """
    try:
        table = strict_toml.load(data)
    except ValueError as error:
        raise FileProblem(
            f"the project's file is not TOML: {error}", where=where, hint="correct its syntax"
        ) from None
    return _Reading(table, where, lines_of(data.decode())).project()


@dataclass(frozen=True, slots=True)
class _Include:
    """A reference to another group in a group."""

    group: NormalizedName
    path: str


@dataclass(frozen=True, slots=True)
class _Own:
    """A reference to extras of the project itself."""

    extras: frozenset[NormalizedName]
    marker: Marker | None
    path: str


_Item: TypeAlias = RequestedRequirement | _Include | _Own


class _Reading:
    """A reader of a project's requirements that collects the faults."""

    def __init__(self, table: Mapping[str, Any], where: str, lines: Mapping[str, int]) -> None:
        self._table = table
        self._where = where
        self._lines = lines
        self._faults = FaultList()
        self._root = Table(table, self._faults)
        self._name: NormalizedName | None = None

    def project(self) -> ProjectFile:
        own = self._table.get("project")
        groups = self._table.get("dependency-groups", {})
        if own is None and not groups:
            other = "poetry" in self._section("tool")
            raise InvalidDocument(
                [Fault("", "pyproject.toml has neither [project] nor [dependency-groups]")],
                code="invalid-project",
                where=self._where,
                hint="dependencies under [tool.poetry] are not read; write them as PEP 621 says"
                if other
                else "name requirements, or a file with -r",
            )
        if own is not None and not isinstance(own, Mapping):
            self._root.must_be("a table", own, "project")
            own = None
        python = self._about(own) if own is not None else None
        dependencies = self._items(("project", "dependencies"), (own or {}).get("dependencies", []))
        extras = self._tables(
            ("project", "optional-dependencies"), (own or {}).get("optional-dependencies", {})
        )
        members = self._tables(("dependency-groups",), groups, are_groups=True)
        flat = _Flat(extras, members, lambda *fault: self._faults(Fault(*fault)))
        project = ProjectFile(
            self._where,
            self._name,
            python,
            flat.of(dependencies),
            {name: flat.of(items, extra=name) for name, items in extras.items()},
            {name: flat.of(items, group=name) for name, items in members.items()},
            read_sources(self._table, Path(self._where).parent, self._fault),
            self._conflicts(extras, members),
        )
        if self._faults:
            hint = "name what it needs, or give a wheel of it" if self._is_dynamic else None
            faults = with_lines(self._faults, self._lines)
            raise InvalidDocument(faults, code="invalid-project", where=self._where, hint=hint)
        return project

    def _conflicts(
        self,
        extras: Mapping[NormalizedName, Sequence[_Item]],
        groups: Mapping[NormalizedName, Sequence[_Item]],
    ) -> tuple[tuple[ConflictMember, ...], ...]:
        """Read the conflicts, and verify that no extra or group includes its conflict."""
        known = [ConflictMember("extra", name) for name in extras]
        known += [ConflictMember("group", name) for name in groups]
        conflicts = read_conflicts(self._table, self._name, known, self._fault)
        for members in conflicts:
            for member in members:
                for other in _included(member, extras, groups) & {*members} - {member}:
                    self._fault((), f"{member} includes {other}, with which it conflicts")
        return conflicts

    def _section(self, name: str) -> Mapping[str, Any]:
        value = self._table.get(name)
        return value if isinstance(value, Mapping) else {}

    def _about(self, own: Mapping[str, Any]) -> SpecifierSet | None:
        """Read the name and the Pythons, and see that nothing is left to a build backend."""
        name = own.get("name")
        try:
            self._name = canonicalize_name(name, validate=True) if isinstance(name, str) else None
        except InvalidName:
            self._fault(("project", "name"), f"{shown(name)} is not a valid project name")
        else:
            if self._name is None:
                if name is None:
                    self._fault(("project", "name"), "is missing")
                else:
                    self._root.must_be("a string", name, "project", "name")
        self._check_dynamic(own)
        python = own.get("requires-python")
        if python is None:
            return None
        try:
            return SpecifierSet(python if isinstance(python, str) else "no text")
        except InvalidSpecifier:
            self._fault(("project", "requires-python"), f"{shown(python)} names no versions")
            return None

    def _check_dynamic(self, own: Mapping[str, Any]) -> None:
        dynamic = own.get("dynamic", [])
        if not isinstance(dynamic, list):
            self._root.must_be("a list of strings", dynamic, "project", "dynamic")
            return
        for index, key in enumerate(dynamic):
            if key not in ("dependencies", "optional-dependencies"):
                continue
            steps = ("project", "dynamic", index)
            if key in own:
                self._fault(steps, f"{key} is set and also listed as dynamic")
            else:
                self._fault(steps, f"{key} are dynamic: only a build can determine them")
                self._is_dynamic = True

    _is_dynamic = False

    def _tables(
        self, steps: tuple[str, ...], value: object, *, are_groups: bool = False
    ) -> dict[NormalizedName, list[_Item]]:
        """Read a table of lists; names that mean the same are a fault."""
        items_by_name: dict[NormalizedName, list[_Item]] = {}
        if not isinstance(value, Mapping):
            self._root.must_be("a table", value, *steps)
            return items_by_name
        for key, items in value.items():
            at = (*steps, key)
            try:
                name = canonicalize_name(key, validate=True)
            except InvalidName:
                self._fault(at, "is not a name")
                continue
            if name in items_by_name:
                self._fault(at, f"{name} is there already, spelled otherwise")
                continue
            items_by_name[name] = self._items(at, items, are_groups=are_groups)
        return items_by_name

    def _items(
        self, steps: tuple[str, ...], value: object, *, are_groups: bool = False
    ) -> list[_Item]:
        if not isinstance(value, list):
            self._root.must_be("a list", value, *steps)
            return []
        read: list[_Item] = []
        for index, one in enumerate(value):
            at: tuple[str | int, ...] = (*steps, index)
            if isinstance(one, str):
                read += self._requirement(at, one)
            elif are_groups and isinstance(one, Mapping):
                read += self._include(at, one)
            else:
                self._root.must_be("a string", one, *at)
        return read

    def _requirement(self, steps: tuple[str | int, ...], text: str) -> Iterator[_Item]:
        path = path_of(*steps)
        try:
            requirement = parse_requirement(text, allow_variant_markers=False)
        except InvalidRequirement as error:
            self._fault(steps, f"{shown(text)}: {error.message}")
            return
        if requirement.name == self._name:
            yield _Own(requirement.extras, requirement.marker, path)
        else:
            yield RequestedRequirement(requirement, f"{self._where}:{self._lines.get(path, 1)}")

    def _include(self, steps: tuple[str | int, ...], table: Mapping[str, Any]) -> Iterator[_Item]:
        name = table.get("include-group")
        if table.keys() != {"include-group"} or not isinstance(name, str):
            self._fault(steps, "is not an include-group, the only table allowed here")
            return
        try:
            group = canonicalize_name(name, validate=True)
        except InvalidName:
            self._fault(steps, f"{shown(name)} is not a valid group name")
            return
        yield _Include(group, path_of(*steps))

    def _fault(self, steps: tuple[str | int, ...], message: str) -> None:
        self._root.fault(message, *steps)


def _included(
    member: ConflictMember,
    extras: Mapping[NormalizedName, Sequence[_Item]],
    groups: Mapping[NormalizedName, Sequence[_Item]],
) -> set[ConflictMember]:
    """Return the extras and groups that one stands for, itself among them."""
    members: set[ConflictMember] = set()
    pending = [member]
    while pending:
        one = pending.pop()
        if one in members:
            continue
        members.add(one)
        for item in (extras if one.kind == "extra" else groups).get(one.name, ()):
            if isinstance(item, _Include):
                pending.append(ConflictMember("group", item.group))
            elif isinstance(item, _Own):
                pending += [ConflictMember("extra", name) for name in item.extras]
    return members


class _Flat:
    """Requirements without references.

    :param extras: the extras of the project.
    :param groups: its groups.
    :param fault: called with the path of an unreplaceable requirement, and the reason.
    """

    def __init__(
        self,
        extras: Mapping[NormalizedName, Sequence[_Item]],
        groups: Mapping[NormalizedName, Sequence[_Item]],
        fault: Callable[[str, str], None],
    ) -> None:
        self._extras = extras
        self._groups = groups
        self._fault = fault
        self._left = _MOST

    def of(
        self,
        items: Sequence[_Item],
        *,
        extra: NormalizedName | None = None,
        group: NormalizedName | None = None,
    ) -> _Needs:
        """Return the requirements that a list comes to, each once."""
        above = frozenset([("extra", extra), ("group", group)])
        return tuple(dict.fromkeys(self._each(items, None, above, set())))

    def _each(
        self,
        items: Sequence[_Item],
        marker: Marker | None,
        above: frozenset[tuple[str, NormalizedName | None]],
        done: set[tuple[str, NormalizedName, Marker | None]],
    ) -> Iterator[RequestedRequirement]:
        for item in items:
            if self._left == 0:
                return  # it was reported once
            self._left -= 1
            if self._left == 0 or len(above) > _DEEPEST:
                self._left = 0
                self._fault("", "its extras and groups stand for each other too often")
                return
            if isinstance(item, RequestedRequirement):
                requirement = item.requirement
                yield replace(
                    item, requirement=replace(requirement, marker=_both(marker, requirement.marker))
                )
            elif isinstance(item, _Include):
                key = ("group", item.group)
                if key in above:
                    self._fault(item.path, f"the group {item.group} includes itself")
                elif item.group not in self._groups:
                    self._fault(item.path, f"there is no group {item.group}")
                elif (*key, marker) not in done:
                    done.add((*key, marker))
                    yield from self._each(self._groups[item.group], marker, above | {key}, done)
            else:
                both = _both(marker, item.marker)
                for name in sorted(item.extras):
                    key = ("extra", name)
                    if name not in self._extras:
                        self._fault(item.path, f"the project has no extra {name}")
                    # Extras may well name each other.
                    elif key not in above and (*key, both) not in done:
                        done.add((*key, both))
                        yield from self._each(self._extras[name], both, above | {key}, done)


def _both(one: Marker | None, other: Marker | None) -> Marker | None:
    if one is None or other is None or one == other:
        return other if one is None else one
    return parse_marker(f"({one}) and ({other})")
