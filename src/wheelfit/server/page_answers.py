"""The answers that are alike wherever pages of the Simple API are served."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from wheelfit.server.messages import Answer, as_asked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.server.messages import Request


STRICT = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}
"""Headers by which no browser does anything with an answer but show it, whoever wrote it."""


def page_answer(
    request: Request, media_type: str, content: bytes, headers: Mapping[str, str]
) -> Answer:
    """Answer with a page, or with less where that is asked for."""
    charset = "" if media_type.endswith("json") else "; charset=utf-8"
    headers = {**headers, "content-type": media_type + charset}
    return as_asked(request, content, len(content), etag=etag_of(content), headers=headers)


def etag_of(content: bytes) -> str:
    """Return a strong entity tag."""
    return f'"{hashlib.sha256(content).hexdigest()}"'


def moved(path: str) -> Answer:
    """Send somebody to the one address of a page.

    :param path: relative: below which address all this is mounted nobody here knows.
    """
    return Answer.text(301, "see there", {"location": path})


def missing(why: str = "there is no such page or file") -> Answer:
    """Say that there is nothing."""
    return Answer.text(404, why)


def unacceptable() -> Answer:
    """Say that a page cannot be had in any type that was named."""
    return Answer.text(406, "pages can be had as JSON and HTML of the Simple API")
