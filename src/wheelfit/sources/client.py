"""HTTP requests with retries, redirects, authorization and limits.

Redirects are followed here and not by the transport, because each hop is a new decision about which
host may see which credentials.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from string import printable
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from msgspec import Struct

from wheelfit.sources.body import read_body
from wheelfit.sources.credentials import Credentials, Login
from wheelfit.sources.retries import RETRY_STATUSES, RetryPolicy
from wheelfit.sources.transport import Interrupted, Response, Transport
from wheelfit.sources.urls import (
    is_loopback,
    join,
    origin,
    redact,
    split_userinfo,
    without_fragment,
)
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import UnexpectedStatus, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wheelfit.sources.urls import Origin
    from wheelfit.wheels.remote import Range, RemotePart


PAGE_LIMIT = 64 << 20
"""Bytes of the longest page, decompressed."""

_T = TypeVar("_T")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 10
UNREACHABLE_PAUSE = 120.0
"""Seconds for which a command does not contact an unreachable server again."""
_DEFAULT_POLICY = RetryPolicy()
_UNAVAILABLE = frozenset({401, 403, 404, 407, 410})
_USER_AGENT = f"wheelfit/{__version__}"
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Answer(Struct, frozen=True):
    """A complete response, with its body."""

    status: int
    """The HTTP status."""
    headers: Mapping[str, str]
    """By lower-case name."""
    url: str
    """The URL after redirects, without credentials."""
    body: bytes
    """The body, decompressed unless requested as sent."""


class Client:
    """A client of servers, for any number of threads.

    URLs passed to it have no credentials; it adds those stored for their host.

    :param credentials: the credentials by host; None: there are none.
    :param policy: the requests to retry, with the delays.
    :param resume_policy: the same for interrupted transfers.
    :param is_trusted: returns whether plain HTTP is acceptable at a host and port.
    :param response_timeout: seconds for a page, or any file read as a whole; None: no limit while
        bytes arrive. Servers need it, since waiting threads occupy shared resources.
    :param unreachable_pause: seconds for which an unreachable server is not contacted again.
    :param sleep: waits that many seconds.
    :param clock: seconds since the epoch.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        credentials: Credentials | None = None,
        policy: RetryPolicy = _DEFAULT_POLICY,
        resume_policy: RetryPolicy = _DEFAULT_POLICY,
        is_trusted: Callable[[str, int | None], bool] = lambda _host, _port: False,
        response_timeout: float | None = None,
        unreachable_pause: float = UNREACHABLE_PAUSE,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._transport = transport
        self._credentials = credentials
        self._policy = policy
        self._resume_policy = resume_policy
        self._is_trusted = is_trusted
        self._response_timeout = response_timeout
        self._unreachable_pause = unreachable_pause
        self._sleep = sleep
        self._clock = clock
        self._unreachable: dict[Origin, tuple[float, Interrupted]] = {}  # with the time of failure

    def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        limit: int = PAGE_LIMIT,
        packed: bool = False,
    ) -> Answer:
        """Return the whole answer, of any status.

        :param limit: bytes of the longest body accepted, decompressed.
        :param packed: whether the body stays compressed; then the limit is for its size as sent.
        :raises Unreachable: there was no complete answer, repeatedly.
        :raises UnexpectedStatus: a lasting error of the server, a login refused, or a body beyond
            the limit.
        """
        request_headers = {"Accept-Encoding": "gzip", **headers}

        def read(response: Response, where: str) -> Answer:
            # The body of an error is for people and is not read.
            body = b""
            if response.status < 300:
                body = self._body(response, limit, where, packed=packed)
            return Answer(response.status, response.headers, where, body)

        return self._complete(url, request_headers, read)

    def get_range(self, url: str, byte_range: Range) -> RemotePart:
        """Return a range of the bytes of a file.

        :raises RangeUnsupported: the server does not support ranges; no body was read.
        :raises Unreachable: there was no complete answer, repeatedly.
        :raises UnexpectedStatus: another status, or other bytes than requested.
        """
        from wheelfit.wheels.remote import RemotePart, announced_extent

        def read(response: Response, where: str) -> RemotePart:
            if response.status in _UNAVAILABLE:
                raise unexpected(response.status, where)
            extent = announced_extent(
                byte_range, response.status, response.headers, where=redact(where)
            )
            return RemotePart(extent, self._body(response, extent.stop - extent.start, where))

        headers = {"Accept-Encoding": "identity", "Range": byte_range.header}
        return self._complete(url, headers, read)

    @contextmanager
    def stream(
        self, url: str, *, headers: Mapping[str, str] = _NO_HEADERS
    ) -> Iterator[tuple[Response, str]]:
        """Open an answer whose body the caller reads.

        :return: the response, and its URL after redirects. Reading its body may
            raise ``Interrupted``; see `wait_after`.
        :raises Unreachable: there was no answer, repeatedly.
        :raises UnexpectedStatus: a lasting error of the server, or a login refused.
        """
        request_headers = {"Accept-Encoding": "identity", **headers}
        attempts = _Attempts(self._policy, self._sleep, self._clock)
        response, where = self._open(url, request_headers, attempts)
        try:
            yield response, where
        finally:
            response.close()

    def _body(self, response: Response, limit: int, where: str, *, packed: bool = False) -> bytes:
        timeout = self._response_timeout
        return read_body(response, limit, where=redact(where), packed=packed, timeout=timeout)

    def wait_after(self, attempt: int, interrupted: Interrupted, url: str) -> None:
        """Wait before an interrupted transfer is resumed.

        :param attempt: the number of consecutive attempts without new bytes.
        :raises Unreachable: the policy allows no further attempt.
        """
        delay = self._resume_policy.after_interruption(attempt, interrupted)
        if delay is None:
            raise unreachable(url, interrupted) from interrupted
        self._sleep(delay)

    def user_at(self, url: str) -> str:
        """Return the user name sent to a URL; ``?``: a password alone; empty: none."""
        login = self._credentials.first(url) if self._credentials else None
        if login is None:
            return ""
        return login.user or "?"

    def cancel(self) -> None:
        """Cancel all requests, from any thread, and send no more."""
        self._transport.cancel()

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    # --- retries --------------------------------------------------------------------

    def _complete(
        self, url: str, headers: Mapping[str, str], read: Callable[[Response, str], _T]
    ) -> _T:
        """Send a request and read its answer, with the retries of the policy."""
        attempts = _Attempts(self._policy, self._sleep, self._clock)
        while True:
            response, where = self._open(url, headers, attempts)
            try:
                return read(response, where)
            except Interrupted as interrupted:
                attempts.wait_after_interruption(url, interrupted)
            finally:
                response.close()

    def _open(
        self, url: str, headers: Mapping[str, str], attempts: _Attempts
    ) -> tuple[Response, str]:
        while True:
            try:
                response, where = self._follow(url, headers)
            except Interrupted as interrupted:
                try:
                    attempts.wait_after_interruption(url, interrupted)
                except Unreachable:
                    if interrupted.retry_chance != "good":
                        # It is unreachable: later requests to it fail at once, without a timeout.
                        server = origin(interrupted.url or url)
                        self._unreachable.setdefault(server, (self._clock(), interrupted))
                    raise
                continue
            if response.status not in RETRY_STATUSES:
                return response, where
            response.close()
            attempts.wait_after_status(where, response)

    # --- redirects and logins -------------------------------------------------------

    def _follow(self, url: str, headers: Mapping[str, str]) -> tuple[Response, str]:
        login = self._credentials.first(url) if self._credentials else None
        for _ in range(_MOST_REDIRECTS + 1):
            response = self._authorized(url, headers, login)
            location = response.headers.get("location")
            if response.status not in _REDIRECTS or location is None:
                return response, url
            response.close()
            url, login = self._redirected(url, location)
        raise UnexpectedStatus("too many redirects", status=302, where=redact(url))

    def _authorized(self, url: str, headers: Mapping[str, str], login: Login | None) -> Response:
        response = self._send(url, headers, login)
        if response.status == 401:
            response.close()
            next_login = self._credentials.after_refusal(url, login) if self._credentials else None
            if next_login is None:
                raise unexpected(401, url)
            response = self._send(url, headers, next_login)
            if response.status == 401:
                response.close()
                raise unexpected(401, url)
        return response

    def _send(self, url: str, headers: Mapping[str, str], login: Login | None) -> Response:
        all_headers = {"User-Agent": _USER_AGENT, **headers}
        if login is not None:
            all_headers["Authorization"] = login.header
        since, failure = self._unreachable.get(origin(url), (0.0, None))
        if failure is not None and 0 <= self._clock() - since < self._unreachable_pause:
            repeated = Interrupted(failure.reason, retry_chance="none", hint=failure.hint)
            # Names this server as unreachable, not another one that redirected here.
            repeated.url = url
            raise repeated
        self._unreachable.pop(origin(url), None)
        try:
            return self._transport.send(url, all_headers)
        except Interrupted as interrupted:
            interrupted.url = url  # after a redirect, not the URL requested first
            raise

    def _redirected(self, url: str, location: str) -> tuple[str, Login | None]:
        """Return the target of a redirect, and the login for it."""
        try:
            # Headers are decoded as Latin-1, but the bytes of a URL are usually UTF-8.
            encoded = quote(location, safe=printable, encoding="latin-1")
            target, userinfo = split_userinfo(without_fragment(join(url, encoded)))
            old, new = origin(url), origin(target)
        except ValueError:
            raise UnexpectedStatus(
                "the redirect leads to an invalid URL", status=302, where=redact(url)
            ) from None
        if new.scheme not in {"http", "https"}:
            raise UnexpectedStatus(
                f"the redirect leads to {new.scheme}:, which is not followed",
                status=302,
                where=redact(url),
            )
        is_downgrade = (old.scheme, new.scheme) == ("https", "http")
        if is_downgrade and not (is_loopback(new.host) or self._is_trusted(new.host, new.port)):
            raise UnexpectedStatus(
                f"the redirect leads from https to {new}, which is not followed",
                status=302,
                where=redact(url),
                hint=f"if that is intended, trust the host: --trusted-host {new.host}",
            )
        if userinfo is not None:  # a login from the server, for this request only
            return target, Login(userinfo[0], userinfo[1] or "")
        return target, self._credentials.after_redirect(target, url) if self._credentials else None


