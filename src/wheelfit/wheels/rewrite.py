"""Copy a wheel with some members replaced, without unpacking the others.

Equal input and equal arguments give equal bytes (B-39). Rewriting a wheel of gigabytes takes as
long as copying it, unless its content is verified as well.
"""

from __future__ import annotations

import zlib
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO

from msgspec import structs

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.wheels.archive import SIGNATURES, WheelArchive
from wheelfit.wheels.atomic_write import new_file, write_all
from wheelfit.wheels.background import BackgroundCalls
from wheelfit.wheels.paths import path_fault
from wheelfit.wheels.record import Record, RecordRow, format_record, row_for
from wheelfit.wheels.zip_archive import ZipArchive, faults_error
from wheelfit.wheels.zip_directory import DEFLATED, STORED, Member
from wheelfit.wheels.zip_writing import (
    as_written,
    deflate,
    dos_time,
    encode_end,
    encode_entry,
    encode_local_header,
)
from wheelfit.wheels.zstandard import ZSTANDARD
from wheelfit_runtime.errors import InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from packaging.utils import NormalizedName


_SMALL = 1 << 18  # bytes of pieces that are collected; the kernel copies larger ones
_LARGE = 16 << 20  # bytes for which disk space is reserved before copying
_BUFFER = 1 << 20
_PIECE = 64 << 20  # bytes of adjacent members, a run, that are copied before its end is known
_UNIX = 3
_MODE = 0o100644 << 16
_EXECUTABLE = 0o111 << 16
_FOLDER = 0o40755 << 16 | 0x10


VERIFIED_BY_DEFAULT = 64 << 20
"""The most bytes of content that are compared with RECORD by default; it takes 0.2 seconds.

Unpacking and hashing more takes many times as long as copying; `rewrite` then adds a note.
"""


@dataclass(frozen=True, slots=True)
class RewriteOptions:
    """The options for rewriting a wheel."""

    epoch: int | None = None
    """Time of new members, in seconds since 1970 (``SOURCE_DATE_EPOCH``); None: that of the old
    RECORD."""
    overwrite: bool = False
    """Whether an existing file that is not the source may be replaced."""
    verify_content: bool | None = True
    """Whether to unpack every member and compare it with RECORD, instead of only the structure, the
    new members, and the names in RECORD. None: for content up to `VERIFIED_BY_DEFAULT`."""
    repair_record: bool = False
    """Whether to correct wrong rows of RECORD (B-34)."""
    is_reproducible: bool = False
    """Whether order, times and modes of all members depend only on their names, the epoch, and
    whether they are executable, and not on the machine that built the wheel."""
    sync: bool = True
    """Whether to wait until the wheel is on the disk. If it replaces a file, that is always done,
    as the old content is lost."""


@dataclass(frozen=True, slots=True)
class RewriteDetails:
    """The details of a rewritten wheel."""

    notes: tuple[str, ...]
    """Notes on further changes, repairs and omitted checks, one sentence each."""
    content_verified: bool
    """Whether every byte was compared with RECORD."""
    removed_dependencies: frozenset[NormalizedName] = frozenset()


def copy_wheel(
    source: Path, destination: Path, *, overwrite: bool = False, sync: bool = True
) -> None:
    """Copy a wheel byte by byte, as cheaply as the file system can.

    :raises FileProblem: a file cannot be read or written, or exists already.
    :raises InvalidWheel: it is not an archive.
    """
    with (
        ZipArchive(source, where=str(source)) as archive,
        new_file(destination, overwrite=overwrite, sync=sync or destination.exists()) as file,
    ):
        archive.copy_bytes(0, archive.size, file, starts_writeback=sync)


