"""The part of the cache for wheels that were built locally, and for metadata from backends.

A key covers everything that a build depends on: the exact source, the interpreter, the user's
settings for the backend, and the content of the environment. The value is the hash of the wheel,
which is stored with the downloaded wheels. Metadata from a backend is cached by source, so that the
backend does not run again for the same result.
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
    """A wheel that was built locally."""

    path: Path
    filename: str


class BuiltWheels:
    """The built wheels in a cache."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, key: str) -> BuiltWheel | None:
        """Return a cached wheel; None if there is none, or it was changed."""
        entry = self._store.read(KIND, key)
        if entry is None:
            return None
        path = self._store.intact_wheel(str(entry.head.get("sha256")))
        return None if path is None else BuiltWheel(path, str(entry.head.get("filename")))

    def metadata(self, key: str) -> bytes | None:
        """Return the cached metadata from a backend; None if there is none."""
        entry = self._store.read(KIND, key)
        return None if entry is None else entry.body

    def store_metadata(self, key: str, data: bytes, about: Mapping[str, object]) -> None:
        """Store the metadata that a backend returned."""
        self._store.write(KIND, key, about, data)

    def keep(self, key: str, wheel: BuiltWheel, about: Mapping[str, object]) -> BuiltWheel:
        """Store a wheel, and return the cached copy; if storing fails, return the wheel itself."""
        with self._store.new_wheel() as temporary:
            if temporary is None:
                return wheel
            target, path = temporary
            try:
                with wheel.path.open("rb") as source:
                    shutil.copyfileobj(source, target)
                target.flush()
                os.fsync(target.fileno())
                target.close()
                sha256 = sha256_of_file(path)
            except OSError as error:
                self._store.warn_once(error)
                return wheel
            cached_path = self._store.keep_wheel(path, sha256)
        if cached_path is None:
            return wheel
        head = {"filename": wheel.filename, "sha256": sha256, **about}
        self._store.write(KIND, key, head, b"")
        return BuiltWheel(cached_path, wheel.filename)
