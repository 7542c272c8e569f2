"""Wheels that were built, kept for the next time in the cache that all wheels share.

A key has everything that decides a build: the exact source, the interpreter, the user's settings
for the backend, and the content of the environment. The value is the hash of the wheel, which is
stored among the downloaded ones. Metadata from a backend is cached by its source, so that the
backend is not run again for the same result.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.wheels.record import sha256_of_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wheelfit.sources.cache import Store

KIND = "built"
"""The kind of the entries in the cache."""


@dataclass(frozen=True, slots=True)
class BuiltWheel:
    """A wheel that was built."""

    path: Path
    filename: str


class BuiltWheels:
    """The built wheels in a cache."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, key: str) -> BuiltWheel | None:
        """Return a kept wheel, if it is unchanged."""
        entry = self._store.read(KIND, key)
        if entry is None:
            return None
        path = self._store.sound_wheel(str(entry.head.get("sha256")))
        return None if path is None else BuiltWheel(path, str(entry.head.get("filename")))

    def metadata(self, key: str) -> bytes | None:
        """Return the cached metadata from a backend."""
        entry = self._store.read(KIND, key)
        return None if entry is None else entry.body

    def keep_metadata(self, key: str, data: bytes, about: Mapping[str, object]) -> None:
        """Store the metadata that a backend returned."""
        self._store.write(KIND, key, about, data)

    def keep(self, key: str, wheel: BuiltWheel, about: Mapping[str, object]) -> BuiltWheel:
        """Store a wheel and return its path; if it cannot be stored, its path as before."""
        with self._store.new_wheel() as temporary:
            if temporary is None:
                return wheel
            target, place = temporary
            try:
                with wheel.path.open("rb") as source:
                    shutil.copyfileobj(source, target)
                target.flush()
                os.fsync(target.fileno())
                target.close()
                sha256 = sha256_of_file(place)
            except OSError as error:
                self._store.complain(error)
                return wheel
            kept = self._store.keep_wheel(place, sha256)
        if kept is None:
            return wheel
        head = {"filename": wheel.filename, "sha256": sha256, **about}
        self._store.write(KIND, key, head, b"")
        return BuiltWheel(kept, wheel.filename)
