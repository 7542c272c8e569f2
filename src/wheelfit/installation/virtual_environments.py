"""The creation of virtual environments: by ``venv`` of the interpreter, else by ``virtualenv``."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import EnvironmentUnavailable, FileProblem, os_reason
from wheelfit_runtime.platforms.child_processes import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DEADLINE = 120.0
"""Seconds to create an empty virtual environment."""
HIDDEN_VARIABLES = frozenset(
    {
        *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONEXECUTABLE"),
        *("PYTHONPLATLIBDIR", "__PYVENV_LAUNCHER__", "VIRTUAL_ENV"),
    }
)
"""Variables through which a new environment would use files of another one."""


def create_virtual_environment(executable: Path, folder: Path, environ: Mapping[str, str]) -> None:
    """Create an empty virtual environment, without pip.

    :raises EnvironmentUnavailable: neither ``venv`` nor ``virtualenv`` can create one.
    """
    python, target = str(executable), str(folder)
    command = [python, "-I", "-B", "-m", "venv", "--without-pip", target]
    if sys.platform != "win32":
        command.append("--symlinks")
    variables = {name: value for name, value in environ.items() if name not in HIDDEN_VARIABLES}
    venv_run = run(command, environ=variables, deadline=_DEADLINE)
    if venv_run.succeeded:
        return
    if (virtualenv := shutil.which("virtualenv", path=environ.get("PATH", os.defpath))) is not None:
        command = [virtualenv, "--python", python, "--no-seed", "--no-download", target]
        if run(command, environ=variables, deadline=_DEADLINE).succeeded:
            return
    output = venv_run.errors.decode("utf-8", "replace").strip().splitlines()
    raise EnvironmentUnavailable(
        f"{python} cannot create a virtual environment",
        where=target,
        note="\n".join(output[-5:]) or None,
        hint="install its `venv` module, on some systems the package python3-venv, or `virtualenv` "
        "on PATH",
    )


@contextmanager
def empty_folder(folder: Path, *, clear: bool) -> Iterator[Path | None]:
    """Make an empty folder for a new environment; if the block fails, restore the old state.

    :param clear: whether an existing virtual environment is replaced. It is set aside until the
        block has succeeded.
    :return: the path that the old environment has during the block; None if there was none.
    :raises FileProblem: another file or folder exists, wheelfit runs from it, or it cannot be
        written.
    """
    aside = _set_aside(folder) if clear and _is_environment(folder) else None
    is_new = None  # until the folder exists
    try:
        is_new = _create(folder)
        yield aside
    except BaseException:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        elif is_new is False:
            with suppress(OSError):  # the first error is the one to report
                for path in folder.iterdir():
                    is_folder = path.is_dir() and not path.is_symlink()
                    (shutil.rmtree if is_folder else os.unlink)(path)
        if aside is not None:
            aside.rename(folder)
            aside.parent.rmdir()
        raise
    if aside is not None:
        shutil.rmtree(aside.parent, ignore_errors=True)


def _is_environment(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").is_file() and not folder.is_symlink()


def _check_not_own(folder: Path) -> None:
    if folder.samefile(sys.prefix):
        raise FileProblem(
            "wheelfit runs from this virtual environment",
            where=str(folder),
            hint="name another path",
        )


def _set_aside(folder: Path) -> Path:
    """Move an environment into a new folder beside it, and return its path there."""
    _check_not_own(folder)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
        try:
            return folder.rename(temporary / folder.name)
        except OSError:  # on Windows, a program in it runs
            temporary.rmdir()
            raise
    except OSError as error:
        raise _not_created(folder, error) from None


def _create(folder: Path) -> bool:
    """Create a folder unless an empty one exists, and return whether it is new."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if folder.is_dir() and not any(folder.iterdir()):
            return False
        _check_not_own(folder)
        is_environment = _is_environment(folder)
        raise FileProblem(
            "a virtual environment already exists here"
            if is_environment
            else "the path exists and is not a virtual environment",
            where=str(folder),
            hint="--clear replaces it by an empty one" if is_environment else "name another path",
        ) from None
    except OSError as error:
        raise _not_created(folder, error) from None
    return True


def _not_created(folder: Path, error: OSError) -> FileProblem:
    return FileProblem(
        f"the virtual environment cannot be created: {os_reason(error)}",
        where=str(error.filename or folder),
        hint="name another path, in a folder that you may write to",
    )


def ignore_in_git(folder: Path) -> None:
    """Exclude an environment from the repository around it, as newer Pythons do."""
    with suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as file:
        file.write("*\n")
