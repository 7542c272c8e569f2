"""Render pages from templates; the only importer of `jinja2`.

Every expression is escaped, and characters that are invisible or change the direction of text are
written as numbers, because names and metadata are untrusted.
"""

from __future__ import annotations

import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wheelfit.core.sizes import size_in_words
from wheelfit.core.tag_phrases import platforms_in_words, pythons_in_words
from wheelfit.errors import NeedsExtra
from wheelfit.sources.page import File, time_of_upload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment


_MAX_ITEMS = 4


class Templates:
    """The templates of this folder."""

    def __init__(self) -> None:
        self._environment = _environment()

    def render(self, name: str, **values: Any) -> bytes:
        """Return a page."""
        return self._environment.get_template(name).render(**values).encode("utf-8")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Return the environment of the templates; each is compiled once."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup, escape
    except ImportError:
        raise NeedsExtra("server", "jinja2") from None

    def escape_invisible(value: object) -> object:
        if isinstance(value, str) and not isinstance(value, Markup):
            return visible(value)
        return value

    def prose(text: str) -> str:
        lines = "\n".join(map(visible, text.expandtabs(4).splitlines()))
        return Markup(escape(lines))  # noqa: S704 - escaped just now

    environment = Environment(
        loader=PackageLoader("wheelfit.server.site", "templates"),
        autoescape=True,
        finalize=escape_invisible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "bytes": size_in_words,
        "date": _date,
        "few": _join_some,
        "platforms": platforms_in_words,
        "prose": prose,
        "pythons": pythons_in_words,
        "shell": shlex.quote,
        "row_platforms": lambda row: platforms_in_words(row.tags),
        "row_pythons": lambda row: pythons_in_words(row.tags),
    }
    return environment


def visible(text: str) -> str:
    r"""Return a text with invisible characters as numbers.

    >>> visible("gnp.exe\u202egpj")
    'gnp.exe⟨U+202E⟩gpj'
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\N{NO-BREAK SPACE}" else f"⟨U+{ord(char):04X}⟩"
        for char in text
    )


def _date(file: File) -> str:
    uploaded = time_of_upload(file)
    return "" if uploaded is None else uploaded.date().isoformat()


def _join_some(items: Sequence[str]) -> str:
    """Join the first items, and count the rest."""
    if len(items) > _MAX_ITEMS + 1:
        items = [*items[:_MAX_ITEMS], f"{len(items) - _MAX_ITEMS} more"]
    return ", ".join(items)
