"""Plan the renames that change an environment from old to new; nothing is touched.

New files lie in a stage, in folders that mirror those of the environment; leaving files are known
one by one. A folder of which everything leaves is moved as a whole, and a folder that replaces
another is exchanged with it, so that other processes see one or the other. Only folders that
several distributions share are processed file by file.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from wheelfit_runtime.errors import IntegrityError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet

# A record, or something in it; what comes before the version is the project.
_RECORD = pattern(
    r"(?P<folder>.*?)[/\\](?P<project>[^/\\-]+)[^/\\]*\.dist-info(?:[/\\]|$)", re.DOTALL
)


class StepKind(StrEnum):
    """The kind of a step."""

    PUT = "put"
    """A staged path is moved to its place, which was free."""
    SWAP = "swap"
    """A staged path and the one in its place exchange their names."""
    TAKE = "take"
    """An existing path is moved aside."""
    DROP = "drop"
    """A folder that is empty by now is removed."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rename."""

    kind: StepKind
    place: str
    """The file or folder in the environment."""
    aside: str = ""
    """Where it comes from, or goes to; afterwards an exchanged one lies there."""
    owners: frozenset[str] = frozenset()
    """The distributions that what goes belonged to."""
    coming: int = 0
    """The file number (inode) of the new path, noted before the first step."""
    going: int = 0
    """The file number of the old path."""


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The names in a folder."""

    device: int = 0
    """In which file system it lies."""
    folders: AbstractSet[str] = frozenset()
    files: Mapping[str, int] = field(default_factory=dict)
    """Everything else in it, files, and links of any kind: each with its number (inode), 0 where
    folders do not know it.
    """


class FolderReader(Protocol):
    """A reader of folders as they are before the change."""

    def __call__(self, folder: str) -> FolderListing | None:
        """Return the names in a folder, links followed; None if it is none."""


def plan_steps(
    stages: Iterable[tuple[str, str]],
    leaving: Mapping[str, Mapping[str, str]],
    *,
    look: FolderReader,
    store: Callable[[str], str],
    kept: Collection[str],
    replace: bool = False,
    whole_folders: bool = True,
    exchange: bool = True,
    fold: Callable[[str], str] | None = None,
    real: Callable[[str], str] = str,
) -> tuple[Step, ...]:
    """Return the steps in their order; the records of distributions come last.

    :param stages: pairs of a staged folder and its existing target folder.
    :param leaving: by folder, an absolute path, the owner of each leaving file in it.
    :param store: returns the folder to which files leaving a folder are moved.
    :param kept: folders that always stay: those of the environment.
    :param replace: whether files without an owner that are in the way may be moved aside.
    :param whole_folders: False where only files can be renamed.
    :param exchange: False where names cannot be exchanged.
    :param fold: gives two names of one file the same spelling, where case is ignored.
    :param real: follows the links that lead to a folder, so that steps name the folder itself.
    :raises IntegrityError: ``file-conflict``; a file is in the way, and may not be replaced.
    """
    planner = _Planner(look, store, replace, whole_folders, exchange, fold, real)
    planner.kept.update(map(planner.key, kept))
    for folder, names in leaving.items():
        planner.add_leaving(folder, names)
    for staged, final in stages:
        planner.merge(staged, final)
    planner.take_the_rest()
    # The sort is stable: the new record of a project comes before the old one goes, at once.
    return tuple(sorted(planner.steps, key=planner.turn))


@dataclass(slots=True)
class _Planner:
    """The steps that are planned so far."""

    look: FolderReader
    store: Callable[[str], str]
    replace: bool
    whole_folders: bool
    exchange: bool
    fold: Callable[[str], str] | None
    real: Callable[[str], str]
    # Where case is ignored, everything below is found by the folded name.
    gone: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The leaving files by folder: for each name the owner."""
    folders: dict[str, str] = field(default_factory=dict)
    """The folders in which something goes, as they are written."""
    kept: set[str] = field(default_factory=set)
    """Folders that stay."""
    steps: list[Step] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)
    """The paths that leave already, files and folders."""
    filled: set[str] = field(default_factory=set)
    """Folders into which something comes."""
    verdicts: dict[str, frozenset[str] | None] = field(default_factory=dict)
    """The owners of folders of which all goes."""
    count: int = 0

    def add_leaving(self, folder: str, names: Mapping[str, str]) -> None:
        """Note that files go."""
        key = self.key(folder)
        self.folders.setdefault(key, folder)
        if self.fold is not None:
            folded = {self.key(name): owner for name, owner in names.items()}
            names = {**self.gone.get(key, {}), **folded}
        self.gone[key] = names

    def turn(self, step: Step) -> tuple[bool, str]:
        """Sort the records of distributions behind everything else, by project."""
        match = _RECORD.match(step.place)
        # Deeper ones are vendored copies of other projects: part of what they lie in.
        if match is None or self.key(match["folder"]) not in self.kept:
            return False, ""
        return True, match["project"].lower()

    # --- what comes ---

    def merge(self, staged: str, final: str) -> None:
        """Plan the move of a staged folder's content into an existing folder."""
        coming, there = self.look(staged), self.look(final) or FolderListing()
        if coming is None:
            return
        self.filled.add(self.key(final))
        names = {self.key(name): name for name in (*there.files, *there.folders)}
        for name in sorted((*coming.files, *coming.folders)):
            aside, place = os.path.join(staged, name), os.path.join(final, name)  # noqa: PTH118
            existing = names.get(self.key(name))
            if existing is None:
                self.steps.append(Step(StepKind.PUT, place, aside))
                continue
            old = os.path.join(final, existing)  # noqa: PTH118
            owners = self.owners(old, is_folder=existing in there.folders)
            is_merged = name in coming.folders and self.look(old) is not None
            is_split = not self.whole_folders and existing in there.folders
            if is_merged and (owners is None or is_split):
                self.merge(aside, old if existing in there.folders else self.real(old))
            elif owners is not None:
                self.give_way(old, owners, place, aside)
            elif existing not in there.folders and (
                # Bytecode of a removed module has no owner.
                self.replace or os.path.basename(final) == "__pycache__"  # noqa: PTH119
            ):
                self.give_way(old, frozenset(), place, aside)
            else:
                raise IntegrityError(
                    "a file appeared in the environment while it was changed",
                    code="file-conflict",
                    where=old,
                    hint="nothing was changed; try again",
                )

    def give_way(self, old: str, owners: frozenset[str], place: str, aside: str) -> None:
        """Plan the replacement of an existing path by a staged one."""
        # Two that are exchanged keep their names as written, also where case is ignored.
        if self.exchange and old == place and (self.whole_folders or self.look(old) is None):
            self.steps.append(Step(StepKind.SWAP, place, aside, owners))
            self.moved.add(self.key(old))
        else:
            self.take(old, owners)
            self.steps.append(Step(StepKind.PUT, place, aside))

    # --- what goes ---

    def take_the_rest(self) -> None:
        """Plan that everything goes that was not met yet, in as large pieces as possible."""
        for key, names in self.gone.items():
            folder = self.folders[key]
            if self.is_moved(key):
                continue
            if (top := self.top(folder)) is not None:
                self.take(top, self.whole(top) or frozenset())
                continue
            listing = self.look(folder) or FolderListing()
            for name in sorted(listing.files):
                owner = names.get(self.key(name))
                path = os.path.join(folder, name)  # noqa: PTH118
                if owner is not None and self.key(path) not in self.moved:
                    self.take(path, frozenset({owner}))

    def take(self, path: str, owners: frozenset[str]) -> None:
        """Plan that a file or a folder goes."""
        self.moved.add(self.key(path))
        listing = None if self.whole_folders else self.real_folder(path)
        if listing is None:
            self.count += 1
            aside = os.path.join(self.store(os.path.dirname(path)), str(self.count))  # noqa: PTH118, PTH120
            self.steps.append(Step(StepKind.TAKE, path, aside, owners))
            return
        for name in (*listing.files, *sorted(listing.folders)):
            inside = os.path.join(path, name)  # noqa: PTH118
            if self.key(inside) not in self.moved:
                self.take(inside, owners)
        if self.key(path) not in self.filled:
            self.steps.append(Step(StepKind.DROP, path, owners=owners))

    # --- who owns what ---

    def owners(self, path: str, *, is_folder: bool) -> frozenset[str] | None:
        """Return the owners of a path if all of it leaves; None if a part stays."""
        if is_folder:
            return self.whole(path)
        folder, name = os.path.split(self.key(path))
        owner = self.gone.get(folder, {}).get(name)
        return None if owner is None else frozenset({owner})

    def whole(self, folder: str) -> frozenset[str] | None:
        """Return the owners of a folder if everything in it goes; None if anything stays."""
        key = self.key(folder)
        if key not in self.verdicts:
            self.verdicts[key] = None if key in self.kept else self.find_whole(folder)
        return self.verdicts[key]

    def find_whole(self, folder: str) -> frozenset[str] | None:
        listing = self.real_folder(folder)
        if listing is None:
            return None
        if not (listing.files or listing.folders):
            # Another empty folder may be needed by the program that created it.
            is_cache = os.path.basename(folder) == "__pycache__"  # noqa: PTH119
            return frozenset() if is_cache else None
        gone = self.gone.get(self.key(folder), {})
        names = listing.files if self.fold is None else map(self.fold, listing.files)
        owners: set[str] = set()
        for owner in set(map(gone.get, names)):  # of ten thousands of files there are few
            if owner is None:
                return None
            owners.add(owner)
        for name in sorted(listing.folders):
            owners_below = self.whole(os.path.join(folder, name))  # noqa: PTH118
            if owners_below is None:
                return None
            owners |= owners_below
        return frozenset(owners)

    def real_folder(self, path: str) -> FolderListing | None:
        """Return the names in a folder that is not a link and no other file system's root."""
        folder, name = os.path.split(path)
        above = self.look(folder)
        if above is None:
            return None
        folders = above.folders if self.fold is None else map(self.fold, above.folders)
        if self.key(name) not in folders:
            return None
        listing = self.look(path)
        return listing if listing is not None and listing.device == above.device else None

    def top(self, folder: str) -> str | None:
        """Return the highest folder around that goes as a whole; None if this one does not."""
        top = None
        while self.whole(folder) is not None:
            top, folder = folder, os.path.dirname(folder)  # noqa: PTH120
        return top

    def is_moved(self, folder: str) -> bool:
        """Return whether a folded path goes already, or a folder around it."""
        while folder not in self.moved:
            above = os.path.dirname(folder)  # noqa: PTH120
            if above == folder:
                return False
            folder = above
        return True

    def key(self, name: str) -> str:
        return name if self.fold is None else self.fold(name)
