"""Place the files of an unpacked wheel, without moving their bytes if possible.

A file system may share the bytes of two files until one of them changes (a *reflink*), or give
one file two names (a *hard link*); else the bytes are copied. Which of these works depends on
the file systems of both places and is found out once for each pair of them.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.wheels.native_file_system import NATIVE, new_file, open_source
from wheelfit.wheels.rooted_folder import closed_at_end
from wheelfit.wheels.unpacked import TREE

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from wheelfit.wheels.file_system import FileSystem
    from wheelfit.wheels.unpacked import UnpackedWheel


class LinkMode(StrEnum):
    """The way in which files get their second place."""

    AUTO = "auto"
    """The first of the others that works."""
    REFLINK = "reflink"
    """Share the bytes until one of both changes."""
    HARDLINK = "hardlink"
    """Link to the same file."""
    COPY = "copy"
    """Copy the bytes."""


_WAYS = {
    LinkMode.AUTO: (LinkMode.REFLINK, LinkMode.HARDLINK, LinkMode.COPY),
    LinkMode.REFLINK: (LinkMode.REFLINK, LinkMode.COPY),
    LinkMode.HARDLINK: (LinkMode.HARDLINK, LinkMode.COPY),
    LinkMode.COPY: (LinkMode.COPY,),
}
# It is not the way that is wrong; another one would fail as well.
_FINAL = frozenset(
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
_MANY = 1000
"""Files that are worth a second thread, where their bytes are copied or shared."""
_BY_FOLDER = os.link in os.supports_dir_fd and os.link in os.supports_follow_symlinks


class Move(Struct, frozen=True):
    """Files of one folder of a wheel, and the folder to which they move."""

    source: str
    """The folder in the wheel, with ``/``."""
    target: str
    """Absolute path of the other one; it exists, and none of the files in it."""
    names: Sequence[str]
    marks: Sequence[str]
    """For each, ``x`` if it can be executed."""


class Linker:
    """A linker of files, which copies them where they cannot be linked.

    A hard link has the permissions that the file got when it was unpacked. Where the umask is
    another one now, a file gets bytes of its own, so that both can have the right ones.
    """

    def __init__(self, mode: LinkMode = LinkMode.AUTO, *, files: FileSystem = NATIVE) -> None:
        self._mode = mode
        self._files = files
        self._umask = current_umask()
        self._left: dict[tuple[Hashable, Hashable], list[LinkMode]] = {}

    def mode_of(self, *, executable: bool) -> int:
        """Return the permissions of a new file."""
        return 0o777 & ~self._umask | 0o111 if executable else 0o666 & ~self._umask

    def links(self, wheel: UnpackedWheel) -> bool:
        """Return whether two files of a wheel may be the same file at the target."""
        is_hard = self._mode in {LinkMode.AUTO, LinkMode.HARDLINK}
        return is_hard and wheel.umask == self._umask

    def place(
        self, wheel: UnpackedWheel, moves: Sequence[Move], into: FileSystem | None = None
    ) -> None:
        """Put files of a wheel in another place.

        :raises OSError: it cannot be written.
        """
        if not moves:
            return
        files = into or self._files
        tree = str(wheel.folder / TREE)
        devices = self._files.device_of(tree), files.device_of(moves[0].target)
        left = self._left.setdefault(devices, list(_WAYS[self._mode]))
        is_same = wheel.umask == self._umask
        work = _Work(files, tree, left, is_same, self.mode_of)
        work.do(moves[:1])  # this finds out which way works
        moves = moves[1:]
        # Threads that do nothing but link wait for each other, here and in the kernel, and take
        # up to half as long again as one alone.
        is_linking = is_same and left[0] is LinkMode.HARDLINK
        is_much = sum(len(move.names) for move in moves) >= _MANY
        if not is_much or is_linking:
            work.do(moves)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(2, "link") as threads:
            for half in [threads.submit(work.do, half) for half in _halves(moves)]:
                half.result()


class _Work(Struct):
    """Place files of one wheel; several threads may do that at once."""

    files: FileSystem
    tree: str
    left: list[LinkMode]
    is_same: bool
    mode_of: Callable[..., int]

    def do(self, moves: Iterable[Move]) -> None:
        """Place the files of some folders."""
        for move in moves:
            source = os.path.join(self.tree, *move.source.split("/"))  # noqa: PTH118
            is_fast = self.files.by_folder and _BY_FOLDER
            done = self._place_fast(source, move) if is_fast else 0
            for name, mark in zip(move.names[done:], move.marks[done:], strict=True):
                one, other = os.path.join(source, name), os.path.join(move.target, name)  # noqa: PTH118
                self._place(one, other, executable=mark == "x")

    def _place_fast(self, source: str, move: Move) -> int:
        """Place the files of a folder without a look at its path each; return how many could be."""
        way = self.left[0]
        if way is LinkMode.COPY or (way is LinkMode.HARDLINK and not self.is_same):
            return 0
        if way is LinkMode.REFLINK and sys.platform != "linux":
            return 0
        done = 0
        to_folder = self.files.open_folder(move.target)
        if to_folder is None:
            return 0
        with (
            closed_at_end(to_folder),
            closed_at_end(os.open(source, os.O_RDONLY)) as from_folder,
        ):
            folders = {"src_dir_fd": from_folder, "dst_dir_fd": to_folder}
            try:
                for name, mark in zip(move.names, move.marks, strict=True):
                    if way is LinkMode.HARDLINK:
                        os.link(name, name, **folders, follow_symlinks=False)
                    else:
                        self._clone(name, from_folder, to_folder, executable=mark == "x")
                    done += 1
            except OSError as error:
                if error.errno in _FINAL:
                    error.filename = os.path.join(move.target, move.names[done])  # noqa: PTH118
                    raise
        return done

    def _clone(self, name: str, from_folder: int, to_folder: int, *, executable: bool) -> None:
        """Make a reflink; it gets the permissions of a new file."""
        from wheelfit.wheels.system_calls import share_bytes  # imports ctypes

        with (
            closed_at_end(open_source(name, from_folder)) as reading,
            new_file(name, to_folder, 0o777 if executable else 0o666) as writing,
        ):
            share_bytes(reading, writing)
            if executable:
                os.fchmod(writing, self.mode_of(executable=True))

    def _place(self, source: str, target: str, *, executable: bool) -> None:
        for way in tuple(self.left):
            if way is LinkMode.HARDLINK and not self.is_same:
                continue
            try:
                self._try(way, source, target, executable=executable)
            except OSError as error:
                if error.errno in _FINAL or way is LinkMode.COPY:
                    raise
                if error.errno != errno.EMLINK:  # else only this file has too many names
                    with suppress(ValueError):  # of another thread, a moment ago
                        self.left.remove(way)
            else:
                return

    def _try(self, way: LinkMode, source: str, target: str, *, executable: bool) -> None:
        match way:
            case LinkMode.HARDLINK:
                self.files.link(source, target)
                return
            case LinkMode.REFLINK:
                self.files.reflink(source, target)
            case _:
                if self.files.exists(target):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
                self.files.copy(source, target)
        if not self.is_same:
            self.files.set_mode(target, self.mode_of(executable=executable))


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
    """Return the permissions that new files do not get."""
    try:
        with open("/proc/self/status", "rb") as status:  # noqa: PTH123  # asking changes it
            for line in status:
                if line.startswith(b"Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    umask = os.umask(0)
    os.umask(umask)
    return umask
