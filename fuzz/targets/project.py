"""Projects: what they need is read whole or refused with lines (PEP 621, PEP 735)."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from packaging.dependency_groups import resolve_dependency_groups
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from wheelfit.core.strict_json import path_of
from wheelfit.core.toml_lines import lines_of
from wheelfit.resolution.project_file import ProjectFile, read_project_file
from wheelfit_runtime.errors import FileProblem, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 4096
"""Bytes of an input."""

MANY_WORDS = 3000
"""Characters, which few short sentences and a path in a document have."""


def check(data: bytes) -> None:
    """Hold the reader of projects, and what finds lines, to their rules for some bytes."""
    try:
        project = read_project_file(data, "x")
    except FileProblem as error:
        assert error.where == "x"
        return
    except InvalidDocument as error:
        assert error.faults
        for fault in error.faults:
            assert (fault.path + fault.message).isprintable()
            assert len(fault.path + fault.message) < MANY_WORDS
            assert not fault.path or fault.message.startswith("line ")
        project = None
    text = data.decode()
    check_lines(text)
    if project is not None:
        check_groups(tomllib.loads(text), project)
        check_needs(project, text.count("\n") + 1)


def check_lines(text: str) -> None:
    """Check that every place of a document is on a line of it."""
    lines = lines_of(text)
    count = text.count("\n") + 1
    assert all(1 <= line <= count for line in lines.values())
    for path in places(tomllib.loads(text)):
        assert path_of(*path) in lines, path


def places(value: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the way to every value inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*above, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*above, key))


def check_groups(table: dict[str, Any], project: ProjectFile) -> None:
    """Check groups against what packaging makes of them."""
    for name in project.groups:
        try:
            texts = resolve_dependency_groups(table["dependency-groups"], name)
            names = {canonicalize_name(Requirement(text).name) for text in texts}
        except InvalidRequirement:  # a marker that only we know
            continue
        own = {asked.requirement.name for asked in project.groups[name]}
        assert names - {project.name} <= own
        assert own <= names or project.name in names


def check_needs(project: ProjectFile, count: int) -> None:
    """Check that every need has its line, is said once, and is never the project itself."""
    for needs in (project.dependencies, *project.extras.values(), *project.groups.values()):
        assert len(set(needs)) == len(needs)
        for asked in needs:
            assert asked.requirement.name != project.name
            assert 1 <= int(asked.where.removeprefix("x:")) <= count
