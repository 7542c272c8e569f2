"""Copy a wheel with some members replaced, without unpacking the others.

Equal input and equal arguments give equal bytes (B-39). A wheel of gigabytes
costs as much as a plain copy, unless its content is to be verified as well.
"""

from __future__ import annotations

import zlib
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.errors import InvalidWheel
from wheelfit.values import dataclass, replace
from wheelfit.wheels.archive import SIGNATURES, WheelArchive
from wheelfit.wheels.durable import new_file, write_all
from wheelfit.wheels.paths import path_fault
from wheelfit.wheels.record import RecordRow, format_record, row_for
from wheelfit.wheels.zip_directory import DEFLATED, STORED, Member
from wheelfit.wheels.zip_writing import (
    dos_time,
    encode_end,
    encode_entry,
    encode_local_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from wheelfit.core.filename import WheelFilename


__all__ = ["new_member", "rewrite"]


def __dir__() -> list[str]:
    return __all__


_LEVEL = 6
_SMALL = 1 << 18  # pieces up to this are collected, larger ones copied by the kernel
_BUFFER = 1 << 20
_UNIX = 3
_MODE = 0o100644 << 16
_NOTHING: Mapping[str, bytes] = MappingProxyType({})


def rewrite(
    source: Path,
    destination: Path,
    *,
    replace_members: Mapping[str, bytes] = _NOTHING,
    remove: Iterable[str] = (),
    epoch: int | None = None,
    overwrite: bool = False,
    verify_content: bool = True,
) -> tuple[str, ...]:
    """Write a wheel with some members replaced, added or removed.

    The others keep their packed bytes, time, mode and order, except that
    dist-info comes last and RECORD at the very end. RECORD follows what is done;
    signatures of the old one are removed (B-37). The result is read again before
    it gets its name (B-38), which finds faults of the source as well (B-34).

    :param source: a wheel; may be the destination too.
    :param destination: the new wheel; its name decides what dist-info must fit.
    :param replace_members: path inside the wheel to content, for old and new members.
    :param remove: paths of members to leave out.
    :param epoch: time of the members written, in seconds since 1970
        (``SOURCE_DATE_EPOCH``); by default that of the old RECORD.
    :param overwrite: whether another file may be replaced.
    :param verify_content: whether every member is unpacked and compared with RECORD;
        otherwise only the structure is, and that RECORD names every member.
    :return: what else was changed, one sentence each.
    :raises FileProblem: a file cannot be read or written, or exists already.
    :raises InvalidFilename: one of the two is not named like a wheel.
    :raises InvalidWheel: the source is not sound; nothing was written.
    """
    filename = parse_wheel_filename(destination.name)
    overwrite = overwrite or _same_file(source, destination)
    with new_file(destination, overwrite=overwrite) as file:
        with WheelArchive(source) as archive:
            plan = _plan(archive, replace_members, frozenset(remove), epoch)
            output = _Output(file)
            for member in plan.kept:
                output.copy(archive, member)
            for member, packed in plan.written:
                output.add(member, packed)
            output.finish()
        _check_result(file, filename, source, verify_content=verify_content)
    return plan.notes


@dataclass(frozen=True, slots=True)
class _Plan:
    """Say what the new wheel consists of."""

    kept: tuple[Member, ...]
    """Members of the source, in the order of the result."""
    written: tuple[tuple[Member, bytes], ...]
    """New members with their packed bytes, RECORD last."""
    notes: tuple[str, ...]


def _plan(
    archive: WheelArchive,
    replacements: Mapping[str, bytes],
    remove: frozenset[str],
    epoch: int | None,
) -> _Plan:
    """Decide what is kept and what is written."""
    record_name = f"{archive.dist_info}/RECORD"
    for name in (*replacements, *remove):
        if name == record_name or path_fault(name) is not None:
            raise ValueError(f"{name!r} cannot be replaced or removed")
    signatures = [f"{archive.dist_info}/{name}" for name in SIGNATURES]
    signatures = [name for name in signatures if name in archive]
    gone = {record_name, *replacements, *remove, *signatures}
    kept = [member for member in archive.members if member.name not in gone]
    # B-39; sorting is stable, so nothing else moves.
    kept.sort(key=lambda member: member.name.startswith(f"{archive.dist_info}/"))

    record = archive.record()
    rows = [row for row in record.rows if row.path not in gone]
    rows += [row_for(name, content) for name, content in replacements.items()]
    rows.append(RecordRow(record_name))
    old_record = archive.member(record_name)
    moment = (old_record.time, old_record.date) if epoch is None else dos_time(epoch)
    written = [new_member(name, content, STORED, moment) for name, content in replacements.items()]
    content = format_record(rows, record.terminator)
    written.append(new_member(record_name, content, old_record.method, moment))
    notes = [f"{name} was removed: it signed the old RECORD" for name in signatures]
    return _Plan(tuple(kept), tuple(written), tuple(notes))


def new_member(
    name: str, content: bytes, method: int, moment: tuple[int, int]
) -> tuple[Member, bytes]:
    """Describe a member that is written, and pack its content.

    :param name: path inside the wheel.
    :param content: its bytes.
    :param method: `STORED` or `DEFLATED`.
    :param moment: time and date, as `dos_time` gives them.
    :return: where it will lie is left open.
    """
    packed = content
    if method == DEFLATED:
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        packed = packer.compress(content) + packer.flush()
    member = Member(
        name=name,
        method=method,
        flags=0,
        time=moment[0],
        date=moment[1],
        crc=zlib.crc32(content),
        compressed_size=len(packed),
        size=len(content),
        offset=0,
        system=_UNIX,
        attributes=_MODE,
    )
    return member, packed


class _Output:
    """Write members one behind the other, and the directory at the end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._members: list[Member] = []
        self._buffer = bytearray()
        self._position = 0
        # Members that lie one behind the other in both archives are copied at once.
        self._run: tuple[WheelArchive, int, int] | None = None

    def copy(self, archive: WheelArchive, member: Member) -> None:
        """Add a member of another archive as it is."""
        header = self._place(member)
        if archive.read_bytes(member.offset, len(header)) == header:
            length = len(header) + member.compressed_size
            self._extend_run(archive, member.offset, length)
        else:
            self._write(header)
            self._extend_run(archive, archive.data_start(member), member.compressed_size)

    def add(self, member: Member, packed: bytes) -> None:
        """Add a new member."""
        self._write(self._place(member) + packed)

    def finish(self) -> None:
        """Write the directory and the end."""
        self._flush()
        offset = self._position
        directory = b"".join(map(encode_entry, self._members))
        self._write(directory + encode_end(len(self._members), len(directory), offset))
        self._flush()

    def _place(self, member: Member) -> bytes:
        """Note where the next member begins; return its header."""
        offset = self._position + len(self._buffer)
        if self._run is not None:
            offset += self._run[2]
        self._members.append(replace(member, offset=offset))
        return encode_local_header(member)

    def _extend_run(self, archive: WheelArchive, start: int, length: int) -> None:
        if self._run is not None:
            _, run_start, run_length = self._run
            if start == run_start + run_length:
                self._run = (archive, run_start, run_length + length)
                return
            self._end_run()
        self._run = (archive, start, length)

    def _end_run(self) -> None:
        if self._run is None:
            return
        archive, start, length = self._run
        self._run = None
        if length <= _SMALL:
            self._write(archive.read_bytes(start, length))
        else:
            self._flush()
            archive.copy_bytes(start, length, self._file)
            self._position += length

    def _write(self, data: bytes) -> None:
        self._end_run()
        self._buffer += data
        if len(self._buffer) >= _BUFFER:
            self._flush()

    def _flush(self) -> None:
        self._end_run()
        data = bytes(self._buffer)
        self._buffer.clear()
        self._position += len(data)
        write_all(self._file, data)


def _check_result(
    file: BinaryIO, filename: WheelFilename, source: Path, *, verify_content: bool
) -> None:
    """Read what was written (B-38)."""
    archive = WheelArchive(file, filename, where=str(source))
    if verify_content:
        archive.verify()
        return
    rows = {row.path for row in archive.record().rows}
    names = set(archive.names())
    if rows != names:
        differing = ", ".join(sorted(rows ^ names)[:10])
        raise InvalidWheel(
            f"RECORD and the archive do not name the same files: {differing}", where=str(source)
        )


def _same_file(one: Path, other: Path) -> bool:
    return other.exists() and one.samefile(other)
