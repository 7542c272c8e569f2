"""Parsing of the requirements, extras and groups in ``pyproject.toml``.

``[project]`` (PEP 621) and ``[dependency-groups]`` (PEP 735) are read. Dynamic dependencies are an
error, since nothing is built here. Requirements of the project on itself, as ``demo[all]``, are
replaced by the requirements of its extras.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidName, NormalizedName, canonicalize_name

from wheelfit.core import strict_toml
from wheelfit.core.markers import Marker, parse_marker
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.strict_json import path_of, shown
from wheelfit.core.table_reader import FaultList, Table, section
from wheelfit.core.toml_lines import lines_of, with_lines
from wheelfit.errors import InvalidRequirement
from wheelfit.resolution.project_conflicts import ConflictMember, read_conflicts
from wheelfit.resolution.project_sources import ProjectSource, read_sources
from wheelfit.resolution.request import RequestedRequirement
from wheelfit_runtime.errors import Fault, FileProblem, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_Requirements: TypeAlias = tuple[RequestedRequirement, ...]
_MAX_DEPTH = 100
"""The maximum nesting depth of extras and groups."""
_MAX_REQUIREMENTS = 20_000
"""The maximum number of requirements in all lists; conditions can double them at each level."""


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """The requirements of a project."""

    where: str
    name: NormalizedName | None = None
    """None: the file has only groups."""
    requires_python: SpecifierSet | None = None
    """The supported Pythons; None: not stated."""
    dependencies: _Requirements = ()
    """The requirements without extras."""
    extras: Mapping[NormalizedName, _Requirements] = field(default_factory=dict, hash=False)
    """The requirements of each extra, with those of extras it includes."""
    groups: Mapping[NormalizedName, _Requirements] = field(default_factory=dict, hash=False)
    """The requirements of each group, with those of groups it includes."""
    sources: Mapping[NormalizedName, tuple[ProjectSource, ...]] = field(
        default_factory=dict, hash=False
    )
    """The sources of dependencies that are not from an index."""
    conflicts: tuple[tuple[ConflictMember, ...], ...] = ()
    """Sets of extras and groups of which at most one may be requested."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))
        object.__setattr__(self, "extras", MappingProxyType(dict(self.extras)))
        object.__setattr__(self, "groups", MappingProxyType(dict(self.groups)))


def read_project_file(data: bytes, where: str) -> ProjectFile:
    """Read the requirements of a project.

    :raises FileProblem: it is not TOML.
    :raises InvalidDocument: ``invalid-project``; the file is not valid; lists all faults at once.
    """
    try:
        table = strict_toml.load(data)
    except ValueError as error:
        raise FileProblem(
            f"the project's file is not TOML: {error}", where=where, hint="correct its syntax"
        ) from None
    return _ProjectReader(table, where, lines_of(data.decode())).project()


@dataclass(frozen=True, slots=True)
class _Include:
    """A reference of a group to another one."""

    group: NormalizedName
    steps: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _OwnExtras:
    """A requirement of the project on its own extras."""

    extras: frozenset[NormalizedName]
    marker: Marker | None
    steps: tuple[str | int, ...]


_Item: TypeAlias = RequestedRequirement | _Include | _OwnExtras


