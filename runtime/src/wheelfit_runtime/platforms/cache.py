"""Cache the answers of child processes between runs (P-22).

An answer is used as long as nothing has changed on which it may depend: the program or script and
the libraries it loads, the boot, kernel and drivers, the devices that this process may open, its
container, the interpreter, the variables that affect drivers. Facts about processors are not
cached, as reading them takes less time than reading a file.

No error is raised. An entry that cannot be read, is damaged, or belongs to another user is ignored;
a folder that cannot be written keeps nothing.
"""
# Names are the machine's, as in `wheelfit_runtime.platforms.system_view`.
# ruff: noqa: PTH105, PTH108, PTH115, PTH118, PTH120

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from wheelfit_runtime import __version__
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.cache_folder import is_own, make_folders, unsafe_cache_folder
from wheelfit_runtime.platforms.child_processes import from_mapping, to_mapping
from wheelfit_runtime.platforms.system_view import LOADER_CACHE, SystemView, open_without_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wheelfit_runtime.platforms.child_processes import Answer, Processes, Question

_FORMAT = 1
_BOOT = "/proc/sys/kernel/random/boot_id"
_MAX_ENTRY_SIZE = 32 * 1024 * 1024
"""Bytes of the largest entry that is read."""
_MAX_ENTRIES = 256
"""Entries kept, of all machines that share the folder; the newest."""

_LIBRARY_FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/lib/wsl/lib")
_TEXT_FILES = (
    "/etc/machine-id",
    "/proc/sys/kernel/osrelease",
    "/proc/self/cgroup",
)
"""Files on whose text an answer may depend, besides those of drivers."""
_NODES = ("dxg",)
"""Prefixes of device names below ``/dev``, besides those of a family."""
_NAMESPACES = ("cgroup", "mnt", "user")
"""The namespaces that identify a container."""
_VARIABLES = ("LD_", "PATH", "WHEELFIT_")
"""Prefixes of variables on which an answer may depend, besides those of drivers."""


class CachedProcesses:
    """Child processes with answers cached until the machine is restarted.

    Only answers of children known to have ended with status 0 are cached.

    :param folder: returns the folder of the cache, or None for no cache; called when a child is to
        be run. The folder is created when an entry is written.
    :param view: the view of the machine; unless it is the machine this runs on, and has a boot id,
        nothing is cached.
    :param use_cache: whether an answer may come from the cache; otherwise every child is run, and
        its answer cached for others.
    """

    def __init__(
        self,
        processes: Processes,
        folder: Callable[[], str | None],
        view: SystemView,
        *,
        use_cache: bool = True,
    ) -> None:
        self.cached_names: list[str] = []
        """Names of the questions that were answered from the cache."""
        self._processes = processes
        self._folder = folder
        self._view = view
        self._use_cache = use_cache

    def ask(self, question: Question) -> Answer:
        """Return the cached answer, or run the child and cache its answer."""
        has_boot = self._view.is_real and self._view.read_text(_BOOT)
        folder = self._folder() if has_boot else None
        if folder is None or unsafe_cache_folder(folder):
            return self._processes.ask(question)
        key = _digest(cache_key_parts(question, self._view))
        path = os.path.join(folder, f"{key}.json")
        answer = _read(path, key) if self._use_cache else None
        if answer is not None:
            self.cached_names.append(question.name)
            return answer
        answer = self._processes.ask(question)
        if not answer.succeeded or answer.is_uncertain:
            return answer
        # The answer may or may not include a change made while the child ran.
        if _digest(cache_key_parts(question, self._view)) == key:
            _write(path, key, question, answer)
            _remove_oldest(folder)
        return answer


