"""Query a vendor's libraries in a separate process (P-71).

Run as ``python -I -S library_child.py <questions> <argument> …``. The questions are a file of a
family with two functions: ``observe`` gets a `Conversation` and the arguments, and returns the
answer; ``is_lasting`` is whether it may be cached.

Prints the answer as one line of JSON to what was standard output when it started, and nothing else
goes there: drivers that print are sent to standard error. A driver may hang or crash; the last line
of standard error that starts with ``calling`` shows where.
"""

# Nothing is on the path of the script but the standard library.
from __future__ import annotations

import ctypes
import json
import os
import runpy
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NOT_LASTING = 3
"""Status with which the script ends where its answer may be another one soon."""


class Conversation:
    """The calls to libraries, with their outcomes.

    :param trace: called before every call.
    """

    def __init__(self, trace: Callable[[str], None] = lambda _: None) -> None:
        self.trace = trace
        self.calls: list[list[str]] = []
        """The calls tried with their outcomes, in order."""

    def note(self, what: str, outcome: object) -> None:
        """Add an outcome."""
        self.calls.append([what, str(outcome)])

    def load(self, candidates: Sequence[str]) -> Library | None:
        """Load the first candidate that can be loaded."""
        for name in candidates:
            self.trace(f"dlopen {name}")
            try:
                library = ctypes.CDLL(name)
            except OSError as error:
                self.note(name, error)
            else:
                self.note(name, "loaded")
                return Library(name, library, self)
        return None


class Library:
    """A loaded library whose functions return result codes, 0 for success."""

    MISSING = -1
    """The result code where the library has no such function."""

    def __init__(self, name: str, library: ctypes.CDLL, conversation: Conversation) -> None:
        self.name = name
        self.note = conversation.note
        self._library = library
        self._trace = conversation.trace

    def call(self, function: str, *arguments: Any) -> int:
        """Return the function's result code."""
        try:
            entry_point = getattr(self._library, function)
        except AttributeError:
            return self.MISSING
        self._trace(function)
        return int(entry_point(*arguments))

    def noted(self, function: str, *arguments: Any, words: Callable[[int], str] = str) -> int:
        """Call, note the result code, and return it."""
        code = self.call(function, *arguments)
        self.note(function, "no such function" if code == self.MISSING else words(code))
        return code

    def number(self, function: str) -> tuple[int, int | None]:
        """Return result code and number of a function that gives one number."""
        value = ctypes.c_int(0)
        code = self.noted(
            function,
            ctypes.byref(value),
            words=lambda code: f"error {code}" if code else str(value.value),
        )
        return code, None if code else value.value


def main(questions: str, arguments: Sequence[str]) -> None:
    """Answer on the private pipe, and leave without running the libraries' clean-up."""
    channel = os.dup(1)
    os.dup2(2, 1)  # what a driver prints goes to standard error (P-36)

    def trace(what: str) -> None:
        os.write(2, f"\ncalling {what}\n".encode("utf-8", "replace"))

    family = runpy.run_path(questions)
    report = family["observe"](Conversation(trace), arguments)
    line = json.dumps(report).encode() + b"\n"
    while line:
        line = line[os.write(channel, line) :]
    # Drivers have been seen to hang on the way out.
    os._exit(0 if family["is_lasting"](report) else NOT_LASTING)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
