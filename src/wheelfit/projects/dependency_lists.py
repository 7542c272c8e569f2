"""Lists of requirements in a ``pyproject.toml``, changed as text: all else of it stays.

After every change the text is parsed and compared with the expected content. So in any form an
author has chosen, the change is exactly the requested one, or there is none.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from packaging.utils import canonicalize_name

from wheelfit.core import strict_toml, toml_edits
from wheelfit.core.requirements import marker_start, parse_requirement
from wheelfit.core.strict_json import path_of
from wheelfit.errors import InvalidRequirement
from wheelfit_runtime.errors import Fault, FileProblem, InvalidDocument, UserError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.requirements import Requirement

_HEAD = pattern(
    r"\s*+(?P<name>[A-Za-z0-9][\w.-]*+)\s*+(?:\[(?P<extras>[^\]]*+)\])?+\s*+(?P<rest>.*+)"
)
_EXTRAS = ("project", "optional-dependencies")
_GROUPS = ("dependency-groups",)


@dataclass(frozen=True, slots=True)
class DependencyList:
    """A list of requirements of a project: its own, that of an extra, or that of a group."""

    kind: Literal["project", "extra", "group"] = "project"
    name: str = ""
    """The extra or group, in any spelling; empty for the project's own list."""

    def __str__(self) -> str:
        return f"the {self.kind} {self.name}" if self.name else "the dependencies of the project"

    @property
    def table(self) -> tuple[str, ...]:
        """The keys of the table that has it."""
        return {"project": ("project",), "extra": _EXTRAS, "group": _GROUPS}[self.kind]


@dataclass(frozen=True, slots=True)
class ListChange:
    """The change of one requirement in a list."""

    name: NormalizedName
    before: str | None
    """The requirement that was there; None: it is new."""
    after: str | None
    """The requirement that is there now; None: it was removed."""


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
        """Return every list with its elements, names as they are written."""
        data = tomllib.loads(self.text)
        own = _table(data, "project")
        lists: dict[DependencyList, Sequence[object]] = {}
        if isinstance(own.get("dependencies"), list):
            lists[DependencyList()] = own["dependencies"]
        for kind, table in (
            ("extra", _table(own, "optional-dependencies")),
            ("group", _table(data, "dependency-groups")),
        ):
            for name, items in table.items():
                if isinstance(items, list):
                    lists[DependencyList(kind, name)] = items  # type: ignore[arg-type]
        return lists

    def find(self, wanted: DependencyList) -> DependencyList | None:
        """Return a list with its name as it is written; None if there is none."""
        for one in self.lists():
            if one.kind == wanted.kind and _same_name(one.name, wanted.name):
                return one
        return None

    def names(self, wanted: DependencyList) -> Sequence[NormalizedName]:
        """Return the names of the projects that a list has requirements on."""
        there = self.find(wanted)
        items = () if there is None else self.lists()[there]
        return [one.name for one in map(_parsed, items) if one is not None]

    def places_of(self, name: NormalizedName) -> Sequence[DependencyList]:
        """Return the lists that have a requirement on a project."""
        return [one for one in self.lists() if name in self.names(one)]


def with_requirement(
    project: ProjectText, wanted: DependencyList, text: str
) -> tuple[ProjectText, ListChange]:
    """Return a project with a requirement in a list, which is made if there is none.

    A requirement on the same project with the same marker gives way, as does the only one if the
    new one has no marker: its spelling, marker and extras stay, and its versions if none are named.

    :raises InvalidDocument: ``invalid-project``; the file has a form that cannot be changed, or
        leaves the list to a build backend.
    :raises InvalidRequirement: the text is not a requirement.
    :raises UserError: several requirements could be meant.
    """
    new = parse_requirement(text, allow_variant_markers=False)
    _check_list(project, wanted)
    there = project.find(wanted)
    if there is None:
        created = toml_edits.create(project.text, _path(wanted), text.strip(), after="project")
        changed = _checked(project, created, wanted, [text.strip()])
        return changed, ListChange(new.name, None, text.strip())
    items = project.lists()[there]
    place = _place_of(items, new, there, project.where)
    if place is None:
        place = _place_for(items, new.name)
        changed = _inserted(project, there, place, text.strip())
        return changed, ListChange(new.name, None, text.strip())
    before = str(items[place])
    after = _merged(before, text)
    return _replaced(project, there, place, after), ListChange(new.name, before, after)


