"""Dispatch to one command, and turn errors into words and exit codes.

Only the chosen command is imported, and it imports its own needs when it runs: start-up is a
feature.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from wheelfit.errors import InternalError, UsageError
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import FileProblem, WheelfitError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit.cli.options.arguments import OptionParser
    from wheelfit.cli.options.option import CommandOptions, OptionGroup
    from wheelfit.cli.output import Output

COMMANDS: Mapping[str, str] = {
    "install": "install packages, each in the build that fits",
    "lock": "write a lock from which every machine takes its own wheels",
    "sync": "make an environment equal to a lock, each package in the build that fits",
    "uninstall": "remove packages",
    "recover": "put an environment right whose change was interrupted",
    "list": "show what is installed, with variant labels",
    "explain": "show which wheel would be chosen, and why not the others",
    "tree": "show what needs what in a lock, for every machine or for one",
    "bundle": "make a folder from a lock that installs with no network",
    "export": "write what a machine gets as requirements, SBOM or list of licences",
    "init": "write the [variant] table of a project, and explain what may stand in it",
    "build": "build the wheels of a project, as variants and plain, with any build backend",
    "matrix": "show which wheels a release has, and write that for GitHub Actions and GitLab CI",
    "wheel": "make variant wheels of wheels that exist, and see what is in them",
    "abi": "see which versions of a library something works with that was built for it",
    "check": "find everything that is wrong with wheels, index files and releases",
    "publish": "check a release as an index would, and publish all of it or nothing",
    "index": "publish wheels as an index, for every installer",
    "proxy": "serve an index from which any installer takes the variant that fits",
    "run": "run a command whose pip, uv or pdm gets the variants that fit",
    "probe": "show what this machine supports, and how that was found",
    "host": "list, show, compare and write descriptions of other machines",
    "providers": "see who says what is supported, and which plugins may be asked",
    "bridges": "see which distributions can be presented as variants, and by what rule",
    "check-env": "say which installed variants do not fit this machine any more",
    "cache": "see what is kept between two runs, and remove some of it",
    "config": "show which settings are in effect, and who set them",
    "completion": "print a script that completes commands and options in your shell",
    "doctor": "find out what is wrong here, and what to do about it",
    "demo": "see it all work in a throw-away environment",
}
"""The commands with one line each; `module_of` says which module implements each."""


def module_of(name: str) -> str:
    """Return which module implements a command.

    :param name: as it is typed; of a subcommand both words.
    """
    return f"wheelfit.cli.commands.{name.replace('-', '_').replace(' ', '_')}"


def every_command() -> Mapping[str, str]:
    """Return all commands that do something, with one line each; subcommands by both words."""
    found: dict[str, str] = {}
    for name, summary in COMMANDS.items():
        subcommands = _subcommands(import_module(module_of(name)))
        if subcommands is None:
            found[name] = summary
        else:
            found |= {f"{name} {word}": line for word, line in subcommands.items()}
    return found


def commands_with_options() -> Mapping[str, CommandOptions]:
    """Return every command with all its options, and subcommands below theirs."""
    from wheelfit.cli.options.option import CommandOptions
    from wheelfit.cli.options.table.output import OUTPUT

    def described(name: str, summary: str) -> CommandOptions:
        module = import_module(module_of(name))
        subcommands = _subcommands(module)
        if subcommands is None:
            return CommandOptions(summary, (*module.OPTIONS, OUTPUT))
        below = {word: described(f"{name} {word}", line) for word, line in subcommands.items()}
        return CommandOptions(summary, subcommands=below)

    return {name: described(name, summary) for name, summary in COMMANDS.items()}


def _subcommands(command: object) -> Mapping[str, str] | None:
    """Return the subcommands of a command with one line each; None if it has none."""
    return cast("Mapping[str, str] | None", getattr(command, "SUBCOMMANDS", None))


class Command(Protocol):
    """What a module in ``wheelfit.cli.commands`` offers.

    One that has subcommands offers ``SUBCOMMANDS`` instead, with one line for each; their
    modules are named after both words.
    """

    OPTIONS: Sequence[OptionGroup]
    """Its options and positional arguments."""

    def run(self, arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
        """Do the work and return the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code (docs/reference/exit-codes.md).

    :param argv: the arguments without the program's name; default: those of the process.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    # Pages and documents are many small values without cycles; looking for some after every 700
    # of them is a tenth of the work of a resolution, and one look a tenth of a short command.
    gc.set_threshold(200_000, 10, 10)
    if argv is None:
        atexit.register(gc.freeze)  # the same look at the end of the process finds nothing either
    _end_orderly()
    # An error in the arguments must be rendered too, so what can be told before parsing is.
    return _guarded(
        lambda: _dispatch(words), lambda: _lenient_output(words), debug="--debug" in words
    )


