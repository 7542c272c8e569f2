"""Edits of lists of requirements in the text of a ``pyproject.toml``; the rest stays unchanged.

After every edit the text is parsed and compared with the expected content. If they differ, an error
is raised and nothing is changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import tomli
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core import strict_toml, toml_edits
from wheelfit.core.requirements import Requirement, marker_start, parse_requirement
from wheelfit.core.strict_json import path_of
from wheelfit.errors import InvalidRequirement
from wheelfit_runtime.errors import Fault, FileProblem, InvalidDocument, UserError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


_HEAD = pattern(
    r"\s*+(?P<name>[A-Za-z0-9][\w.-]*+)\s*+(?:\[(?P<extras>[^\]]*+)\])?+\s*+(?P<rest>.*+)"
)
_EXTRAS = ("project", "optional-dependencies")
_GROUPS = ("dependency-groups",)


@dataclass(frozen=True, slots=True)
class DependencyList:
    """The name of a list of requirements: those of the project, of an extra or of a group."""

    kind: Literal["project", "extra", "group"] = "project"
    name: str = ""
    """The extra or group, in any spelling; empty for the project's own list."""

    def __str__(self) -> str:
        return f"the {self.kind} {self.name}" if self.name else "the dependencies of the project"

    @property
    def table(self) -> tuple[str, ...]:
        """The keys that lead to its table."""
        return {"project": ("project",), "extra": _EXTRAS, "group": _GROUPS}[self.kind]


@dataclass(frozen=True, slots=True)
class ListChange:
    """The change of one requirement in a list."""

    name: NormalizedName
    before: str | None
    """The old requirement; None: it is new."""
    after: str | None
    """The new requirement; None: it was removed."""


@dataclass(frozen=True, slots=True)
class ProjectText:
    """The text of a ``pyproject.toml``."""

    text: str
    """With the line endings of Unix."""
    where: str
    has_crlf: bool = False

    @classmethod
    def of(cls, data: bytes, where: str) -> ProjectText:
        """Read the bytes of a file.

        :raises FileProblem: it is not TOML.
        """
        try:
            strict_toml.load(data)
        except ValueError as error:
            raise FileProblem(
                f"the project's file is not TOML: {error}", where=where, hint="correct its syntax"
            ) from None
        text = data.decode()
        has_crlf = "\r\n" in text and text.count("\n") == text.count("\r\n")
        return cls(text.replace("\r\n", "\n") if has_crlf else text, where, has_crlf)

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return (self.text.replace("\n", "\r\n") if self.has_crlf else self.text).encode()

    def lists(self) -> Mapping[DependencyList, Sequence[object]]:
        """Return every list with its elements; extras and groups are spelled as in the file."""
        data = tomli.loads(self.text)
        project_table = _table(data, "project")
        lists: dict[DependencyList, Sequence[object]] = {}
        if isinstance(project_table.get("dependencies"), list):
            lists[DependencyList()] = project_table["dependencies"]
        for kind, table in (
            ("extra", _table(project_table, "optional-dependencies")),
            ("group", _table(data, "dependency-groups")),
        ):
            for name, items in table.items():
                if isinstance(items, list):
                    lists[DependencyList(kind, name)] = items  # type: ignore[arg-type]
        return lists

    def find(self, target: DependencyList) -> DependencyList | None:
        """Return a list with its name as the file spells it; None if the file lacks the list."""
        for candidate in self.lists():
            if candidate.kind == target.kind and _is_same_name(candidate.name, target.name):
                return candidate
        return None

    def names(self, target: DependencyList) -> Sequence[NormalizedName]:
        """Return the names of the projects that a list requires."""
        existing = self.find(target)
        items = () if existing is None else self.lists()[existing]
        return [requirement.name for requirement in map(_parse, items) if requirement is not None]

    def lists_with(self, name: NormalizedName) -> Sequence[DependencyList]:
        """Return the lists that have a requirement on a project."""
        return [candidate for candidate in self.lists() if name in self.names(candidate)]


def with_requirement(
    project: ProjectText, target: DependencyList, text: str
) -> tuple[ProjectText, ListChange]:
    """Return a project with a requirement in a list, which is created if missing.

    The new requirement replaces that with the same name and marker. If there is none, and the new
    one has no marker, it replaces the only one with the same name. The spelling, extras and marker
    of the old requirement are kept, and so are its versions if the new one has none.

    :raises InvalidDocument: ``invalid-project``; the file has a form that cannot be changed, or
        leaves the list to a build backend.
    :raises InvalidRequirement: the text is not a requirement.
    :raises UserError: several requirements could be meant.
    """
    new = parse_requirement(text, allow_variant_markers=False)
    _check_list(project, target)
    existing = project.find(target)
    if existing is None:
        edited = toml_edits.create(project.text, _path(target), text.strip(), after="project")
        changed = _checked_list_edit(project, edited, target, [text.strip()])
        return changed, ListChange(new.name, None, text.strip())
    path, items = _path(existing), [*project.lists()[existing]]
    index = _index_to_replace(items, new, existing, project.where)
    if index is None:
        index = _index_for_new(items, new.name)
        items.insert(index, text.strip())
        edited = project.text
        with suppress(KeyError):  # an array of tables, [[...]], takes no text; it is refused below
            edited = toml_edits.insert(project.text, path, index, text.strip())
        changed = _checked_list_edit(project, edited, existing, items)
        return changed, ListChange(new.name, None, text.strip())
    before = str(items[index])
    after = _merged(before, text)
    if after != before:
        items[index] = after
        edited = toml_edits.replace(project.text, path, index, after)
        project = _checked_list_edit(project, edited, existing, items)
    return project, ListChange(new.name, before, after)


