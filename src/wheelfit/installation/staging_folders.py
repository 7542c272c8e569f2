"""The folders in which a change is prepared, the workplaces: one in each file system.

New files are staged in them and old files are moved there, so that every step of a change is a
rename.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.errors import EnvironmentBusy
from wheelfit.installation.environment_folders import WORKPLACE, EnvironmentFolders
from wheelfit.installation.journal import FOLDERS, format_folders, journal_stage_of, mark_workplace

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, ItemsView, Sequence

    from wheelfit.wheels.file_system import FileSystem

_POLL_INTERVAL = 0.05


def make_folders(folder: str, make: Callable[[str], None] = os.mkdir) -> list[str]:
    """Create a folder and its parents, and return those created, the deepest first.

    :param folder: an absolute path; the folder may exist.
    """
    missing = []
    while not os.path.isdir(folder):  # noqa: PTH112
        missing.append(folder)
        folder = os.path.dirname(folder)  # noqa: PTH120
    created: list[str] = []
    try:
        for path in reversed(missing):
            with suppress(FileExistsError):  # another process has just created it
                make(path)
                created.insert(0, path)
    except OSError:
        remove_folders(created)
        raise
    return created


def remove_folders(created: Sequence[str]) -> None:
    """Remove folders that `make_folders` created, if they are empty."""
    for folder in created:
        with suppress(OSError):
            os.rmdir(folder)  # noqa: PTH106


class Workplaces:
    """The workplaces of one change.

    :param created: folders that were created for this change, the deepest first.
    :param environment_disk: the file system for paths in the environment.
    :param outside_disk: the file system for all other paths.
    """

    def __init__(
        self,
        folders: EnvironmentFolders,
        created: Sequence[str],
        environment_disk: FileSystem,
        outside_disk: FileSystem,
    ) -> None:
        self._folders = folders
        self._disk = environment_disk
        self._outside_disk = outside_disk
        # A workplace may still have files of an earlier change that could not be removed.
        self._token = secrets.token_hex(4)
        self._created_before = tuple(created)
        self._created: list[str] = []
        self._devices: dict[str, Hashable] = {}
        self._workplaces: dict[Hashable, str] = {}
        self._target_by_tree: dict[str, str] = {}
        self._staged_by_scheme: dict[str, Path] = {}

    @property
    def stages(self) -> ItemsView[str, str]:
        """The staged trees, each with its target folder in the environment."""
        return self._target_by_tree.items()

    def claim(self, lock_timeout: float | None) -> bool:
        """Create the workplace in the library folder.

        If this process could not lock the environment, another one may be changing it. This waits
        until that has finished.

        :param lock_timeout: seconds to wait; None: this process has locked the environment.
        :return: whether the workplace was created. With the lock, False means that an earlier
            change has left it.
        :raises EnvironmentBusy: another process is still changing the environment after that time.
        """
        end = time.monotonic() + (lock_timeout or 0)
        while True:
            try:
                # A journal means that another change runs, or was interrupted.
                if journal_stage_of(self._folders) is None:
                    self._disk.make_folder(self._folders.workplace, 0o700)
                    return True
            except FileExistsError:
                if lock_timeout is None:
                    return False  # it has files of an earlier change that could not be removed
            if time.monotonic() >= end:
                raise EnvironmentBusy(
                    "another process is changing the environment, or was killed",
                    where=self._folders.workplace,
                    hint="if none is running, `wheelfit recover` repairs the environment",
                )
            time.sleep(_POLL_INTERVAL)

    def open(self, *, created: bool) -> None:
        """Mark the workplace in the library folder as one of this user."""
        mark_workplace(self._folders, self._folders.workplace, self._disk, created=created)
        self.workplace_for(self._folders.library)
        if self._created_before:
            self._record_folders()

    def remove_created(self) -> None:
        """Remove the folders of the environment that were created here, if they are empty."""
        remove_folders(self._created)

    def stage(self, scheme: str) -> Path:
        """Return the staged folder of a scheme."""
        if scheme in self._staged_by_scheme:
            return self._staged_by_scheme[scheme]
        # If the folder of the scheme is within that of another one, both share a staged tree, since
        # both may get files in the same subfolder.
        outer = self._folders.outermost(scheme)
        root, outer_root = self._folders.roots[scheme], self._folders.roots[outer]
        tree = os.path.join(self.workplace_for(root), f"new-{self._token}", outer)  # noqa: PTH118
        self._target_by_tree[tree] = outer_root
        path_in_tree = os.path.relpath(root, outer_root)
        folder = os.path.normpath(os.path.join(tree, path_in_tree))  # noqa: PTH118
        self._make(folder)
        self._staged_by_scheme[scheme] = Path(folder)
        return self._staged_by_scheme[scheme]

    def store(self, folder: str) -> str:
        """Return the folder to which removed files of a folder are moved."""
        store = os.path.join(self.workplace_for(folder), f"old-{self._token}")  # noqa: PTH118
        self._make(store)
        return store

    def workplace_for(self, folder: str) -> str:
        """Return the workplace in the file system of a folder."""
        existing = folder
        while not os.path.isdir(existing):  # noqa: PTH112
            existing = os.path.dirname(existing)  # noqa: PTH120
        device = self._device(existing)
        if device not in self._workplaces:
            workplace = os.path.join(self._parent_of_workplace(device, folder), WORKPLACE)  # noqa: PTH118
            self._workplaces[device] = workplace
            if workplace != self._folders.workplace:
                self._record_folders()
                created = False
                with suppress(FileExistsError):
                    self._disk.make_folder(workplace, 0o700)
                    created = True
                mark_workplace(self._folders, workplace, self._disk, created=created)
        return self._workplaces[device]

    def is_in_workplace_for(self, path: str, folder: str) -> bool:
        """Return whether a path is in the workplace that `workplace_for` returns for a folder."""
        workplace = self._workplaces.get(self._device(folder))
        return workplace is not None and path.startswith(workplace + os.sep)

    def make_roots(self) -> None:
        """Create the folders of the environment for which there are staged trees."""
        for top in self._target_by_tree.values():
            self._make_root(top)

    def sync(self) -> None:
        """Write everything in the workplaces to the disk."""
        for workplace in self._workplaces.values():
            self._disk.sync_tree(workplace)

    def _make(self, folder: str) -> None:
        if not os.path.isdir(folder):  # noqa: PTH112
            self._make(os.path.dirname(folder))  # noqa: PTH120
            self._disk.make_folder(folder)

    def _parent_of_workplace(self, device: Hashable, folder: str) -> str:
        """Return the parent of a workplace: a folder of the environment, if possible."""
        for root in self._folders.roots.values():
            if os.path.isdir(root) and self._device(root) == device:  # noqa: PTH112
                return root
        self._make_root(folder)
        return folder

    def _make_root(self, folder: str) -> None:
        if created := make_folders(folder, self._make_folder):
            self._created = [*created, *self._created]
            self._record_folders()

    def _make_folder(self, folder: str) -> None:
        """Create a folder, which may be above those of the environment."""
        (self._disk if self._folders.has(folder) else self._outside_disk).make_folder(folder)

    def _device(self, folder: str) -> Hashable:
        if folder not in self._devices:
            self._devices[folder] = self._outside_disk.device_of(folder)
        return self._devices[folder]

    def _record_folders(self) -> None:
        """Record the created folders, so that another process can remove them."""
        created = {*self._created_before, *self._created}
        main_workplace = self._folders.workplace
        data = format_folders(
            self._folders,
            [path for path in self._workplaces.values() if path != main_workplace],
            {
                # The number of folders to remove: the root, and created parents of it.
                scheme: sum(
                    root == folder or root.startswith(folder + os.sep) for folder in created
                )
                for scheme, root in self._folders.roots.items()
                if root in created
            },
        )
        folders_file = os.path.join(main_workplace, FOLDERS)  # noqa: PTH118
        self._disk.write(f"{folders_file}.new", data)
        self._disk.replace(f"{folders_file}.new", folders_file)
