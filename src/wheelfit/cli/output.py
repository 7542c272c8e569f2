"""The output of a command: lines for people, or one JSON object for programs.

Results go to standard output; notes, warnings, progress and errors to standard error, so that a
pipe carries results only. Under ``--json`` standard output carries exactly one object, errors
included.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, Self, TextIO, cast

from wheelfit.operations.context import Reporter
from wheelfit_runtime.errors import FileProblem, WheelfitError, os_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from wheelfit.cli.progress import Bar, Bars

Style = Literal["plain", "good", "bad", "warning", "dim", "strong"]

_CODES: dict[Style, str] = {
    "plain": "",
    "good": "32",
    "bad": "31",
    "warning": "33",
    "dim": "2",
    "strong": "1",
}


class Output(Reporter):
    """The output of a command: results, remarks, errors and progress.

    Results go to standard output, also the changes of `report`. Everything else goes to standard
    error: remarks, and among them notes, which are dimmed, and warnings.

    :param json: whether results are one JSON object.
    :param verbosity: -1: errors only, and the results of the command; 0: normal; 1: all details.
    :param colour: whether standard output shows colour.
    :param error_colour: whether standard error shows colour.
    :param animate: whether standard error is a terminal on which progress bars may be drawn.
    :param width: columns of standard output; None where it is not a terminal and ``COLUMNS`` names
        no width, so that lines are never broken.
    :param error_width: columns of standard error; None as for ``width``.
    """

    def __init__(
        self,
        *,
        json: bool = False,
        verbosity: int = 0,
        colour: bool = False,
        error_colour: bool = False,
        animate: bool = False,
        width: int | None = None,
        error_width: int | None = None,
    ) -> None:
        self.json = json
        self.verbosity = verbosity
        self.colour = colour
        self.error_colour = error_colour
        self.animate = animate
        self.width = width
        self.error_width = error_width

    def with_options(self, **options: object) -> Self:
        """Return this output with other options; the names are those of its parameters."""
        return type(self)(**{**vars(self), **options})

    @classmethod
    def of(
        cls,
        *,
        json: bool = False,
        quiet: bool = False,
        verbose: bool = False,
        colour: str = "auto",
        progress: bool = True,
        environ: Mapping[str, str],
    ) -> Output:
        """Return the output for the options and the terminal.

        :param quiet: errors only; overrides ``verbose``.
        :param colour: ``always``, ``never``, or anything else: decided by the environment and the
            terminal.
        :param progress: whether bars may be drawn.
        :param environ: the environment; ``NO_COLOR``, ``FORCE_COLOR``, ``TERM`` and ``CI`` are
            respected.
        """
        choice = _colour_choice(colour, environ)
        is_dumb = environ.get("TERM") == "dumb"  # it has neither colours nor bars
        stdout_is_capable = not is_dumb and _is_terminal(sys.stdout)
        stderr_is_capable = not is_dumb and _is_terminal(sys.stderr)
        return cls(
            json=json,
            verbosity=-1 if quiet else int(verbose),
            colour=not json and (stdout_is_capable if choice is None else choice),
            error_colour=stderr_is_capable if choice is None else choice,
            animate=stderr_is_capable and progress and not quiet and not environ.get("CI"),
            width=_width(sys.stdout),
            error_width=_width(sys.stderr),
        )

    def result(self, text: str = "", style: Style = "plain") -> None:
        """Print one line of the command's result, unchanged; nothing under ``--json``."""
        if not self.json and sys.stdout is not None:
            deliver(sys.stdout, _encodable(sys.stdout, self.styled(text, style)) + "\n")

    def paragraph(self, text: str, style: Style = "plain", hang: int = 2) -> None:
        """Print a sentence of the command's result, folded to the width of the terminal.

        :param hang: the additional indent of further lines.
        """
        self.result(_fold(text, self.width, hang), style)

    def report(self, text: str, style: Style = "plain") -> None:
        """Print one line about a change, done or planned; nothing under ``--quiet``."""
        if self.verbosity >= 0:
            self.paragraph(text, style)

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table of the command's result."""
        from wheelfit.operations.text import columns

        for line in columns(head, rows, self.width):
            self.result(line)

    def result_json(self, value: object) -> None:
        """Print the result as one JSON object; only under ``--json``."""
        if not self.json or sys.stdout is None:
            return
        import json

        text = json.dumps(value, indent=2, ensure_ascii=False)
        if not _is_valid_unicode(text) or text != _encodable(sys.stdout, text):
            text = json.dumps(value, indent=2)
        deliver(sys.stdout, text + "\n")

    def flush(self) -> None:
        """Flush the results, for a command that continues to run."""
        if sys.stdout is not None:
            deliver(sys.stdout)

    def remark(self, text: str, style: Style = "plain") -> None:
        """Print a remark about the progress of the work, unless ``--quiet``."""
        if self.verbosity >= 0:
            self._print_remark(text, style)

    def note(self, text: str) -> None:
        """Print a dimmed remark, unless ``--quiet``."""
        self.remark(text, "dim")

    def summary(self, text: str) -> None:
        """Print the result of a step, unless ``--quiet`` or ``--json``."""
        if not self.json:
            self.remark(text)

    def confirm(self, question: str) -> bool:
        """Prompt the user, if there is a terminal and no ``--json`` or ``--quiet`` was given."""
        if self.json or self.verbosity < 0 or sys.stderr is None:
            return False
        if not _is_terminal(sys.stdin) or not _is_terminal(sys.stderr):
            return False
        self._print_remark(f"{question} [y/N]")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    @property
    def wants_details(self) -> bool:
        """Whether ``--verbose`` was given."""
        return self.verbosity > 0

    def transfers(self, cancel: Callable[[], None] = lambda: None) -> Bars:
        """Return progress bars, as for `wheelfit.operations.context.Reporter.transfers`."""
        from wheelfit.cli.progress import Bars

        return Bars(self, cancel)

    def work(self, title: str) -> Bar:
        """Return a progress bar, as for `wheelfit.operations.context.Reporter.work`."""
        from wheelfit.cli.progress import Bar

        return Bar(self, title)

    @contextmanager
    def steps(self, title: str) -> Iterator[Callable[[str], None]]:
        """Show each step of work: on a terminal while it lasts, elsewhere with ``--verbose``."""
        if not self.animate:
            yield self.detail
            return
        from wheelfit.cli.progress import start_bars

        bars = start_bars(self)
        task = bars.add_task(title, total=None)
        try:
            yield lambda step: bars.update(task, description=step)
        finally:
            bars.stop()

    def detail(self, text: str) -> None:
        """Print a remark with ``--verbose`` only."""
        if self.verbosity > 0:
            self._print_remark(text, "dim")

    def warn(self, text: str) -> None:
        """Warn, unless ``--quiet``."""
        self.remark(f"warning: {text}", "warning")

    def error(self, error: WheelfitError) -> None:
        """Render an error: message, place, notes and hint."""
        parts = self.parts_of(error)
        if self.json and not isinstance(error, _OutputFailure):
            # If standard output fails, the error is printed below, to standard error.
            with suppress(_OutputFailure):
                self.result_json({"error": parts})
                if sys.stdout is not None:
                    deliver(sys.stdout)  # errors after this point would go unnoticed
                return
        self._print_remark(f"error: {parts['message']} [{error.reference}]", "bad")
        for name in ("where", "note", "hint"):
            if parts[name]:
                label = f"  {name}: "
                first, *others = parts[name].splitlines()
                self._print_remark(f"{label}{first}", hang=len(label) - len("  "))
                for line in others:
                    self._print_remark(f"{' ' * len(label)}{line}", hang=0)

    def parts_of(self, error: WheelfitError) -> dict[str, Any]:
        """Return the parts of an error as plain data, without credentials in URLs."""
        return cast("dict[str, Any]", _without_secrets(error.parts()))

    def traceback(self, error: BaseException) -> None:
        """Show the traceback of an error, for developers of wheelfit."""
        from traceback import format_exception

        lines = "".join(format_exception(error)).rstrip()
        self._print_remark(str(_without_secrets(lines)), "dim")

    def styled(self, text: str, style: Style) -> str:
        """Return ``text`` in a style, when standard output shows colour."""
        visible = text.translate(_ESCAPES)
        return _paint(visible, style) if self.colour else visible

    def _print_remark(self, text: str, style: Style = "plain", hang: int = 2) -> None:
        if sys.stderr is None:  # closed by the parent process
            return
        visible = _fold(text.translate(_ESCAPES), self.error_width, hang)
        line = (_paint(visible, style) if self.error_colour else visible) + "\n"
        # A closed standard error does not stop the work.
        with suppress(OSError):
            sys.stderr.write(_encodable(sys.stderr, line))


