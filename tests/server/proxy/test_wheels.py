"""Wheels that the proxy rewrites while they pass, or sends itself."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server.proxy.behind import PIP, Behind, body
from server.proxy.test_pages import CUDA, LINUX_TAG, release

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
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a release that needs what depends on its build."""
    folder = tmp_path / "index"
    folder.mkdir()
    release(folder, "some", {"cu129": [LINUX_TAG]}, requires=NEEDS, files=LARGE)
    build_wheel(folder, "plain", "1")
    with RecordingIndex(folder) as index:
        yield index


@pytest.fixture
def behind(index: RecordingIndex, tmp_path: Path) -> Iterator[Behind]:
    """Give a proxy with a cache."""
    behind = Behind(index.url, supported={"nvidia": CUDA}, cache=tmp_path / "cache")
    yield behind
    behind.close()


def listed(behind: Behind) -> Any:
    """Return the one file of the page."""
    (file,) = behind.page("some", PIP).values()
    return file


def test_the_wheel_is_sound_and_fits_its_metadata(behind: Behind) -> None:
    """Wheel and METADATA beside it say the same, RECORD verifies, and the length is exact."""
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
    """HEAD tells the length, ranges are parts of the whole, and the URL never changes."""
    path = behind.path_of(listed(behind))
    head = behind.ask(path, method="HEAD")
    whole = body(behind.ask(path))
    assert (head.status, head.length) == (200, len(whole))
    assert "immutable" in head.headers["cache-control"]
    for start, stop in ((0, 10), (100, 300000), (len(whole) - 500, len(whole))):
        part = behind.ask(path, {"range": f"bytes={start}-{stop - 1}"})
        assert part.status == 206
        assert body(part) == whole[start:stop]


def test_the_hash_is_learnt_while_sending(
    behind: Behind, index: RecordingIndex, tmp_path: Path
) -> None:
    """R7: after the whole was sent once, pages promise its hash, those of later processes too."""
    first = listed(behind)
    assert first["hashes"] == {}
    whole = body(behind.ask(behind.path_of(first)))
    digest = {"sha256": hashlib.sha256(whole).hexdigest()}
    assert listed(behind)["hashes"] == digest
    later = Behind(index.url, supported={"nvidia": CUDA}, cache=tmp_path / "cache")
    assert listed(later)["hashes"] == digest
    later.close()


def test_a_part_teaches_nothing(behind: Behind) -> None:
    """A hash is known of the whole only."""
    path = behind.path_of(listed(behind))
    body(behind.ask(path, {"range": "bytes=10-"}))
    assert listed(behind)["hashes"] == {}


def test_a_wheel_that_is_not_what_was_promised_gets_no_end(
    behind: Behind, index: RecordingIndex
) -> None:
    """What the index promised of the original is checked before the end is sent."""
    index.faults.wrong_hash.add(WHEEL)
    answer = behind.ask(behind.path_of(listed(behind)))
    pieces: list[bytes] = []
    with pytest.raises(Disconnect):
        pieces.extend(answer.body)
    assert sum(map(len, pieces)) < answer.length
    assert listed(behind)["hashes"] == {}


def test_a_transfer_that_breaks_goes_on(behind: Behind, index: RecordingIndex) -> None:
    """The client sees one transfer, whatever happens between proxy and index."""
    path = behind.path_of(listed(behind))
    behind.ask(path, method="HEAD")
    index.faults.truncate[WHEEL] = 200_000
    answer = behind.ask(path)
    data = b"".join(answer.body)
    assert len(data) == answer.length


def test_a_server_without_ranges(index: RecordingIndex) -> None:
    """Then the wheel is fetched as a whole, once, and nothing of that stays."""
    index.faults.ranges = False
    behind = Behind(index.url, supported={"nvidia": CUDA})
    path = behind.path_of(listed(behind))
    for _ in range(2):
        data = body(behind.ask(path))
        with WheelArchive(io.BytesIO(data), parse_wheel_filename(WHEEL)) as archive:
            archive.verify()
    assert len(index.requests_for(WHEEL)) <= 3
    behind.close()


def test_other_keys_lead_nowhere(behind: Behind) -> None:
    """R2: a key says what the bytes are; one that does not fit is no way to other bytes."""
    file = listed(behind)
    path = behind.path_of(file)
    _, files, project, key, name = path.split("/")
    fingerprint, digest = key.split("-")
    wrong_keys = ("0" * 16, f"{'0' * 16}-{digest}", f"{fingerprint}-{'0' * 64}", "..%2fx", key[:-1])
    for wrong in wrong_keys:
        assert behind.ask(f"/{files}/{project}/{wrong}/{name}").status == 404
    for other in ("x.whl", "some-1.0-9_cu129-py3-none-any.whl", "..%2f..%2fetc%2fpasswd"):
        assert behind.ask(f"/{files}/{project}/{key}/{other}").status == 404


def test_files_that_need_a_login_pass_through(index: RecordingIndex) -> None:
    """Clients have no login of the index: they get everything here, and see none of it."""
    index.faults.login = ("me", "secret")
    behind = Behind(index.url_with_login("me", "secret"), supported={"nvidia": CUDA}, mode="full")
    for name in ("some", "plain"):
        answer = behind.ask(f"/simple/{name}/", PIP)
        assert b"secret" not in body(answer)
        for file in behind.page(name, PIP).values():
            sent = behind.ask(behind.path_of(file))
            assert sent.status == 200
            assert "location" not in sent.headers
            assert body(sent)
    behind.close()


def test_what_is_kept_is_sent_from_disk(index: RecordingIndex, tmp_path: Path) -> None:
    """A wheel that wheelfit has fetched before is not fetched again."""
    behind = Behind(index.url, supported={"nvidia": CUDA}, cache=tmp_path / "cache")
    (upstream,) = behind.webs
    release_page = behind.page("some", PIP)
    data = (tmp_path / "index" / WHEEL).read_bytes()
    with upstream.store.new_wheel() as temporary:
        assert temporary is not None
        temporary[0].write(data)
        temporary[0].flush()
        upstream.store.keep_wheel(temporary[1], hashlib.sha256(data).hexdigest())
    index.forget()
    (file,) = release_page.values()
    assert body(behind.ask(behind.path_of(file)))
    assert index.requests_for(WHEEL) == []
    behind.close()
