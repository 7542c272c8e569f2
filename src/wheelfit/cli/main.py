"""Dispatch to one command, and turn errors into words and exit codes.

Only the chosen command is imported, and it imports its own needs when it runs: start-up is a
feature.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

from wheelfit import __version__
from wheelfit.errors import UsageError, WheelfitError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

    from wheelfit.cli.output import Output

__all__ = ["COMMANDS", "Command", "main", "make_parser"]


def __dir__() -> list[str]:
    return __all__


COMMANDS: Mapping[str, str] = {
    "install": "install packages, each in the build that fits",
    "uninstall": "remove packages",
    "list": "show what is installed, with variant labels",
    "explain": "show which wheel would be chosen, and why not the others",
    "probe": "show what this machine supports, and how that was found",
    "demo": "see it all work in a throw-away environment",
}
"""The commands with one line each; ``wheelfit.cli.commands.NAME`` implements NAME."""

INTERNAL_ERROR = 70
INTERRUPTED = 130


class Command(Protocol):
    """What a module in ``wheelfit.cli.commands`` offers."""

    def configure(self, parser: ArgumentParser) -> None:
        """Add the arguments of the command."""

    def run(self, arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
        """Do the work and return the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code (docs/reference/exit-codes.md).

    :param argv: the arguments without the program's name; default: those of the process.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    # Known before parsing, because a parsing error must be rendered the way that was asked for.
    debug = "--debug" in words
    try:
        return _dispatch(words)
    except WheelfitError as error:
        if debug:
            raise
        _output(words).error(error)
        return error.exit_code
    except KeyboardInterrupt:
        if debug:
            raise
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader went away (``wheelfit list | head``); that is no error, but Python would
        # complain again when it flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            raise
        _output(words).error(_internal(error))
        return INTERNAL_ERROR


def _dispatch(words: list[str]) -> int:
    name = words[0] if words else "--help"
    if name in ("-h", "--help", "help"):
        if len(words) > 1 and words[1] in COMMANDS:
            return _dispatch([words[1], "--help"])
        sys.stdout.write(_overview())
        return 0
    if name in ("-V", "--version"):
        sys.stdout.write(f"wheelfit {__version__}\n")
        return 0
    if name not in COMMANDS:
        raise UsageError(
            f"there is no command {name!r}" if not name.startswith("-") else f"no option {name!r}",
            hint=_suggestion(name),
        )
    command = cast(Command, import_module(f"wheelfit.cli.commands.{name}"))
    parser = make_parser(name, command)
    arguments = parser.parse_args(words[1:])
    return command.run(arguments, _output(words), os.environ)


def make_parser(name: str, command: Command) -> ArgumentParser:
    """Return the parser of one command.

    :param name: name of the command.
    :param command: its module.
    """
    from argparse import ArgumentParser, RawDescriptionHelpFormatter

    from wheelfit.cli.options import add_output

    class Parser(ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise UsageError(message, hint=f"wheelfit {name} --help lists the options")

    parser = Parser(
        prog=f"wheelfit {name}",
        description=(getattr(command, "__doc__", None) or "").strip(),
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.configure(parser)
    add_output(parser)
    return parser


def _output(words: Sequence[str]) -> Output:
    from wheelfit.cli.output import Output

    return Output.from_words(words, os.environ)


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "Usage: wheelfit COMMAND [OPTIONS]",
            "",
            "Install the build that fits the machine.",
            "",
            "Commands:",
            *lines,
            "",
            "wheelfit COMMAND --help shows the options of a command; --version the version.",
            "",
        ]
    )


def _suggestion(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, n=1)
    return f"did you mean {close[0]!r}?" if close else "wheelfit --help lists the commands"


def _internal(error: Exception) -> WheelfitError:
    class InternalError(WheelfitError):
        reference = "internal-error"
        exit_code = INTERNAL_ERROR

    return InternalError(
        f"wheelfit failed in a way it should not: {type(error).__name__}: {error}",
        hint="run it again with --debug and report what it prints",
    )
