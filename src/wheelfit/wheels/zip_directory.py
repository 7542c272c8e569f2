"""The structure of a ZIP archive, read strictly: end record, directory, local headers.

Everything here is a function of bytes, so that a wheel on disk and a wheel on a server are read by
the same code and get the same result. The central directory is authoritative; every other record
must repeat it exactly, so that no other way of reading the archive finds different content.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.errors import install_hint
from wheelfit.wheels.paths import first_path_fault
from wheelfit.wheels.zstandard import ZSTANDARD, zstd_library
from wheelfit_runtime.errors import InvalidWheel
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


STORED = 0
DEFLATED = 8

TAIL_SIZE = 22 + 20 + 56 + 0xFFFF
"""Bytes in which the end records and the longest comment fit."""
LOCAL_HEADER_SIZE = 30
"""Bytes of a local header before the name."""
LONGEST_DESCRIPTOR = 24
"""Bytes of a data descriptor with its mark and numbers of 64 bits."""
TAR_BLOCK = 512

_LENGTHS = struct.Struct("<2H")
_END = struct.Struct("<4s4H2LH")
_END_MARK = b"PK\x05\x06"
_LOCATOR = struct.Struct("<4sLQL")
_LOCATOR_MARK = b"PK\x06\x07"
_END64 = struct.Struct("<4sQ2H2L4Q")
_END64_MARK = b"PK\x06\x06"
_ENTRY = struct.Struct("<4sxB5H3L4H2x2L")
_ENTRY_MARK = b"PK\x01\x02"
_LOCAL = struct.Struct("<4s5H3L2H")
_LOCAL_MARK = b"PK\x03\x04"

_FULL16 = 0xFFFF
_FULL32 = 0xFFFFFFFF
_ZIP64_EXTRA = 0x0001
_UNICODE_PATH_EXTRA = 0x7075

_FLAG_LEVEL = 0x0006  # the compression level, of no meaning to a reader
_FLAG_DESCRIPTOR = 0x0008  # sizes follow the data; the directory has them anyway
_FLAG_UTF8 = 0x0800
_DESCRIPTOR_MARK = b"PK\x07\x08"
# With numbers of 32 or 64 bits; before each there may be a mark.
_DESCRIPTORS = (struct.Struct("<3L"), struct.Struct("<L2Q"))
_KNOWN_FLAGS = _FLAG_LEVEL | _FLAG_DESCRIPTOR | _FLAG_UTF8

_REGULAR, _FOLDER, _LINK = 0o100000, 0o040000, 0o120000
_DOS_VOLUME, _DOS_FOLDER = 0x08, 0x10
_LATEST_VERSION = 63  # 6.3, the last of the specification
_EMPTY_DEFLATE_SIZE = 2  # bytes of a deflate stream without content
_MAX_DIRECTORY_SIZE = 64 << 20  # half a million members


class DirectoryEnd(Struct, frozen=True):
    """The position and size of the central directory, from the end records."""

    count: int
    offset: int
    """The offset of the directory in the archive, in bytes."""
    size: int
    """Its length in bytes."""

    @property
    def stop(self) -> int:
        """The position after the directory."""
        return self.offset + self.size


class Member(Struct, frozen=True, gc=False):
    """An entry of the central directory."""

    name: str
    """Path inside the archive; a folder ends with ``/``."""
    method: int
    """`STORED`, `DEFLATED` or `ZSTANDARD`."""
    flags: int
    time: int
    date: int
    crc: int
    compressed_size: int
    """Bytes in the archive."""
    size: int
    """Bytes of the content."""
    offset: int
    """The offset of the local header in the archive, in bytes."""
    system: int
    """The system that the entry states as its creator; 3 is Unix."""
    attributes: int
    """External attributes; on Unix the upper half is the mode."""

    @property
    def is_folder(self) -> bool:
        """Whether it is an entry for a folder."""
        return self.name.endswith("/")

    @property
    def is_executable(self) -> bool:
        """Whether the file was executable where the archive was made."""
        # Other bits of the mode are never used, for example set-user-ID.
        mode = self.attributes >> 16
        return mode & 0o170000 == _REGULAR and bool(mode & 0o111)

    @property
    def name_size(self) -> int:
        """Bytes of the name in the archive."""
        name = self.name
        return len(name) if name.isascii() else len(name.encode("utf-8"))


def find_end(tail: bytes, size: int, *, where: str) -> DirectoryEnd:
    """Find the end of the central directory.

    :param tail: the last bytes of the archive, `TAIL_SIZE` or more if it has that many.
    :raises InvalidWheel: there is none, or its parts contradict each other.
    """
    mark = tail.rfind(_END_MARK)
    if mark < 0 or mark + _END.size > len(tail):
        raise InvalidWheel(
            "the file is not a ZIP archive, or is cut off: it has no end record", where=where
        )
    _, disk, first_disk, disk_count, count, length, offset, comment = _END.unpack_from(tail, mark)
    if mark + _END.size + comment != len(tail):
        # The last mark may be part of a comment, or of bytes appended to the archive. Either way,
        # two readers could find two archives.
        raise InvalidWheel("data follows the end record of the archive", where=where)
    end = DirectoryEnd(count, offset, length)
    base = size - len(tail)
    directory_stop = base + mark
    locator = mark - _LOCATOR.size
    if locator >= 0 and tail.startswith(_LOCATOR_MARK, locator):
        directory_stop, end = _read_end64(tail, base, locator, end, where)
    elif _FULL32 in (length, offset):
        raise InvalidWheel("the ZIP64 end record is missing", where=where)
    if disk or first_disk or (disk_count != count):
        raise InvalidWheel("the archive is split over several volumes", where=where)
    if end.size > _MAX_DIRECTORY_SIZE:
        raise InvalidWheel(f"the central directory has {end.size} bytes", where=where)
    if end.stop != directory_stop:
        raise InvalidWheel(
            f"the central directory should end at byte {directory_stop}, not {end.stop}, so there "
            "is data before the archive or between its parts",
            where=where,
        )
    return end


def _read_end64(
    tail: bytes, base: int, locator: int, end: DirectoryEnd, where: str
) -> tuple[int, DirectoryEnd]:
    """Read the ZIP64 end record and compare it with the classic one."""
    _, disk, position, disks = _LOCATOR.unpack_from(tail, locator)
    start = locator - _END64.size
    if start < 0 or not tail.startswith(_END64_MARK, start) or base + start != position:
        raise InvalidWheel("the ZIP64 end record is at another position than stated", where=where)
    fields = _END64.unpack_from(tail, start)
    _, record_size, _, _, this_disk, first_disk, disk_count, count, length, offset = fields
    if record_size != _END64.size - 12 or disk or disks > 1 or this_disk or first_disk:
        raise InvalidWheel("the ZIP64 end record has an unknown form", where=where)
    for small, full, large in (
        (end.count, _FULL16, count),
        (end.size, _FULL32, length),
        (end.offset, _FULL32, offset),
    ):
        if small not in (full, large):
            raise InvalidWheel("the two end records contradict each other", where=where)
    if disk_count != count:
        raise InvalidWheel("the archive is split over several volumes", where=where)
    return base + start, DirectoryEnd(count, offset, length)


def parse_directory(data: bytes, end: DirectoryEnd, *, where: str) -> tuple[Member, ...]:
    """Read the whole central directory.

    :param data: exactly its bytes.
    :raises InvalidWheel: it is not sound, or a member uses a feature no wheel needs.
    """
    members = _parse_entries(data, 0, where)
    if len(data) != end.size or len(members) != end.count:
        raise InvalidWheel(
            f"the central directory has {count_of(len(members), 'member')}, the end record states "
            f"{end.count}",
            where=where,
        )
    return members


def parse_directory_tail(data: bytes, *, where: str) -> tuple[Member, ...]:
    """Read the last members of a central directory, from its last bytes.

    The first whole entry is the first position from which entries follow each other up to exactly
    the end.

    :param data: the last bytes of the directory, from any position in it.
    :return: the last members; empty if there is no whole entry.
    """
    start = data.find(_ENTRY_MARK)
    while start >= 0:
        position = start
        while data.startswith(_ENTRY_MARK, position) and position + _ENTRY.size <= len(data):
            lengths = struct.unpack_from("<3H", data, position + 28)
            position += _ENTRY.size + sum(lengths)
        if position == len(data):
            return _parse_entries(data, start, where)
        start = data.find(_ENTRY_MARK, start + 1)
    return ()


def _parse_entries(data: bytes, position: int, where: str) -> tuple[Member, ...]:
    """Return the members from one position in the central directory to its end."""
    members = []
    # Thousands of members differ only in name, time and size; their other fields are checked once,
    # which saves a third of the time.
    checked_fields: set[tuple[int, ...]] = set()
    while position < len(data):
        if position + _ENTRY.size > len(data):
            raise InvalidWheel("the central directory is damaged", where=where)
        (
            mark,
            system,
            version,
            flags,
            method,
            time,
            date,
            crc,
            compressed_size,
            size,
            name_length,
            extra_length,
            comment_length,
            disk,
            attributes,
            offset,
        ) = _ENTRY.unpack_from(data, position)
        name_start = position + _ENTRY.size
        name_stop = name_start + name_length
        extra_stop = name_stop + extra_length
        position = extra_stop + comment_length
        if mark != _ENTRY_MARK or position > len(data):
            raise InvalidWheel("the central directory is damaged", where=where)
        name = _decode_name(data[name_start:name_stop], flags, where)
        if extra_length or _FULL32 in (size, compressed_size, offset):
            extras = _parse_extras(data[name_stop:extra_stop], name, where)
            numbers = (size, compressed_size, offset)
            size, compressed_size, offset = _widen(extras, numbers, name, where)
        member = Member(
            name,
            method,
            flags,
            time,
            date,
            crc,
            compressed_size,
            size,
            offset,
            system,
            attributes,
        )
        fields = (version, flags, method, disk, attributes)
        # The checks of stored members compare sizes, and those of folders use the name.
        has_own_checks = method == STORED or member.is_folder
        if has_own_checks or fields not in checked_fields:
            if disk:
                raise InvalidWheel(f"{name!r} is on another volume", where=where)
            _check_version(version, name, where)
            _check_member(member, where)
            if not member.is_folder:
                checked_fields.add(fields)
        members.append(member)
    if (fault := first_path_fault([member.name for member in members])) is not None:
        raise InvalidWheel(fault, where=where)
    return tuple(members)


def _check_member(member: Member, where: str) -> None:
    """Refuse features of ZIP that no wheel needs and that readers interpret differently."""
    if member.flags & ~_KNOWN_FLAGS:
        raise InvalidWheel(
            f"{member.name!r} is encrypted or patched (flags {member.flags:#06x})", where=where
        )
    if member.method == ZSTANDARD and zstd_library() is None:
        raise InvalidWheel(
            f"{member.name!r} is packed with Zstandard (method {ZSTANDARD}), "
            "which needs Python 3.14 or the extra zstd of wheelfit",
            where=where,
            hint=install_hint("zstd"),
        )
    if member.method not in (STORED, DEFLATED, ZSTANDARD):
        raise InvalidWheel(
            f"{member.name!r} is packed with method {member.method}; "
            "wheels use stored and deflate only",
            where=where,
        )
    if member.method == STORED and member.size != member.compressed_size:
        raise InvalidWheel(f"{member.name!r} is stored, but has two sizes", where=where)
    # Some tools compress even the empty content of a folder, which takes two bytes.
    empty_size = _EMPTY_DEFLATE_SIZE if member.method == DEFLATED else 0
    if member.is_folder and (
        member.size or member.crc or member.compressed_size not in (0, empty_size)
    ):
        raise InvalidWheel(f"the folder {member.name!r} has content", where=where)
    if member.attributes & _DOS_VOLUME or (
        member.attributes & _DOS_FOLDER and not member.is_folder
    ):
        raise InvalidWheel(
            f"{member.name!r} is a file by its name, but not by its attributes", where=where
        )
    # Some readers apply the mode for any system in the entry.
    kind = member.attributes >> 16 & 0o170000
    if kind == _LINK:
        raise InvalidWheel(
            f"{member.name!r} is a symbolic link, which is neither a file nor a folder", where=where
        )
    if kind not in (0, _FOLDER if member.is_folder else _REGULAR):
        raise InvalidWheel(f"{member.name!r} is neither a file nor a folder", where=where)


def _check_version(version: int, name: str, where: str) -> None:
    if version > _LATEST_VERSION:
        raise InvalidWheel(
            f"{name!r} needs a version of ZIP that does not exist ({version})", where=where
        )


def check_extents(members: Sequence[Member], end: DirectoryEnd, *, where: str) -> None:
    """Check that members follow each other without overlap, from the first byte on.

    :raises InvalidWheel: two members overlap, one reaches into the directory, or data precedes
        them.
    """
    previous_stop = 0
    for member in sorted(members, key=attrgetter("offset")):
        if previous_stop == 0 and member.offset:
            raise InvalidWheel("there is data before the archive", where=where)
        if member.offset < previous_stop:
            raise InvalidWheel(f"{member.name!r} overlaps another member", where=where)
        size = LOCAL_HEADER_SIZE + member.name_size + member.compressed_size
        previous_stop = member.offset + size
    if previous_stop > end.offset:
        raise InvalidWheel("a member overlaps the central directory", where=where)


def following_offsets(members: Iterable[Member], end: DirectoryEnd) -> dict[int, int]:
    """Return the offset of the next member or the directory, by the offset of each member."""
    return dict(pairwise([*sorted(member.offset for member in members), end.offset]))


def is_tar(head: bytes) -> bool:
    """Return whether an archive that begins like this is a tar archive as well.

    Different tools would read different contents (CVE-2026-3219).

    :param head: its first 512 bytes.
    """
    field = head[148:156].strip(b"\0 ")
    if len(head) < TAR_BLOCK or not field or not set(field) <= set(b"01234567"):
        return False
    return sum(head[:148]) + sum(b" " * 8) + sum(head[156:TAR_BLOCK]) == int(field, 8)


class LocalHeader(Struct, frozen=True):
    """The fields of a checked local header that the directory lacks."""

    size: int
    """Its length in bytes, with name and extra fields; the data follows."""
    announces_descriptor: bool
    """Whether a data descriptor with the sizes and the CRC follows the data."""


def local_header_size(header: bytes) -> int:
    """Return the length of a local header with name and extra fields."""
    name_length, extra_length = _LENGTHS.unpack_from(header, 26)
    return LOCAL_HEADER_SIZE + int(name_length) + int(extra_length)


def check_local_header(header: bytes, member: Member, *, where: str) -> LocalHeader:
    """Check that a local header repeats the directory's entry.

    :param header: bytes from ``member.offset`` on, as many as `local_header_size` returns.
    :raises InvalidWheel: it differs.
    """
    if len(header) < _LOCAL.size or not header.startswith(_LOCAL_MARK):
        raise InvalidWheel(f"the local header of {member.name!r} is missing", where=where)
    fields = _LOCAL.unpack_from(header)
    _, version, flags, method, _, _, crc, compressed_size, size, name_length, extra_length = fields
    name = header[_LOCAL.size : _LOCAL.size + name_length]
    if name != member.name.encode("utf-8"):
        raise InvalidWheel(
            f"the local header of {member.name!r} has another name: {name!r}", where=where
        )
    _check_version(version, member.name, where)
    length = _LOCAL.size + name_length + extra_length
    if len(header) < length:
        raise InvalidWheel(f"{member.name!r} is cut off", where=where)
    if extra_length or _FULL32 in (size, compressed_size):
        extras = _parse_extras(header[_LOCAL.size + name_length : length], member.name, where)
        size, compressed_size = _widen(extras, (size, compressed_size), member.name, where)
    has_descriptor = bool(flags & _FLAG_DESCRIPTOR)
    # The directory need not repeat that flag; the bytes after the data are compared in any case.
    ignored_flags = _FLAG_LEVEL | (_FLAG_DESCRIPTOR if has_descriptor else 0)
    different_flags = (flags ^ member.flags) & ~ignored_flags
    is_same = not different_flags and method == member.method
    for value, expected in (
        (crc, member.crc),
        (compressed_size, member.compressed_size),
        (size, member.size),
    ):
        is_same &= value == expected or (has_descriptor and not value)
    if not is_same:
        raise InvalidWheel(
            f"the local header of {member.name!r} contradicts the central directory", where=where
        )
    if has_descriptor and member.method == STORED and member.size:
        raise InvalidWheel(
            f"{member.name!r} is stored, and only a descriptor after its data has its size",
            where=where,
        )
    return LocalHeader(length, has_descriptor)


def check_trailer(
    header: LocalHeader, member: Member, trailer: bytes, gap: int, *, where: str
) -> None:
    """Check the bytes between the data of a member and the next structure.

    A reader that begins at the start of the archive would find a hidden member there
    (CVE-2025-54368).

    :param trailer: the bytes after the data, `LONGEST_DESCRIPTOR` or up to the next structure.
    :param gap: bytes from the end of the data to the next member or the directory.
    :raises InvalidWheel: the data ends too early or too late, or the bytes after it contradict the
        directory.
    """
    if gap < 0:
        raise InvalidWheel(f"{member.name!r} is cut off", where=where)
    if not gap and not header.announces_descriptor:
        return
    numbers = (member.crc, member.compressed_size, member.size)
    descriptors = []
    if header.announces_descriptor:
        for layout in _DESCRIPTORS:
            with suppress(struct.error):  # a number does not fit into 32 bits
                descriptor = layout.pack(*numbers)
                descriptors += [_DESCRIPTOR_MARK + descriptor, descriptor]
    if gap > max(map(len, descriptors), default=0):
        size = count_of(gap, "byte")
        raise InvalidWheel(
            f"after {member.name!r} there is data of no member ({size})", where=where
        )
    if trailer[:gap] not in descriptors:
        raise InvalidWheel(
            f"the bytes after the data of {member.name!r} contradict the central directory",
            where=where,
        )


def _decode_name(data: bytes, flags: int, where: str) -> str:
    """Decode a name; without the UTF-8 flag readers disagree, so only ASCII is left."""
    try:
        return data.decode("utf-8" if flags & _FLAG_UTF8 else "ascii")
    except UnicodeDecodeError:
        raise InvalidWheel(f"the name {data!r} is not marked as UTF-8", where=where) from None


def _parse_extras(data: bytes, name: str, where: str) -> dict[int, bytes]:
    """Split the extra fields of an entry."""
    extras: dict[int, bytes] = {}
    position = 0
    while position + 4 <= len(data):
        kind, length = struct.unpack_from("<2H", data, position)
        position += 4 + length
        if kind in extras and kind in (_ZIP64_EXTRA, _UNICODE_PATH_EXTRA):
            raise InvalidWheel(f"{name!r} has an extra field twice", where=where)
        extras[kind] = data[position - length : position]
    if position != len(data):
        raise InvalidWheel(f"{name!r} has a damaged extra field", where=where)
    unicode_path = extras.get(_UNICODE_PATH_EXTRA)
    if unicode_path is not None and unicode_path[5:] != name.encode("utf-8"):
        raise InvalidWheel(f"{name!r} has a second name in an extra field", where=where)
    return extras


def _widen(
    extras: dict[int, bytes], values: tuple[int, ...], name: str, where: str
) -> tuple[int, ...]:
    """Read the numbers that do not fit in 32 bits from the ZIP64 extra field.

    If all numbers fit, values in the field must be the same: some readers prefer the field.
    """
    narrow = values.count(_FULL32)
    extra = extras.get(_ZIP64_EXTRA, b"")
    wide = struct.unpack(f"<{len(extra) // 8}Q", extra[: len(extra) // 8 * 8])
    if narrow and len(extra) == 8 * narrow:
        wide_values = iter(wide)
        return tuple(next(wide_values) if value == _FULL32 else value for value in values)
    if narrow or len(extra) % 8 or wide != values[: len(wide)]:
        raise InvalidWheel(f"{name!r} has a damaged ZIP64 field", where=where)
    return values
