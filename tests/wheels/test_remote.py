"""Reading members of remote wheels, asserted on requests and bytes."""

from __future__ import annotations

import http.client
import io
import random
import struct
import zipfile
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.local_files import read_local_members
from wheelfit.sources.ranged_file import RangedFile
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import add_member, build_large_wheel, build_wheel, release_document
from wheelfit.wheels.partial_archive import END_SIZE, read_members
from wheelfit.wheels.remote import (
    Extent,
    RangeUnsupported,
    RemotePart,
    Span,
    Suffix,
    announced_extent,
)
from wheelfit_runtime.errors import InvalidWheel, UnexpectedStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from wheelfit.wheels.remote import Range

DOCUMENT = release_document(
    {"null": {}, "mkl": {"blas": {"library": ["mkl"]}}},
    static={"blas": {"library": ["openblas", "mkl"]}},
)
BOTH = ("METADATA", "variant.json")
WHEEL = parse_wheel_filename("some-1.0-py3-none-any.whl")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve the folder of the test."""
    with RecordingIndex(tmp_path) as index:
        yield index


def read(index: RecordingIndex, path: Path, names: Iterable[str] = BOTH) -> dict[str, bytes]:
    """Read members over HTTP."""
    url = index.file_url(path.name)

    def fetch(asked: Range) -> RemotePart:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
        try:
            connection.request("GET", urlsplit(url).path, headers={"Range": asked.header})
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            extent = announced_extent(asked, response.status, headers, where=url)
            return RemotePart(extent, response.read())
        finally:
            connection.close()

    source = RangedFile(fetch, where=url, first_request=END_SIZE)
    filename = parse_wheel_filename(path.name)
    return read_members(source, [*names], filename=filename, where=url)


def read_file(data: bytes, names: Iterable[str] = BOTH) -> tuple[dict[str, bytes], int]:
    """Read members of a wheel in memory; also return the number of requests."""
    count = 0

    def fetch(asked: Range) -> RemotePart:
        nonlocal count
        count += 1
        start = max(0, len(data) - asked.length) if isinstance(asked, Suffix) else asked.start
        stop = len(data) if isinstance(asked, Suffix) else min(asked.stop, len(data))
        return RemotePart(Extent(start, stop, len(data)), data[start:stop])

    source = RangedFile(fetch, where="some.whl", first_request=END_SIZE)
    return read_members(source, [*names], filename=WHEEL, where="some.whl"), count


def variant_with(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Build a variant wheel."""
    return build_wheel(
        folder,
        "some",
        "1.0",
        label="mkl",
        document=DOCUMENT,
        files=files,
        description="A description.\n" * 400,
    )


def noise(size: int) -> bytes:
    """Return bytes that cannot be packed."""
    return random.Random(1).randbytes(size)


