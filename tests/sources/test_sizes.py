"""How large wheels are, found out without fetching them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from wheelfit.errors import TooLarge
from wheelfit.installation.builds.building import WheelBuilder
from wheelfit.installation.builds.consent import BuildPolicy
from wheelfit.sources.cache import Store
from wheelfit.sources.local_files import LocalFiles
from wheelfit.sources.page import File, WheelOrigin
from wheelfit.sources.remote_files import RemoteFiles
from wheelfit.sources.repository import FileSize
from wheelfit.testing.repositories import FakeRepository
from wheelfit.testing.wheels import build_wheel


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Give a wheel that is much smaller than what is in it."""
    return build_wheel(tmp_path / "upload", "a", "1", files={"a/data": "0" * 500_000})


def inside(path: Path) -> int:
    """Return how much a wheel holds."""
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def test_by_ranges(server: Any, make_files: Any, wheel: Path) -> None:
    """One request for the end of the wheel tells both."""
    found = make_files().size(server.listed(wheel), unpacked=True)
    assert found == FileSize(wheel.stat().st_size, inside(wheel))
    assert found.download == wheel.stat().st_size
    (request,) = server.requests
    assert request.headers["range"].startswith("bytes=-")


def test_a_long_directory(server: Any, make_files: Any, tmp_path: Path) -> None:
    """A directory that is longer than the first request takes a second one, for the rest."""
    many = {f"a/{'long' * 20}{number}": "x" for number in range(1500)}
    wheel = build_wheel(tmp_path, "a", "1", files=many)
    assert make_files().size(server.listed(wheel), unpacked=True).unpacked == inside(wheel)
    assert len(server.requests) == 2


def test_what_the_index_says_is_not_asked_for(server: Any, make_files: Any, wheel: Path) -> None:
    """A size that is listed costs no request."""
    found = make_files().size(server.listed(wheel, size=wheel.stat().st_size))
    assert found == FileSize(wheel.stat().st_size)
    assert server.requests == []


def test_remembered(server: Any, make_files: Any, wheel: Path, tmp_path: Path) -> None:
    """What has one hash never changes its size."""
    entry = server.listed(wheel)
    first = make_files(Store(tmp_path / "cache")).size(entry, unpacked=True)
    assert make_files(Store(tmp_path / "cache")).size(entry, unpacked=True) == first
    assert len(server.requests) == 1


def test_kept(server: Any, make_files: Any, wheel: Path, tmp_path: Path) -> None:
    """A wheel in the cache is not fetched again, and is looked into there."""
    files = make_files(Store(tmp_path / "cache"))
    entry = server.listed(wheel)
    files.download(entry, tmp_path)
    found = files.size(entry, unpacked=True)
    assert found == FileSize(wheel.stat().st_size, inside(wheel), is_on_disk=True)
    assert found.download == 0
    assert files.size(entry) == FileSize(wheel.stat().st_size, is_on_disk=True)
    assert len(server.requests) == 1


def test_a_kept_wheel_is_looked_into_once(
    server: Any, make_files: Any, wheel: Path, tmp_path: Path
) -> None:
    """What was seen in a kept wheel is remembered, for its hash says that it stays the same."""
    store = Store(tmp_path / "cache")
    files, entry = make_files(store), server.listed(wheel)
    files.download(entry, tmp_path)
    first = files.size(entry, unpacked=True)
    kept = store.wheel(entry.hashes["sha256"])
    assert kept is not None
    kept.write_bytes(b"what nobody looks into")
    assert files.size(entry, unpacked=True) == first


def test_without_ranges(server: Any, make_files: Any, wheel: Path) -> None:
    """The head of an answer tells the size of the file; no body is read for what is inside."""
    files = make_files()
    entry = server.listed(wheel, ranges=False)
    found = files.size(entry, unpacked=True)
    assert (found.file, found.unpacked) == (wheel.stat().st_size, None)
    assert found.why_unknown == "the server does not support byte ranges"
    assert files.size(entry) == FileSize(wheel.stat().st_size)
    with_size = File(entry.filename, entry.url, entry.hashes, size=7)
    asked = len(server.requests)
    assert files.size(with_size, unpacked=True).file == 7
    assert len(server.requests) == asked


