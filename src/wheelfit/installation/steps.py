"""Plan the renames that change an environment from old to new; nothing is touched.

New files lie in a stage, in folders that mirror those of the environment; files to remove are
listed one by one. A folder that is removed completely is moved as a whole, and a folder that
replaces another is exchanged with it, so that other processes see one or the other. Only folders
that several distributions share are processed file by file.
"""

from __future__ import annotations

import os
import re
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.errors import IntegrityError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    FolderReader = Callable[[str], "FolderListing | None"]
    """Returns the names in a folder before the change, links followed; None: it is no folder."""

# A ``.dist-info`` folder or a path in it, with the project before the version.
_DIST_INFO = pattern(
    r"(?P<folder>.*?)[/\\](?P<project>[^/\\-]+)[^/\\]*\.dist-info(?:[/\\]|$)", re.DOTALL
)


class StepKind(StrEnum):
    """The kind of a step."""

    PUT = "put"
    """A staged path is moved to a free path of the environment."""
    SWAP = "swap"
    """A staged path and one of the environment exchange their names."""
    TAKE = "take"
    """A path of the environment is moved into a workplace."""
    DROP = "drop"
    """A folder that is empty by now is removed."""


class Step(NamedTuple):
    """One rename."""

    kind: StepKind
    path: str
    """The file or folder in the environment."""
    workplace_path: str = ""
    """The path in a workplace that it is moved from, moved to or exchanged with."""
    owners: frozenset[str] = frozenset()
    """The distributions that own the removed files."""
    new_identity: int = 0
    """The identity of the new path (`wheelfit.installation.recovery.identity_of`), recorded before
    the first step; 0: there is none."""
    old_identity: int = 0
    """The identity of the old path, likewise."""


class FolderListing(NamedTuple):
    """The names in a folder."""

    device: int = 0
    """The number of its file system."""
    folders: AbstractSet[str] = frozenset()
    files: Mapping[str, int] = MappingProxyType({})
    """Files, and links of any kind, each with its inode; 0 where a listing has none."""


