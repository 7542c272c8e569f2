"""List the files that a running process has mapped as code, and their SONAMEs.

Only Linux shows this for any process of the same user, in ``/proc/PID/maps``. macOS and Windows
have no such file; there the answer states that.
"""
# The names are the machine's, not ours: text, with / on every system.
# ruff: noqa: PTH123

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.elf import read_soname

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

    from wheelfit_runtime.platforms.system_view import SystemView

_DELETED = " (deleted)"


@dataclass(frozen=True, slots=True)
class MappedFile:
    """One file that a process runs code of."""

    path: str
    """As the process names it."""
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
    """The name of the process, as the kernel has it."""
    environ: tuple[tuple[str, str], ...] = ()
    """The variables it was started with; empty where they may not be read."""
    files: tuple[MappedFile, ...] = ()
    problem: str = ""
    """Why there is no answer, a sentence without a final full stop; empty when there is one."""


def read(view: SystemView, pid: int | None) -> MappedFiles:
    """Return the files a process has mapped as code.

    :param pid: the process; None: this one.
    """
    number = os.getpid() if pid is None else pid
    if view.system != "Linux":
        return MappedFiles(number, problem=f"{view.system} does not tell what a process has mapped")
    folder = f"/proc/{number}"
    if not view.exists(folder):
        return MappedFiles(number, problem=f"there is no process {number}")
    data = view.read_bytes(f"{folder}/maps")
    program = view.read_text(f"{folder}/comm") or ""
    if data is None:
        words = f"the kernel does not let this user look into process {number}"
        return MappedFiles(number, program, problem=words)
    if not data:
        words = f"process {number} has no memory of its own: it has ended, or is the kernel's"
        return MappedFiles(number, program, problem=words)
    raw = view.read_bytes(f"{folder}/environ") or b""
    return MappedFiles(
        number, program, tuple(_variables(raw)), parse(data.decode("utf-8", "surrogateescape"))
    )


def parse(text: str) -> tuple[MappedFile, ...]:
    """Return the files with a mapping that may be executed, each once, in order of address.

    :param text: content of ``/proc/PID/maps``.
    """
    files: dict[MappedFile, None] = {}
    for line in text.split("\n"):
        # Addresses, mode, offset, device, inode, path; without `re`, which callers at run time may
        # not have imported.
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
    """Return the SONAME that a mapped library calls itself by, or None.

    :param pid: the process; its own view of the file system counts (containers).
    """
    stream = _open(view, pid, file)
    if stream is None:
        return None
    with stream:
        return read_soname(stream)


def fingerprint(view: SystemView, pid: int, file: MappedFile) -> str | None:
    """Return the SHA-256 of a mapped file, or None when it cannot be read any more."""
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
    # A process in a container has another / than we have.
    for name in (f"/proc/{pid}/root{file.path}", file.path):
        try:
            return open(view.path(name), "rb")
        except OSError:
            continue
    return None
