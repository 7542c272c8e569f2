"""Find the order in which libraries are loaded: what one needs comes before it (DT_NEEDED).

Wheels lie in folders of their own here, so the paths that are written into the libraries lead
nowhere; the loader takes what is mapped already under the name that is needed.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from wheelfit_runtime.libraries.selections import ChosenLibrary
from wheelfit_runtime.platforms.elf import read_shared_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit_runtime.libraries.store import StoredWheel
    from wheelfit_runtime.platforms.elf import SharedObject

_MAGIC = b"\x7fELF"


def in_order(
    entries: Iterable[StoredWheel], asked: Mapping[str, tuple[str, ...]]
) -> tuple[ChosenLibrary, ...]:
    """Return the libraries to load, each once, what is needed first.

    :param asked: by component: how the names of its libraries begin.
    """
    known: dict[str, tuple[StoredWheel, str, int, SharedObject]] = {}
    for entry in entries:
        for path, size, _ in entry.files():
            name = PurePosixPath(path).name
            if ".so" not in name:
                continue
            with Path(entry.tree, path).open("rb") as stream:
                if stream.read(len(_MAGIC)) != _MAGIC:
                    continue  # linkers read text under such names, that leads to another file
                stream.seek(0)
                names = read_shared_object(stream)
            soname = names.soname or name
            # A library may lie there under several names; the one it calls itself is best.
            if soname not in known or name == soname:
                known[soname] = (entry, path, size, names)
    found: dict[str, ChosenLibrary] = {}
    begun: set[str] = set()

    def add(soname: str, component: str) -> None:
        if soname in begun or soname not in known:
            return
        begun.add(soname)
        entry, path, size, names = known[soname]
        for needed in names.needed:
            add(needed, component)
        found[soname] = ChosenLibrary(
            entry.sha256, path, size, soname, _owner(soname, component, asked)
        )

    for component, stems in asked.items():
        for stem in stems:
            for soname in sorted(known):
                if soname.startswith(stem):
                    add(soname, component)
    return tuple(found.values())


def _owner(soname: str, component: str, asked: Mapping[str, tuple[str, ...]]) -> str:
    owners = (name for name, stems in asked.items() if soname.startswith(stems))
    return next(owners, component)
