"""Edits of the ``[variant]`` table of a ``pyproject.toml``, and of nothing else in it (B-8).

Whole tables are inserted and removed as lines; keys and lists are changed by `tomlkit` (extra
`build`), which only this module imports. After every step the result is parsed and compared with
the expected data: in any form of the table, the edit is made exactly, or the file is unchanged.
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
    """The entries to add or to replace, by namespace."""
    remarks: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The comment above a new entry, without ``#``, by namespace; it is removed with the entry."""
    variants: Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]] = field(
        default_factory=dict, hash=False
    )
    """The variants to add or to replace: values by feature, namespace and label."""
    without_providers: tuple[str, ...] = ()
    """Namespaces to remove; the table is removed with the last of them."""
    without_variants: tuple[str, ...] = ()
    """Labels to remove."""
    first: tuple[str, ...] = ()
    """Namespaces that come first in the priorities, in this order."""


def read_pyproject(data: bytes, *, where: str) -> tuple[str, dict[str, Any]]:
    """Return the file as text without byte order mark, and as data."""
    without_bom = data.removeprefix(_BOM)
    try:
        return without_bom.decode("utf-8"), strict_toml.load(without_bom)
    except ValueError as error:
        raise _fault("", str(error), where) from None


def edit_table(data: bytes, edits: TableEdits, *, where: str) -> bytes:
    """Return the file with its table changed; comments, order and line endings stay.

    A byte order mark is removed: readers of TOML refuse files with one.

    :raises InvalidDocument: ``invalid-project``; it is not TOML, or cannot be edited without
        changing other lines.
    :raises InvalidDocument: its table has faults, or the edited one would have some.
    :raises NeedsExtra: `tomlkit` is not installed.
    """
    text, before = read_pyproject(data, where=where)
    read_project_table(before, where=where)
    after = _edited_data(before, edits, where)
    read_project_table(after, where=where)
    uses_crlf = "\r\n" in text and text.count("\n") == text.count("\r\n")
    lines = text.replace("\r\n", "\n") if uses_crlf else text
    for expected, methods in _steps(before, after, edits):
        lines = _apply_first(lines, expected, methods, where)
    if not _has_data(lines, after):
        raise _uneditable(where, after)
    lines = lines.replace("\n", "\r\n") if uses_crlf else lines
    return lines.encode()


def _edited_data(before: Table, edits: TableEdits, where: str) -> dict[str, Any]:
    """Return the data of the changed file."""
    table = _copy(before.get(_ROOT, {}))
    priorities: list[str] = list(table.get("default-priorities", {}).get("namespace", ()))
    providers: dict[str, Any] = table.get("providers", {})
    variants: dict[str, Any] = table.get("variants", {})
    for label in edits.without_variants:
        if label not in variants:
            raise _fault(f"variant.variants.{label}", "the table does not exist", where)
        del variants[label]
    used = {namespace: label for label, namespaces in variants.items() for namespace in namespaces}
    for namespace in edits.without_providers:
        path = f"variant.providers.{namespace}"
        if namespace not in providers:
            raise _fault(path, "the table does not exist", where)
        if namespace in used:
            message = f"the label {used[namespace]} needs it"
            hint = f"remove that too, with --remove-variant {used[namespace]}"
            raise InvalidDocument(
                [Fault(path, message, "B-7")], code="invalid-project", where=where, hint=hint
            )
        del providers[namespace]
        priorities = [name for name in priorities if name != namespace]
    providers |= {name: _copy(entry) for name, entry in edits.providers.items()}
    priorities += [name for name in edits.providers if name not in priorities]
    first = [name for name in edits.first if name in priorities]
    priorities = [*first, *(name for name in priorities if name not in first)]
    variants |= {label: _copy(features) for label, features in edits.variants.items()}
    others = {key: value for key, value in before.items() if key != _ROOT}
    if not (priorities or providers or variants):
        return others
    table.setdefault("default-priorities", {})["namespace"] = priorities
    table["providers"] = providers
    table["variants"] = variants
    if not variants:
        del table["variants"]
    return {**others, _ROOT: table}


def _fault(path: str, message: str, where: str) -> InvalidDocument:
    return InvalidDocument([Fault(path, message)], code="invalid-project", where=where)


def _copy(value: Any) -> Any:
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(key): _copy(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(element) for element in value]
    return value


_Edit: TypeAlias = "Callable[[str], str]"


def _steps(
    before: Table, after: Table, edits: TableEdits
) -> Iterator[tuple[Table, tuple[_Edit, ...]]]:
    """Yield for each change the data after it, and the edits to try, those by lines first."""
    if _ROOT not in after:
        yield after, _removal((_ROOT,), edits.remarks)
        return
    if _ROOT not in before:
        yield (
            after,
            (partial(_append_lines, new=format_variant_table(after[_ROOT], edits.remarks)),),
        )
        return
    data: dict[str, Any] = _copy(before)
    for key in (_VARIANTS, _PROVIDERS):
        current, target = data[_ROOT].get(key[1], {}), after[_ROOT].get(key[1], {})
        for name in [
            name for name in current if name not in target or current[name] != target[name]
        ]:
            del current[name]
            if not current and key == _VARIANTS and not target:
                del data[_ROOT][key[1]]
                yield _copy(data), _removal(_VARIANTS, {})
            else:
                yield _copy(data), _removal((*key, name), edits.remarks)
    priorities = after[_ROOT]["default-priorities"]["namespace"]
    if data[_ROOT].get("default-priorities", {}).get("namespace") != priorities:
        data[_ROOT].setdefault("default-priorities", {})["namespace"] = list(priorities)
        yield (
            _copy(data),
            (partial(_edit_keys, change=partial(_set_priorities, priorities=priorities)),),
        )
    for key in (_PROVIDERS, _VARIANTS):
        target = after[_ROOT].get(key[1], {})
        current = data[_ROOT].get(key[1], {})
        for name in [name for name in target if name not in current]:
            data[_ROOT].setdefault(key[1], {})[name] = _copy(target[name])
            path = (*key, name)
            remark = edits.remarks.get(name, "") if key == _PROVIDERS else ""
            new = _format_table(path, target[name], remark)
            by_keys = partial(_edit_keys, change=partial(_add_key, path=path, new=new))
            yield _copy(data), (partial(_insert_lines, path=path, new=new), by_keys)


