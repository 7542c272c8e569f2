"""Folders laid out as a CUDA toolkit, with links to the files of some wheels of a store.

Compilers need ``include``, and some tools need ``CUDA_PATH``. The name of a folder identifies its
wheels, so its content never changes:

```
<root>/folders/<name>/.wheels/<sha256>      a link to each wheel
<root>/folders/<name>/include, lib, nvvm    links to their files
```
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from wheelfit_runtime.libraries.files import make_folder
from wheelfit_runtime.libraries.store_changes import (
    move_into_place,
    unwritable_store_error,
    working_folder,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wheelfit_runtime.libraries.store import Store, StoredWheel

_FOLDERS = "folders"
_WHEELS = ".wheels"
_SHARED = ("nvidia",)
"""Folders of site-packages in which each wheel has its own folder."""
_NAME_LENGTH = 32


def toolkit_folder(store: Store, wheels: Sequence[str]) -> str:
    """Return the path of the folder with the files of some wheels, which is created if missing.

    :param wheels: the SHA-256 of each wheel; those that the store does not have are ignored.
    :raises StoreUnavailable: it is missing, and the store cannot be written.
    """
    entries = [entry for entry in map(store.find, wheels) if entry is not None]
    # The name depends on the paths, since a store may have been moved.
    text = "\n".join(sorted(entry.tree for entry in entries))
    name = hashlib.sha256(os.fsencode(text)).hexdigest()[:_NAME_LENGTH]
    for root in store.roots:
        if Path(root, _FOLDERS, name).is_dir():
            return str(Path(root, _FOLDERS, name))
    target = Path(store.root, _FOLDERS, name)
    with working_folder(store) as working:
        temporary = Path(working, name)
        try:
            _fill(temporary, entries)
            move_into_place(str(temporary), str(target))
        except OSError as error:
            raise unwritable_store_error(store.root, error) from None
    return str(target)


def _fill(folder: Path, entries: Sequence[StoredWheel]) -> None:
    make_folder(str(folder / _WHEELS))
    for entry in entries:
        (folder / _WHEELS / entry.sha256).symlink_to(entry.folder)
        for path, _, _ in entry.files():
            toolkit_path = _toolkit_path(PurePosixPath(path))
            if toolkit_path is None:
                continue
            link = folder / toolkit_path
            make_folder(str(link.parent))
            # Two wheels may have the same header, in the same version.
            with suppress(FileExistsError):
                link.symlink_to(Path(entry.tree, path))
    # Some tools need lib64.
    if (folder / "lib").is_dir() and not (folder / "lib64").exists():
        (folder / "lib64").symlink_to("lib")


def _toolkit_path(path: PurePosixPath) -> PurePosixPath | None:
    """Return the path in a toolkit of a wheel's file; None if a toolkit does not have it."""
    first, *rest = path.parts
    if first.endswith(".dist-info"):
        return None
    if first.endswith(".data") or first in _SHARED:
        rest = rest[1:]
    # A file directly in the wheel's folder is a licence or similar.
    return PurePosixPath(*rest) if len(rest) > 1 else None


def remove_broken(store: Store) -> None:
    """Remove the folders with a missing wheel."""
    for folder in Path(store.root, _FOLDERS).glob("*"):
        with suppress(OSError):
            links = (folder / _WHEELS).iterdir()
            if any(not link.exists() for link in links):
                shutil.rmtree(folder, ignore_errors=True)
