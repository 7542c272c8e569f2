"""The content of the cache folder, and its removal.

Other processes use the folder all the while. A wheel that one of them is about to link is held by
it (see `hold`) and is not removed; any other entry is renamed first, in one step, so that no
process finds half of it. Only paths in the shape of an entry are ever read or removed, and links
are not followed: foreign files in the folder stay.
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

from packaging.utils import canonicalize_name

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.cache import is_sound, unpacked_entry
from wheelfit.sources.cache_locks import held_alone
from wheelfit.wheels.unpacked import MANIFEST, TREE, read_unpacked
from wheelfit_runtime.errors import FileProblem, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.wheels.unpacked import UnpackedWheel

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
"""The kind that is no copy: it is removed only on explicit request."""
LAYOUT = 1
"""What follows the hyphen in the names of the folders; other versions have other numbers."""
_FOLDER = re.compile(rf"({'|'.join(KINDS)})-(\d{{1,6}})")
_OTHERS = ("plugins", "probes")
"""Folders that are no entries: environments of plugins, answers of drivers."""
_OURS = frozenset({*_OTHERS, "CACHEDIR.TAG", "libraries"})
"""The last is the library store, which has commands of its own."""
_LEFTOVER = re.compile(r"\..*\.part", re.DOTALL)
_YOUNG = 60.0
"""Seconds in which the creator of a file may not have locked it yet."""
_STALE = 24 * 3600.0
"""Seconds after which what cannot be locked is taken for left behind."""
_HEX = re.compile(r"[0-9a-f]{62}")
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class KeptName:
    """The name of the wheel that an entry has."""

    name: NormalizedName
    version: str
    label: str | None
    """None for a plain wheel, and where it cannot be known."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}" + (f" ({self.label})" if self.label else "")