def without_requirement(
    project: ProjectText, wanted: DependencyList, name: NormalizedName
) -> tuple[ProjectText, Sequence[ListChange]]:
    """Return a project without any requirement on another in a list.

    :return: without changes if the list does not have it.
    """
    there = project.find(wanted)
    changes: list[ListChange] = []
    while there is not None:
        items = project.lists()[there]
        place = next(_named(items, name), None)
        if place is None:
            break
        changes.append(ListChange(name, str(items[place]), None))
        project = _removed(project, there, place)
    return project, changes


def without_sources(project: ProjectText, name: NormalizedName) -> ProjectText:
    """Return a project without the sources of a dependency that nothing in it names any more.

    They are in ``[tool.wheelfit.sources]`` and ``[tool.uv.sources]``.
    """
    if _is_named(tomllib.loads(project.text), project, name):
        return project
    for tool in ("wheelfit", "uv"):
        path = ("tool", tool, "sources")
        for key in _at(tomllib.loads(project.text), path):
            if _same_name(key, name):
                text = toml_edits.remove_key(project.text, (*path, key))
                project = _checked_without(project, text, (*path, key))
    return project


def _is_named(data: Mapping[str, Any], project: ProjectText, name: NormalizedName) -> bool:
    """Return whether any list of a project has a requirement on another, those of tools too."""
    lists = [_table(data, "build-system").get("requires")]
    for tool in ("wheelfit", "uv"):
        table = _at(data, ("tool", tool))
        lists += [items for key, items in table.items() if key.endswith("dependencies")]
    item_lists = (items for items in lists if isinstance(items, list))
    return bool(project.places_of(name)) or any(any(_named(items, name)) for items in item_lists)


# --- which requirement is meant ----------------------------------------------------------------


def _check_list(project: ProjectText, wanted: DependencyList) -> None:
    """Refuse to make a list that belongs to a build backend, or to a table that is missing."""
    own = tomllib.loads(project.text).get("project")
    if wanted.kind == "group":
        return
    key = "optional-dependencies" if wanted.kind == "extra" else "dependencies"
    if not isinstance(own, dict):
        check_not_of_poetry(project)
        raise _fault(
            project,
            "project",
            "is missing",
            "write it with a name and a version, or use a group: --group NAME",
        )
    dynamic = own.get("dynamic", [])
    if isinstance(dynamic, list) and key in dynamic:
        raise _fault(
            project,
            "project.dynamic",
            f"{key} are dynamic: the build backend sets them",
            "change them where the backend takes them from, or move them to [project]",
        )


def check_not_of_poetry(project: ProjectText) -> None:
    """Refuse a project without ``[project]`` whose dependencies are in a table of Poetry."""
    data = tomllib.loads(project.text)
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


