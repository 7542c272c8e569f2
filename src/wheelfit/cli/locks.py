"""The lock file that a command works from, opened from its arguments."""

from __future__ import annotations

import argparse
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.cli.asked import choice_policy
from wheelfit.cli.configuration import refuse_pipe
from wheelfit.cli.environments import open_environment_of
from wheelfit.cli.indexes import open_indexes, read_settings
from wheelfit.cli.machine import choose_machine
from wheelfit.errors import FileProblem, NoFit, UserError
from wheelfit.lock.document import DEFAULT_LIMITS, is_lock_name, read_lock
from wheelfit.lock.selection import LockCandidates

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping

    from wheelfit.cli.machine import ChosenMachine
    from wheelfit.cli.output import Output
    from wheelfit.install.environment import Environment
    from wheelfit.lock.document import Lock
    from wheelfit.sources.remembered import Remembered
    from wheelfit.sources.settings import SourceSettings


@dataclass(frozen=True, slots=True)
class OpenedLock:
    """Hold a lock file and everything a choice from it is made with."""

    lock: Lock
    path: Path
    """The file."""
    environment: Environment
    """Where things would be installed; its interpreter is the one that counts."""
    repository: Remembered
    """Reads and downloads the files that the lock names; close it at the end."""
    settings: SourceSettings
    """What it was opened with."""
    arguments: Namespace
    environ: Mapping[str, str]
    output: Output

    def machine(self, host: str | None) -> ChosenMachine:
        """Return a machine to choose for, and say which overrides are in effect.

        :param host: a host file or preset as the user calls it; None: this machine.
        :raises UnknownHost: there is nothing of that name.
        """
        arguments = argparse.Namespace(**{**vars(self.arguments), "host": host})
        return choose_machine(arguments, self.environment.target(), self.environ, self.output)

    def candidates(self, machine: ChosenMachine) -> LockCandidates:
        """Return what chooses from the lock for a machine.

        :param machine: of `machine`.
        :raises UserError: the lock was not made for an extra or group that is asked for.
        :raises NoFit: the lock was not made for the machine.
        """
        arguments = self.arguments
        return LockCandidates(
            self.lock,
            machine.target,
            machine.detector,
            choice_policy(arguments, machine.policy),
            user_lists=machine.user_lists,
            plugins=machine.plugins(
                self.environment, self.repository, self.settings, arguments, self.output
            ),
            files=self.repository,
            folder=self.path.absolute().parent,
            extras=arguments.extra,
            groups=arguments.group,
        )


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Let errors say which machine cannot be served, where there may be several.

    :param name: of the machine.
    """
    try:
        yield
    except (NoFit, UserError) as error:
        error.message = f"{name} cannot be served: {error.message}"
        raise


def open_lock(arguments: Namespace, environ: Mapping[str, str], output: Output) -> OpenedLock:
    """Open the lock that the options name; no source is asked and nothing is detected yet.

    :param arguments: the options of `LOCK_FILE`, `ENVIRONMENT`, `SOURCES`,
        `MACHINE` and `VARIANTS` in `options.table`.
    :param environ: the environment of the process.
    :param output: told of everything that deserves notice.
    :raises FileProblem: the file cannot be read.
    :raises InvalidLock: it is no lock, or broken.
    """
    path = Path(arguments.lock)
    lock = load_lock(path, strict=arguments.strict)
    for note in lock.notes:
        output.warn(note)
    environment = open_environment_of(arguments, environ, may_be_new=True)
    settings = read_settings(arguments, environ, prefix=environment.interpreter.prefix)
    # A lock promises a hash of every wheel.
    repository = open_indexes(arguments, settings, environ, output, by_content=True)
    return OpenedLock(lock, path, environment, repository, settings, arguments, environ, output)


def load_lock(path: Path, *, strict: bool = False) -> Lock:
    """Read a lock file.

    :param path: the file.
    :param strict: whether what would only be noted is an error.
    :raises FileProblem: it cannot be read, or is not called as a lock is.
    :raises InvalidLock: it is no lock, or broken.
    """
    if not is_lock_name(path.name):
        raise FileProblem(
            f"a lock file is not called {path.name!r}",
            where=str(path),
            hint="a lock is called pylock.toml or pylock.NAME.toml (PEP 751)",
        )
    try:
        refuse_pipe(path)
        with path.open("rb") as file:
            data = file.read(DEFAULT_LIMITS.size + 1)
    except OSError as error:
        raise FileProblem(
            f"the lock file cannot be read: {error.strerror}",
            where=str(path),
            hint="wheelfit lock writes one",
        ) from None
    return read_lock(data, where=str(path), strict=strict)
