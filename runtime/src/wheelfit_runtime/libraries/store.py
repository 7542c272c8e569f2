"""The store of libraries: a folder for each wheel, named by its hash.

```
<root>/store/<sha256>/tree/<path as in site-packages>   the libraries, METADATA and licences
<root>/store/<sha256>/wheel.txt                         the wheel's name, and the hash of each file
<root>/selections/<name>.txt                            the libraries chosen for a request
<root>/partial/                                         folders that are being filled
<root>/locks/                                           locks, which only save bandwidth
```

A folder of a wheel appears by one rename, so the store is correct without locks, and a process may
be killed at any moment.
"""

# Imported at every start of a program with libraries, so it imports as little as possible.
# ruff: noqa: PTH112, PTH116, PTH118, PTH119
from __future__ import annotations

import os

from wheelfit_runtime.libraries.files import names_in, read_fields, stays_below
from wheelfit_runtime.platforms.cache_folder import unsafe_folder

_HEXADECIMAL = frozenset("0123456789abcdef")


class StoredWheel:
    """One wheel of a store.

    :param is_own: whether it is in the user's own store.
    """

    def __init__(self, folder: str, *, is_own: bool) -> None:
        self.folder = folder
        self.is_own = is_own

    @property
    def sha256(self) -> str:
        """The hash of the wheel."""
        return os.path.basename(self.folder)

    @property
    def tree(self) -> str:
        """The folder with the files."""
        return os.path.join(self.folder, "tree")

    def fields(self) -> list[list[str]]:
        """Return the lines of ``wheel.txt``, each as its fields; none if it cannot be read."""
        return read_fields(os.path.join(self.folder, "wheel.txt")) or []

    def field(self, name: str) -> str:
        """Return one value of ``wheel.txt``, or an empty text."""
        return next((line[1] for line in self.fields() if line[0] == name and line[1:]), "")

    def files(self) -> list[tuple[str, int, str]]:
        """Return path, size and SHA-256 of each file; none if the list is damaged."""
        try:
            lines = [line for line in self.fields() if line[0] == "file"]
            files = [(path, int(size), digest) for _, path, size, digest in lines]
        except ValueError:
            return []
        return files if all(stays_below(path) for path, _, _ in files) else []

    def is_whole(self) -> bool:
        """Return whether all of its files exist with the right sizes."""
        files = self.files()
        try:
            return bool(files) and all(
                os.stat(os.path.join(self.tree, path)).st_size == size for path, size, _ in files
            )
        except OSError:
            return False


def is_hash(text: str) -> bool:
    """Return whether a text is a SHA-256 in lower case."""
    return len(text) == 64 and not set(text) - _HEXADECIMAL


class Store:
    """The wheels in the user's store and in those of the site; `store_changes` adds new ones.

    :param root: the user's own store; created when it is written.
    :param sites: read-only stores.
    """

    def __init__(self, root: str, sites: tuple[str, ...] = ()) -> None:
        self.root = root
        self.sites = tuple(map(os.path.abspath, sites))

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders of all stores, the user's own first."""
        return (self.root, *self.sites)

    def find(self, sha256: str) -> StoredWheel | None:
        """Return a stored wheel; None: it is in no store."""
        if not is_hash(sha256):
            return None  # a hash in a lock must not lead out of the store
        for root in self.roots:
            folder = os.path.join(root, "store", sha256)
            if os.path.isdir(folder):
                return StoredWheel(folder, is_own=root == self.root)
        return None

    def entries(self) -> list[StoredWheel]:
        """Return all wheels, the user's own first; other names are ignored."""
        wheels = []
        for root in self.roots:
            folder = os.path.join(root, "store")
            wheels += [
                StoredWheel(os.path.join(folder, name), is_own=root == self.root)
                for name in names_in(folder)
                if is_hash(name)
            ]
        return wheels

    def check_safe(self) -> None:
        """Check that no other user can replace libraries in the stores.

        Stores of the site may belong to any user, whom the configuration trusts.

        :raises StoreUnavailable: all users can write to one, or another user owns it.
        """
        for root in self.roots:
            for folder in (root, f"{root}/store", f"{root}/selections"):
                # A group may share a store.
                unsafe = unsafe_folder(
                    folder, group_may_write=True, any_owner=root != self.root, link_allowed=True
                )
                if unsafe is None:
                    continue
                from wheelfit_runtime.errors import StoreUnavailable

                if unsafe.is_open:
                    raise StoreUnavailable(
                        "every user of this machine can write to the library store",
                        where=folder,
                        hint=f"chmod o-w {folder}",
                    )
                raise StoreUnavailable(
                    "the library store belongs to another user, who could exchange libraries",
                    where=folder,
                    hint="set WHEELFIT_LIBRARY_STORE to a folder of your own; name this one in "
                    "WHEELFIT_LIBRARY_SITES if you trust its owner",
                )
