"""Links of a page that is handed on from another address, so that they lead where they led.

Most pages have absolute links only and stay as they are, byte by byte. HTML with other links
gets a ``<base>``, for which HTML has it; JSON has no such thing, so its links are completed.
"""

from __future__ import annotations

import json
import re
from html import escape, unescape

from wheelfit.sources.urls import join
from wheelfit_runtime.patterns import pattern

_RELATIVE_HREF = pattern(
    rb"""href\s*=\s*(?:"\s*(?!https?://)|'\s*(?!https?://)|(?!["']|https?://))""", re.IGNORECASE
)
_RELATIVE_URL = pattern(rb'"(?:url|provenance)"\s*:\s*"(?!https?://)')
_BASE = pattern(rb"<base\b[^>]*>", re.IGNORECASE)
_BASE_HREF = pattern(rb"""href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+))""", re.IGNORECASE)
_FIRST_LINK = pattern(rb"<a\b", re.IGNORECASE)
_HEAD = pattern(rb"<head\b[^>]*>", re.IGNORECASE)
_DOCTYPE = pattern(rb"\s*<!doctype[^>]*>", re.IGNORECASE)


def with_lasting_links(body: bytes, content_type: str, url: str) -> bytes:
    """Return a page that may be served from elsewhere.

    :param body: the page, decompressed.
    :param url: where it was found, after redirects, without credentials.
    :raises ValueError: it is no JSON of the Simple API although its type says so.
    """
    if "json" in content_type:
        return _json(body, url) if _RELATIVE_URL.search(body) else body
    return _html(body, url) if _RELATIVE_HREF.search(body) else body


def _json(body: bytes, url: str) -> bytes:
    page = json.loads(body)
    files = page.get("files") if isinstance(page, dict) else None
    if not isinstance(files, list):
        raise ValueError("a page without files")  # noqa: TRY004 - of its content
    for file in files:
        for key in ("url", "provenance"):
            if isinstance(file, dict) and isinstance(file.get(key), str):
                file[key] = join(url, file[key])
    return json.dumps(page, separators=(",", ":"), ensure_ascii=False).encode()


def _html(body: bytes, url: str) -> bytes:
    first = _FIRST_LINK.search(body)
    base = _BASE.search(body, 0, first.start() if first else len(body))
    if base is not None:
        href = _BASE_HREF.search(base[0])
        named = b"" if href is None else next((one for one in href.groups() if one), b"")
        url = join(url, unescape(named.decode("utf-8", "replace")))
        return body[: base.start()] + _tag(url) + body[base.end() :]
    place = _HEAD.search(body, 0, first.start() if first else len(body)) or _DOCTYPE.match(body)
    stop = place.end() if place else 0
    return body[:stop] + _tag(url) + body[stop:]


def _tag(url: str) -> bytes:
    return f'<base href="{escape(url)}">'.encode()
