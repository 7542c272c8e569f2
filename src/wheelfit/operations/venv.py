"""The creation of a virtual environment to install into."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.installation.environment import open_environment
from wheelfit.installation.virtual_environments import (
    create_virtual_environment,
    empty_folder,
    ignore_in_git,
)
from wheelfit.operations.plain_data import PlainReport
from wheelfit.operations.requests import ValidatedRequest

if TYPE_CHECKING:
    from wheelfit.operations.context import Context


class VenvRequest(ValidatedRequest):
    """The path of a new virtual environment, and its Python."""

    path: str = ".venv"
    python: str | None = None
    clear: bool = False


@dataclass(frozen=True, slots=True)
class VenvReport(PlainReport):
    """The virtual environment that was created."""

    path: str
    """The folder, absolute."""
    python: str
    """The interpreter of the environment."""
    python_version: str
    """Its version, such as ``3.12.4``."""


def create_venv(request: VenvRequest, context: Context) -> VenvReport:
    """Create an empty virtual environment; on failure nothing is changed.

    :raises FileProblem: the path exists already.
    :raises UnusableInterpreter: the Python does not exist, or is too old.
    :raises EnvironmentUnavailable: the Python cannot create one.
    """
    folder = Path(os.path.abspath(os.path.expanduser(request.path)))  # noqa: PTH100, PTH111 # links stay
    source = open_environment(
        request.python,
        environ=context.environ,
        may_be_own=True,
        tags=False,
        note=context.reporter.detail,
    ).interpreter
    executable = source.executable
    with empty_folder(folder, clear=request.clear) as old_environment:
        if old_environment is not None and executable.is_relative_to(folder):
            executable = old_environment / executable.relative_to(folder)
        create_virtual_environment(executable, folder, context.environ)
        ignore_in_git(folder)
        created = open_environment(str(folder), environ=context.environ, tags=False).interpreter
    version = ".".join(map(str, created.version))
    return VenvReport(str(folder), str(created.executable), version)
