"""The destination of an installation: the folders of an interpreter, or others the user named.

`open_environment` changes nothing. The four kinds of destinations are pip's: the environment
itself, ``--prefix``, ``--root`` and ``--target``. Unlike with pip, only the distributions in the
destination count as installed, not those of the interpreter if the destination is another.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.errors import LinkRefused, UnusableInterpreter, UsageError
from wheelfit.installation.change_signatures import OF_THIS_PROCESS, Signer
from wheelfit.installation.environment_folders import Schemes
from wheelfit.installation.interpreter import (
    Interpreter,
    find_interpreter,
    inspect_interpreter,
    interpreters_named,
    is_running,
)
from wheelfit.installation.isolated.interpreter import PREFIX
from wheelfit_runtime.errors import EnvironmentUnavailable, PolicyRefusal, UserError
from wheelfit_runtime.platforms.cache_folder import state_folder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wheelfit.core.target import Target
    from wheelfit.installation.installed import Installed, Scan
    from wheelfit.sources.cache import Store


class DestinationKind(StrEnum):
    """The kind of destination, which decides where files go."""

    ENVIRONMENT = "environment"
    """The folders of the interpreter, without one of the following options."""
    PREFIX = "prefix"
    """A prefix given by the user, laid out as the interpreter would (``--prefix``)."""
    ROOT = "root"
    """A root given by the user, below which all paths lie (``--root``)."""
    TARGET = "target"
    """A flat folder given by the user (``--target``)."""


class ScriptOptions(NamedTuple):
    """The options for the scripts that start the commands of wheels."""

    launcher: str
    """Kind of script launcher, in the words of PyPA's ``installer``, such as ``posix``."""
    python: str
    """The interpreter in the first line of the scripts."""


class _EnvironmentFields(NamedTuple):
    interpreter: Interpreter
    """The Python that runs the wheels and that the scripts name."""
    kind: DestinationKind
    """The kind of destination, which decided the folders."""
    schemes: Schemes
    """Where files are written."""
    runtime: Schemes
    """Where they lie at run time; differs from ``schemes`` below a root."""
    search: tuple[Path, ...]
    """Folders with installed distributions, in the order in which Python searches them."""
    folder: Path | None = None
    """The folder that encloses the environment; None for an installation of Python, which may be
    spread over the system."""
    signer: Signer = OF_THIS_PROCESS
    """Signs the journal of a change, for the process that finds it interrupted."""
    foreign_script_options: ScriptOptions | None = None
    """The options if the folder will be copied to another system; None: those of this system."""
    is_for_macos: bool = False
    """Whether the folder is to be copied to macOS, which usually ignores case."""


