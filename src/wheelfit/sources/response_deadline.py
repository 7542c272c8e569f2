"""A response with a deadline for its whole body."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wheelfit.sources.transport import Interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.sources.transport import Response


class ResponseWithDeadline:
    """A `Response` whose body must arrive before a deadline.

    Otherwise a server that sends a byte now and then could block the reader forever.

    :param response: the response to wrap.
    :param timeout: seconds from now until the deadline.
    """

    def __init__(self, response: Response, timeout: float) -> None:
        self._response = response
        self._deadline = time.monotonic() + timeout
        self.status = response.status
        """The HTTP status."""
        self.headers = response.headers
        """The headers, by lower-case name."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the body in pieces."""
        for chunk in self._response.chunks():
            yield chunk
            if time.monotonic() > self._deadline:
                raise Interrupted("the answer takes too long", retry_chance="none")

    def close(self) -> None:
        """Release the connection."""
        self._response.close()

    def cancel(self) -> None:
        """Cancel the response, from any thread."""
        self._response.cancel()
