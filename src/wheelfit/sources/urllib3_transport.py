"""The transport through urllib3; no other module imports urllib3."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    IncompleteRead,
    InsecureRequestWarning,
    LocationValueError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from wheelfit.sources.proxies import is_proxy_url
from wheelfit.sources.retries import RETRY_STATUSES
from wheelfit.sources.transport import Interrupted
from wheelfit.sources.urls import split_userinfo
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from urllib3 import BaseHTTPResponse, PoolManager


CHUNK = 1 << 20
"""Bytes read at once; with less, threads wait for each other more often."""
_MAX_POOLED = 16  # connections to one server that stay open
_MIN_CHUNK = CHUNK // 2
_COLLECT_TIME = 0.02
"""Seconds for which pieces are collected until they form a chunk of `_MIN_CHUNK` bytes."""
_TUNNEL_STATUS = pattern(r"Tunnel connection failed: (\d{3})\b", re.ASCII)
_PROXY_HINT = "check the proxy settings (HTTPS_PROXY, HTTP_PROXY, pip's proxy)"
_PROXY_LOGIN_HINT = "put the login of the proxy into its URL"


class Urllib3Transport:
    """A sender of requests over pooled connections.

    :param context: for servers whose certificate is checked.
    :param insecure: for trusted hosts; None if there are none.
    :param proxy: returns the proxy for a URL; None for a direct connection.
    :param timeout: seconds to wait for a connection, and for the next bytes.
    :param is_allowed_address: returns whether requests to a host at an address are allowed. The
        address is that of the open connection, so that another name resolution (DNS rebinding)
        cannot evade it. The address to which a proxy connects is unknown, so the host is passed
        twice.
    :param response_timeout: seconds for the whole head of a response; None: no limit while bytes
        arrive.
    """

    def __init__(
        self,
        *,
        context: ssl.SSLContext,
        insecure: ssl.SSLContext | None = None,
        is_trusted: Callable[[str, int | None], bool] = lambda _host, _port: False,
        proxy: Callable[[str], str | None] = lambda _url: None,
        timeout: float = 15.0,
        is_allowed_address: Callable[[str, str], bool] = lambda _host, _address: True,
        is_allowed_url: Callable[[str], bool] = lambda _url: True,
        response_timeout: float | None = None,
    ) -> None:
        self._context = context
        self._insecure = insecure
        self._is_trusted = is_trusted
        self._proxy = proxy
        self._timeout = urllib3.Timeout(connect=timeout, read=timeout)
        self._is_allowed_address = is_allowed_address
        self._is_allowed_url = is_allowed_url
        self._response_timeout = response_timeout
        self._managers: dict[tuple[str | None, bool], PoolManager] = {}
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._is_cancelled = False

    def send(self, url: str, headers: Mapping[str, str]) -> _Urllib3Response:
        """Send one GET request; see `Transport`."""
        if self._is_cancelled:
            raise _transfers_cancelled()
        if not self._is_allowed_url(url):
            raise Interrupted("an index may not refer to this host or port", retry_chance="none")
        if self._proxy(url) is not None:
            host = urlsplit(url).hostname or ""
            if not self._is_allowed_address(host, host):
                raise _forbidden_address()
        try:
            response = self._manager(url).request(
                "GET",
                url,
                headers=dict(headers),
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,
                timeout=self._timeout,
            )
        except (HTTPError, OSError, ValueError) as error:
            raise _interrupted(error) from error
        return _Urllib3Response(response)

    def cancel(self) -> None:
        """Cancel running requests, and send nothing more."""
        self._is_cancelled = True
        for open_socket in tuple(self._sockets):
            _shut_down(open_socket)

    def close(self) -> None:
        """Close every connection."""
        for manager in self._managers.values():
            manager.clear()

    def _manager(self, url: str) -> PoolManager:
        parts = urlsplit(url)
        is_trusted = self._insecure is not None and self._is_trusted(
            parts.hostname or "", parts.port
        )
        proxy = self._proxy(url)
        key = (proxy, is_trusted)
        manager = self._managers.get(key)
        if manager is None:
            new_manager = self._new_manager(proxy, is_trusted=is_trusted)
            _make_cancellable(
                new_manager,
                self._sockets,
                self._is_allowed_address if proxy is None else None,
                self._response_timeout,
            )
            # Two threads may build one each; setdefault keeps one of them.
            manager = self._managers.setdefault(key, new_manager)
        return manager

    def _new_manager(self, proxy: str | None, *, is_trusted: bool) -> PoolManager:
        context = self._insecure if is_trusted and self._insecure is not None else self._context
        if proxy is None:
            return urllib3.PoolManager(num_pools=32, maxsize=_MAX_POOLED, ssl_context=context)
        if not is_proxy_url(proxy):
            raise Interrupted(
                "the proxy is not an http, https or SOCKS URL with a host",
                retry_chance="none",
                hint="check the proxy settings (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY)",
            )
        address, userinfo = split_userinfo(proxy)
        if address.startswith("socks"):
            return self._new_socks_manager(address, userinfo, context)
        secret = f"{userinfo[0]}:{userinfo[1] or ''}" if userinfo else None
        return urllib3.ProxyManager(
            address,
            num_pools=32,
            maxsize=_MAX_POOLED,
            ssl_context=context,
            proxy_ssl_context=self._context,
            proxy_headers=urllib3.make_headers(proxy_basic_auth=secret) if secret else None,
        )

    def _new_socks_manager(
        self, address: str, userinfo: tuple[str, str | None] | None, context: ssl.SSLContext
    ) -> PoolManager:
        try:
            from urllib3.contrib.socks import SOCKSProxyManager  # needs PySocks
        except ImportError:
            raise Interrupted(
                "the proxy uses SOCKS, and the package PySocks is not installed",
                retry_chance="none",
                hint="install PySocks into the environment of wheelfit",
            ) from None
        user, password = userinfo or (None, None)
        return SOCKSProxyManager(
            address, user, password, num_pools=32, maxsize=_MAX_POOLED, ssl_context=context
        )


class _Urllib3Response:
    """A response of urllib3: a `Response`."""

    def __init__(self, response: BaseHTTPResponse) -> None:
        self._response = response
        self._connection = response.connection
        self._complete = False
        self._closed = False
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.itermerged()}

    def chunks(self) -> Iterator[bytes]:
        # On a slow connection a full chunk would take minutes, without progress and without a
        # chance to cancel. But TLS records are small and each chunk costs time, so they are
        # collected for a moment.
        pieces: list[bytes] = []
        size, since = 0, time.monotonic()
        interruption: Interrupted | None = None
        while True:
            try:
                chunk = self._response.read1(CHUNK, decode_content=False)
            except (HTTPError, OSError, ValueError) as error:
                interruption = _interrupted(error)
                interruption.__cause__ = error
                break
            if not chunk:
                break
            pieces.append(chunk)
            size += len(chunk)
            now = time.monotonic()
            if size >= _MIN_CHUNK or now - since > _COLLECT_TIME:
                yield pieces[0] if len(pieces) == 1 else b"".join(pieces)
                pieces, size, since = [], 0, now
        if pieces:
            yield b"".join(pieces)
        if interruption is not None:
            raise interruption
        self._complete = True

    def close(self) -> None:
        self._closed = True
        # As after 304; if that names chunks, http.client would wait for one.
        is_empty = self._response.length_remaining == 0 and not self._response.chunked
        if self._complete or is_empty:
            self._response.drain_conn()
            self._response.release_conn()
        else:
            self._response.close()

    def cancel(self) -> None:
        open_socket = getattr(self._connection, "open_socket", None)
        if open_socket is not None and not self._closed:
            _shut_down(open_socket)


# --- connections that can be cancelled -----------------------------------------------


def _make_cancellable(
    manager: PoolManager,
    sockets: weakref.WeakSet[socket.socket],
    is_allowed_address: Callable[[str, str], bool] | None,
    response_timeout: float | None,
) -> None:
    """Make the connections of a manager, of any kind, record their sockets and limit their time.

    :param is_allowed_address: returns whether an open connection may be used; None: each may.
    """

    def with_cancellable_connections(pool: Any) -> Any:
        class CancellableConnection(pool.ConnectionCls):  # type: ignore[misc]
            open_socket: socket.socket

            def _new_conn(self) -> socket.socket:
                new_socket: socket.socket = super()._new_conn()
                if is_allowed_address is not None and not is_allowed_address(
                    self.host, str(new_socket.getpeername()[0])
                ):
                    new_socket.close()  # nothing was sent
                    raise _forbidden_address()
                sockets.add(new_socket)  # so that a TLS handshake can be cancelled too
                return new_socket

            def connect(self) -> None:
                super().connect()
                self.open_socket = self.sock
                sockets.add(self.open_socket)

            def getresponse(self) -> Any:
                if response_timeout is None:
                    return super().getresponse()
                is_late = threading.Event()

                def end() -> None:
                    is_late.set()
                    _shut_down(self.open_socket)

                timer = threading.Timer(response_timeout, end)
                timer.daemon = True
                timer.start()
                try:
                    response = super().getresponse()
                except Exception:
                    if is_late.is_set():
                        raise _response_too_slow() from None
                    raise
                finally:
                    timer.cancel()
                if is_late.is_set():  # http.client accepts a truncated head as a complete one
                    response.close()
                    raise _response_too_slow()
                return response

        return type(pool.__name__, (pool,), {"ConnectionCls": CancellableConnection})

    manager.pool_classes_by_scheme = {
        scheme: with_cancellable_connections(pool)
        for scheme, pool in manager.pool_classes_by_scheme.items()
    }


def _shut_down(open_socket: socket.socket) -> None:
    """Wake a thread that waits for a socket; closing it would free its descriptor for reuse."""
    with suppress(OSError):  # it is not connected any more
        socket.socket.shutdown(open_socket, socket.SHUT_RDWR)


def _transfers_cancelled() -> Interrupted:
    return Interrupted("the transfers were cancelled", retry_chance="none")


def _response_too_slow() -> Interrupted:
    return Interrupted("the answer takes too long", retry_chance="none")


def _forbidden_address() -> Interrupted:
    return Interrupted(
        "its address is on this machine or in a private network, to which a public index may not "
        "refer; hosts = [...] of a mirror, or --allow-private-host of a proxy, allows it",
        retry_chance="none",
    )


# --- messages for the exceptions of urllib3 -----------------------------------------


def _interrupted(error: Exception) -> Interrupted:
    if isinstance(error, ProxyError):
        if status := _TUNNEL_STATUS.match(str(error.original_error)):
            return Interrupted(
                f"the proxy refuses the connection with status {status[1]}",
                retry_chance="good" if int(status[1]) in RETRY_STATUSES else "none",
                hint=_PROXY_LOGIN_HINT if status[1] == "407" else _PROXY_HINT,
            )
        cause = _interrupted(error.original_error)
        return Interrupted(
            f"the proxy cannot be used: {cause.reason}",
            retry_chance=cause.retry_chance,
            hint=_PROXY_HINT,
        )
    if isinstance(error, (SSLError, ssl.SSLError)):
        return _tls_error(error)
    if isinstance(error, NameResolutionError):
        return Interrupted("the host name cannot be resolved", retry_chance="little")
    if isinstance(error, NewConnectionError):
        return Interrupted(_system_message(error) or "no connection", retry_chance="little")
    if isinstance(error, ConnectTimeoutError):
        return Interrupted("no connection within the time allowed", retry_chance="little")
    if isinstance(error, ReadTimeoutError):
        return Interrupted("no answer within the time allowed")
    if isinstance(error, IncompleteRead):
        return Interrupted("the answer broke off before its end")
    if isinstance(error, ProtocolError):
        cause_of_error = error.args[1] if len(error.args) > 1 else error.__cause__
        if isinstance(cause_of_error, IncompleteRead):
            return Interrupted("the answer broke off before its end")
        message = _system_message(error)
        return Interrupted(
            f"the connection broke: {message}" if message else "the connection broke"
        )
    if isinstance(error, (LocationValueError, ValueError)):
        return Interrupted("the URL cannot be used", retry_chance="none")
    return Interrupted(_system_message(error) or f"the connection failed ({type(error).__name__})")


def _tls_error(error: Exception) -> Interrupted:
    """Return the error of a failed TLS handshake, which is often an untrusted certificate."""
    verification_errors = [
        link for link in _chain(error) if isinstance(link, ssl.SSLCertVerificationError)
    ]
    if not verification_errors:
        return Interrupted(f"TLS failed: {_reason_of(error)}", retry_chance="little")
    messages = [link.verify_message for link in verification_errors if link.verify_message]
    reason = messages[0] if messages else _reason_of(error)
    return Interrupted(
        f"the certificate of the server is not trusted: {reason}",
        retry_chance="none",
        hint="name the certificates of your organisation with --cert, PIP_CERT or SSL_CERT_FILE",
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its arguments that are errors, and its causes, each once."""
    seen: set[int] = set()
    pending = [error]
    while pending:
        link = pending.pop()
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        pending.extend(linked for linked in link.args if isinstance(linked, BaseException))
        pending.extend(
            linked for linked in (link.__cause__, link.__context__) if linked is not None
        )


def _system_message(error: BaseException) -> str | None:
    """Return the message of the operating system, as "Connection refused"."""
    for link in _chain(error):
        if isinstance(link, OSError) and link.strerror:
            return link.strerror
    return None


def _reason_of(error: BaseException) -> str:
    return _system_message(error) or type(error).__name__


# Trusting a host is the user's own decision; one note about it is enough.
urllib3.disable_warnings(InsecureRequestWarning)
