"""The environment that the options of a command name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.errors import FileProblem
from wheelfit.install.environment import open_environment
from wheelfit.install.places import Places

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.install.environment import Environment
    from wheelfit.sources.cache import Store


def open_environment_of(
    arguments: Namespace,
    environ: Mapping[str, str],
    *,
    may_be_new: bool = False,
    tags: bool = True,
) -> Environment:
    """Open the environment that the options name.

    :param arguments: the options of `options.table.environment.ENVIRONMENT`.
    :param environ: the environment of the process.
    :param may_be_new: whether the folder of ``--target``, ``--prefix`` or ``--root`` may be
        missing, as for an installation, which creates it.
    :param tags: whether wheels will be chosen for it; without, the standard library is enough.
    :raises FileProblem: there is no such folder.
    """
    if not may_be_new:
        # Below a root, the prefix is a folder of that.
        prefix = None if arguments.root else arguments.prefix
        for named in (arguments.target, prefix, arguments.root):
            if named and not Path(named).exists():
                raise FileProblem(
                    "there is no such folder", where=named, hint="name one that exists"
                )

    def folder(name: str | None) -> Path | None:
        return Path(name) if name else None

    return open_environment(
        arguments.python,
        environ=environ,
        prefix=folder(arguments.prefix),
        root=folder(arguments.root),
        target=folder(arguments.target),
        store=lambda: _store(arguments, environ),
        tags=tags,
    )


def _store(arguments: Namespace, environ: Mapping[str, str]) -> Store:
    """Return where is kept what interpreters said of themselves."""
    from wheelfit.cli.cache_folder import cache_folder_in_use
    from wheelfit.sources.cache import Store

    # Who keeps more than this says why nothing can be kept.
    return Store(cache_folder_in_use(arguments, environ))


def tell_unnamed_environment(
    arguments: Namespace, environ: Mapping[str, str], environment: Environment, output: Output
) -> None:
    """Say what will be changed, if the user has neither named nor activated it.

    :param arguments: the options of `options.table.environment.ENVIRONMENT`.
    :param environ: the environment of the process; ``VIRTUAL_ENV`` counts.
    :param environment: what was opened.
    :param output: where to say it.
    """
    named = (arguments.python, arguments.prefix, arguments.root, arguments.target)
    if not any(named) and not environ.get("VIRTUAL_ENV"):
        output.say(f"environment: {environment.name}", "dim")


def mend_first(environment: Environment, output: Output) -> None:
    """Put an interrupted change right before another one is decided, and say so.

    :param environment: what will be changed.
    :param output: where to say it.
    :raises EnvironmentUnavailable: that cannot be done now.
    """
    places = Places.of(environment.schemes, environment.seal)
    if not places.is_changing and not places.is_locked:
        return
    from wheelfit.install.mending import mend

    if (recovered := mend(environment)) is not None:
        for note in (str(recovered), *recovered.notes):
            output.say(f"note: {note}", "dim")


def tell_interruption(environment: Environment, output: Output) -> None:
    """Warn if a change was interrupted, for then what is there may be neither old nor new.

    :param environment: what is looked at.
    :param output: where to say it.
    """
    if not Places.of(environment.schemes, environment.seal).is_changing:
        return
    from wheelfit.install.mending import find_interruption

    if (found := find_interruption(environment)) is not None:
        output.warn(str(found))
