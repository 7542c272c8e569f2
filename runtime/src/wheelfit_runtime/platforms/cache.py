"""Cache the answers of child processes between runs (P-22).

An answer counts as long as nothing has changed on which it may depend: the program or script and
the libraries it loads, the boot, kernel and drivers, the devices this process sees and may open,
its container, the interpreter, the variables that steer drivers. Facts about processors are never
cached: they are read in less time than a file, and a folder shared by two machines must not mix
them up.

No error is raised. An entry that cannot be read, is damaged, or belongs to another user is ignored;
a folder that cannot be written keeps nothing.
"""
# Names are the machine's, as in `wheelfit_runtime.platforms.system_view`.
# ruff: noqa: PTH105, PTH106, PTH108, PTH115, PTH118, PTH120, PTH208

from __future__ import annotations

import os
import stat
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from wheelfit_runtime import __version__
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.cache_folder import (
    is_own,
    make_folders,
    unsafe_cache_folder,
    unsafe_folder,
)
from wheelfit_runtime.platforms.child_processes import from_mapping, to_mapping
from wheelfit_runtime.platforms.system_view import LOADER_CACHE, open_without_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wheelfit_runtime.platforms.child_processes import Answer, Processes, Question
    from wheelfit_runtime.platforms.system_view import SystemView

_FORMAT = 1
_BOOT = "/proc/sys/kernel/random/boot_id"
_LARGEST = 32 * 1024 * 1024
"""Bytes of the largest entry that is read."""
_MOST = 64
"""Entries kept for one boot; the newest."""
_STALE = 90 * 24 * 3600
"""Seconds after which what another machine left in a shared folder is swept."""

_LIBRARY_FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/lib/wsl/lib")
_TEXTS = (
    "/etc/machine-id",
    "/proc/sys/kernel/osrelease",
    "/proc/self/cgroup",
)
"""Files whose text an answer may depend on, besides those of drivers."""
_NODES = ("dxg",)
"""Prefixes of device names below ``/dev``, besides those of a family."""
_NAMESPACES = ("cgroup", "mnt", "user")
"""The namespaces that identify a container."""
_VARIABLES = ("LD_", "PATH", "WHEELFIT_")
"""Beginnings of variables an answer may depend on, besides those that drivers heed."""


class RememberingProcesses:
    """Child processes with answers cached until the machine is restarted.

    Only answers of children known to have ended with status 0 are cached.

    :param folder: returns where entries are kept, or None for nowhere; called when a child is to be
        run. The folder is made when an entry is written.
    :param seen: the view of the machine; if it is not the machine this runs on, or lacks the time
        of its start, nothing is cached.
    :param recall: whether an answer may come from the cache; otherwise every child is run, and its
        answer still cached for others.
    """

    def __init__(
        self,
        processes: Processes,
        folder: Callable[[], str | None],
        seen: SystemView,
        *,
        recall: bool = True,
    ) -> None:
        self.recalled: list[str] = []
        """Names of the questions that were answered from memory."""
        self._processes = processes
        self._folder = folder
        self._seen = seen
        self._recall = recall

    def ask(self, question: Question) -> Answer:
        """Return the cached answer, or run the child and cache its answer."""
        boot = self._seen.read_text(_BOOT) if self._seen.is_real else None
        top = self._folder() if boot else None
        if not boot or not top:
            return self._processes.ask(question)
        folder = os.path.join(top, _host(self._seen), _digest([boot]))
        if not _is_safe(top, folder):
            return self._processes.ask(question)
        key = _digest(circumstances(question, self._seen))
        path = os.path.join(folder, f"{key}.json")
        answer = _read(path, key) if self._recall else None
        if answer is not None:
            self.recalled.append(question.name)
            return answer
        answer = self._processes.ask(question)
        if not answer.succeeded or answer.is_uncertain:
            return answer
        # What changed while the child was looking belongs to neither side.
        if _digest(circumstances(question, self._seen)) == key:
            _write(path, key, question, answer)
            _sweep(top, folder)
        return answer


