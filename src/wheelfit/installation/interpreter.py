"""Find the interpreter to install for, and inspect it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from wheelfit.errors import UnusableInterpreter
from wheelfit.installation.environment_folders import Schemes
from wheelfit.installation.isolated import interpreter as isolated
from wheelfit_runtime.errors import os_reason
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms.cache_folder import is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from packaging.tags import Tag

    from wheelfit.sources.cache import Store

DEADLINE = 60.0
"""The time limit for another interpreter to describe itself, in seconds."""
OLDEST = isolated.OLDEST
"""The oldest Python that can be installed for, as (major, minor)."""

_VERSION = pattern(r"(\d+)\.(\d+)\.(\d+)")
_SHORT_VERSION = pattern(r"\d+(\.\d+)?t?")
_VERSIONED_COMMAND = pattern(r"python\d+\.\d+t?")
_NUMBER = pattern(r"\d+")
_COMMAND = pattern(r"(?:(?:python|pypy|graalpy|[0-9])[0-9.]*[dtw]*)(?:\.exe)?")
_PRINT_VERSION = "import sys; sys.stdout.write('%d.%d.%d' % tuple(sys.version_info[:3]))"


class Interpreter(NamedTuple):
    """A snapshot of one Python interpreter."""

    executable: Path
    """Its ``sys.executable``, which the first line of scripts names."""
    version: tuple[int, int, int]
    implementation: str
    """``sys.implementation.name``, such as ``cpython``."""
    cache_tag: str | None
    """The tag in the names of its bytecode files, as ``cpython-311``; None if it writes none."""
    prefix: Path
    """``sys.prefix``: the virtual environment, or the installation itself."""
    virtual: bool
    """Whether it belongs to a virtual environment."""
    stdlib: Path
    schemes: Schemes
    """Where an installation goes by default."""
    prefix_schemes: Schemes
    """The same below ``isolated.PREFIX``, for ``--prefix``."""
    site_packages: tuple[Path, ...]
    """Folders searched for distributions at run time, first one first."""
    launcher: str
    """Kind of script launcher, in the words of PyPA's ``installer``, such as ``posix``."""
    externally_managed: str | None
    """Text of EXTERNALLY-MANAGED (PEP 668); None if the environment is not managed."""
    environment: Mapping[str, str]
    """Values of the standard environment markers."""
    tags: tuple[Tag, ...]
    """Supported wheel tags, best first."""
    running: bool
    """Whether it is the interpreter that runs this process."""


def find_interpreter(
    python: str | None, environ: Mapping[str, str], folder: Path, *, system: bool = False
) -> Path | None:
    """Return the path of the interpreter to install for; None if there is none.

    In this order: the named one, that of the active virtual environment, that of the active conda
    environment, that of ``.venv`` in the folder or the nearest parent with one. The environment
    that runs this process does not count, unless it is named or active.

    :param python: a path of an interpreter, a folder of a virtual environment, a command on
        ``PATH``, or a version as ``3.12`` (`interpreters_named`); None if none was named.
    :param system: whether to use the first Python on ``PATH`` outside of virtual environments.
    :raises UnusableInterpreter: the named or active one does not exist, or ``.venv`` belongs to
        another user.
    """
    if system:
        return _of_system(environ)
    if python is not None:
        return _named(python, environ)
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        active = environ.get(variable)
        if active and not (variable == "CONDA_PREFIX" and _is_conda_base(environ)):
            if not Path(active).is_dir():
                raise UnusableInterpreter(
                    "the active environment does not exist",
                    where=active,
                    hint=f"unset {variable}, or name an interpreter with --python",
                )
            return _in_folder(Path(active))
    return _of_folder(folder)


def _of_system(environ: Mapping[str, str]) -> Path:
    for folder in map(Path, environ.get("PATH", os.defpath).split(os.pathsep)):
        if not folder.is_absolute() or (folder.parent / "pyvenv.cfg").is_file():
            continue
        for name in ("python.exe",) if os.name == "nt" else ("python3", "python"):
            if (folder / name).is_file() and os.access(folder / name, os.X_OK):
                return folder / name
    raise UnusableInterpreter(
        "PATH has no Python outside of virtual environments",
        hint="name one with --python",
    )


