"""Reports as plain data, which ``--json`` prints (docs/reference/json.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def plain_report(report: object, names: str = "", **more: object) -> dict[str, Any]:
    """Return the object of a report: its version, and the result of `plain_fields`."""
    return {"version": 1, **plain_fields(report, names, **more)}


def plain_fields(value: object, names: str, **more: object) -> dict[str, Any]:
    """Return attributes of a value as plain data.

    :param names: the attributes, with blanks between them; entries are named like them.
    :param more: further entries.
    """
    values = {name: getattr(value, name) for name in names.split()}
    return {name: plain(item) for name, item in (values | more).items()}


def plain(value: Any) -> Any:
    """Return a value as plain data; other types become their text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    for method in ("to_json", "to_mapping"):
        if hasattr(value, method):
            return getattr(value, method)()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value)