def deliver(stream: TextIO, text: str = "") -> None:
    """Write text to standard output; without text, flush it.

    A reader that went away (``wheelfit list | head``) is no error: only results go there, so the
    work is done.

    :raises FileProblem: the disk is full, or writing fails otherwise.
    """
    try:
        if text:
            stream.write(text)
        else:
            stream.flush()
    except OSError as error:
        # Send the rest to the null device; Python would try again at its end.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError):
            raise _OutputFailure(f"the output cannot be written: {os_reason(error)}") from None


class _OutputFailure(FileProblem):
    """Raised when standard output cannot be written."""


def _encodable(stream: TextIO, text: str) -> str:
    """Return a text with escapes for the characters that the encoding of a stream lacks."""
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding, stream.errors or "strict")
    except UnicodeEncodeError:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


def _is_valid_unicode(text: str) -> bool:
    """Return whether a text is valid Unicode: a file name may have undecodable bytes.

    A stream may accept such bytes, but JSON with them is invalid.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _width(stream: TextIO | None) -> int | None:
    """Return the columns of a stream; None if it is no terminal and ``COLUMNS`` names no width."""
    from wheelfit.cli.terminal import terminal_width, variable_width

    return terminal_width(stream) if _is_terminal(stream) else variable_width()


def _fold(text: str, width: int | None, hang: int) -> str:
    if width is None:
        return text
    from wheelfit.cli.terminal import fold

    return fold(text, width, hang)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _without_secrets(value: object) -> object:
    """Return text, or plain data, without the credentials of URLs.

    Our messages have none; this is for text from other programs, and from users, who may have typed
    some into the wrong place.
    """
    from wheelfit.sources.urls import redact

    match value:
        case str():
            source, _, rest = value.partition("\n")
            if rest.strip() != "^":
                return redact(value)
            # The text before the marked position may get shorter, so the caret moves with it.
            text_before = redact(source[: rest.index("^")])
            return f"{redact(source)}\n{' ' * len(text_before)}^"
        case dict():
            return {key: _without_secrets(element) for key, element in value.items()}
        case list():
            return [_without_secrets(element) for element in value]
        case _:
            return value


def _paint(text: str, style: Style) -> str:
    code = _CODES[style]
    return f"\x1b[{code}m{text}\x1b[0m" if code and text else text


# Text from an index or a wheel must not control the terminal.
_ESCAPES = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)
}


def _colour_choice(option: str, environ: Mapping[str, str]) -> bool | None:
    """Return the user's choice of colour; None when a terminal decides."""
    if option in ("always", "never"):
        return option == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return None
