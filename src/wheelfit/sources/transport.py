"""The interface to the network: one request, one response.

Retries, redirects and authorization are up to `wheelfit.sources.client`. A test uses its own
transport, which gets each request.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


RetryChance: TypeAlias = Literal["none", "little", "good"]
"""The chance that a repeated request succeeds."""


class Interrupted(Exception):
    """Raised when no response came, or its body broke off.

    :param reason: a clause for messages, without any URL or credentials.
    :param retry_chance: ``none`` for a certificate that is not trusted, ``little`` for a host that
        does not exist or refuses, ``good`` for an interrupted connection.
    :param hint: advice for the user; None if there is none.
    """

    def __init__(
        self, reason: str, *, retry_chance: RetryChance = "good", hint: str | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_chance = retry_chance
        self.hint = hint
        self.url: str | None = None
        """The URL that failed, if it is not the requested one, as after a redirect."""


class Response(Protocol):
    """A response: its head at once, its body in pieces.

    The caller closes it, read or unread.
    """

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name; repeated ones joined by a comma."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as it was sent, content encoding untouched.

        :raises Interrupted: it broke off before the announced end.
        """

    def close(self) -> None:
        """Return the connection to the pool, or close it if the body was not read."""

    def cancel(self) -> None:
        """Cancel the body from another thread than the reading one.

        The reading thread, which may be waiting for a silent server, continues at once.
        """


class Transport(Protocol):
    """A sender of GET requests, for any number of threads."""

    def send(self, url: str, headers: Mapping[str, str]) -> Response:
        """Send one request, without redirects and retries.

        :param url: ``http:`` or ``https:``, without credentials and fragment.
        :raises Interrupted: no response came.
        """

    def cancel(self) -> None:
        """Cancel running requests, from any thread, and send nothing more."""

    def close(self) -> None:
        """Close every connection."""


class OnDemandTransport:
    """A transport that creates another one for the first request.

    :param make: creates it; the first request raises its errors.
    """

    def __init__(self, make: Callable[[], Transport]) -> None:
        self._make = make
        self._transport: Transport | None = None
        self._lock = threading.Lock()

    def send(self, url: str, headers: Mapping[str, str]) -> Response:
        """Send one request; see `Transport`."""
        with self._lock:
            if self._transport is None:
                self._transport = self._make()
        return self._transport.send(url, headers)

    def cancel(self) -> None:
        """Cancel running requests, if there are any."""
        transport = self._transport  # no lock, as its owner may wait for the response
        if transport is not None:
            transport.cancel()

    def close(self) -> None:
        """Close every connection, if there were any."""
        with self._lock:
            if self._transport is not None:
                self._transport.close()
