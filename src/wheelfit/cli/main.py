"""Dispatch to one command, and turn errors into messages and exit codes.

Only the module of the chosen command is imported, and it imports its own needs when it runs:
start-up is a feature.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from wheelfit.cli.commands import COMMANDS, FIRST_COMMANDS, OTHER_NAMES, find_command
from wheelfit.errors import InternalError, UsageError
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import FileProblem, WheelfitError, os_reason

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from signal import Handlers

    from wheelfit.cli.command import Command
    from wheelfit.cli.output import Output
    from wheelfit.operations.context import Context


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code (docs/reference/exit-codes.md)."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Pages and documents are many small values without cycles. Searching for cycles after every 700
    # values is a tenth of the work of a resolution, and one search a tenth of a short command.
    gc.set_threshold(200_000, 10, 10)
    if argv is None:
        atexit.register(gc.freeze)  # the collection at exit would find nothing either
    _handle_signals()
    # An error in the arguments must be rendered too, so the output's options are read before
    # parsing.
    return _run_guarded(
        lambda: _dispatch(words), lambda: _lenient_output(words), debug="--debug" in words
    )


def _handle_signals() -> None:
    """Turn SIGTERM and SIGHUP into an exception that undoes the running change, as Ctrl-C does.

    A build backend has a session of its own, so closing the terminal does not end it.
    """
    import signal

    _replace_handlers(signal.SIG_DFL, _terminate)


def _restore_signals() -> None:
    """Restore the default handlers of signals; nothing is left to undo."""
    import signal

    _replace_handlers(_terminate, signal.SIG_DFL)


def _replace_handlers(
    old: Callable[..., None] | Handlers, new: Callable[..., None] | Handlers
) -> None:
    import signal

    with suppress(ValueError):  # this is not the main thread
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            if signal.getsignal(number) is old:
                signal.signal(number, new)


def _terminate(*_: object) -> None:
    raise _Terminated


class _Terminated(KeyboardInterrupt):
    """Raised when the process receives a signal to stop."""


def _run_guarded(run: Callable[[], int], output: Callable[[], Output], *, debug: bool) -> int:
    """Run a function, and turn exceptions into messages and an exit code.

    :param output: creates the output; called only when needed.
    """
    try:
        code = run()
        _print("")  # flush output now, before Python ends and reports failures in its own way
        _restore_signals()
        return code
    except (Exception, KeyboardInterrupt) as caught:  # noqa: BLE001 - every error becomes a message
        _restore_signals()
        error = _as_wheelfit_error(caught)
        screen = output()
        if debug:
            screen.traceback(caught)
        screen.error(error)
        return error.exit_code


def _print(text: str) -> None:
    from wheelfit.cli.output import deliver

    if sys.stdout is not None:
        deliver(sys.stdout, text)


def _dispatch(words: list[str]) -> int:
    """Print the version or a help, or run the command that the first words name."""
    if words[:1] == ["help"]:  # `help COMMAND` is `COMMAND --help`, also with `all` at the end
        topic = words[1:-1] if words[-1] == "all" else words[1:]
        words = [*topic, "--help", *words[1 + len(topic) :]]
    if words[:1] in (["-V"], ["--version"]):
        _print(f"wheelfit {__version__}\n")
        return 0
    names: list[str] = []
    command = None
    summaries = {name: summary for name, (_, summary) in COMMANDS.items()}
    while summaries:
        word = words[len(names)] if len(words) > len(names) else "--help"
        if word in ("-h", "--help", "help"):
            if names or words[len(names) + 1 :] == ["all"]:
                _print(_overview(names, command, summaries))
            else:
                _print(_first_commands())
            return 0
        if word not in summaries:
            raise _unknown(names, word, summaries)
        if command is None:
            _check_working_folder()
        command = find_command(word) if command is None else command.subcommands[word]
        names.append(word)
        summaries = {name: subcommand.summary for name, subcommand in command.subcommands.items()}
    return _run(" ".join(names), cast("Command", command), words[len(names) :])


def _unknown(names: Sequence[str], word: str, commands: Mapping[str, str]) -> UsageError:
    from difflib import get_close_matches

    options = {"help": "--help", **({} if names else {"version": "--version"})}
    candidates = options if word.startswith("-") else {name: name for name in commands}
    matches = [candidates[name] for name in get_close_matches(word.lstrip("-"), candidates, n=1)]
    if not names and word in OTHER_NAMES:
        matches = [OTHER_NAMES[word]]
    program = " ".join(["wheelfit", *names])
    name = " ".join([*names, word])
    return UsageError(
        f"unknown option {word!r}" if word.startswith("-") else f"unknown command {name!r}",
        hint=f"did you mean {matches[0]!r}?"
        if matches
        else f"`{program} --help` lists the commands",
    )


def _run(name: str, command: Command, words: list[str]) -> int:
    """Parse the arguments of a command, and run it."""
    from wheelfit.cli.command import make_parser
    from wheelfit.cli.configuration import clear_defaults, complete, read_layers
    from wheelfit.operations.context import Context

    parser = make_parser(name, command)
    defaults = clear_defaults(parser)
    arguments = parser.parse_words(words)
    complete(parser, arguments, defaults, lambda: read_layers(arguments, os.environ))
    output = _output(arguments)
    run = cast("Callable[[Namespace, Output, Context], int]", command.run)
    return _run_guarded(
        lambda: run(arguments, output, Context(os.environ, output)),
        lambda: output,
        debug=arguments.debug,
    )


def _check_working_folder() -> None:
    """Raise if the current folder, the base of relative paths, no longer exists."""
    try:
        os.getcwd()  # noqa: PTH109 - pathlib costs time
    except OSError:
        raise FileProblem(
            "the current folder no longer exists", hint="change to another folder"
        ) from None


def _output(arguments: Namespace) -> Output:
    from wheelfit.cli.output import Output

    output = Output.of(
        json=arguments.json,
        quiet=arguments.quiet,
        verbose=arguments.verbose,
        colour=arguments.color,
        progress=not arguments.no_progress,
        environ=os.environ,
    )
    if "access_log" in arguments:  # a server
        return _logged(output, arguments.log_format or "")
    return output


def _logged(output: Output, log_format: str) -> Output:
    """Return the output of a server, whose settings are not read yet."""
    from wheelfit.cli.logged_output import logged_as

    return logged_as(output, log_format or os.environ.get(_LOG_FORMAT_VARIABLE) or "auto")


_LOG_FORMAT_VARIABLE = "WHEELFIT_SERVER_LOG_FORMAT"


def _lenient_output(words: Sequence[str]) -> Output:
    """Return the output for arguments that may be invalid."""
    from wheelfit.cli.output import Output

    options = words[: words.index("--")] if "--" in words else words
    output = Output.of(
        json="--json" in options,
        quiet="--quiet" in options or "-q" in options,
        colour=_last_value(options, "--color") or "auto",
        environ=os.environ,
    )
    form = _last_value(options, "--log-format") or os.environ.get(_LOG_FORMAT_VARIABLE)
    return _logged(output, form) if form and words[:2] == ["index", "serve"] else output


def _last_value(words: Sequence[str], option: str) -> str:
    """Return the last value of an option among unchecked words; empty if it is missing."""
    values = [
        word.removeprefix(f"{option}=") if word != option else next_word
        for word, next_word in zip(words, (*words[1:], ""), strict=True)
        if word == option or word.startswith(f"{option}=")
    ]
    return values[-1] if values else ""


def _first_commands() -> str:
    """Return the help of the program: the commands that people use first."""
    width = max(len(name) for names in FIRST_COMMANDS.values() for name in names)
    lines = ["usage: wheelfit COMMAND [OPTIONS]", "", "Install the build that fits the machine."]
    for title, names in FIRST_COMMANDS.items():
        rows = _rows({name: COMMANDS[name][1] for name in names}, width)
        lines += ["", f"{title}:", *rows]
    lines += [
        "",
        f"`wheelfit --help all` shows all {len(COMMANDS)} commands.",
        "`wheelfit COMMAND --help` shows the options of a command.",
        "`wheelfit --version` shows the version.",
    ]
    return "\n".join([*lines, ""])


def _rows(summaries: Mapping[str, str], width: int) -> Iterator[str]:
    """Yield a line for each command, broken where the terminal ends."""
    from wheelfit.cli.terminal import fold, terminal_width

    for name, summary in summaries.items():
        yield fold(f"  {name:<{width}}  {summary}", terminal_width(), width + 2)


def _overview(names: Sequence[str], command: Command | None, summaries: Mapping[str, str]) -> str:
    """Return every subcommand of a command, or every command of the program."""
    from wheelfit.cli.terminal import fill_paragraphs, fold, terminal_width

    program = " ".join(["wheelfit", *names])
    width = max(map(len, summaries))
    description = command.description if command else "Install the build that fits the machine."
    lines = [
        f"usage: {program} COMMAND [OPTIONS]",
        "",
        fill_paragraphs(description.strip(), terminal_width() - 2),
        "",
        "Commands:",
        *_rows(summaries, width),
        "",
        fold(f"`{program} COMMAND --help` shows the options of a command.", terminal_width()),
    ]
    if command is None:
        about = "`python -m wheelfit_runtime` shows what running programs choose and fetch."
        lines.append(fold(about, terminal_width()))
    return "\n".join([*lines, ""])


def _as_wheelfit_error(error: BaseException) -> WheelfitError:
    """Return an exception as a WheelfitError; unknown exceptions become internal errors."""
    if isinstance(error, WheelfitError):
        return error
    if isinstance(error, _Terminated):
        return WheelfitError("ended by a signal", code="terminated")
    if isinstance(error, KeyboardInterrupt):
        return WheelfitError("interrupted from the keyboard", code="interrupted")
    if isinstance(error, OSError) and error.errno in _PATH_ERRORS and error.filename is not None:
        return FileProblem(f"it cannot be used: {os_reason(error)}", where=str(error.filename))
    if (broken := _broken_installation(error)) is not None:
        return broken
    return InternalError(
        f"unexpected error: {type(error).__name__}: {error}",
        code="internal-error",
        hint="run it again with --debug and report what it prints",
    )


def _broken_installation(error: BaseException) -> WheelfitError | None:
    """Return the error for a missing or damaged dependency of wheelfit; None if all are sound."""
    from wheelfit.doctor.own_requirements import unmet_requirements

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


# Paths come from the user, so these are user errors wherever a path is used.
_PATH_ERRORS = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR)
