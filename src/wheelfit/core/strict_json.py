"""Strict parsing of JSON: faults that other parsers accept are refused.

The text is first reduced to its skeleton (brackets, commas, colons) by regular expressions, window
by window. Depth and size are checked on that, so that no input makes the parser slow or recurse
deeply (F-30).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, NoReturn, cast

from msgspec import Struct

from wheelfit_runtime.errors import Fault, InvalidDocument
from wheelfit_runtime.patterns import pattern


class JsonLimits(Struct, frozen=True):
    """The size limits of a document (F-30)."""

    size: int = 4 * 1024 * 1024
    """Bytes of the whole document."""
    depth: int = 8
    """Objects and lists within each other; the document itself is one."""
    labels: int = 10_000
    """Entries of ``variants``."""
    values: int = 200_000
    """Elements of all lists together."""


DEFAULT_LIMITS = JsonLimits()

_BOM = b"\xef\xbb\xbf"
# Possessive quantifiers, so that nothing is matched twice.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRINGS = pattern(_STRING, re.DOTALL)
_WHOLE_STRINGS = pattern(rb'[^"]*+(?:' + _STRING + rb'[^"]*+)*+', re.DOTALL)
"""The text before the first string that is not closed."""
_WINDOW = 1 << 16
"""Bytes read in one step: a document that is too large is refused before all of it is read."""
_BLANKS = b" \t\r\n"
_TO_SKELETON = bytes(byte if byte in b"[]{},:" else ord("s") for byte in range(256))
_TO_BRACKETS = bytes.maketrans(b"{}", b"[]")
_GAP = pattern(r"[ \t\r\n]*+")
_SIMPLE_KEY = pattern(r"[A-Za-z0-9_$-]+")
_LONGEST_SHOWN = 60


def load(data: bytes, limits: JsonLimits = DEFAULT_LIMITS) -> dict[str, Any]:
    """Read a JSON object (F-30).

    :raises InvalidDocument: it breaks F-30; the faults have the path, if known.
    """
    if len(data) > limits.size:
        _refuse(f"the document has {len(data)} bytes, more than the limit of {limits.size}")
    if data.startswith(_BOM):
        _refuse("the document starts with a byte order mark")
    members = _SizeCounter(limits).members(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse(f"the document is not UTF-8: {error.reason} at byte {error.start}")
    root = _parse(text)
    if not isinstance(root, dict):
        _refuse(f"the document is {_kind(root)}, not an object")
    if _count_keys(root) != members and (faults := _repeated_keys(text)):
        raise InvalidDocument(faults)
    _check_labels(root, limits)
    return root


def check_limits(document: Mapping[str, Any], limits: JsonLimits = DEFAULT_LIMITS) -> None:
    """Check a document that was parsed elsewhere, as from TOML, against the limits (F-30).

    :raises InvalidDocument: it is deeper or has more entries than allowed.
    """
    _check_labels(document, limits)
    values = 0
    level: list[object] = [document]
    for _ in range(limits.depth):
        inner: list[object] = []
        for item in level:
            if isinstance(item, list):
                values += len(item)
                inner.extend(item)
            else:
                inner.extend(cast("Mapping[str, object]", item).values())
        if values > limits.values:
            _refuse(f"the document has more list elements than the limit of {limits.values}")
        level = [item for item in inner if isinstance(item, dict | list)]
    if level:
        _refuse(f"the document is nested deeper than the limit of {limits.depth}")


def path_of(*steps: str | int) -> str:
    """Write a place in a document, such as ``variants["cuda12.6"].nvidia[0]``."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif len(step) <= _LONGEST_SHOWN and _SIMPLE_KEY.fullmatch(step):
            path += f".{step}" if path else step
        else:
            path += f"[{json.dumps(shortened(step))}]"
    return path


def shown(value: object) -> str:
    """Write a value of a document for a message: escaped, and never long."""
    if isinstance(value, str):
        return ascii(shortened(value))
    if value is None or isinstance(value, bool | float):
        return json.dumps(value)
    return _kind(value)


def shortened(text: str, longest: int = _LONGEST_SHOWN) -> str:
    """Cut a text that is too long for a message."""
    return text if len(text) <= longest else f"{text[:longest]}..."


