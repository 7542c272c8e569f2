"""What a disk may hold after a power cut: a model of a file system that writes late.

The stepper recorded every change that a command made, and every wait for the disk (``fsync``,
``fdatasync``, ``syncfs``). From what was there before, and these, `Disk.after_a_cut` makes one
of the states in which the folders may be found after the power went away at some call:

- What a file was given since it was last synced is there, or not at all, or cut off somewhere,
  or its size is and its bytes are zeros.
- Of the names (creations, renames, links, removals) since the last wait, *ordered*: those up to
  some moment are there, as with the journal of ext4 or XFS, where any ``fsync`` takes all
  earlier names with it. *Loose*: any of them may be missing, each by itself; ``fsync`` of a
  folder keeps the names in it and nothing else. What concerns one and the same name, or one and
  the same file, stays in order even then, and a folder is gone only once what was in it is.

A rename is always whole: it has happened or not. That is what every journal promises.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

_BLOCK = 512
_OPENING = frozenset({"open", "openat", "openat2", "creat"})
_IGNORED = frozenset({"sync_file_range", "setxattr", "lsetxattr", "fsetxattr"})


class NotFollowed(Exception):
    """A call was made whose effect on the disk the model does not know."""


@dataclass(eq=False, slots=True)
class _Write:
    """Hold bytes that a file was given, or the size it was cut to."""

    number: int
    offset: int
    content: bytes | None
    """None for a new size, which is the offset."""


@dataclass(eq=False, slots=True)
class _Node:
    """Hold a file, folder or link, whatever its names are."""

    mode: int
    base: Path | None = None
    """Where it lies among what was there before; None for a new one."""
    target: str | None = None
    """Of a link."""
    entries: dict[str, _Node] | None = None
    """What a folder held before; None for a file."""
    now: dict[str, _Node] = field(default_factory=dict)
    """What a folder holds as the program sees it."""
    writes: list[_Write] = field(default_factory=list)
    modes: list[tuple[int, int]] = field(default_factory=list)
    """When it was given which mode."""
    changed: int = 0
    """The time of its last change, by its own word."""
    synced: list[int] = field(default_factory=list)
    """When its content was waited for."""
    number: int = 0
    """Its file number."""


@dataclass(eq=False, slots=True)
class _Naming:
    """Hold one change of names, which happens as a whole."""

    number: int
    added: list[tuple[_Node, str, _Node]]
    removed: list[tuple[_Node, str, _Node]]

    def concerns(self) -> set[object]:
        """Return what must stay in order: nodes, and places for names."""
        both = self.added + self.removed
        return {node for _, _, node in both} | {(folder, name) for folder, name, _ in both}

    def touches(self) -> set[object]:
        """Return that, and the folders in which something changes."""
        both = self.added + self.removed
        return self.concerns() | {("in", folder) for folder, _, _ in both}

    def needs(self) -> set[object]:
        """Return what must have come before it: a folder goes only when it is empty."""
        added = {node for _, _, node in self.added}
        gone = (node for _, _, node in self.removed if node not in added)
        return self.concerns() | {("in", node) for node in gone if node.entries is not None}

    def folders(self) -> set[_Node]:
        """Return the folders that have to be synced for it to be safe."""
        return {folder for folder, _, _ in (self.added or self.removed)}


class Disk:
    """Know what a command did to a folder, call by call.

    :param before: a copy of the folder as it was.
    :param root: the folder itself, which the calls name.
    :param calls: as the stepper reports them.
    :param data: the file in which it put what was written.
    :param numbers: the file numbers before, by path below the folder.
    :raises NotFollowed: something was done that the model does not know.
    """

    def __init__(
        self,
        before: Path,
        root: Path,
        calls: Sequence[dict[str, Any]],
        data: Path,
        numbers: Mapping[str, int],
    ) -> None:
        self._root_path = os.path.realpath(root)
        self._data = data.read_bytes()
        self._names: list[_Naming] = []
        self._waits: list[tuple[int, _Node | None]] = []
        self._root = _load(before, before, numbers, {})
        self.calls = len(calls)
        """How many calls there were; the power may go before or after any."""
        for number, call in enumerate(calls):
            if call.get("result", -1) >= 0:
                self._follow(number, call)

    # --- what the program did --------------------------------------------------------

    def _follow(self, number: int, call: dict[str, Any]) -> None:
        name, paths = call["call"], call["paths"]
        if name in _IGNORED or any(path.endswith(" (deleted)") for path in paths[:1]):
            return
        if name in {"mmap", "io_uring_setup", "splice", "mknod", "mknodat"}:
            raise NotFollowed(f"{name} of {paths}")
        if name in {"syncfs", "sync"}:
            self._waits.append((number, None))
        elif name in {"fsync", "fdatasync"}:
            node = self._node(paths[0])
            node.synced.append(number)
            if name == "fsync":
                self._waits.append((number, node))
        elif name in _OPENING:
            self._opened(number, call)
        elif "where" in call:
            node = self._node(paths[-1] if name == "copy_file_range" else paths[0])
            content = self._data[call["where"] : call["where"] + call["length"]]
            node.writes.append(_Write(number, call["offset"], content))
            node.changed = call["changed"]
        elif name in {"ftruncate", "truncate", "fallocate"}:
            self._node(paths[0]).writes.append(_Write(number, call["size"], None))
        elif name in {"mkdir", "mkdirat"}:
            self._add(number, paths[0], _Node(call["mode"], entries={}, number=call["number"]))
        elif name in {"symlink", "symlinkat"}:
            self._add(number, paths[0], _Node(0o777, target=call["target"], number=call["number"]))
        elif name in {"link", "linkat"}:
            self._add(number, paths[1], self._node(paths[0]))
        elif name.startswith("rename"):
            self._renamed(number, call)
        elif name in {"unlink", "unlinkat", "rmdir"}:
            folder, last = self._place(paths[0])
            self._name(number, [], [(folder, last, folder.now[last])])
        elif name in {"chmod", "fchmod", "fchmodat", "fchmodat2"}:
            self._node(paths[0]).modes.append((number, call["mode"]))
        elif "changed" in call:
            self._node(paths[0]).changed = call["changed"]

    def _opened(self, number: int, call: dict[str, Any]) -> None:
        path = call["paths"][0]
        if call["created"]:
            node = _Node(call["mode"], changed=call["changed"], number=call["number"])
            self._add(number, path, node)
        elif call["truncated"]:
            self._node(path).writes.append(_Write(number, 0, None))

    def _renamed(self, number: int, call: dict[str, Any]) -> None:
        (source, old), (target, new) = (self._place(path) for path in call["paths"])
        node = source.now[old]
        removed = [(source, old, node)]
        if new in target.now:
            other = target.now[new]
            if call.get("exchanged"):
                self._name(
                    number,
                    [(source, old, other), (target, new, node)],
                    [*removed, (target, new, other)],
                )
                return
            removed.append((target, new, other))
        self._name(number, [(target, new, node)], removed)

    def _add(self, number: int, path: str, node: _Node) -> None:
        folder, last = self._place(path)
        self._name(number, [(folder, last, node)], [])

    def _name(
        self,
        number: int,
        added: list[tuple[_Node, str, _Node]],
        removed: list[tuple[_Node, str, _Node]],
    ) -> None:
        self._names.append(_Naming(number, added, removed))
        for folder, name, _ in removed:
            del folder.now[name]
        for folder, name, node in added:
            folder.now[name] = node

    def _node(self, path: str) -> _Node:
        if path == self._root_path:
            return self._root
        folder, last = self._place(path)
        return folder.now[last]

    def _place(self, path: str) -> tuple[_Node, str]:
        relative = os.path.relpath(path, self._root_path)
        if relative.startswith(".."):
            raise NotFollowed(f"something outside: {path}")
        *above, last = relative.split("/")
        folder = self._root
        for part in above:
            folder = folder.now[part]
        return folder, last

    # --- what the disk has of it -----------------------------------------------------------

    def after_a_cut(
        self, target: Path, at: int, random: Random, *, ordered: bool
    ) -> dict[int, int]:
        """Make a folder as it may be found after a power cut.

        :param target: the folder to make.
        :param at: the call before which the power goes; `calls` for after the last.
        :param random: decides what had reached the disk.
        :param ordered: whether names reach it in the order in which they were changed.
        :return: which number each file would have on that disk, by the one it has on this.
        """
        names = [naming for naming in self._names if naming.number < at]
        kept = self._ordered(names, at, random) if ordered else self._loose(names, at, random)
        found: dict[_Node, dict[str, _Node]] = {}
        for naming in kept:
            for folder, name, _ in naming.removed:
                found.setdefault(folder, dict(folder.entries or {})).pop(name, None)
            for folder, name, node in naming.added:
                found.setdefault(folder, dict(folder.entries or {}))[name] = node
        mixed = (1, 1, 1, 1)
        # There, missing, cut, zeros: often all files fare alike.
        weather = random.choice([(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1), mixed, mixed])
        making = _Making(found, at, self._all_waits(at), random, weather)
        making.make(target, self._root)
        return making.numbers

    def _all_waits(self, at: int) -> int:
        return max(
            (number for number, node in self._waits if node is None and number < at), default=-1
        )

    def _ordered(self, names: list[_Naming], at: int, random: Random) -> list[_Naming]:
        safe = max((number for number, _ in self._waits if number < at), default=0)
        stop = random.randint(safe, at)
        return [naming for naming in names if naming.number < stop]

    def _loose(self, names: list[_Naming], at: int, random: Random) -> list[_Naming]:
        chance = random.choice([0.0, 0.2, 0.5, 0.8, 0.95])
        keep = {naming for naming in names if self._is_safe(naming, at)}
        # What is safe has all before it that concerns the same.
        wanted: set[object] = set()
        for naming in reversed(names):
            if naming in keep or naming.touches() & wanted:
                keep.add(naming)
                wanted |= naming.needs()
        lost: set[object] = set()
        for naming in names:
            if naming in keep:
                continue
            if random.random() < chance and not naming.needs() & lost:
                keep.add(naming)
            else:
                lost |= naming.touches()
        return [naming for naming in names if naming in keep]

    def _is_safe(self, naming: _Naming, at: int) -> bool:
        folders = naming.folders()
        return any(
            naming.number < number < at and (node is None or node in folders)
            for number, node in self._waits
        )


def _load(
    path: Path, root: Path, numbers: Mapping[str, int], known: dict[tuple[int, int], _Node]
) -> _Node:
    found = path.lstat()
    identity = (found.st_dev, found.st_ino)
    if identity not in known:
        node = _Node(stat.S_IMODE(found.st_mode), path, changed=found.st_mtime_ns)
        node.number = numbers[str(path.relative_to(root))]
        if path.is_symlink():
            node.target = os.readlink(path)  # noqa: PTH115
        elif path.is_dir():
            inner = {entry.name: _load(entry, root, numbers, known) for entry in path.iterdir()}
            node.entries, node.now = inner, dict(inner)
        known[identity] = node
    return known[identity]


class _Making:
    """Write one state to a disk that works."""

    def __init__(
        self,
        found: dict[_Node, dict[str, _Node]],
        at: int,
        waited: int,
        random: Random,
        weather: Iterable[int],
    ) -> None:
        self._found = found
        self._at = at
        self._waited = waited
        self._random = random
        self._weather = tuple(weather)
        self._made: dict[_Node, Path] = {}
        self.numbers: dict[int, int] = {}

    def make(self, path: Path, node: _Node) -> None:
        """Make a file, a link, or a folder with all in it."""
        self._make(path, node)
        self.numbers[path.lstat().st_ino] = node.number

    def _make(self, path: Path, node: _Node) -> None:
        if node.target is not None:
            path.symlink_to(node.target)
        elif node.entries is not None:
            path.mkdir()
            for name, inner in self._found.get(node, node.entries).items():
                self.make(path / name, inner)
            path.chmod(self._mode(node))
        elif node in self._made:
            path.hardlink_to(self._made[node])
        else:
            self._made[node] = path
            path.write_bytes(self._content(node))
            path.chmod(self._mode(node))
            os.utime(path, ns=(node.changed, node.changed))

    def _mode(self, node: _Node) -> int:
        given = [mode for number, mode in node.modes if number < self._at]
        if not given:
            return node.mode
        settled = [mode for number, mode in node.modes if number < self._safe(node)]
        return self._random.choice([given[-1], settled[-1] if settled else node.mode])

    def _safe(self, node: _Node) -> int:
        waits = [number for number in node.synced if number < self._at]
        return max([*waits, self._waited])

    def _content(self, node: _Node) -> bytes:
        content = bytearray(node.base.read_bytes() if node.base is not None else b"")
        writes = [write for write in node.writes if write.number < self._at]
        safe = self._safe(node)
        for write in writes:
            if write.number < safe:
                _apply(content, write)
        late = [write for write in writes if write.number > safe]
        if late:
            fate = self._random.choices(["there", "missing", "cut", "zeros"], self._weather)[0]
            if fate == "cut":
                late = self._cut(late)
            for write in late if fate != "missing" else ():
                _apply(content, write, zeros=fate == "zeros")
        return bytes(content)

    def _cut(self, late: list[_Write]) -> list[_Write]:
        count = self._random.randrange(len(late))
        last = late[count]
        if last.content is None:
            return late[:count]
        length = self._random.randrange(0, len(last.content) + 1, _BLOCK)
        return [*late[:count], _Write(last.number, last.offset, last.content[:length])]


def _apply(content: bytearray, write: _Write, *, zeros: bool = False) -> None:
    if write.content is None:
        del content[write.offset :]
        content.extend(bytes(write.offset - len(content)))
        return
    stop = write.offset + len(write.content)
    content.extend(bytes(max(0, stop - len(content))))
    content[write.offset : stop] = bytes(len(write.content)) if zeros else write.content
