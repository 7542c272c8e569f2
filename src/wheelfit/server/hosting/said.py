"""What a request says as a JSON object: read value by value, each checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wheelfit.server.hosting.administration import seconds_of
from wheelfit_runtime.errors import InvalidConfiguration
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.server.messages import Request


_MOST_JSON = 1 << 20
_UNKEPT = pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""What JSON can say and no database keeps: NUL, halves of characters; and other controls."""
_LONGEST_SPAN = 1e10
_LONGEST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class Said:
    """Hold what was said; each method raises ``InvalidConfiguration`` for what cannot be."""

    values: Mapping[str, Any]

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT or _UNKEPT.search(value):
            raise InvalidConfiguration(f"{name} is a text of at most {_LONGEST_TEXT} characters")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; empty if nothing is said."""
        value = self.values.get(name, [])
        if not isinstance(value, list) or not all(
            isinstance(one, str) and not _UNKEPT.search(one) for one in value
        ):
            raise InvalidConfiguration(f"{name} is a list of texts")
        return value

    def seconds(self, name: str, default: float) -> float:
        """Return a span of time."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, str):
            value = seconds_of(value)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 < value < _LONGEST_SPAN:
            raise InvalidConfiguration(f"{name} is a number of seconds")
        return float(value)


def read_said(request: Request) -> Said:
    """Read the body of a request.

    :raises InvalidConfiguration: it is none, or too long.
    """
    parts, size = [], 0
    while piece := request.body.read(1 << 16):
        parts.append(piece)
        size += len(piece)
        if size > _MOST_JSON:
            raise InvalidConfiguration(f"it has more than {_MOST_JSON} bytes")
    try:
        said = json.loads(b"".join(parts) or b"{}")
    except (ValueError, RecursionError):
        raise InvalidConfiguration("the body is not JSON") from None
    if not isinstance(said, dict):
        raise InvalidConfiguration("the body is no JSON object")
    return Said(said)
