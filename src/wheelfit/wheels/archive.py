"""Open, read and verify a wheel.

Opening reads and checks the central directory and a few small files, however large the wheel is.
The content of the other members is compared with RECORD by `WheelArchive.verify`, or while
unpacking.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfit.core.filename import WheelFilename, parse_wheel_filename
from wheelfit.core.index_metadata import read_wheel_document
from wheelfit.core.strict_json import DEFAULT_LIMITS
from wheelfit.core.versions import version_of
from wheelfit.wheels.dist_info import check_text_size, dist_info_folder, header_value
from wheelfit.wheels.record import DIGEST_SIZES, StreamHash, leads_out, parse_record
from wheelfit.wheels.zip_archive import ZipArchive, faults_error
from wheelfit_runtime.errors import Fault, InvalidWheel
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from wheelfit.wheels.bytes_source import ByteSource
    from wheelfit.wheels.record import Record, RecordRow
    from wheelfit.wheels.zip_directory import Member


SIGNATURES = ("RECORD.jws", "RECORD.p7s")
"""Signatures of RECORD in dist-info. RECORD does not list them; a change of it breaks them."""
_RECORD_EXTRA_SIZE = 1 << 16  # bytes of RECORD beyond a row for each member, at most
_ROW_EXTRA_SIZE = 512  # bytes of a row beyond its path, at most: a hash and a size


class WheelArchive(ZipArchive):
    """A wheel on disk, in memory or still being downloaded, opened to read its members.

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
    :param filename: its name; None takes it from the path, and a source without a path needs it.
    :param where: the name in errors; by default the path, or the name.
    :param lenient: whether to open a wheel with a missing or misplaced part, as far as it can be
        read safely; `faults` then includes that.
    :param expected: as in `ZipArchive`.
    :raises FileProblem: it cannot be read.
    :raises InvalidFilename: it is not named like a wheel.
    :raises InvalidWheel: it is not valid.
    """

    def __init__(
        self,
        source: Path | BinaryIO | ByteSource,
        filename: WheelFilename | None = None,
        *,
        where: str | None = None,
        lenient: bool = False,
        expected: tuple[bytes, tuple[Member, ...]] | None = None,
    ) -> None:
        if filename is None:
            if not isinstance(source, Path):
                raise TypeError("a wheel without a path needs a file name")
            filename = parse_wheel_filename(source.name)
        self.filename = filename
        """Name of the wheel."""
        where = where or (str(source) if isinstance(source, Path) else filename.text)
        super().__init__(source, where=where, lenient=lenient, expected=expected)

    def _open(self) -> None:
        super()._open()
        folder = dist_info_folder(self._by_name, self.filename, where=self.where)
        if folder is None:
            raise InvalidWheel("the wheel has no .dist-info folder", where=self.where)
        self.dist_info = folder
        """Name of the dist-info folder, without a slash."""
        required = ["METADATA", "WHEEL", "RECORD"]
        if self.filename.is_variant:
            required.append("variant.json")  # F-27
        missing = [name for name in required if f"{folder}/{name}" not in self._by_name]
        if missing and not self._lenient:
            raise InvalidWheel(f"its {folder} has no {', '.join(missing)}", where=self.where)
        self.tolerated += [
            Fault(name, f"its {folder} has no {name}", "F-27" if name == "variant.json" else "B-34")
            for name in missing
        ]
        if "WHEEL" not in missing:
            self._check_format()

    def _check_format(self) -> None:
        """Check the version of the wheel format."""
        version = header_value(self.read(f"{self.dist_info}/WHEEL"), "Wheel-Version")
        if version is None or version.partition(".")[0] != "1":
            fault = f"the Wheel-Version is {version}, and this version of wheelfit reads 1.x"
            if not self._lenient:
                raise InvalidWheel(fault, where=self.where)
            self.tolerated.append(Fault("WHEEL", fault, "B-34"))

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        :raises InvalidWheel: it is a file of dist-info that is too large to be parsed.
        """
        check_text_size(name, self.member(name).size, self.dist_info, where=self.where)
        return super().read(name)

    def metadata(self) -> bytes:
        """Return METADATA."""
        return self.read(f"{self.dist_info}/METADATA")

    def variant_document(self) -> bytes | None:
        """Return ``variant.json``; None if the wheel has none."""
        name = f"{self.dist_info}/variant.json"
        if name not in self:
            return None
        if (size := self.member(name).size) > DEFAULT_LIMITS.size:  # F-30
            raise InvalidWheel(f"{name!r} has {size} bytes", where=self.where)
        return self.read(name)

    @cached_property
    def record(self) -> Record:
        """The rows of RECORD.

        :raises InvalidWheel: it cannot be read, or is too long for the files of the wheel.
        """
        name = f"{self.dist_info}/RECORD"
        # A small archive may unpack to a RECORD with millions of rows of missing files. A character
        # of a path takes up to four bytes.
        limit = _RECORD_EXTRA_SIZE + sum(
            4 * len(member.name) + _ROW_EXTRA_SIZE for member in self.members
        )
        if (size := self.member(name).size) > limit:
            raise InvalidWheel(
                f"RECORD has {size} bytes, with {len(self.members)} files", where=self.where
            )
        return parse_record(self.read(name), where=f"{self.where}/{name}")

    # --- verification ---------------------------------------------------------------

    def verify(self, advance: Callable[[int], None] = lambda _: None) -> None:
        """Compare every member with RECORD and with the name of the wheel (B-34, B-38).

        :param advance: called with the number of bytes read, as they are read.
        :raises InvalidWheel: a fault was found; the note lists every fault.
        """
        if faults := tuple(fault.message for fault in self.faults(advance)):
            raise faults_error(faults, self.where)

    def faults(
        self,
        advance: Callable[[int], None] = lambda _: None,
        *,
        contents: bool = True,
        identity: bool = True,
        record: Record | None = None,
    ) -> Iterator[Fault]:
        """Yield all faults; the path of each is a file in dist-info (B-34, B-38).

        :param advance: called with the number of bytes read, as they are read.
        :param contents: whether every member is unpacked and hashed; otherwise RECORD is compared
            with the central directory only, which is quick for any size of wheel.
        :param identity: whether METADATA and ``variant.json`` are compared with the file name.
        :param record: the rows of RECORD, if they are known; None: they are read.
        """
        yield from self.tolerated
        try:
            if f"{self.dist_info}/RECORD" in self:
                record = self.record if record is None else record
                yield from self._record_faults(record, advance, contents=contents)
        except InvalidWheel as error:
            yield Fault("RECORD", error.message, "B-35")
        if not identity:
            return
        try:
            yield from self._identity_faults()
        except InvalidWheel as error:
            yield Fault("", error.message, "B-38")

    def _record_faults(
        self, record: Record, advance: Callable[[int], None], *, contents: bool
    ) -> Iterator[Fault]:
        def record_fault(message: str) -> Fault:
            return Fault("RECORD", message, "B-36")

        rows: dict[str, RecordRow] = {}
        for row in record.rows:
            if row.path in rows:
                yield record_fault(f"RECORD lists {row.path!r} twice")
            if leads_out(row.path):
                yield Fault("RECORD", f"RECORD lists {row.path!r}, which leads out of the wheel")
                continue
            rows[row.path] = row
        own_name = f"{self.dist_info}/RECORD"
        own_row = rows.pop(own_name, None)
        if own_row is None:
            yield record_fault("RECORD does not list itself")
        elif own_row.hash or own_row.size:
            yield record_fault("RECORD has a hash or size of itself")
        exempt = {own_name, *(f"{self.dist_info}/{name}" for name in SIGNATURES)}
        for member in self.members:
            row_of_member = rows.pop(member.name, None)
            try:
                if member.is_folder:
                    self.data_start(member)  # checks its local header
                elif member.name not in exempt:
                    fault = self.member_fault(member, row_of_member, advance, contents=contents)
                    if fault is not None:
                        yield fault
                elif contents:
                    for _ in self.chunks(member.name):  # unpacking checks size and CRC
                        pass
            except InvalidWheel as error:
                yield Fault("", error.message, "B-38")
        for path in rows:
            yield record_fault(f"RECORD lists {path!r}, which the wheel does not contain")

    def member_fault(
        self,
        member: Member,
        row: RecordRow | None,
        advance: Callable[[int], None] = lambda _: None,
        *,
        contents: bool = True,
    ) -> Fault | None:
        """Return the difference of a file from its row in RECORD (B-36, B-38); None if none.

        :param row: the row; None if there is none.
        :param contents: whether to unpack and hash the file.
        """
        algorithm = "sha256" if row is None else row.hash.partition("=")[0]
        digest = self.row_of(member, algorithm, advance).hash if contents else ""
        if row is None:
            return Fault("RECORD", f"RECORD does not list {member.name!r}", "B-36")
        if algorithm not in DIGEST_SIZES:
            fault = f"RECORD has no accepted hash of {member.name!r}: {row.hash!r}"
            return Fault("RECORD", fault, "B-36")
        if contents and digest != row.hash.rstrip("="):
            fault = f"the hash of {member.name!r} is not the one in RECORD"
            return Fault("RECORD", fault, "B-38")
        if row.size != str(member.size):  # the size of the member is checked while unpacking
            size = count_of(member.size, "byte")
            fault = f"{member.name!r} has {size}, but {row.size!r} in RECORD"
            return Fault("RECORD", fault, "B-38")
        return None

    def row_of(
        self, member: Member, algorithm: str, advance: Callable[[int], None] = lambda _: None
    ) -> RecordRow:
        """Return the correct row of a file for RECORD.

        :param algorithm: the algorithm of the hash; SHA-256 replaces one that is not accepted.
        """
        stream_hash = StreamHash(algorithm if algorithm in DIGEST_SIZES else "sha256")
        for chunk in self.chunks(member.name):
            stream_hash.update(chunk)
            advance(len(chunk))
        return stream_hash.row(member.name)

    def _identity_faults(self) -> Iterator[Fault]:
        """Yield the differences of METADATA and ``variant.json`` from the file name."""
        metadata = self.metadata() if f"{self.dist_info}/METADATA" in self else None
        if metadata is not None:
            yield from self._metadata_faults(metadata)
        label, data = self.filename.label, self.variant_document()
        if label is None or data is None:
            return  # F-10: a document in a plain wheel is ignored
        try:
            # Readers of the document decide whether to accept unknown drafts.
            read_wheel_document(data, label, where=self.where, accept_unknown_drafts=True)
        except InvalidWheel as error:
            yield Fault("variant.json", error.message, "F-24")

    def _metadata_faults(self, metadata: bytes) -> Iterator[Fault]:
        name, version = header_value(metadata, "Name"), header_value(metadata, "Version")
        if name is None or canonicalize_name(name) != self.filename.name:
            fault = f"METADATA has the name {name!r}, the file name {self.filename.name!r}"
            yield Fault("METADATA", fault, "B-34")
        if version is None or version_of(version) != self.filename.version:
            fault = f"METADATA has the version {version!r}, the file name {self.filename.version}"
            yield Fault("METADATA", fault, "B-34")
