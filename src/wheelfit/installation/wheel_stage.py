"""Put the files of one wheel into a stage: unchanged files are linked, others written."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct, field

from wheelfit.installation.scripts import script_of, shebang_of
from wheelfit.wheels.linking import Linker, Move
from wheelfit.wheels.record import format_cells, row_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from wheelfit.installation.checked_wheel import CheckedWheel, WheelFolder
    from wheelfit.wheels.file_system import FileSystem

    _Row = tuple[str, str, str | int]

_SHEBANG = b"#!python"


class WheelStage(Struct, eq=False):
    """The staged folders of one wheel, which is written there as if they were the final ones."""

    stages: Mapping[str, Path]
    """The staged folders by scheme."""
    runtime: Mapping[str, Path]
    """The final folders by scheme."""
    interpreter: str
    """The interpreter in the first line of scripts."""
    launcher: str
    """Kind of script launcher, such as ``posix``."""
    skip: frozenset[tuple[str, str]]
    """Files, as (scheme, path), that exist already with this content; they are listed in RECORD but
    not written."""
    unchanged: Collection[str]
    """Folders of the wheel whose files are all installed already."""
    advance: Callable[[int], None]
    """Called with the count of bytes written or linked."""
    linker: Linker
    files: FileSystem
    _created: dict[tuple[str, str], str] = field(default_factory=dict)

    def fill(self, wheel: CheckedWheel) -> None:
        """Write all files of a wheel, RECORD last.

        :raises OSError: a file cannot be written.
        """
        prefixes = {scheme: self._prefix(scheme, wheel.root) for scheme in self.stages}
        rows: list[_Row] = []
        for command in wheel.commands:
            name, data = script_of(command, self.interpreter, self.launcher)
            path, digest, size = self._write("scripts", name, data, executable=True)
            rows.append((prefixes["scripts"] + path, digest, size))
        moves = []
        for part in wheel.parts:
            written: Mapping[str, _Row] = {}
            if part.source not in self.unchanged:
                written = self._write_changed(part, wheel)
                moves.append(self._move(part, wheel, written.keys()))
            rows += _rows(prefixes[part.scheme], part, wheel, written)
        self.linker.place(wheel.unpacked, [move for move in moves if move.names], self.files)
        self.advance(wheel.size)
        for name, data in wheel.generated.items():
            rows.append(self._write(wheel.root, f"{wheel.dist_info}/{name}", data))
        record = f"{wheel.dist_info}/RECORD"
        self._put(wheel.root, record, format_cells([*rows, (record, "", "")]))

    def _prefix(self, scheme: str, root: str) -> str:
        """Return the relative path from the library folder to that of a scheme (PEP 376)."""
        if scheme == root:
            return ""
        try:
            path = os.path.relpath(self.runtime[scheme], self.runtime[root])
        except ValueError:  # another drive
            path = str(self.runtime[scheme])
        return "" if path == "." else path.replace(os.sep, "/") + "/"

    def _write_changed(self, part: WheelFolder, wheel: CheckedWheel) -> dict[str, _Row]:
        """Write the changed files, and return their rows by name."""
        changed = {}
        if part.source == wheel.dist_info and wheel.is_rewritten:
            changed["METADATA"] = wheel.metadata
        elif part.scheme == "scripts":
            for name in part.names:
                data = self._with_interpreter(wheel.unpacked.path_of(f"{part.source}/{name}"))
                if data is not None:
                    changed[name] = data
        rows = {}
        for name, data in changed.items():
            # A wheel that was built on Windows has no executable bits.
            executable = part.scheme == "scripts"
            path = f"{part.path}/{name}" if part.path else name
            rows[name] = self._write(part.scheme, path, data, executable=executable)
        return rows

    def _move(self, part: WheelFolder, wheel: CheckedWheel, written: Collection[str]) -> Move:
        """Create a folder, and return the files to link into it."""
        folder = self._folder(part.scheme, part.path)
        names, indexes = part.names, part.indexes
        if written or self.skip:
            start = f"{part.path}/" if part.path else ""
            linked = [
                (name, index)
                for name, index in zip(names, indexes, strict=True)
                if name not in written and (part.scheme, start + name) not in self.skip
            ]
            names = tuple(name for name, _ in linked)
            indexes = tuple(index for _, index in linked)
        executable_flags = wheel.unpacked.files.executable_flags
        return Move(part.source, folder, names, [executable_flags[index] for index in indexes])

    def _folder(self, scheme: str, path: str) -> str:
        """Return a staged folder, which is created with its parents."""
        folder = self._created.get((scheme, path))
        if folder is None:
            if path:
                parent, _, name = path.rpartition("/")
                folder = f"{self._folder(scheme, parent)}{os.sep}{name}"
                with suppress(FileExistsError):
                    self.files.make_folder(folder)
            else:
                folder = str(self.stages[scheme])
                self.files.make_folders(folder)
            self._created[scheme, path] = folder
        return folder

    def _with_interpreter(self, path: Path) -> bytes | None:
        """Return a script that starts with ``#!python`` with its interpreter (PEP 427).

        None for any other file, which may be a large program, so only its beginning is read.
        """
        with path.open("rb") as file:
            if file.read(len(_SHEBANG)) != _SHEBANG:
                return None
            _, newline, rest = file.read().partition(b"\n")
        return shebang_of(self.interpreter, self.launcher).encode() + newline + rest

    def _write(self, scheme: str, path: str, data: bytes, *, executable: bool = False) -> _Row:
        """Write a file, and return its row in RECORD."""
        self._put(scheme, path, data, executable=executable)
        row = row_for(path, data)
        return row.path, row.hash, row.size

    def _put(self, scheme: str, path: str, data: bytes, *, executable: bool = False) -> None:
        """Write a file unless it exists already."""
        if (scheme, path) not in self.skip:
            parent, _, name = path.rpartition("/")
            file = os.path.join(self._folder(scheme, parent), name)  # noqa: PTH118
            self.files.write(file, data)
            if executable:
                self.files.set_mode(file, self.linker.permissions(executable=True))


def _rows(
    prefix: str, part: WheelFolder, wheel: CheckedWheel, written: Mapping[str, _Row]
) -> list[_Row]:
    """Return the rows of a folder, paths relative to the library folder."""
    start = prefix + (f"{part.path}/" if part.path else "")
    hashes, sizes = wheel.unpacked.files.hashes, wheel.unpacked.files.sizes
    return [
        (start + name, hashes[index], sizes[index])
        if name not in written
        else (start + name, *written[name][1:])
        for name, index in zip(part.names, part.indexes, strict=True)
    ]
