"""The index that counts and misbehaves."""

from __future__ import annotations

import base64
import http.client
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from wheelfit.testing.index import Faults, RecordingIndex
from wheelfit.testing.wheels import build_wheel

JSON = "application/vnd.pypi.simple.v1+json"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Build a wheel of some size."""
    noise = random.Random(1).randbytes(10_000)
    return build_wheel(tmp_path, "some", "1.0", files={"some.bin": noise})


@pytest.fixture
def index(wheel: Path) -> Iterator[RecordingIndex]:
    """Serve it."""
    with RecordingIndex(wheel.parent) as index:
        yield index


def get(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body."""
    request = Request(url, headers=headers)
    try:
        with urlopen(request, timeout=10) as response:
            return response.status, dict(response.headers), response.read()
    except HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def entry(index: RecordingIndex) -> dict[str, object]:
    """Return the only entry of the page."""
    (file,) = json.loads(get(f"{index.url}some/", Accept=JSON)[2])["files"]
    assert isinstance(file, dict)
    return file


def test_counting(index: RecordingIndex, wheel: Path) -> None:
    """Every request is there, with status and bytes of the body."""
    get(index.file_url(wheel.name))
    get(index.file_url(wheel.name), Range="bytes=0-99")
    get(f"{index.url}nothing/")
    assert [(request.path, request.status) for request in index.requests] == [
        (f"/files/{wheel.name}", 200),
        (f"/files/{wheel.name}", 206),
        ("/simple/nothing/", 404),
    ]
    assert index.bytes_sent(wheel.name) == wheel.stat().st_size + 100
    assert index.requests_for(wheel.name)[1].headers["range"] == "bytes=0-99"
    index.clear_requests()
    assert index.bytes_sent() == 0


def test_no_ranges(index: RecordingIndex, wheel: Path) -> None:
    """Without ranges the whole comes, and none are offered."""
    index.faults.ranges = False
    status, headers, body = get(index.file_url(wheel.name), Range="bytes=0-9")
    assert (status, body) == (200, wheel.read_bytes())
    assert "accept-ranges" not in {name.lower() for name in headers}


def test_no_metadata(index: RecordingIndex, wheel: Path) -> None:
    """Without PEP 658 neither the page nor the file knows of it."""
    assert "core-metadata" in entry(index)
    index.faults.metadata = False
    assert "core-metadata" not in entry(index)
    assert get(index.file_url(f"{wheel.name}.metadata"))[0] == 404


def test_page_entries(index: RecordingIndex, wheel: Path) -> None:
    """Wrong hashes, no hashes, no sizes and yanking show on the page only."""
    index.faults.wrong_hash.add(wheel.name)
    index.faults.wrong_metadata_hash.add(wheel.name)
    index.faults.yanked[wheel.name] = "bad"
    index.faults.sizes = False
    found = entry(index)
    assert found["hashes"] == {"sha256": "0" * 64}
    assert found["core-metadata"] == {"sha256": "0" * 64}
    assert found["yanked"] == "bad"
    assert "size" not in found
    index.faults.hashes = False
    assert entry(index)["hashes"] == {}
    assert get(index.file_url(wheel.name))[2] == wheel.read_bytes()


def test_html_only(index: RecordingIndex) -> None:
    """Who asks for JSON gets HTML."""
    index.faults.html_only = True
    _, headers, _ = get(f"{index.url}some/", Accept=JSON)
    assert headers["content-type"].startswith("text/html")


def test_status(index: RecordingIndex, wheel: Path) -> None:
    """A status for a file leaves the others alone; one for everything does not."""
    index.faults.status[wheel.name] = 503
    assert get(index.file_url(wheel.name))[0] == 503
    assert get(f"{index.url}some/")[0] == 200
    index.faults.status["*"] = 500
    assert get(f"{index.url}some/")[0] == 500
    index.faults.status["/simple/"] = 404
    assert get(f"{index.url}some/")[0] == 404


def test_content(index: RecordingIndex, wheel: Path) -> None:
    """Other bytes can be sent than lie there."""
    index.faults.content[wheel.name] = b"other"
    assert get(index.file_url(wheel.name))[2] == b"other"


def test_truncation(index: RecordingIndex, wheel: Path) -> None:
    """The connection is cut after so many bytes, and only those are counted."""
    index.faults.truncate[wheel.name] = 1000
    with pytest.raises(http.client.IncompleteRead) as excinfo:
        get(index.file_url(wheel.name))
    assert excinfo.value.partial == wheel.read_bytes()[:1000]
    assert index.bytes_sent(wheel.name) == 1000


def test_slowness(index: RecordingIndex, wheel: Path) -> None:
    """An answer can be late, and can trickle."""
    index.faults.delay[wheel.name] = 0.2
    start = time.monotonic()
    get(index.file_url(wheel.name))
    assert time.monotonic() - start >= 0.2
    index.faults.delay.clear()
    index.faults.trickle[wheel.name] = 0.05
    start = time.monotonic()
    assert get(index.file_url(wheel.name), Range="bytes=0-3999")[2] == wheel.read_bytes()[:4000]
    assert time.monotonic() - start >= 0.15


def test_resets(index: RecordingIndex, wheel: Path) -> None:
    """The connection breaks so many times, and then it works."""
    index.faults.resets[wheel.name] = 2
    for _ in range(2):
        with pytest.raises(OSError, match=r"."):
            get(index.file_url(wheel.name))
    assert get(index.file_url(wheel.name))[0] == 200
    assert [request.status for request in index.requests] == [0, 0, 200]


def test_login(index: RecordingIndex) -> None:
    """Without the right login there is nothing."""
    index.faults.login = ("user", "secret")
    status, headers, _ = get(index.url)
    assert status == 401
    assert headers["www-authenticate"].startswith("Basic")
    token = base64.b64encode(b"user:secret").decode()
    assert get(index.url, Authorization=f"Basic {token}")[0] == 200
    assert index.url_with_login("user", "secret").startswith("http://user:secret@127.0.0.1:")


def test_redirects(wheel: Path, tmp_path: Path) -> None:
    """One file, or everything below a folder, can be elsewhere."""
    other_wheel = build_wheel(tmp_path / "other", "some", "1.0")
    with RecordingIndex(other_wheel.parent) as other, RecordingIndex(wheel.parent) as index:
        index.faults.redirect["/files/"] = f"{other.origin}/files/"
        assert get(index.file_url(wheel.name))[2] == other_wheel.read_bytes()
        assert other.requests_for(other_wheel.name)
        index.faults.redirect = {wheel.name: other.url}
        assert b"some" in get(index.file_url(wheel.name))[2]


def test_restless_etag(index: RecordingIndex, wheel: Path) -> None:
    """Every answer looks like another state of the file."""
    index.faults.changing_etag = True
    tags = {get(index.file_url(wheel.name))[1]["etag"] for _ in range(3)}
    assert len(tags) == 3


def test_faults_to_begin_with(wheel: Path) -> None:
    """An index can be broken from the start."""
    with RecordingIndex(wheel.parent, faults=Faults(status={"*": 418})) as index:
        assert get(index.url)[0] == 418
