"""The checks of declaration files, shared by the quick choice and the whole loader."""

# Imported when packages with several implementations are imported, so it imports few modules.
from __future__ import annotations

from wheelfit_runtime.loader.declaration_files import (
    MAX_ITEMS,
    MAX_PRIORITY,
    MAX_TEXT_LENGTH,
    InvalidDeclaration,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

REQUIREMENT = "requirement"
"""The kind of a declared dimension that can have one value only in a process."""

_SCHEMA = 1
_WORD = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
_VALUE = _WORD | {"."}
_MAX_WORD_LENGTH = 100
_MAX_MODULE_PARTS = 21


def checked(document: object) -> dict[str, Any]:
    """Return the content of a file: of an implementation if it has that key, else of a group.

    :raises InvalidDeclaration: it is not valid.
    """
    if not isinstance(document, dict):
        raise InvalidDeclaration("is not a JSON object")
    schema = _check_number(document, "schema", 1, 1 << 30)
    if schema > _SCHEMA:
        raise InvalidDeclaration(f"has schema {schema}, written for a newer wheelfit")
    _check(document, "group", _is_name)
    if "implementation" in document:
        _check_implementation(document)
    else:
        _check_group(document)
    return document


def _check_implementation(document: dict[str, Any]) -> None:
    _check(document, "implementation", _is_name)
    _check(document, "module", _is_module)
    _check_properties(document)
    if "priority" in document:
        _check_number(document, "priority", -MAX_PRIORITY, MAX_PRIORITY)
    if "distribution" in document:
        _check(document, "distribution", _is_line)
    dimensions = document.get("dimensions", {})
    if not isinstance(dimensions, dict) or len(dimensions) > MAX_ITEMS:
        raise InvalidDeclaration("dimensions is not an object, or too large")
    for text, kind in dimensions.items():
        if len(split_property(text)) != 2:
            raise InvalidDeclaration(
                f"dimensions: {_quoted(text)} is not a feature, as acme :: protocol"
            )
        is_list = isinstance(kind, list) and 0 < len(kind) <= MAX_ITEMS
        if kind != REQUIREMENT and not (is_list and all(map(_is_value, kind))):
            raise InvalidDeclaration(
                f"dimensions: {text} is neither {REQUIREMENT!r} nor a list of values"
            )


def _check_group(document: dict[str, Any]) -> None:
    for item in _checked_list(document, "known"):
        if not isinstance(item, dict):
            raise InvalidDeclaration("known has an entry that is not an object")
        _check(item, "implementation", _is_name)
        _check(item, "install", _is_line)
        _check_properties(item)


def _check_properties(document: dict[str, Any]) -> None:
    for text in _checked_list(document, "properties"):
        if len(split_property(text)) != 3:
            raise InvalidDeclaration(
                f"properties: {_quoted(text)} is not a property, as x86_64 :: level :: v3"
            )


def _checked_list(document: dict[str, Any], key: str) -> list[Any]:
    items = document.get(key, [])
    if not isinstance(items, list):
        raise InvalidDeclaration(f"{key} is not a list")
    if len(items) > MAX_ITEMS:
        raise InvalidDeclaration(f"{key} has more than {MAX_ITEMS} entries")
    return items


def _check_number(document: dict[str, Any], key: str, low: int, high: int) -> int:
    value = document.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidDeclaration(f"{key} is missing, or not a number from {low} to {high}")
    return value


def _check(document: dict[str, Any], key: str, is_valid: Callable[[str], bool]) -> None:
    value = document.get(key)
    if not isinstance(value, str) or not is_valid(value):
        raise InvalidDeclaration(f"{key} is missing or not a valid name: {_quoted(value)}")


def split_property(text: object) -> tuple[str, ...]:
    """Return the parts of a property, or of a feature; empty if it is neither."""
    if not isinstance(text, str) or text != text.strip(" "):
        return ()
    parts = tuple(part.strip(" ") for part in text.split("::"))
    return parts if all(map(_is_word, parts[:2])) and all(map(_is_value, parts[2:])) else ()


def _is_word(text: str) -> bool:
    return 0 < len(text) <= _MAX_WORD_LENGTH and _WORD.issuperset(text)


def _is_value(value: object) -> bool:
    return (
        isinstance(value, str) and 0 < len(value) <= _MAX_WORD_LENGTH and _VALUE.issuperset(value)
    )


def _is_name(text: str) -> bool:
    return (
        text.isascii()
        and 0 < len(text) <= _MAX_WORD_LENGTH
        and text[0].isalnum()
        and text[-1].isalnum()
        and text.replace("-", "").replace("_", "").replace(".", "").isalnum()
    )


def _is_module(text: str) -> bool:
    parts = text.split(".")
    return (
        text.isascii()
        and len(parts) <= _MAX_MODULE_PARTS
        and all(part.isidentifier() for part in parts)
    )


def _is_line(text: str) -> bool:
    return text.isprintable() and 0 < len(text) <= MAX_TEXT_LENGTH


def _quoted(value: object) -> str:
    text = value if isinstance(value, str) else type(value).__name__
    return repr(text[:80])