def rewrite(
    source: Path,
    destination: Path,
    *,
    replace_members: Mapping[str, bytes] = MappingProxyType({}),
    remove: Iterable[str] = (),
    rename_folders: Mapping[str, str] = MappingProxyType({}),
    options: RewriteOptions = RewriteOptions(),
    open_source: WheelArchive | None = None,
) -> RewriteDetails:
    """Write a wheel with members replaced, added, removed or in renamed folders.

    The other members keep their packed bytes, time, mode and order, except that dist-info comes
    last and RECORD at the very end; members packed with Zstandard are repacked. RECORD is updated;
    its signatures are removed (B-37). The result is checked before it gets its name (B-38), which
    finds faults of the source as well (B-34).

    :param source: a wheel; may be the destination too.
    :param destination: the new wheel; its name determines the name of dist-info.
    :param replace_members: path inside the new wheel to content, for old and new members.
    :param remove: paths inside the old wheel.
    :param rename_folders: old to new name of folders at the top (B-43).
    :param open_source: the source, if it is open already; stays open.
    :raises FileProblem: a file cannot be read or written, or exists already.
    :raises InvalidFilename: one of the two is not named like a wheel.
    :raises InvalidWheel: the source is not valid; nothing was written.
    """
    filename = parse_wheel_filename(destination.name)
    overwrite = options.overwrite or _is_same_entry(source, destination)
    sync = options.sync or destination.exists()
    with new_file(destination, overwrite=overwrite, sync=sync) as file:
        with WheelArchive(source) if open_source is None else nullcontext(open_source) as archive:
            changes = _Changes(archive, replace_members, frozenset(remove), rename_folders)
            copied = _copied_members(changes, options)
            packed_size = sum(member.compressed_size for member, _ in copied)
            if sync and packed_size > _LARGE:
                archive.reserve_space(packed_size, file)
            # Ten thousand names and rows take as long as copying half a gigabyte: do both at once.
            with BackgroundCalls(_run_step, "copy") as submit:
                output = _Output(file, submit, starts_writeback=sync)
                for member, name in copied:
                    output.copy(archive, member, name)
                plan = _make_plan(changes, copied, options)
                for member, packed in plan.written:
                    output.add(member, packed)
                output.finish()
        notes = list(plan.notes)
        size = sum(member.size for member, _ in copied)
        verify_content = options.verify_content
        if verify_content is None:
            verify_content = size <= VERIFIED_BY_DEFAULT
            if not verify_content:
                megabytes = f"{size / 1e6:,.0f} MB"
                notes.append(f"{megabytes} of content were copied without a comparison with RECORD")
        archive = WheelArchive(file, filename, where=str(source), expected=output.directory)
        result_faults = archive.faults(contents=verify_content, record=plan.record)
        if faults := [*plan.faults, *(fault.message for fault in result_faults)]:
            raise faults_error(faults, archive.where)
        if not verify_content:
            _check_written(archive, output.ends, plan.written)
    return RewriteDetails(tuple(notes), verify_content)


def _run_step(step: Callable[[], object]) -> None:
    """Call one of the functions that `_Output` submits."""
    step()


class _Changes:
    """The replaced, removed and renamed members of a wheel."""

    def __init__(
        self,
        archive: WheelArchive,
        replacements: Mapping[str, bytes],
        remove: frozenset[str],
        folders: Mapping[str, str],
    ) -> None:
        self.archive = archive
        self.replacements = replacements
        self._folders = folders
        self.dist_info = folders.get(archive.dist_info, archive.dist_info)
        self.record = f"{self.dist_info}/RECORD"
        for name in (*replacements, *remove):
            if name == self.record or path_fault(name) is not None:
                raise ValueError(f"{name!r} cannot be replaced or removed")
        signatures = (f"{archive.dist_info}/{name}" for name in SIGNATURES)
        self.signatures = tuple(name for name in signatures if name in archive)
        replaced = (old for name in replacements for old in self._old_names(name))
        self.dropped = {f"{archive.dist_info}/RECORD", *remove, *self.signatures, *replaced}
        """Members of the source that are not copied."""

    def renamed(self, name: str) -> str:
        """Return the name of a member in the result."""
        if not self._folders:
            return name
        top, slash, rest = name.partition("/")
        return f"{self._folders.get(top, top)}{slash}{rest}"

    def _old_names(self, name: str) -> Iterator[str]:
        """Yield the names of the source that become this one."""
        top, slash, rest = name.partition("/")
        # The folder itself, unless it is renamed, and those that are renamed to it.
        for old in (top, *self._folders):
            if self._folders.get(old, old) == top:
                yield f"{old}{slash}{rest}"


def _copied_members(changes: _Changes, options: RewriteOptions) -> list[tuple[Member, str]]:
    """Return the members to copy with their new names, in the order of the result."""
    copied = [
        (member, changes.renamed(member.name))
        for member in changes.archive.members
        if member.name not in changes.dropped
    ]
    if options.is_reproducible:
        copied = [(_normalized(member, options.epoch), name) for member, name in copied]
        copied.sort(key=itemgetter(1))
    # B-39; sorting is stable, so the others keep their order.
    dist_info_prefix = f"{changes.dist_info}/"
    copied.sort(key=lambda pair: pair[1].startswith(dist_info_prefix))
    return copied


@dataclass(frozen=True, slots=True)
class _Plan:
    """The content of the new wheel, besides the copied members."""

    record: Record
    written: tuple[tuple[Member, bytes], ...]
    """New members with their packed bytes, RECORD last."""
    notes: tuple[str, ...]
    faults: tuple[str, ...]
    """The faults of the source that the result does not have any more."""