class Environment(_EnvironmentFields):
    """The destination of an installation, and the interpreter it is for."""

    @property
    def script_options(self) -> ScriptOptions:
        """The options for the scripts that start commands."""
        interpreter = self.interpreter
        return self.foreign_script_options or ScriptOptions(
            interpreter.launcher, str(interpreter.executable)
        )

    @property
    def is_windows(self) -> bool:
        """Whether the files will lie on Windows."""
        return self.script_options.launcher in _LAUNCHERS.values()

    def for_target(self, target: Target) -> Environment:
        """Return the environment with the launchers and file name rules of a target.

        Commands made elsewhere for Windows get launchers of Windows; they look for ``python.exe``
        beside themselves and then on ``PATH``, since its place is unknown here.
        """
        platforms = {tag.platform for tag in target.tags}
        launcher = next((kind for name, kind in _LAUNCHERS.items() if name in platforms), None)
        if any(name.startswith("macosx_") for name in platforms):
            return self._replace(is_for_macos=True)
        if launcher is None or launcher == self.interpreter.launcher:
            return self
        return self._replace(foreign_script_options=ScriptOptions(launcher, "python.exe"))

    @property
    def name(self) -> str:
        """The folder of the environment, as its name in messages."""
        match self.kind:
            case DestinationKind.ENVIRONMENT:
                return str(self.interpreter.prefix)
            case DestinationKind.TARGET:
                return str(self.schemes.purelib)
            case DestinationKind.PREFIX | DestinationKind.ROOT:
                return str(self.schemes.data)

    @property
    def stdlib(self) -> Path:
        """The folder of the standard library; with ``--root`` below the root."""
        stdlib = self.interpreter.stdlib
        if self.kind is DestinationKind.ROOT and self.folder is not None:
            return self.folder / stdlib.relative_to(stdlib.anchor)
        return stdlib

    @cached_property  # a thousand tags are ranked for it
    def target(self) -> Target:
        """The target to choose wheels for."""
        from wheelfit.core.target import Target  # recovery works without it

        interpreter = self.interpreter
        return Target.of(str(interpreter.executable), interpreter.environment, interpreter.tags)

    def scan(self) -> Scan:
        """Read the installed distributions, including broken ones."""
        from wheelfit.installation.installed import scan  # recovery works without it

        return scan(self.search, own=self.schemes.libraries())

    def installed(self) -> tuple[Installed, ...]:
        """Read the installed distributions; of one name the one imported comes first."""
        return self.scan().installed

    def check_allowed(self, *, break_system_packages: bool = False) -> None:
        """Raise if the environment belongs to another package manager (PEP 668).

        :raises PolicyRefusal: ``externally-managed``, unless the user overrides it.
        """
        text = self.interpreter.externally_managed
        if text is None or break_system_packages or self.kind is not DestinationKind.ENVIRONMENT:
            return
        raise PolicyRefusal(
            "this Python belongs to another package manager",
            code="externally-managed",
            where=self.name,
            note=_message_in(text),
            hint="install into a virtual environment; --break-system-packages installs anyway",
        )

    def real_folders(self) -> dict[str, str]:
        """Return the real path of each folder, by scheme name.

        A folder that lies elsewhere through a link in the environment's own folder is refused: the
        link may have come with that folder, and then the user did not choose where it leads.

        :raises LinkRefused: there is such a link.
        """
        folders = self.schemes.folders()
        real_paths = {name: os.path.realpath(folder) for name, folder in folders.items()}
        if self.folder is None:
            return real_paths
        enclosing_folder = os.path.realpath(self.folder)
        for name, folder in folders.items():
            if not folder.is_relative_to(self.folder):
                continue
            if not Path(real_paths[name]).is_relative_to(enclosing_folder):
                inside = [path for path in (folder, *folder.parents) if self.folder in path.parents]
                raise LinkRefused(
                    "a link leads out of the environment, and is not followed",
                    where=str(next((path for path in inside if path.is_symlink()), folder)),
                    note=f"it leads to {real_paths[name]}",
                    hint="nothing was changed; remove the link, or make a folder of it",
                )
        return real_paths

    def check_writable(self, folders: Iterable[Path] | None = None) -> None:
        """Raise if the environment cannot be written; for use before downloads.

        A folder that does not exist yet is judged by its nearest existing parent. The writing
        itself may still fail.

        :param folders: the folders to write to; None: libraries and scripts.
        :raises EnvironmentUnavailable: ``environment-read-only``; a folder cannot be written.
        :raises LinkRefused: a link leads out of the environment.
        """
        self.real_folders()
        if folders is None:
            folders = (*self.schemes.libraries(), self.schemes.scripts)
        for folder in folders:
            existing = nearest_existing(folder)
            if not existing.is_dir():
                raise EnvironmentUnavailable(
                    "a file is in the place of a folder of the environment",
                    code="environment-read-only",
                    where=str(existing),
                    hint="nothing was changed; move the file away, or name another environment",
                )
            if not os.access(existing, os.W_OK | os.X_OK):
                raise EnvironmentUnavailable(
                    "the environment cannot be written",
                    code="environment-read-only",
                    where=str(existing),
                    hint="use a virtual environment, or --target with a folder of your own",
                )


_LAUNCHERS = {"win_amd64": "win-amd64", "win_arm64": "win-arm64", "win32": "win-ia32"}
"""The launchers of Windows by platform tag."""


def nearest_existing(path: Path) -> Path:
    """Return the path itself or the nearest folder above that exists."""
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    return path


def _inspect_another(
    python: str,
    first_choice: Path,
    environ: Mapping[str, str],
    inspect: Callable[[Path], Interpreter],
    error: UnusableInterpreter,
    note: Callable[[str], object],
) -> Interpreter:
    """Inspect the other interpreters of a version, after the first one could not be used.

    For example, a shim of pyenv may stand for a version that is not installed.

    An interpreter of a virtual environment is never skipped: the user means that environment.

    :param first_choice: the first interpreter of the version, to which `error` belongs.
    :raises UnusableInterpreter: no other can be used either; with the reason of the last one.
    """
    candidates = list(interpreters_named(python, environ))
    if first_choice not in candidates:
        raise error
    for number, path in enumerate(candidates):
        if (path.parent.parent / "pyvenv.cfg").exists():
            break
        if path == first_choice:
            continue
        try:
            interpreter = inspect(path)
        except UnusableInterpreter as later_error:
            error = later_error
            continue
        for broken in candidates[:number]:
            note(f"skipped {broken}: it cannot be used as Python {python}")
        return interpreter
    raise error


