"""``python -m wheelfit_runtime`` says what it has to say, wherever that goes."""

from __future__ import annotations

import errno
import io
import os
import sys
import types

import pytest

from wheelfit_runtime import __main__ as command

GROUP = "wheelfit-test-of-the-command"


class Full(io.StringIO):
    """Be an output that takes no more."""

    def flush(self) -> None:
        """Fail as a disk does."""
        raise OSError(errno.ENOSPC, "No space left on device")


def test_strange_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """An output with few characters gets what it can show, and a terminal nothing to obey."""
    taken = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(taken, "ascii"))
    assert command.main(["explain", "sp\u00e4m\udcff", "two\nlines\x1b[31m"]) == 3
    assert taken.getvalue().split(b"\n")[:2] == [
        rb"sp\xe4m\udcff: no implementation is installed",
        rb"two\nlines\x1b[31m: no implementation is installed",
    ]


def test_each_group_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A group that is named twice is told of once."""
    assert command.main(["explain", GROUP, GROUP]) == 3
    assert capsys.readouterr().out.count(GROUP) == 1


def test_a_reader_that_went_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever reads the first line only has what was wanted; it is not an error."""
    here, there = os.pipe()
    os.close(here)
    with os.fdopen(there, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert command.main(["explain", GROUP]) == 3
    assert capsys.readouterr().err == ""


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be written is an error, in one line."""
    monkeypatch.setattr(sys, "stdout", Full())
    assert command.main(["explain", GROUP]) == 1
    assert capsys.readouterr().err == (
        "error: the output cannot be written: No space left on device\n"
    )


def test_closed_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody listens, the exit code still tells."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert [command.main(each) for each in (["explain", GROUP], ["--help"], ["no such"])] == [
        3,
        0,
        2,
    ]


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever interrupts it is not shown its inside."""

    def run(*_: object) -> int:
        raise KeyboardInterrupt

    module = types.ModuleType("interrupted")
    vars(module)["run"] = run
    monkeypatch.setitem(sys.modules, "interrupted", module)
    monkeypatch.setitem(command.SUBCOMMANDS, "wait", "interrupted")
    assert command.main(["wait"]) == 130
    assert capsys.readouterr().err == "error: interrupted from the keyboard\n"
