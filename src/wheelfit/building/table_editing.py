"""Edits of the ``[variant]`` table of a ``pyproject.toml``, and of nothing else in it (B-8).

Whole tables are put in and taken out as lines; keys and lists are changed by `tomlkit`, whose only
importer this is (extra `build`). After every step the result is parsed and compared with the
expected data: in any form of the table, the edit is made exactly, or the file is unchanged.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from wheelfit.core import strict_toml
from wheelfit.core.project_table import read_project_table
from wheelfit.core.toml_lines import blocks_of
from wheelfit.errors import NeedsExtra
from wheelfit_runtime.errors import Fault, InvalidDocument
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Table = Mapping[str, Any]

_BOM = b"\xef\xbb\xbf"
_ROOT = "variant"
_PRIORITIES = (_ROOT, "default-priorities")
_PROVIDERS = (_ROOT, "providers")
_VARIANTS = (_ROOT, "variants")
_BARE = pattern(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class TableEdits:
    """The changes to a table; parts that already match are left unchanged."""

    providers: Mapping[str, Table] = field(default_factory=dict, hash=False)
    """By namespace: the entry to put in, or to put in the place of one."""
    remarks: Mapping[str, str] = field(default_factory=dict, hash=False)
    """By namespace: the comment above a new entry, without ``#``; it is removed with the entry."""
    variants: Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]] = field(
        default_factory=dict, hash=False
    )
    """By label: namespace to feature to values."""
    without_providers: tuple[str, ...] = ()
    """Namespaces to take out; the table is removed with the last of them."""
    without_variants: tuple[str, ...] = ()
    """Labels to take out."""
    first: tuple[str, ...] = ()
    """Namespaces that come first in the priorities, in this order."""


def read_pyproject(data: bytes, *, where: str) -> tuple[str, dict[str, Any]]:
    """Read the file as text without byte order mark, and as data."""
    bare = data.removeprefix(_BOM)
    try:
        return bare.decode("utf-8"), strict_toml.load(bare)
    except ValueError as error:
        raise _fault("", str(error), where) from None


def edited(data: bytes, edits: TableEdits, *, where: str) -> bytes:
    """Return the file with its table changed; comments, order and line endings stay.

    A byte order mark does not: readers of TOML refuse files that start with one.

    :raises InvalidDocument: ``invalid-project``; it is not TOML; or it is written in a form that
        cannot be changed without changing more.
    :raises InvalidDocument: its table has faults, or would have some afterwards.
    :raises NeedsExtra: the library is not installed.
    """
    text, before = read_pyproject(data, where=where)
    read_project_table(before, where=where)
    after = _wanted(before, edits, where)
    read_project_table(after, where=where)
    crlf = "\r\n" in text and text.count("\n") == text.count("\r\n")
    lines = text.replace("\r\n", "\n") if crlf else text
    for wanted, ways in _steps(before, after, edits):
        lines = _first_right(lines, wanted, ways, where)
    if not _says(lines, after):
        raise _unchangeable(where, after)
    lines = lines.replace("\n", "\r\n") if crlf else lines
    return lines.encode()


def _wanted(before: Table, edits: TableEdits, where: str) -> dict[str, Any]:
    """Return the data of the changed file."""
    table = _copied(before.get(_ROOT, {}))
    priorities: list[str] = list(table.get("default-priorities", {}).get("namespace", ()))
    providers: dict[str, Any] = table.get("providers", {})
    variants: dict[str, Any] = table.get("variants", {})
    for label in edits.without_variants:
        if label not in variants:
            raise _fault(f"variant.variants.{label}", "the table does not exist", where)
        del variants[label]
    used = {space: label for label, spaces in variants.items() for space in spaces}
    for namespace in edits.without_providers:
        path = f"variant.providers.{namespace}"
        if namespace not in providers:
            raise _fault(path, "the table does not exist", where)
        if namespace in used:
            message = f"the label {used[namespace]} needs it"
            hint = f"take that out too, with --remove-variant {used[namespace]}"
            raise InvalidDocument(
                [Fault(path, message, "B-7")], code="invalid-project", where=where, hint=hint
            )
        del providers[namespace]
        priorities = [name for name in priorities if name != namespace]
    providers |= {name: _copied(entry) for name, entry in edits.providers.items()}
    priorities += [name for name in edits.providers if name not in priorities]
    first = [name for name in edits.first if name in priorities]
    priorities = [*first, *(name for name in priorities if name not in first)]
    variants |= {label: _copied(spaces) for label, spaces in edits.variants.items()}
    rest = {key: value for key, value in before.items() if key != _ROOT}
    if not (priorities or providers or variants):
        return rest
    table.setdefault("default-priorities", {})["namespace"] = priorities
    table["providers"] = providers
    table["variants"] = variants
    if not variants:
        del table["variants"]
    return {**rest, _ROOT: table}


