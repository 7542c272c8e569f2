"""A large wheel is unpacked while it arrives, and counts only when all of it is right."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from wheelfit.errors import TooLarge
from wheelfit.sources.cache import Store
from wheelfit.sources.page import File
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit.sources.remote_files import RemoteFiles
from wheelfit.sources.segmented_download import MIN_SIZE
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import HashMismatch, InvalidWheel, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from wheelfit.sources.cached_pages import CachedPages

NAME = "big-1.0-py3-none-any.whl"
DATA = os.urandom(MIN_SIZE + 123_456)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel that is worth the effort."""
    folder = tmp_path_factory.mktemp("wheels")
    build_wheel(folder, "big", "1.0", files={"big/data.bin": DATA, "big/__init__.py": b""})
    return folder


@pytest.fixture
def index(wheels: Path) -> Iterator[RecordingIndex]:
    """Serve it."""
    with RecordingIndex(wheels) as index:
        yield index


@pytest.fixture
def described(index: RecordingIndex, wheels: Path) -> File:
    """Describe it as an index does."""
    body = (wheels / NAME).read_bytes()
    hashes = {"sha256": hashlib.sha256(body).hexdigest()}
    return File(NAME, index.file_url(NAME), source="x", hashes=hashes, size=len(body))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder for what no cache keeps."""
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


@pytest.fixture
def make_files(make_pages: Callable[..., CachedPages], tmp_path: Path) -> Callable[..., Any]:
    """Give a function that opens files with a cache, or without one."""

    def make(*, cache: bool = True, **options: Any) -> RemoteFiles:
        store = Store(tmp_path / "cache" if cache else None)
        return RemoteFiles(make_pages(store=store), store, **options)

    return make


def left(folder: Path) -> list[str]:
    """Return the files below a folder."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


def ranges(index: RecordingIndex) -> list[str | None]:
    """Return which parts were asked for."""
    return [request.headers.get("range") for request in index.requests_for(NAME)]


@pytest.mark.parametrize("cache", [True, False])
def test_in_parts(
    index: RecordingIndex, described: File, folder: Path, make_files: Any, *, cache: bool
) -> None:
    """It comes in parts, its files are right, and no temporary file is left."""
    wheel = make_files(cache=cache).unpacked(described, folder)
    assert wheel.read("big/data.bin") == DATA
    assert wheel.sha256 == described.hashes["sha256"]
    assert None not in ranges(index)
    assert index.bytes_sent(NAME) == described.size
    assert (left(folder) == []) is cache
    assert not [path for path in left(folder.parent) if path.endswith(".part")]


def test_kept(index: RecordingIndex, described: File, folder: Path, make_files: Any) -> None:
    """Both its files and the archive are kept: nothing is fetched again."""
    make_files().unpacked(described, folder)
    index.clear_requests()
    assert make_files().unpacked(described, folder).read("big/data.bin") == DATA
    assert make_files().download(described, folder).stat().st_size == described.size
    assert not index.requests


def test_read_while_it_arrives(described: File, folder: Path, make_files: Any) -> None:
    """The directory of the archive is read before the first part has come."""
    told = threading.Event()

    class Waiting(Progress):
        """Let nothing but the end of the file come before unpacking has begun."""

        count = 0

        def advance(self, count: int) -> None:
            """Wait."""
            self.count += count
            if self.count > 1 << 20:
                assert told.wait(20)

        def unpacking(self, total: int) -> Any:
            """Go on."""
            assert total > len(DATA)
            told.set()
            return NO_PROGRESS

    assert make_files().unpacked(described, folder, Waiting()).read("big/data.bin") == DATA


@pytest.mark.parametrize("cache", [True, False])
def test_wrong_hash(described: File, folder: Path, make_files: Any, *, cache: bool) -> None:
    """What was unpacked of a wrong archive is gone, however sound it was."""
    wrong = replace(described, hashes={"sha256": "0" * 64})
    with pytest.raises(HashMismatch):
        make_files(cache=cache).unpacked(wrong, folder)
    assert [path for path in left(folder.parent) if not path.endswith("CACHEDIR.TAG")] == []