def _is_conda_base(environ: Mapping[str, str]) -> bool:
    # The environment of conda itself: many shells always activate it, so the user did not.
    return environ.get("CONDA_DEFAULT_ENV") in ("base", "root")


def _of_folder(folder: Path) -> Path | None:
    for parent in (folder, *folder.parents):
        venv = parent / ".venv"
        if not os.path.lexists(venv / "pyvenv.cfg"):
            continue
        if not (is_own(os.lstat(venv)) and is_own(venv.stat())):
            raise UnusableInterpreter(
                "this virtual environment belongs to another user, whose programs would run",
                where=str(venv),
                hint=f"--python {venv} uses it anyway",
            )
        return None if _is_running(venv) else _in_folder(venv)
    return None


def _is_running(folder: Path) -> bool:
    """Return whether this process runs in a virtual environment."""
    try:
        return folder.samefile(sys.prefix)
    except OSError:
        return False


def _named(python: str, environ: Mapping[str, str]) -> Path:
    path = Path(python)
    if os.sep not in python and (os.altsep is None or os.altsep not in python):
        # A version or command never names a file in the current folder, which may belong to another
        # user.
        is_command = _COMMAND.fullmatch(python) is not None
        if not is_command and python and path.is_dir():
            return _in_folder(path)
        program = next(interpreters_named(python, environ), None)
        if program is not None:
            return program
        command = f"python{python}" if _SHORT_VERSION.fullmatch(python) else python
        raise UnusableInterpreter(
            f"Python interpreter {command!r} was not found on PATH",
            hint=f"for the file in this folder, write {os.path.join(os.curdir, python)}"  # noqa: PTH118
            if python and os.path.lexists(path)
            else "give the path of an interpreter or the folder of a virtual environment",
        )
    if path.is_dir():
        return _in_folder(path)
    if os.path.lexists(path):
        return path
    raise UnusableInterpreter(
        "the Python interpreter does not exist",
        where=python,
        hint="give the path of an interpreter or the folder of a virtual environment",
    )


def interpreters_named(python: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the interpreters that a version or command may name; none is started.

    They are those on ``PATH``, and for a version those of pyenv, of uv and of the system.

    :param python: a version as ``3.12``, or a command.
    """
    import shutil

    command = f"python{python}" if _SHORT_VERSION.fullmatch(python) else python
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    if _VERSIONED_COMMAND.fullmatch(command):
        folders += map(str, _well_known_folders(command.removeprefix("python"), environ))
    for folder in dict.fromkeys(folders):
        path = shutil.which(command, path=folder) if command and folder else None
        # On Windows `which` begins with the current folder, whatever its argument.
        if path is not None and Path(path).parent == Path(folder):
            yield Path(path)


def _well_known_folders(version: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield folders where interpreters of a version may be besides ``PATH``, the newest first."""
    home = environ.get("HOME")
    pyenv = environ.get("PYENV_ROOT") or (home and f"{home}/.pyenv")
    data = environ.get("XDG_DATA_HOME") or (home and f"{home}/.local/share")
    uv = environ.get("UV_PYTHON_INSTALL_DIR") or (data and f"{data}/uv/python")
    # The folder of a free-threaded 3.13 is named 3.13.0t or cpython-3.13.0+freethreaded-…, so the
    # pattern begins with 3.13, not with 3.13t.
    series = version.removesuffix("t")
    for root, names in (
        (pyenv and f"{pyenv}/versions", f"{series}*"),
        (uv, f"cpython-{series}*"),
    ):
        if root and Path(root).is_absolute():
            yield from sorted(Path(root).glob(f"{names}/bin"), key=_numbers, reverse=True)
    yield from map(Path, ("/usr/local/bin", "/opt/homebrew/bin", "/usr/bin"))


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in _NUMBER.findall(path.parent.name)]