def without_requirement(
    project: ProjectText, target: DependencyList, name: NormalizedName
) -> tuple[ProjectText, Sequence[ListChange]]:
    """Return a project with every requirement on a name removed from one of its lists."""
    existing = project.find(target)
    changes: list[ListChange] = []
    while existing is not None:
        items = [*project.lists()[existing]]
        index = next(_indexes_of(items, name), None)
        if index is None:
            break
        changes.append(ListChange(name, str(items.pop(index)), None))
        edited = toml_edits.remove(project.text, _path(existing), index)
        project = _checked_list_edit(project, edited, existing, items)
    return project, changes


def without_sources(project: ProjectText, name: NormalizedName) -> ProjectText:
    """Return a project without the sources of a dependency, unless a list still names it.

    They are in ``[tool.wheelfit.sources]`` and ``[tool.uv.sources]``.
    """
    if _is_named(tomli.loads(project.text), project, name):
        return project
    for tool in ("wheelfit", "uv"):
        path = ("tool", tool, "sources")
        for key in _table_at(tomli.loads(project.text), path):
            if _is_same_name(key, name):
                edited = toml_edits.remove_key(project.text, (*path, key))
                project = _checked_key_removal(project, edited, (*path, key))
    return project


def _is_named(data: Mapping[str, Any], project: ProjectText, name: NormalizedName) -> bool:
    """Return whether a list of a project or of its tools has a requirement on another project."""
    lists = [_table(data, "build-system").get("requires")]
    for tool in ("wheelfit", "uv"):
        table = _table_at(data, ("tool", tool))
        lists += [items for key, items in table.items() if key.endswith("dependencies")]
    items = (item for items in lists if isinstance(items, list) for item in items)
    return bool(project.lists_with(name)) or any(_is_requirement_on(item, name) for item in items)


# --- requirements in a list --------------------------------------------------------------------


def _check_list(project: ProjectText, target: DependencyList) -> None:
    """Raise if a list belongs to a build backend, or its table is missing."""
    if target.kind == "group":
        return
    key = "optional-dependencies" if target.kind == "extra" else "dependencies"
    project_table = tomli.loads(project.text).get("project")
    if not isinstance(project_table, dict):
        refuse_poetry_project(project)
        raise _fault(
            project,
            "project",
            "is missing",
            "write it with a name and a version, or use a group: --group NAME",
        )
    dynamic = project_table.get("dynamic", [])
    if isinstance(dynamic, list) and key in dynamic:
        raise _fault(
            project,
            "project.dynamic",
            f"{key} are dynamic: the build backend sets them",
            "edit the file from which the backend reads them, or move them to [project]",
        )


