"""Edits of keys and lists of strings in a TOML document, which keep comments, order and style.

The caller parses the result and verifies its content.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wheelfit.core.toml_lines import blocks_of, headers_of, values_of
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    _Span = tuple[int, int]

_BARE = pattern(r"[A-Za-z0-9_-]+")


# --- keys ----------------------------------------------------------------------


def remove_key(text: str, path: tuple[str, ...]) -> str:
    r"""Return a document without a key, in any of its forms.

    Its lines are removed with their comments, and its table too if it has no other content.

    >>> remove_key('[a]\nb = 1\n\n[a.s]\n# all\nc = {d = 1}  # why\ne = 2\n', ("a", "s", "c"))
    '[a]\nb = 1\n\n[a.s]\n# all\ne = 2\n'
    >>> remove_key('a = 1\n\n[b.c]\nd = 1\n', ("b", "c"))
    'a = 1\n'
    """
    for start, end, steps in reversed(blocks_of(text)):
        if steps[: len(path)] == path:
            text = _without_lines(text, start, end)
    while (span := _find_value(values_of(text), path)) is not None:
        text = _without_pair(text, *span)
    return _without_empty(text, path[:-1])


def _find_value(
    values: Mapping[tuple[str | int, ...], _Span], path: tuple[str, ...]
) -> tuple[_Span, Sequence[_Span], _Span | None] | None:
    """Return the spans of a key's value, and of the inline table around it.

    :return: the span of the value, those of all values in the inline table, and that of the table,
        None if there is no inline table. None if the document does not have the key.
    """
    # With dotted keys only the values below the key have spans: the first of them is returned.
    value_steps = next((steps for steps in values if steps[: len(path)] == path), None)
    if value_steps is None:
        return None
    tables = (path[:size] for size in range(len(path) - 1, 0, -1))
    inline_table = next((table for table in tables if table in values), None)
    if inline_table is None:
        return values[value_steps], (), None
    size = len(inline_table)
    spans_in_table = [
        span for steps, span in values.items() if len(steps) > size and steps[:size] == inline_table
    ]
    return values[value_steps], spans_in_table, values[inline_table]


def _without_pair(
    text: str, value: _Span, spans_in_table: Sequence[_Span], braces: _Span | None
) -> str:
    """Return a document without a key and its value, whose spans `_find_value` returned."""
    first, stop = value
    if braces is None:
        end = text.find("\n", stop)
        start = text.rfind("\n", 0, first) + 1
        return text[:start] + ("" if end < 0 else text[end + 1 :])
    ends_before = [end for _, end in spans_in_table if end <= first]
    if ends_before:  # a later pair is removed with the comma before it
        return text[: max(ends_before)] + text[stop:]
    # The first pair is removed with the comma after it.
    rest = text[stop : braces[1] - 1].lstrip().removeprefix(",")
    return text[: braces[0] + 1] + rest + text[braces[1] - 1 :]


def _without_empty(text: str, table: tuple[str, ...]) -> str:
    """Return a document without a table, if it has neither keys nor comments."""
    if not table:
        return text
    span = values_of(text).get(table)
    if span is not None and not text[span[0] + 1 : span[1] - 1].strip():
        return remove_key(text, table)
    lines = text.split("\n")
    for start, end, steps in blocks_of(text):
        has_only_header = end == start + 1
        next_line = lines[end] if end < len(lines) else ""
        # A line right below the header may be a comment about the table.
        if steps == table and has_only_header and not next_line.strip():
            return _without_lines(text, start, end)
    return text


def _without_lines(text: str, start: int, end: int) -> str:
    """Return a text without some lines, and without empty lines that would be repeated."""
    lines = text.split("\n")
    del lines[start:end]

    def is_empty(index: int) -> bool:
        return index >= len(lines) or not lines[index].strip()

    while start and is_empty(start - 1) and is_empty(start):  # keep the second of two empty lines
        start -= 1
        del lines[start]
    return "\n".join(lines)


# --- lists ---------------------------------------------------------------------


def insert(text: str, path: tuple[str, ...], index: int, value: str) -> str:
    r"""Return a document with one more element in a list.

    >>> insert('a = [\n  "b",  # why\n]\n', ("a",), 1, "c")
    'a = [\n  "b",  # why\n  "c",\n]\n'

    :param index: the index of the new element.
    """
    start, stop, elements = _spans(text, path)
    new = _quoted(value, [text[first:end] for first, end in elements])
    if not elements:
        return _insert_into_empty(text, start, stop, new)
    if index == len(elements):
        return _append(text, stop, elements, new)
    return _insert_before(text, start, elements, index, new)


def replace(text: str, path: tuple[str, ...], index: int, value: str) -> str:
    """Return a document with an element of a list replaced."""
    first, end = _spans(text, path)[2][index]
    return text[:first] + _quoted(value, [text[first:end]]) + text[end:]


def remove(text: str, path: tuple[str, ...], index: int) -> str:
    r"""Return a document without an element of a list.

    Its comma is removed too, and the line with its comment if no other element is on it.

    >>> remove('a = [\n  # all\n  "b",  # why\n  "c",\n]\n', ("a",), 0)
    'a = [\n  # all\n  "c",\n]\n'
    """
    start, stop, elements = _spans(text, path)
    first, end = elements[index]
    comma = _comma(text[end : stop - 1])
    after_comma = end if comma is None else end + comma + 1
    rest_of_line = text[after_comma : stop - 1].partition("\n")[0]
    starts_line = _stands_first(text, first) and "\n" in text[after_comma : stop - 1]
    ends_line = not rest_of_line.strip() or rest_of_line.lstrip().startswith("#")
    if starts_line and ends_line:  # cut its line, with the comment
        cut = text.rindex("\n", 0, first), after_comma + len(rest_of_line)
    elif comma is None and index:  # it is the last one: cut the comma before it, too
        cut = elements[index - 1][1], end
    else:  # cut the comma and the blanks behind it, too
        cut = first, after_comma + len(rest_of_line) - len(rest_of_line.lstrip(" "))
    if not (text[start + 1 : cut[0]] + text[cut[1] : stop - 1]).strip():
        cut = start + 1, stop - 1  # only blanks and line ends are left: cut them, too
    return text[: cut[0]] + text[cut[1] :]


def create(text: str, path: tuple[str, ...], value: str, *, after: str) -> str:
    r"""Return a document with a new list of one element, in its table, which may be new too.

    >>> create('[a]\nb = 1\n', ("a", "c"), "d", after="a")
    '[a]\nb = 1\nc = [\n    "d",\n]\n'

    :param after: the table after which, and after its subtables, a new table is added.
    """
    table, key = path[:-1], key_in_toml(path[-1])
    element = _quoted(value, ())
    new = f"{key} = [\n    {element},\n]"
    values, headers = values_of(text), headers_of(text)
    siblings = [span for steps, span in values.items() if steps[:-1] == table]
    if any(steps == table for _, steps in headers):
        return _insert_lines_after(
            text, [end for _, end, steps in blocks_of(text) if steps == table], new
        )
    if table in values:  # an inline table
        return _insert_pair(text, values[table], f"{key} = [{element}]")
    if siblings:  # dotted keys
        line = text.count("\n", 0, max(end for _, end in siblings)) + 1
        headers_above = [steps for header_line, steps in headers if header_line <= line]
        # The new key is relative to the last header above it.
        size_of_header = len(headers_above[-1]) if headers_above else 0
        prefix = ".".join(map(key_in_toml, table[size_of_header:]))
        return _insert_lines_after(text, [line], f"{prefix}.{new}")
    ends = [end for _, end, steps in blocks_of(text) if steps[0] == after]
    return _insert_lines_after(text, ends, f"\n[{'.'.join(map(key_in_toml, table))}]\n{new}")


def add_table(
    text: str, path: tuple[str, ...], new: str, inline: str, after: Iterable[tuple[str, ...]]
) -> str:
    r"""Return a document with a new table, or with a key in the inline table around it.

    >>> add_table('[a]\n\n[c]\n', ("a", "b"), "[a.b]\nd = 1\n", "{d = 1}", [("a",)])
    '[a]\n\n[a.b]\nd = 1\n\n[c]\n'
    >>> add_table('a = {c = 2}\n', ("a", "b"), "[a.b]\nd = 1\n", "{d = 1}", [])
    'a = {c = 2, b = {d = 1}}\n'

    :param new: the table with its header, as lines.
    :param inline: the table as a value.
    :param after: tables in order of preference: the new one is added after the first that exists
        and its subtables. If none exists, it is added at the end of the document.
    """
    values = values_of(text)
    for size in range(len(path) - 1, 0, -1):
        if path[:size] in values:
            key = ".".join(map(key_in_toml, path[size:]))
            return _insert_pair(text, values[path[:size]], f"{key} = {inline}")
    blocks = blocks_of(text)
    ends = ([end for _, end, steps in blocks if steps[: len(table)] == table] for table in after)
    return _insert_lines_after(text, next(filter(None, ends), []), "\n" + new.rstrip("\n"))


def _insert_pair(text: str, braces: _Span, pair: str) -> str:
    """Insert a key with its value at the end of an inline table."""
    head = text[: braces[1] - 1].rstrip()
    blanks = text[len(head) : braces[1] - 1]
    is_empty = head.endswith("{")
    separator = blanks if is_empty else ", "  # ``{ }`` becomes ``{ a = 1 }``
    return f"{head}{separator}{pair}{blanks}{text[braces[1] - 1 :]}"


def _insert_lines_after(text: str, ends: Sequence[int], new: str) -> str:
    """Insert lines after the last of some line numbers; without any, at the end."""
    lines = text.rstrip("\n").split("\n") if text.strip() else []
    end = min(ends[-1], len(lines)) if ends else len(lines)
    lines[end:end] = new.split("\n") if lines else new.lstrip().split("\n")
    return "\n".join(lines) + (text[len(text.rstrip("\n")) :] or "\n")


def _spans(text: str, path: tuple[str, ...]) -> tuple[int, int, Sequence[_Span]]:
    """Return the spans of a list and of each of its elements."""
    values = values_of(text)
    return *values[path], [values[steps] for steps in values if steps[:-1] == path]


def _insert_into_empty(text: str, start: int, stop: int, new: str) -> str:
    """Insert an element into an empty list, which may have comments."""
    inside = text[start + 1 : stop - 1].rstrip()
    indent = _indent(text, start)
    return f"{text[:start]}[{inside}\n{indent}    {new},\n{indent}]{text[stop:]}"


def _append(text: str, stop: int, elements: Sequence[_Span], new: str) -> str:
    """Insert an element after the last one, with a comma behind it if the last one has a comma."""
    first, end = elements[-1]
    tail = text[end : stop - 1]
    comma = _comma(tail)
    if "\n" in tail:
        closing = "" if comma is None else ","
        text = f"{text[:end]},{text[end:]}" if comma is None else text
        line = text.index("\n", end)
        return f"{text[:line]}\n{_indent(text, first)}{new}{closing}{text[line:]}"
    has_lines = len(elements) > 1 and _stands_first(text, first)
    between = f"\n{_indent(text, first)}" if has_lines else " "
    if comma is None:
        return f"{text[:end]},{between}{new}{text[end:]}"
    after_comma = end + comma + 1
    return f"{text[:after_comma]}{between}{new},{text[after_comma:]}"


def _insert_before(text: str, start: int, elements: Sequence[_Span], index: int, new: str) -> str:
    first = elements[index][0]
    if not _stands_first(text, first):
        return f"{text[:first]}{new}, {text[first:]}"
    # Comments above an element belong to it, so the new one is inserted before them.
    line = text.index("\n", elements[index - 1][1] if index else start + 1)
    return f"{text[:line]}\n{_indent(text, first)}{new},{text[line:]}"


def _comma(tail: str) -> int | None:
    """Return the index of the comma after an element; None if there is none."""
    index = 0
    while 0 <= index < len(tail):
        if tail[index] == ",":
            return index
        index = tail.find("\n", index) if tail[index] == "#" else index + 1
    return None


def _stands_first(text: str, index: int) -> bool:
    """Return whether there are only blanks before an element on its line."""
    return not text[text.rfind("\n", 0, index) + 1 : index].strip()


def _indent(text: str, index: int) -> str:
    line = text[text.rfind("\n", 0, index) + 1 : index]
    return line[: len(line) - len(line.lstrip())]


def _quoted(text: str, neighbours: Sequence[str]) -> str:
    """Return a TOML string, with the quotes of its neighbours if possible."""
    is_literal = bool(neighbours) and all(neighbour.startswith("'") for neighbour in neighbours)
    if "'" not in text and (is_literal or '"' in text):
        return f"'{text}'"
    return text_in_toml(text)


def text_in_toml(text: str) -> str:
    """Return a string as TOML, which forbids DEL where JSON does not."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def key_in_toml(text: str) -> str:
    """Return a key as TOML, in quotes where it needs them."""
    return text if _BARE.fullmatch(text) else text_in_toml(text)