def _in_folder(folder: Path) -> Path:
    for name in ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe"):
        path = folder / name
        if os.path.lexists(path):  # the target of a link may not be visible to this user
            return path
    raise UnusableInterpreter(
        "the folder is not a virtual environment: it has no Python interpreter",
        where=str(folder),
        hint="create one with `wheelfit venv FOLDER`",
    )


def is_running(path: Path) -> bool:
    """Return whether a path names the running interpreter.

    The interpreter of a virtual environment is a link to its base, so the name and the folder are
    compared, not the target of the link.
    """
    if not sys.executable:
        return False
    own_executable = Path(sys.executable)
    is_same_name = (
        path.name == own_executable.name or {path.name, own_executable.name} <= _spellings()
    )
    try:
        return is_same_name and path.parent.samefile(own_executable.parent)
    except OSError:
        return False


def _spellings() -> set[str]:
    # ``python``, ``python3`` and ``python3.11`` are the same in a virtual environment; elsewhere
    # they may be different versions.
    if sys.prefix == sys.base_prefix:
        return set()
    major, minor = sys.version_info[:2]
    return {"python", f"python{major}", f"python{major}.{minor}"}


def inspect_interpreter(
    path: Path | None,
    environ: Mapping[str, str],
    *,
    deadline: float = DEADLINE,
    store: Callable[[], Store] | None = None,
    clock: Callable[[], int] = time.time_ns,
    tags: bool = True,
    meanwhile: Callable[[], object] = lambda: None,
) -> Interpreter:
    """Return the description of an interpreter.

    Another interpreter is started once, isolated (``-I -S``): ``PYTHON*`` variables, the current
    folder, the user's site and start-up files of the environment have no effect. The running one is
    described in process.

    :param path: the path of the interpreter; None: the running one.
    :param deadline: the time limit of the child process, in seconds from the return of `meanwhile`.
    :param store: opens the cache of descriptions; None: the interpreter is started.
    :param tags: whether to include the supported wheel tags; without them only the standard library
        is used, and nothing is cached.
    :param meanwhile: called while the child process runs.
    :raises UnusableInterpreter: it cannot be started, is not a Python, is too old, or fails.
    """
    if path is None:
        own_facts = isolated.describe(tags=tags)
        return _interpreter(own_facts, cast("tuple[Tag, ...]", own_facts["tags"]), running=True)
    path = Path(os.path.abspath(path))  # noqa: PTH100  # the link must not be followed
    if store is None or not tags:
        return _ask(path, environ, deadline, meanwhile, tags=tags)[1]
    from wheelfit.installation.known_interpreters import read_facts, store_facts

    cache = store()
    cached_facts = read_facts(str(path), environ, cache)
    if cached_facts is not None:
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            return _interpreter_of(cached_facts)
    started_at = clock()
    facts, interpreter = _ask(path, environ, deadline, meanwhile)
    store_facts(str(path), environ, facts, started_at, cache)
    return interpreter


def _interpreter_of(facts: Mapping[str, Any], *, tags: bool = True) -> Interpreter:
    if not tags:
        return _interpreter(facts, (), running=False)
    from packaging.tags import Tag  # `wheelfit recover` works without it

    return _interpreter(facts, (Tag(*parts) for parts in facts["tags"]), running=False)


def _ask(
    path: Path,
    environ: Mapping[str, str],
    deadline: float,
    meanwhile: Callable[[], object],
    *,
    tags: bool = True,
) -> tuple[Mapping[str, Any], Interpreter]:
    """Start an interpreter, and return its description of itself, also parsed."""
    own_packaging = []
    if tags:
        import packaging  # recovery works without it

        # Not supported: wheelfit in a zip file, which the other interpreter could not read.
        own_packaging = [next(iter(packaging.__path__))]
    arguments = ["-I", "-S", "-B", isolated.__file__, *own_packaging]
    process = _run(path, arguments, environ, deadline, meanwhile)
    answers = [line for line in process.stdout.splitlines() if line.startswith(isolated.MARK)]
    if process.returncode == 0 and answers:
        try:
            facts = json.loads(answers[-1][len(isolated.MARK) :])
            _refuse_old(path, tuple(facts["version"]))
            return facts, _interpreter_of(facts, tags=tags)
        except (ValueError, KeyError, TypeError):
            pass
    raise _failure(path, process, environ, deadline)


