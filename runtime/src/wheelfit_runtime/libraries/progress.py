"""Show the progress of operations longer than a second."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

PATIENCE = 1.0
"""Seconds before the first message."""
_INTERVALS = {True: 0.2, False: 10.0}
"""Seconds between messages about one operation, by whether the stream is a terminal."""
_MEGA = 1_000_000


class Progress:
    """A progress display.

    :param stream: the stream to write to; None: nothing is written.
    :param patience: seconds before the first message.
    """

    def __init__(self, stream: TextIO | None, patience: float = PATIENCE) -> None:
        self._stream = stream
        self._is_terminal = False
        self._start = time.monotonic()
        self._patience = patience
        self._last = ""
        self._next_time = 0.0
        try:
            self._is_terminal = bool(stream and stream.isatty())
        except ValueError:
            self._stream = None  # it is closed
        self._width = 0

    def report(self, operation: str, received: int | None = None, total: int | None = None) -> None:
        """Write the current operation, unless the last message is too recent.

        :param operation: as ``fetching NAME VERSION``.
        """
        now = time.monotonic()
        if self._stream is None or now - self._start < self._patience:
            return
        if operation == self._last and now < self._next_time:
            return
        self._last, self._next_time = operation, now + _INTERVALS[self._is_terminal]
        amount = ""
        if total:
            amount = f" ({(received or 0) / _MEGA:.0f} of {total / _MEGA:.0f} MB)"
        elif received:
            amount = f" ({received / _MEGA:.0f} MB)"
        self._write(f"wheelfit: {operation}{amount}")

    def wait(self, title: str) -> None:
        """Report that another process fetches the same libraries."""
        self.report(f"waiting for another process that fetches {title}")

    def _write(self, line: str) -> None:
        assert self._stream is not None  # noqa: S101 - for the type checker
        try:
            if self._is_terminal:
                self._stream.write(f"\r{line.ljust(self._width)}")
                self._width = len(line)
            else:
                self._stream.write(f"{line}\n")
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = None  # closed meanwhile

    @contextmanager
    def during(self, operation: str) -> Iterator[None]:
        """Repeat a message during an operation that writes none itself."""
        finished = threading.Event()

        def repeat() -> None:
            while not finished.wait(self._patience / 4):
                self.report(operation)

        if self._stream is None:
            yield
            return
        thread = threading.Thread(target=repeat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            finished.set()
            thread.join()

    def end(self) -> None:
        """End an unfinished line."""
        if self._width and self._stream is not None:
            with suppress(OSError, ValueError):
                self._stream.write("\n")
                self._stream.flush()
            self._width = 0
