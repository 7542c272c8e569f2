"""The content of members: the fast library and the standard one give the same verdict."""

from __future__ import annotations

import random
import struct
import sys
import zlib

import pytest
from wheels.members import verdict

from wheelfit.wheels.inflate import inflate
from wheelfit.wheels.zip_directory import DEFLATED, STORED, Member
from wheelfit_runtime.errors import InvalidWheel

TEXT = b"".join(b"import module_%d\n" % (number * number) for number in range(6000))
NOISE = random.Random(5).randbytes(90_000)
STRATEGIES = (
    (1, zlib.Z_DEFAULT_STRATEGY),
    (6, zlib.Z_DEFAULT_STRATEGY),
    (9, zlib.Z_DEFAULT_STRATEGY),
    (6, zlib.Z_FIXED),
    (6, zlib.Z_HUFFMAN_ONLY),
    (6, zlib.Z_RLE),
    (0, zlib.Z_DEFAULT_STRATEGY),
)
UNFINISHED = bytes.fromhex(
    "05c1b10900400803c055523ad81bb090885864fc3fb3ab477b784930ecead11e5e120c578ff6607d"
)
"""A block whose code for distances leaves some combinations of bits without a meaning."""


def packed_with(content: bytes, level: int, strategy: int) -> bytes:
    """Deflate."""
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, 8, strategy)
    return packer.compress(content) + packer.flush()


def damaged(packed: bytes, chance: random.Random) -> bytes:
    """Do some harm, most of it near the beginning, where the codes are."""
    data = bytearray(packed)
    match chance.randrange(4):
        case 0:
            del data[chance.randrange(len(data)) :]
        case 1:
            data += chance.randbytes(chance.randrange(1, 9))
        case _:
            place = chance.randrange(min(len(data), chance.choice([3, 80, 1 << 20])))
            data[place] ^= 1 << chance.randrange(8)
    return bytes(data)


def both(monkeypatch: pytest.MonkeyPatch, packed: bytes, content: bytes) -> tuple[str, str]:
    """Return the verdict with the fast library, and that without it."""
    fast = verdict(packed, content)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "isal", None)
        return fast, verdict(packed, content)


@pytest.mark.parametrize("content", [TEXT, NOISE, bytes(300_000)], ids=["text", "noise", "zeros"])
def test_both_libraries_judge_alike(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Sound data is unpacked, damaged data is refused, whichever library is there."""
    pytest.importorskip("isal")
    chance = random.Random(len(content))
    refused = 0
    for level, strategy in STRATEGIES:
        packed = packed_with(content, level, strategy)
        assert both(monkeypatch, packed, content) == ("", "")
        for _ in range(15):
            fast, plain = both(monkeypatch, damaged(packed, chance), content)
            assert bool(fast) == bool(plain)
            refused += bool(plain)
    assert refused > 75


def test_a_code_with_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast library knows no difference between a code and one with holes nobody uses.

    Nothing follows from it: what comes out is what the entry and RECORD promise, or refused.
    """
    pytest.importorskip("isal")
    content = NOISE[:65535] + b"emimport def f(xximport def f(ximport xo"
    packed = struct.pack("<BHH", 0, 65535, 0) + NOISE[:65535] + UNFINISHED
    fast, plain = both(monkeypatch, packed, content)
    assert (fast, "damaged" in plain) == ("", True)
    other = content[:-1] + b"?"
    assert "CRC-32" in both(monkeypatch, packed, other)[0]


@pytest.mark.parametrize("method", [STORED, DEFLATED])
@pytest.mark.parametrize("size", [0, 1, 70_000])
def test_promises_are_kept(method: int, size: int) -> None:
    """Neither more nor less comes than the entry says, and never with another CRC-32."""
    content = NOISE[:size]

    def packed(data: bytes) -> bytes:
        return data if method == STORED else packed_with(data, 6, 0)

    assert verdict(packed(content), content, method=method) == ""
    assert "longer" in verdict(packed(content + b"x"), content, method=method)
    if size:
        assert "its entry states" in verdict(packed(content[:-1]), content, method=method)
        assert "CRC-32" in verdict(packed(content[:-1] + b"\0"), content, method=method)
    if method == DEFLATED:
        assert "follow" in verdict(packed(content) + b"\0", content)
        assert "follow" in verdict(packed(content) * 2, content)
        assert verdict(packed(content)[:-1], content)


def test_a_bomb_is_stopped_early() -> None:
    """What unpacks to more than its entry states is given up before it is there."""
    packed = packed_with(bytes(50 << 20), 9, 0)
    member = Member("bomb", DEFLATED, 0, 0, 0, 0, len(packed), 100_000, 0, 3, 0)
    taken: list[int] = []
    with pytest.raises(InvalidWheel, match="longer"):
        taken.extend(map(len, inflate(member, [packed], where="some.whl")))
    assert sum(taken) <= 100_000
