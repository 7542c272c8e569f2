"""Wheels with another METADATA, made of the bytes of the original."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wheels.members import Pipe

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.testing.wheels import build_wheel
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.virtual_wheel import VirtualWheel, with_metadata
from wheelfit_runtime.errors import InvalidWheel

METADATA = b"Metadata-Version: 2.1\nName: some\nVersion: 1\nRequires-Dist: other\n"


def put_together(original: bytes, wheel: VirtualWheel, start: int = 0, stop: int = -1) -> bytes:
    """Return what a client gets between two positions."""
    end = wheel.size if stop < 0 else stop
    return b"".join(
        original[first:last] if data is None else data
        for first, last, data in wheel.ranges_between(start, end)
    )


def virtual(path: Path, metadata: bytes = METADATA) -> VirtualWheel:
    """Return a wheel on disk with another METADATA."""
    with WheelArchive(path) as archive:
        return with_metadata(archive, metadata)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Give a wheel with some files."""
    files: dict[str, bytes | str] = {
        "some/__init__.py": "",
        "some/data.bin": b"x" * 5000,
        "some/bin/tool": "#!sh",
    }
    return build_wheel(tmp_path, "some", "1", files=files, executables=["some/bin/tool"])


def reordered(path: Path, *, first: bool) -> Path:
    """Write the members anew, dist-info first or in the middle, with data descriptors."""
    with zipfile.ZipFile(path) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    key = (
        (lambda item: ".dist-info" not in item[0].filename)
        if first
        else (lambda item: item[0].filename)
    )
    target = Pipe()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, content in sorted(members, key=key):
            archive.writestr(
                zipfile.ZipInfo(info.filename, info.date_time), content, zipfile.ZIP_DEFLATED
            )
    path.write_bytes(target.getvalue())
    return path


@pytest.mark.parametrize("order", ["as built", "dist-info first", "by name"])
def test_everything_else_is_the_same(wheel: Path, order: str) -> None:
    """METADATA is the new one, RECORD verifies, and every other member is as it was."""
    if order != "as built":
        reordered(wheel, first=order == "dist-info first")
    original = wheel.read_bytes()
    with zipfile.ZipFile(wheel) as before:
        contents = {name: before.read(name) for name in before.namelist()}
    made = virtual(wheel)
    data = put_together(original, made)
    assert len(data) == made.size
    with WheelArchive(io.BytesIO(data), parse_wheel_filename(wheel.name)) as archive:
        archive.verify()
        assert archive.metadata() == METADATA
        for name, content in contents.items():
            if not name.endswith(("METADATA", "RECORD")):
                assert archive.read(name) == content
    with zipfile.ZipFile(io.BytesIO(data)) as after:
        assert after.testzip() is None
        assert sorted(after.namelist()) == sorted(contents)


def test_nothing_lies_between_members(wheel: Path) -> None:
    """Whoever reads the archive from its beginning finds the members of its directory only."""
    reordered(wheel, first=True)
    data = put_together(wheel.read_bytes(), virtual(wheel))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert data.count(b"PK\x03\x04") == len(archive.infolist())
        assert min(info.header_offset for info in archive.infolist()) == 0


