"""Read JSON strictly: what other readers overlook is refused before it is interpreted.

The text is first reduced to its skeleton (brackets, commas, colons) at the speed of
regular expressions. Depth and size are judged on that, so that no input, however
built, makes the parser work hard or recurse deeply (F-30).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from wheelfit.errors import Fault, InvalidDocument

__all__ = ["DEFAULT_LIMITS", "Limits", "check_limits", "load", "path_of", "shown"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, slots=True)
class Limits:
    """Hold how large a document may be (F-30)."""

    size: int = 4 * 1024 * 1024
    """Bytes of the whole document."""
    depth: int = 8
    """Objects and lists within each other; the document itself counts as one."""
    labels: int = 10_000
    """Entries of ``variants``."""
    values: int = 200_000
    """Elements of all lists together."""


DEFAULT_LIMITS = Limits()

_BOM = b"\xef\xbb\xbf"
# Possessive quantifiers: nothing is remembered, nothing is tried twice.
_STRINGS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
# Outside strings: blanks go, brackets, commas and colons stay, the rest is an ``s``.
_TO_SKELETON = {
    ordinal: None if character in " \t\r\n" else "s"
    for ordinal, character in enumerate(map(chr, range(128)))
    if character not in "[]{},:s"
}
_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_$-]+")
_LONGEST_SHOWN = 60


def load(data: bytes, limits: Limits = DEFAULT_LIMITS) -> dict[str, Any]:
    """Read a JSON object (F-30).

    :param data: the bytes of the document.
    :param limits: how large it may be.
    :raises InvalidDocument: it breaks F-30; the faults say where, when that is known.
    """
    if len(data) > limits.size:
        _refuse(f"the document has {len(data)} bytes, more than the limit of {limits.size}")
    if data.startswith(_BOM):
        _refuse("the document starts with a byte order mark")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse(f"the document is not UTF-8: {error.reason} at byte {error.start}")
    skeleton = _skeleton(text)
    if _too_deep(skeleton, limits.depth):
        _refuse(f"the document is nested deeper than the limit of {limits.depth}")
    if (values := _elements(skeleton)) > limits.values:
        _refuse(f"the document has {values} list elements, more than the limit of {limits.values}")
    root = _parse(text)
    if not isinstance(root, dict):
        _refuse(f"the document is {_kind(root)}, not an object")
    if _keys(root) != skeleton.count(":") and (faults := _duplicates(text)):
        raise InvalidDocument(faults)
    _check_labels(root, limits)
    return root


def check_limits(document: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS) -> None:
    """Check a document that was parsed elsewhere, as from TOML, against the limits (F-30).

    :param document: plain data: of dicts, lists and scalars.
    :param limits: how large it may be.
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
                inner.extend(cast(Mapping[str, object], item).values())
        if values > limits.values:
            _refuse(f"the document has more than {limits.values} list elements")
        level = [item for item in inner if isinstance(item, dict | list)]
    if level:
        _refuse(f"the document is nested deeper than the limit of {limits.depth}")


def path_of(*steps: str | int) -> str:
    """Write a place in a document, as ``variants["cuda12.6"].nvidia[0]``.

    :param steps: keys and indexes from the outside in.
    """
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _SIMPLE_KEY.fullmatch(step):
            path += f".{step}" if path else step
        else:
            path += f"[{json.dumps(_shortened(step))}]"
    return path


def shown(value: object) -> str:
    """Write a value of a document for a message: escaped, and never long.

    :param value: plain data.
    """
    if isinstance(value, str):
        return ascii(_shortened(value))
    if value is None or isinstance(value, bool | float):
        return json.dumps(value)
    return _kind(value)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _skeleton(text: str) -> str:
    """Return brackets, commas and colons in order, and an ``s`` for anything else."""
    without_strings = _STRINGS.sub("s", text)
    # A quote that is left over opens a string without end.
    structure, _, _ = without_strings.partition('"')
    return structure.translate(_TO_SKELETON)


def _too_deep(skeleton: str, limit: int) -> bool:
    brackets = skeleton.translate(_TO_BRACKETS)
    rest = brackets
    for _ in range(limit):
        rest = rest.replace("[]", "")  # one level, the innermost
        if not rest:
            return False
    depth = 0
    for bracket in brackets:  # deeper than allowed, or not balanced
        depth += 1 if bracket == "[" else -1
        if depth > limit:
            return True
    return False


_TO_BRACKETS = {ord("{"): "[", ord("}"): "]", ord(","): None, ord(":"): None, ord("s"): None}


def _elements(skeleton: str) -> int:
    """Return how many elements all lists of well-formed JSON have together."""
    filled = skeleton.count("[") + skeleton.count("{")
    filled -= skeleton.count("[]") + skeleton.count("{}")
    # Every filled container has one item more than commas; those with a colon are pairs.
    return filled + skeleton.count(",") - skeleton.count(":")


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
    except ValueError as error:  # an integer of thousands of digits
        _refuse(f"the document has a number that cannot be read: {error}")


def _constant(name: str) -> NoReturn:
    _refuse(f"{name} is not JSON")


def _keys(root: dict[str, Any]) -> int:
    """Return how many keys all objects have together."""
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


class _Repeating(dict[str, Any]):
    """Remember which keys came more than once."""

    repeated: tuple[str, ...] = ()


def _object(pairs: list[tuple[str, Any]]) -> _Repeating:
    result = _Repeating(pairs)
    if len(result) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        result.repeated = tuple(key for key, count in counts.items() if count > 1)
    return result


def _duplicates(text: str) -> list[Fault]:
    """Read once more, slower, to say where a key is repeated."""
    root = json.loads(text, object_pairs_hook=_object)
    faults: list[Fault] = []
    pending: list[tuple[tuple[str | int, ...], Any]] = [((), root)]
    while pending:
        steps, item = pending.pop()
        if isinstance(item, _Repeating):
            faults += [
                Fault(path_of(*steps, key), "the key is there more than once", "F-30")
                for key in item.repeated
            ]
            pending += [((*steps, key), inner) for key, inner in reversed(item.items())]
        elif isinstance(item, list):
            pending += [((*steps, index), inner) for index, inner in enumerate(item)]
    return faults


def _check_labels(document: Mapping[str, Any], limits: Limits) -> None:
    variants = document.get("variants")
    if isinstance(variants, Mapping) and len(variants) > limits.labels:
        _refuse(
            f"there are {len(variants)} labels, more than the limit of {limits.labels}", "variants"
        )


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
