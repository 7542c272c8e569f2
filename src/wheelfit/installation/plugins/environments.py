"""Environments in which plugins run: built once, apart from everything else, and reused (P-38).

Each is a virtual environment without pip for one interpreter and one exact set of wheels. It is
built under a temporary name and renamed when it is complete. Before each use every file in it is
compared with its recorded hash, so a damaged or changed environment is rebuilt.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
import weakref
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from wheelfit.errors import EnvironmentBusy
from wheelfit.installation.apply import apply
from wheelfit.installation.environment import open_environment
from wheelfit.installation.plan import Plan
from wheelfit.installation.virtual_environments import create_virtual_environment
from wheelfit.sources.urls import redact
from wheelfit.wheels.atomic_write import write_file
from wheelfit.wheels.linking import Linker, LinkMode
from wheelfit.wheels.record import sha256_of_file
from wheelfit_runtime.errors import EnvironmentUnavailable, HashMismatch, os_reason
from wheelfit_runtime.platforms.cache_folder import (
    is_own,
    make_folders,
    unsafe_cache_folder,
    unsafe_folder,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.installation.interpreter import Interpreter
    from wheelfit.resolution.resolution import Pin
    from wheelfit.wheels.unpacked import UnpackedWheel

FOLDER = "plugins"
"""Name of the folder within the cache."""

_RECORD = "wheelfit-plugin.json"
_VERSION = 1
_LOCK_TIMEOUT = 300.0
"""Seconds to wait for another process that builds the same environment."""
_MAX_RECORD_SIZE = 64 << 20
"""Bytes of the longest record."""


@dataclass(frozen=True, slots=True)
class PluginEnvironment:
    """A complete environment of a plugin."""

    folder: Path
    python: Path
    files: Mapping[str, str] = field(hash=False)
    """The installed wheels: file name to SHA-256."""
    sources: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)
    """The sources of the wheels, without credentials: file name to source."""


class PluginEnvironments:
    """The environments of plugins in one folder.

    :param folder: the folder; None: a private temporary folder, removed with this object.
    :param note: called with the reason a folder is not used.
    """

    def __init__(
        self,
        folder: Path | None,
        environ: Mapping[str, str],
        note: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._environ = environ
        self._temporary: Path | None = None
        if folder is not None and (fault := _make_private(folder)) is not None:
            note(f"{folder} is not used for plugins: {fault}")
            folder = None
        self._persistent_folder = folder

    @property
    def folder(self) -> Path:
        """The folder of the environments."""
        if self._persistent_folder is not None:
            return self._persistent_folder
        if self._temporary is None:
            self._temporary = Path(os.path.realpath(tempfile.mkdtemp(prefix="wheelfit-plugins-")))
            weakref.finalize(self, shutil.rmtree, self._temporary, ignore_errors=True)
        return self._temporary

    def find(self, interpreter: Interpreter, files: Mapping[str, str]) -> PluginEnvironment | None:
        """Return the environment for an exact set of wheels, if it exists and is unchanged."""
        folder = self.folder / _key(interpreter, files)
        if fault_of_folder(folder) is not None:
            return None
        record = _read_json(folder / _RECORD)
        if record.get("files") != dict(files) or record.get("tree") != _file_tree(folder):
            return None
        python = folder / record.get("python", "")
        if not python.exists():
            return None
        sources = record.get("sources")
        return PluginEnvironment(
            folder, python, files, sources if isinstance(sources, dict) else {}
        )

    def build(
        self,
        interpreter: Interpreter,
        pins: Sequence[Pin],
        wheels: Mapping[NormalizedName, UnpackedWheel],
        files: Mapping[str, str],
    ) -> PluginEnvironment:
        """Return the environment for an exact set of wheels, built if it is missing or damaged.

        :param pins: the wheels to install, dependencies first.
        :param files: file name to SHA-256, of all of them.
        :raises HashMismatch: a file has another hash; nothing is installed.
        :raises EnvironmentUnavailable: it cannot be built.
        :raises IntegrityError: a wheel is not valid.
        """
        for pin in pins:
            actual = wheels[pin.name].sha256
            if actual != files[pin.filename.text]:
                raise HashMismatch(
                    algorithm="sha256",
                    expected=[files[pin.filename.text]],
                    actual=actual,
                    where=redact(pin.file.url),
                )
        key = _key(interpreter, files)
        with self._locked(key):
            existing = self.find(interpreter, files)
            if existing is not None:
                return existing
            for leftover in self.folder.glob(f".{key}-*"):  # by a process that was killed
                shutil.rmtree(leftover, ignore_errors=True)
            stage = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=self.folder))
            try:
                self._fill(stage, interpreter, pins, wheels, files)
                folder = self.folder / key
                if os.path.lexists(folder):  # damaged, or `find` would have returned it
                    folder.rename(stage.with_name(f"{stage.name}-old"))
                    shutil.rmtree(stage.with_name(f"{stage.name}-old"), ignore_errors=True)
                stage.rename(folder)
            except OSError as error:
                raise EnvironmentUnavailable(
                    f"the environment for a plugin cannot be built: {os_reason(error)}",
                    where=str(self.folder),
                ) from None
            finally:
                shutil.rmtree(stage, ignore_errors=True)
        built = self.find(interpreter, files)
        if built is None:
            raise EnvironmentUnavailable(
                "the environment for a plugin changed while it was built",
                where=str(self.folder / key),
            )
        return built

    def cached_files(self, key_text: str) -> Mapping[str, str] | None:
        """Return the wheels stored under a key, with their hashes; None if there are none.

        :param key_text: a text with everything that the wheels depend on.
        """
        files = _read_json(self._path_of_files(key_text)).get("files")
        if not isinstance(files, dict) or not files:
            return None
        return {str(name): str(digest) for name, digest in files.items()}

    def cache_files(self, key_text: str, files: Mapping[str, str]) -> None:
        """Store the hashes of wheels under a key; errors of the disk are ignored."""
        with suppress(OSError):
            data = json.dumps({"version": _VERSION, "files": dict(files)}).encode()
            write_file(self._path_of_files(key_text), data, private=True, sync=False)

    def _path_of_files(self, key_text: str) -> Path:
        return self.folder / f"{_digest(key_text)}.json"

    def _fill(
        self,
        stage: Path,
        interpreter: Interpreter,
        pins: Sequence[Pin],
        wheels: Mapping[NormalizedName, UnpackedWheel],
        files: Mapping[str, str],
    ) -> None:
        create_virtual_environment(interpreter.executable, stage, self._environ)
        environment = open_environment(str(stage), environ=self._environ)
        python = environment.interpreter.executable.relative_to(stage)
        # Scripts name the interpreter by its final path.
        final = self.folder / _key(interpreter, files) / python
        environment = environment._replace(
            interpreter=environment.interpreter._replace(executable=final)
        )
        # No hard links: a file edited in another environment must not run here.
        linker = Linker(LinkMode.REFLINK)
        apply(Plan(install=tuple(pins)), environment, wheels, linker=linker)
        record = {
            "version": _VERSION,
            "interpreter": _identity(interpreter),
            "python": python.as_posix(),
            "files": dict(files),
            "sources": {pin.filename.text: redact(pin.file.source) for pin in pins},
            "tree": _file_tree(stage),
        }
        (stage / _RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        lock = FileLock(self.folder / f"{key}.lock", timeout=_LOCK_TIMEOUT, poll_interval=0.05)
        try:
            lock.acquire()
        except Timeout:
            raise EnvironmentBusy(
                f"another process is building the same environment (waited {_LOCK_TIMEOUT:g} s)",
                where=str(self.folder),
                hint="try again when it has finished",
            ) from None
        except OSError as error:
            raise EnvironmentUnavailable(
                f"the folder for plugins cannot be written: {os_reason(error)}",
                where=str(self.folder),
            ) from None
        try:
            yield
        finally:
            lock.release()


def environments_with(folder: Path, digests: Iterable[str]) -> Iterator[Path]:
    """Yield the environments in a folder that have any of some wheels."""
    hashes = set(digests)
    for record in sorted(folder.glob(f"*/{_RECORD}")):
        files = _read_json(record).get("files")
        if isinstance(files, dict) and hashes.intersection(map(str, files.values())):
            yield record.parent


def fault_of_folder(folder: Path) -> str | None:
    """Return the reason that programs in a folder may not be run, as a clause; None if they may."""
    try:
        status = folder.lstat()
    except OSError as error:
        return f"it cannot be read: {os_reason(error)}"
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    unsafe = unsafe_folder(str(folder))
    return None if unsafe is None else unsafe.reason


def _make_private(folder: Path) -> str | None:
    """Create a folder that only this user can change; return the reason if that is not possible."""
    if (unsafe := unsafe_cache_folder(str(folder.parent))) is not None:
        return f"{unsafe.path} is not safe: {unsafe.reason}; {unsafe.remedy}"
    try:
        make_folders(str(folder))
    except OSError as error:
        return f"it cannot be created: {os_reason(error)}"
    fault = fault_of_folder(folder)
    if fault is None and not os.access(folder, os.W_OK | os.X_OK):
        return "it cannot be written"
    return fault


def _identity(interpreter: Interpreter) -> list[str]:
    return [
        os.path.realpath(interpreter.executable),
        ".".join(map(str, interpreter.version)),
        interpreter.implementation,
        str(interpreter.tags[0]) if interpreter.tags else "",
    ]


def _key(interpreter: Interpreter, files: Mapping[str, str]) -> str:
    return _digest(json.dumps([_VERSION, _identity(interpreter), sorted(files.items())]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object that this user wrote; empty if it is missing or not valid."""
    try:
        with path.open("rb") as file:
            if not is_own(os.fstat(file.fileno())):
                return {}
            value = json.loads(file.read(_MAX_RECORD_SIZE))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) and value.get("version") == _VERSION else {}


def _file_tree(folder: Path) -> dict[str, str]:
    """Return everything in an environment: files by hash and links by target."""
    tree: dict[str, str] = {}
    for parent, folders, names in os.walk(folder):
        for name in sorted((*folders, *names)):
            path = Path(parent, name)
            key = path.relative_to(folder).as_posix()
            if key == _RECORD:
                continue
            if path.is_symlink():
                tree[key] = f"-> {path.readlink()}"
            elif path.is_file():
                tree[key] = sha256_of_file(path)
            else:
                tree[key] = "folder"
    return tree
