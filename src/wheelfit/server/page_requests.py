"""Ask an index behind this server for one of its pages, within bounds.

Whoever keeps pages knows what came with them, asks whether they are still the same, and tells
apart what is gone, what has not changed and what is new. All others are errors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from wheelfit.server.dependency import Dependency
from wheelfit.sources.cached import conditions
from wheelfit.sources.client import unexpected
from wheelfit.sources.transport import Interrupted
from wheelfit.sources.urls import origin
from wheelfit_runtime.errors import NetworkError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wheelfit.sources.client import Client
    from wheelfit.sources.transport import Response


_T = TypeVar("_T")
_GONE = frozenset({404, 410})
_BREATHER = 1.0
"""Seconds between two tries of an index that does not answer."""
_LASTING = ("content-type", "content-encoding", "etag", "last-modified", "cache-control")


@dataclass(frozen=True, slots=True)
class Found(Generic[_T]):
    """Hold what an index answered."""

    content: _T | None
    """What was read of the page; None: it is the one that is known."""
    url: str
    """Where it was found, after redirects."""
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What is worth keeping of what came with it."""


def upstream_of(url: str, most: int) -> Dependency:
    """Return the `Dependency` of an upstream index.

    :param url: of the index, without credentials.
    :param most: number of threads that may use it, or fetch files that it lists, at once.
    """
    return Dependency(
        "upstream index",
        most=most,
        failures=1,  # each has been tried again already
        pause=_BREATHER,
        refuse=lambda text: Unreachable(text, hint="try again in a minute"),
        is_silence=lambda error: isinstance(error, Unreachable) and is_of_index(url, error),
    )


def is_of_index(url: str, error: NetworkError) -> bool:
    """Return whether an error is of an index, not of a host that one of its pages leads to."""
    try:
        return error.where is None or origin(error.where) == origin(url)
    except ValueError:
        return True


def ask_for_page(
    client: Client,
    url: str,
    accept: str,
    *,
    known: tuple[Mapping[str, str], str] | None,
    read: Callable[[Response, str], _T],
) -> Found[_T] | None:
    """Return what an index has at a URL, or None if it has nothing there.

    :param client: asks; it knows how long an answer may take.
    :param url: without credentials.
    :param accept: the types that are understood.
    :param known: what came with the page that is known, and where that was found; None: none is.
    :param read: reads the body; may be called again if it breaks off.
    :raises NetworkError: the index cannot be read, or answers with no page.
    """
    headers = {"Accept": accept, "Accept-Encoding": "gzip"}
    if known is not None:
        headers |= conditions(*known)
    attempt = 0
    while True:
        try:
            return _answered(client, url, headers, known, read)
        except Interrupted as interrupted:  # in the middle of the page
            attempt += 1
            client.wait_after(attempt, interrupted, url)


def _answered(
    client: Client,
    url: str,
    headers: Mapping[str, str],
    known: tuple[Mapping[str, str], str] | None,
    read: Callable[[Response, str], _T],
) -> Found[_T] | None:
    with client.stream(url, headers=headers) as (response, where):
        if response.status in _GONE:
            return None
        if response.status == 403 and not client.user_at(url):
            return None  # as static hosts answer for what is not there
        lasting = {name: response.headers[name] for name in _LASTING if name in response.headers}
        if response.status == 304 and known is not None:
            # What is said of the page itself was said with it.
            again = {name: lasting[name] for name in lasting if not name.startswith("content-")}
            return Found(None, known[1], {**known[0], **again})
        if response.status != 200:
            raise unexpected(response.status, where)
        return Found(read(client.hurried(response), where), where, lasting)
