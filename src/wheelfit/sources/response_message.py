"""The message of a server that refuses a request, in one line."""

from __future__ import annotations

from html import unescape
from http.client import responses

from wheelfit_runtime.patterns import pattern

_MAX_SIZE = 500
_MAX_PAGE_SIZE = 16 << 10
_MAX_STANDARD_WORDS = 2
_HTML = pattern(r"\s*(?:<!--|<!doctype|<html|<head|<body|<[a-z][a-z0-9]*[ >])")
_MARKUP = pattern(r"(?si)<(script|style|nav)\b.*?(?:</\1>|\Z)|<!--.*?(?:-->|\Z)|<[^<>]*>")
"""Markup, with the content of elements that do not state the fault."""
_TITLE = pattern(r"(?si)<title>\s*(?:\d{3}\s+)?([^<>]*)</title>")
"""A title, whose group is its text without the status."""
_STATUS = pattern(r"^\d{3} ")
_STANDARD = frozenset([*responses.values(), "Request Entity Too Large", "Payload Too Large"])
"""The standard phrases of statuses, which do not state the fault."""


def response_message(reason: str, content: bytes) -> str:
    """Return the message in a server's answer in one line, without markup.

    >>> response_message("Bad Request", b"<title>400</title><style>p {}</style><p>no such <b>x</b>")
    '400 no such x'

    :param reason: the phrase after the status; the public registry states the fault there.
    :param content: the body, or its beginning.
    """
    if len(reason.split()) > _MAX_STANDARD_WORDS and reason not in _STANDARD:
        return reason[:_MAX_SIZE]
    text = content[:_MAX_PAGE_SIZE].decode("utf-8", "replace")
    text = _text_of_page(text) if _HTML.match(text.lower()) else _in_one_line(text)
    return text[:_MAX_SIZE] or reason or "the server states no reason"


def _text_of_page(page: str) -> str:
    """Return the text of an HTML page, with its title unless a heading repeats that."""
    title = _TITLE.search(page)
    if title is not None:
        rest = _without_markup(page[: title.start()] + page[title.end() :])
        if _STATUS.sub("", rest, count=1).startswith(_without_markup(title[1])):
            return rest
    return _without_markup(page)


def _without_markup(page: str) -> str:
    return _in_one_line(unescape(_MARKUP.sub(" ", page)))


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
