"""Join the wheels of a store in one folder laid out as a toolkit, for programs that need one.

Compilers want ``include``, and tools with ``CUDA_PATH`` look below it. Such a folder has links
only; its name identifies its wheels, so it is never changed:

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
from wheelfit_runtime.libraries.store_changes import put, unwritable, working_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wheelfit_runtime.libraries.store import Store, StoredWheel

_PLACE = "folders"
_WHEELS = ".wheels"
_SHARED = ("nvidia",)
"""Folders of site-packages in which every wheel has one of its own."""
_LENGTH = 32


def joined(store: Store, wheels: Sequence[str]) -> str:
    """Return the folder that joins some wheels; it is made if it is not there.

    :raises StoreUnavailable: it is not there, and the store cannot be written.
    """
    entries = [wheel for sha256 in wheels if (wheel := store.find(sha256)) is not None]
    # The paths count too: a store may have been moved.
    text = "\n".join(sorted(entry.tree for entry in entries))
    name = hashlib.sha256(os.fsencode(text)).hexdigest()[:_LENGTH]
    for root in store.roots:
        if Path(root, _PLACE, name).is_dir():
            return str(Path(root, _PLACE, name))
    place = Path(store.root, _PLACE, name)
    with working_folder(store) as working:
        made = Path(working, name)
        try:
            _fill(made, entries)
            put(str(made), str(place))
        except OSError as error:
            raise unwritable(store.root, error) from None
    return str(place)


def _fill(folder: Path, entries: Sequence[StoredWheel]) -> None:
    make_folder(str(folder / _WHEELS))
    for entry in entries:
        (folder / _WHEELS / entry.sha256).symlink_to(entry.folder)
        for path, _, _ in entry.files():
            inside = _inside(PurePosixPath(path))
            if inside is None:
                continue
            link = folder / inside
            make_folder(str(link.parent))
            # Wheels may have a header both; they are of one version.
            with suppress(FileExistsError):
                link.symlink_to(Path(entry.tree, path))
    # Toolkits have the one or the other, and some tools require this one.
    if (folder / "lib").is_dir() and not (folder / "lib64").exists():
        (folder / "lib64").symlink_to("lib")


def _inside(path: PurePosixPath) -> PurePosixPath | None:
    """Return the place of a wheel's file in the folder; None: it belongs to no toolkit."""
    first, *rest = path.parts
    if first.endswith(".dist-info"):
        return None
    if first.endswith(".data") or first in _SHARED:
        rest = rest[1:]
    # What lies in no folder but its wheel's own is a licence or such.
    return PurePosixPath(*rest) if len(rest) > 1 else None


def remove_broken(store: Store) -> None:
    """Remove the folders with a missing wheel."""
    with suppress(OSError):
        for place in Path(store.root, _PLACE).iterdir():
            links = (place / _WHEELS).iterdir()
            if any(not link.exists() for link in links):
                shutil.rmtree(place, ignore_errors=True)
