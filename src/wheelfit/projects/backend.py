"""Calls of a project's build backend (PEP 517, PEP 660) in its build environment.

The library ``build`` calls the hooks, and has the defaults for projects without a backend. The
output of a backend goes into a log. If the backend fails, the error has its last lines, and the log
is kept.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import build

from wheelfit.errors import BuildFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

DistributionKind: TypeAlias = Literal["wheel", "editable", "sdist"]
"""The distribution to build; the metadata of an sdist cannot be requested."""
ConfigSettings: TypeAlias = "Mapping[str, str | Sequence[str]]"

PASSTHROUGH_VARIABLE = "WHEELFIT_BACKEND_PASSES_ON"
"""The variable by which `wheelfit.backend` recognises these calls, and passes them on unchanged."""
_SHOWN_LINES = 20
"""Last lines of the log in an error."""
_TAIL_SIZE = 64 << 10
"""Bytes of the log that are read for these lines."""
_TICK_INTERVAL = 0.1
"""Seconds between two calls of a function that prints new output."""


class BuildEnvironment(Protocol):
    """An environment in which a backend runs and that takes further packages."""

    @property
    def python(self) -> Path:
        """The interpreter with the backend installed."""

    @property
    def environ(self) -> Mapping[str, str]:
        """All environment variables of the backend's processes."""

    @property
    def marker_environment(self) -> Mapping[str, str]:
        """The variables of environment markers."""

    def add(self, requirements: Iterable[str], required_by: str) -> None:
        """Install build requirements.

        :param required_by: the name of the project to build.
        :raises WheelfitError: a requirement is not available.
        """