class TestCost:
    """How many requests and bytes it takes."""

    def test_small(self, tmp_path: Path, index: RecordingIndex) -> None:
        """Of a small wheel one request gives everything."""
        path = variant_with(tmp_path, {"some/__init__.py": b""})
        members = read(index, path)
        assert members["METADATA"].startswith(b"Metadata-Version")
        assert b'"mkl"' in members["variant.json"]
        assert len(index.requests) == 1
        assert index.bytes_sent() == path.stat().st_size

    @pytest.mark.parametrize("count", [10, 300, 600, 999])
    def test_below_a_thousand_members(
        self, tmp_path: Path, index: RecordingIndex, count: int
    ) -> None:
        """At most two requests and 128 kB, however long the names."""
        files = {
            f"some/quite_a_long_folder_name/module_number_{number:04}.py": noise(500)
            for number in range(count)
        }
        path = variant_with(tmp_path, {**files, "some/lib.so": noise(300_000)})
        assert read(index, path).keys() == set(BOTH)
        assert len(index.requests) <= 2
        assert index.bytes_sent() <= 128_000

    @pytest.mark.integration
    def test_many_members(self, tmp_path: Path, index: RecordingIndex) -> None:
        """As many members as PyTorch has cost no more: the directory is not read."""
        files = {f"some/include/folder/header_{n:05}.h": noise(60) for n in range(13_000)}
        path = variant_with(tmp_path, files)
        assert read(index, path).keys() == set(BOTH)
        assert len(index.requests) <= 2
        assert index.bytes_sent() <= 128_000

    @pytest.mark.integration
    def test_half_a_gigabyte(self, tmp_path: Path, index: RecordingIndex) -> None:
        """A wheel of 500 MB costs a few requests and a few hundred kB at most."""
        path = build_large_wheel(
            tmp_path, "some", "1.0", 500_000_000, label="mkl", document=DOCUMENT
        )
        assert path.stat().st_size > 500_000_000
        assert read(index, path).keys() == set(BOTH)
        assert len(index.requests) <= 3
        assert index.bytes_sent() < 300_000

    def test_dist_info_first(self, tmp_path: Path, index: RecordingIndex) -> None:
        """A wheel in the worst order costs its directory and three requests."""
        source = variant_with(tmp_path / "source", {})
        path = tmp_path / source.name
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
            for name in old.namelist():
                add_member(new, name, old.read(name))
            for number in range(2000):
                add_member(new, f"some/data/file_with_a_name_{number:05}", noise(100))
        assert read(index, path).keys() == set(BOTH)
        assert len(index.requests) == 3
        assert index.bytes_sent() < 300_000

    def test_what_is_not_there(self, tmp_path: Path, index: RecordingIndex) -> None:
        """That a member is missing is known once the directory is, and is not an error."""
        files = {f"some/folder/file_with_a_name_{n:05}": noise(50) for n in range(2000)}
        path = build_wheel(tmp_path, "some", "1.0", files=files)
        assert read(index, path).keys() == {"METADATA"}
        assert len(index.requests) <= 3


class TestServers:
    """Servers that do not play along."""

    def test_no_ranges(self, tmp_path: Path, index: RecordingIndex) -> None:
        """A server that sends the whole is told apart before its body is read."""
        path = build_large_wheel(tmp_path, "some", "1.0", 50_000_000)
        index.faults.ranges = False
        with pytest.raises(RangeUnsupported, match="200"):
            read(index, path)

    @pytest.mark.parametrize("status", [400, 405, 416, 501])
    def test_no_suffix_ranges(self, tmp_path: Path, index: RecordingIndex, status: int) -> None:
        """A server that refuses a suffix range is treated alike."""
        path = build_wheel(tmp_path, "some", "1.0")
        index.faults.status[path.name] = status
        with pytest.raises(RangeUnsupported, match=str(status)):
            read(index, path)

    @pytest.mark.parametrize("status", [403, 404, 500])
    def test_errors(self, tmp_path: Path, index: RecordingIndex, status: int) -> None:
        """Other statuses are errors and say which."""
        path = build_wheel(tmp_path, "some", "1.0")
        index.faults.status[path.name] = status
        with pytest.raises(UnexpectedStatus) as excinfo:
            read(index, path)
        assert excinfo.value.status == status

    def test_file_that_changes(self, tmp_path: Path, index: RecordingIndex) -> None:
        """Parts of two states of a file are never put together."""
        path = variant_with(tmp_path, {f"some/{n}": noise(100) for n in range(2000)})
        index.faults.changing_etag = True
        with pytest.raises(UnexpectedStatus, match="changed"):
            read(index, path)

    def test_short_body(self) -> None:
        """A part with fewer bytes than announced is refused."""

        def fetch(_: Range) -> RemotePart:
            return RemotePart(Extent(0, 100, 100), b"x" * 99)

        with pytest.raises(UnexpectedStatus, match="99"):
            RangedFile(fetch, where="some.whl")