def test_nobody_says_it(server: Any, make_files: Any, wheel: Path) -> None:
    """An answer that announces no length leaves the size unknown, with the reason."""
    found = make_files().size(server.listed(wheel, ranges=False, chunked=True))
    assert found.file is None
    assert found.download is None
    assert found.why_unknown


@pytest.mark.parametrize("unpacked", [False, True])
def test_not_there(server: Any, make_files: Any, unpacked: bool) -> None:  # noqa: FBT001
    """A file that cannot be had has no known size; that is an answer and no error."""
    entry = File("a-1-py3-none-any.whl", f"{server.url}/nowhere")
    found = make_files().size(entry, unpacked=unpacked)
    assert (found.file, found.unpacked) == (None, None)
    assert "404" in found.why_unknown


def test_not_there_without_ranges(server: Any, make_files: Any, wheel: Path) -> None:
    """The length of a page that says so is not the size of the file."""
    files = make_files()
    files.size(server.listed(wheel, ranges=False))
    found = files.size(File("a-1-py3-none-any.whl", f"{server.url}/nowhere"))
    assert found.file is None
    assert "404" in found.why_unknown


def test_offline(server: Any, make_files: Any, wheel: Path) -> None:
    """Nobody is asked."""
    found = make_files(offline=True).size(server.listed(wheel), unpacked=True)
    assert found.file is None
    assert found.why_unknown
    assert server.requests == []


def test_a_damaged_wheel(server: Any, make_files: Any, tmp_path: Path) -> None:
    """What is not an archive has a size and nothing known inside, here as there."""
    path = tmp_path / "a-1-py3-none-any.whl"
    path.write_bytes(b"no archive" * 50)
    remote = make_files().size(server.listed(path, size=500), unpacked=True)
    local = LocalFiles().size(File(path.name, path.as_uri()), unpacked=True)
    assert (remote.file, remote.unpacked) == (local.file, local.unpacked) == (500, None)
    assert remote.why_unknown == local.why_unknown


def test_local(wheel: Path) -> None:
    """A wheel in a folder is never fetched."""
    found = LocalFiles().size(File(wheel.name, wheel.as_uri()), unpacked=True)
    assert found == FileSize(wheel.stat().st_size, inside(wheel), is_on_disk=True)
    missing = LocalFiles().size(File(wheel.name, (wheel.parent / "other").as_uri()))
    assert missing.file is None
    assert missing.why_unknown


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("left", [0, -1])
def test_a_bound_holds_whatever_is_told(
    server: Any,
    make_pages: Any,
    wheel: Path,
    tmp_path: Path,
    told: bool,  # noqa: FBT001
    left: int,
) -> None:
    """Before the request where the size is known, else while the bytes come; the cache is free."""
    size = wheel.stat().st_size
    file = server.listed(wheel, ranges=False, chunked=True, size=size if told else None)
    store = Store(tmp_path / "cache")
    files = RemoteFiles(make_pages(store=store), store, max_download=size + left)
    folder = tmp_path / "here"
    folder.mkdir()
    if left:
        with pytest.raises(TooLarge, match="--max-download"):
            files.download(file, folder)
        assert len(server.requests) == (0 if told else 1)
        assert not list(folder.iterdir())
        return
    for _ in range(2):  # the second time from the cache
        assert files.download(file, folder).read_bytes() == wheel.read_bytes()
    another = build_wheel(tmp_path / "upload", "b", "1")
    asked = len(server.requests)
    with pytest.raises(TooLarge, match="--max-download"):
        files.download(server.listed(another, ranges=False, size=size if told else None), folder)
    assert len(server.requests) == asked + (not told)


@pytest.mark.parametrize("size", [None, 5], ids=["unknown", "known"])
def test_source_distributions(tmp_path: Path, size: int | None) -> None:
    """One of an index is downloaded, also where the index states no size; a local one is not."""
    unused: Any = None
    builder = WheelBuilder(
        FakeRepository(), unused, unused, BuildPolicy(), environ={}, scratch=unused
    )

    def download(url: str) -> int | None:
        origin = WheelOrigin("a-1.tar.gz")
        return builder.size(File("a-1-py3-none-any.whl", url, size=size, origin=origin)).download

    assert download("https://index.example/a-1.tar.gz") == size
    assert download((tmp_path / "a-1.tar.gz").as_uri()) == 0
