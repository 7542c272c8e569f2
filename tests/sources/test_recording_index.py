"""The whole of sources against the index that wheelfit itself serves."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from packaging.utils import canonicalize_name

from wheelfit.sources.open import open_sources
from wheelfit.sources.repository import TooCostly
from wheelfit.sources.settings import SourceSettings
from wheelfit.testing.index import Faults, RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.errors import HashMismatch, UnexpectedStatus, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from wheelfit.sources.memoized import MemoizedRepository
    from wheelfit.sources.page import File

A = canonicalize_name("a")
PLAIN = "a-1.0-py3-none-any.whl"
VARIANT = "a-1.0-py3-none-any-v.whl"
INDEX_FILE = "a-1.0-variants.json"
DOCUMENT = release_document({"v": {"n": {"f": ["1"]}}}, static={"n": {"f": ["1"]}})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder of wheels, one of them large."""
    folder = tmp_path_factory.mktemp("wheels")
    large = {"a/data": os.urandom(2_000_000).hex()}
    build_wheel(folder, "a", "1.0", requires=["b"], requires_python=">=3.8")
    build_wheel(folder, "a", "1.0", label="v", document=DOCUMENT, requires=["b"], files=large)
    (folder / INDEX_FILE).write_text(json.dumps(DOCUMENT))
    return folder


@pytest.fixture(params=["json", "html"])
def index(request: pytest.FixtureRequest, folder: Path) -> Iterator[RecordingIndex]:
    """Serve them, with pages of either form."""
    with RecordingIndex(folder, faults=Faults(html_only=request.param == "html")) as index:
        yield index


@pytest.fixture
def opened(index: RecordingIndex, tmp_path: Path) -> Iterator[Callable[..., MemoizedRepository]]:
    """Give a function that opens the index, each time as in a new run."""
    made: list[MemoizedRepository] = []

    def make(**options: Any) -> MemoizedRepository:
        settings = SourceSettings(
            index_url=options.pop("url", index.url),
            retries=1,
            resume_retries=1,
            keyring="disabled",
            timeout=10.0,
        )
        kept = {"cache_folder": tmp_path / "cache", "environ": {}, "home": tmp_path, **options}
        made.append(open_sources(settings, **kept))
        return made[-1]

    yield make
    for sources in made:
        sources.close()


def listed(sources: MemoizedRepository) -> dict[str, File]:
    """Return the files of the project by name."""
    page = sources.project(A)
    assert page is not None
    return {file.filename: file for file in page.files}


def test_a_run(index: RecordingIndex, opened: Any, folder: Path, tmp_path: Path) -> None:
    """The page lists everything; metadata, index file and wheel are read and checked."""
    sources = opened()
    files = listed(sources)
    assert set(files) == {PLAIN, VARIANT, INDEX_FILE}
    assert files[PLAIN].requires_python == ">=3.8"
    assert files[INDEX_FILE].requires_python is None
    assert b"Requires-Dist: b" in sources.metadata(files[VARIANT])
    assert b'"v"' in sources.read(files[INDEX_FILE])
    path = sources.download(files[VARIANT], tmp_path)
    assert path.read_bytes() == (folder / VARIANT).read_bytes()
    assert index.bytes_sent(VARIANT) == path.stat().st_size


def test_second_run(index: RecordingIndex, opened: Any, tmp_path: Path) -> None:
    """A second run asks for the page only, at the cost of no bytes of it."""
    for _ in range(2):
        index.clear_requests()
        sources = opened()
        files = listed(sources)
        sources.metadata(files[VARIANT])
        sources.read(files[INDEX_FILE])
        sources.download(files[VARIANT], tmp_path)
    assert [(request.path, request.status) for request in index.requests] == [("/simple/a/", 304)]
    assert index.bytes_sent() == 0


def test_large_wheel_costs_little(index: RecordingIndex, opened: Any) -> None:
    """F-77: METADATA and variant.json of a wheel of 4 MB cost one request and 64 KiB."""
    index.faults.metadata = False
    sources = opened()
    file = listed(sources)[VARIANT]
    assert sources.variant_document(file) is not None
    sources.metadata(file)
    assert len(index.requests_for(VARIANT)) == 1
    assert index.bytes_sent(VARIANT) <= 64 << 10


def test_no_ranges(index: RecordingIndex, opened: Any, tmp_path: Path) -> None:
    """F-77: without ranges no document is read, and METADATA costs the wheel, once."""
    index.faults.ranges = index.faults.metadata = False
    sources = opened()
    file = listed(sources)[VARIANT]
    with pytest.raises(TooCostly):
        sources.variant_document(file)
    assert b"Requires-Dist: b" in sources.metadata(file)
    size = sources.download(file, tmp_path).stat().st_size
    # What was sent of the first, refused answer is bounded by the buffers on the way.
    assert size <= index.bytes_sent(VARIANT) <= 2 * size
    assert len(index.requests_for(VARIANT)) == 2


