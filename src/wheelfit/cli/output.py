"""What a command says: lines for people, or one JSON object for machines.

Results go to standard output; notes, warnings, progress and errors to standard error, so that a
pipe carries results only. Under ``--json`` standard output carries exactly one object, errors
included.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit.errors import WheelfitError

__all__ = ["Output"]


def __dir__() -> list[str]:
    return __all__


Style = Literal["plain", "good", "bad", "warning", "dim", "strong"]

_CODES: dict[Style, str] = {
    "plain": "",
    "good": "32",
    "bad": "31",
    "warning": "33",
    "dim": "2",
    "strong": "1",
}


@dataclass(frozen=True, slots=True)
class Output:
    """Say things to people and machines."""

    json: bool = False
    """Whether results are one JSON object."""
    verbosity: int = 0
    """-1: results and errors only; 0: normal; 1: everything worth knowing."""
    colour: bool = False
    """Whether standard output shows colour."""
    error_colour: bool = False
    """Whether standard error shows colour."""
    animate: bool = False
    """Whether standard error is a terminal on which progress bars may be drawn."""

    @classmethod
    def from_words(cls, words: Sequence[str], environ: Mapping[str, str]) -> Output:
        """Read how to speak from the arguments and the environment.

        Reads the raw words, because an error in the arguments must be rendered as well.

        :param words: the arguments of the process.
        :param environ: the environment; ``NO_COLOR``, ``FORCE_COLOR``, ``TERM`` and ``CI`` count.
        """
        as_json = "--json" in words
        quiet = any(word in ("-q", "--quiet") for word in words)
        verbose = any(word in ("-v", "--verbose") for word in words)
        wanted = _colour_wish(words, environ)
        terminal = sys.stderr.isatty() and environ.get("TERM") != "dumb"
        return cls(
            json=as_json,
            verbosity=-1 if quiet else int(verbose),
            colour=not as_json
            and (
                sys.stdout.isatty() and environ.get("TERM") != "dumb" if wanted is None else wanted
            ),
            error_colour=terminal if wanted is None else wanted,
            animate=terminal
            and not quiet
            and not environ.get("CI")
            and "--no-progress" not in words,
        )

    def result(self, text: str = "", style: Style = "plain") -> None:
        """Print one line of the result; nothing under ``--json``."""
        if not self.json:
            sys.stdout.write(self.styled(text, style) + "\n")

    def result_json(self, value: object) -> None:
        """Print the result as one JSON object; only under ``--json``."""
        if self.json:
            json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
            sys.stdout.write("\n")

    def say(self, text: str, style: Style = "plain") -> None:
        """Tell what is going on, unless ``--quiet``."""
        if self.verbosity >= 0:
            self._aside(text, style)

    def detail(self, text: str) -> None:
        """Tell what is worth knowing only with ``--verbose``."""
        if self.verbosity > 0:
            self._aside(text, "dim")

    def warn(self, text: str) -> None:
        """Warn, whatever the verbosity."""
        self._aside(f"warning: {text}", "warning")

    def error(self, error: WheelfitError) -> None:
        """Render an error: what happened, where, what else, what to do."""
        if self.json:
            self.result_json({"error": error.parts()})
            return
        self._aside(f"error: {error.message} [{error.reference}]", "bad")
        for name, part in (("where", error.where), ("note", error.note), ("hint", error.hint)):
            if part:
                first, *rest = part.splitlines()
                indented = "".join(f"\n         {line}" for line in rest)
                self._aside(f"  {name}: {first}{indented}")

    def styled(self, text: str, style: Style) -> str:
        """Return ``text`` in a style, when standard output shows colour."""
        return _paint(text, style) if self.colour else text

    def _aside(self, text: str, style: Style = "plain") -> None:
        stream: TextIO = sys.stderr
        stream.write((_paint(text, style) if self.error_colour else text) + "\n")


def _paint(text: str, style: Style) -> str:
    code = _CODES[style]
    return f"\x1b[{code}m{text}\x1b[0m" if code and text else text


def _colour_wish(words: Sequence[str], environ: Mapping[str, str]) -> bool | None:
    """Return what the user asked for; None when a terminal decides."""
    for index, word in enumerate(words):
        value = word.removeprefix("--color=") if word.startswith("--color=") else None
        if word == "--color" and index + 1 < len(words):
            value = words[index + 1]
        if value in ("always", "never"):
            return value == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return None
