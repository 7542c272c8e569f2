"""Keep the libraries of wheels, one folder for each, called by the hash of the wheel.

```
<root>/store/<sha256>/tree/<path as in site-packages>   the libraries, METADATA and licences
<root>/store/<sha256>/wheel.txt                         which wheel, and the hash of each file
<root>/selections/<name>.txt                            what was chosen for whom (`selections`)
<root>/partial/                                         what is under way
<root>/locks/                                           save bandwidth, and nothing else
```

A folder appears whole, by one rename, or not at all; whoever comes second finds it there. So it
is right without locks, and a process may be killed at any moment.
"""

# A later start of a program comes here: nothing is imported that it could do without.
# ruff: noqa: PTH104, PTH112, PTH116
# ruff: noqa: PTH118, PTH119, PTH208
from __future__ import annotations

import os
from contextlib import contextmanager, suppress

from wheelfit.runtime.libraries.files import make_folder, read_fields, stays_below, unique_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Entry", "Store", "is_hash", "unwritable"]


def __dir__() -> list[str]:
    return __all__


_OLD = 24 * 3600.0
"""Seconds after which what is under way belongs to a process that is gone."""
_WRITABLE_BY_ALL = 0o002
_DIGITS = 64
_HEXADECIMAL = frozenset("0123456789abcdef")


class Entry:
    """Hold one wheel of a store.

    :param folder: of the wheel.
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
        """Return path, size and SHA-256 of each file; none if that is not what is written there."""
        try:
            lines = [line for line in self.fields() if line[0] == "file"]
            found = [(path, int(size), digest) for _, path, size, digest in lines]
        except ValueError:
            return []
        return found if all(stays_below(path) for path, _, _ in found) else []

    def touch(self) -> None:
        """Make it as young as a new one, so that nobody removes it before it is chosen."""
        with suppress(OSError):
            os.utime(self.folder)

    def is_whole(self) -> bool:
        """Say whether its files are there with the sizes that they had."""
        files = self.files()
        try:
            return bool(files) and all(
                os.stat(os.path.join(self.tree, path)).st_size == size for path, size, _ in files
            )
        except OSError:
            return False


def is_hash(text: str) -> bool:
    """Say whether a text is a SHA-256, as ours are written."""
    return len(text) == _DIGITS and not set(text) - _HEXADECIMAL


class Store:
    """Find wheels in the user's store and in those of the site, and keep new ones.

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

    def find(self, sha256: str) -> Entry | None:
        """Return a wheel that is there."""
        if not is_hash(sha256):
            return None  # of a lock or a file that somebody wrote: it must not lead elsewhere
        for root in self.roots:
            folder = os.path.join(root, "store", sha256)
            if os.path.isdir(folder):
                return Entry(folder, is_own=root == self.root)
        return None

    def entries(self) -> list[Entry]:
        """Return all wheels, the user's own first; what is called otherwise is none of ours."""
        found = []
        for root in self.roots:
            folder = os.path.join(root, "store")
            with suppress(OSError):
                found += [
                    Entry(os.path.join(folder, name), is_own=root == self.root)
                    for name in sorted(os.listdir(folder))
                    if is_hash(name)
                ]
        return found

    def refuse_unsafe(self) -> None:
        """See that no stranger can exchange what is loaded from here.

        Stores of the site may belong to anybody: whoever named them trusts their owner.

        :raises StoreUnavailable: every user of the machine may write there, or it is another
            user's.
        """
        if os.name != "posix":
            return
        for root in self.roots:
            for folder in (root, f"{root}/store", f"{root}/selections"):
                try:
                    status = os.stat(folder)
                except OSError:
                    continue
                if status.st_mode & _WRITABLE_BY_ALL:
                    from wheelfit.errors import StoreUnavailable  # noqa: PLC0415

                    raise StoreUnavailable(
                        "every user of this machine can write to the library store",
                        where=folder,
                        hint=f"chmod o-w {folder}",
                    )
                if root == self.root and status.st_uid not in (0, os.geteuid()):
                    from wheelfit.errors import StoreUnavailable  # noqa: PLC0415

                    raise StoreUnavailable(
                        "the library store belongs to another user, who could exchange libraries",
                        where=folder,
                        hint="set WHEELFIT_LIBRARY_STORE to a folder of your own; name this one in "
                        "WHEELFIT_LIBRARY_SITES if you trust its owner",
                    )

    # --- keeping ----------------------------------------------------------------------------

    @contextmanager
    def working_folder(self) -> Iterator[str]:
        """Give a folder for what is under way, and remove it in the end.

        :raises StoreUnavailable: the store cannot be written.
        """
        import shutil  # noqa: PLC0415

        self.sweep()
        folder = os.path.join(self.root, "partial", unique_name())
        try:
            make_folder(folder)
        except OSError as error:
            raise unwritable(self.root, error) from None
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def keep(self, folder: str, sha256: str) -> Entry:
        """Put a filled folder in its place; if one is there already, that one stays.

        :param folder: with ``tree`` and ``wheel.txt``, below :meth:`working_folder`.
        :raises OSError: it cannot be put there.
        """
        parent = os.path.join(self.root, "store")
        make_folder(parent)
        place = os.path.join(parent, sha256)
        try:
            os.rename(folder, place)
        except OSError:
            if not os.path.isdir(place):
                raise
        _sync(parent)
        return Entry(place, is_own=True)

    def remove(self, entry: Entry) -> None:
        """Remove a wheel of the user's own store: gone at once, then deleted.

        :raises OSError: it cannot be removed.
        """
        import shutil  # noqa: PLC0415

        parent = os.path.join(self.root, "partial")
        make_folder(parent)
        grave = os.path.join(parent, unique_name())
        os.rename(entry.folder, grave)
        shutil.rmtree(grave, ignore_errors=True)

    def sweep(self, age: float = _OLD) -> int:
        """Remove what processes left behind that were killed; return how many folders.

        :param age: seconds since it was touched.
        """
        import shutil  # noqa: PLC0415
        import time  # noqa: PLC0415

        count = 0
        folder = os.path.join(self.root, "partial")
        with suppress(OSError):
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                with suppress(OSError):
                    if time.time() - os.stat(path).st_mtime > age:
                        shutil.rmtree(path, ignore_errors=True)
                        count += 1
        return count


def _sync(folder: str) -> None:
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def unwritable(root: str, error: OSError) -> Exception:
    """Return what to say when a store cannot be written."""
    import errno  # noqa: PLC0415

    from wheelfit.errors import StoreUnavailable  # noqa: PLC0415

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreUnavailable(
            "there is no space left for the libraries",
            where=root,
            note="nothing half-written stays behind",
            hint="free some (python -m wheelfit.runtime store gc), or set WHEELFIT_LIBRARY_STORE",
        )
    return StoreUnavailable(
        f"the library store cannot be written: {error.strerror or error}",
        where=root,
        hint="set WHEELFIT_LIBRARY_STORE to a folder that can be written, or have the libraries "
        "put into a store of the site (WHEELFIT_LIBRARY_SITES)",
    )
