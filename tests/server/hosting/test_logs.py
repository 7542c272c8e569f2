"""Lines of the log: one per event."""

from __future__ import annotations

import errno
import io
import json
import logging
from typing import Literal

import pytest
from programs import until

from wheelfit.server.hosting.logs import Log, library_messages, traceback_of


@pytest.mark.parametrize("log_format", ["json", "plain"])
def test_control_characters(log_format: Literal["json", "plain"]) -> None:
    """Line breaks, quotes and control characters of clients stay inside their field."""
    stream = io.StringIO()
    log = Log(stream, log_format)
    log("request", path="/a\r\nevent=upload", agent='x" y\u2028z\x1b[2J', status=200, none=None)
    log("stopped")
    log.close()
    first, second = stream.getvalue().rstrip("\n").split("\n")
    assert "stopped" in second
    assert "\r" not in first
    assert "\x1b" not in first
    assert "none" not in first
    if log_format == "json":
        assert json.loads(first)["path"] == "/a\r\nevent=upload"
    else:
        assert r'path="/a\r\nevent=upload"' in first


@pytest.mark.parametrize("log_format", ["json", "plain"])
def test_passwords_in_urls(log_format: Literal["json", "plain"]) -> None:
    """Passwords in URLs are removed from what libraries log."""
    stream = io.StringIO()
    log = Log(stream, log_format)
    with library_messages(log):
        try:
            int("https://me:hunter2@a.example/")
        except ValueError:
            logging.getLogger("library").exception("no answer of https://me:hunter2@a.example/")
    log.close()
    assert "a.example" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


def test_passwords_in_cut_tracebacks() -> None:
    """Passwords are removed from a long traceback before it is cut."""
    for spaces in range(1900, 2010, 5):
        error = ValueError(f"https://me:hunter2-hunter2@a.example/{' ' * spaces}")
        assert "hunter2" not in traceback_of(error)


def test_long_texts_are_cut() -> None:
    """A path of 30 kB does not fill the disk."""
    stream = io.StringIO()
    log = Log(stream, "json")
    log("request", path="/" * 30_000)
    log.close()
    assert len(stream.getvalue()) < 3000


def test_mismatched_arguments() -> None:
    """A log call with wrong arguments is logged as it is, without an exception."""
    stream = io.StringIO()
    log = Log(stream, "json")
    others = set(logging.getLogger().handlers)  # those of pytest raise such errors
    with library_messages(log):
        (handler,) = set(logging.getLogger().handlers) - others
        handler.handle(
            logging.LogRecord("library", logging.ERROR, "", 1, "%d files", ("no",), None)
        )
    log.close()
    line = json.loads(stream.getvalue())
    assert (line["event"], line["logger"], line["message"]) == ("library", "library", "%d files")


class FullDisk(io.StringIO):
    """A stream on a disk that is full for a while."""

    is_full = True

    def write(self, text: str, /) -> int:
        """Write a text, or fail."""
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


def test_full_disk() -> None:
    """The log goes on once the disk has room again, with the number of lost lines."""
    stream = FullDisk()
    log = Log(stream, "json")
    log("request", path="/lost")
    until(lambda: log._lost == 1)
    stream.is_full = False
    log("request", path="/kept")
    log.close()
    kept, lost = map(json.loads, stream.getvalue().splitlines())
    assert kept["path"] == "/kept"
    assert (lost["event"], lost["count"]) == ("lines-lost", 1)
