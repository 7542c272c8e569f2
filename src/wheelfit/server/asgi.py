"""Any application under ASGI: handlers in threads, bodies streamed both ways.

An answer in memory is sent from the event loop, without a thread. Bodies of requests are read no
faster than they are used, and those of answers are produced no faster than the client reads them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Iterable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from wheelfit.server.forwarded import ForwardedRequest
from wheelfit.server.messages import Answer, Disconnect, Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping

    from wheelfit.server.forwarded import TrustedProxies
    from wheelfit.server.messages import Application


REASON = "wheelfit.reason"
"""The key of a scope for the reason phrase, which ASGI has no place for."""
_PAUSE = 0.1
"""Seconds after which a body that yielded nothing is read again."""
_LINGER = 3.0
"""Seconds without a byte after which an ignored body is not waited for any more."""
_Message: TypeAlias = "MutableMapping[str, Any]"
_Receive: TypeAlias = "Callable[[], Awaitable[_Message]]"
_Send: TypeAlias = "Callable[[_Message], Awaitable[None]]"


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The limits of clients."""

    head: int = 32 << 10
    """Bytes of a request line and its headers together."""
    body: int = (10 << 30) + (32 << 20)
    """Bytes of a body: the largest file, and the form around it."""
    patience: float = 30.0
    """Seconds for a head, and for the next bytes of a body, in either direction."""
    slowest: int = 1024
    """Bytes a second of a body on average, once it has taken longer than that."""
    idle: int = 65
    """Seconds that a connection may wait for its next request."""
    connections: int = 2000
    """Connections at once; for one more, an idle one is closed."""
    answer: float = 15.0
    """Seconds until a request without a body gets 503 if there is no answer, and until an answer
    without further bytes is cut. The thread continues; `Dependency` limits how many do.
    """
    threads: int = 24
    """Requests without a body that are handled at once."""
    uploads: int = 12
    """Requests with a body that are handled at once."""


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """The record of an answered request."""

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
    """An ASGI application around an `Application`.

    :param at_hand: called first, in the event loop; returns an answer without waiting for anything
        (no lock, no disk, no network), or None.
    :param tell: called after every request, in the event loop.
    :param headers: added to every answer that lacks them.
    :param proxies: servers in front whose headers name the client; None: clients connect directly.
    """

    def __init__(
        self,
        application: Application,
        *,
        at_hand: Callable[[Request], Answer | None] | None = None,
        limits: ClientLimits = ClientLimits(),
        origin: str = "",
        tell: Callable[[ServedRequest], None] | None = None,
        headers: Iterable[tuple[str, str]] = (),
        proxies: TrustedProxies | None = None,
    ) -> None:
        self._application = application
        self._at_hand = at_hand
        self._limits = limits
        self._origin = origin
        self._tell = tell
        self._headers = tuple(headers)
        self._proxies = proxies
        self._threads = ThreadPoolExecutor(limits.threads, "answer")
        # Separate, so that slow uploads do not block other requests.
        self._uploads = ThreadPoolExecutor(limits.uploads, "upload")

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
        incoming = _Incoming(receive, headers, self._limits, asyncio.get_running_loop())
        request = Request(
            scope["method"],
            scope["raw_path"].decode("latin-1"),
            headers,
            _with_tls(self._origin) if source.scheme == "https" else self._origin,
            scope["query_string"].decode("latin-1"),
            incoming,
            source.client,
            source.host,
        )
        outgoing = _Outgoing(send, receive, request)
        error: Exception | None = None
        status = 0
        try:
            answer, error = await self._answer(request, incoming)
            status = answer.status
            if answer.reason:
                scope[REASON] = answer.reason
            await outgoing.send(
                answer, self._head(answer), incoming, self._threads, self._limits.answer
            )
        except Disconnect:
            status = 499
        except Exception as caught:
            error = caught
            raise
        finally:
            if self._tell is not None:
                seconds = time.perf_counter() - began
                self._tell(
                    ServedRequest(request, status, outgoing.sent, seconds, source.client, error)
                )

    async def _answer(
        self, request: Request, incoming: _Incoming
    ) -> tuple[Answer, Exception | None]:
        if self._at_hand is not None and not incoming.is_announced:
            answer = self._at_hand(request)
            if answer is not None:
                return answer, None
        if not request.path.startswith("/"):
            return Answer.text(400, "the request has no path"), None
        if incoming.announced > self._limits.body:
            return _too_large(self._limits), None
        pool = self._uploads if incoming.is_announced else self._threads
        within = None if incoming.is_announced else self._limits.answer
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(within) as deadline:
                return await loop.run_in_executor(pool, self._application, request), None
        except _Refused as refused:
            return refused.answer, None
        except Disconnect:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of one answer must not end the server
            if deadline.expired():
                return Answer.text(
                    503, "the server took too long to answer", {"retry-after": "2"}
                ), None
            return Answer.text(500, "the server failed to answer"), error

    def _head(self, answer: Answer) -> list[tuple[bytes, bytes]]:
        own = answer.headers
        headers = [
            *own.items(),
            *((name, value) for name, value in self._headers if name not in own),
        ]
        if answer.status != 304:
            headers.append(("content-length", str(answer.length)))
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


