"""A wheel with replaced METADATA that is not stored: most of its bytes are read from the original.

To create it, only the end of the original is read. METADATA and RECORD are removed from their
position and appended, uncompressed, so that the result does not depend on the version of zlib; the
central directory follows with the new positions. The removed members leave no gap, so installers
that read the archive from its beginning find the same members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from wheelfit.wheels.archive import SIGNATURES, WheelArchive
from wheelfit.wheels.record import RecordRow, format_record, row_for
from wheelfit.wheels.rewrite import new_member
from wheelfit.wheels.zip_directory import STORED
from wheelfit.wheels.zip_writing import as_written, encode_end, encode_entry, encode_local_header

if TYPE_CHECKING:
    from collections.abc import Iterator


class ByteRange(NamedTuple):
    """The origin of the next bytes of a virtual wheel."""

    start: int
    """The offset of the first byte in the original, if the bytes come from there."""
    stop: int
    data: bytes | None = None
    """The bytes, if they do not come from the original."""


@dataclass(frozen=True, slots=True)
class VirtualWheel:
    """A wheel with replaced METADATA, as ranges of the original and new bytes."""

    kept_ranges: tuple[tuple[int, int], ...]
    """The kept ranges of the original, in order; no two are adjacent."""
    removed_parts: tuple[tuple[int, bytes], ...]
    """The removed parts of the original: offset and bytes, the directory last. They are needed to
    hash the original while the kept ranges are streamed.
    """
    tail: bytes
    """The new end: METADATA, RECORD, and the directory."""

    @property
    def size(self) -> int:
        """Bytes of the whole."""
        return sum(stop - start for start, stop in self.kept_ranges) + len(self.tail)

    def ranges_between(self, start: int, stop: int) -> Iterator[ByteRange]:
        """Yield the origins of the bytes between two positions."""
        position = 0
        for first, last in self.kept_ranges:
            length = last - first
            low, high = max(start - position, 0), min(stop - position, length)
            if low < high:
                yield ByteRange(first + low, first + high)
            position += length
        low, high = max(start - position, 0), min(stop - position, len(self.tail))
        if low < high:
            yield ByteRange(0, 0, data=self.tail[low:high])


def with_metadata(archive: WheelArchive, metadata: bytes) -> VirtualWheel:
    """Return a wheel with other METADATA.

    RECORD is updated, and signatures of the old RECORD are removed (B-37).

    :raises InvalidWheel: the original is damaged.
    """
    folder = archive.dist_info
    metadata_name, record_name = f"{folder}/METADATA", f"{folder}/RECORD"
    signatures = {f"{folder}/{name}" for name in SIGNATURES}
    removed = {metadata_name, record_name, *signatures}

    record = archive.record
    new = row_for(metadata_name, metadata)
    rows = [
        new if row.path == metadata_name else row
        for row in record.rows
        if row.path not in {record_name, *signatures}
    ]
    rows.append(RecordRow(record_name))
    old = archive.member(record_name)
    timestamp = (old.time, old.date)
    written = [
        new_member(metadata_name, metadata, STORED, timestamp),
        new_member(record_name, format_record(rows, record.terminator), STORED, timestamp),
    ]

    kept_ranges, removed_parts, moved = _split(archive, removed)
    size = sum(stop - start for start, stop in kept_ranges)
    bodies, entries = bytearray(), bytearray()
    for member in archive.members:
        if member.name not in removed:
            entries += encode_entry(replace(member, offset=moved[member.offset]))
    for member, packed in written:
        placed = as_written(member, size + len(bodies))
        entries += encode_entry(placed)
        bodies += encode_local_header(placed) + packed
    end = encode_end(len(moved) + len(written), len(entries), size + len(bodies))
    return VirtualWheel(kept_ranges, removed_parts, bytes(bodies + entries + end))


def _split(
    archive: WheelArchive, removed: set[str]
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, bytes], ...], dict[int, int]]:
    """Return the kept ranges, the removed members, and the new offset of each member."""
    kept_ranges: list[tuple[int, int]] = []
    removed_parts: list[tuple[int, bytes]] = []
    moved: dict[int, int] = {}
    in_order = sorted(archive.members, key=lambda member: member.offset)
    stops = [member.offset for member in in_order[1:]] + [archive.end.offset]
    position = 0
    for member, stop in zip(in_order, stops, strict=True):
        start = member.offset
        if member.name in removed:
            removed_parts.append((start, archive.read_bytes(start, stop - start)))
            continue
        moved[start] = position
        position += stop - start
        if kept_ranges and kept_ranges[-1][1] == start:
            kept_ranges[-1] = (kept_ranges[-1][0], stop)
        else:
            kept_ranges.append((start, stop))
    rest = archive.end.offset
    removed_parts.append((rest, archive.read_bytes(rest, archive.size - rest)))
    return tuple(kept_ranges), tuple(removed_parts), moved