class _ProjectReader:
    """A reader of a project's requirements that collects the faults."""

    def __init__(self, table: Mapping[str, Any], where: str, lines: Mapping[str, int]) -> None:
        self._table = table
        self._where = where
        self._lines = lines
        self._faults = FaultList()
        self._root = Table(table, self._faults)
        self._name: NormalizedName | None = None
        self._is_dynamic = False

    def project(self) -> ProjectFile:
        table = self._table.get("project")
        groups = self._table.get("dependency-groups", {})
        if table is None and not groups:
            is_poetry = section(self._table, FaultList(), "tool", "poetry") is not None
            raise InvalidDocument(
                [Fault("", "pyproject.toml has neither [project] nor [dependency-groups]")],
                code="invalid-project",
                where=self._where,
                hint="dependencies under [tool.poetry] are not read; write them as PEP 621 says"
                if is_poetry
                else "name requirements, or a file with -r",
            )
        package = self._root.table("project").content
        python = self._read_name_and_python(package) if isinstance(table, Mapping) else None
        dependencies = self._items(("project", "dependencies"), package.get("dependencies", []))
        extras = self._tables(
            ("project", "optional-dependencies"), package.get("optional-dependencies", {})
        )
        group_items = self._tables(("dependency-groups",), groups, are_groups=True)
        resolver = _ReferenceResolver(extras, group_items, self._root)
        project = ProjectFile(
            self._where,
            self._name,
            python,
            resolver.of(dependencies),
            {name: resolver.of(items, extra=name) for name, items in extras.items()},
            {name: resolver.of(items, group=name) for name, items in group_items.items()},
            read_sources(self._root, Path(self._where).parent),
            self._conflicts(extras, group_items),
        )
        if self._faults:
            hint = "name its requirements, or a wheel of it" if self._is_dynamic else None
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
        conflicts = read_conflicts(self._root, self._name, known)
        for members in conflicts:
            for member in members:
                others = {*members} - {member}
                for other in _included(member, extras, groups) & others:
                    self._root.fault(f"{member} includes {other}, with which it conflicts")
        return conflicts

    def _read_name_and_python(self, table: Mapping[str, Any]) -> SpecifierSet | None:
        """Read the name and the supported Pythons, and check that no dependencies are dynamic."""
        name = table.get("name")
        if name is None:
            self._root.fault("is missing", "project", "name")
        elif not isinstance(name, str):
            self._root.must_be("a string", name, "project", "name")
        else:
            try:
                self._name = canonicalize_name(name, validate=True)
            except InvalidName:
                self._root.fault(f"{shown(name)} is not a valid project name", "project", "name")
        self._check_dynamic(table)
        python = table.get("requires-python")
        if python is None:
            return None
        if isinstance(python, str):
            with suppress(InvalidSpecifier):
                return SpecifierSet(python)
        problem = f"{shown(python)} is not a version specifier"
        self._root.fault(problem, "project", "requires-python")
        return None

    def _check_dynamic(self, table: Mapping[str, Any]) -> None:
        dynamic = table.get("dynamic", [])
        if not isinstance(dynamic, list):
            self._root.must_be("a list of strings", dynamic, "project", "dynamic")
            return
        for index, key in enumerate(dynamic):
            if key not in ("dependencies", "optional-dependencies"):
                continue
            steps = ("project", "dynamic", index)
            if key in table:
                self._root.fault(f"{key} is set and also listed as dynamic", *steps)
            else:
                self._root.fault(f"{key} are dynamic: only a build can determine them", *steps)
                self._is_dynamic = True

    def _tables(
        self, steps: tuple[str, ...], value: object, *, are_groups: bool = False
    ) -> dict[NormalizedName, list[_Item]]:
        """Read a table of lists; equivalent names are a fault."""
        items_by_name: dict[NormalizedName, list[_Item]] = {}
        if not isinstance(value, Mapping):
            self._root.must_be("a table", value, *steps)
            return items_by_name
        for key, items in value.items():
            steps_of_key = (*steps, key)
            try:
                name = canonicalize_name(key, validate=True)
            except InvalidName:
                self._root.fault("is not a name", *steps_of_key)
                continue
            if name in items_by_name:
                self._root.fault(f"{name} is repeated in another spelling", *steps_of_key)
                continue
            items_by_name[name] = self._items(steps_of_key, items, are_groups=are_groups)
        return items_by_name

    def _items(
        self, steps: tuple[str, ...], value: object, *, are_groups: bool = False
    ) -> list[_Item]:
        if not isinstance(value, list):
            self._root.must_be("a list", value, *steps)
            return []
        items: list[_Item] = []
        for index, item in enumerate(value):
            steps_of_item: tuple[str | int, ...] = (*steps, index)
            if isinstance(item, str):
                items += self._requirement(steps_of_item, item)
            elif are_groups and isinstance(item, Mapping):
                items += self._include(steps_of_item, item)
            else:
                self._root.must_be("a string", item, *steps_of_item)
        return items

    def _requirement(self, steps: tuple[str | int, ...], text: str) -> Iterator[_Item]:
        try:
            requirement = parse_requirement(text, allow_variant_markers=False)
        except InvalidRequirement as error:
            self._root.fault(f"{shown(text)}: {error.message}", *steps)
            return
        if requirement.name == self._name:
            yield _OwnExtras(requirement.extras, requirement.marker, steps)
        else:
            line = self._lines.get(path_of(*steps), 1)
            yield RequestedRequirement(requirement, f"{self._where}:{line}")

    def _include(self, steps: tuple[str | int, ...], table: Mapping[str, Any]) -> Iterator[_Item]:
        name = table.get("include-group")
        if table.keys() != {"include-group"} or not isinstance(name, str):
            self._root.fault("is not an include-group, the only table allowed here", *steps)
            return
        try:
            group = canonicalize_name(name, validate=True)
        except InvalidName:
            self._root.fault(f"{shown(name)} is not a valid group name", *steps)
            return
        yield _Include(group, steps)


