"""Link or copy the files of an unpacked wheel into an environment.

A file system may share the bytes of two files until one of them changes (a *reflink*), or allow
two names of one file (a *hard link*); otherwise the bytes are copied. Each mode is tried once for
each pair of file systems.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.wheels.disk_operations import closed_at_end
from wheelfit.wheels.file_system import NATIVE, new_file, open_source
from wheelfit.wheels.unpacked import TREE, UnpackedWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from wheelfit.wheels.file_system import FileSystem


class LinkMode(StrEnum):
    """The way in which files get from the cache into an environment."""

    AUTO = "auto"
    """The first of the other modes that works."""
    REFLINK = "reflink"
    """Share the bytes until one of both changes."""
    HARDLINK = "hardlink"
    """Link to the same file."""
    COPY = "copy"
    """Copy the bytes."""


_MODES_TO_TRY = {
    LinkMode.AUTO: (LinkMode.REFLINK, LinkMode.HARDLINK, LinkMode.COPY),
    LinkMode.REFLINK: (LinkMode.REFLINK, LinkMode.COPY),
    LinkMode.HARDLINK: (LinkMode.HARDLINK, LinkMode.COPY),
    LinkMode.COPY: (LinkMode.COPY,),
}
# Errors with which any other mode would fail as well.
_FINAL_ERRORS = frozenset(
    {
        errno.EEXIST,
        errno.ENOENT,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EMFILE,
        errno.ENFILE,
    }
)
_MIN_FILES_FOR_THREADS = 1000
"""Files from which a second thread is worthwhile, where bytes are copied or shared."""
_CAN_LINK_IN_FOLDERS = os.link in os.supports_dir_fd and os.link in os.supports_follow_symlinks


class Move(Struct, frozen=True):
    """The files of one folder of a wheel, and the folder that they are linked into."""

    source: str
    """The folder in the wheel, with ``/``."""
    target: str
    """Absolute path of an existing folder without any of the files."""
    names: Sequence[str]
    executable_flags: Sequence[str]
    """A character for each name: ``x`` if the file is executable."""


class Linker:
    """A linker of files, which copies them where they cannot be linked.

    A hard link has the permissions that the file got when it was unpacked. If the umask has changed
    since, no hard links are made, so that new files can have permissions of their own.
    """

    def __init__(self, mode: LinkMode = LinkMode.AUTO, *, files: FileSystem = NATIVE) -> None:
        self._mode = mode
        self._files = files
        self._umask = current_umask()
        self._modes_left: dict[tuple[Hashable, Hashable], list[LinkMode]] = {}

    def permissions(self, *, executable: bool) -> int:
        """Return the permissions of a new file, under the umask."""
        if executable:
            return (0o777 & ~self._umask) | 0o111
        return 0o666 & ~self._umask

    def can_hard_link(self, wheel: UnpackedWheel) -> bool:
        """Return whether files of a wheel may become hard links in the environment."""
        allows_hard_links = self._mode in {LinkMode.AUTO, LinkMode.HARDLINK}
        return allows_hard_links and wheel.umask == self._umask

    def place(
        self, wheel: UnpackedWheel, moves: Sequence[Move], target_files: FileSystem | None = None
    ) -> None:
        """Link or copy files of a wheel.

        :param target_files: the file system of the targets; by default that of the linker.
        :raises OSError: a file cannot be written.
        """
        if not moves:
            return
        files = target_files or self._files
        tree = str(wheel.folder / TREE)
        devices = self._files.device_of(tree), files.device_of(moves[0].target)
        modes_left = self._modes_left.setdefault(devices, list(_MODES_TO_TRY[self._mode]))
        is_same_umask = wheel.umask == self._umask
        placement = _Placement(files, tree, modes_left, is_same_umask, self.permissions)
        placement.run(moves[:1])  # leaves only the modes that work
        moves = moves[1:]
        # Threads that only link wait for each other, here and in the kernel: two threads take up
        # to 50 % longer than one.
        is_linking = is_same_umask and modes_left[0] is LinkMode.HARDLINK
        file_count = sum(len(move.names) for move in moves)
        if file_count < _MIN_FILES_FOR_THREADS or is_linking:
            placement.run(moves)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(2, "link") as threads:
            for future in [threads.submit(placement.run, half) for half in _halves(moves)]:
                future.result()


class _Placement(Struct):
    """The placement of one wheel's files; several threads may call `run` at once."""

    files: FileSystem
    tree: str
    modes_left: list[LinkMode]
    """The modes that have not failed yet, in the order in which they are tried."""
    is_same_umask: bool
    """Whether the wheel was unpacked under the present umask."""
    permissions: Callable[..., int]

    def run(self, moves: Iterable[Move]) -> None:
        """Link or copy the files of some folders."""
        for move in moves:
            source = os.path.join(self.tree, *move.source.split("/"))  # noqa: PTH118
            has_handles = self.files.allows_batches and _CAN_LINK_IN_FOLDERS
            linked = self._place_by_handle(source, move) if has_handles else 0
            for name, flag in zip(move.names[linked:], move.executable_flags[linked:], strict=True):
                self._place(
                    os.path.join(source, name),  # noqa: PTH118
                    os.path.join(move.target, name),  # noqa: PTH118
                    executable=flag == "x",
                )

    def _place_by_handle(self, source_path: str, move: Move) -> int:
        """Link files by handles of their folders, so that the path of the folder is resolved once.

        :return: the number of linked files; the others need `_place`.
        """
        mode = self.modes_left[0]
        if mode is LinkMode.COPY or (mode is LinkMode.HARDLINK and not self.is_same_umask):
            return 0
        if mode is LinkMode.REFLINK and sys.platform != "linux":
            return 0
        linked = 0
        target_folder = self.files.open_folder(move.target)
        if target_folder is None:
            return 0
        with (
            closed_at_end(target_folder),
            closed_at_end(os.open(source_path, os.O_RDONLY)) as source_folder,
        ):
            folders = {"src_dir_fd": source_folder, "dst_dir_fd": target_folder}
            try:
                for name, flag in zip(move.names, move.executable_flags, strict=True):
                    if mode is LinkMode.HARDLINK:
                        os.link(name, name, **folders, follow_symlinks=False)
                    else:
                        self._clone(name, source_folder, target_folder, executable=flag == "x")
                    linked += 1
            except OSError as error:
                if error.errno in _FINAL_ERRORS:
                    error.filename = os.path.join(move.target, move.names[linked])  # noqa: PTH118
                    raise
        return linked

    def _clone(
        self, name: str, source_folder: int, target_folder: int, *, executable: bool
    ) -> None:
        """Create a reflink with the permissions of a new file."""
        from wheelfit.wheels.system_calls import share_bytes

        with (
            closed_at_end(open_source(name, source_folder)) as source_fd,
            new_file(name, target_folder, 0o777 if executable else 0o666) as target_fd,
        ):
            share_bytes(source_fd, target_fd)
            if executable:
                os.fchmod(target_fd, self.permissions(executable=True))

    def _place(self, source: str, target: str, *, executable: bool) -> None:
        """Link or copy a file by the first mode that works; remove modes that do not."""
        for mode in tuple(self.modes_left):
            if mode is LinkMode.HARDLINK and not self.is_same_umask:
                continue
            try:
                self._place_as(mode, source, target, executable=executable)
            except OSError as error:
                if error.errno in _FINAL_ERRORS or mode is LinkMode.COPY:
                    raise
                if error.errno != errno.EMLINK:  # only this file has too many names
                    with suppress(ValueError):  # another thread may have removed it
                        self.modes_left.remove(mode)
            else:
                return

    def _place_as(self, mode: LinkMode, source: str, target: str, *, executable: bool) -> None:
        match mode:
            case LinkMode.HARDLINK:
                self.files.link(source, target)
                return
            case LinkMode.REFLINK:
                self.files.reflink(source, target)
            case _:
                if self.files.exists(target):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
                self.files.copy(source, target)
        if not self.is_same_umask:
            self.files.set_mode(target, self.permissions(executable=executable))


def _halves(moves: Sequence[Move]) -> list[list[Move]]:
    """Divide folders so that both halves have about as many files."""
    halves: list[list[Move]] = [[], []]
    counts = [0, 0]
    for move in moves:
        smaller = counts.index(min(counts))
        halves[smaller].append(move)
        counts[smaller] += len(move.names)
    return halves


def current_umask() -> int:
    """Return the umask of this process."""
    # `os.umask` below changes it for a moment, for all threads.
    with suppress(OSError), open("/proc/self/status", "rb") as status:  # noqa: PTH123
        for line in status:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    umask = os.umask(0)
    os.umask(umask)
    return umask