def _end_orderly() -> None:
    """Let a request to end (SIGTERM, SIGHUP) undo what is under way, as Ctrl-C does.

    A build backend is in a session of its own: nobody else ends it when the terminal closes.
    """
    import signal

    def end(*_: object) -> None:
        raise _Terminated

    with suppress(ValueError):  # this is not the main thread
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, end)


class _Terminated(KeyboardInterrupt):
    """The process was asked to end."""


def _guarded(work: Callable[[], int], output: Callable[[], Output], *, debug: bool) -> int:
    """Work, and turn what goes wrong into words and an exit code.

    :param work: returns the exit code.
    :param output: how to speak; made only when needed.
    :param debug: show the traceback as well.
    """
    try:
        code = work()
        _print("")  # what is still on its way, before Python ends and complains in its own way
        return code
    except (Exception, KeyboardInterrupt) as caught:  # noqa: BLE001 - the last instance
        error = _in_family(caught)
        speaker = output()
        if debug:
            speaker.traceback(caught)
        speaker.error(error)
        return error.exit_code


def _print(text: str) -> None:
    from wheelfit.cli.output import deliver

    if sys.stdout is not None:
        deliver(sys.stdout, text)


def _dispatch(words: list[str]) -> int:
    name = words[0] if words else "--help"
    if name in ("-h", "--help", "help"):
        if len(words) > 1 and words[1] in COMMANDS:
            return _dispatch([*words[1:], "--help"])
        _print(_overview())
        return 0
    if name in ("-V", "--version"):
        _print(f"wheelfit {__version__}\n")
        return 0
    if name not in COMMANDS:
        raise UsageError(
            f"there is no command {name!r}" if not name.startswith("-") else f"no option {name!r}",
            hint=_suggestion(name, COMMANDS),
        )
    from wheelfit.cli.configuration import complete, read_layers, set_aside

    _check_working_folder()
    command = cast(Command, import_module(module_of(name)))
    subcommands = _subcommands(command)
    if subcommands is not None:
        words = words[1:]
        word = words[0] if words else "--help"
        if word in ("-h", "--help", "help"):
            _print(_overview_of(name, command, subcommands))
            return 0
        if word not in subcommands:
            what = f"no option {word!r}" if word.startswith("-") else f"there is no {name} {word}"
            raise UsageError(what, hint=_suggestion(word, subcommands, f"wheelfit {name}"))
        name = f"{name} {word}"
        command = cast(Command, import_module(module_of(name)))
    parser = make_parser(name, command)
    own = set_aside(parser)
    # It is put together anew for every parser that names none, and only help shows it.
    if not any(word == "--help" or _is_short_help(word) for word in words):
        parser.usage = parser.prog
    # Options may stand between names, as with pip; not where ``--`` says that no more come.
    parse = parser.parse_args if "--" in words else parser.parse_intermixed_args
    arguments = parse(words[1:])
    complete(parser, arguments, own, lambda: read_layers(arguments, os.environ))
    output = _output(arguments)
    return _guarded(
        lambda: command.run(arguments, output, os.environ), lambda: output, debug=arguments.debug
    )


def _is_short_help(word: str) -> bool:
    """Tell whether a word may ask for help, alone or together with other letters."""
    return word[:1] == "-" and word[1:2] != "-" and "h" in word