def _at(data: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    for key in path:
        data = _table(data, key)
    return data


def _same_name(one: str, other: str) -> bool:
    return canonicalize_name(one) == canonicalize_name(other)


def _parsed(item: object) -> Requirement | None:
    if not isinstance(item, str):
        return None  # another group
    try:
        return parse_requirement(item, allow_variant_markers=False)
    except InvalidRequirement:
        return None


def _named(items: Sequence[object], name: NormalizedName) -> Iterator[int]:
    """Yield the places of the requirements on a project."""
    for place, item in enumerate(items):
        requirement = _parsed(item)
        if requirement is not None and requirement.name == name:
            yield place


def _place_of(
    items: Sequence[object], new: Requirement, which: DependencyList, where: str
) -> int | None:
    """Return the place of the requirement that gives way; None: the new one is added."""
    same = list(_named(items, new.name))
    alike = [place for place in same if _marker(items[place]) == _text(new.marker)]
    places = alike if alike or new.marker is not None else same
    if len(places) > 1:
        raise UserError(
            f"several requirements on {new.name} are in {which}",
            where=where,
            note="\n".join(str(items[place]) for place in places),
            hint="give the one that is meant with its marker, or remove them first",
        )
    return places[0] if places else None


def _marker(item: object) -> str:
    requirement = _parsed(item)
    return "" if requirement is None else _text(requirement.marker)


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _place_for(items: Sequence[object], name: NormalizedName) -> int:
    """Return the place of a new requirement: by order in a sorted list, else at the end."""
    names = [None if (one := _parsed(item)) is None else one.name for item in items]
    known = [one for one in names if one is not None]
    if len(known) < len(names) or len(known) < _SORTED or known != sorted(known):
        return len(items)
    return sum(one <= name for one in known)


_SORTED = 2
"""So many requirements in the order of the alphabet are no accident."""


def _merged(before: str, text: str) -> str:
    """Return a requirement that takes the place of another, with the parts it leaves open."""
    old, new = _parts(before), _parts(text)
    extras = dict.fromkeys((*old.extras, *new.extras))
    return str(
        _Parts(old.name, tuple(extras), new.versions or old.versions, new.marker or old.marker)
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a requirement as they are written."""

    name: str
    extras: tuple[str, ...]
    versions: str
    """The specifier, or ``@ URL``."""
    marker: str

    def __str__(self) -> str:
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        is_url = self.versions.startswith("@")
        versions = f" {self.versions}" if is_url else self.versions
        marker = f"{' ' * is_url}; {self.marker}" if self.marker else ""
        return f"{self.name}{extras}{versions}{marker}"


def _parts(text: str) -> _Parts:
    start = marker_start(text)
    match = _HEAD.fullmatch(text if start is None else text[:start])
    if match is None:
        raise InvalidRequirement("this is not a requirement", source=text)
    extras = tuple(one.strip() for one in (match["extras"] or "").split(",") if one.strip())
    marker = "" if start is None else text[start + 1 :].strip()
    return _Parts(match["name"], extras, match["rest"].strip(), marker)


# --- changes of the text -----------------------------------------------------------------------


def _inserted(
    project: ProjectText, which: DependencyList, place: int, requirement: str
) -> ProjectText:
    items = [*project.lists()[which]]
    items.insert(place, requirement)
    text = toml_edits.insert(project.text, _path(which), place, requirement)
    return _checked(project, text, which, items)


def _replaced(
    project: ProjectText, which: DependencyList, place: int, requirement: str
) -> ProjectText:
    items = [*project.lists()[which]]
    if items[place] == requirement:
        return project
    items[place] = requirement
    text = toml_edits.replace(project.text, _path(which), place, requirement)
    return _checked(project, text, which, items)


def _removed(project: ProjectText, which: DependencyList, place: int) -> ProjectText:
    items = [*project.lists()[which]]
    del items[place]
    text = toml_edits.remove(project.text, _path(which), place)
    return _checked(project, text, which, items)


def _path(which: DependencyList) -> tuple[str, ...]:
    return *which.table, which.name or "dependencies"


def _checked(
    project: ProjectText, text: str, which: DependencyList, items: Sequence[object]
) -> ProjectText:
    """Return the changed project if it has exactly the expected content."""
    wanted = deepcopy(tomllib.loads(project.text))
    *above, key = _path(which)
    table = wanted
    for step in above:
        table = table.setdefault(step, {})
    table[key] = list(items)
    try:
        is_right = tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise _fault(
            project,
            path_of(*_path(which)),
            "the list cannot be edited without changing its other lines",
            f"change it by hand to {json.dumps(list(items))}; nothing was written",
        )
    return replace(project, text=text)


def _checked_without(project: ProjectText, text: str, path: tuple[str, ...]) -> ProjectText:
    """Return the changed project if it lacks a key, and nothing else but empty tables."""
    wanted = tomllib.loads(project.text)
    table = wanted
    for step in path[:-1]:
        table = table[step]
    del table[path[-1]]
    try:
        is_right = _filled(tomllib.loads(text)) == _filled(wanted)
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise _fault(
            project,
            path_of(*path),
            "the list cannot be edited without changing its other lines",
            "remove it by hand; nothing was written",
        )
    return replace(project, text=text)


def _filled(value: object) -> object:
    """Return a table without empty ones in it."""
    if not isinstance(value, dict):
        return value
    inside = {key: _filled(item) for key, item in value.items()}
    return {key: item for key, item in inside.items() if item != {}}


def _fault(project: ProjectText, path: str, message: str, hint: str) -> InvalidDocument:
    return InvalidDocument(
        [Fault(path, message)], code="invalid-project", where=project.where, hint=hint
    )