def circumstances(question: Question, seen: SystemView) -> Iterator[str]:
    """Yield, in order, everything the answer to a question may depend on."""
    yield from (f"format {_FORMAT}", f"wheelfit {__version__}", f"data {question.version}")
    yield f"question {question.name}"
    yield from (f"argument {argument}" for argument in question.arguments)
    yield from (f"file {_identity(path)}" for path in _files(question, seen))
    yield f"boot {seen.read_text(_BOOT)}"
    hardware = providers.every()
    texts = (*_TEXTS, *(name for family in hardware for name in family.driver_texts))
    yield from (f"text {name}: {seen.read_text(name)}" for name in texts)
    lists = (name for family in hardware for name in family.driver_lists)
    yield from (f"list {name}: {' '.join(seen.children(name))}" for name in lists)
    yield from (f"device {_device(path)}" for path in _devices(seen))
    for name in _NAMESPACES:
        with suppress(OSError):
            yield f"namespace {os.readlink(f'/proc/self/ns/{name}')}"
    if hasattr(os, "getgroups"):
        yield f"user {os.getuid()} {os.getgid()} {sorted(os.getgroups())}"
    yield f"interpreter {sys.version} {seen.interpreter} {seen.system} {seen.architecture}"
    steering = (*_VARIABLES, *(name for family in hardware for name in family.steering_variables))
    for name, value in sorted(question.environ.items()):
        if name.startswith(steering):
            yield f"variable {name}={value}"


def _files(question: Question, seen: SystemView) -> Iterator[str]:
    """Yield the files a child runs or loads, as far as its question names them."""
    yield LOADER_CACHE
    folders = [*question.environ.get("LD_LIBRARY_PATH", "").split(":"), *_LIBRARY_FOLDERS]
    folders += [f"{folder}/{seen.architecture}-linux-gnu" for folder in _LIBRARY_FOLDERS[:2]]
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


def _devices(seen: SystemView) -> Iterator[str]:
    """Yield the device files of accelerators, and those in their folders."""
    nodes = (*_NODES, *(name for family in providers.every() for name in family.nodes))
    for name in seen.children("/dev"):
        if name.startswith(nodes):
            yield f"/dev/{name}"
            yield from (f"/dev/{name}/{below}" for below in seen.children(f"/dev/{name}"))


def _device(path: str) -> str:
    """Return the identity of a device, and whether this process may open it.

    A group of processes may be kept from a device that is there (cgroups).
    """
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return f"{path} is out of reach"
    may = os.access(path, os.R_OK | os.W_OK)
    return f"{path} {status.st_mode:o} {status.st_rdev} {status.st_uid} {status.st_gid} {may}"


def _host(seen: SystemView) -> str:
    """Return a name for the machine, so that several may share a folder."""
    names = (seen.read_text("/etc/machine-id"), seen.read_text("/proc/sys/kernel/hostname"))
    return _digest(name or "" for name in names)


def _digest(lines: Iterable[str]) -> str:
    import hashlib

    text = "\0".join(lines).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()[:40]


def _read(path: str, key: str) -> Answer | None:
    """Return a sound entry of our own, or None."""
    import json

    try:
        with open(path, "rb", opener=open_without_blocking) as file:
            status = os.fstat(file.fileno())
            if not is_own(status) or not stat.S_ISREG(status.st_mode):
                return None
            entry = json.loads(file.read(_LARGEST))
        if entry["format"] != _FORMAT or entry["key"] != key:
            return None
        answer = from_mapping(entry["answer"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return answer if answer.succeeded else None


def _is_safe(top: str, folder: str) -> bool:
    """Return whether no other user could have written to the folder of a boot."""
    return unsafe_cache_folder(top) is None and not any(
        map(unsafe_folder, (os.path.dirname(folder), folder))
    )


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


def _sweep(top: str, current: str) -> None:
    """Remove this machine's entries from before its start, and excess ones since.

    Of other machines that share the folder only long unused entries are removed.
    """
    own = os.path.dirname(current)
    for place in _inside(own):
        if place != current:
            _remove(place)
    entries = sorted(_inside(current), key=_modified, reverse=True)
    for entry in entries[_MOST:]:
        with suppress(OSError):
            os.unlink(entry)
    for place in _inside(top):
        if place != own and _modified(place) < time.time() - _STALE:
            for boot in _inside(place):
                _remove(boot)
            _remove(place)


def _inside(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder)]
    except OSError:
        return []


def _modified(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return time.time()


def _remove(folder: str) -> None:
    """Remove a folder of entries; other files in it stay."""
    with suppress(OSError):
        for path in _inside(folder):
            if path.endswith((".json", ".tmp")):
                os.unlink(path)
        os.rmdir(folder)
