"""Members that are packed with Zstandard: read where a library is there, and never written."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from checking.releases import codes
from cli.running import Runner
from wheels.members import verdict
from wheels.zstd_wheels import build_zstd_wheel, write_archive

from wheelfit.checking.findings import Report
from wheelfit.checking.wheels.wheel import check_wheel
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.testing.wheels import build_wheel, unpack_wheel
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.bytes_source import BytesInMemory
from wheelfit.wheels.inflate import inflate
from wheelfit.wheels.partial_archive import read_members
from wheelfit.wheels.rewrite import RewriteOptions, rewrite
from wheelfit.wheels.zip_directory import DEFLATED, STORED, Member
from wheelfit.wheels.zstandard import ZSTANDARD, zstd_library
from wheelfit_runtime.errors import InvalidWheel

NOISE = random.Random(5).randbytes(600_000)
FILES = {"some/noise.bin": NOISE, "some/text.py": b"import this\n" * 9000, "some/empty.py": b""}

reason = partial(verdict, method=ZSTANDARD)
"""Returns why packed bytes are refused that promise a content; empty: they are not."""

needs_library = pytest.mark.skipif(zstd_library() is None, reason="needs the extra `zstd`")


@pytest.fixture
def library() -> Any:
    """Return the module that packs."""
    return zstd_library()


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide the library, whichever there is."""
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    zstd_library.cache_clear()
    yield
    zstd_library.cache_clear()


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Return a wheel with such members."""
    return build_zstd_wheel(tmp_path, "some", "1.0", files=FILES)


@needs_library
class TestReading:
    """With the library such a wheel is one like any other."""

    def test_whole_wheel(self, wheel: Path) -> None:
        """Every way of reading gives the content, which RECORD confirms."""
        with WheelArchive(wheel) as archive:
            assert {member.method for member in archive.members} == {ZSTANDARD}
            archive.verify()
            assert archive.read("some/noise.bin") == NOISE
            assert archive.beginning("some/text.py").startswith(b"import this")
            assert dict(archive.contents(archive.members))[archive.member("some/empty.py")] == b""
        assert unpack_wheel(wheel).files

    def test_part_of_a_remote_wheel(self, wheel: Path) -> None:
        """METADATA is read from the end of the file."""
        source = BytesInMemory(wheel.read_bytes())
        name = parse_wheel_filename(wheel.name)
        members = read_members(source, ["METADATA"], filename=name, where=wheel.name)
        assert b"Name: some" in members["METADATA"]

    @pytest.mark.parametrize("content", [b"", b"x", NOISE])
    def test_promises_are_kept(self, library: Any, content: bytes) -> None:
        """Neither more nor less comes than the entry says, in one frame, and undamaged."""
        packed = library.compress(content)
        assert reason(packed, content) == ""
        assert "bytes follow" in reason(packed + b"x", content)
        assert "bytes follow" in reason(packed + packed, content)
        assert "cut off" in reason(packed[:-1], content)
        assert "damaged" in reason(b"junk" + packed[4:], content)
        assert "longer" in reason(library.compress(content + b"x"), content)
        assert "CRC-32" in reason(library.compress(content + b"y"), content + b"z")

    def test_bombs(self, library: Any, tmp_path: Path) -> None:
        """Little memory and no more than promised is taken; what grows a lot is refused at once."""
        bomb = library.compress(bytes(1 << 27))
        member = Member("some/data", ZSTANDARD, 0, 0, 0, 0, len(bomb), 1 << 20, 0, 3, 0)
        sizes: list[int] = []
        with pytest.raises(InvalidWheel, match="longer than its entry states"):
            sizes += map(len, inflate(member, [bomb], where="some.whl"))
        assert sum(sizes) <= 1 << 20
        assert max(sizes, default=0) <= 1 << 19
        window = library.CompressionParameter.window_log
        unsized = library.ZstdCompressor(options={window: 28})
        wide = unsized.compress(NOISE) + unsized.flush()
        assert "damaged" in reason(wide, NOISE)
        path = tmp_path / "some-1.0-py3-none-any.whl"
        write_archive(path, {"some/zeros": (bytes(1 << 27), bomb, 0)})
        with pytest.raises(InvalidWheel, match="times its size"):
            WheelArchive(path)

    def test_check(self, wheel: Path) -> None:
        """B-34: as older installers cannot read it, it is nothing to publish."""
        findings, facts = check_wheel(wheel, wheel.name, where=wheel.name)
        assert codes(Report(tuple(findings))) == {"unsound-archive": 1}
        assert "Zstandard" in findings[0].message
        assert facts is not None
        assert facts.metadata

    @pytest.mark.parametrize("verify", [True, False])
    def test_rewriting(self, wheel: Path, tmp_path: Path, *, verify: bool) -> None:
        """What is written can be read by everybody, and has the same content."""
        target = tmp_path / "new" / wheel.name
        target.parent.mkdir()
        options = RewriteOptions(verify_content=verify)
        rewrite(wheel, target, replace_members={"some/more.py": b"1"}, options=options)
        with WheelArchive(target) as archive:
            assert {member.method for member in archive.members} == {STORED, DEFLATED}
            archive.verify()
            assert archive.read("some/noise.bin") == NOISE
        plain = build_wheel(tmp_path / "plain", "some", "1.0", files=FILES)
        with WheelArchive(plain) as one, WheelArchive(target) as other:
            assert set(other.names()) == {*one.names(), "some/more.py"}

    @pytest.mark.usefixtures("bare_environment")
    def test_commands(
        self, wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """It is installed and inspected."""
        run = Runner(capsys)
        run("install", "--target", tmp_path / "there", "--no-index", wheel)
        assert (tmp_path / "there/some/noise.bin").read_bytes() == NOISE
        assert "some" in run("wheel", "inspect", wheel).out


def test_without_the_library(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """File, member, method and what to do are named."""
    path = tmp_path / "some-1.0-py3-none-any.whl"
    write_archive(path, {"some/data": (b"content", b"packed", 0)})
    request.getfixturevalue("without_library")
    with pytest.raises(InvalidWheel) as excinfo:
        WheelArchive(path)
    assert excinfo.value.where == str(path)
    assert excinfo.value.message.startswith("'some/data' is packed with Zstandard (method 93)")
    assert "needs Python 3.14 or the extra zstd" in excinfo.value.message
    assert ".[zstd]" in str(excinfo.value.hint)
