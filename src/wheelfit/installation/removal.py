"""Which files leave the environment when a distribution does; nothing is removed here.

RECORD decides (PEP 376), but it is only text that came with a wheel or was edited since.
A row may lead anywhere, so each is checked: what belongs to the environment itself or is
also recorded by another distribution stays (GHSA-pjjw-68hj-v9mw), and a row that names
something outside the folders of the environment is an error.
"""

from __future__ import annotations

import csv
import io
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from wheelfit.errors import NotRemovable
from wheelfit.installation.environment_folders import LOCK_FILE, WORKPLACE, is_below
from wheelfit.installation.folder_scan import FolderScan
from wheelfit.installation.steps import FolderListing
from wheelfit.wheels.record import parse_record
from wheelfit.wheels.reserved_files import (
    why_reserved_below_prefix,
    why_reserved_beside_library,
    why_reserved_in_prefix,
    why_reserved_in_scripts,
)
from wheelfit_runtime.errors import InvalidWheel
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.installation.environment import Environment
    from wheelfit.installation.installed import Installed
    from wheelfit.installation.steps import FolderReader

_BYTECODE = pattern(r"(.+?)\.[^.]+(?:\.opt-\d+)?\.pyc")
# Where rows begin that name something below the library folder, without detours.
_PLAIN = pattern(r"(?:[^/\\.][^/\\]*/)*")
_DETOURS = frozenset({"", ".", ".."})
_RECORDS = (".dist-info", ".egg-info")
_OUTSIDE = "it lies outside the environment"
# Whose distributions without RECORD no tool can remove.
_UNABLE = frozenset({None, "", "pip", "wheelfit"})
_AT_WORK = "it is where changes of the environment are prepared"


@dataclass(frozen=True, slots=True)
class Removal:
    """The files and folders that go with one distribution."""

    name: NormalizedName
    files: Mapping[str, Collection[str]]
    """By folder, an absolute path, the names of files and links to remove; they exist."""
    notes: tuple[str, ...] = ()
    """The files that stay, with the reasons, one sentence each."""


# Paths are plain strings in this module: there may be tens of thousands of them.


def recorded_files(installed: Installed) -> tuple[str, ...]:
    """Return the files that RECORD names, as absolute paths without ``..``.

    :raises InvalidWheel: its RECORD cannot be read.
    """
    return files_in_record(installed.path / "RECORD", installed.path)


_Folders: TypeAlias = "dict[str, dict[str, None]]"
# The names in each folder, each once and in their order; folders are absolute.


def files_in_record(record: Path, dist_info: Path) -> tuple[str, ...]:
    """Return the files that a RECORD names, as absolute paths without ``..``.

    :param record: the file; a missing one names nothing.
    :param dist_info: its folder, now, before or later.
    """
    names_by_folder = _folders_in_record(record, dist_info)
    return tuple(
        f"{folder}{os.sep}{name}" for folder, names in names_by_folder.items() for name in names
    )


def _folders_in_record(record: Path, dist_info: Path) -> _Folders:
    """Return the result of `files_in_record` by folder, resolving each folder once."""
    try:
        data = record.read_bytes()
    except OSError:
        return {}
    written: dict[str, list[str]] = {}
    last, names = "", written.setdefault("", [])
    for path in _rows(data, str(record)):
        cut = path.rfind("/") + 1
        start = path[:cut]
        if start != last:  # mostly the rows of a folder follow each other
            last, names = start, written.setdefault(start, [])
        names.append(path[cut:])
    location = str(dist_info.parent)
    names_by_folder: _Folders = {}
    for start, names in written.items():
        if os.sep == "/" and _PLAIN.fullmatch(start) and _DETOURS.isdisjoint(names):
            folder = f"{location}/{start}".rstrip("/")
            names_by_folder.setdefault(folder, {}).update(dict.fromkeys(names))
        else:
            for name in names:
                # Joining with an absolute row gives that row.
                path = os.path.abspath(os.path.join(location, start + name))  # noqa: PTH100, PTH118
                folder, _, name = path.rpartition(os.sep)  # noqa: PLW2901  # another one
                names_by_folder.setdefault(folder, {})[name] = None
    return names_by_folder


def _rows(data: bytes, where: str) -> list[str]:
    """Return the paths in a RECORD; quicker than `parse_record` where nothing is wrong."""
    with suppress(UnicodeDecodeError, csv.Error):
        text = data.decode()
        if '"' in text or "\r" in text:
            cells = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
            paths = [row[0] for row in cells if len(row) == 3]
            count = len(cells)
        else:
            lines = [line for line in text.split("\n") if line]
            paths = [line[: line.index(",")] for line in lines if line.count(",") == 2]
            count = len(lines)
        if len(paths) == count and all(paths):
            return paths
    return [row.path for row in parse_record(data, where=where).rows]