class _Attempts:
    """The failed attempts of one request; each method waits for the next, or raises an error."""

    def __init__(
        self, policy: RetryPolicy, sleep: Callable[[float], None], clock: Callable[[], float]
    ) -> None:
        self._policy = policy
        self._sleep = sleep
        self._clock = clock
        self._failed = 0

    def wait_after_interruption(self, url: str, interrupted: Interrupted) -> None:
        self._failed += 1
        delay = self._policy.after_interruption(self._failed, interrupted)
        if delay is None:
            raise unreachable(url, interrupted) from interrupted
        self._sleep(delay)

    def wait_after_status(self, url: str, response: Response) -> None:
        self._failed += 1
        retry_after = response.headers.get("retry-after")
        delay = self._policy.after_status(self._failed, retry_after, self._clock())
        if delay is None:
            raise unexpected(response.status, url)
        self._sleep(delay)


# --- errors -----------------------------------------------------------------------


REACH_HINT = "check the URL, the network and the proxy settings"
"""The hint if there is no more specific one."""


def unreachable(url: str, interrupted: Interrupted) -> Unreachable:
    """Return the error for an unreachable server.

    :param url: the requested URL; shown without credentials.
    """
    url = interrupted.url or url
    return Unreachable(
        f"{_host(url)} cannot be read: {interrupted.reason}",
        where=redact(url),
        hint=interrupted.hint or REACH_HINT,
    )


def unexpected(status: int, url: str) -> UnexpectedStatus:
    """Return the error for an answer with an unexpected status.

    :param url: the URL that answered; shown without credentials.
    """
    return UnexpectedStatus(
        f"{_host(url)} answered with {_PHRASES.get(status, f'status {status}')}",
        status=status,
        where=redact(url),
        hint=_HINTS.get(status, "try again later" if status >= 500 else None),
    )


def _host(url: str) -> str:
    try:
        return str(origin(url))
    except ValueError:
        return "the server"


_PHRASES = {
    401: "401: a user name and password are missing or wrong",
    403: "403: access is forbidden",
    404: "404: not found",
    407: "407: the proxy requires a user name and password",
    410: "410: not available any more",
    429: "429: too many requests",
}
_LOGIN_HINT = "put the login into netrc, keyring or the URL of the index"
_HINTS = {
    401: _LOGIN_HINT,
    403: "check that your login may read this",
    404: "the listing may be out of date; try again, or report it to the index operator",
    407: "put the login of the proxy into its URL",
    429: "wait, or use a mirror",
}