@pytest.mark.parametrize("name", [INDEX_FILE, VARIANT])
def test_wrong_hash(index: RecordingIndex, opened: Any, tmp_path: Path, name: str) -> None:
    """F-79: bytes that are not the promised ones are never given out or kept."""
    index.faults.wrong_hash.add(name)
    for _ in range(2):
        sources = opened()
        file = listed(sources)[name]
        with pytest.raises(HashMismatch) as excinfo:
            sources.read(file) if name == INDEX_FILE else sources.download(file, tmp_path)
        assert excinfo.value.exit_code == 4
    assert not (tmp_path / name).exists()
    assert not list((tmp_path / "cache").rglob("*.part"))


def test_wrong_metadata_hash(index: RecordingIndex, opened: Any) -> None:
    """PEP 658: metadata that is not the promised one is an error."""
    index.faults.wrong_metadata_hash.add(PLAIN)
    sources = opened()
    with pytest.raises(HashMismatch):
        sources.metadata(listed(sources)[PLAIN])


def test_truncated_wheel(index: RecordingIndex, opened: Any, tmp_path: Path) -> None:
    """A wheel that always breaks off at the same place is given up; nothing is left."""
    index.faults.truncate[VARIANT] = 0
    sources = opened()
    file = listed(sources)[VARIANT]
    with pytest.raises(Unreachable):
        sources.download(file, tmp_path)
    assert not (tmp_path / VARIANT).exists()


def test_broken_download_goes_on(
    index: RecordingIndex, opened: Any, folder: Path, tmp_path: Path
) -> None:
    """A wheel that breaks off now and then arrives in parts, none of them twice."""
    index.faults.truncate[VARIANT] = 1_000_000
    sources = opened()
    file = listed(sources)[VARIANT]
    path = sources.download(file, tmp_path)
    assert path.read_bytes() == (folder / VARIANT).read_bytes()
    assert [request.status for request in index.requests_for(VARIANT)] == [200, 206, 206]
    assert index.bytes_sent(VARIANT) == path.stat().st_size


def test_restless_etag(index: RecordingIndex, opened: Any, tmp_path: Path) -> None:
    """Halves of what the server calls two files are not joined, and it is given up in time."""
    index.faults.changing_etag = True
    index.faults.truncate[VARIANT] = 1_000_000
    sources = opened()
    file = listed(sources)[VARIANT]
    with pytest.raises(Unreachable):
        sources.download(file, tmp_path)
    assert {request.status for request in index.requests_for(VARIANT)} == {200}
    assert len(index.requests_for(VARIANT)) == 2


def test_resets(index: RecordingIndex, opened: Any) -> None:
    """A connection that is reset once is tried again."""
    index.faults.resets["/simple/a/"] = 1
    assert PLAIN in listed(opened())


def test_login(index: RecordingIndex, opened: Any, tmp_path: Path) -> None:
    """A login in the URL opens everything; without it the error says what is missing."""
    index.faults.login = ("me", "s/e:c ret")
    with pytest.raises(UnexpectedStatus, match="401"):
        opened().project(A)
    sources = opened(url=index.url_with_login("me", "s%2Fe%3Ac%20ret"))
    files = listed(sources)
    assert sources.download(files[PLAIN], tmp_path).is_file()
    assert "c%20ret" not in repr(files) + sources.name


def test_login_is_not_told_to_another_port(
    index: RecordingIndex, folder: Path, opened: Any
) -> None:
    """A redirect to another port of the same machine learns nothing."""
    with RecordingIndex(folder) as other:
        index.faults.redirect["/simple/"] = f"{other.origin}/simple/"
        listed(opened(url=index.url_with_login("me", "secret")))
        assert all("authorization" in request.headers for request in index.requests)
        assert other.requests
        assert not any("authorization" in request.headers for request in other.requests)


def test_cache_does_not_tell(index: RecordingIndex, opened: Any, tmp_path: Path) -> None:
    """Nothing that is kept contains a password."""
    index.faults.login = ("me", "secret")
    sources = opened(url=index.url_with_login("me", "secret"))
    files = listed(sources)
    sources.metadata(files[PLAIN])
    sources.read(files[INDEX_FILE])
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert kept
    assert not any(b"secret" in path.read_bytes() for path in kept)


def test_server_error(index: RecordingIndex, opened: Any) -> None:
    """A server that fails is an error after some tries, not an unknown project."""
    index.faults.status["/simple/a/"] = 503
    with pytest.raises(UnexpectedStatus) as excinfo:
        opened().project(A)
    assert excinfo.value.exit_code == 5
    assert len(index.requests) == 2
