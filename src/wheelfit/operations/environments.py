"""The environment of a request, and its state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.installation.environment import Environment, open_environment
from wheelfit.installation.environment_folders import EnvironmentFolders
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wheelfit.operations.context import Context, Reporter
    from wheelfit.operations.requests import CacheOptions, EnvironmentOptions
    from wheelfit.sources.cache import Store


def open_environment_of(
    request: EnvironmentOptions,
    environ: Mapping[str, str],
    *,
    may_be_new: bool = False,
    may_be_own: bool = False,
    tags: bool = True,
    note: Callable[[str], object] = lambda _text: None,
    meanwhile: Callable[[], object] = lambda: None,
) -> Environment:
    """Open the environment of a request.

    :param may_be_new: whether the folder of ``--target``, ``--prefix`` or ``--root`` may be
        missing, as for an installation, which creates it.
    :param may_be_own: whether to fall back to the environment of this process; only for commands
        that change nothing in it.
    :param tags: whether wheels will be chosen for it, by its tags; if not, they are left out, and
        only the standard library is used.
    :param note: gets the interpreters on ``PATH`` that were skipped because they do not work.
    :param meanwhile: called while an interpreter that has to be started describes itself.
    :raises FileProblem: there is no such folder.
    """
    if not may_be_new:
        # With a root, the prefix is relative to the root.
        prefix = None if request.root else request.prefix
        for named in (request.target, prefix, request.root):
            if named and not Path(os.path.expanduser(named)).exists():  # noqa: PTH111
                raise FileProblem(
                    "the folder does not exist", where=named, hint="name one that exists"
                )

    def folder(name: str | None) -> Path | None:
        return Path(name) if name else None

    return open_environment(
        request.python,
        environ=environ,
        system=request.system,
        may_be_own=may_be_own,
        prefix=folder(request.prefix),
        root=folder(request.root),
        target=folder(request.target),
        store=lambda: cache_of(request, environ),
        tags=tags,
        note=note,
        meanwhile=meanwhile,
    )


def cache_of(request: CacheOptions, environ: Mapping[str, str]) -> Store:
    """Return the cache for descriptions of interpreters and for validated locks."""
    from wheelfit.operations.cache_folder import cache_folder_in_use
    from wheelfit.sources.cache import Store

    # The main cache reports a folder that cannot be used.
    return Store(cache_folder_in_use(request, environ))


def note_default_environment(
    request: EnvironmentOptions, environment: Environment, context: Context
) -> None:
    """Note the environment that will be changed, unless the user named or activated it."""
    named = (request.python, request.system, request.prefix, request.root, request.target)
    # The base environment of conda may be active, but another is used by default.
    prefix, active = environment.interpreter.prefix, context.environ.get("CONDA_PREFIX")
    is_active = context.environ.get("VIRTUAL_ENV") or str(prefix) == active
    if not any(named) and not is_active:
        context.reporter.note(f"environment: {environment.name}")


def recover_first(environment: Environment, reporter: Reporter) -> None:
    """Undo or finish an interrupted change before the next one, and report it.

    :raises EnvironmentUnavailable: that cannot be done now.
    """
    folders = EnvironmentFolders.of(environment.schemes, environment.signer)
    if not folders.is_changing and not folders.is_locked:
        return
    from wheelfit.installation.interruption import recover_environment

    if (recovered := recover_environment(environment)) is not None:
        for note in (str(recovered), *recovered.notes):
            reporter.note(f"note: {note}")


def warn_of_interruption(environment: Environment, reporter: Reporter) -> None:
    """Warn if a change was interrupted, which may have left neither the old nor the new state.

    :raises EnvironmentUnavailable: another process is changing it.
    """
    folders = EnvironmentFolders.of(environment.schemes, environment.signer)
    if folders.is_locked:
        from wheelfit.installation.locking import locked

        with locked(Path(folders.library)):
            pass  # wait for the process that has the lock
    if not folders.is_changing:
        return
    from wheelfit.installation.interruption import find_interruption

    if (interruption := find_interruption(environment)) is not None:
        reporter.warn(str(interruption))
