"""Read TOML of strangers: what would take the parser for ever is refused before (P-44)."""

from __future__ import annotations

import re
import tomllib
from typing import Any

__all__ = ["SIZE", "load"]


def __dir__() -> list[str]:
    return __all__


SIZE = 4 * 1024 * 1024
"""Bytes of the longest text."""

_PARTS = 64
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
# The standard library's parser needs the square of the number of parts.
_LONG_KEY = re.compile(rf"(?<![\w.-])(?:{_PART}){{{_PARTS}}}")
_LONG_NUMBER = re.compile(r"(?<![\w.-])[+-]?[0-9][0-9_]{999}")


def load(data: bytes, *, size: int = SIZE) -> dict[str, Any]:
    """Read a TOML document.

    :param data: the bytes of the file.
    :param size: how many there may be.
    :raises ValueError: it is none, or larger or deeper than any sound one; says why.
    """
    if len(data) > size:
        raise ValueError(f"it has more than {size} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: {error.reason} at byte {error.start}") from None
    if _LONG_KEY.search(text):
        raise ValueError(f"it has a key of more than {_PARTS} parts")
    if _LONG_NUMBER.search(text):
        raise ValueError("it has a number of more than 1000 digits")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