@dataclass(frozen=True, slots=True)
class InventoryEntry:
    """An entry of the cache."""

    kind: str
    """One of `KINDS`."""
    layout: int
    """Number of the layout it belongs to."""
    path: Path
    """A file, or the folder of an unpacked wheel."""
    size: int
    """Bytes."""
    linked: int
    """Bytes of them that have another name, mostly in an environment."""
    files: int
    """How many files."""
    used: float
    """When it was used last, in seconds since the epoch; a day may be missing."""

    @property
    def key(self) -> str:
        """The SHA-256 by which it is kept."""
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

    # --- looking -------------------------------------------------------------------

    def entries(
        self, kinds: Iterable[str] = KINDS, *, others: bool = False
    ) -> Iterator[InventoryEntry]:
        """Yield the entries.

        :param kinds: the kinds to include.
        :param others: whether to include other layouts than that of this version.
        :raises FileProblem: the folder cannot be read.
        """
        wanted = set(kinds)
        for kind, layout, folder in self._folders():
            if kind in wanted and (others or layout == LAYOUT):
                for path in self._places(folder):
                    entry = _entry(kind, layout, path)
                    if entry is not None:
                        yield entry

    def layouts(self) -> list[tuple[str, int]]:
        """Return the kinds that are there with the numbers of their layouts."""
        return [(kind, layout) for kind, layout, _ in self._folders()]

    def others(self) -> list[tuple[str, int, int]]:
        """Return our folders without entries, with their number of files and bytes."""
        others = []
        for name in _OTHERS:
            path = self.folder / name
            if path.is_dir() and not path.is_symlink():
                measured = _measure(path)
                others.append((name, measured.files, measured.size))
        return others

    def strangers(self) -> list[str]:
        """Return the names of unknown files, which are never touched."""
        ours = {folder.name for _, _, folder in self._folders()} | _OURS
        return sorted(entry.name for entry in self._scan(self.folder) if entry.name not in ours)

    def leftovers(self) -> Iterator[Leftover]:
        """Yield the temporary files of killed processes, without those still being written."""
        for _, _, folder in self._folders():
            for place in (folder, *self._prefixes(folder)):
                for entry in self._scan(place):
                    path = Path(entry.path)
                    if _LEFTOVER.fullmatch(entry.name) and _is_left(path):
                        yield Leftover(path, _measure(path).size)

    def label(self, entry: InventoryEntry) -> KeptName | None:
        """Return the file name of the wheel in an entry; None if it is unknown.

        :param entry: an archive or an unpacked wheel.
        """
        twin = self.folder / f"unpacked-{entry.layout}" / entry.key[:2] / entry.key[2:]
        label = _label_of_tree(entry.path if entry.kind == "unpacked" else twin)
        return label or (_label_of_archive(entry.path) if entry.kind == "wheels" else None)

    def records_of(self, name: NormalizedName) -> Iterator[InventoryEntry]:
        """Yield the records of hashes that files of a project had.

        :param name: the name of the project.
        """
        for entry in self.entries([RECORDS]):
            with suppress(OSError):
                record = unpacked_entry(entry.path.read_bytes())
                if record is not None and record.head.get("name") == name:
                    yield entry

    def _folders(self) -> list[tuple[str, int, Path]]:
        folders = []
        for entry in self._scan(self.folder):
            match = _FOLDER.fullmatch(entry.name)
            if match is not None and entry.is_dir(follow_symlinks=False):
                folders.append((match[1], int(match[2]), Path(entry.path)))
        return sorted(folders, key=lambda one: (KINDS.index(one[0]), one[1]))

    def _prefixes(self, folder: Path) -> Iterator[Path]:
        for entry in self._scan(folder):
            if re.fullmatch("[0-9a-f]{2}", entry.name) and entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)

    def _places(self, folder: Path) -> Iterator[Path]:
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
                f"the cache cannot be read: {error.strerror}",
                where=str(folder),
                hint="make it readable, or name another folder with --cache-dir",
            ) from None

    # --- removing ------------------------------------------------------------------

    def remove(self, entry: InventoryEntry) -> bool:
        """Remove an entry; returns False if another process is using it.

        :raises FileProblem: the folder cannot be changed.
        """
        holding = entry.path / MANIFEST if entry.kind == "unpacked" else entry.path
        with held_alone(holding) as alone:
            return alone and self._delete(entry.path)

    def sweep(self, leftover: Leftover) -> None:
        """Remove a leftover.

        :raises FileProblem: the folder cannot be changed.
        """
        self._delete(leftover.path)

    def remove_layout(self, kind: str, layout: int) -> None:
        """Remove everything of one kind that another version of wheelfit kept.

        :raises FileProblem: the folder cannot be changed.
        """
        self._delete(self.folder / f"{kind}-{layout}")

    def remove_other(self, name: str) -> None:
        """Remove one of the folders that hold no entries.

        :param name: as `others` gives it.
        :raises FileProblem: the folder cannot be changed.
        """
        self._delete(self.folder / name)

    def _delete(self, path: Path) -> bool:
        """Rename a path in one step, then remove it."""
        try:
            if not stat.S_ISDIR(path.lstat().st_mode):
                path.unlink()
                return True
            away = Path(tempfile.mkdtemp(prefix=".", suffix=".part", dir=path.parent))
            try:
                path.rename(away / "entry")
            finally:
                # Files in it that were made unreadable stay.
                shutil.rmtree(away, ignore_errors=True)
        except FileNotFoundError:
            pass  # another process was quicker
        except OSError as error:
            raise FileProblem(
                f"the cache cannot be changed: {error.strerror}",
                where=str(self.folder),
                hint="check its owner and free space: `ls -ld`, `df`",
            ) from None
        return True

    # --- reading again ---------------------------------------------------------------

    def damage(
        self, entry: InventoryEntry, *, advance: Callable[[int], None] = lambda _count: None
    ) -> str | None:
        """Read an entry again; return its fault, or None if it is intact.

        :param advance: called with the count of bytes read.
        """
        try:
            match entry.kind:
                case "wheels":
                    right = _sha256(entry.path, advance) == entry.key
                    return None if right else "its SHA-256 is another"
                case "unpacked":
                    return _damage_of_tree(entry, advance)
                case _:
                    data = entry.path.read_bytes()
                    advance(len(data))
                    return None if is_sound(data) else "its checksum is another"
        except FileNotFoundError:
            return None if not entry.path.exists() else "a file of it is gone"
        except OSError as error:
            return f"the entry cannot be read: {error.strerror}"


# --- entries -------------------------------------------------------------------------


@dataclass(slots=True)
class _Measured:
    files: int = 0
    size: int = 0
    linked: int = 0


