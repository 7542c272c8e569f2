"""Keep the libraries of wheels, one folder for each, called by the hash of the wheel.

```
<root>/store/<sha256>/tree/<path as in site-packages>   the libraries, METADATA and licences
<root>/store/<sha256>/wheel.txt                         which wheel, and the hash of each file
<root>/selections/<name>.txt                            what was chosen for whom (`selections`)
<root>/partial/                                         what is under way
<root>/locks/                                           save bandwidth, and nothing else
```

A folder appears whole, by one rename, or not at all; a second process finds it there. So it is
correct without locks, and a process may be killed at any moment.
"""

# A later start of a program comes here: nothing is imported that it could do without.
# ruff: noqa: PTH112, PTH116, PTH118, PTH119
from __future__ import annotations

import os

from wheelfit_runtime.libraries.files import names_in, read_fields, stays_below
from wheelfit_runtime.platforms.cache_folder import unsafe_folder

_DIGITS = 64
_HEXADECIMAL = frozenset("0123456789abcdef")


class StoredWheel:
    """One wheel of a store.

    :param is_own: whether it lies in the user's own store.
    """

    __slots__ = ("folder", "is_own")

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
        """Return whether its files are there with the sizes that they had."""
        files = self.files()
        try:
            return bool(files) and all(
                os.stat(os.path.join(self.tree, path)).st_size == size for path, size, _ in files
            )
        except OSError:
            return False


def is_hash(text: str) -> bool:
    """Return whether a text is a SHA-256, as ours are written."""
    return len(text) == _DIGITS and not set(text) - _HEXADECIMAL


class Store:
    """The wheels in the user's store and in those of the site; `keeping` brings new ones.

    :param root: the user's own; made when something is kept.
    :param sites: others, which are only read.
    """

    def __init__(self, root: str, sites: tuple[str, ...] = ()) -> None:
        self.root = root
        self.sites = tuple(map(os.path.abspath, sites))

    @property
    def roots(self) -> tuple[str, ...]:
        """All of them, the user's own first."""
        return (self.root, *self.sites)

    def find(self, sha256: str) -> StoredWheel | None:
        """Return a wheel that is there."""
        if not is_hash(sha256):
            return None  # from a lock or a foreign file: it must not lead out of the store
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
        """Raise an error if another user can replace libraries loaded from here.

        Stores of the site may belong to any user: naming them means trusting their owner.

        :raises StoreUnavailable: every user of the machine may write there, or it is another
            user's.
        """
        for root in self.roots:
            for folder in (root, f"{root}/store", f"{root}/selections"):
                # A group may care for the store of a site, or share one.
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