def _run(
    path: Path,
    arguments: list[str],
    environ: Mapping[str, str],
    deadline: float,
    meanwhile: Callable[[], object] = lambda: None,
) -> subprocess.CompletedProcess[str]:
    # On macOS this variable changes the environment that a child process detects.
    variables = {key: value for key, value in environ.items() if key != "__PYVENV_LAUNCHER__"}
    try:
        process = subprocess.Popen(
            [str(path), *arguments],
            encoding="utf-8",
            env=variables,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise UnusableInterpreter(
            f"the interpreter cannot be started: {os_reason(error)}", where=str(path)
        ) from None
    with process:
        try:
            meanwhile()
            output, errors = process.communicate(timeout=deadline)
        except subprocess.TimeoutExpired:
            process.kill()
            raise UnusableInterpreter(
                f"the interpreter did not answer within {deadline:g} s", where=str(path)
            ) from None
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


def _failure(
    path: Path,
    process: subprocess.CompletedProcess[str],
    environ: Mapping[str, str],
    deadline: float,
) -> UnusableInterpreter:
    """Return the error for an interpreter without a description: too old, no Python, or broken."""
    printed = _run(path, ["-E", "-S", "-c", _PRINT_VERSION], environ, deadline).stdout
    version = _VERSION.fullmatch(printed.strip())
    if version is None:
        return UnusableInterpreter(
            "this is not a Python interpreter",
            where=str(path),
            note=process.stderr.strip()[-2000:] or None,
            hint="give the path of an interpreter or the folder of a virtual environment",
        )
    _refuse_old(path, tuple(int(part) for part in version.groups()))
    reason = (
        f"was ended by signal {-process.returncode}"
        if process.returncode < 0
        else f"ended with status {process.returncode}"
    )
    return UnusableInterpreter(
        f"the interpreter failed to describe itself: it {reason}",
        where=str(path),
        note=process.stderr.strip()[-2000:] or None,
        hint="check that it starts: run it with `-I -S -c 'import sysconfig, site'`",
    )


def _refuse_old(path: Path, version: tuple[int, ...]) -> None:
    if version[:2] < OLDEST:
        raise UnusableInterpreter(
            f"Python {'.'.join(map(str, version))} is too old",
            where=str(path),
            hint=f"use Python {OLDEST[0]}.{OLDEST[1]} or newer",
        )


def _interpreter(facts: Mapping[str, Any], tags: Iterable[Tag], *, running: bool) -> Interpreter:
    major, minor, micro = facts["version"]
    return Interpreter(
        executable=Path(facts["executable"]),
        version=(major, minor, micro),
        implementation=facts["implementation"],
        cache_tag=facts["cache_tag"],
        prefix=Path(facts["prefix"]),
        virtual=facts["virtual"],
        stdlib=Path(facts["stdlib"]),
        schemes=_schemes(facts["paths"]),
        prefix_schemes=_schemes(facts["prefix_paths"]),
        site_packages=tuple(Path(folder) for folder in facts["site_packages"]),
        launcher=facts["launcher"],
        externally_managed=facts["externally_managed"],
        environment=MappingProxyType(dict(facts["environment"])),
        tags=tuple(tags),
        running=running,
    )


def _schemes(paths: Mapping[str, str]) -> Schemes:
    return Schemes(
        purelib=Path(paths["purelib"]),
        platlib=Path(paths["platlib"]),
        headers=Path(paths["include"]),
        scripts=Path(paths["scripts"]),
        data=Path(paths["data"]),
    )
