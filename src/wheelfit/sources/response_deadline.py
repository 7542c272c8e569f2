"""A response that has to be whole after a while, however slowly it comes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wheelfit.sources.transport import Interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.sources.transport import Response


class ResponseWithDeadline:
    """A response whose body ends after a while: a `Response`.

    A server that sends a byte now and then would otherwise block its reader for ever.

    :param response: the response to wrap.
    :param patience: seconds from now in which all of it has to be there.
    """

    def __init__(self, response: Response, patience: float) -> None:
        self._response = response
        self._until = time.monotonic() + patience
        self.status = response.status
        """The HTTP status."""
        self.headers = response.headers
        """By lower-case name."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the body in pieces."""
        for chunk in self._response.chunks():
            yield chunk
            if time.monotonic() > self._until:
                raise Interrupted("the answer takes too long", retry_chance="none")

    def close(self) -> None:
        """Release the connection."""
        self._response.close()

    def cut(self) -> None:
        """Break it off, from any thread."""
        self._response.cut()