def plan_removal(
    installed: Installed,
    environment: Environment,
    others: Iterable[Installed],
    real: RealPaths | None = None,
    look: FolderReader | None = None,
) -> Removal:
    """Return the files to remove with a distribution.

    :param look: reads each folder once; use the same for several removals together.
    :raises NotRemovable: it has no readable RECORD, or one that leads out of the environment, or is
        in a folder that this environment only reads.
    """
    check_removable(installed, environment)
    try:
        recorded = _folders_in_record(installed.path / "RECORD", installed.path)
    except InvalidWheel as error:
        raise NotRemovable(
            f"{installed} cannot be removed: {error.message}", where=error.where
        ) from None
    real = RealPaths() if real is None else real
    look = FolderScan() if look is None else look
    shared = _shared(recorded, others, real)
    bounds = Bounds(environment, own=installed.path, real=real)
    files: dict[str, set[str]] = {}
    notes = []
    # What tools add later is not always recorded.
    for folder, name in _inside(installed.path):
        recorded.setdefault(folder, {})[name] = None
    for folder, names in recorded.items():
        is_free = bounds.takes_any(folder)
        of_others = shared.get(real.folder(folder), set())
        listing = look(folder) or FolderListing()
        staying = set()
        for name in () if is_free and not of_others else names:
            path = f"{folder}{os.sep}{name}"
            reason = None if is_free else bounds.why_not(path)
            if reason is None and name in of_others:
                reason = "another distribution has it too"
            if reason is _OUTSIDE and os.path.lexists(path):
                # The row means a file of another environment. Skipping it would hide other faults
                # of that RECORD.
                raise NotRemovable(
                    f"{installed} cannot be removed: its RECORD names {path}, which lies outside "
                    "the environment",
                    where=str(installed.path / "RECORD"),
                    hint="nothing was changed; take that row out of RECORD, and delete the file "
                    "yourself if it is the package's",
                )
            if reason is not None:
                staying.add(name)
                notes.append(
                    f"RECORD names {path}, which lies outside the environment and does not exist"
                    if reason is _OUTSIDE
                    else f"{path} stays: {reason}"
                )
        going = files.setdefault(folder, set())
        if not staying and names.keys() <= listing.files.keys():
            going.update(names)
        else:
            wanted = names.keys() - staying
            going |= wanted & listing.files.keys()
            # Where case is ignored it may be listed in another one.
            left = wanted - listing.files.keys() - listing.folders
            going |= {name for name in left if _is_file_or_link(f"{folder}{os.sep}{name}")}
        if "__pycache__" in listing.folders:
            cache = f"{folder}{os.sep}__pycache__"
            files.setdefault(cache, set()).update(_bytecode(look(cache) or FolderListing(), names))
    return Removal(installed.name, files, tuple(notes))


def check_removable(installed: Installed, environment: Environment) -> None:
    """Raise an error for a distribution that cannot be removed, without reading its files.

    :raises NotRemovable: it has no RECORD, or is in a folder that this environment only reads.
    """
    if installed.outside:
        raise NotRemovable(
            f"{installed} does not belong to this environment, it is only visible in it",
            where=str(installed.path),
            hint=f"this environment is {environment.name}",
        )
    if installed.legacy:
        raise NotRemovable(
            f"{installed} was installed by a tool that kept no record of its files",
            where=str(installed.path),
            hint="remove it with the tool that installed it",
        )
    if not (installed.path / "RECORD").is_file():
        by = installed.installer
        raise NotRemovable(
            f"{installed} has no RECORD, so its files are unknown",
            where=str(installed.path),
            note=f"it was installed by {by}" if by else None,
            hint=f"remove it with {by}" if by not in _UNABLE else "delete its files by hand",
        )


def _inside(folder: Path) -> list[tuple[str, str]]:
    return [(base, name) for base, _, names in os.walk(folder) for name in names]


def _is_file_or_link(path: str) -> bool:
    try:
        return not stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def is_real_folder(path: str) -> bool:
    """Return whether a path is that of a folder, not of a link to one."""
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114


