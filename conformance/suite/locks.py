"""Write the lock files of cases: just enough TOML for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["lock_text"]


def lock_text(given: Mapping[str, Any], locate: Callable[[str], Mapping[str, Any]]) -> str:
    """Return the text of the lock that a ``select-from-lock`` question describes.

    :param given: the input of the question; ``packages`` are as in the file, but a wheel is
        its file name.
    :param locate: turns a file name into ``url`` or ``path``, and ``hashes``.
    """
    lines = ['lock-version = "1.0"', 'created-by = "conformance"']
    for package in given["packages"]:
        lines.append("[[packages]]")
        for key, value in package.items():
            if key == "wheels":
                shown: Any = [{"name": name, **locate(name)} for name in value]
            elif key == "archive":
                shown = dict(locate(value))
            else:
                shown = value
            lines.append(f"{json.dumps(key)} = {_toml(shown)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # Strings of JSON are strings of TOML, and so are its other scalars.
    return json.dumps(value, ensure_ascii=False)
