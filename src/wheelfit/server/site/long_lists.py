"""Long lists, shown in parts: the query says which, and leads to the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Part(NamedTuple):
    """Hold what one page shows of a long list."""

    items: Sequence[Any]
    number: int
    """Of this page, from 1."""
    pages: int
    total: int
    first: int
    """Number of the first item, from 1."""

    @property
    def last(self) -> int:
        """Number of the last item."""
        return self.first + len(self.items) - 1


def part_of(items: Sequence[Any], query: Mapping[str, str], size: int, field: str = "page") -> Part:
    """Return the page of a list that a query asks for; the nearest there is."""
    text = query.get(field, "")
    pages = max(1, -(-len(items) // size))
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 1
    number = min(max(number, 1), pages)
    start = (number - 1) * size
    return Part(items[start : start + size], number, pages, len(items), start + 1)


def query_of_part(
    fields: Mapping[str, str], also: Mapping[str, str] | None = None
) -> Callable[[int, str], str]:
    """Return what makes the query of another page of a list."""
    kept = {name: (also or {})[name] for name in ("page", "files") if name in (also or {})}

    def query(number: int, field: str = "page") -> str:
        return "?" + urlencode({**fields, **kept, field: str(number)})

    return query
