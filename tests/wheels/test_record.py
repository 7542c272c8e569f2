"""RECORD as CSV."""

from __future__ import annotations

import base64
import hashlib

import pytest

from wheelfit.wheels.record import (
    DIGEST_SIZES,
    Record,
    RecordRow,
    StreamHash,
    format_record,
    parse_record,
    row_for,
)
from wheelfit_runtime.errors import InvalidWheel


def test_missing_final_newline() -> None:
    """B-35: a last row without a line end is a row, and gets one when written."""
    record = parse_record(b"a.py,sha256=x,1\nRECORD,,", where="RECORD")
    assert record == Record((RecordRow("a.py", "sha256=x", "1"), RecordRow("RECORD")))
    assert format_record(record.rows) == b"a.py,sha256=x,1\nRECORD,,\n"


def test_row_of_a_file() -> None:
    """B-36: URL-safe base64 without padding, and the length in bytes, not characters."""
    content = "ü".encode()
    row = row_for("a/ü.txt", content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
    assert row == RecordRow("a/ü.txt", "sha256=" + digest.rstrip("="), "2")


@pytest.mark.parametrize("algorithm", DIGEST_SIZES)
def test_streams(algorithm: str) -> None:
    """Bytes in pieces hash like bytes at once, with every accepted algorithm."""
    seen = StreamHash(algorithm)
    for piece in (b"ab", b"", b"c"):
        seen.update(piece)
    assert seen.size == 3
    assert seen.digest == hashlib.new(algorithm, b"abc").digest()
    assert len(seen.digest) == DIGEST_SIZES[algorithm]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff,,\n", "not UTF-8"),
        (b"a.py,sha256=x\n", "row 1"),
        (b"RECORD,,\na,b,c,d\n", "row 2"),
        (b",sha256=x,1\n", "row 1"),
        (b'"a"b,,\n', "not CSV"),
        (b'"a,,\n', "not CSV"),
    ],
)
def test_unreadable(data: bytes, reason: str) -> None:
    """B-35: what is not a RECORD is refused, saying where."""
    with pytest.raises(InvalidWheel, match=reason) as excinfo:
        parse_record(data, where="x.whl/RECORD")
    assert excinfo.value.where == "x.whl/RECORD"