def refuse_poetry_project(project: ProjectText) -> None:
    """Refuse a project without ``[project]`` whose dependencies are in a table of Poetry.

    :raises InvalidDocument: ``invalid-project``; it is such a project.
    """
    data = tomli.loads(project.text)
    if "project" not in data and "poetry" in _table(data, "tool"):
        raise _fault(
            project,
            "",
            "the dependencies of this project are in [tool.poetry], which only Poetry edits",
            "edit them with `poetry add` and `poetry remove`, or move name, version and "
            "dependencies to [project], which Poetry 2 reads too; --group NAME edits a group of "
            "[dependency-groups]",
        )


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def _table_at(data: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    for key in path:
        data = _table(data, key)
    return data


def _is_same_name(left: str, right: str) -> bool:
    return canonicalize_name(left) == canonicalize_name(right)


def _parse(item: object) -> Requirement | None:
    if not isinstance(item, str):
        return None  # a table that includes another group
    try:
        return parse_requirement(item, allow_variant_markers=False)
    except InvalidRequirement:
        return None


def _is_requirement_on(item: object, name: NormalizedName) -> bool:
    """Return whether an item of a list is a requirement on a project."""
    requirement = _parse(item)
    return requirement is not None and requirement.name == name


def _indexes_of(items: Sequence[object], name: NormalizedName) -> Iterator[int]:
    """Yield the indexes of the requirements on a project."""
    return (index for index, item in enumerate(items) if _is_requirement_on(item, name))


def _index_to_replace(
    items: Sequence[object], new: Requirement, target: DependencyList, where: str
) -> int | None:
    """Return the index of the requirement that a new one replaces; None: it is added."""
    same_name = list(_indexes_of(items, new.name))
    same_marker = [index for index in same_name if _marker(items[index]) == str(new.marker or "")]
    indexes = same_marker
    if not same_marker and new.marker is None:
        indexes = same_name
    if len(indexes) > 1:
        raise UserError(
            f"several requirements on {new.name} are in {target}",
            where=where,
            note="\n".join(str(items[index]) for index in indexes),
            hint="give the marker of one of them, or remove them first",
        )
    return indexes[0] if indexes else None


def _marker(item: object) -> str:
    requirement = _parse(item)
    return "" if requirement is None else str(requirement.marker or "")


def _index_for_new(items: Sequence[object], name: NormalizedName) -> int:
    """Return the index of a new requirement: by order in a sorted list, else at the end."""
    names = [requirement.name for requirement in map(_parse, items) if requirement is not None]
    if len(names) < len(items) or len(names) < _MIN_SORTED or names != sorted(names):
        return len(items)
    return sum(other <= name for other in names)


_MIN_SORTED = 2
"""The least number of requirements whose alphabetical order is treated as intended."""


def _merged(before: str, text: str) -> str:
    """Return a new requirement; parts that it lacks come from the one it replaces."""
    old, new = _parts(before), _parts(text)
    extras = dict.fromkeys((*old.extras, *new.extras))
    return str(
        _Parts(old.name, tuple(extras), new.versions or old.versions, new.marker or old.marker)
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a requirement in their original spelling."""

    name: str
    extras: tuple[str, ...]
    versions: str
    """The specifier, or ``@ URL``."""
    marker: str

    def __str__(self) -> str:
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        is_url = self.versions.startswith("@")
        versions = f" {self.versions}" if is_url else self.versions
        separator = " ; " if is_url else "; "
        marker = f"{separator}{self.marker}" if self.marker else ""
        return f"{self.name}{extras}{versions}{marker}"


def _parts(text: str) -> _Parts:
    start = marker_start(text)
    match = _HEAD.fullmatch(text if start is None else text[:start])
    if match is None:
        raise InvalidRequirement("this is not a requirement", source=text)
    extras = tuple(filter(None, map(str.strip, (match["extras"] or "").split(","))))
    marker = "" if start is None else text[start + 1 :].strip()
    return _Parts(match["name"], extras, match["rest"].strip(), marker)


# --- changes of the text -----------------------------------------------------------------------


def _path(target: DependencyList) -> tuple[str, ...]:
    return *target.table, target.name or "dependencies"


def _checked_list_edit(
    project: ProjectText, edited: str, target: DependencyList, items: Sequence[object]
) -> ProjectText:
    """Check that only the items of a list have changed, and return the edited project."""
    expected = tomli.loads(project.text)
    path = _path(target)
    *table_path, key = path
    table = expected
    for step in table_path:
        table = table.setdefault(step, {})
    if not isinstance(table, dict):
        hint = "correct it by hand; nothing was written"
        raise _fault(project, path_of(*table_path), "must be a table", hint)
    table[key] = list(items)
    hint = f"change it by hand to {json.dumps(list(items))}; nothing was written"
    return _checked_edit(project, edited, expected, path, hint)


def _checked_key_removal(project: ProjectText, edited: str, path: tuple[str, ...]) -> ProjectText:
    """Check that only a key and emptied tables were removed, and return the edited project."""
    expected = table = tomli.loads(project.text)
    for step in path[:-1]:
        table = table[step]
    del table[path[-1]]
    hint = "remove it by hand; nothing was written"
    return _checked_edit(project, edited, expected, path, hint, normalize=_without_empty)


def _without_empty(value: object) -> object:
    """Return a table without the empty tables in it."""
    if not isinstance(value, dict):
        return value
    items = {key: _without_empty(item) for key, item in value.items()}
    return {key: item for key, item in items.items() if item != {}}


def _checked_edit(
    project: ProjectText,
    edited: str,
    expected: object,
    path: tuple[str, ...],
    hint: str,
    normalize: Callable[[object], object] = lambda content: content,
) -> ProjectText:
    """Check the content of an edited project, and return the project.

    :param normalize: applied to both contents before they are compared.
    :raises InvalidDocument: ``invalid-project``; it is not as expected, or not TOML.
    """
    try:
        is_valid = normalize(tomli.loads(edited)) == normalize(expected)
    except tomli.TOMLDecodeError:
        is_valid = False
    if not is_valid:
        message = "the list cannot be edited without changing its other lines"
        raise _fault(project, path_of(*path), message, hint)
    return replace(project, text=edited)


def _fault(project: ProjectText, path: str, message: str, hint: str) -> InvalidDocument:
    return InvalidDocument(
        [Fault(path, message)], code="invalid-project", where=project.where, hint=hint
    )
