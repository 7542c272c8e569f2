"""The creation of virtual environments: by ``venv`` of the interpreter, else by ``virtualenv``."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import EnvironmentUnavailable, FileProblem
from wheelfit_runtime.platforms.children import run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wheelfit.installation.interpreter import Interpreter

_DEADLINE = 120.0
"""Seconds to create an empty virtual environment."""
HIDDEN_VARIABLES = frozenset(
    {
        *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONEXECUTABLE"),
        *("PYTHONPLATLIBDIR", "__PYVENV_LAUNCHER__", "VIRTUAL_ENV"),
    }
)
"""Variables that would let something else into a new environment."""


def create_virtual_environment(
    interpreter: Interpreter, folder: Path, environ: Mapping[str, str]
) -> None:
    """Create an empty virtual environment, without pip.

    :param interpreter: the Python of the environment.
    :param folder: of the environment; it does not exist, or is empty.
    :param environ: environment variables of the process.
    :raises EnvironmentUnavailable: neither ``venv`` nor ``virtualenv`` can create one.
    """
    python, place = str(interpreter.executable), str(folder)
    words = [python, "-I", "-B", "-m", "venv", "--without-pip", place]
    if sys.platform != "win32":
        words.append("--symlinks")
    variables = {name: value for name, value in environ.items() if name not in HIDDEN_VARIABLES}
    made = run(words, environ=variables, deadline=_DEADLINE)
    if made.succeeded:
        return
    if (virtualenv := shutil.which("virtualenv", path=environ.get("PATH", os.defpath))) is not None:
        words = [virtualenv, "--python", python, "--no-seed", "--no-download", place]
        if run(words, environ=variables, deadline=_DEADLINE).succeeded:
            return
    output = made.errors.decode("utf-8", "replace").strip().splitlines()
    raise EnvironmentUnavailable(
        f"{python} cannot create a virtual environment",
        where=place,
        note="\n".join(output[-5:]) or None,
        hint="some systems package its `venv` module apart, as python3-venv; "
        "`virtualenv` on PATH does as well",
    )


def create_empty_folder(folder: Path, *, clear: bool) -> bool:
    """Create the folder of a new environment, and return whether it is new.

    :param folder: to create.
    :param clear: whether a virtual environment that is there is removed.
    :raises FileProblem: something else is there, or it cannot be written.
    """
    try:
        if clear and (folder / "pyvenv.cfg").is_file() and not folder.is_symlink():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
    except FileExistsError:
        if folder.is_dir() and not any(folder.iterdir()):
            return False
        is_environment = (folder / "pyvenv.cfg").is_file()
        raise FileProblem(
            "a virtual environment is there already"
            if is_environment
            else "something is there that is not a virtual environment",
            where=str(folder),
            hint="--clear replaces it by an empty one" if is_environment else "name another path",
        ) from None
    except OSError as error:
        raise FileProblem(
            f"the virtual environment cannot be created: {error.strerror or error}",
            where=str(error.filename or folder),
        ) from None
    return True


def ignore_in_git(folder: Path) -> None:
    """Keep an environment out of the repository around it, as newer Pythons do.

    :param folder: of the environment.
    """
    with suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as file:
        file.write("*\n")