class TestAnnouncedExtent:
    """The head of an answer."""

    @pytest.mark.parametrize(
        ("asked", "content_range", "extent"),
        [
            (Suffix(10), "bytes 90-99/100", Extent(90, 100, 100)),
            (Suffix(1000), "bytes 0-99/100", Extent(0, 100, 100)),
            (Span(5, 20), "bytes 5-19/100", Extent(5, 20, 100)),
            (Span(5, 200), "bytes 5-99/100", Extent(5, 100, 100)),
        ],
    )
    def test_as_asked(self, asked: Range, content_range: str, extent: Extent) -> None:
        """The part that was asked for, or as much as there is."""
        found = announced_extent(asked, 206, {"content-range": content_range}, where="u")
        assert found == extent

    @pytest.mark.parametrize(
        "content_range",
        ["bytes 0-99/100", "bytes 6-19/100", "bytes 5-18/100", "bytes 5-20/100", "bytes 9-3/100"],
    )
    def test_other_bytes(self, content_range: str) -> None:
        """As in pip 26.2, an answer with another offset is an error, never used."""
        with pytest.raises(UnexpectedStatus, match="other bytes"):
            announced_extent(Span(5, 20), 206, {"content-range": content_range}, where="u")

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"content-range": "bytes 5-19/*"},
            {"content-range": "lines 5-19/100"},
            {"content-range": "bytes 5-19/100", "content-encoding": "gzip"},
            {"content-type": "multipart/byteranges; boundary=x"},
        ],
    )
    def test_unusable(self, headers: dict[str, str]) -> None:
        """Parts whose place is unknown are as good as none."""
        with pytest.raises(RangeUnsupported):
            announced_extent(Span(5, 20), 206, headers, where="u")

    def test_validator(self) -> None:
        """A weak entity tag proves nothing; a date is better."""
        headers = {"content-range": "bytes 5-19/100", "etag": 'W/"a"', "last-modified": "then"}
        assert announced_extent(Span(5, 20), 206, headers, where="u").validator == "then"
        headers["etag"] = '"a"'
        assert announced_extent(Span(5, 20), 206, headers, where="u").validator == '"a"'

    def test_headers(self) -> None:
        """Ranges are written as HTTP wants them, the end included."""
        assert Suffix(65536).header == "bytes=-65536"
        assert Span(0, 100).header == "bytes=0-99"


def build_like_torch() -> bytes:
    """Return a wheel whose dist-info is not in its last 64 KiB."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("METADATA", "variant.json", "WHEEL", "RECORD"):
            content = f"content of {name}".encode()
            add_member(archive, f"some-1.0.dist-info/{name}", content, method=zipfile.ZIP_STORED)
        for number in range(200):
            add_member(archive, f"some/{number}", noise(1000))
    return file.getvalue()


def test_member_behind_the_directory(tmp_path: Path) -> None:
    """A member that would begin behind the directory is refused, without a negative read."""
    data = bytearray(build_wheel(tmp_path, "demo", "1.0").read_bytes())
    end = data.rindex(b"PK\x05\x06")
    (directory,) = struct.unpack_from("<I", data, end + 16)
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(b"demo-1.0.dist-info/METADATA"))
    struct.pack_into("<I", data, entry + 42, directory + 8)
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    path.write_bytes(data)
    with pytest.raises(InvalidWheel):
        read_local_members(path, ["METADATA"], path.name)


def test_damaged_members() -> None:
    """Damage inside a member is found by its CRC."""
    data = build_like_torch()
    assert read_file(data)[0]["METADATA"] == b"content of METADATA"
    with pytest.raises(InvalidWheel, match="CRC"):
        read_file(data.replace(b"content of METADATA", b"contend of METADATA"))


@pytest.mark.parametrize("data", [b"", b"x", b"x" * 100_000])
def test_no_archive(data: bytes) -> None:
    """What is not an archive is refused after one request."""
    with pytest.raises(InvalidWheel, match="end record"):
        read_file(data)
