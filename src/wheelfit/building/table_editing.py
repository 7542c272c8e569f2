"""Edits of the ``[variant]`` table of a ``pyproject.toml``, and of nothing else in it (B-8).

`wheelfit.core.toml_edits` changes the text. The result is parsed and compared with the expected
data: in any form of the table, the edit is made exactly, or the file is unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tomli

from wheelfit.core import strict_toml, toml_edits
from wheelfit.core.project_table import read_project_table
from wheelfit.core.toml_lines import blocks_of
from wheelfit_runtime.errors import Fault, InvalidDocument

if TYPE_CHECKING:
    Table = Mapping[str, Any]

_BOM = b"\xef\xbb\xbf"
_ROOT = "variant"
_PRIORITIES = (_ROOT, "default-priorities")
_PROVIDERS = (_ROOT, "providers")
_VARIANTS = (_ROOT, "variants")


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
    """
    text, before = read_pyproject(data, where=where)
    read_project_table(before, where=where)
    after = _edited_data(before, edits, where)
    read_project_table(after, where=where)
    uses_crlf = "\r\n" in text and text.count("\n") == text.count("\r\n")
    edited = text.replace("\r\n", "\n") if uses_crlf else text
    edited = _edited_text(edited, before.get(_ROOT, {}), after.get(_ROOT, {}), edits.remarks)
    if not _has_data(edited, after):
        raise _uneditable(where, after)
    return (edited.replace("\n", "\r\n") if uses_crlf else edited).encode()


def _edited_data(before: Table, edits: TableEdits, where: str) -> dict[str, Any]:
    """Return the data of the changed file."""
    table = _copy(before.get(_ROOT, {}))
    priorities = _priorities(table)
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
        exports = table.get("abi-exports")
        return others if exports is None else {**others, _ROOT: {"abi-exports": exports}}
    table.setdefault("default-priorities", {})["namespace"] = priorities
    table["providers"] = providers
    table["variants"] = variants
    if not variants:
        del table["variants"]
    return {**others, _ROOT: table}


def _fault(path: str, message: str, where: str) -> InvalidDocument:
    return InvalidDocument([Fault(path, message)], code="invalid-project", where=where)


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _copy(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(element) for element in value]
    return value


def _edited_text(text: str, old: Table, new: Table, remarks: Mapping[str, str]) -> str:
    """Return a text with the entries of its table changed; the caller checks the result."""
    if not new:
        return _without_table(text, (_ROOT,), remarks)
    for path in (_VARIANTS, _PROVIDERS):
        old_entries, new_entries = old.get(path[1], {}), new.get(path[1], {})
        for name, entry in old_entries.items():
            if new_entries.get(name) != entry:
                text = _without_table(text, (*path, name), remarks)
        if old_entries and path[1] not in new:
            text = toml_edits.remove_key(text, path)
    text = _with_priorities(text, _priorities(old), _priorities(new))
    for path, preceding in ((_PROVIDERS, (_PRIORITIES,)), (_VARIANTS, (_PROVIDERS, _PRIORITIES))):
        old_entries = old.get(path[1], {})
        for name, entry in new.get(path[1], {}).items():
            if old_entries.get(name) != entry:
                remark = remarks.get(name, "") if path == _PROVIDERS else ""
                table = _format_table((*path, name), entry, remark)
                after = (path, *preceding, (_ROOT,))
                text = toml_edits.add_table(text, (*path, name), table, _inline(entry), after)
    return text


def _without_table(text: str, path: tuple[str, ...], remarks: Mapping[str, str]) -> str:
    """Remove a table and all tables inside it, with the comments that wheelfit wrote above them."""
    lines = text.split("\n")
    comments = {f"# {remark}" for remark in remarks.values()}
    for start, _, steps in reversed(blocks_of(text)):
        if start and steps[: len(path)] == path and lines[start - 1] in comments:
            del lines[start - 1]
    return toml_edits.remove_key("\n".join(lines), path)


def _priorities(table: Table) -> list[str]:
    return list(table.get("default-priorities", {}).get("namespace", ()))


def _with_priorities(text: str, old: Sequence[str], new: Sequence[str]) -> str:
    """Change the list of priorities, without moving those whose position stays."""
    path = (*_PRIORITIES, "namespace")
    if not old or not new:
        text = toml_edits.remove_key(text, path)
        values = {"namespace": list(new)}
        table = _format_table(_PRIORITIES, values)
        return toml_edits.add_table(text, _PRIORITIES, table, _inline(values), ()) if new else text
    names = list(old)
    for name in old:
        if name not in new:
            text = toml_edits.remove(text, path, names.index(name))
            names.remove(name)
    for index, name in enumerate(new):
        if names[index : index + 1] != [name]:
            if name in names:
                text = toml_edits.remove(text, path, names.index(name))
                names.remove(name)
            text = toml_edits.insert(text, path, index, name)
            names.insert(index, name)
    return text


def _has_data(text: str, expected: Table) -> bool:
    try:
        document = tomli.loads(text)
    except tomli.TOMLDecodeError:
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
    lines = [f"{head}[{'.'.join(map(toml_edits.key_in_toml, path))}]"]
    lines += _pairs(values, ())
    return "\n".join(lines) + "\n"


def _pairs(values: Table, above: Sequence[str]) -> list[str]:
    lines = []
    for name, value in values.items():
        if isinstance(value, dict):
            lines += _pairs(value, (*above, name))
        else:
            lines.append(
                f"{'.'.join(map(toml_edits.key_in_toml, (*above, name)))} = {_value(value)}"
            )
    return lines


def _inline(values: Table) -> str:
    return f"{{{', '.join(_pairs(values, ()))}}}"


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)
