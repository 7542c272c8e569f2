"""The host name that a request is for, and the web page that made a browser send it.

Any web page can make a browser send requests with its stored credentials, also to servers that only
this machine reaches. The page can read the response only if its own host name resolves to the
server (DNS rebinding), and it cannot forge the headers ``Host``, ``Origin`` and
``Sec-Fetch-Site``; only browsers send the last two.
"""

from __future__ import annotations

import socket
from functools import lru_cache
from typing import TYPE_CHECKING

from wheelfit.server.messages import Application, Request, Response
from wheelfit.sources.urls import Origin, is_loopback, origin
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable


_HOST = pattern(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:,/@\s]+))(?::\d{0,5})?")
_NAME = pattern(r"\[?(?:[0-9a-f.]*:){2,}[0-9a-f.]*\]?|[^\[\]:,/@\s]+")
_MISDIRECTED = Response.text(
    421,
    "this is not a host name of the server; --allowed-host HOST allows it",
    {"connection": "close"},
)


def parse_host_name(text: str) -> str:
    """Return a host name or address unchanged.

    :param text: without scheme and port.
    :raises ValueError: it is neither.
    """
    if _NAME.fullmatch(text.lower()) is None:
        raise ValueError(f"{text[:80]!r} is not a host name or address (without scheme and port)")
    return text


class HostNames:
    """The host names that a server answers to: those of this machine, and those configured.

    :param names: hosts without ports, in any case.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(name.lower().strip("[].") for name in names)
        self._accepts = lru_cache(256)(self._is_accepted)  # every request has such a header

    def refusal(self, request: Request) -> Response | None:
        """Return the response to a request for another name; None if it is for one of these.

        :param request: the request; without ``Host``, which HTTP/1.0 allows, it is accepted.
        """
        header = request.headers.get("host", "localhost")
        # A server in front may have passed on a host name that the page has set.
        forwarded = request.forwarded_host or header
        return None if self._accepts(header) and self._accepts(forwarded) else _MISDIRECTED

    def _is_accepted(self, header: str) -> bool:
        host = _host(header)
        return is_loopback(host) or host in self._names


class RebindingGuard:
    """An `Application` around another that answers only requests for certain host names.

    :param names: hosts besides those of this machine, without ports.
    """

    def __init__(self, application: Application, names: Iterable[str] = ()) -> None:
        self._application = application
        self._names = HostNames(names)

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        return self._names.refusal(request) or self._application(request)


def is_on_loopback(listener: socket.socket) -> bool:
    """Return whether a socket listens on the loopback interface."""
    families = (socket.AF_INET, socket.AF_INET6)
    return listener.family in families and is_loopback(str(listener.getsockname()[0]))


def is_from_browser(request: Request) -> bool:
    """Return whether a request has a header that only browsers send.

    Browsers send it to servers with TLS and to servers on the same machine.
    """
    return "sec-fetch-site" in request.headers


def is_cross_origin(request: Request) -> bool:
    """Return whether a page of another origin made a browser send a request.

    Browsers send ``Sec-Fetch-Site`` as in `is_from_browser`. With requests that may change
    something they send ``Origin`` to every server, unless they are older than 2020. ``null`` is the
    origin of pages that have none: in a sandbox, of a file, behind a redirect.

    :param request: the request; its ``Host`` and its ``origin`` are the server's own origins.
    """
    headers = request.headers
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return True
    if "origin" not in headers:
        return False
    page = _origin(headers["origin"])
    if page is None:
        return True
    # A server in front may use TLS for this one; only it, or the public URL, names the scheme.
    scheme = "https" if request.origin.startswith("https:") else page.scheme
    return page not in (_origin(request.origin), _origin(f"{scheme}://{request.host}"))


def _host(header: str) -> str:
    """Return the host of a header, in lower case, without port and brackets; empty: none.

    Several headers, joined by commas, have none: proxies differ in which one they use.
    """
    match = _HOST.fullmatch(header.strip().lower())
    return "" if match is None else match[1] or match[2].rstrip(".")


def _origin(url: str) -> Origin | None:
    """Return the origin of a URL; None if it has none."""
    try:
        return origin(url)
    except ValueError:
        return None