class BackendProcesses:
    """The running processes of backends, all of which `close` ends."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = Lock()
        self._is_closed = False

    def close(self) -> None:
        """End every backend that still runs, with its child processes."""
        with self._lock:
            self._is_closed = True
            running = tuple(self._running)
        for process in running:
            _kill(process)

    def run(
        self,
        command: Sequence[str],
        folder: str | None,
        environ: Mapping[str, str],
        log: Path,
        tick: Callable[[], None],
    ) -> None:
        """Run a program to its end.

        :param folder: the current folder; None for that of this process.
        :param log: the file that the output is appended to.
        :param tick: called at intervals while the program runs, and once at the end.
        :raises subprocess.CalledProcessError: it failed.
        """
        with log.open("ab") as output:
            with self._lock:
                if self._is_closed:
                    raise subprocess.CalledProcessError(1, list(command))
                process = subprocess.Popen(
                    list(command),
                    cwd=folder,
                    env=dict(environ),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # so that its compilers end with it
                )
                self._running.add(process)
            try:
                while True:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(_TICK_INTERVAL)
                        break
                    tick()
                tick()
            finally:
                if process.returncode is None:
                    _kill(process)
                with self._lock:
                    self._running.discard(process)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, list(command))


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(1)


class Backend:
    """The build backend of one project.

    :param name: the name of the project in errors.
    :param python: the interpreter that runs hooks; `requires` must be installed for it first.
    :param environ: all environment variables of the backend's processes.
    :param log: the file for the output of the backend.
    :param children: the processes to which those of the backend are added.
    :param echo: called with every line of output; None: the output is only in the log.
    :raises BuildFailed: the folder has no project, or its ``[build-system]`` is invalid.
    """

    def __init__(
        self,
        project: Path,
        name: str,
        python: Path,
        environ: Mapping[str, str],
        *,
        settings: ConfigSettings,
        log: Path,
        children: BackendProcesses,
        echo: Callable[[str], None] | None = None,
    ) -> None:
        self._name = name
        self._environ = environ
        self._settings = {
            key: value if isinstance(value, str) else list(value) for key, value in settings.items()
        }
        self._log = log
        self._children = children
        self._echo = echo
        self._echoed = 0
        """Bytes of the log that were echoed."""
        self._has_returned_list = True
        """Whether the last hook returned a list."""
        with self._failures_explained("read"):
            self._builder = build.ProjectBuilder(project, str(python), self._run)

    @property
    def requires(self) -> tuple[str, ...]:
        """The requirements before any hook is called (PEP 518)."""
        return tuple(sorted(self._builder.build_system_requires))

    def requires_for_build(self, kind: DistributionKind) -> tuple[str, ...]:
        """Return the requirements that the backend adds for a kind of distribution."""
        with self._failures_explained(f"asked for the requirements of {_KIND_IN_WORDS[kind]}"):
            requirements = self._builder.get_requires_for_build(kind, self._settings)
            # The library converts any value to a set, even a string.
            are_texts = all(isinstance(text, str) for text in requirements)
            if not (self._has_returned_list and are_texts):
                raise build.BuildException("its backend did not return a list of requirements")
            return tuple(sorted(requirements))

    def metadata(self, kind: DistributionKind, folder: Path) -> bytes | None:
        """Return the METADATA of the wheel to build; None if the backend has no hook for it.

        :param folder: an empty folder for the dist-info folder.
        """
        with self._failures_explained("asked for its metadata"):
            try:
                result = self._builder.prepare(kind, folder, self._settings)
            except TypeError:  # the backend returned something else than the name of a folder
                raise build.BuildException(
                    "its backend returned no folder name for the metadata"
                ) from None
            if result is None:
                return None
            dist_info = Path(result).resolve()
            if dist_info.parent != folder.resolve():
                raise build.BuildException(
                    f"its backend put the metadata into another folder: {result}"
                )
            return (dist_info / "METADATA").read_bytes()

    def build(self, kind: DistributionKind, folder: Path) -> Path:
        """Build a distribution and return its path; its content is not checked."""
        with self._failures_explained(f"built as {_KIND_IN_WORDS[kind]}"):
            noun = "source distribution" if kind == "sdist" else "wheel"
            try:
                path = Path(self._builder.build(kind, folder, self._settings))
            except TypeError:  # the backend returned something else than a file name
                raise build.BuildException(
                    f"its backend returned no file name of a {noun}"
                ) from None
            if path.resolve().parent != folder.resolve() or not path.is_file():
                raise build.BuildException(
                    f"its backend did not put the {noun} {path.name} into the requested folder"
                )
            return path

    def _run(
        self,
        cmd: Sequence[str],
        cwd: str | None = None,
        extra_environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = {**self._environ, PASSTHROUGH_VARIABLE: "1", **(extra_environ or {})}
        try:
            self._children.run(cmd, cwd, environ, self._log, self._echo_output)
        finally:
            self._echo_output(is_complete=True)
        # The file by which the library gets the result of a hook.
        with suppress(OSError, ValueError, LookupError, TypeError):
            result = json.loads(Path(cmd[-1], "output.json").read_bytes())["return_val"]
            self._has_returned_list = isinstance(result, list)

    def _echo_output(self, *, is_complete: bool = False) -> None:
        """Echo the lines that were added to the log.

        :param is_complete: whether the process has ended, so that a line without an end is whole.
        """
        if self._echo is None:
            return
        with self._log.open("rb") as file:
            file.seek(self._echoed)
            data = file.read()
        size = len(data) if is_complete else data.rfind(b"\n") + 1
        self._echoed += size
        for line in data[:size].decode("utf-8", "replace").splitlines():
            self._echo(line)

    @contextmanager
    def _failures_explained(self, action: str) -> Iterator[None]:
        """Raise `BuildFailed` for errors of the backend and the library.

        :param action: the participle in "NAME cannot be …", such as ``read``.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        except build.BuildBackendException as error:
            cause = error.exception
            if isinstance(cause, subprocess.CalledProcessError):
                code = cause.returncode
                ending = (
                    f"backend was ended by signal {-code}" if code < 0 else "build backend failed"
                )
                raise self._failure(action, f"its {ending}") from None
            # If the backend cannot be imported, the library has the output.
            output = str(getattr(cause, "traceback", "")).strip().splitlines()
            raise self._failure(action, str(error).partition("\n")[0], output) from None
        except (build.BuildException, OSError, ValueError) as error:
            raise self._failure(action, str(error).partition("\n")[0]) from None

    def _failure(self, action: str, reason: str, output: Sequence[str] = ()) -> BuildFailed:
        lines = [*_last_lines(self._log), *output][-_SHOWN_LINES:]
        copy = _copy_log(self._log) if _last_lines(self._log) else None
        hint = "that file has all output of the build backend"
        return BuildFailed(
            f"{self._name} cannot be {action}: {reason}",
            where=None if copy is None else str(copy),
            note="\n".join(lines) or None,
            hint="report it to the project's maintainers" if copy is None else hint,
        )


_KIND_IN_WORDS = {
    "wheel": "a wheel",
    "editable": "an editable wheel",
    "sdist": "a source distribution",
}


def _copy_log(log: Path) -> Path | None:
    """Copy a log out of the folder of the build, and return the path; None if that fails."""
    try:
        handle, name = tempfile.mkstemp(prefix="wheelfit-build-", suffix=".log")
        os.close(handle)
        return Path(shutil.copyfile(log, name))
    except OSError:
        return None


def _last_lines(log: Path) -> list[str]:
    """Return the last lines of a log that are not blank."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_SIZE))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-_SHOWN_LINES:]
