"""Verification of bytes against expected hashes and size, while they are streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.errors import HashMismatch, IntegrityError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


KNOWN_HASHES = frozenset(
    {
        *("sha256", "sha384", "sha512", "sha224", "sha1", "md5"),
        *("sha3_256", "sha3_384", "sha3_512", "blake2b", "blake2s"),
    }
)
"""Algorithms by which files can be checked."""
WEAK_HASHES = frozenset({"md5", "sha1"})
"""Algorithms that detect accidents only: two files with the same digest can be created."""
_BLOCK = 1 << 20


class HashCheck:
    """A verification of the bytes of a file, which are passed in order.

    :param hashes: expected digests; all of known algorithms must match.
    :param size: expected size in bytes; None if unknown.
    :param where: the file or URL without credentials, for errors.
    :param with_sha256: whether to compute `sha256` even if it is not expected.
    :raises IntegrityError: there are expected digests, but none of a known algorithm.
    """

    def __init__(
        self,
        hashes: Mapping[str, str],
        size: int | None,
        *,
        where: str,
        with_sha256: bool = False,
    ) -> None:
        self._expected = {name: hashes[name] for name in hashes if name in KNOWN_HASHES}
        if hashes and not self._expected:
            raise IntegrityError(
                f"the only hash listed has an unknown algorithm: {', '.join(sorted(hashes))}",
                where=where,
            )
        import hashlib

        names = {*self._expected, *(["sha256"] if with_sha256 else [])}
        self._running = {name: hashlib.new(name, usedforsecurity=False) for name in names}
        self._size = size
        self._where = where
        self.count = 0
        """Bytes passed so far."""

    def update(self, data: bytes) -> None:
        """Add the next bytes.

        :raises IntegrityError: there are more than expected.
        """
        self.count += len(data)
        if self._size is not None and self.count > self._size:
            raise self._wrong_size(f"more than {self._size}")
        for running in self._running.values():
            running.update(data)

    def finish(self) -> None:
        """Check the complete content.

        :raises HashMismatch: a digest differs from the expected one.
        :raises IntegrityError: there are fewer bytes than expected.
        """
        if self._size is not None and self.count != self._size:
            raise self._wrong_size(f"{self.count} instead of {self._size}")
        for name, expected in self._expected.items():
            actual = self._running[name].hexdigest()
            if actual != expected:
                raise HashMismatch(
                    algorithm=name, expected=[expected], actual=actual, where=self._where
                )

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes passed so far, hexadecimal."""
        return self._running["sha256"].hexdigest()

    def _wrong_size(self, difference: str) -> IntegrityError:
        return IntegrityError(
            f"the file has another size than promised: {difference} bytes",
            where=self._where,
            hint="try again; if it happens again, report it to the index operator",
        )


def check_bytes(data: bytes, hashes: Mapping[str, str], size: int | None, *, where: str) -> None:
    """Check bytes in memory, as `HashCheck` does."""
    check = HashCheck(hashes, size, where=where)
    check.update(data)
    check.finish()


def check_file(
    path: Path,
    hashes: Mapping[str, str],
    size: int | None,
    *,
    where: str,
    advance: Callable[[int], None] = lambda _: None,
) -> str:
    """Check a file on disk as `HashCheck` does, and return its SHA-256.

    :param advance: called with the count of bytes read.
    :raises OSError: it cannot be read.
    """
    check = HashCheck(hashes, size, where=where, with_sha256=True)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            check.update(block)
            advance(len(block))
    check.finish()
    return check.sha256
