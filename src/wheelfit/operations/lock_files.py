"""The lock file of a request."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import packaging

from wheelfit.core.digests import sha256_of
from wheelfit.locking.document import (
    DEFAULT_LIMITS,
    Lock,
    LockedPackage,
    conversion_hint,
    is_lock_name,
    read_lock,
)
from wheelfit.operations.environments import cache_of, open_environment_of
from wheelfit.operations.indexes import open_indexes, read_settings, with_family_hints
from wheelfit.operations.requests import (
    BoundOptions,
    EnvironmentOptions,
    LockFileOptions,
    MachineOptions,
    SourceOptions,
    VariantOptions,
)
from wheelfit.operations.user_folders import refuse_pipe
from wheelfit.sources.cache import Store, valid_lock_key
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import FileProblem, NoFit, UserError, os_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wheelfit.installation.environment import Environment
    from wheelfit.locking.selection import LockCandidates
    from wheelfit.operations.context import Context
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.sources.memoized import MemoizedRepository
    from wheelfit.sources.page import File
    from wheelfit.sources.repository import Files
    from wheelfit.sources.settings import SourceSettings

CACHE_KIND = "locks"
"""The folder of the cache with facts about locks."""


class LockChoiceRequest(
    LockFileOptions,
    BoundOptions,
    EnvironmentOptions,
    SourceOptions,
    MachineOptions,
    VariantOptions,
):
    """The options of operations that choose packages from a lock."""


class OpenedLock(NamedTuple):
    """A lock file, and the resources for a choice from it."""

    lock: Lock
    path: Path
    """The file."""
    environment: Environment
    """The environment to install into; wheels are chosen for its interpreter."""
    repository: MemoizedRepository
    """Reads and downloads the files that the lock names; close it at the end."""
    settings: SourceSettings
    """The settings of the repository."""
    request: LockChoiceRequest
    context: Context

    def machine(self, host: str | None) -> ChosenMachine:
        """Return a machine to choose for, and report the overrides in effect.

        :param host: a host file or preset as the user calls it; None: this machine.
        :raises UnknownHost: there is no host file or preset of that name.
        """
        from wheelfit.operations.machine import choose_machine

        request = self.request.with_options(host=host)
        return choose_machine(request, self.environment.target, self.context)

    def candidates(
        self,
        machine: ChosenMachine,
        built: Callable[[LockedPackage], File] | None = None,
        files: Files | None = None,
    ) -> LockCandidates:
        """Return the wheels of the lock among which a machine chooses.

        :param built: returns the wheel built from a package's source; None: nothing is built.
        :param files: reads the files that the lock names; default: the repository.
        :raises UserError: the lock was not made for a requested extra or group.
        :raises NoFit: the lock was not made for the machine.
        """
        from wheelfit.locking.selection import LockCandidates
        from wheelfit.operations.preferences import choice_policy

        request = self.request
        return LockCandidates(
            self.lock,
            machine.target,
            machine.detector,
            with_family_hints(
                choice_policy(request, machine.policy), request, machine.context.environ
            ),
            host_detector=machine.host_detector,
            plugins=machine.plugins(self.environment, self.repository, self.settings, request),
            files=files or self.repository,
            folder=self.path.absolute().parent,
            extras=request.extra,
            groups=request.group,
            built=built,
        )


@contextmanager
def naming_machine_in_errors(name: str) -> Iterator[None]:
    """Add the name of a machine without a solution to the message of errors."""
    try:
        yield
    except (NoFit, UserError) as error:
        error.message = f"{name} cannot be served: {error.message}"
        raise


def open_lock(
    request: LockChoiceRequest, context: Context, *, may_be_own: bool = True
) -> OpenedLock:
    """Open the lock of a request; nothing is fetched or detected yet.

    :param may_be_own: whether the environment of this process is used where there is no other.
    :raises FileProblem: the file cannot be read.
    :raises InvalidLock: it is not a valid lock.
    """
    path = Path(request.lock)
    lock = load_lock(path, strict=request.strict, store=cache_of(request, context.environ))
    for note in lock.notes:
        context.reporter.warn(note)
    environment = open_environment_of(
        request,
        context.environ,
        may_be_new=True,
        may_be_own=may_be_own,
        note=context.reporter.detail,
    )
    settings = read_settings(request, context.environ, prefix=environment.interpreter.prefix)
    # A lock promises a hash of every wheel.
    repository = open_indexes(
        request, settings, context, by_content=True, max_download=request.max_download
    )
    return OpenedLock(lock, path, environment, repository, settings, request, context)


def load_lock(path: Path, *, strict: bool = False, store: Store | None = None) -> Lock:
    """Read a lock file.

    :param strict: whether notes about the file are errors.
    :param store: the cache, which records valid locks; None: the lock is checked.
    :raises FileProblem: it cannot be read, or its name is not that of a lock.
    :raises InvalidLock: it is not a valid lock.
    """
    if not is_lock_name(path.name):
        raise FileProblem(
            f"{path.name!r} is not a valid name for a lock file",
            where=str(path),
            hint=conversion_hint(path.name)
            or "it is called pylock.toml or pylock.NAME.toml (PEP 751)",
        )
    try:
        refuse_pipe(path)
        with path.open("rb") as file:
            data = file.read(DEFAULT_LIMITS.size + 1)
    except OSError as error:
        raise FileProblem(
            f"the lock file cannot be read: {os_reason(error)}",
            where=str(path),
            hint="`wheelfit lock` writes one" if isinstance(error, FileNotFoundError) else "",
        ) from None
    if store is None or not store.is_enabled:
        return read_lock(data, where=str(path), strict=strict)
    return _read_with_cache(data, store, where=str(path), strict=strict)


def _read_with_cache(data: bytes, store: Store, *, where: str, strict: bool) -> Lock:
    """Return the lock in a file, without checks if the cache records it as valid.

    The cache has no content of locks, so writing to it cannot change what is installed.
    """
    key = valid_lock_key(__version__, packaging.__version__, sha256_of(data).hex())
    is_valid = store.read(CACHE_KIND, key) is not None
    lock = read_lock(data, where=where, strict=strict, is_valid=is_valid)
    if not is_valid:
        store.write(CACHE_KIND, key, {}, b"")
    return lock
