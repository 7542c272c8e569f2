"""Hashes of files whose index lists none: recorded on first use, then compared.

Otherwise such an index, or an attacker who controls it, could replace a file unnoticed. The records
are in the cache; without a cache no change is noticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.sources.cache import Store, recorded_hash_key
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import IntegrityError

if TYPE_CHECKING:
    from packaging.utils import NormalizedName

    from wheelfit.sources.page import File

_KIND = "hashes"


class RecordedHashes:
    """The SHA-256 of files on first use, by their URLs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, file: File) -> str | None:
        """Return the recorded SHA-256 of a file, hexadecimal; None if there is none."""
        entry = self._store.read(_KIND, _key(file))
        return None if entry is None else entry.body.decode("ascii", "replace")

    def check(self, name: NormalizedName, file: File, sha256: str) -> None:
        """Compare the SHA-256 of a fetched file with its record; if there is none, write it.

        :param sha256: hexadecimal.
        :raises IntegrityError: ``file-changed``; the record differs.
        """
        recorded = self.of(file)
        if recorded is None:
            self._store.write(_KIND, _key(file), {"name": name}, sha256.encode())
        elif recorded != sha256:
            raise changed(name, file, f"expected {recorded}\n  actual {sha256}")


def _key(file: File) -> str:
    url = redact(file.url)
    # A query is a signature, which changes, or names the file.
    return recorded_hash_key(url if url == file.url else f"{url} {file.as_published.filename}")


def changed(name: NormalizedName, file: File, note: str | None) -> IntegrityError:
    """Return the error for a file that has changed since its first use."""
    return IntegrityError(
        f"{file.display_name} has changed since it was first used, and its index lists no hash",
        code="file-changed",
        where=redact(file.url),
        note=note,
        hint="nothing was installed from it; ask its publisher whether it was replaced: "
        f"`wheelfit cache remove {name}` removes the recorded hash",
    )