def test_flags_of_kept_members_stay(wheel: Path) -> None:
    """What follows data, and names marked as UTF-8 without need, are told by both headers."""
    pipe = Pipe()
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(pipe, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            info.flag_bits |= 0x800
            new.writestr(info, content)
    wheel.write_bytes(pipe.getvalue())
    changed = put_together(wheel.read_bytes(), virtual(wheel))
    with WheelArchive(io.BytesIO(changed), parse_wheel_filename(wheel.name)) as archive:
        archive.verify()
        assert archive.metadata() == METADATA


def test_what_is_left_out_completes_the_original(wheel: Path) -> None:
    """Kept and left-out bytes together are the original, so that its hash can be checked."""
    reordered(wheel, first=True)
    original = wheel.read_bytes()
    made = virtual(wheel)
    pieces = [(start, original[start:stop]) for start, stop in made.kept_ranges]
    assert b"".join(data for _, data in sorted([*pieces, *made.removed_parts])) == original


def test_signatures_go(tmp_path: Path) -> None:
    """B-37: a signature of the old RECORD is left out, of the archive and of RECORD."""
    files = {"some/__init__.py": "", "some-1.dist-info/RECORD.jws": "signed"}
    path = build_wheel(tmp_path, "some", "1", files=files)
    data = put_together(path.read_bytes(), virtual(path))
    with WheelArchive(io.BytesIO(data), parse_wheel_filename(path.name)) as archive:
        archive.verify()
        assert not any("jws" in name for name in archive.names())


def test_equal_input_gives_equal_bytes(wheel: Path) -> None:
    """Nothing of it depends on the machine: what is new is not compressed."""
    assert virtual(wheel) == virtual(wheel)
    assert METADATA in virtual(wheel).tail


@given(st.data())
def test_ranges_are_parts_of_the_whole(data: st.DataObject) -> None:
    """Any range of bytes is what lies there in the whole."""
    original = bytes(range(256)) * 4
    made = VirtualWheel(((0, 100), (150, 400)), ((100, b""),), b"the end")
    whole = original[:100] + original[150:400] + b"the end"
    start = data.draw(st.integers(0, made.size))
    stop = data.draw(st.integers(start, made.size))
    assert put_together(original, made, start, stop) == whole[start:stop]
    assert made.size == len(whole)


class Sparse:
    """A wheel with five gigabytes of nothing in its first member."""

    def __init__(self, path: Path, hole: int) -> None:
        small = path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            first, offset = infos[0], archive.start_dir
        header = 30 + len(first.filename.encode())
        end = header + first.compress_size
        local = bytearray(small[:header])
        extra = struct.pack("<2H2Q", 1, 16, hole, hole)
        struct.pack_into("<2L", local, 18, 0xFFFFFFFF, 0xFFFFFFFF)
        struct.pack_into("<H", local, 28, len(extra))
        self._head = bytes(local) + extra
        rest = small[end:offset]
        shift = len(self._head) + hole - end
        entries = bytearray()
        for number, info in enumerate(infos):
            name = info.filename.encode()
            size = hole if not number else info.file_size
            wide = [size, size] if not number else []
            wide += [info.header_offset + shift] if number else []
            field = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide)
            narrow = 0xFFFFFFFF
            entries += struct.pack(
                "<4s2B5H3L5H2L",
                b"PK\x01\x02", 45, 3, 45, 0, info.compress_type, 0, 33, info.CRC,
                narrow if not number else info.compress_size,
                narrow if not number else info.file_size,
                len(name), len(field), 0, 0, 0, 0o100644 << 16,
                narrow if number else 0,
            )  # fmt: skip
            entries += name + field
        where = len(self._head) + hole + len(rest)
        count = len(infos)
        end64 = struct.pack(
            "<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, len(entries), where
        )
        end64 += struct.pack("<4sLQL", b"PK\x06\x07", 0, where + len(entries), 1)
        end64 += struct.pack(
            "<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(entries), 0xFFFFFFFF, 0
        )
        self._tail = rest + bytes(entries) + end64
        self._hole = hole
        self.size = len(self._head) + hole + len(self._tail)

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return bytes."""
        stop = min(start + length, self.size)
        assert stop - start < 1 << 24, "all of it is read"
        begin, end = len(self._head), len(self._head) + self._hole
        return (
            self._head[start:stop]
            + bytes(max(0, min(stop, end) - max(start, begin)))
            + self._tail[max(0, start - end) : max(0, stop - end)]
        )

    def close(self) -> None:
        """Do nothing."""


def test_positions_beyond_four_gigabytes(tmp_path: Path) -> None:
    """ZIP64: positions move in the wide fields, and the new members and the end have such too."""
    files: dict[str, bytes | str] = {"some/huge.bin": b"x", "some/__init__.py": "here = True\n"}
    hole = 5 << 30
    path = build_wheel(tmp_path, "some", "1", files=files)
    with zipfile.ZipFile(path, "r") as archive:
        stored = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in stored.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    source = Sparse(path, hole)
    filename = parse_wheel_filename(path.name)
    made = with_metadata(WheelArchive(source, filename), METADATA)

    class Made:
        """The virtual wheel, to be read."""

        size = made.size

        def read_at(self, start: int, length: int, /) -> bytes:
            stop = min(start + length, made.size)
            return b"".join(
                source.read_at(first, last - first) if data is None else data
                for first, last, data in made.ranges_between(start, stop)
            )

        def close(self) -> None:
            """Do nothing."""

    read = WheelArchive(Made(), filename)
    assert read.metadata() == METADATA
    assert read.read("some/__init__.py") == b"here = True\n"
    assert read.member("some-1.dist-info/METADATA").offset > hole
    assert read.member("some/huge.bin").size == hole


def test_a_wheel_that_is_not_sound_is_refused(wheel: Path) -> None:
    """What has no RECORD is no wheel that could get another METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        contents = {n: archive.read(n) for n in archive.namelist() if not n.endswith("RECORD")}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    with pytest.raises(InvalidWheel, match="RECORD"):
        virtual(wheel)