def open_environment(
    python: str | None,
    *,
    environ: Mapping[str, str],
    system: bool = False,
    may_be_own: bool = False,
    prefix: Path | None = None,
    root: Path | None = None,
    target: Path | None = None,
    store: Callable[[], Store] | None = None,
    tags: bool = True,
    note: Callable[[str], object] = lambda _text: None,
    meanwhile: Callable[[], object] = lambda: None,
) -> Environment:
    """Return the environment that options describe; it is not changed and need not exist yet.

    :param python: path, folder of a virtual environment, command or version; None: the
        active environment, else ``.venv`` in the current folder or one above.
    :param system: ``--system``: the first Python on ``PATH`` outside of virtual environments.
    :param may_be_own: whether the environment that runs this process may be used if there is no
        other, because only its Python matters; with a prefix, root or target it always may.
    :param prefix: ``--prefix``: lay everything out below this folder.
    :param root: ``--root``: put everything below this folder as if it were ``/``; may be
        combined with ``prefix``.
    :param target: ``--target``: put everything flat into this folder.
    :param store: opens the cache of interpreters' facts; None: each interpreter is run.
    :param tags: whether wheels will be chosen for it; if not, only the standard library is used.
    :param note: called for interpreters on ``PATH`` that were skipped because they do not work.
    :param meanwhile: called while an interpreter that has to be started describes itself.
    :raises UsageError: ``target`` together with another of the three, or one that is not a folder.
    :raises UnusableInterpreter: there is no such interpreter, or it cannot be used.
    :raises UserError: ``no-environment``; no environment is named, active or in a folder above.
    """
    if system and python is not None:
        raise UsageError("--system and --python cannot be used together")
    if target is not None and (prefix is not None or root is not None):
        other = "--prefix" if prefix is not None else "--root"
        raise UsageError(f"--target and {other} cannot be used together")
    for option, folder in (("--target", target), ("--prefix", prefix), ("--root", root)):
        if folder is not None:
            path = _absolute(folder)
            if os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112 # never raise
                raise UsageError(f"{option} {folder} is not a folder", hint="name a folder")
    executable = find_interpreter(python, environ, Path.cwd(), system=system)
    if executable is None and not (may_be_own or prefix or root or target):
        raise UserError(
            "no virtual environment found",
            code="no-environment",
            note=f"wheelfit's own, {sys.prefix}, is used only if it is named",
            hint="`wheelfit venv` creates one here; --python PATH names another, --system the "
            "Python of the system",
        )
    if executable is not None and is_running(executable):
        executable = None

    def inspect(path: Path | None) -> Interpreter:
        return inspect_interpreter(path, environ, store=store, tags=tags, meanwhile=meanwhile)

    try:
        interpreter = inspect(executable)
    except UnusableInterpreter as error:
        if python is None or executable is None:
            raise
        interpreter = _inspect_another(python, executable, environ, inspect, error, note)
    kind, runtime = DestinationKind.ENVIRONMENT, interpreter.schemes.with_one_library()
    enclosing_folder = interpreter.prefix if (interpreter.prefix / "pyvenv.cfg").is_file() else None
    search = tuple(dict.fromkeys((*runtime.libraries(), *interpreter.site_packages)))
    if target is not None:
        kind, runtime = DestinationKind.TARGET, _flat(_absolute(target))
        search = runtime.libraries()
        enclosing_folder = runtime.purelib
    if prefix is not None:
        kind = DestinationKind.PREFIX
        enclosing_folder = _absolute(prefix)
        runtime = interpreter.prefix_schemes.moved(PREFIX, _absolute(prefix))
        search = runtime.libraries()
    schemes = runtime
    if root is not None:
        kind, schemes = DestinationKind.ROOT, runtime.below(_absolute(root))
        search = schemes.libraries()
        enclosing_folder = _absolute(root)
    signer = Signer(Path(state_folder_of(environ)))
    return Environment(interpreter, kind, schemes, runtime, search, enclosing_folder, signer)


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111  # links stay as named


def _flat(folder: Path) -> Schemes:
    # As with pip: the "home" layout, but libraries are directly in the folder.
    return Schemes(
        purelib=folder,
        platlib=folder,
        headers=folder / "include",
        scripts=folder / "bin",
        data=folder,
    )


def _message_in(text: str) -> str | None:
    """Read the message for users in EXTERNALLY-MANAGED (PEP 668)."""
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
        return parser.get("externally-managed", "Error", fallback="").strip() or None
    except configparser.Error:
        return None