def _removal(path: tuple[str, ...], remarks: Mapping[str, str]) -> tuple[_Edit, ...]:
    by_keys = partial(_edit_keys, change=partial(_remove_key, path=path))
    return partial(_remove_lines, path=path, remarks=remarks), by_keys


def _apply_first(text: str, expected: Table, edits: Iterable[_Edit], where: str) -> str:
    """Return a text after the first edit with the expected result."""
    for edit in edits:
        result = edit(text)
        if _has_data(result, expected):
            return result
    raise _uneditable(where, expected)


def _has_data(text: str, expected: Table) -> bool:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return _without_empty_tables(document) == _without_empty_tables(expected)


def _without_empty_tables(data: Table) -> dict[str, Any]:
    """Return data without empty tables in ``[variant]``, which are equivalent to missing ones."""
    table = data.get(_ROOT)
    if not isinstance(table, dict):
        return dict(data)
    entries = {key: value for key, value in table.items() if value != {}}
    return {**data, _ROOT: entries}


def _uneditable(where: str, expected: Table) -> InvalidDocument:
    table = (
        format_variant_table(expected.get(_ROOT, {}), {})
        if _ROOT in expected
        else "no [variant] table\n"
    )
    message = "the table cannot be edited without changing its other lines"
    error = _fault(_ROOT, message, where)
    error.hint = "change it by hand; nothing was written"
    error.note = f"the expected table is\n{table.rstrip()}"
    return error


def _after_comments(lines: Sequence[str], end: int) -> int:
    """Return the line after the comments that belong to the text above them."""
    last = end
    while last < len(lines) and lines[last].lstrip().startswith("#"):
        last += 1
    is_apart = last == len(lines) or not lines[last].strip()
    return last if is_apart else end


def _remove_lines(text: str, path: Sequence[str], remarks: Mapping[str, str]) -> str:
    """Remove a table and all tables inside it, with the comments that wheelfit wrote above them."""
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
    remaining = "\n".join(lines)
    return remaining.rstrip("\n") + "\n" if is_last and remaining else remaining


def _insert_lines(text: str, path: Sequence[str], new: str) -> str:
    """Insert a table after the last of its kind."""
    blocks = blocks_of(text)
    preceding = (_PROVIDERS, _PRIORITIES) if path[1] == "variants" else (_PRIORITIES,)
    for prefix in (tuple(path[:2]), *preceding, (_ROOT,)):
        ends = [end for _, end, steps in blocks if steps[: len(prefix)] == prefix]
        if ends:
            lines = text.split("\n")
            end = _after_comments(lines, ends[-1])
            lines[end:end] = ["", *new.rstrip("\n").split("\n")]
            is_last = not any(line.strip() for line in lines[end + 1 + new.count("\n") :])
            return "\n".join(lines).rstrip("\n") + "\n" if is_last else "\n".join(lines)
    return _append_lines(text, new)


def _append_lines(text: str, new: str) -> str:
    if not text.strip():
        return text + new
    if text.endswith("\n\n"):
        return text + new
    return f"{text}\n{new}" if text.endswith("\n") else f"{text}\n\n{new}"


def _edit_keys(text: str, change: Callable[[Any], None]) -> str:
    """Change a document by its keys; the caller checks the result."""
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
        return text  # tomlkit cannot edit this form


def _remove_key(document: Any, path: Sequence[str]) -> None:
    *above, last = path
    for name in above:
        document = document[name]
    del document[last]


def _add_key(document: Any, path: Sequence[str], new: str) -> None:
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


def _set_priorities(document: Any, priorities: Sequence[str]) -> None:
    """Set the priorities, without moving those whose position stays."""
    for name in _PRIORITIES:
        document = document[name]
    names = document["namespace"]
    for name in [name for name in names if name not in priorities]:
        names.remove(name)
    for index, name in enumerate(priorities):
        if index < len(names) and names[index] == name:
            continue
        if name in names:
            names.remove(name)
        names.insert(index, name)


def _inline(value: Any) -> Any:
    import tomlkit

    if isinstance(value, dict):
        table = tomlkit.inline_table()
        for key, element in value.items():
            table[key] = _inline(element)
        return table
    return tomlkit.item(value)


def format_variant_table(table: Table, remarks: Mapping[str, str]) -> str:
    """Return a whole ``[variant]`` table as text."""
    priorities = table.get("default-priorities", {})
    parts = [_format_table(_PRIORITIES, priorities)]
    for name, entry in table.get("providers", {}).items():
        parts.append(_format_table((*_PROVIDERS, name), entry, remarks.get(name, "")))
    for label, features in table.get("variants", {}).items():
        parts.append(_format_table((*_VARIANTS, label), features))
    return "\n".join(parts)


def _format_table(path: Sequence[str], values: Table, remark: str = "") -> str:
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
