"""Any application under ASGI: handlers in threads, bodies streamed both ways.

A response in memory is sent from the event loop, without a thread. Bodies of requests are read no
faster than they are used, and those of responses are produced no faster than the client reads them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Iterable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from wheelfit.server.forwarded import ForwardedRequest, TrustedProxies
from wheelfit.server.messages import SECURITY_HEADERS, Application, Disconnect, Request, Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping


FORM_SIZE = 32 << 20
"""Bytes of the form around an uploaded file."""
REASON = "wheelfit.reason"
"""The key of a scope for the reason phrase, for which ASGI has no field."""
_PAUSE = 0.1
"""Seconds between two reads of a body that has no new bytes."""
_DISCARD_TIMEOUT = 3.0
"""Seconds without a byte after which the rest of an ignored body is not awaited."""
_Message: TypeAlias = "MutableMapping[str, Any]"
_Receive: TypeAlias = "Callable[[], Awaitable[_Message]]"
_Send: TypeAlias = "Callable[[_Message], Awaitable[None]]"


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The limits of clients."""

    head_size: int = 32 << 10
    """Bytes of a request line and its headers together."""
    body_size: int = (10 << 30) + FORM_SIZE
    """Bytes of a body: the largest file, and the form around it."""
    io_timeout: float = 30.0
    """Seconds for a head, and for the next bytes of a body, in either direction."""
    min_rate: int = 1024
    """Bytes a second of a body on average, once it has taken longer than `io_timeout`."""
    idle_timeout: int = 65
    """Seconds that a connection may wait for its next request."""
    connections: int = 2000
    """Connections at once; for one more, an idle one is closed."""
    response_timeout: float = 15.0
    """Seconds until a request without a body gets 503 if there is no response, and until a response
    without further bytes is cut. The thread continues; `Dependency` limits how many do.
    """
    threads: int = 24
    """Requests without a body that are handled at once."""
    upload_threads: int = 12
    """Requests with a body that are handled at once."""


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """The record of a request and its response."""

    request: Request
    status: int
    """499: the client went away."""
    sent: int
    """Bytes of the body."""
    seconds: float
    client: str
    """As `ForwardedRequest.client`."""
    error: Exception | None = None
    """The unexpected error of the application."""


class AsgiApplication:
    """An ASGI application around an `Application`, with `SECURITY_HEADERS` in every response.

    :param cached_response: called first, in the event loop; returns a response without waiting
        for anything (no disk, no network, no lock that is held for long), or None.
    :param on_served: called after every request, in the event loop.
    :param proxies: servers in front whose headers name the client; None: clients connect directly.
    """

    def __init__(
        self,
        application: Application,
        *,
        cached_response: Callable[[Request], Response | None] | None = None,
        limits: ClientLimits = ClientLimits(),
        origin: str = "",
        on_served: Callable[[ServedRequest], None] | None = None,
        proxies: TrustedProxies | None = None,
    ) -> None:
        self._application = application
        self._cached_response = cached_response
        self._limits = limits
        self._origin = origin
        self._on_served = on_served
        self._proxies = proxies
        self._threads = ThreadPoolExecutor(limits.threads, "request")
        # Separate, so that slow uploads do not block other requests.
        self._uploads = ThreadPoolExecutor(limits.upload_threads, "upload")

    def close(self) -> None:
        """Wait for the threads."""
        self._threads.shutdown()
        self._uploads.shutdown()

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        began = time.perf_counter()
        headers = _headers(scope["headers"])
        source = ForwardedRequest(str(scope["client"][0]) if scope.get("client") else "")
        if self._proxies is not None:
            source = self._proxies(source.client, headers)
        body_reader = _RequestBody(receive, headers, self._limits, asyncio.get_running_loop())
        origin = self._origin
        if source.scheme == "https":  # between the client and a trusted server in front
            origin = f"https:{origin.partition(':')[2]}"
        request = Request(
            scope["method"],
            scope["raw_path"].decode("latin-1"),
            headers,
            origin,
            scope["query_string"].decode("latin-1"),
            body_reader,
            source.client,
            source.host,
        )
        timeout = self._limits.response_timeout
        sender = _ResponseSender(send, receive, request, self._threads, timeout)
        error: Exception | None = None
        status = 0
        try:
            response, error = await self._respond(request, body_reader)
            status = response.status
            if response.reason:
                scope[REASON] = response.reason
            await sender.send(response, _raw_headers(response), body_reader)
        except Disconnect:
            status = 499
        except Exception as caught:
            error = caught
            raise
        finally:
            if self._on_served is not None:
                seconds = time.perf_counter() - began
                self._on_served(
                    ServedRequest(request, status, sender.sent, seconds, source.client, error)
                )

    async def _respond(
        self, request: Request, body_reader: _RequestBody
    ) -> tuple[Response, Exception | None]:
        """Return the response, and the unexpected error of the application, if there was one."""
        if self._cached_response is not None and not body_reader.has_body:
            response = self._cached_response(request)
            if response is not None:
                return response, None
        if not request.path.startswith("/"):
            return Response.text(400, "the request has no path"), None
        if body_reader.announced_size > self._limits.body_size:
            return _too_large(self._limits), None
        pool = self._uploads if body_reader.has_body else self._threads
        timeout = None if body_reader.has_body else self._limits.response_timeout
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout) as deadline:
                return await loop.run_in_executor(pool, self._application, request), None
        except _UnreadableBody as unreadable:
            return unreadable.response, None
        except Disconnect:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of one response must not end the server
            if deadline.expired():
                return Response.text(
                    503, "the server took too long to answer", {"retry-after": "2"}
                ), None
            return Response.text(500, "the server failed to answer"), error


