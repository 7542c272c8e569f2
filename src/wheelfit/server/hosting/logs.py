"""The log of events, one line each: as JSON, or as plain text for people.

Credentials are removed from URLs in it (messages of libraries, tracebacks), and line ends in texts
are escaped.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections import deque
from contextlib import contextmanager
from datetime import UTC, datetime
from traceback import format_exception
from typing import TYPE_CHECKING

from wheelfit.sources.urls import redact
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Literal, TextIO


_MAX_QUEUED = 10_000
"""Lines that may wait to be written; beyond it the oldest are dropped, and counted."""
_UNSAFE = pattern(r"[\x00-\x20\x7f-\x9f\u2028\u2029\"=]")
_MAX_TEXT_LENGTH = 2000


class Log:
    """A log of events, written by a thread of its own, so that no request waits for a disk.

    :param stream: None: standard error is closed, and nothing is written.
    """

    def __init__(self, stream: TextIO | None, log_format: Literal["json", "plain"]) -> None:
        self._stream = stream
        self._write = json_line if log_format == "json" else _plain_line
        self._queue: deque[str] = deque(maxlen=_MAX_QUEUED)
        self._lost = 0
        self._is_closed = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def __call__(self, event: str, **fields: str | float | None) -> None:
        """Log an event; fields that are None are left out."""
        event_fields = {name: value for name, value in fields.items() if value is not None}
        if len(self._queue) == _MAX_QUEUED:
            self._lost += 1
        self._queue.append(self._write(datetime.now(UTC), event, event_fields))
        self._wake.set()

    def close(self) -> None:
        """Write the remaining events."""
        self._is_closed = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while self._stream is not None:
            self._wake.wait()
            self._wake.clear()
            lines = []
            while self._queue:
                lines.append(self._queue.popleft())
            lost_count = self._lost + len(lines)
            if self._lost:
                lines.append(self._write(datetime.now(UTC), "lines-lost", {"count": self._lost}))
                self._lost = 0
            if lines:
                try:
                    self._stream.write("\n".join(lines) + "\n")
                    self._stream.flush()
                except ValueError:
                    return  # it is closed
                except OSError:  # a full disk may have room again later
                    self._lost += lost_count
            if self._is_closed and not self._queue:
                return


def choose_log_format(log_format: str, stream: TextIO | None) -> Literal["json", "plain"]:
    """Return the format of a log: ``auto`` is plain text on a terminal, and JSON elsewhere."""
    if log_format == "auto":
        log_format = "plain" if stream is not None and stream.isatty() else "json"
    return "json" if log_format == "json" else "plain"


@contextmanager
def library_messages(log: Log) -> Iterator[None]:
    """Log messages and warnings of libraries, and uncaught errors, as events.

    Standard error has no other lines then. Messages below warnings are left out, as by default in
    Python.
    """
    root = logging.getLogger()
    handler = _LogHandler(log)
    thread_hook, unraisable_hook = threading.excepthook, sys.unraisablehook
    root.addHandler(handler)
    logging.captureWarnings(capture=True)
    threading.excepthook = lambda event: _uncaught(
        log, event.exc_value, getattr(event.thread, "name", "")
    )
    sys.unraisablehook = lambda event: _uncaught(log, event.exc_value, repr(event.object))
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = thread_hook, unraisable_hook
        logging.captureWarnings(capture=False)
        root.removeHandler(handler)


class _LogHandler(logging.Handler):
    """A handler that turns log records of libraries into events."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - a wrong message must not make its library fail
            message = str(record.msg)
        self._log(
            "library",
            level=record.levelname.lower(),
            logger=record.name,
            message=message.rstrip(),
            traceback=None if error is None else traceback_of(error),
        )


def _uncaught(log: Log, error: BaseException | None, where: str) -> None:
    if error is not None:
        log("uncaught", where=where, error=repr(error), traceback=traceback_of(error))


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an error, without its beginning if it is long."""
    # Redacted before it is cut, since a cut URL may begin with its password.
    return redact("".join(format_exception(error)).rstrip())[-_MAX_TEXT_LENGTH:]


def json_line(time: datetime, event: str, fields: Mapping[str, str | float]) -> str:
    """Return an event as one line of JSON."""
    event_fields = {"time": time.isoformat(timespec="milliseconds"), "event": event}
    return json.dumps(event_fields | {name: _shortened(value) for name, value in fields.items()})


def _plain_line(time: datetime, event: str, fields: Mapping[str, str | float]) -> str:
    parts = [f"{name}={_quoted(_shortened(value))}" for name, value in fields.items()]
    return " ".join([time.strftime("%H:%M:%S"), event, *parts])


def _shortened(value: str | float) -> str | float:
    return redact(value)[:_MAX_TEXT_LENGTH] if isinstance(value, str) else value


def _quoted(value: str | float) -> str:
    if not isinstance(value, str):
        return f"{value:.6g}"
    return json.dumps(value) if not value or _UNSAFE.search(value) else value