class _Refused(Exception):
    """Raised when the body of a request cannot be read."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class _Incoming:
    """The body of a request, read by a thread while it arrives: a `Body`."""

    def __init__(
        self,
        receive: _Receive,
        headers: Mapping[str, str],
        limits: ClientLimits,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        length = headers.get("content-length", "")
        self.announced = int(length) if length.isdecimal() else 0
        """Bytes that will come; 0: unknown."""
        self.is_announced = self.announced > 0 or "transfer-encoding" in headers
        self.is_awaited = "expect" in headers
        """Whether the client sends a body only after "100 Continue"."""
        self.is_over = not self.is_announced
        self.gone = False
        self._receive = receive
        self._limits = limits
        self._loop = loop
        self._rest = b""
        self._count = 0
        self._since = time.monotonic()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; called in a thread."""
        while not self._rest and not self.is_over:
            try:
                self._rest = asyncio.run_coroutine_threadsafe(self.next(), self._loop).result()
            except CancelledError:
                raise Disconnect from None
        if size < 0:
            size = len(self._rest)
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    async def next(self, patience: float | None = None) -> bytes:
        """Return the next bytes; called in the event loop."""
        self.is_awaited = False
        try:
            async with asyncio.timeout(patience or self._limits.patience):
                message = await self._receive()
        except TimeoutError:
            raise _Refused(_too_slow()) from None
        if message["type"] == "http.disconnect":
            self.gone = self.is_over = True
            raise Disconnect
        body: bytes = message.get("body", b"")
        self._count += len(body)
        self.is_over = not message.get("more_body", False)
        if self._count > self._limits.body:
            raise _Refused(_too_large(self._limits))
        taken = time.monotonic() - self._since
        if taken > self._limits.patience and self._count < taken * self._limits.slowest:
            raise _Refused(_too_slow())
        return body

    async def pass_over(self) -> None:
        """Read the rest of an ignored body, so that the client reads the answer."""
        if self.is_awaited:
            return
        with suppress(_Refused, Disconnect):
            while not self.is_over:
                await self.next(min(_LINGER, self._limits.patience))


class _Outgoing:
    """One answer, sent as fast as the client takes it."""

    def __init__(self, send: _Send, receive: _Receive, request: Request) -> None:
        self._send = send
        self._receive = receive
        self._request = request
        self.sent = 0
        """Bytes of the body so far."""

    async def send(
        self,
        answer: Answer,
        headers: list[tuple[bytes, bytes]],
        incoming: _Incoming,
        threads: ThreadPoolExecutor,
        within: float,
    ) -> None:
        """Send all of it.

        :raises Disconnect: the client has disconnected.
        :raises ConnectionError: the body is shorter than announced; the server cuts the connection.
        """
        if not incoming.is_over:
            headers.append((b"connection", b"close"))
        await self._send(
            {"type": "http.response.start", "status": answer.status, "headers": headers}
        )
        body = answer.body
        if self._request.method == "HEAD" or answer.status == 304:
            body = ()
        elif isinstance(body, tuple):
            if incoming.is_over:
                await self._piece(b"".join(body), is_last=True)
                return
            await self._piece(b"".join(body))
        else:
            await self._stream(iter(body), threads, within=within, is_watched=incoming.is_over)
            if self.sent != answer.length:
                raise ConnectionError(f"{self.sent} bytes of {answer.length}")
        await incoming.pass_over()
        await self._piece(b"", is_last=True)

    async def _stream(
        self,
        pieces: Iterator[bytes],
        threads: ThreadPoolExecutor,
        *,
        within: float,
        is_watched: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        gone = loop.create_task(self._gone()) if is_watched else None
        is_over = False
        try:
            while True:
                async with asyncio.timeout(within) as deadline:
                    piece = await loop.run_in_executor(threads, next, pieces, None)
                if piece is None:
                    is_over = True
                    break
                if piece:
                    await self._piece(piece)
                else:
                    await asyncio.sleep(_PAUSE)  # in which the thread is others'
                if gone is not None and gone.done():
                    raise Disconnect
        except TimeoutError:
            raise ConnectionError("the next bytes do not come") from None
        finally:
            if gone is not None:
                gone.cancel()
            # A generator that still runs, in an abandoned thread, cannot be closed.
            if not is_over and isinstance(pieces, Generator) and not deadline.expired():
                await loop.run_in_executor(threads, pieces.close)

    async def _gone(self) -> None:
        """Wait until the client disconnects."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _piece(self, piece: bytes, *, is_last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": not is_last})
        self.sent += len(piece)


def _with_tls(origin: str) -> str:
    """Return the origin of a server that a trusted server in front gives TLS."""
    return f"https:{origin.partition(':')[2]}"


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by lower-case name; several of one name are joined."""
    headers: dict[str, str] = {}
    for name, value in raw:
        text, key = value.decode("latin-1"), name.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _too_large(limits: ClientLimits) -> Answer:
    return Answer.text(413, f"the body of the request is larger than {limits.body} bytes")


def _too_slow() -> Answer:
    return Answer.text(
        408, "the body of the request did not arrive in time", {"connection": "close"}
    )