def _check_working_folder() -> None:
    """Refuse to work where relative paths mean nothing."""
    try:
        os.getcwd()  # noqa: PTH109 - pathlib costs time
    except OSError:
        raise FileProblem(
            "the current folder is not there any more", hint="change to another folder"
        ) from None


def make_parser(name: str, command: Command) -> OptionParser:
    """Return the parser of one command.

    :param name: name of the command.
    :param command: its module.
    """
    from wheelfit.cli.options.arguments import OptionParser
    from wheelfit.cli.options.table.output import OUTPUT

    description = (getattr(command, "__doc__", None) or "").strip()
    return OptionParser(name, (*command.OPTIONS, OUTPUT), description=description)


def _output(arguments: Namespace) -> Output:
    from wheelfit.cli.output import Output

    return Output.of(
        json=arguments.json,
        quiet=arguments.quiet,
        verbose=arguments.verbose,
        colour=arguments.color,
        progress=not arguments.no_progress,
        environ=os.environ,
    )


def _lenient_output(words: Sequence[str]) -> Output:
    """Read how to speak from arguments that may be wrong."""
    from wheelfit.cli.output import Output

    options = words[: words.index("--")] if "--" in words else words
    colours = [word.removeprefix("--color=") for word in options if word.startswith("--color=")]
    return Output.of(
        json="--json" in options,
        quiet="--quiet" in options or "-q" in options,
        colour=colours[-1] if colours else "auto",
        environ=os.environ,
    )


def _overview() -> str:
    return "\n".join(
        [
            "Usage: wheelfit COMMAND [OPTIONS]",
            "",
            "Install the build that fits the machine.",
            "",
            "Commands:",
            *_table(COMMANDS),
            "",
            "wheelfit COMMAND --help shows the options of a command; --version the version.",
            "python -m wheelfit_runtime tells what running programs choose, and what they fetch.",
            "",
        ]
    )


def _overview_of(name: str, command: object, subcommands: Mapping[str, str]) -> str:
    return "\n".join(
        [
            f"usage: wheelfit {name} COMMAND [OPTIONS]",
            "",
            (command.__doc__ or "").strip(),
            "",
            "Commands:",
            *_table(subcommands),
            "",
            f"wheelfit {name} COMMAND --help shows the options of a command.",
            "",
        ]
    )


def _table(commands: Mapping[str, str]) -> list[str]:
    width = max(map(len, commands))
    return [f"  {name:<{width}}  {summary}" for name, summary in commands.items()]


def _suggestion(name: str, known: Mapping[str, str], program: str = "wheelfit") -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"{program} --help lists the commands"


def _in_family(error: BaseException) -> WheelfitError:
    """Return an error as one of the family; one that is none is a fault of ours."""
    if isinstance(error, WheelfitError):
        return error
    if isinstance(error, _Terminated):
        return WheelfitError("asked to end by a signal", code="terminated")
    if isinstance(error, KeyboardInterrupt):
        return WheelfitError("interrupted from the keyboard", code="interrupted")
    if isinstance(error, OSError) and error.errno in _OF_PATHS and error.filename is not None:
        return FileProblem(f"it cannot be used: {error.strerror}", where=str(error.filename))
    if (broken := _broken_installation(error)) is not None:
        return broken
    return InternalError(
        f"wheelfit failed in a way it should not: {type(error).__name__}: {error}",
        code="internal-error",
        hint="run it again with --debug and report what it prints",
    )


def _broken_installation(error: BaseException) -> WheelfitError | None:
    """Return the error to report where a dependency of wheelfit is missing or damaged, or None."""
    from wheelfit.doctor.own_requirements import unmet_requirements
    from wheelfit.errors import InternalError

    try:
        unmet = unmet_requirements(files=True)
    except Exception:  # noqa: BLE001 - the first error counts
        return None
    if not unmet:
        return None
    return InternalError(
        f"wheelfit cannot run: {unmet[0]}",
        code="broken-installation",
        note=f"{type(error).__name__}: {error}",
        hint="`wheelfit doctor` lists what is missing, `wheelfit doctor --repair` installs it",
    )


# What even asking whether a path is there may meet: paths are the user's, wherever that happens.
_OF_PATHS = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR)