def test_wrong_second_hash(described: File, folder: Path, make_files: Any) -> None:
    """Every hash that was promised counts."""
    wrong = replace(described, hashes={**described.hashes, "md5": "0" * 32})
    with pytest.raises(HashMismatch):
        make_files().unpacked(wrong, folder)
    assert [path for path in left(folder.parent) if not path.endswith("CACHEDIR.TAG")] == []


@pytest.mark.parametrize("spoil", [b"PK\x05\x06", b"RECORD", b"big/data.bin,sha256="])
def test_unsound(tmp_path: Path, wheels: Path, folder: Path, make_files: Any, spoil: bytes) -> None:
    """A wheel that is not sound is an error, though its hash is right; nothing of it is kept."""
    body = (wheels / NAME).read_bytes()
    position = body.rindex(spoil) if spoil in body else len(body) // 2
    bad = body[:position] + bytes([body[position] ^ 1]) + body[position + 1 :]
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / NAME).write_bytes(bad)
    with RecordingIndex(tmp_path / "bad") as index:
        hashes = {"sha256": hashlib.sha256(bad).hexdigest()}
        file = File(NAME, index.file_url(NAME), source="x", hashes=hashes, size=len(bad))
        with pytest.raises(InvalidWheel):
            make_files().unpacked(file, folder)
    kept = left(tmp_path / "cache")
    assert [path for path in kept if not path.endswith("CACHEDIR.TAG")] == []
    assert left(folder) == []


@pytest.mark.parametrize("fault", ["restless_etag", "no_ranges", "truncate", "no_size", "reset"])
def test_difficult_servers(
    index: RecordingIndex, described: File, folder: Path, make_files: Any, fault: str
) -> None:
    """Servers that change their mind, know no ranges or break off give the right wheel."""
    file = described
    match fault:
        case "restless_etag":
            index.faults.changing_etag = True
        case "no_ranges":
            index.faults.ranges = False
        case "truncate":
            index.faults.truncate[NAME] = 3 << 20
        case "no_size":
            file = replace(described, size=None)
        case "reset":
            index.faults.resets[NAME] = 2
    assert make_files().unpacked(file, folder).read("big/data.bin") == DATA


def test_no_ranges_is_remembered(
    index: RecordingIndex, described: File, folder: Path, make_files: Any
) -> None:
    """A server without ranges is asked for some only once."""
    index.faults.ranges = False
    files = make_files(cache=False)
    files.unpacked(described, folder)
    files.unpacked(described, folder)
    assert len(ranges(index)) == 3


def test_logins_stay_where_they_belong(
    index: RecordingIndex,
    described: File,
    wheels: Path,
    folder: Path,
    make_client: Any,
    make_pages: Any,
) -> None:
    """A host to which parts are redirected is not told the login."""
    store = Store(None)
    with RecordingIndex(wheels) as first:
        first.faults.login = ("me", "secret")
        first.faults.redirect[NAME] = described.url
        client = make_client(first.url_with_login("me", "secret"))
        files = RemoteFiles(make_pages(store=store, client=client), store)
        file = replace(described, url=first.file_url(NAME))
        assert files.unpacked(file, folder).read("big/data.bin") == DATA
        assert all("authorization" in request.headers for request in first.requests[1:])
    assert len(index.requests) > 1
    assert not any("authorization" in request.headers for request in index.requests)


def test_full_cache(described: File, folder: Path, make_files: Any, tmp_path: Path) -> None:
    """Where the cache cannot be written, it lies in the folder."""
    (tmp_path / "cache").write_text("a file where a folder should be")
    wheel = make_files().unpacked(described, folder)
    assert wheel.path_of("big/data.bin").is_relative_to(folder)
    assert wheel.read("big/data.bin") == DATA


def test_budget(index: RecordingIndex, described: File, folder: Path, make_files: Any) -> None:
    """More than is allowed is not fetched."""
    with pytest.raises(TooLarge):
        make_files(max_download=MIN_SIZE).unpacked(described, folder)
    assert not index.requests


def test_the_same_at_once(described: File, folder: Path, make_files: Any) -> None:
    """Several may fetch the same wheel into the same cache at the same time."""
    files = make_files()
    results: list[bytes | WheelfitError] = []

    def fetch() -> None:
        try:
            results.append(files.unpacked(described, folder).read("big/data.bin"))
        except WheelfitError as error:
            results.append(error)

    threads = [threading.Thread(target=fetch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [DATA] * 3
