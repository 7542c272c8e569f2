"""Bytes by position, from disk, from memory and through a file with one position."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.bytes_source import (
    BytesInMemory,
    ByteSource,
    LocalFile,
    SeekableFile,
    open_local,
)
from wheelfit_runtime.errors import FileProblem, InvalidWheel

DATA = bytes(range(256)) * 40


def _sources(folder: Path) -> list[ByteSource]:
    path = folder / "file"
    path.write_bytes(DATA)
    return [
        open_local(path),
        LocalFile(path.open("rb", buffering=0)),
        SeekableFile(path.open("rb"), owned=True),
        SeekableFile(io.BytesIO(DATA)),
        BytesInMemory(DATA),
    ]


def test_every_source_gives_the_same(tmp_path: Path) -> None:
    """Whatever stands behind it, a position means the same bytes, and the end is the end."""
    for source in _sources(tmp_path):
        assert source.size == len(DATA)
        assert source.read_at(0, 5) == DATA[:5]
        assert source.read_at(700, 1000) == DATA[700:1700]
        assert source.read_at(len(DATA) - 3, 9) == DATA[-3:]
        assert source.read_at(len(DATA) + 3, 9) == b""
        source.close()
        source.close()


def test_threads_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Many readers of one source each get the bytes they asked for."""
    for source in _sources(tmp_path):
        with ThreadPoolExecutor(8) as pool:
            starts = [number * 37 % 9000 for number in range(400)]
            found = list(pool.map(lambda start, of=source: of.read_at(start, 99), starts))
        assert found == [DATA[start : start + 99] for start in starts]
        source.close()


def test_a_closed_file_gives_nothing(tmp_path: Path) -> None:
    """Its number may long belong to another file, which must not be read in its place."""
    path = tmp_path / "file"
    path.write_bytes(DATA)
    source = LocalFile(path.open("rb", buffering=0))
    source.close()
    with path.open("rb"), pytest.raises(ValueError, match="closed"):
        source.read_at(0, 1)


class _Short:
    """A source that says more than it has."""

    size = 4000

    def __init__(self) -> None:
        self.closed = False

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return less than asked for."""
        return DATA[start : start + length // 2]

    def close(self) -> None:
        """Remember it."""
        self.closed = True


def test_a_wheel_from_any_source(plain: Path) -> None:
    """A wheel is read through whatever gives its bytes, which stays open."""
    source = open_local(plain)
    name = parse_wheel_filename(plain.name)
    for each in (source, BytesInMemory(plain.read_bytes())):
        with WheelArchive(each, name) as wheel:
            wheel.verify()
    assert source.read_at(0, 2) == b"PK"
    source.close()
    short = _Short()
    with pytest.raises(InvalidWheel, match="truncated"):
        WheelArchive(short, name)
    assert not short.closed


def test_a_folder_is_no_wheel(tmp_path: Path) -> None:
    """A folder of that name is reported as what cannot be read."""
    (tmp_path / "some-1.0-py3-none-any.whl").mkdir()
    with pytest.raises(FileProblem, match="cannot be read"):
        WheelArchive(tmp_path / "some-1.0-py3-none-any.whl")