def _fault(path: str, message: str, where: str) -> InvalidDocument:
    return InvalidDocument([Fault(path, message)], code="invalid-project", where=where)


def _copied(value: Any) -> Any:
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(key): _copied(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(one) for one in value]
    return value


_Way: TypeAlias = "Callable[[str], str]"


def _steps(
    before: Table, after: Table, edits: TableEdits
) -> Iterator[tuple[Table, tuple[_Way, ...]]]:
    """Yield the changes in turn: the data after each, and ways to make it, first by lines."""
    if _ROOT not in after:
        yield after, _removal((_ROOT,), edits.remarks)
        return
    if _ROOT not in before:
        yield after, (partial(_appended, new=written_table(after[_ROOT], edits.remarks)),)
        return
    now: dict[str, Any] = _copied(before)
    for place in (_VARIANTS, _PROVIDERS):
        here, there = now[_ROOT].get(place[1], {}), after[_ROOT].get(place[1], {})
        for name in [name for name in here if name not in there or here[name] != there[name]]:
            del here[name]
            if not here and place == _VARIANTS and not there:
                del now[_ROOT][place[1]]
                yield _copied(now), _removal(_VARIANTS, {})
            else:
                yield _copied(now), _removal((*place, name), edits.remarks)
    wanted = after[_ROOT]["default-priorities"]["namespace"]
    if now[_ROOT].get("default-priorities", {}).get("namespace") != wanted:
        now[_ROOT].setdefault("default-priorities", {})["namespace"] = list(wanted)
        yield _copied(now), (partial(_by_keys, change=partial(_list_priorities, wanted=wanted)),)
    for place in (_PROVIDERS, _VARIANTS):
        there = after[_ROOT].get(place[1], {})
        here = now[_ROOT].get(place[1], {})
        for name in [name for name in there if name not in here]:
            now[_ROOT].setdefault(place[1], {})[name] = _copied(there[name])
            path = (*place, name)
            remark = edits.remarks.get(name, "") if place == _PROVIDERS else ""
            new = _written(path, there[name], remark)
            by_keys = partial(_by_keys, change=partial(_add, path=path, new=new))
            yield _copied(now), (partial(_put_in, path=path, new=new), by_keys)


def _removal(path: tuple[str, ...], remarks: Mapping[str, str]) -> tuple[_Way, ...]:
    by_keys = partial(_by_keys, change=partial(_remove, path=path))
    return partial(_cut, path=path, remarks=remarks), by_keys


def _first_right(text: str, wanted: Table, ways: Iterable[_Way], where: str) -> str:
    """Return a text changed in the first way with the expected result."""
    for way in ways:
        changed = way(text)
        if _says(changed, wanted):
            return changed
    raise _unchangeable(where, wanted)


def _says(text: str, wanted: Table) -> bool:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return _pruned(document) == _pruned(wanted)


def _pruned(data: Table) -> dict[str, Any]:
    """Return data without empty tables of ours, which are equivalent to missing ones."""
    table = data.get(_ROOT)
    if not isinstance(table, dict):
        return dict(data)
    kept = {key: value for key, value in table.items() if value != {}}
    return {**data, _ROOT: kept}


def _unchangeable(where: str, wanted: Table) -> InvalidDocument:
    table = written_table(wanted.get(_ROOT, {}), {}) if _ROOT in wanted else "no [variant] table\n"
    message = "the list cannot be edited without changing its other lines"
    error = _fault(_ROOT, message, where)
    error.hint = "change it by hand; nothing was written"
    error.note = f"it should say\n{table.rstrip()}"
    return error


def _behind_remarks(lines: Sequence[str], end: int) -> int:
    """Return the line behind comments that belong to the text above them, not below."""
    last = end
    while last < len(lines) and lines[last].lstrip().startswith("#"):
        last += 1
    is_apart = last == len(lines) or not lines[last].strip()
    return last if is_apart else end