def _make_plan(
    changes: _Changes, copied: Sequence[tuple[Member, str]], options: RewriteOptions
) -> _Plan:
    """Return the members to write."""
    archive = changes.archive
    notes = [f"{name} was removed: it signed the old RECORD" for name in changes.signatures]
    faults: list[str] = []
    if options.repair_record:
        old_record, repaired = _corrected_record(archive, [member for member, _ in copied])
        notes += repaired
        with suppress(InvalidWheel):  # the notes already have it
            notes += _hidden_faults(changes, archive.record)
    else:
        old_record = archive.record
        faults += _hidden_faults(changes, old_record)
    new_rows = {name: row_for(name, content) for name, content in changes.replacements.items()}
    rows: list[RecordRow] = []
    for row in old_record.rows:
        name = changes.renamed(row.path)
        if row.path not in changes.dropped:
            rows.append(row if name == row.path else row._replace(path=name))
        elif name in new_rows:
            rows.append(new_rows.pop(name))
    if options.is_reproducible:
        rows.sort(key=attrgetter("path"))
    rows += [*new_rows.values(), RecordRow(changes.record)]
    record = Record(tuple(rows), old_record.terminator)
    old_member = archive.member(f"{archive.dist_info}/RECORD")
    epoch = options.epoch
    timestamp = (old_member.time, old_member.date) if epoch is None else dos_time(epoch)
    written = [
        new_member(name, content, STORED, timestamp)
        for name, content in changes.replacements.items()
    ]
    content = format_record(record.rows, record.terminator)
    method = STORED if old_member.method == STORED else DEFLATED
    written.append(new_member(changes.record, content, method, timestamp))
    return _Plan(record, tuple(written), tuple(dict.fromkeys(notes)), tuple(faults))


def _normalized(member: Member, epoch: int | None) -> Member:
    """Return a member with a mode and time that are the same on every machine."""
    time, date = (member.time, member.date) if epoch is None else dos_time(epoch)
    mode = member.attributes >> 16 if member.system == _UNIX else 0
    attributes = _MODE | _EXECUTABLE if mode & 0o100 else _MODE
    attributes = _FOLDER if member.is_folder else attributes
    return structs.replace(member, time=time, date=date, system=_UNIX, attributes=attributes)


def _hidden_faults(changes: _Changes, record: Record) -> Iterator[str]:
    """Yield the faults of RECORD about itself and removed members (B-34)."""
    archive = changes.archive
    own_name = f"{archive.dist_info}/RECORD"
    rows: dict[str, RecordRow] = {}
    for row in record.rows:
        if row.path not in changes.dropped:
            continue  # the check of the result finds its faults
        if row.path in rows:
            yield f"RECORD listed {row.path!r} twice"
        rows.setdefault(row.path, row)
    own_row = rows.pop(own_name, None)
    if own_row is None:
        yield "RECORD did not list itself"
    elif own_row.hash or own_row.size:
        yield "RECORD had a hash or size of itself"
    for name in changes.signatures:
        rows.pop(name, None)  # signatures need no hash
    for member in archive.members:
        if member.name not in changes.dropped or member.is_folder:
            continue
        if member.name not in (own_name, *changes.signatures):
            fault = archive.member_fault(member, rows.pop(member.name, None))
            if fault is not None:
                yield fault.message
    yield from (f"RECORD listed {path!r}, which the wheel does not contain" for path in rows)


def _corrected_record(archive: WheelArchive, copied: Sequence[Member]) -> tuple[Record, list[str]]:
    """Return RECORD with correct rows of the copied members, and its faults (B-34)."""
    notes: list[str] = []
    record = Record(())
    try:
        record = archive.record
    except InvalidWheel as error:
        notes.append(f"RECORD was written anew: {error.message}")
    old_rows: dict[str, RecordRow] = {}
    for row in record.rows:
        if row.path in old_rows:
            notes.append(f"RECORD listed {row.path!r} twice")
        old_rows.setdefault(row.path, row)
    correct_rows: dict[str, RecordRow] = {}
    for member in copied:
        if member.is_folder:
            continue
        old_row = old_rows.get(member.name)
        algorithm = old_row.hash.partition("=")[0] if old_row is not None else ""
        new_row = correct_rows[member.name] = archive.row_of(member, algorithm)
        if old_row is None:
            notes.append(f"RECORD did not list {member.name!r}")
        elif (old_row.hash.rstrip("="), old_row.size) != (new_row.hash, new_row.size):
            notes.append(f"RECORD was wrong about {member.name!r}")
    rows = []
    for path, row in old_rows.items():
        if path in archive:
            rows.append(correct_rows.pop(path, row))
        else:
            notes.append(f"RECORD listed {path!r}, which the wheel does not contain")
    return Record((*rows, *correct_rows.values()), record.terminator), notes


def new_member(
    name: str, content: bytes, method: int, timestamp: tuple[int, int]
) -> tuple[Member, bytes]:
    """Return a new member at offset 0, and its packed content.

    :param timestamp: time and date, as `dos_time` returns them.
    """
    packed = deflate([content]) if method == DEFLATED else content
    member = Member(
        name=name,
        method=method,
        flags=0,
        time=timestamp[0],
        date=timestamp[1],
        crc=zlib.crc32(content),
        compressed_size=len(packed),
        size=len(content),
        offset=0,
        system=_UNIX,
        attributes=_MODE,
    )
    return member, packed


