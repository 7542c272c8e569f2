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
    if _HTML.match(text.lower()):
        text = unescape(_MARKUP.sub(" ", text))
    return " ".join(text.split())[:_MAX_SIZE] or reason or "the server states no reason"