def _cut(text: str, path: Sequence[str], remarks: Mapping[str, str]) -> str:
    """Remove a table and all tables inside it, with our comments above them."""
    lines = text.split("\n")
    is_last = False
    for first, end, steps in reversed(blocks_of(text)):
        if steps[: len(path)] == tuple(path):
            start = first
            if start and lines[start - 1] == f"# {remarks.get(str(steps[-1]), '')}":
                start -= 1
            while start and not lines[start - 1].strip():
                start -= 1  # the empty lines above it
            is_last |= not any(line.strip() for line in lines[end:])
            del lines[start:end]
    while lines and not lines[0].strip():
        del lines[0]
    rest = "\n".join(lines)
    return rest.rstrip("\n") + "\n" if is_last and rest else rest


def _put_in(text: str, path: Sequence[str], new: str) -> str:
    """Insert a table behind the last of its kind."""
    blocks = blocks_of(text)
    for kind in (tuple(path[:2]), *((_PROVIDERS, _PRIORITIES) if path[1] == "variants" else
                                    (_PRIORITIES,)), (_ROOT,)):  # fmt: skip
        ends = [end for _, end, steps in blocks if steps[: len(kind)] == kind]
        if ends:
            lines = text.split("\n")
            end = _behind_remarks(lines, ends[-1])
            lines[end:end] = ["", *new.rstrip("\n").split("\n")]
            is_last = not any(line.strip() for line in lines[end + 1 + new.count("\n") :])
            return "\n".join(lines).rstrip("\n") + "\n" if is_last else "\n".join(lines)
    return _appended(text, new)


def _appended(text: str, new: str) -> str:
    if not text.strip():
        return text + new
    if text.endswith("\n\n"):
        return text + new
    return f"{text}\n{new}" if text.endswith("\n") else f"{text}\n\n{new}"


def _by_keys(text: str, change: Callable[[Any], None]) -> str:
    """Change a document by its keys; the result is checked afterwards."""
    try:
        import tomlkit
        from tomlkit.exceptions import TOMLKitError
    except ImportError:
        raise NeedsExtra("build", "tomlkit") from None
    try:
        document: Any = tomlkit.parse(text)
        change(document)
        return tomlkit.dumps(document)
    except (TOMLKitError, KeyError, TypeError, ValueError, AttributeError, IndexError):
        return text  # a form that it cannot change, either


def _remove(document: Any, path: Sequence[str]) -> None:
    *above, last = path
    for name in above:
        document = document[name]
    del document[last]


def _add(document: Any, path: Sequence[str], new: str) -> None:
    import tomlkit

    *above, last = path
    value: Any = tomllib.loads(new)
    for name in path:
        value = value[name]
    for name in above:
        if name not in document:
            document[name] = tomlkit.inline_table()
        document = document[name]
    document[last] = _inline(value)


def _list_priorities(document: Any, wanted: Sequence[str]) -> None:
    """Set the priorities, and leave remaining ones at their place in the text."""
    for name in _PRIORITIES:
        document = document[name]
    names = document["namespace"]
    for name in [name for name in names if name not in wanted]:
        names.remove(name)
    for index, name in enumerate(wanted):
        if index < len(names) and names[index] == name:
            continue
        if name in names:
            names.remove(name)
        names.insert(index, name)


def _inline(value: Any) -> Any:
    import tomlkit

    if isinstance(value, dict):
        table = tomlkit.inline_table()
        for key, one in value.items():
            table[key] = _inline(one)
        return table
    return tomlkit.item(value)


def written_table(table: Table, remarks: Mapping[str, str]) -> str:
    """Return a whole ``[variant]`` table as people write it."""
    priorities = table.get("default-priorities", {})
    parts = [_written(_PRIORITIES, priorities)]
    for name, entry in table.get("providers", {}).items():
        parts.append(_written((*_PROVIDERS, name), entry, remarks.get(name, "")))
    for label, spaces in table.get("variants", {}).items():
        parts.append(_written((*_VARIANTS, label), spaces))
    return "\n".join(parts)


def _written(path: Sequence[str], values: Table, remark: str = "") -> str:
    head = f"# {remark}\n" if remark else ""
    lines = [f"{head}[{'.'.join(map(_key, path))}]"]
    lines += _pairs(values, ())
    return "\n".join(lines) + "\n"


def _pairs(values: Table, above: Sequence[str]) -> list[str]:
    lines = []
    for name, value in values.items():
        if isinstance(value, dict):
            lines += _pairs(value, (*above, name))
        else:
            lines.append(f"{'.'.join(map(_key, (*above, name)))} = {_value(value)}")
    return lines


def _key(text: str) -> str:
    return text if _BARE.fullmatch(text) else json.dumps(text)


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)