def _deflated(archive: WheelArchive, member: Member, name: str) -> tuple[Member, bytes]:
    """Return a member under a name with its bytes packed by deflate."""
    packed = deflate(archive.chunks(member.name))
    repacked = structs.replace(member, name=name, method=DEFLATED, compressed_size=len(packed))
    return repacked, packed


class _Output:
    """A writer of members one after the other, with the directory at the end.

    :param submit: called with each step of the writing, in order, to be done in the background.
    """

    def __init__(
        self,
        file: BinaryIO,
        submit: Callable[[Callable[[], object]], None],
        *,
        starts_writeback: bool,
    ) -> None:
        self._file = file
        self._submit = submit
        self._starts_writeback = starts_writeback
        self._members: list[Member] = []
        self._buffer = bytearray()
        self._position = 0
        """The size of the result so far, with the bytes not written yet."""
        # Members that are adjacent in both archives are copied together.
        self._run: tuple[WheelArchive, int, int] | None = None
        self._names_by_run: list[list[str]] = []
        self.directory: tuple[bytes, tuple[Member, ...]] = (b"", ())
        """The central directory and its members, after `finish`."""

    @property
    def ends(self) -> list[str]:
        """The first and last member of every copied run, whose headers prove its position."""
        return [name for names in self._names_by_run for name in (names[0], names[-1])]

    def copy(self, archive: WheelArchive, member: Member, name: str) -> None:
        """Add a member of another archive under a name, with its packed bytes.

        Members packed with Zstandard are repacked, as few tools can read them.
        """
        if member.method == ZSTANDARD:
            self.add(*_deflated(archive, member, name))
            return
        header = self._place(member if name == member.name else structs.replace(member, name=name))
        # An unchanged header is copied with the content, so the run continues.
        if archive.read_bytes(member.offset, len(header)) == header:
            self._extend_run(archive, member.offset, len(header) + member.compressed_size)
        else:
            self._write(header)
            self._extend_run(archive, archive.data_start(member), member.compressed_size)
        self._names_by_run[-1].append(name)

    def add(self, member: Member, packed: bytes) -> None:
        """Add a new member."""
        self._write(self._place(member) + packed)

    def finish(self) -> None:
        """Write the directory and the end."""
        directory = b"".join(map(encode_entry, self._members))
        self._write(directory + encode_end(len(self._members), len(directory), self._position))
        self._flush()
        self.directory = directory, tuple(self._members)

    def _place(self, member: Member) -> bytes:
        """Add a member to the directory at the present position; return its local header."""
        written = as_written(member, self._position)
        self._members.append(written)
        return encode_local_header(written)

    def _extend_run(self, archive: WheelArchive, start: int, length: int) -> None:
        self._position += length
        if self._run is not None:
            _, run_start, run_length = self._run
            if start == run_start + run_length:
                start, length = run_start, run_length + length
            else:
                self._end_run()
        if self._run is None:
            self._names_by_run.append([])
        # Whole pieces, because file systems share whole blocks only.
        copied_length = length - length % _PIECE
        if copied_length:
            self._copy(archive, start, copied_length)
        self._run = (archive, start + copied_length, length - copied_length)

    def _end_run(self) -> None:
        if self._run is None:
            return
        archive, start, length = self._run
        self._run = None
        if length > _SMALL:
            self._copy(archive, start, length)
        else:
            self._collect(archive.read_bytes(start, length))

    def _copy(self, archive: WheelArchive, start: int, length: int) -> None:
        self._flush()
        copy = archive.copy_bytes
        starts_writeback = self._starts_writeback
        self._submit(partial(copy, start, length, self._file, starts_writeback=starts_writeback))

    def _write(self, data: bytes) -> None:
        self._end_run()
        self._position += len(data)
        self._collect(data)

    def _collect(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) >= _BUFFER:
            self._flush()

    def _flush(self) -> None:
        if self._buffer:
            self._submit(partial(write_all, self._file, bytes(self._buffer)))
            self._buffer.clear()


def _check_written(
    archive: WheelArchive, ends: Iterable[str], written: Iterable[tuple[Member, bytes]]
) -> None:
    """Verify the positions of copied members, and the content of written ones."""
    for name in dict.fromkeys(ends):
        archive.data_start(archive.member(name))
    for member, _ in written:
        archive.read(member.name)  # compares its CRC-32


def _is_same_entry(path: Path, other: Path) -> bool:
    """Return whether two paths are one directory entry; hard links of a file are different ones."""
    return path.name == other.name and other.parent.exists() and path.parent.samefile(other.parent)
