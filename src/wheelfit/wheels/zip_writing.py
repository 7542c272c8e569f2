"""Encode the records of a ZIP archive, equal members always as equal bytes (B-39).

They have no data descriptors, no comments, no extra fields except ZIP64 where a number needs it,
and names in UTF-8.
"""

from __future__ import annotations

import struct
import time
import zlib
from typing import TYPE_CHECKING

from wheelfit.wheels.zip_directory import Member

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADER = struct.Struct("<4s5H3L2H")
_ENTRY = struct.Struct("<4s2B5H3L5H2L")
_FULL16 = 0xFFFF
_FULL32 = 0xFFFFFFFF
_FLAG_LEVEL = 0x0006
_FLAG_UTF8 = 0x0800
_LEVEL = 6  # of compression
_VERSION = 20  # deflate and folders
_VERSION_ZIP64 = 45
_EARLIEST, _LATEST = 315532800, 4354819198  # 1980-01-01 00:00:00 and 2107-12-31 23:59:58


def dos_time(epoch: int) -> tuple[int, int]:
    """Return time and date as ZIP has them: UTC, even seconds, 1980 to 2107.

    >>> dos_time(0) == dos_time(315532800)
    True
    """
    moment = time.gmtime(min(max(epoch, _EARLIEST), _LATEST))
    clock = moment.tm_hour << 11 | moment.tm_min << 5 | moment.tm_sec // 2
    return clock, (moment.tm_year - 1980) << 9 | moment.tm_mon << 5 | moment.tm_mday


def deflate(pieces: Iterable[bytes]) -> bytes:
    """Return content packed by deflate."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b"".join(map(packer.compress, pieces)) + packer.flush()


def as_written(member: Member, offset: int) -> Member:
    """Return a member with the flags and offset that are written."""
    flags = member.flags & _FLAG_LEVEL | (0 if member.name.isascii() else _FLAG_UTF8)
    if (flags, offset) == (member.flags, member.offset):
        return member
    # Wheels have ten thousands of members, and `replace` takes three times as long.
    return Member(
        member.name, member.method, flags, member.time, member.date, member.crc,
        member.compressed_size, member.size, offset, member.system, member.attributes,
    )  # fmt: skip


def encode_local_header(member: Member) -> bytes:
    """Return the local header of a member as written."""
    name = member.name.encode("utf-8")
    size, compressed_size = member.size, member.compressed_size
    extra = b""
    if size >= _FULL32 or compressed_size >= _FULL32:
        extra = struct.pack("<2H2Q", 1, 16, size, compressed_size)
        size = compressed_size = _FULL32
    header = _HEADER.pack(
        b"PK\x03\x04",
        _VERSION_ZIP64 if extra else _VERSION,
        member.flags,
        member.method,
        member.time,
        member.date,
        member.crc,
        compressed_size,
        size,
        len(name),
        len(extra),
    )
    return header + name + extra


def encode_entry(member: Member) -> bytes:
    """Return the entry of a member as written in the central directory."""
    name = member.name.encode("utf-8")
    size, compressed_size, offset = member.size, member.compressed_size, member.offset
    extra = b""
    if size >= _FULL32 or compressed_size >= _FULL32 or offset >= _FULL32:
        numbers = (size, compressed_size, offset)
        wide = [number for number in numbers if number >= _FULL32]
        extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide)
        size, compressed_size, offset = (min(number, _FULL32) for number in numbers)
    version = _VERSION_ZIP64 if extra else _VERSION
    header = _ENTRY.pack(
        b"PK\x01\x02",
        version,
        member.system,
        version,
        member.flags,
        member.method,
        member.time,
        member.date,
        member.crc,
        compressed_size,
        size,
        len(name),
        len(extra),
        0,
        0,
        0,
        member.attributes,
        offset,
    )
    return header + name + extra


def encode_end(count: int, size: int, offset: int) -> bytes:
    """Return the end records."""
    wide = b""
    if count >= _FULL16 or size >= _FULL32 or offset >= _FULL32:
        # Some readers look for ZIP64 records at the largest number that fits, so it needs them too.
        version = (_VERSION_ZIP64, _VERSION_ZIP64)
        wide = struct.pack(
            "<4sQ2H2L4Q", b"PK\x06\x06", 44, *version, 0, 0, count, count, size, offset
        )
        wide += struct.pack("<4sLQL", b"PK\x06\x07", 0, offset + size, 1)
    few = min(count, _FULL16)
    numbers = (few, few, min(size, _FULL32), min(offset, _FULL32))
    return wide + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, *numbers, 0)
