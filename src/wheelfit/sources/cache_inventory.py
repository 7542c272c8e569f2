"""The content of the cache folder, and its removal.

Other processes may use the folder at the same time. A wheel that one of them is about to link is
locked by it (see `wheelfit.sources.cache_locks`) and is not removed; any other entry is first
renamed in one step, so that no process finds half of it. Only paths in the form of an entry are
read or removed, and links are not followed: foreign files in the folder stay.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.cache import unpacked_entry
from wheelfit.sources.cache_locks import exclusive_lock
from wheelfit.wheels.record import encode_digest
from wheelfit.wheels.unpacked import MANIFEST, TREE, UnpackedWheel, read_unpacked, release_of
from wheelfit_runtime.errors import FileProblem, WheelfitError, os_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence


KINDS = (
    "wheels",
    "unpacked",
    "pages",
    "parsed",
    "files",
    "members",
    "built",
    "interpreters",
    "locks",
    "hashes",
)
"""The kinds of entries, by the names of the folders: archives, unpacked wheels, small entries."""
RECORDS = "hashes"
"""The kind that cannot be fetched again: it is removed only on explicit request."""
_MAX_DOCUMENT_SIZE = 1 << 20
_FOLDERS = {f"{kind}-1": kind for kind in KINDS}
_OTHER_FOLDERS = ("builds", "plugins", "probes")
"""Folders without entries: records of builds, environments of plugins, answers of drivers."""
_LEFTOVER = re.compile(r"\..*\.part", re.DOTALL)
_MIN_AGE = 60.0
"""Seconds after which the creator of a temporary file has locked it."""
_MAX_AGE = 24 * 3600.0
"""Seconds after which a temporary file counts as abandoned, even if it is locked."""
_HEX = re.compile(r"[0-9a-f]{62}")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class CachedWheelName:
    """The name of the wheel in a cache entry."""

    name: NormalizedName
    version: str
    label: str | None
    """None for a plain wheel, and where it is unknown."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}" + (f" ({self.label})" if self.label else "")


@dataclass(frozen=True, slots=True)
class InventoryEntry:
    """An entry of the cache."""

    kind: str
    """One of `KINDS`."""
    path: Path
    """A file, or the folder of an unpacked wheel."""
    size: int
    """Bytes."""
    linked: int
    """Bytes of its files with several hard links; most of the other links are in environments."""
    files: int
    """The number of its files."""
    used: float
    """The time of its last use, in seconds since the epoch; up to a day too early."""

    @property
    def key(self) -> str:
        """The SHA-256 that identifies it."""
        return self.path.parent.name + self.path.name


@dataclass(frozen=True, slots=True)
class Leftover:
    """A leftover of a process that was killed."""

    path: Path
    size: int


