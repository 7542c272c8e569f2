"""Query a vendor's libraries in a separate process (P-71).

Run as ``python -I -S library_child.py <questions> <argument> …``. The questions are a file of a
family with two functions: ``observe(conversation, arguments)`` returns the answer, and
``is_lasting(answer)`` whether it may be cached.

The answer is one line of JSON on standard output. The output of drivers goes to standard error. A
driver may hang or crash; the last line of standard error that starts with ``calling`` shows where.
"""

# Only the standard library is on the path of the script.
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
"""The exit status if the answer may soon change."""


class Conversation:
    """The calls to libraries, with their outcomes.

    :param trace: called before every call.
    """

    def __init__(self, trace: Callable[[str], None] = lambda _: None) -> None:
        self.trace = trace
        self.calls: list[list[str]] = []
        """The calls tried with their outcomes, in order."""

    def log(self, call: str, outcome: object) -> None:
        """Add a call with its outcome."""
        self.calls.append([call, str(outcome)])

    def load(self, candidates: Sequence[str]) -> Library | None:
        """Load the first candidate that can be loaded."""
        for name in candidates:
            self.trace(f"dlopen {name}")
            try:
                library = ctypes.CDLL(name)
            except OSError as error:
                self.log(name, error)
            else:
                self.log(name, "loaded")
                return Library(name, library, self)
        return None


class Library:
    """A loaded library whose functions return result codes, 0 for success."""

    MISSING = -1
    """The result code where the library has no such function."""

    def __init__(self, name: str, library: ctypes.CDLL, conversation: Conversation) -> None:
        self.name = name
        self.log = conversation.log
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

    def call_and_log(
        self, function: str, *arguments: Any, describe: Callable[[int], str] = str
    ) -> int:
        """Call a function, log its result code, and return it."""
        code = self.call(function, *arguments)
        self.log(function, "no such function" if code == self.MISSING else describe(code))
        return code

    def call_for_number(self, function: str) -> tuple[int, int | None]:
        """Call a function that returns a number; return its result code and the number, if any."""
        value = ctypes.c_int(0)
        code = self.call_and_log(
            function,
            ctypes.byref(value),
            describe=lambda code: f"error {code}" if code else str(value.value),
        )
        return code, None if code else value.value


def main(questions_file: str, arguments: Sequence[str]) -> None:
    """Write the answer, and exit without running the libraries' clean-up."""
    answer_pipe = os.dup(1)
    os.dup2(2, 1)  # what a driver prints goes to standard error (P-36)

    def trace(call: str) -> None:
        os.write(2, f"\ncalling {call}\n".encode("utf-8", "replace"))

    questions = runpy.run_path(questions_file)
    report = questions["observe"](Conversation(trace), arguments)
    line = json.dumps(report).encode() + b"\n"
    while line:
        line = line[os.write(answer_pipe, line) :]
    # Some drivers hang in their clean-up.
    os._exit(0 if questions["is_lasting"](report) else NOT_LASTING)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
