"""RECORD: the list of a wheel's files, with hashes and sizes.

RECORD is CSV in UTF-8 with three columns, and is read and written as such, so that names with
commas, quotes and non-ASCII characters are kept (B-35). Only the standard library is imported,
since `wheelfit recover` reads RECORD where all else is gone.
"""

from __future__ import annotations

import csv
import hashlib
import io
from binascii import b2a_base64
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.errors import InvalidWheel
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


DIGEST_SIZES = {
    "sha256": 32,
    "sha384": 48,
    "sha512": 64,
    "blake2b": 64,
    "blake2s": 32,
    "sha3_256": 32,
    "sha3_384": 48,
    "sha3_512": 64,
}
"""Accepted hash algorithms, SHA-256 and stronger, with their digest size in bytes."""


_HEXADECIMAL = pattern(r"[0-9A-Fa-f]+")
_ROOTS = ("/", "\\")
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class RecordRow(NamedTuple):
    """A row of RECORD, unchecked."""

    path: str
    """Path inside the wheel, with ``/``."""
    hash: str = ""
    """``algorithm=digest``, the digest URL-safe base64 without padding; may be empty."""
    size: str = ""
    """Size in bytes, decimal; may be empty."""


class Record(NamedTuple):
    """The rows of a RECORD in their order, and its line ending."""

    rows: tuple[RecordRow, ...]
    terminator: str = "\n"
    """``\\n`` or ``\\r\\n``."""


class StreamHash:
    """The hash and size of a stream of bytes.

    >>> stream = StreamHash()
    >>> stream.update(b"import this")
    >>> stream.size
    11

    :param algorithm: one of `DIGEST_SIZES`.
    """

    def __init__(self, algorithm: str = "sha256") -> None:
        self._algorithm = algorithm
        self._hash = hashlib.new(algorithm)
        self.size = 0
        """Bytes seen so far."""

    def update(self, data: bytes) -> None:
        """Add the next bytes."""
        self._hash.update(data)
        self.size += len(data)

    @property
    def digest(self) -> bytes:
        """The digest of all bytes seen so far."""
        return self._hash.digest()

    def row(self, path: str) -> RecordRow:
        """Return the row of a file that consists of the bytes seen so far."""
        return RecordRow(path, f"{self._algorithm}={encode_digest(self.digest)}", str(self.size))


def encode_digest(digest: bytes) -> str:
    """Write a digest the way RECORD does: URL-safe base64 without padding (B-36).

    >>> encode_digest(bytes([255, 254, 253, 252]))
    '__79_A'
    """
    return b2a_base64(digest, newline=False).translate(_URL_SAFE).decode("ascii").rstrip("=")


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def row_for(path: str, data: bytes) -> RecordRow:
    """Return the row of a file; the size counts bytes, never characters (B-36)."""
    stream = StreamHash()
    stream.update(data)
    return stream.row(path)


def parse_record(data: bytes, *, where: str) -> Record:
    """Read a RECORD.

    >>> parse_record(b'"a,b.py",sha256=x,3', where="RECORD").rows[0].path
    'a,b.py'

    A digest in hexadecimal, as some old tools write it, is read as if it were in base64.

    :raises InvalidWheel: not UTF-8, not CSV, or a row without exactly three columns.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidWheel(f"RECORD is not UTF-8: {error}", where=where) from None
    rows = []
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if not cells:
                continue  # an empty line is ignored
            if len(cells) != 3 or not cells[0]:
                raise InvalidWheel(
                    f"row {reader.line_num} of RECORD needs a path and two more columns: "
                    f"{','.join(cells)!r}",
                    where=where,
                )
            path, hash_text, size = cells
            # Some published wheels have hexadecimal digests.
            rows.append(
                RecordRow(path, _in_base64(hash_text) if len(hash_text) > 60 else hash_text, size)
            )
    except csv.Error as error:
        raise InvalidWheel(f"RECORD is not CSV: {error}", where=where) from None
    first_line_end = text.find("\n")
    crlf = first_line_end > 0 and text[first_line_end - 1] == "\r"
    return Record(tuple(rows), "\r\n" if crlf else "\n")


def leads_out(path: str) -> bool:
    """Return whether the path of a row leads out of the wheel, on any system.

    >>> leads_out("../../victim"), leads_out("0:/victim"), leads_out("fast/__init__.py")
    (True, True, False)
    """
    if ".." not in path and ":" not in path and path[:1] not in _ROOTS:
        return False  # nearly all of them
    parts = path.replace("\\", "/").split("/")
    # As in `ntpath`, any character before a colon is a drive, not only a letter.
    return ".." in parts or parts[0] == "" or (len(parts[0]) == 2 and parts[0][1] == ":")


def _in_base64(hash_text: str) -> str:
    """Return a hash as RECORD should have it, if its digest is written in hexadecimal."""
    algorithm, _, digest = hash_text.partition("=")
    if len(digest) != 2 * DIGEST_SIZES.get(algorithm, 0) or not _HEXADECIMAL.fullmatch(digest):
        return hash_text
    return f"{algorithm}={encode_digest(bytes.fromhex(digest))}"


def format_record(rows: Iterable[RecordRow], terminator: str = "\n") -> bytes:
    """Write a RECORD; every line has a terminator, also the last one (B-35)."""
    return format_cells(((row.path, row.hash, row.size) for row in rows), terminator)


def format_cells(rows: Iterable[tuple[str, str, str | int]], terminator: str = "\n") -> bytes:
    """Write a RECORD like `format_record`, fast enough for tens of thousands of rows."""
    cells = tuple(rows)
    text = "".join([f"{path},{digest},{size}{terminator}" for path, digest, size in cells])
    expected_returns = len(cells) if terminator == "\r\n" else 0
    if (
        '"' in text
        or text.count(",") > 2 * len(cells)
        or text.count("\n") > len(cells)
        or text.count("\r") > expected_returns
    ):
        # Something must be quoted. The writer checks every cell, and takes five times as long.
        stream = io.StringIO(newline="")
        csv.writer(stream, lineterminator=terminator).writerows(cells)
        text = stream.getvalue()
    return text.encode("utf-8")