class Inventory:
    """The content of a cache folder, which can be removed.

    :param folder: the cache folder; need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # --- reading -------------------------------------------------------------------

    def entries(self, kinds: Collection[str] = KINDS) -> Iterator[InventoryEntry]:
        """Yield the entries.

        :raises FileProblem: the folder cannot be read.
        """
        for kind, folder in self._folders():
            if kind in kinds:
                for path in self._entry_paths(folder):
                    entry = _entry(kind, path)
                    if entry is not None:
                        yield entry

    def other_folders(self) -> list[tuple[str, int, int]]:
        """Return the folders without entries, each with its number of files and bytes."""
        folders = []
        for name in _OTHER_FOLDERS:
            path = self.folder / name
            if path.is_dir() and not path.is_symlink():
                measured = _measure(path)
                folders.append((name, measured.files, measured.size))
        return folders

    def leftovers(self) -> Iterator[Leftover]:
        """Yield the temporary files of killed processes."""
        for _, folder in self._folders():
            for parent in (folder, *self._prefixes(folder)):
                for entry in self._scan(parent):
                    path = Path(entry.path)
                    if _LEFTOVER.fullmatch(entry.name) and _is_abandoned(path):
                        yield Leftover(path, _measure(path).size)

    def wheel_name(self, entry: InventoryEntry) -> CachedWheelName | None:
        """Return the name of the wheel in an entry; None if it is unknown.

        :param entry: an archive or an unpacked wheel.
        """
        unpacked = self.folder / "unpacked-1" / entry.key[:2] / entry.key[2:]
        name = _name_of_unpacked(entry.path if entry.kind == "unpacked" else unpacked)
        return name or (_name_of_archive(entry.path) if entry.kind == "wheels" else None)

    def records_of(self, name: NormalizedName) -> Iterator[InventoryEntry]:
        """Yield the records of the hashes of a project's files."""
        for entry in self.entries([RECORDS]):
            with suppress(OSError):
                record = unpacked_entry(entry.path.read_bytes())
                if record is not None and record.head.get("name") == name:
                    yield entry

    def _folders(self) -> list[tuple[str, Path]]:
        """Return the existing kinds with their folders."""
        names = {
            entry.name for entry in self._scan(self.folder) if entry.is_dir(follow_symlinks=False)
        }
        return [(kind, self.folder / name) for name, kind in _FOLDERS.items() if name in names]

    def _prefixes(self, folder: Path) -> Iterator[Path]:
        for entry in self._scan(folder):
            if re.fullmatch("[0-9a-f]{2}", entry.name) and entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)

    def _entry_paths(self, folder: Path) -> Iterator[Path]:
        for prefix in self._prefixes(folder):
            for entry in self._scan(prefix):
                if _HEX.fullmatch(entry.name) and not entry.is_symlink():
                    yield Path(entry.path)

    def _scan(self, folder: Path) -> Sequence[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise FileProblem(
                f"the cache cannot be read: {os_reason(error)}",
                where=str(folder),
                hint="make it readable, or name another folder with --cache-dir",
            ) from None

    # --- removing ------------------------------------------------------------------

    def remove(self, entry: InventoryEntry) -> bool:
        """Remove an entry; return False if another process is using it.

        :raises FileProblem: the folder cannot be changed.
        """
        lock_path = entry.path / MANIFEST if entry.kind == "unpacked" else entry.path
        with exclusive_lock(lock_path) as is_exclusive:
            return is_exclusive and self._delete(entry.path)

    def sweep(self, leftover: Leftover) -> None:
        """Remove a leftover.

        :raises FileProblem: the folder cannot be changed.
        """
        self._delete(leftover.path)

    def remove_other(self, name: str) -> None:
        """Remove one of the folders without entries.

        :param name: a name from `other_folders`.
        :raises FileProblem: the folder cannot be changed.
        """
        self._delete(self.folder / name)

    def _delete(self, path: Path) -> bool:
        """Rename a path in one step, then remove it."""
        try:
            if not stat.S_ISDIR(path.lstat().st_mode):
                path.unlink()
                return True
            temporary = Path(tempfile.mkdtemp(prefix=".", suffix=".part", dir=path.parent))
            try:
                path.rename(temporary / "entry")
            finally:
                # Files in it whose permissions forbid their removal stay.
                shutil.rmtree(temporary, ignore_errors=True)
        except FileNotFoundError:
            pass  # another process removed it
        except OSError as error:
            raise FileProblem(
                f"the cache cannot be changed: {os_reason(error)}",
                where=str(self.folder),
                hint="check its owner and free space: `ls -ld`, `df`",
            ) from None
        return True

    # --- verifying -------------------------------------------------------------------

    def damage(
        self, entry: InventoryEntry, *, advance: Callable[[int], None] = lambda _count: None
    ) -> str | None:
        """Verify an entry; return its fault, or None if it is intact.

        :param advance: called with the count of bytes read.
        """
        try:
            match entry.kind:
                case "wheels":
                    is_intact = _digest(entry.path, "sha256", advance).hex() == entry.key
                    return None if is_intact else "it has another SHA-256"
                case "unpacked":
                    return _damage_of_unpacked(entry, advance)
                case _:
                    data = entry.path.read_bytes()
                    advance(len(data))
                    return "it has another checksum" if unpacked_entry(data) is None else None
        except FileNotFoundError:
            return None if not entry.path.exists() else "a file of it is missing"
        except OSError as error:
            return f"the entry cannot be read: {os_reason(error)}"


# --- entries -------------------------------------------------------------------------


@dataclass(slots=True)
class _Measured:
    """The number and size of the files at a path."""

    files: int = 0
    size: int = 0
    linked: int = 0


def _measure(path: Path) -> _Measured:
    """Return the size of a path, without following links."""
    measured = _Measured()
    pending = [str(path)]
    while pending:
        location = pending.pop()
        try:
            status = os.lstat(location)
            if stat.S_ISDIR(status.st_mode):
                with os.scandir(location) as entries:
                    pending += (entry.path for entry in entries)
                continue
        except OSError:
            continue  # it was removed meanwhile, or belongs to another user
        measured.files += 1
        measured.size += status.st_size
        if status.st_nlink > 1:
            measured.linked += status.st_size
    return measured


def _entry(kind: str, path: Path) -> InventoryEntry | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    is_folder = stat.S_ISDIR(status.st_mode)
    must_be_folder = kind == "unpacked"
    if is_folder != must_be_folder:
        return None
    used = status.st_mtime
    if is_folder:
        with suppress(OSError):
            used = (path / MANIFEST).lstat().st_mtime
    measured = _measure(path)
    return InventoryEntry(kind, path, measured.size, measured.linked, measured.files, used)


def _name_of_unpacked(folder: Path) -> CachedWheelName | None:
    release = release_of(folder)
    if release is None or "/" in release or "\\" in release:
        return None
    label = None
    document = folder / TREE / f"{release}.dist-info" / "variant.json"
    with suppress(OSError), document.open("rb") as file:
        label = _label_in(file.read(_MAX_DOCUMENT_SIZE))
    return _wheel_name(release, label)


def _name_of_archive(path: Path) -> CachedWheelName | None:
    from wheelfit.wheels.zip_archive import ZipArchive

    label = None
    try:
        with ZipArchive(path, where=str(path), lenient=True) as archive:
            dist_info = next(
                name.partition("/")[0]
                for name in reversed(archive.names())
                if name.endswith(".dist-info/METADATA") and name.count("/") == 1
            )
            document = f"{dist_info}/variant.json"
            if document in archive and archive.member(document).size < _MAX_DOCUMENT_SIZE:
                label = _label_in(archive.read(document))
    except (WheelfitError, StopIteration):
        return None
    return _wheel_name(dist_info.removesuffix(".dist-info"), label)


def _label_in(document: bytes) -> str | None:
    """Return the label in a ``variant.json``; None if it cannot be read."""
    import json

    with suppress(ValueError, TypeError, LookupError, RecursionError):
        (label,) = json.loads(document)["variants"]
        return label if isinstance(label, str) else None
    return None


def _wheel_name(release: str, label: str | None) -> CachedWheelName:
    name, _, version = release.partition("-")
    return CachedWheelName(canonicalize_name(name), version, label)


def _digest(path: Path, algorithm: str, advance: Callable[[int], None]) -> bytes:
    digest = hashlib.new(algorithm)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            advance(len(chunk))
    return digest.digest()


def _damage_of_unpacked(entry: InventoryEntry, advance: Callable[[int], None]) -> str | None:
    wheel = _read_unpacked(entry)
    if wheel is None:
        return "its manifest is damaged"
    changed = wheel.changed()
    if changed is not None:
        return f"{changed} was changed"
    for name, file in wheel.files.items():
        algorithm, _, expected = file.row.hash.partition("=")
        if expected and encode_digest(_digest(wheel.path_of(name), algorithm, advance)) != expected:
            return f"{name} has another hash"
    return None


def _read_unpacked(entry: InventoryEntry) -> UnpackedWheel | None:
    """Read the manifest of an entry; return None if it is damaged.

    :raises OSError: it is missing, or cannot be opened.
    """
    (entry.path / MANIFEST).open("rb").close()
    try:
        filename = parse_wheel_filename(f"{release_of(entry.path)}-py3-none-any.whl")
        wheel = read_unpacked(entry.path, filename, where=str(entry.path))
    except WheelfitError:
        return None
    return wheel if wheel is not None and wheel.sha256 == entry.key else None


def _is_abandoned(path: Path) -> bool:
    """Return whether the writer of a temporary file has ended."""
    try:
        age = time.time() - path.lstat().st_mtime
    except OSError:
        return False
    if age >= _MAX_AGE:
        return True
    if age < _MIN_AGE:
        return False
    with exclusive_lock(path) as is_exclusive:
        return is_exclusive