def cache_key_parts(question: Question, view: SystemView) -> Iterator[str]:
    """Yield everything on which the answer to a question may depend."""
    yield from (f"format {_FORMAT}", f"wheelfit {__version__}", f"data {question.version}")
    yield f"question {question.name}"
    yield from (f"argument {argument}" for argument in question.arguments)
    yield from (f"file {_identity(path)}" for path in _files(question, view))
    yield f"boot {view.read_text(_BOOT)}"
    hardware = providers.families()
    text_files = (*_TEXT_FILES, *(name for family in hardware for name in family.driver_files))
    yield from (f"text {name}: {view.read_text(name)}" for name in text_files)
    list_folders = (name for family in hardware for name in family.driver_folders)
    yield from (f"list {name}: {' '.join(view.children(name))}" for name in list_folders)
    yield from (f"device {_device(path)}" for path in _devices(view))
    for name in _NAMESPACES:
        with suppress(OSError):
            yield f"namespace {os.readlink(f'/proc/self/ns/{name}')}"
    if hasattr(os, "getgroups"):
        yield f"user {os.getuid()} {os.getgid()} {sorted(os.getgroups())}"
    yield f"interpreter {sys.version} {view.interpreter} {view.system} {view.architecture}"
    prefixes = (*_VARIABLES, *(name for family in hardware for name in family.steering_variables))
    for name, value in sorted(question.environ.items()):
        if name.startswith(prefixes):
            yield f"variable {name}={value}"


def _files(question: Question, view: SystemView) -> Iterator[str]:
    """Yield the files that a child runs or loads, as far as its arguments show them."""
    yield LOADER_CACHE
    folders = [*question.environ.get("LD_LIBRARY_PATH", "").split(":"), *_LIBRARY_FOLDERS]
    folders += [f"{folder}/{view.architecture}-linux-gnu" for folder in _LIBRARY_FOLDERS[:2]]
    for argument in question.arguments:
        name = argument.partition("=")[2] or argument  # as nvml=/usr/lib/libnvidia-ml.so.1
        if "/" in name:
            yield name
        elif ".so" in name:
            yield from (f"{folder}/{name}" for folder in folders if folder)


def _identity(path: str) -> str:
    """Return the identity of a file, of both a link and its target."""
    real = os.path.realpath(path)
    try:
        status = os.stat(real)  # noqa: PTH116
    except OSError:
        return f"{path} does not exist"
    return f"{path} {real} {status.st_size} {status.st_mtime_ns} {status.st_ino} {status.st_dev}"


def _devices(view: SystemView) -> Iterator[str]:
    """Yield the device files of accelerators, and those in their folders."""
    nodes = (*_NODES, *(name for family in providers.families() for name in family.nodes))
    for name in view.children("/dev"):
        if name.startswith(nodes):
            yield f"/dev/{name}"
            yield from (
                f"/dev/{name}/{name_inside}" for name_inside in view.children(f"/dev/{name}")
            )


def _device(path: str) -> str:
    """Return the identity of a device, and whether this process may open it (cgroups)."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return f"{path} is out of reach"
    is_openable = os.access(path, os.R_OK | os.W_OK)
    return (
        f"{path} {status.st_mode:o} {status.st_rdev} {status.st_uid} {status.st_gid} {is_openable}"
    )


def _digest(lines: Iterable[str]) -> str:
    import hashlib

    text = "\0".join(lines).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()[:40]


def _read(path: str, key: str) -> Answer | None:
    """Return the answer in a valid entry of this user, or None."""
    import json

    try:
        with open(path, "rb", opener=open_without_blocking) as file:
            status = os.fstat(file.fileno())
            if not is_own(status) or not stat.S_ISREG(status.st_mode):
                return None
            entry = json.loads(file.read(_MAX_ENTRY_SIZE))
        if entry["format"] != _FORMAT or entry["key"] != key:
            return None
        answer = from_mapping(entry["answer"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return answer if answer.succeeded else None


def _write(path: str, key: str, question: Question, answer: Answer) -> None:
    """Write an entry, whole or not at all."""
    import json
    import tempfile

    entry = {"format": _FORMAT, "key": key, "question": question.name, "answer": to_mapping(answer)}
    with suppress(OSError):
        folder = os.path.dirname(path)
        make_folders(folder)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(json.dumps(entry).encode())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def _remove_oldest(folder: str) -> None:
    """Remove the oldest entries, as those from before a restart, beyond the limit."""
    with suppress(OSError):
        paths = [entry.path for entry in os.scandir(folder)]
        for path in sorted(paths, key=os.path.getmtime, reverse=True)[_MAX_ENTRIES:]:
            os.unlink(path)
