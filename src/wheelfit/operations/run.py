"""Run a command whose pip, uv or pdm gets the variants that fit."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.errors import UsageError, reporting_os_errors
from wheelfit.operations.indexes import families_in_effect, read_settings
from wheelfit.operations.installers import installers_of, read_command
from wheelfit.operations.proxy import ProxiedRequest, open_loopback_server, open_proxy
from wheelfit.operations.user_folders import home
from wheelfit.server.proxy.application import SecretPathGuard
from wheelfit.server.proxy.environment import proxy_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

    from wheelfit.operations.context import Context
    from wheelfit.sources.settings import SourceSettings

_FORWARDED_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")


def run_in_place(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a program; return its exit code, or 128 plus the number of the signal that ended it.

    :raises FileProblem: it cannot be started.
    """
    # As in a shell, PATH of the command's environment applies.
    program = shutil.which(command[0], path=environ.get("PATH"))
    with reporting_os_errors(
        "the command cannot be started",
        where=command[0],
        hint="name a program on PATH, or by its path",
    ):
        if program is None:
            exists = os.sep in command[0] and Path(command[0]).exists()
            why = "it is not a program that may be run" if exists else "the program was not found"
            raise FileNotFoundError(None, why)
        process = subprocess.Popen([program, *command[1:]], env=dict(environ))
    try:
        with _forwarding_signals(process):
            code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    return 128 - code if code < 0 else code


@contextmanager
def _forwarding_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forward the signals of this process to another one until the block ends."""

    def forward(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and _has_terminal():
            return  # the terminal sends it to both processes
        with suppress(OSError):
            process.send_signal(number)

    handlers = {}
    for name in _FORWARDED_SIGNALS:
        number = getattr(signal, name, None)
        if number is not None:
            with suppress(ValueError, OSError):  # this is not the main thread
                handlers[number] = signal.signal(number, forward)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _has_terminal() -> bool:
    """Return whether keys on the terminal reach our whole process group."""
    if os.name == "nt":
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _cutoff(settings: SourceSettings) -> datetime | None:
    """Return the default cutoff, the upload time from which files are too new; None without one."""
    default = settings.cooldown and settings.cooldown.default
    return default.at(datetime.now(UTC)) if default else None


class RunRequest(ProxiedRequest):
    """The command to run, and the proxy that it gets."""

    command: tuple[str, ...] = ()
    port: int | None = None


def run(request: RunRequest, context: Context) -> int:
    """Run a command behind a proxy, and return its exit code.

    :raises UsageError: there is no command.
    :raises FileProblem: the command cannot be started.
    """
    if not request.command:
        raise UsageError("no command was given", hint="`wheelfit run -- uv pip install NAME`")
    settings = read_settings(request, context.environ)
    command = read_command(request.command)
    installers = installers_of(
        command,
        settings,
        context.environ,
        home=home(),
        folder=Path.cwd(),
        is_index_named=request.index_url is not None,
    )
    for note in installers.notes:
        context.reporter.warn(note)
    # An owner's index is used instead of the registry, and pip takes the newest of both.
    families = families_in_effect(request, installers.pip, context.environ)
    replaces_pip_indexes = not request.full and families.uses_owner_indexes()
    if replaces_pip_indexes and command.tool == "pip" and command.index_url:
        context.reporter.warn(
            "pip queries its --index-url beside the proxy, and takes the newest release of both; "
            "remove the option, or pass it to `wheelfit run`"
        )
    with open_proxy(request, settings, context, by_path=installers.by_name()) as session:
        secret_path = ""
        if request.port is None:  # a port is named for tools whose configuration has the URL
            secret = secrets.token_urlsafe(24)
            session.application = SecretPathGuard(session.application, secret)
            secret_path = f"{secret}/"
        with open_loopback_server(session.application, port=request.port or 0) as server:
            base = f"{server.origin}/{secret_path}"
            shown_path = "…/" if secret_path else ""
            context.reporter.detail(f"proxy: {server.origin}/{shown_path}simple/")
            environ = proxy_environment(
                context.environ,
                base,
                replaces_indexes=request.full,
                replaces_pip_indexes=replaces_pip_indexes,
                extra_index_urls=settings.extra_index_urls,
                pip_index=installers.pip_index,
                uv_index=installers.uv_index,
                in_project=installers.in_project,
                cutoff=None if request.uploaded_prior_to is None else _cutoff(settings),
            )
            try:
                return run_in_place(request.command, environ)
            finally:
                session.cancel()
