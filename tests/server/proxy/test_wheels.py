"""Wheels that the proxy rewrites or sends."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server.proxy.behind import CUDA, LINUX_TAG, PIP, Behind, body, release

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.server.messages import Disconnect
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel
from wheelfit.wheels.archive import WheelArchive

NEEDS = ('gpu-lib; "nvidia" in variant_namespaces', "both")
LARGE: dict[str, bytes | str] = {
    "some/__init__.py": "",
    "some/data.bin": b"".join(hashlib.sha256(str(n).encode()).digest() for n in range(12000)),
}
WHEEL = f"some-1.0-{LINUX_TAG}-cu129.whl"


@pytest.fixture
def index(folder: Path, index: RecordingIndex) -> RecordingIndex:
    """Serve a release whose dependencies differ by variant."""
    release(folder, "some", {"cu129": [LINUX_TAG]}, requires=NEEDS, files=LARGE)
    build_wheel(folder, "plain", "1")
    return index


@pytest.fixture
def behind(index: RecordingIndex, tmp_path: Path) -> Iterator[Behind]:
    """Give a proxy with a cache."""
    with Behind(index.url, supported={"nvidia": CUDA}, cache=tmp_path / "cache") as behind:
        yield behind


def listed(behind: Behind) -> Any:
    """Return the single file of the page."""
    (file,) = behind.page("some", PIP).values()
    return file


def test_rewritten_wheel(behind: Behind) -> None:
    """The wheel is valid, matches its METADATA file, and has the announced length."""
    file = listed(behind)
    path = behind.path_of(file)
    data = body(behind.ask(path))
    with WheelArchive(io.BytesIO(data), parse_wheel_filename(file["filename"])) as archive:
        archive.verify()
        metadata = archive.metadata()
    assert metadata == body(behind.ask(f"{path}.metadata"))
    assert b"Requires-Dist: gpu-lib\n" in metadata
    assert hashlib.sha256(metadata).hexdigest() == file["core-metadata"]["sha256"]


def test_head_and_ranges(behind: Behind) -> None:
    """HEAD has the length, ranges are parts of the file, and the URL is stable."""
    path = behind.path_of(listed(behind))
    head = behind.ask(path, method="HEAD")
    whole = body(behind.ask(path))
    assert (head.status, head.length) == (200, len(whole))
    assert "immutable" in head.headers["cache-control"]
    for start, stop in ((0, 10), (100, 300000), (len(whole) - 500, len(whole))):
        part = behind.ask(path, {"range": f"bytes={start}-{stop - 1}"})
        assert part.status == 206
        assert body(part) == whole[start:stop]


def test_hash_after_the_first_transfer(
    behind: Behind, index: RecordingIndex, tmp_path: Path
) -> None:
    """After a complete transfer pages have the hash, also in later processes."""
    first = listed(behind)
    assert first["hashes"] == {}
    whole = body(behind.ask(behind.path_of(first)))
    digest = {"sha256": hashlib.sha256(whole).hexdigest()}
    assert listed(behind)["hashes"] == digest
    with Behind(index.url, supported={"nvidia": CUDA}, cache=tmp_path / "cache") as later:
        assert listed(later)["hashes"] == digest


def test_partial_transfer(behind: Behind) -> None:
    """A partial transfer gives no hash."""
    path = behind.path_of(listed(behind))
    body(behind.ask(path, {"range": "bytes=10-"}))
    assert listed(behind)["hashes"] == {}


def test_wrong_hash(behind: Behind, index: RecordingIndex) -> None:
    """The original's hash is checked before the end is sent."""
    index.faults.wrong_hash.add(WHEEL)
    answer = behind.ask(behind.path_of(listed(behind)))
    pieces: list[bytes] = []
    with pytest.raises(Disconnect):
        pieces.extend(answer.body)
    assert sum(map(len, pieces)) < answer.length
    assert listed(behind)["hashes"] == {}


def test_interrupted_transfer(behind: Behind, index: RecordingIndex) -> None:
    """A broken connection to the index is resumed for the client."""
    path = behind.path_of(listed(behind))
    behind.ask(path, method="HEAD")
    index.faults.truncate[WHEEL] = 200_000
    answer = behind.ask(path)
    data = b"".join(answer.body)
    assert len(data) == answer.length


def test_server_without_ranges(index: RecordingIndex) -> None:
    """Without ranges the wheel is downloaded once, to a temporary file."""
    index.faults.ranges = False
    with Behind(index.url, supported={"nvidia": CUDA}) as behind:
        path = behind.path_of(listed(behind))
        for _ in range(2):
            data = body(behind.ask(path))
            with WheelArchive(io.BytesIO(data), parse_wheel_filename(WHEEL)) as archive:
                archive.verify()
        assert len(index.requests_for(WHEEL)) <= 3


def test_wrong_keys(behind: Behind) -> None:
    """A wrong key in the URL is a 404."""
    file = listed(behind)
    path = behind.path_of(file)
    _, files, project, key, name = path.split("/")
    fingerprint, digest = key.split("-")
    wrong_keys = ("0" * 16, f"{'0' * 16}-{digest}", f"{fingerprint}-{'0' * 64}", "..%2fx", key[:-1])
    for wrong in wrong_keys:
        assert behind.ask(f"/{files}/{project}/{wrong}/{name}").status == 404
    for other in ("x.whl", "some-1.0-9_cu129-py3-none-any.whl", "..%2f..%2fetc%2fpasswd"):
        assert behind.ask(f"/{files}/{project}/{key}/{other}").status == 404


def test_index_with_credentials(index: RecordingIndex) -> None:
    """Files of an index with credentials are sent by the proxy."""
    index.faults.login = ("me", "secret")
    with Behind(
        index.url_with_login("me", "secret"), supported={"nvidia": CUDA}, mode="full"
    ) as behind:
        for name in ("some", "plain"):
            answer = behind.ask(f"/simple/{name}/", PIP)
            assert b"secret" not in body(answer)
            for file in behind.page(name, PIP).values():
                sent = behind.ask(behind.path_of(file))
                assert sent.status == 200
                assert "location" not in sent.headers
                assert body(sent)


def test_cached_wheel(index: RecordingIndex, tmp_path: Path) -> None:
    """A cached wheel is not downloaded again."""
    with Behind(index.url, supported={"nvidia": CUDA}, cache=tmp_path / "cache") as behind:
        (upstream,) = behind.webs
        release_page = behind.page("some", PIP)
        data = (tmp_path / "index" / WHEEL).read_bytes()
        with upstream.store.new_wheel() as temporary:
            assert temporary is not None
            temporary[0].write(data)
            temporary[0].flush()
            upstream.store.keep_wheel(temporary[1], hashlib.sha256(data).hexdigest())
        index.clear_requests()
        (file,) = release_page.values()
        assert body(behind.ask(behind.path_of(file)))
        assert index.requests_for(WHEEL) == []
