"""How much of an answer is read (F-30)."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from wheelfit.sources.body import read_body
from wheelfit_runtime.errors import UnexpectedStatus


@dataclass
class Reply:
    """An answer that counts what is read of it."""

    pieces: list[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    read: int = 0

    def chunks(self) -> Iterator[bytes]:
        """Yield the pieces."""
        for piece in self.pieces:
            self.read += len(piece)
            yield piece

    def close(self) -> None:
        """Do nothing."""

    def cancel(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_up_to_the_limit(encoding: str) -> None:
    """A body of exactly the limit is read, whatever its length was announced to be."""
    content = b"x" * 1000
    sent = gzip.compress(content) if encoding == "gzip" else content
    for announced in ({}, {"content-length": str(len(sent))}, {"content-length": "nonsense"}):
        reply = Reply([sent[:10], sent[10:]], {"content-encoding": encoding, **announced})
        assert read_body(reply, 1000, where="here") == content


def test_nothing_of_what_is_announced_as_too_long() -> None:
    """F-30: what says of itself that it is too long is refused before a byte is read."""
    for encoding in ("identity", "gzip"):
        headers = {"content-length": "1001", "content-encoding": encoding}
        reply = Reply([b"x" * 1001], headers)
        with pytest.raises(UnexpectedStatus, match="longer than 1000 bytes"):
            read_body(reply, 1000, where="here")
        assert reply.read == 0


def test_no_more_than_the_limit() -> None:
    """F-30: of what announces nothing, or lies, reading stops where it is too long."""
    for headers in ({}, {"content-length": "5"}, {"content-length": "9" * 5000}):
        reply = Reply([b"x" * 100] * 1000, headers)
        with pytest.raises(UnexpectedStatus, match="longer than 1000 bytes"):
            read_body(reply, 1000, where="here")
        assert reply.read <= 1100


def test_a_bomb() -> None:
    """F-30: a small body that unfolds into a large one is given up at the limit."""
    sent = gzip.compress(bytes(10_000_000))
    pieces = [sent[start : start + 100] for start in range(0, len(sent), 100)]
    reply = Reply(pieces, {"content-encoding": "gzip"})
    with pytest.raises(UnexpectedStatus, match="longer than 1000 bytes"):
        read_body(reply, 1000, where="here")
    assert reply.read < len(sent) / 10
