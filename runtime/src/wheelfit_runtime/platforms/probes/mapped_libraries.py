"""List the files that a running process has mapped as code, and their SONAMEs.

Only Linux lists them for any process of the same user, in ``/proc/PID/maps``; the answer for other
systems states that.
"""
# Paths are text with "/" on every system, since they are those of the described machine.
# ruff: noqa: PTH123

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.elf import read_shared_object

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

    from wheelfit_runtime.platforms.system_view import SystemView

_DELETED = " (deleted)"


@dataclass(frozen=True, slots=True)
class MappedFile:
    """A file whose code a process can run."""

    path: str
    """Its path in the process's own view of the file system."""
    device: str = ""
    """The device of its file system, as the kernel writes it: ``08:01``."""
    inode: int = 0
    deleted: bool = False
    """Whether the file was replaced or removed since the process mapped it."""

    @property
    def name(self) -> str:
        """The name without folders."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class MappedFiles:
    """The files of one process, or the reason they are unknown."""

    pid: int
    program: str = ""
    """The name of the process in the kernel."""
    environ: tuple[tuple[str, str], ...] = ()
    """The variables it was started with; empty if they may not be read."""
    files: tuple[MappedFile, ...] = ()
    problem: str = ""
    """Why there is no answer, a sentence without a final full stop; empty when there is one."""


def read(view: SystemView, pid: int | None) -> MappedFiles:
    """Return the files a process has mapped as code.

    :param pid: the process; None: this one.
    """
    number = os.getpid() if pid is None else pid
    if view.system != "Linux":
        return MappedFiles(number, problem=f"{view.system} does not list the files of a process")
    folder = f"/proc/{number}"
    if not view.exists(folder):
        return MappedFiles(number, problem=f"there is no process {number}")
    data = view.read_bytes(f"{folder}/maps")
    program = view.read_text(f"{folder}/comm") or ""
    if data is None:
        problem = f"this user may not read the files of process {number}"
        return MappedFiles(number, program, problem=problem)
    if not data:
        problem = f"process {number} has no memory: it has ended, or belongs to the kernel"
        return MappedFiles(number, program, problem=problem)
    raw = view.read_bytes(f"{folder}/environ") or b""
    return MappedFiles(
        number, program, tuple(_variables(raw)), parse(data.decode("utf-8", "surrogateescape"))
    )


def parse(text: str) -> tuple[MappedFile, ...]:
    """Return the files with a mapping that may be executed, each once, in order of address."""
    files: dict[MappedFile, None] = {}
    for line in text.split("\n"):
        # Addresses, mode, offset, device, inode, path; without `re`, whose import takes time.
        fields = line.split(None, 5)
        if (
            len(fields) < 6
            or "x" not in fields[1]
            or fields[5][0] != "/"
            or not fields[4].isdigit()
        ):
            continue
        path = fields[5]
        deleted = path.endswith(_DELETED)
        path = path.removesuffix(_DELETED).replace("\\012", "\n")
        files[MappedFile(path, fields[3], int(fields[4]), deleted)] = None
    return tuple(files)


def _variables(raw: bytes) -> Iterator[tuple[str, str]]:
    for entry in raw.decode("utf-8", "surrogateescape").split("\0"):
        name, equals, value = entry.partition("=")
        if equals:
            yield name, value


def soname(view: SystemView, pid: int, file: MappedFile) -> str | None:
    """Return the SONAME of a mapped library, or None.

    :param pid: the process; its own view of the file system counts (containers).
    """
    stream = _open(view, pid, file)
    if stream is None:
        return None
    with stream:
        return read_shared_object(stream).soname


def sha256_of(view: SystemView, pid: int, file: MappedFile) -> str | None:
    """Return the SHA-256 of a mapped file, or None if it cannot be read any more."""
    stream = _open(view, pid, file)
    if stream is None:
        return None
    import hashlib

    with stream:
        try:
            return hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError:
            return None


def _open(view: SystemView, pid: int, file: MappedFile) -> BufferedReader | None:
    if file.deleted:
        return None
    # A process in a container may have another root folder.
    for name in (f"/proc/{pid}/root{file.path}", file.path):
        try:
            return open(view.path(name), "rb")
        except OSError:
            continue
    return None
