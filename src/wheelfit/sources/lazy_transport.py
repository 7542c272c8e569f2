"""A transport that comes into being with the first request."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wheelfit.sources.transport import Response, Transport


class OnDemandTransport:
    """A transport that makes another one when it is first needed.

    :param make: makes it; what it raises, the first request raises.
    """

    def __init__(self, make: Callable[[], Transport]) -> None:
        self._make = make
        self._made: Transport | None = None
        self._lock = threading.Lock()

    def send(self, url: str, headers: Mapping[str, str]) -> Response:
        """Send one request, as the protocol says."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
        return self._made.send(url, headers)

    def cut(self) -> None:
        """Break off everything that is under way, if there was anything."""
        made = self._made  # no lock: whoever holds it may be waiting for what is cut
        if made is not None:
            made.cut()

    def close(self) -> None:
        """Close every connection, if there were any."""
        with self._lock:
            if self._made is not None:
                self._made.close()
