"""A pseudo-terminal for progress bars."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fcntl import ioctl

_PIECES = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


@dataclass(frozen=True, slots=True)
class TerminalSession:
    """The exit code and the output of a program."""

    code: int
    out: str
    """Its standard output, which was a pipe."""
    shown: str
    """Everything it sent to the terminal, which was its standard error."""


def in_terminal(
    words: Sequence[str], environ: Mapping[str, str], *, width: int = 100
) -> TerminalSession:
    """Run a Python program whose standard error is a terminal."""
    controller, terminal = os.openpty()
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, width, 0, 0))
    variables = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "", **environ}
    with subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=variables,
    ) as process:
        os.close(terminal)
        shown = b""
        while True:
            try:
                piece = os.read(controller, 65536)
            except OSError:  # Linux says so when the other end is closed
                break
            if not piece:
                break
            shown += piece
        os.close(controller)
        assert process.stdout is not None
        out = process.stdout.read()
        code = process.wait(60)
    return TerminalSession(code, out.decode(), shown.decode())


def screen(shown: str) -> list[str]:
    """Return the lines that remain on a terminal."""
    lines, row, column = [""], 0, 0
    for arguments, command, control, text in _PIECES.findall(shown):
        if text:
            line = lines[row].ljust(column)
            lines[row] = line[:column] + text + line[column + len(text) :]
            column += len(text)
        elif control == "\r":
            column = 0
        elif control == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif command == "A":
            row = max(0, row - int(arguments or 1))
        elif command == "K":
            assert arguments == "2", "only whole lines are cleared"
            lines[row] = ""
        else:
            assert command in "mhl", f"unknown command {command}"
    return [line.rstrip() for line in lines if line.strip()]
