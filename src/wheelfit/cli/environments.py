"""The environment that the options of a command name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.install.environment import open_environment

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.install.environment import Environment

__all__ = ["open_environment_of", "tell_unnamed_environment"]


def __dir__() -> list[str]:
    return __all__


def open_environment_of(arguments: Namespace, environ: Mapping[str, str]) -> Environment:
    """Open the environment that the options name.

    :param arguments: the options of `wheelfit.cli.options.add_environment`.
    :param environ: the environment of the process.
    """

    def folder(name: str | None) -> Path | None:
        return Path(name) if name else None

    return open_environment(
        arguments.python,
        environ=environ,
        prefix=folder(arguments.prefix),
        root=folder(arguments.root),
        target=folder(arguments.target),
    )


def tell_unnamed_environment(
    arguments: Namespace, environ: Mapping[str, str], environment: Environment, output: Output
) -> None:
    """Say what will be changed, if the user has neither named nor activated it.

    :param arguments: the options of `wheelfit.cli.options.add_environment`.
    :param environ: the environment of the process; ``VIRTUAL_ENV`` counts.
    :param environment: what was opened.
    :param output: where to say it.
    """
    named = (arguments.python, arguments.prefix, arguments.root, arguments.target)
    if not any(named) and not environ.get("VIRTUAL_ENV"):
        output.say(f"environment: {environment.name}", "dim")