class _SizeCounter:
    """A counter of the entries of a text, which reads it by windows until a limit is exceeded."""

    def __init__(self, limits: JsonLimits) -> None:
        self._limits = limits
        self._members = 0
        self._elements = 0
        self._open = 0
        self._previous_character = b""
        self._brackets: list[bytes] = []
        self._next_count = limits.labels

    def members(self, data: bytes) -> int:
        """Return the number of members of all objects together."""
        position, width = 0, _WINDOW
        while position < len(data):
            match = _WHOLE_STRINGS.match(data, position, min(position + width, len(data)))
            stop = match.end() if match else position
            if stop > position:
                self._count_window(_STRINGS.sub(b"s", data[position:stop]))
                position, width = stop, _WINDOW
                if self._members > self._next_count:
                    # Count again only at twice as many members, so that all counts together read
                    # at most twice the text.
                    self._next_count = 2 * self._members
                    self._count_labels(data[:position])
            elif position + width < len(data):
                width *= 2  # a long string
            else:
                break  # a string without end; the parser will report it
        if self._elements > self._limits.values:
            self._refuse_elements()
        if self._is_too_deep():
            self._refuse_depth()
        if self._members > self._limits.labels:
            self._count_labels(data)
        return self._members

    def _count_labels(self, data: bytes) -> None:
        if _has_too_many_labels(data, self._limits.labels):
            _refuse_labels(self._limits)

    def _count_window(self, window: bytes) -> None:
        skeleton = window.translate(_TO_SKELETON, _BLANKS)
        opened = skeleton.count(b"[") + skeleton.count(b"{")
        self._open += opened - skeleton.count(b"]") - skeleton.count(b"}")
        pairs = self._previous_character + skeleton
        filled = opened - pairs.count(b"[]") - pairs.count(b"{}")
        members = skeleton.count(b":")
        # Every filled container has one item more than commas; those with a colon are members.
        self._elements += filled + skeleton.count(b",") - members
        self._members += members
        self._previous_character = pairs[-1:]
        self._brackets.append(skeleton.translate(_TO_BRACKETS, b",:s"))
        if self._open > self._limits.depth:
            self._refuse_depth()
        # Each container that is still open may have been counted with one element too many.
        if self._elements - self._open > self._limits.values:
            self._refuse_elements()

    def _is_too_deep(self) -> bool:
        rest = b"".join(self._brackets)
        for _ in range(self._limits.depth):
            rest = rest.replace(b"[]", b"")  # one level, the innermost
            if not rest:
                return False
        return b"[]" in rest

    def _refuse_depth(self) -> NoReturn:
        _refuse(f"the document is nested deeper than the limit of {self._limits.depth}")

    def _refuse_elements(self) -> NoReturn:
        _refuse(f"the document has more list elements than the limit of {self._limits.values}")


def _has_too_many_labels(data: bytes, limit: int) -> bool:
    """Return whether there are more labels than the limit; stop reading after that many."""
    text = data.decode("latin-1")  # one character per byte: only the structure matters
    reader = json.JSONDecoder()

    def members(position: int) -> Iterator[tuple[object, int]]:
        """Yield the keys of an object, each with the start of its value."""
        while text[position] in "{,":
            position = _skip(text, position + 1)
            if text[position] == "}":
                return
            key, position = reader.raw_decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
            yield key, position
            _, position = reader.raw_decode(text, position)
            position = _skip(text, position)

    # Invalid JSON ends the count; the parser, which stops at the same place, reports it.
    with suppress(ValueError, IndexError, RecursionError):
        for key, value in members(_skip(text, 0)):
            if key == "variants" and text[value] == "{":
                labels = sum(1 for _ in islice(members(value), limit + 1))
                if labels > limit:
                    return True
    return False


def _skip(text: str, position: int) -> int:
    gap = _GAP.match(text, position)
    return gap.end() if gap else position


def _parse(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        if error.msg == "Extra data":
            _refuse(f"there is text after the end of the document, at {place}")
        _refuse(f"the document is not JSON: {error.msg} at {place}")
    except InvalidDocument:
        raise
    except RecursionError:  # the limit that the user set for the depth is beyond Python's
        _refuse("the document is nested more deeply than Python can read")
    except ValueError as error:  # an integer of thousands of digits
        _refuse(f"the document has a number that cannot be read: {error}")


def _constant(name: str) -> NoReturn:
    _refuse(f"{name} is not JSON")


def _count_keys(root: dict[str, Any]) -> int:
    """Return the number of keys of all objects together."""
    count = 0
    pending: list[Any] = [root]
    while pending:
        item = pending.pop()
        if type(item) is dict:
            count += len(item)
            pending.extend(item.values())
        elif type(item) is list and item and type(item[0]) is not str:
            pending.extend(item)  # a list of strings is the usual one, and has no keys
    return count


class _ObjectWithRepeatedKeys(dict[str, Any]):
    """A JSON object with the keys that are repeated in it."""

    repeated: tuple[str, ...] = ()


def _object(pairs: list[tuple[str, Any]]) -> _ObjectWithRepeatedKeys:
    result = _ObjectWithRepeatedKeys(pairs)
    if len(result) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        result.repeated = tuple(key for key, count in counts.items() if count > 1)
    return result


def _repeated_keys(text: str) -> list[Fault]:
    """Return a fault for every repeated key, from a second, slower parse."""
    root = json.loads(text, object_pairs_hook=_object)
    faults: list[Fault] = []
    pending: list[tuple[tuple[str | int, ...], Any]] = [((), root)]
    while pending:
        steps, item = pending.pop()
        if isinstance(item, _ObjectWithRepeatedKeys):
            faults += [
                Fault(path_of(*steps, key), "the key is repeated", "F-30") for key in item.repeated
            ]
            pending += [((*steps, key), inner) for key, inner in reversed(item.items())]
        elif isinstance(item, list):
            pending += [((*steps, index), inner) for index, inner in enumerate(item)]
    return faults


def _check_labels(document: Mapping[str, Any], limits: JsonLimits) -> None:
    variants = document.get("variants")
    if isinstance(variants, Mapping) and len(variants) > limits.labels:
        _refuse_labels(limits)


def _refuse_labels(limits: JsonLimits) -> NoReturn:
    _refuse(f"there are more labels than the limit of {limits.labels}", "variants")


def _kind(value: object) -> str:
    match value:
        case None | bool():
            return json.dumps(value)
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


def _refuse(message: str, path: str = "") -> NoReturn:
    raise InvalidDocument([Fault(path, message, "F-30")])