class RealPaths:
    """A comparison of paths that follows links; each folder is resolved once."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}
        self._resolved: dict[str, str] = {}
        self._missing: set[str] = set()

    def of(self, path: str) -> str:
        """Return a path with the links among its folders followed; it may be a link itself."""
        folder, _, name = path.rpartition(os.sep)
        return f"{self.folder(folder)}{os.sep}{name}"

    def resolved(self, path: Path) -> str:
        """Return any path with all links followed."""
        text = str(path)
        if text not in self._resolved:
            self._resolved[text] = os.path.realpath(text)
        return self._resolved[text]

    def folder(self, folder: str) -> str:
        """Return a folder with all links followed, as `os.path.realpath` does."""
        if folder not in self._folders:
            above, _, name = folder.rpartition(os.sep)
            # Windows has more than links to follow.
            if above and os.sep == "/" and not self._is_link(folder, above):
                self._folders[folder] = f"{self.folder(above).rstrip(os.sep)}{os.sep}{name}"
            else:
                self._folders[folder] = os.path.realpath(folder)
        return self._folders[folder]

    def _is_link(self, folder: str, above: str) -> bool:
        if above not in self._missing:
            try:
                return stat.S_ISLNK(os.lstat(folder).st_mode)
            except FileNotFoundError:
                pass
            except (OSError, ValueError):  # as for a name with a zero byte
                return False
        self._missing.add(folder)  # and what would be in it is so too
        return False


def _shared(
    recorded: _Folders, others: Iterable[Installed], real: RealPaths
) -> Mapping[str, set[str]]:
    """Return the recorded files that others have in their RECORD too, by real folder."""
    mine: dict[str, set[str]] = {}
    shared: dict[str, set[str]] = {}
    for other in others:
        if not mine:
            for folder, names in recorded.items():
                mine.setdefault(real.folder(folder), set()).update(names)
        try:
            theirs = _folders_in_record(other.path / "RECORD", other.path)
        except InvalidWheel:
            continue  # then it is unknown
        for folder, names in theirs.items():
            place = real.folder(folder)
            if both := mine.get(place, set()).intersection(names):
                shared.setdefault(place, set()).update(both)
    return shared


class Bounds:
    """The files of an environment that a distribution may own; each folder is read once."""

    def __init__(self, environment: Environment, own: Path, real: RealPaths | None = None) -> None:
        self._real = RealPaths() if real is None else real
        self._verdicts: dict[str, str | None] = {}
        self._special: set[str] = set()
        of = self._real.resolved
        self._beside = of(own.parent) + os.sep
        self._own = os.path.realpath(own) if own.is_symlink() else self._beside + own.name
        schemes = environment.schemes
        self.roots = tuple(dict.fromkeys(map(of, schemes.folders().values())))
        """The folders of the environment, links followed."""
        # One `startswith` for all of them: it is called for thousands of folders.
        self._starts = tuple(map(_start, self.roots))
        self._libraries = tuple(_start(of(library)) for library in schemes.libraries())
        self._scripts = of(schemes.scripts)
        self._prefixes = {of(environment.interpreter.prefix), of(schemes.data)}
        self._stdlib = _start(of(environment.stdlib))
        self._above_stdlib = of(environment.stdlib.parent)
        self._particular = {
            self._beside.removesuffix(os.sep),
            *self._prefixes,
            self._scripts,
            self._above_stdlib,
        }

    def why_not(self, path: str) -> str | None:
        """Return the reason a file cannot belong to the distribution; None if it can."""
        folder, name = os.path.split(path)
        if self.takes_any(folder) or self._verdicts[folder] is not None:
            return self._verdicts[folder]
        real = self._real.folder(folder)
        if name.lower().endswith(_RECORDS) and real + os.sep == self._beside:
            return "it is a record of another distribution"
        reason = None
        if real == self._scripts:
            reason = why_reserved_in_scripts(name)
        if reason is None and real in self._prefixes:
            reason = why_reserved_in_prefix(name)
        if reason is None and real == self._above_stdlib:
            reason = why_reserved_beside_library(name)
        if reason is not None:
            return reason
        if name.casefold() in {LOCK_FILE, WORKPLACE}:
            return _AT_WORK
        return None

    def takes_any(self, folder: str) -> bool:
        """Return whether files of any name may be in a folder."""
        if folder not in self._verdicts:
            self._verdicts[folder] = self._why_not_in(folder)
            if self._real.folder(folder) in self._particular:
                self._special.add(folder)
        return self._verdicts[folder] is None and folder not in self._special

    def _why_not_in(self, folder: str) -> str | None:
        # The file itself may be a link anywhere, only the link would be removed; but the
        # folder that holds it must be one of the environment.
        real = self._real.folder(folder)
        start = real + os.sep
        if not start.startswith(self._starts):
            return _OUTSIDE
        # What lies there decides what becomes of the environment.
        if f"{os.sep}{WORKPLACE}{os.sep}" in f"{real}{os.sep}".casefold():
            return _AT_WORK
        # Only beside its own: deeper ones are vendored copies of other projects.
        if real.startswith(self._beside) and not is_below(real, self._own):
            beside = real[len(self._beside) :].partition(os.sep)[0]
            if beside.lower().endswith(_RECORDS):  # Python looks for them in any case
                return "it is a record of another distribution"
        if start.startswith(self._stdlib) and not start.startswith(self._libraries):
            return "it belongs to the standard library"
        for prefix in map(_start, self._prefixes):
            if start.startswith(prefix):
                below = real[len(prefix) :].replace(os.sep, "/")
                if (reason := why_reserved_below_prefix(below)) is not None:
                    return reason
        return None


def _start(root: str) -> str:
    """Return the prefix of a folder and all below it, with a separator at its end."""
    # Never by characters alone: /env-other is not below /env (GHSA-6vgw-5pg2-w6jp).
    return root.rstrip(os.sep) + os.sep


def _bytecode(cache: FolderListing, names: Collection[str]) -> list[str]:
    """Return the names of the bytecode that Python keeps of the modules among some files."""
    stems = {name.removesuffix(".py") for name in names if name.endswith(".py")}
    bytecode = []
    for name in cache.files:
        match = _BYTECODE.fullmatch(name)
        if match is not None and match[1] in stems:
            bytecode.append(name)
    return bytecode