def _measure(path: Path) -> _Measured:
    """Return the size of a path, without following links."""
    measured = _Measured()
    waiting = [str(path)]
    while waiting:
        place = waiting.pop()
        try:
            status = os.lstat(place)
            if stat.S_ISDIR(status.st_mode):
                waiting += (entry.path for entry in os.scandir(place))
                continue
        except OSError:
            continue  # it was removed meanwhile, or belongs to another user
        measured.files += 1
        measured.size += status.st_size
        if status.st_nlink > 1:
            measured.linked += status.st_size
    return measured


def _entry(kind: str, layout: int, path: Path) -> InventoryEntry | None:
    try:
        status = path.lstat()
        is_folder = stat.S_ISDIR(status.st_mode)
        if is_folder is not (kind == "unpacked"):
            return None
        used = status.st_mtime
        if is_folder:
            with suppress(OSError):
                used = (path / MANIFEST).lstat().st_mtime
            measured = _measure(path)
            return InventoryEntry(
                kind, layout, path, measured.size, measured.linked, measured.files, used
            )
    except OSError:
        return None
    linked = status.st_size if status.st_nlink > 1 else 0
    return InventoryEntry(kind, layout, path, status.st_size, linked, 1, used)


def _label_of_tree(folder: Path) -> KeptName | None:
    import json

    try:
        with (folder / MANIFEST).open("rb") as file:
            file.readline(200)
            dist_info = file.readline(2000).decode().split("\t")[1]
    except (OSError, ValueError, IndexError):
        return None
    if not re.fullmatch(r"[^/\\]+\.dist-info", dist_info):
        return None
    name, _, version = dist_info.removesuffix(".dist-info").partition("-")
    label = None
    document = folder / TREE / dist_info / "variant.json"
    with suppress(OSError, ValueError, TypeError, AttributeError), document.open("rb") as file:
        (label,) = json.loads(file.read(1 << 20))["variants"]
    return KeptName(canonicalize_name(name), version, label if isinstance(label, str) else None)


def _label_of_archive(path: Path) -> KeptName | None:
    import json
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            inside = next(
                name.partition("/")[0]
                for name in reversed(archive.namelist())
                if name.endswith(".dist-info/METADATA") and name.count("/") == 1
            )
            name, _, version = inside.removesuffix(".dist-info").partition("-")
            label = None
            with suppress(KeyError, ValueError, TypeError, AttributeError):
                if archive.getinfo(f"{inside}/variant.json").file_size < 1 << 20:
                    (label,) = json.loads(archive.read(f"{inside}/variant.json"))["variants"]
    except (OSError, ValueError, StopIteration, zipfile.BadZipFile, RuntimeError):
        return None
    return KeptName(canonicalize_name(name), version, label if isinstance(label, str) else None)


def _sha256(path: Path, advance: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            advance(len(piece))
    return digest.hexdigest()


def _damage_of_tree(entry: InventoryEntry, advance: Callable[[int], None]) -> str | None:
    wheel = _tree(entry)
    if wheel is None:
        return "its manifest is damaged"
    changed = wheel.changed()
    if changed is not None:
        return f"{changed} was changed"
    for name, file in wheel.files.items():
        if file.row.hash and not _agrees(wheel, name, advance):
            return f"{name} has another hash"
    return None


def _tree(entry: InventoryEntry) -> UnpackedWheel | None:
    """Read the manifest of an entry with any file name."""
    with (entry.path / MANIFEST).open("rb") as file:
        file.readline(200)
        dist_info = file.readline(2000).decode(errors="replace").split("\t")
    if len(dist_info) < 2:
        return None
    try:
        filename = parse_wheel_filename(
            f"{dist_info[1].removesuffix('.dist-info')}-py3-none-any.whl"
        )
        wheel = read_unpacked(entry.path, filename, where=str(entry.path))
    except WheelfitError:
        return None
    return wheel if wheel is not None and wheel.sha256 == entry.key else None


def _agrees(wheel: UnpackedWheel, name: str, advance: Callable[[int], None]) -> bool:
    import base64

    algorithm, _, expected = wheel.files[name].row.hash.partition("=")
    digest = hashlib.new(algorithm)
    with wheel.path_of(name).open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            advance(len(piece))
    return base64.urlsafe_b64encode(digest.digest()).decode("ascii").rstrip("=") == expected


def _is_left(path: Path) -> bool:
    """Return whether a temporary file has no writer any more."""
    try:
        age = time.time() - path.lstat().st_mtime
    except OSError:
        return False
    if age >= _STALE:
        return True
    if age < _YOUNG:
        return False
    with held_alone(path) as alone:
        return alone