class _UnreadableBody(Exception):
    """Raised when the body of a request cannot be read."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


class _RequestBody:
    """The body of a request, read by a thread while it arrives: a `Body`."""

    def __init__(
        self,
        receive: _Receive,
        headers: Mapping[str, str],
        limits: ClientLimits,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        length = headers.get("content-length", "")
        self.announced_size = int(length) if length.isdecimal() else 0
        """Bytes that the client announces; 0: unknown."""
        self.has_body = self.announced_size > 0 or "transfer-encoding" in headers
        self.expects_continue = "expect" in headers
        """Whether the client sends a body only after "100 Continue"."""
        self.is_complete = not self.has_body
        self._receive = receive
        self._limits = limits
        self._loop = loop
        self._buffer = b""
        self._received_size = 0
        self._started = time.monotonic()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; called in a thread."""
        while not self._buffer and not self.is_complete:
            try:
                self._buffer = asyncio.run_coroutine_threadsafe(self.next(), self._loop).result()
            except CancelledError:
                raise Disconnect from None
        if size < 0:
            size = len(self._buffer)
        piece, self._buffer = self._buffer[:size], self._buffer[size:]
        return piece

    async def next(self, read_timeout: float | None = None) -> bytes:
        """Return the next bytes; called in the event loop."""
        self.expects_continue = False
        try:
            async with asyncio.timeout(read_timeout or self._limits.io_timeout):
                message = await self._receive()
        except TimeoutError:
            raise _UnreadableBody(_too_slow()) from None
        if message["type"] == "http.disconnect":
            self.is_complete = True
            raise Disconnect
        body: bytes = message.get("body", b"")
        self._received_size += len(body)
        self.is_complete = not message.get("more_body", False)
        if self._received_size > self._limits.body_size:
            raise _UnreadableBody(_too_large(self._limits))
        elapsed = time.monotonic() - self._started
        is_too_slow = self._received_size < elapsed * self._limits.min_rate
        if elapsed > self._limits.io_timeout and is_too_slow:
            raise _UnreadableBody(_too_slow())
        return body

    async def discard_rest(self) -> None:
        """Read the rest of an ignored body, so that the client reads the response."""
        if self.expects_continue:
            return
        with suppress(_UnreadableBody, Disconnect):
            while not self.is_complete:
                await self.next(min(_DISCARD_TIMEOUT, self._limits.io_timeout))


class _ResponseSender:
    """One response, sent as fast as the client takes it."""

    def __init__(
        self,
        send: _Send,
        receive: _Receive,
        request: Request,
        threads: ThreadPoolExecutor,
        timeout: float,
    ) -> None:
        self._send = send
        self._receive = receive
        self._request = request
        self._threads = threads
        self._timeout = timeout
        self.sent = 0
        """Bytes of the body so far."""

    async def send(
        self, response: Response, headers: list[tuple[bytes, bytes]], body_reader: _RequestBody
    ) -> None:
        """Send all of it.

        :raises Disconnect: the client has disconnected.
        :raises ConnectionError: the body is shorter than announced; the server cuts the connection.
        """
        if not body_reader.is_complete:
            headers.append((b"connection", b"close"))
        await self._send(
            {"type": "http.response.start", "status": response.status, "headers": headers}
        )
        has_body = self._request.method != "HEAD" and response.status != 304
        if has_body and isinstance(response.body, tuple):
            # A response may end only after its request; if that is unread, an empty piece follows.
            is_last = body_reader.is_complete
            await self._send_piece(b"".join(response.body), is_last=is_last)
            if is_last:
                return
        elif has_body:
            await self._stream(iter(response.body), watches_client=body_reader.is_complete)
            if self.sent != response.length:
                raise ConnectionError(f"{self.sent} bytes of {response.length}")
        await body_reader.discard_rest()
        await self._send_piece(b"", is_last=True)

    async def _stream(self, pieces: Iterator[bytes], *, watches_client: bool) -> None:
        """Send pieces; stop if the client disconnects, which is known only after its own body."""
        loop = asyncio.get_running_loop()
        disconnect = loop.create_task(self._wait_for_disconnect()) if watches_client else None
        is_complete = False
        try:
            while True:
                async with asyncio.timeout(self._timeout) as deadline:
                    piece = await loop.run_in_executor(self._threads, next, pieces, None)
                if piece is None:
                    is_complete = True
                    break
                if piece:
                    await self._send_piece(piece)
                else:
                    await asyncio.sleep(_PAUSE)  # the thread is free for others meanwhile
                if disconnect is not None and disconnect.done():
                    raise Disconnect
        except TimeoutError:
            raise ConnectionError("the next bytes did not come in time") from None
        finally:
            if disconnect is not None:
                disconnect.cancel()
            # A generator that still runs, in an abandoned thread, cannot be closed.
            if not is_complete and isinstance(pieces, Generator) and not deadline.expired():
                await loop.run_in_executor(self._threads, pieces.close)

    async def _wait_for_disconnect(self) -> None:
        """Wait until the client disconnects."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _send_piece(self, piece: bytes, *, is_last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": not is_last})
        self.sent += len(piece)


def _raw_headers(response: Response) -> list[tuple[bytes, bytes]]:
    headers = {**SECURITY_HEADERS, **response.headers}
    if response.status != 304:
        headers["content-length"] = str(response.length)
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by lower-case name; several of one name are joined."""
    headers: dict[str, str] = {}
    for name, value in raw:
        text, key = value.decode("latin-1"), name.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _too_large(limits: ClientLimits) -> Response:
    return Response.text(413, f"the body of the request is larger than {limits.body_size} bytes")


def _too_slow() -> Response:
    return Response.text(
        408, "the body of the request did not arrive in time", {"connection": "close"}
    )
