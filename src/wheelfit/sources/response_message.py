"""The message of a server that refuses a request, in one line."""

from __future__ import annotations

from contextlib import suppress
from html.parser import HTMLParser
from http.client import responses

from wheelfit_runtime.patterns import pattern

_MAX_SIZE = 500
_MAX_PAGE_SIZE = 64 << 10
_MAX_STANDARD_WORDS = 2
_HTML = pattern(r"\s*(?:<!--|<!doctype|<html|<head|<body|<[a-z][a-z0-9]*[ >])")
_STANDARD = frozenset([*responses.values(), "Request Entity Too Large", "Payload Too Large"])
"""The standard phrases of statuses, which do not state the fault."""


def response_message(reason: str, content: bytes) -> str:
    """Return the message in a server's answer in one line, without markup.

    >>> response_message("Bad Request", b"<title>400</title><style>p {}</style><p>no such <b>x</b>")
    '400: no such x'

    :param reason: the phrase after the status; the public registry states the fault there.
    :param content: the body, or its beginning.
    """
    if len(reason.split()) > _MAX_STANDARD_WORDS and reason not in _STANDARD:
        return reason[:_MAX_SIZE]
    text = content[:_MAX_PAGE_SIZE].decode("utf-8", "replace")
    if _HTML.match(text.lower()):
        page = _Page()
        with suppress(AssertionError):  # of the parser, for an unknown declaration
            page.feed(text)
            page.close()
        text = page.summary
    return " ".join(text.split())[:_MAX_SIZE] or reason or "the server states no reason"


class _Page(HTMLParser):
    """The title of a page, and its visible text."""

    _INVISIBLE = frozenset(
        {"script", "style", "head", "nav", "header", "footer", "svg", "noscript"}
    )

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._title: list[str] = []
        self._text: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        if tag == "body":  # which ends a head without an end tag
            self._open.clear()
        elif tag == "title" or tag in self._INVISIBLE:
            self._open.append(tag)
        else:
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            del self._open[self._open.index(tag) :]

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["title"]:
            self._title.append(data)
        elif not self._open:
            self._text.append(data)

    @property
    def summary(self) -> str:
        """The title and the text, or only the text if that begins with the title."""
        title, text = (" ".join("".join(parts).split()) for parts in (self._title, self._text))
        return text if not title or text.startswith(title) else f"{title}: {text}".rstrip(": ")
