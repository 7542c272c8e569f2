"""Write ZIP archives field by field, right or wrong; no code of the product takes part."""

from __future__ import annotations

import base64
import hashlib
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass
class Entry:
    """One member, in the two places that describe it.

    What is None is computed from the content.
    """

    name: bytes
    content: bytes = b""
    method: int = 0
    flags: int = 0
    packed: bytes | None = None
    """The bytes in the archive; default: ``content`` packed with ``method``."""
    mode: int = 0o100644
    system: int = 3
    attributes: int = 0
    """The lower half, as MS-DOS had it."""
    version: int = 20
    """The version of ZIP that is needed to unpack it."""
    comment: bytes = b""
    size: int | None = None
    crc: int | None = None
    extra: bytes = b""
    local_name: bytes | None = None
    local_size: int | None = None
    local_crc: int | None = None
    local_method: int | None = None
    local_flags: int | None = None
    local_version: int = 20
    packed_size: int | None = None
    local_packed_size: int | None = None
    behind: bytes = b""
    """What follows the data, as a data descriptor does."""
    local_extra: bytes = b""
    listed: bool = True
    """Whether the central directory has it."""
    offset: int | None = None
    """Where the central directory says it begins."""

    @property
    def data(self) -> bytes:
        """The bytes in the archive."""
        if self.packed is not None:
            return self.packed
        return self.content if self.method == 0 else deflate(self.content)


@dataclass
class Zip:
    """An archive; every number may be wrong."""

    entries: list[Entry] = field(default_factory=list)
    before: bytes = b""
    between: bytes = b""
    """What lies between the members and the central directory."""
    after: bytes = b""
    comment: bytes = b""
    count: int | None = None
    directory_size: int | None = None
    directory_offset: int | None = None
    shifted: bool = True
    """Whether the offsets know of what lies before."""
    end64: Callable[[int, int, int], bytes] | None = None
    """Makes the end records of ZIP64 of count, size and offset."""
    end: tuple[int, int, int] | None = None
    """Count, size and offset in the classic end record, if they are not the true ones."""
    disk: int = 0

    def encode(self) -> bytes:
        """Return the bytes."""
        data = bytearray(self.before)
        shift = 0 if self.shifted else len(self.before)
        directory = bytearray()
        listed = 0
        for entry in self.entries:
            start = len(data) - shift
            packed = entry.data
            size = len(entry.content) if entry.size is None else entry.size
            packed_size = len(packed) if entry.packed_size is None else entry.packed_size
            crc = zlib.crc32(entry.content) if entry.crc is None else entry.crc
            local_name = entry.name if entry.local_name is None else entry.local_name
            data += struct.pack(
                "<4s5H3L2H",
                b"PK\x03\x04",
                entry.local_version,
                entry.flags if entry.local_flags is None else entry.local_flags,
                entry.method if entry.local_method is None else entry.local_method,
                0,
                0x5C21,
                crc if entry.local_crc is None else entry.local_crc,
                packed_size if entry.local_packed_size is None else entry.local_packed_size,
                size if entry.local_size is None else entry.local_size,
                len(local_name),
                len(entry.local_extra),
            )
            data += local_name + entry.local_extra + packed + entry.behind
            if not entry.listed:
                continue
            listed += 1
            directory += struct.pack(
                "<4s2B5H3L5H2L",
                b"PK\x01\x02",
                20,
                entry.system,
                entry.version,
                entry.flags,
                entry.method,
                0,
                0x5C21,
                crc,
                packed_size,
                size,
                len(entry.name),
                len(entry.extra),
                len(entry.comment),
                0,
                0,
                entry.mode << 16 | entry.attributes,
                start if entry.offset is None else entry.offset,
            )
            directory += entry.name + entry.extra + entry.comment
        data += self.between
        offset = len(data) - shift if self.directory_offset is None else self.directory_offset
        length = len(directory) if self.directory_size is None else self.directory_size
        count = listed if self.count is None else self.count
        data += directory
        if self.end64 is not None:
            data += self.end64(count, length, offset)
        if self.end is not None:
            count, length, offset = self.end
        data += struct.pack(
            "<4s4H2LH", b"PK\x05\x06", self.disk, 0, count, count, length, offset, len(self.comment)
        )
        return bytes(data + self.comment + self.after)


def members_of(wheel: Path) -> dict[str, bytes]:
    """Return name and content of every member of a sound wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def honest_record(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the members with a RECORD that fits them."""
    record = next(name for name in members if name.endswith(".dist-info/RECORD"))
    lines = []
    for name, content in members.items():
        if name != record:
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
            quoted = '"' + name.replace('"', '""') + '"' if set(name) & set(',"\n\r') else name
            lines.append(f"{quoted},sha256={digest.rstrip('=')},{len(content)}\n")
    lines.append(f"{record},,\n")
    return {**members, record: "".join(lines).encode("utf-8", "surrogateescape")}


def rebuilt(
    wheel: Path,
    changes: Mapping[str, bytes | None] | None = None,
    *,
    honest: bool = True,
    entries: Callable[[Entry], Entry] = lambda entry: entry,
    extra: Iterable[Entry] = (),
    archive: Zip | None = None,
) -> bytes:
    """Return a wheel written anew.

    :param wheel: a sound one.
    :param changes: content by name; None removes a member.
    :param honest: whether RECORD is made to fit.
    :param entries: has the last word about each member.
    :param extra: further members, which RECORD does not know.
    :param archive: what surrounds the members.
    """
    members: dict[str, bytes] = members_of(wheel)
    for name, content in (changes or {}).items():
        if content is None:
            del members[name]
        else:
            members[name] = content
    if honest:
        members = honest_record(members)
    written = [
        entries(Entry(name.encode(), content, flags=0 if name.isascii() else 0x800))
        for name, content in members.items()
    ]
    return replace(archive or Zip(), entries=[*written, *extra]).encode()


def deflate(content: bytes) -> bytes:
    """Pack without a header, as ZIP has it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(content) + packer.flush()