def plan_steps(
    stages: Iterable[tuple[str, str]],
    removed_files: Mapping[str, Mapping[str, str]],
    *,
    read_folder: FolderReader,
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
    :param removed_files: by folder, an absolute path, the owner of each file to remove from it.
    :param store: returns the folder to which removed files of a folder are moved.
    :param kept: folders that always stay: those of the environment.
    :param replace: whether existing files without an owner may be replaced.
    :param whole_folders: False where only files can be renamed.
    :param exchange: False where names cannot be exchanged.
    :param fold: returns one spelling for all names of a file, where case is ignored.
    :param real: returns the real path of a folder, so that steps name no links.
    :raises IntegrityError: ``file-conflict``; an existing file may not be replaced.
    """
    planner = _Planner(
        read_folder,
        store,
        replace=replace,
        whole_folders=whole_folders,
        exchange=exchange,
        fold=fold,
        real=real,
    )
    planner.kept.update(map(planner.key, kept))
    for folder, names in removed_files.items():
        planner.add_removed(folder, names)
    for staged, final in stages:
        planner.merge(staged, final)
    planner.take_remaining()
    # The sort is stable: the old record of a project is removed right after its new one is added.
    return tuple(sorted(planner.steps, key=planner.sort_key))


class _Planner:
    """The steps planned so far."""

    def __init__(
        self,
        read_folder: FolderReader,
        store: Callable[[str], str],
        *,
        replace: bool,
        whole_folders: bool,
        exchange: bool,
        fold: Callable[[str], str] | None,
        real: Callable[[str], str],
    ) -> None:
        self.read_folder = read_folder
        self.store = store
        self.replace = replace
        self.whole_folders = whole_folders
        self.exchange = exchange
        self.fold = fold
        self.real = real
        # Where case is ignored, the keys of everything below are folded names.
        self.removed: dict[str, Mapping[str, str]] = {}
        """The owners of the files to remove, by folder and name."""
        self.folders: dict[str, str] = {}
        """The spelling of the folders with files to remove."""
        self.kept: set[str] = set()
        """Folders that stay."""
        self.steps: list[Step] = []
        self.moved: set[str] = set()
        """The files and folders whose removal is planned."""
        self.filled: set[str] = set()
        """Folders that get new files."""
        self.owners_by_folder: dict[str, frozenset[str] | None] = {}
        """The owners of folders that are removed completely; None: something stays."""
        self.stored_count = 0
        """The number of paths moved into stores so far, by which they are named there."""

    def add_removed(self, folder: str, names: Mapping[str, str]) -> None:
        """Add files to remove from a folder."""
        key = self.key(folder)
        self.folders.setdefault(key, folder)
        if self.fold is not None:
            folded = {self.key(name): owner for name, owner in names.items()}
            names = {**self.removed.get(key, {}), **folded}
        self.removed[key] = names

    def sort_key(self, step: Step) -> tuple[bool, str]:
        """Return a sort key that puts the records of distributions last, by project."""
        match = _DIST_INFO.match(step.path)
        # Deeper ones are vendored copies of other projects.
        if match is None or self.key(match["folder"]) not in self.kept:
            return False, ""
        return True, match["project"].lower()

    # --- additions ---

    def merge(self, staged: str, final: str) -> None:
        """Plan the move of a staged folder's content into an existing folder."""
        listing = self.read_folder(staged)
        if listing is None:
            return
        present = self.read_folder(final) or FolderListing()
        self.filled.add(self.key(final))
        names = {self.key(name): name for name in (*present.files, *present.folders)}
        for name in sorted((*listing.files, *listing.folders)):
            staged_path, path = os.path.join(staged, name), os.path.join(final, name)  # noqa: PTH118
            existing = names.get(self.key(name))
            if existing is None:
                self.steps.append(Step(StepKind.PUT, path, staged_path))
                continue
            old = os.path.join(final, existing)  # noqa: PTH118
            owners = self.owners(old, is_folder=existing in present.folders)
            is_merged = name in listing.folders and self.read_folder(old) is not None
            is_split = not self.whole_folders and existing in present.folders
            if is_merged and (owners is None or is_split):
                self.merge(staged_path, old if existing in present.folders else self.real(old))
            elif owners is not None:
                self.replace_path(old, owners, path, staged_path)
            elif existing not in present.folders and (
                # Bytecode of a removed module has no owner.
                self.replace or os.path.basename(final) == "__pycache__"  # noqa: PTH119
            ):
                self.replace_path(old, frozenset(), path, staged_path)
            else:
                raise IntegrityError(
                    "a file appeared in the environment while it was changed",
                    code="file-conflict",
                    where=old,
                    hint="nothing was changed; try again",
                )

    def replace_path(self, old: str, owners: frozenset[str], path: str, staged_path: str) -> None:
        """Plan the replacement of an existing path by a staged one."""
        # An exchange cannot change the spelling of a name, also where case is ignored.
        if self.exchange and old == path and (self.whole_folders or self.read_folder(old) is None):
            self.steps.append(Step(StepKind.SWAP, path, staged_path, owners))
            self.moved.add(self.key(old))
        else:
            self.take(old, owners)
            self.steps.append(Step(StepKind.PUT, path, staged_path))

    # --- removals ---

    def take_remaining(self) -> None:
        """Plan all other removals, of whole folders where possible."""
        for key, names in self.removed.items():
            folder = self.folders[key]
            if self.is_moved(key):
                continue
            if (highest := self.highest_removed_folder(folder)) is not None:
                self.take(highest, self.folder_owners(highest) or frozenset())
                continue
            listing = self.read_folder(folder) or FolderListing()
            for name in sorted(listing.files):
                owner = names.get(self.key(name))
                path = os.path.join(folder, name)  # noqa: PTH118
                if owner is not None and self.key(path) not in self.moved:
                    self.take(path, frozenset({owner}))

    def take(self, path: str, owners: frozenset[str]) -> None:
        """Plan the removal of a file or folder."""
        self.moved.add(self.key(path))
        listing = None if self.whole_folders else self.real_folder(path)
        if listing is None:
            self.stored_count += 1
            stored = os.path.join(self.store(os.path.dirname(path)), str(self.stored_count))  # noqa: PTH118, PTH120
            self.steps.append(Step(StepKind.TAKE, path, stored, owners))
            return
        for name in (*listing.files, *sorted(listing.folders)):
            inside = os.path.join(path, name)  # noqa: PTH118
            if self.key(inside) not in self.moved:
                self.take(inside, owners)
        if self.key(path) not in self.filled:
            self.steps.append(Step(StepKind.DROP, path, owners=owners))

    # --- owners ---

    def owners(self, path: str, *, is_folder: bool) -> frozenset[str] | None:
        """Return the owners of a path that is removed completely; None if a part stays."""
        if is_folder:
            return self.folder_owners(path)
        folder, name = os.path.split(self.key(path))
        owner = self.removed.get(folder, {}).get(name)
        return None if owner is None else frozenset({owner})

    def folder_owners(self, folder: str) -> frozenset[str] | None:
        """Return the owners of a folder that is removed completely; None if a part stays."""
        key = self.key(folder)
        if key not in self.owners_by_folder:
            self.owners_by_folder[key] = (
                None if key in self.kept else self.find_folder_owners(folder)
            )
        return self.owners_by_folder[key]

    def find_folder_owners(self, folder: str) -> frozenset[str] | None:
        listing = self.real_folder(folder)
        if listing is None:
            return None
        if not (listing.files or listing.folders):
            # The program that created an empty folder may need it.
            is_cache = os.path.basename(folder) == "__pycache__"  # noqa: PTH119
            return frozenset() if is_cache else None
        removed = self.removed.get(self.key(folder), {})
        names = listing.files if self.fold is None else map(self.fold, listing.files)
        owners: set[str] = set()
        for owner in set(map(removed.get, names)):  # tens of thousands of files have few owners
            if owner is None:
                return None
            owners.add(owner)
        for name in sorted(listing.folders):
            owners_below = self.folder_owners(os.path.join(folder, name))  # noqa: PTH118
            if owners_below is None:
                return None
            owners |= owners_below
        return frozenset(owners)

    def real_folder(self, path: str) -> FolderListing | None:
        """Return the names in a folder; None if it is a link or the root of a file system."""
        folder, name = os.path.split(path)
        above = self.read_folder(folder)
        if above is None:
            return None
        folders = above.folders if self.fold is None else map(self.fold, above.folders)
        if self.key(name) not in folders:
            return None
        listing = self.read_folder(path)
        return listing if listing is not None and listing.device == above.device else None

    def highest_removed_folder(self, folder: str) -> str | None:
        """Return the highest folder above that is removed completely; None if this one is not."""
        highest = None
        while self.folder_owners(folder) is not None:
            highest, folder = folder, os.path.dirname(folder)  # noqa: PTH120
        return highest

    def is_moved(self, folder: str) -> bool:
        """Return whether the removal of a folded path, or of a folder above it, is planned."""
        while folder not in self.moved:
            above = os.path.dirname(folder)  # noqa: PTH120
            if above == folder:
                return False
            folder = above
        return True

    def key(self, name: str) -> str:
        """Return a name or path as it is compared."""
        return name if self.fold is None else self.fold(name)
