"""Responses to range and conditional requests, without a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wheelfit.server.messages import FilePart, Request, Response, content_response

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = b"0123456789"
ETAG = '"abc"'


def ask(**headers: str) -> Response:
    """Request a file of ten bytes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request("GET", "/files/x", named)
    return content_response(request, CONTENT, len(CONTENT), etag=ETAG, headers={"x": "y"})


@pytest.mark.parametrize(
    ("header", "expected", "content_range"),
    [
        ("bytes=0-3", b"0123", "bytes 0-3/10"),
        ("bytes=4-", b"456789", "bytes 4-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=-30", CONTENT, "bytes 0-9/10"),
        ("bytes=9-9", b"9", "bytes 9-9/10"),
        ("bytes=5-99", b"56789", "bytes 5-9/10"),
    ],
)
def test_ranges(header: str, expected: bytes, content_range: str) -> None:
    """RFC 9110: single ranges, open ends and suffixes."""
    answer = ask(range=header)
    assert answer.status == 206
    assert b"".join(answer.body) == expected
    assert answer.length == len(expected)
    assert answer.headers["content-range"] == content_range


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=20-30", "bytes=-0"])
def test_unsatisfiable_ranges(header: str) -> None:
    """RFC 9110: ranges beyond the end are refused with the size."""
    answer = ask(range=header)
    assert answer.status == 416
    assert answer.headers["content-range"] == "bytes */10"


@pytest.mark.parametrize(
    "header",
    [
        *("", "bytes=", "bytes=a-b", "bytes=3-1", "lines=0-3", "bytes=0-1,4-5", "bytes=-"),
        *(f"bytes={'9' * 5000}-", f"bytes=0-{'9' * 5000}", f"bytes=-{'9' * 5000}"),
    ],
)
def test_ignored_ranges(header: str) -> None:
    """RFC 9110: invalid or multiple ranges are answered with the whole file."""
    answer = ask(range=header)
    assert answer.status == 200
    assert b"".join(answer.body) == CONTENT
    assert answer.headers["accept-ranges"] == "bytes"


@pytest.mark.parametrize(
    ("condition", "status"),
    [(ETAG, 304), (f'"x", W/{ETAG}', 304), ("*", 304), ('"x"', 200), ("", 200)],
)
def test_not_modified(condition: str, status: int) -> None:
    """RFC 9110: a client with the current bytes gets 304."""
    answer = ask(if_none_match=condition)
    assert answer.status == status
    assert answer.headers["etag"] == ETAG
    assert answer.length == (0 if status == 304 else 10)


def test_if_range() -> None:
    """RFC 9110: a range is sent only for the version that the client knows."""
    assert ask(range="bytes=0-3", if_range=ETAG).status == 206
    assert ask(range="bytes=0-3", if_range='"other"').status == 200


def test_reading_in_pieces(tmp_path: Path) -> None:
    """Files are read in pieces while they are sent."""
    path = tmp_path / "file"
    path.write_bytes(CONTENT * 100_000)
    pieces = list(FilePart(path, 5, 900_005))
    assert b"".join(pieces) == (CONTENT * 100_000)[5:900_005]
    assert max(map(len, pieces)) <= 1 << 18
    assert b"".join(FilePart(path, 0, 2_000_000)) == CONTENT * 100_000


def test_control_characters() -> None:
    """Control characters of a request are escaped in texts."""
    body = b"".join(Response.text(404, "a\x1b[2J\x9b\x00\r\u202eb\tc\nd \u00e9").body)
    assert body == rb"a\x1b[2J\x9b\x00\r\u202eb" + "\tc\nd \u00e9\n".encode()