def _included(
    member: ConflictMember,
    extras: Mapping[NormalizedName, Sequence[_Item]],
    groups: Mapping[NormalizedName, Sequence[_Item]],
) -> set[ConflictMember]:
    """Return the extras and groups that an extra or group includes, with itself."""
    members: set[ConflictMember] = set()
    pending = [member]
    while pending:
        current = pending.pop()
        if current in members:
            continue
        members.add(current)
        for item in (extras if current.kind == "extra" else groups).get(current.name, ()):
            if isinstance(item, _Include):
                pending.append(ConflictMember("group", item.group))
            elif isinstance(item, _OwnExtras):
                pending += [ConflictMember("extra", name) for name in item.extras]
    return members


class _ReferenceResolver:
    """A resolver of references to extras and groups.

    :param root: the file, which reports invalid references.
    """

    def __init__(
        self,
        extras: Mapping[NormalizedName, Sequence[_Item]],
        groups: Mapping[NormalizedName, Sequence[_Item]],
        root: Table,
    ) -> None:
        self._extras = extras
        self._groups = groups
        self._root = root
        self._requirements_left = _MAX_REQUIREMENTS

    def of(
        self,
        items: Sequence[_Item],
        *,
        extra: NormalizedName | None = None,
        group: NormalizedName | None = None,
    ) -> _Requirements:
        """Return the requirements of a list with its references resolved, each once."""
        enclosing = frozenset([("extra", extra), ("group", group)])
        return tuple(dict.fromkeys(self._resolved(items, None, enclosing, set())))

    def _resolved(
        self,
        items: Sequence[_Item],
        marker: Marker | None,
        enclosing: frozenset[tuple[str, NormalizedName | None]],
        included: set[tuple[str, NormalizedName, Marker | None]],
    ) -> Iterator[RequestedRequirement]:
        """Yield the requirements of a list and of those it refers to.

        :param marker: a condition to add to each; None: none.
        :param enclosing: the extras and groups that refer to the list, with its own.
        :param included: the lists yielded already, with their conditions; new ones are added.
        """
        for item in items:
            if self._requirements_left == 0:
                return  # reported already
            self._requirements_left -= 1
            if self._requirements_left == 0 or len(enclosing) > _MAX_DEPTH:
                self._requirements_left = 0
                self._root.fault("its extras and groups include each other too often")
                return
            if isinstance(item, RequestedRequirement):
                requirement = item.requirement
                yield replace(
                    item,
                    requirement=replace(
                        requirement, marker=_conjunction(marker, requirement.marker)
                    ),
                )
            elif isinstance(item, _Include):
                key = ("group", item.group)
                if key in enclosing:
                    self._root.fault(f"the group {item.group} includes itself", *item.steps)
                elif item.group not in self._groups:
                    self._root.fault(f"there is no group {item.group}", *item.steps)
                elif (*key, marker) not in included:
                    included.add((*key, marker))
                    yield from self._resolved(
                        self._groups[item.group], marker, enclosing | {key}, included
                    )
            else:
                combined = _conjunction(marker, item.marker)
                for name in sorted(item.extras):
                    key = ("extra", name)
                    if name not in self._extras:
                        self._root.fault(f"the project has no extra {name}", *item.steps)
                    # Extras may well name each other.
                    elif key not in enclosing and (*key, combined) not in included:
                        included.add((*key, combined))
                        yield from self._resolved(
                            self._extras[name], combined, enclosing | {key}, included
                        )


def _conjunction(left: Marker | None, right: Marker | None) -> Marker | None:
    if left is None or right is None or left == right:
        return right if left is None else left
    return parse_marker(f"({left}) and ({right})")
