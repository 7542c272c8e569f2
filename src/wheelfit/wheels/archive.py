"""Open a wheel, and trust nothing in it that has not been checked.

Opening reads the central directory and a few small files, however large the
wheel. What is refused there is refused for every use. The content of the other
members is compared with RECORD by `WheelArchive.verify`, or by whoever unpacks
them.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.index_metadata import read_wheel_document
from wheelfit.core.strict_json import DEFAULT_LIMITS
from wheelfit.core.versions import parse_version
from wheelfit.errors import Fault, FileProblem, InvalidWheel
from wheelfit.wheels.bytes_source import LocalFile, SeekableFile, open_local
from wheelfit.wheels.dist_info import dist_info_folder, header_value
from wheelfit.wheels.durable import write_all
from wheelfit.wheels.inflate import inflate
from wheelfit.wheels.paths import collision_faults
from wheelfit.wheels.record import DIGEST_SIZES, StreamHash, parse_record
from wheelfit.wheels.zip_directory import (
    LOCAL_HEADER_SIZE,
    TAIL_SIZE,
    check_extents,
    check_local_header,
    check_surroundings,
    find_end,
    following_offsets,
    is_tar,
    local_header_size,
    parse_directory,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import BinaryIO, Self

    from wheelfit.core.filename import WheelFilename
    from wheelfit.wheels.bytes_source import ByteSource
    from wheelfit.wheels.record import Record, RecordRow
    from wheelfit.wheels.zip_directory import DirectoryEnd, Member


__all__ = ["SIGNATURES", "WheelArchive"]


def __dir__() -> list[str]:
    return __all__


SIGNATURES = ("RECORD.jws", "RECORD.p7s")
"""Files of dist-info that sign RECORD; they stand outside it, and any change makes them wrong."""

_PIECE = 1 << 18
_LARGEST_TEXT = 64 << 20  # bytes of a file that is read as a whole
_USUAL_EXTRA = 64  # bytes of the extra fields that are read with a local header
_LONGEST_DESCRIPTOR = 24
_TAR_BLOCK = 512
_UNSUSPICIOUS = 64 << 20  # bytes that a wheel may unpack to, whatever the ratio
_LARGEST_RATIO = 50  # beyond that, what the public registry accepts
_REPORTED = 50


class WheelArchive:
    """Give access to the members of a wheel on disk, in memory, or on its way.

    >>> import tempfile
    >>> from wheelfit.testing.wheels import build_wheel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with WheelArchive(build_wheel(Path(folder), "some", "1.0")) as wheel:
    ...         wheel.verify()
    ...         wheel.names()[0]
    'some/__init__.py'

    Several threads may read at once.

    :param source: path of the wheel; or a seekable binary file or other source of bytes, which
        stay open.
    :param filename: its name; taken from a path, else needed.
    :param where: what errors name; by default the path, or the name.
    :param lenient: open it although something is missing or out of place, as far as it can
        be read safely; `faults` then tells of that too.
    :raises FileProblem: it cannot be read.
    :raises InvalidFilename: it is not named like a wheel.
    :raises InvalidWheel: it is not sound.
    """

    def __init__(
        self,
        source: Path | BinaryIO | ByteSource,
        filename: WheelFilename | None = None,
        *,
        where: str | None = None,
        lenient: bool = False,
    ) -> None:
        if filename is None:
            if not isinstance(source, Path):
                raise TypeError("a wheel without a path needs a file name")
            filename = parse_wheel_filename(source.name)
        self.filename = filename
        """Name of the wheel."""
        self.where = where or (str(source) if isinstance(source, Path) else filename.text)
        """What errors name."""
        self._lenient = lenient
        self._tolerated: list[Fault] = []
        self._owns_source = isinstance(source, Path)
        try:
            self._source = _source_of(source)
        except OSError as error:
            raise FileProblem(
                f"the wheel cannot be read: {error.strerror or type(error).__name__}",
                where=self.where,
            ) from error
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self.size = self._source.size
        """Bytes of the archive."""
        tail_start = max(0, self.size - TAIL_SIZE)
        tail = self.read_bytes(tail_start, self.size - tail_start)
        self.end: DirectoryEnd = find_end(tail, self.size, where=self.where)
        """Where the central directory lies."""
        if is_tar(self.read_bytes(0, min(_TAR_BLOCK, self.size))):
            raise InvalidWheel("it is a tar archive as well", where=self.where)
        directory = self.read_bytes(self.end.offset, self.end.size)
        self.members: tuple[Member, ...] = parse_directory(directory, self.end, where=self.where)
        """Every entry of the archive, in its order, folders too."""
        self._check_members()
        self._by_name = {member.name: member for member in self.members}
        folder = dist_info_folder(self._by_name, self.filename, where=self.where)
        if folder is None:
            raise InvalidWheel("it has no dist-info folder", where=self.where)
        self.dist_info = folder
        """Name of the dist-info folder, without a slash."""
        wanted = ["METADATA", "WHEEL", "RECORD"]
        if self.filename.is_variant:
            wanted.append("variant.json")  # F-27
        missing = [name for name in wanted if f"{folder}/{name}" not in self._by_name]
        if missing and not self._lenient:
            raise InvalidWheel(f"its {folder} has no {', '.join(missing)}", where=self.where)
        self._tolerated += [
            Fault(name, f"its {folder} has no {name}", "F-27" if name == "variant.json" else "B-34")
            for name in missing
        ]
        if "WHEEL" not in missing:
            self._check_format()

    def _check_members(self) -> None:
        """Check what concerns all members together."""
        if not self.members:
            raise InvalidWheel("the archive is empty", where=self.where)
        check_extents(self.members, self.end, where=self.where)
        self._following = following_offsets(self.members, self.end)
        if faults := collision_faults(member.name for member in self.members):
            if not self._lenient:
                raise _invalid(faults, self.where)
            self._tolerated += [Fault("", fault, "B-34") for fault in faults]
        unpacked = sum(member.size for member in self.members)
        if unpacked > _UNSUSPICIOUS and unpacked > _LARGEST_RATIO * self.size:
            raise InvalidWheel(
                f"it unpacks to {unpacked // self.size} times its size",
                where=self.where,
                hint="this looks like an archive made to fill the disk",
            )

    def _check_format(self) -> None:
        """Check the version of the wheel format."""
        text = self.read(f"{self.dist_info}/WHEEL")
        version = header_value(text, "Wheel-Version")
        if version is None or version.partition(".")[0] != "1":
            fault = f"its format has the unsupported version {version!r}"
            if not self._lenient:
                raise InvalidWheel(fault, where=self.where)
            self._tolerated.append(Fault("WHEEL", fault, "B-34"))

    # --- closing ------------------------------------------------------------------

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._owns_source:
            self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- members --------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        """Return the names of all files in the order of the archive; folders are left out."""
        return tuple(member.name for member in self.members if not member.is_folder)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def member(self, name: str) -> Member:
        """Return the entry of a member.

        :raises InvalidWheel: there is none of that name.
        """
        try:
            return self._by_name[name]
        except KeyError:
            raise InvalidWheel(f"it has no {name!r}", where=self.where) from None

    def is_executable(self, name: str) -> bool:
        """Tell whether a file was executable where the wheel was made."""
        return self.member(name).is_executable

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in pieces of at most 256 KiB.

        Size and CRC-32 are checked with the last piece.

        :param name: path inside the wheel.
        :raises InvalidWheel: there is no such file, or its data is damaged.
        """
        member = self.member(name)
        return inflate(member, self._packed(member), where=self.where)

    def read(self, name: str) -> bytes:
        """Return the content of a file of at most 64 MiB.

        :param name: path inside the wheel.
        :raises InvalidWheel: there is no such file, or it is too large, or damaged.
        """
        if (size := self.member(name).size) > _LARGEST_TEXT:
            raise InvalidWheel(f"{name!r} has {size} bytes", where=self.where)
        return b"".join(self.chunks(name))

    def metadata(self) -> bytes:
        """Return METADATA."""
        return self.read(f"{self.dist_info}/METADATA")

    def variant_document(self) -> bytes | None:
        """Return ``variant.json``; None if the wheel has none.

        :raises InvalidWheel: it is too large, or damaged.
        """
        name = f"{self.dist_info}/variant.json"
        if name not in self:
            return None
        if (size := self.member(name).size) > DEFAULT_LIMITS.size:  # F-30
            raise InvalidWheel(f"{name!r} has {size} bytes", where=self.where)
        return self.read(name)

    def record(self) -> Record:
        """Return the rows of RECORD.

        :raises InvalidWheel: it cannot be read.
        """
        name = f"{self.dist_info}/RECORD"
        return parse_record(self.read(name), where=f"{self.where}/{name}")

    def data_start(self, member: Member) -> int:
        """Return where the packed data of a member begins, its local header checked.

        :param member: one of `members`.
        :raises InvalidWheel: the local header contradicts the central directory, or
            something that belongs to no member follows the data.
        """
        start, _ = self._begin(member, LOCAL_HEADER_SIZE + member.name_size + _USUAL_EXTRA)
        return start

    def _begin(self, member: Member, length: int) -> tuple[int, bytes]:
        """Check what surrounds the data of a member.

        :param member: one of `members`.
        :param length: how many bytes to read from its local header on, if it has as many.
        :return: where the data begins, and the bytes that were read.
        """
        room = self._following[member.offset] - member.offset
        read = self.read_bytes(member.offset, min(length, room))
        if (needed := local_header_size(read)) > len(read):
            read = self.read_bytes(member.offset, min(needed, room))
        header = check_local_header(read, member, where=self.where)
        stop = header.size + member.compressed_size
        gap = room - stop
        behind = b""
        if gap > 0:
            behind = read[stop : stop + _LONGEST_DESCRIPTOR]
            if len(behind) < min(gap, _LONGEST_DESCRIPTOR):
                behind = self.read_bytes(member.offset + stop, min(gap, _LONGEST_DESCRIPTOR))
        check_surroundings(header, member, behind, gap, where=self.where)
        return member.offset + header.size, read

    def read_bytes(self, start: int, length: int) -> bytes:
        """Return bytes of the archive as they are.

        :param start: position of the first one.
        :param length: how many.
        :raises InvalidWheel: the archive ends before.
        """
        data = self._source.read_at(start, length)
        if len(data) != length:
            raise InvalidWheel("the archive is cut off", where=self.where)
        return data

    def copy_bytes(self, start: int, length: int, target: BinaryIO) -> None:
        """Write bytes of the archive as they are to a file on disk.

        The kernel copies where it can; on some file systems that moves no byte at all.

        :param start: position of the first one.
        :param length: how many.
        :param target: a file without a buffer.
        :raises InvalidWheel: the archive ends before.
        """
        copied = self._copy_in_kernel(start, length, target)
        for position in range(start + copied, start + length, _PIECE):
            piece = self.read_bytes(position, min(_PIECE, start + length - position))
            write_all(target, piece)

    def _copy_in_kernel(self, start: int, length: int, target: BinaryIO) -> int:
        """Copy as much as the kernel wants to; return how much that was."""
        copied = 0
        if sys.platform == "linux" and isinstance(self._source, LocalFile):
            # Between unlike file systems, or for a file in memory, it refuses.
            with suppress(OSError):
                source_number, target_number = self._source.fileno(), target.fileno()
                while copied < length:
                    count = os.copy_file_range(
                        source_number, target_number, length - copied, start + copied
                    )
                    if not count:
                        break
                    copied += count
        return copied

    def _packed(self, member: Member) -> Iterator[bytes]:
        # What is small comes with its header, in one piece.
        length = LOCAL_HEADER_SIZE + member.name_size + _USUAL_EXTRA + member.compressed_size
        start, read = self._begin(member, min(length, _PIECE))
        stop = start + member.compressed_size
        if start - member.offset < len(read):
            yield read[start - member.offset : stop - member.offset]
        for position in range(member.offset + len(read), stop, _PIECE):
            yield self.read_bytes(position, min(_PIECE, stop - position))

    # --- the whole ------------------------------------------------------------------

    def verify(self, advance: Callable[[int], None] = lambda _: None) -> None:
        """Compare every member with RECORD and with the name of the wheel (B-34, B-38).

        :param advance: told of unpacked bytes as they are checked.
        :raises InvalidWheel: something is wrong; the note lists every fault.
        """
        if faults := tuple(fault.message for fault in self.faults(advance)):
            raise _invalid(faults, self.where)

    def faults(
        self,
        advance: Callable[[int], None] = lambda _: None,
        *,
        contents: bool = True,
        identity: bool = True,
    ) -> Iterator[Fault]:
        """Yield everything that is wrong; the path of each is a file in dist-info (B-34, B-38).

        :param advance: told of unpacked bytes as they are checked.
        :param contents: whether every member is unpacked and hashed; otherwise RECORD is
            held against the central directory only, whatever the size of the wheel.
        :param identity: whether METADATA and ``variant.json`` are held against the file name.
        """
        yield from self._tolerated
        try:
            if f"{self.dist_info}/RECORD" in self:
                yield from self._record_faults(advance, contents=contents)
        except InvalidWheel as error:
            yield Fault("RECORD", error.message, "B-35")
        if not identity:
            return
        try:
            yield from self._identity_faults()
        except InvalidWheel as error:
            yield Fault("", error.message, "B-38")

    def _record_faults(self, advance: Callable[[int], None], *, contents: bool) -> Iterator[Fault]:
        def of_record(message: str) -> Fault:
            return Fault("RECORD", message, "B-36")

        rows: dict[str, RecordRow] = {}
        for row in self.record().rows:
            if row.path in rows:
                yield of_record(f"RECORD names {row.path!r} twice")
            rows[row.path] = row
        record = f"{self.dist_info}/RECORD"
        own = rows.pop(record, None)
        if own is None:
            yield of_record("RECORD does not name itself")
        elif own.hash or own.size:
            yield of_record("RECORD has a hash or size of itself")
        exempt = {record, *(f"{self.dist_info}/{name}" for name in SIGNATURES)}
        for member in self.members:
            row_of_member = rows.pop(member.name, None)
            try:
                if member.is_folder:
                    self.data_start(member)
                elif member.name not in exempt:
                    yield from self._content_faults(
                        member, row_of_member, advance, contents=contents
                    )
                elif contents:
                    for _ in self.chunks(member.name):
                        pass
            except InvalidWheel as error:
                yield Fault("", error.message, "B-38")
        yield from (of_record(f"RECORD names {path!r}, which is not there") for path in rows)

    def _content_faults(
        self,
        member: Member,
        row: RecordRow | None,
        advance: Callable[[int], None],
        *,
        contents: bool,
    ) -> Iterator[Fault]:
        """Compare one file with its row."""
        algorithm, _, _ = row.hash.partition("=") if row is not None else ("sha256", "", "")
        digest = ""
        if contents:
            seen = StreamHash(algorithm if algorithm in DIGEST_SIZES else "sha256")
            for piece in self.chunks(member.name):
                seen.update(piece)
                advance(len(piece))
            digest = seen.row(member.name).hash
        size = str(member.size)  # unpacking has compared it
        if row is None:
            yield Fault("RECORD", f"RECORD does not name {member.name!r}", "B-36")
        elif algorithm not in DIGEST_SIZES:
            fault = f"RECORD has no hash of {member.name!r} that counts: {row.hash!r}"
            yield Fault("RECORD", fault, "B-36")
        elif contents and digest != row.hash.rstrip("="):
            yield Fault("RECORD", f"the hash of {member.name!r} is not the one in RECORD", "B-38")
        elif size != row.size:
            fault = f"{member.name!r} has {size} bytes, RECORD says {row.size!r}"
            yield Fault("RECORD", fault, "B-38")

    def _identity_faults(self) -> Iterator[Fault]:
        """Compare METADATA and ``variant.json`` with the file name."""
        metadata = self.metadata() if f"{self.dist_info}/METADATA" in self else None
        if metadata is not None:
            yield from self._metadata_faults(metadata)
        label, data = self.filename.label, self.variant_document()
        if label is None or data is None:
            return  # F-10: a document in a plain wheel means nothing
        try:
            # Whether an unknown draft may be used was decided before.
            read_wheel_document(data, label, where=self.where, accept_unknown_drafts=True)
        except InvalidWheel as error:
            yield Fault("variant.json", error.message, "F-24")

    def _metadata_faults(self, metadata: bytes) -> Iterator[Fault]:
        name, version = header_value(metadata, "Name"), header_value(metadata, "Version")
        if name is None or canonicalize_name(name) != self.filename.name:
            fault = f"METADATA has the name {name!r}, the file name {self.filename.name!r}"
            yield Fault("METADATA", fault, "B-34")
        same = False
        with suppress(InvalidVersion):
            same = version is not None and parse_version(version) == self.filename.version
        if not same:
            fault = f"METADATA has the version {version!r}, the file name {self.filename.version}"
            yield Fault("METADATA", fault, "B-34")


def _source_of(source: Path | BinaryIO | ByteSource) -> ByteSource:
    if isinstance(source, Path):
        return open_local(source)
    if hasattr(source, "read_at"):
        return cast("ByteSource", source)
    return SeekableFile(source)


def _invalid(faults: tuple[str, ...], where: str) -> InvalidWheel:
    first, *rest = faults
    message = first if not rest else f"{len(faults)} things are wrong, first: {first}"
    shown = [f"- {fault}" for fault in faults[:_REPORTED]]
    if len(faults) > _REPORTED:
        shown.append(f"… and {len(faults) - _REPORTED} more")
    return InvalidWheel(message, where=where, note="\n".join(shown) if rest else None)
