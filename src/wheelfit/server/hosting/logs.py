"""The log of events, one line each: JSON for machines, or words for people.

No credential is passed to it, and no text can begin a line of its own.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from typing import Literal, TextIO


_MOST = 10_000
"""Lines that wait to be written; of more the oldest go, and are counted."""
_UNSAFE = pattern(r"[\x00-\x20\x7f-\x9f\u2028\u2029\"=]")
_LONGEST = 2000


class Log:
    """A log of events, written by a thread of its own, so that no request waits for a disk."""

    def __init__(self, stream: TextIO, form: Literal["json", "plain"]) -> None:
        self._stream = stream
        self._write = _in_json if form == "json" else _in_words
        self._waiting: deque[str] = deque(maxlen=_MOST)
        self._lost = 0
        self._is_over = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def __call__(self, event: str, **fields: str | float | None) -> None:
        """Log an event; fields that are None are left out."""
        known = {name: value for name, value in fields.items() if value is not None}
        if len(self._waiting) == _MOST:
            self._lost += 1
        self._waiting.append(self._write(datetime.now(UTC), event, known))
        self._wake.set()

    def close(self) -> None:
        """Write what is left."""
        self._is_over = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            lines = []
            while self._waiting:
                lines.append(self._waiting.popleft())
            if self._lost:
                lines.append(self._write(datetime.now(UTC), "lines-lost", {"count": self._lost}))
                self._lost = 0
            if lines:
                try:
                    self._stream.write("\n".join(lines) + "\n")
                    self._stream.flush()
                except (OSError, ValueError):
                    return  # nobody can be told
            if self._is_over and not self._waiting:
                return


def _in_json(time: datetime, event: str, fields: dict[str, str | float]) -> str:
    known = {"time": time.isoformat(timespec="milliseconds"), "event": event}
    return json.dumps(known | {name: _short(value) for name, value in fields.items()})


def _in_words(time: datetime, event: str, fields: dict[str, str | float]) -> str:
    parts = [f"{name}={_word(_short(value))}" for name, value in fields.items()]
    return " ".join([time.strftime("%H:%M:%S"), event, *parts])


def _short(value: str | float) -> str | float:
    return value[:_LONGEST] if isinstance(value, str) else value


def _word(value: str | float) -> str:
    if not isinstance(value, str):
        return f"{value:.6g}"
    return json.dumps(value) if not value or _UNSAFE.search(value) else value
