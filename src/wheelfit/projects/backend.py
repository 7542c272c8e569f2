"""Call the build backend of a project (PEP 517, PEP 660) in a given environment.

The library ``build`` provides the hooks and the defaults for projects without a backend. The output
of a backend goes into a log; its end is in the error when it fails, and the whole is kept.
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
    from collections.abc import Callable, Iterator, Mapping, Sequence

Kind: TypeAlias = Literal["wheel", "editable", "sdist"]
"""The hooks to call; of a source distribution no metadata can be requested."""
ConfigSettings: TypeAlias = "Mapping[str, str | Sequence[str]]"

PASSES_ON = "WHEELFIT_BACKEND_PASSES_ON"
"""The variable that marks calls from here for `wheelfit.backend`: it passes all on."""
_LINES = 20
_TAIL = 64 << 10
_MOST_KEPT = 32 << 20
_MOMENT = 0.1


class BuildEnvironment(Protocol):
    """The environment in which a backend runs."""

    @property
    def python(self) -> Path:
        """The interpreter that has the backend."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The whole environment of its processes."""


class Children:
    """The running processes of backends, so that none outlives its caller."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = Lock()
        self._closed = False

    def close(self) -> None:
        """End every backend that still runs, with everything it started."""
        with self._lock:
            self._closed = True
            running = tuple(self._running)
        for process in running:
            _kill(process)

    def run(
        self,
        words: Sequence[str],
        folder: str | None,
        environ: Mapping[str, str],
        log: Path,
        tick: Callable[[], None],
    ) -> None:
        """Run a program to its end.

        :raises subprocess.CalledProcessError: it failed.
        """
        with log.open("ab") as output:
            with self._lock:
                if self._closed:
                    raise subprocess.CalledProcessError(1, list(words))
                process = subprocess.Popen(
                    list(words),
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
                        process.wait(_MOMENT)
                        break
                    tick()
                tick()
            finally:
                if process.returncode is None:
                    _kill(process)
                with self._lock:
                    self._running.discard(process)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, list(words))


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(1)


class Backend:
    """The build backend of one project.

    :param environment: the environment of the backend; must have the requirements of `requires`.
    :param echo: called with every line that it prints.
    :raises BuildFailed: the folder holds no project, or its ``[build-system]`` is wrong.
    """

    def __init__(
        self,
        project: Path,
        name: str,
        environment: BuildEnvironment,
        *,
        settings: ConfigSettings,
        log: Path,
        children: Children,
        echo: Callable[[str], None] | None = None,
    ) -> None:
        self._name = name
        self._environment = environment
        self._settings = {
            key: value if isinstance(value, str) else list(value) for key, value in settings.items()
        }
        self._log = log
        self._children = children
        self._echo = echo
        self._shown = 0
        self._gave_list = True
        with self._explained("read"):
            self._builder = build.ProjectBuilder(project, str(environment.python), self._run)

    @property
    def requires(self) -> tuple[str, ...]:
        """The requirements before any hook is called (PEP 518)."""
        return tuple(sorted(self._builder.build_system_requires))

    def further_requires(self, kind: Kind) -> tuple[str, ...]:
        """Return further requirements of the backend for this project."""
        with self._explained(f"asked what building {_THING[kind]} needs"):
            needs = self._builder.get_requires_for_build(kind, self._settings)
            # The library makes a set of any value, of a text a set of its letters.
            if not self._gave_list or not all(isinstance(need, str) for need in needs):
                raise build.BuildException("what its backend says is not a list of requirements")
            return tuple(sorted(needs))

    def metadata(self, kind: Kind, folder: Path) -> bytes | None:
        """Return the METADATA the wheel will have; None if only a build would show it."""
        with self._explained("asked for its metadata"):
            metadata_folder = self._builder.prepare(kind, folder, self._settings)
            if metadata_folder is None:
                return None
            place = Path(metadata_folder).resolve()
            if place.parent != folder.resolve():
                raise build.BuildException(
                    f"its metadata is not where it should be: {metadata_folder}"
                )
            return (place / "METADATA").read_bytes()

    def build(self, kind: Kind, folder: Path) -> Path:
        """Build it and return its path; nothing of it has been checked."""
        with self._explained(f"built as {_THING[kind]}"):
            what = "source distribution" if kind == "sdist" else "wheel"
            try:
                built = Path(self._builder.build(kind, folder, self._settings))
            except TypeError:  # from joining it to the folder
                raise build.BuildException(f"its backend names no {what}") from None
            if built.resolve().parent != folder.resolve() or not built.is_file():
                raise build.BuildException(f"there is no {what} where it should be: {built.name}")
            return built

    def _run(
        self,
        cmd: Sequence[str],
        cwd: str | None = None,
        extra_environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = {**self._environment.environ, PASSES_ON: "1", **(extra_environ or {})}
        self._children.run(cmd, cwd, environ, self._log, self._tell)
        with suppress(OSError, ValueError, LookupError, TypeError):  # it is there for the library
            said = json.loads(Path(cmd[-1], "output.json").read_bytes())["return_val"]
            self._gave_list = isinstance(said, list)

    def _tell(self) -> None:
        if self._echo is None:
            return
        with self._log.open("rb") as file:
            file.seek(self._shown)
            data = file.read()
        whole = data.rpartition(b"\n")[0]
        self._shown += len(whole) + bool(whole)
        for line in whole.decode("utf-8", "replace").splitlines():
            self._echo(line)

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
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
                raise self._failure(what, f"its {ending}") from None
            # Where it could not even be imported, the library keeps what was printed.
            said = str(getattr(cause, "traceback", "")).strip().splitlines()
            raise self._failure(what, str(error).partition("\n")[0], said) from None
        except (build.BuildException, OSError, ValueError) as error:
            raise self._failure(what, str(error).partition("\n")[0]) from None

    def _failure(self, what: str, why: str, said: Sequence[str] = ()) -> BuildFailed:
        last = [*_last_lines(self._log), *said][-_LINES:]
        kept = _kept(self._log) if _last_lines(self._log) else None
        hint = "that file has everything its build backend printed"
        if kept is not None and self._log.stat().st_size > _MOST_KEPT:
            hint = "that file has the beginning and the end of what its build backend printed"
        return BuildFailed(
            f"{self._name} cannot be {what}: {why}",
            where=None if kept is None else str(kept),
            note="\n".join(last) or None,
            hint="report it to the project's maintainers" if kept is None else hint,
        )


_THING = {
    "wheel": "a wheel",
    "editable": "an editable wheel",
    "sdist": "a source distribution",
}


def _kept(log: Path) -> Path | None:
    """Return a copy of a log that survives the folder of the build.

    Of a long log only the beginning and the end.
    """
    try:
        handle, name = tempfile.mkstemp(prefix="wheelfit-build-", suffix=".log")
        with log.open("rb") as file, os.fdopen(handle, "wb") as copy:
            left_out = os.fstat(file.fileno()).st_size - _MOST_KEPT
            if left_out <= 0:
                shutil.copyfileobj(file, copy)
                return Path(name)
            # The first error is at the beginning, what it came to at the end.
            copy.write(file.read(_MOST_KEPT // 2))
            copy.write(f"\n[... {left_out:,} bytes are left out ...]\n".encode())
            file.seek(-(_MOST_KEPT // 2), os.SEEK_END)
            copy.write(file.read(_MOST_KEPT // 2))
        return Path(name)
    except OSError:
        return None


def _last_lines(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-_LINES:]
