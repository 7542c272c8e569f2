"""Reading of untrusted TOML within limits.

The parser recurses, needs a kilobyte of memory for every table, and time by the square of the
length of a dotted key. So, as in `wheelfit.core.strict_json`, the text is first reduced to its
punctuation, and depth and size are checked before anything is parsed.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn

from wheelfit.core.strict_json import path_of
from wheelfit_runtime.patterns import pattern


class TomlLimits(NamedTuple):
    """The size limits of a TOML document (F-30)."""

    size: int = 4 * 1024 * 1024
    """Bytes of the whole document."""
    depth: int = 32
    """Nesting of tables and arrays; the document itself is one level."""
    entries: int = 1_000_000
    """The number of keys and array elements; a table counts as eight, by its memory."""


DEFAULT_LIMITS = TomlLimits()

_AT_END = "(at end of document)"
_BOM = b"\xef\xbb\xbf"
# Strings and comments, in which brackets and dots have no meaning. Quantifiers are possessive, to
# prevent backtracking; a string without end matches too, and the parser reports it.
_STRING_OR_COMMENT = pattern(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"{3,5}+)?+'
    r"|'''(?:[^']++|'(?!''))*+(?:'{3,5}+)?+"
    r'|"(?:[^"\\\n]++|\\.)*+"?+'
    r"|'[^'\n]*+'?+"
    r"|\#[^\n]*+",
    re.DOTALL,
)
_NO_PUNCTUATION = pattern(r"[^\[\]{}=,.\n]++")
_DEPTH_CHANGES = {"[": 1, "{": 1, "]": -1, "}": -1}
_INTEGER_LIMIT = 2**63
"""TOML guarantees integers of 64 bits; Python cannot even print much larger ones."""


def load(data: bytes, limits: TomlLimits = DEFAULT_LIMITS) -> dict[str, Any]:
    """Read a TOML document.

    :raises ValueError: it is too large, or not valid TOML; with reason, line and column.
    """
    if len(data) > limits.size:
        raise ValueError(f"it has more than {limits.size} bytes")
    if data.startswith(_BOM):
        raise ValueError("it starts with a byte order mark")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"it is not UTF-8: {error.reason} ({_line_and_column(data[: error.start])})"
        ) from None
    _check_skeleton(_NO_PUNCTUATION.sub("s", _STRING_OR_COMMENT.sub("s", text)), limits)
    # Imported here, so that commands that read no TOML start faster.
    try:  # compiled: it reads the lock of a hundred packages in a third of the time
        import tomli
    except ImportError:  # broken, which `wheelfit doctor` repairs
        import tomllib as tomli  # type: ignore[no-redef]

    try:
        root = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        message = str(error).replace(
            _AT_END, f"({_line_and_column(text.rstrip().encode())}, where the document ends)"
        )
        raise ValueError(f"{message[:1].lower()}{message[1:]}") from None
    except ValueError as error:  # an integer of thousands of digits
        raise ValueError(f"it has a number that cannot be read: {error}") from None
    _check_values(root, limits)
    return root


def _line_and_column(before: bytes) -> str:
    """Return the line and column that follow some valid UTF-8, in the words of the parser."""
    lines = before.decode().split("\n")
    return f"at line {len(lines)}, column {len(lines[-1]) + 1}"


def _check_skeleton(skeleton: str, limits: TomlLimits) -> None:
    """Check the size and depth of a text in which ``s`` replaces all that is no punctuation."""
    # Blanks before a header are replaced by an ``s``, too.
    tables = skeleton.count("\n[") + skeleton.count("\ns[") + skeleton.count("{")
    entries = sum(skeleton.count(sign) for sign in "=,.") + 8 * tables
    if entries > limits.entries:
        raise ValueError(f"it has more than {limits.entries} entries")
    if re.search(rf"(?:s\.){{{limits.depth}}}", skeleton):  # a dotted key of so many parts
        _refuse_depth(limits)
    brackets = re.sub(r"[^\[\]{}]++", "", skeleton)
    depths = accumulate(map(_DEPTH_CHANGES.__getitem__, brackets))
    if max(depths, default=0) >= limits.depth:
        _refuse_depth(limits)


def _check_values(root: dict[str, Any], limits: TomlLimits) -> None:
    """Check the limits that the skeleton does not show: depth by headers, and integers."""
    pending: list[tuple[tuple[str | int, ...], Any]] = [((), root)]
    while pending:
        steps, container = pending.pop()
        if len(steps) >= limits.depth:
            _refuse_depth(limits)
        items = container.items() if isinstance(container, dict) else enumerate(container)
        for step, value in items:
            if isinstance(value, dict | list):
                pending.append(((*steps, step), value))
            elif type(value) is int and not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
                raise ValueError(f"{path_of(*steps, step)} is a number of more than 64 bits")


def _refuse_depth(limits: TomlLimits) -> NoReturn:
    raise ValueError(f"it is nested deeper than the limit of {limits.depth}")
