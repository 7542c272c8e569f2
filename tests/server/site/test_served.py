"""HTML pages of a live index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from server.running import RunningIndex
from server.site.documents import Document
from server.site.indexes import DOCUMENT

from wheelfit.operations.hosts import host_text
from wheelfit.resolution.preset_hosts import host_of_preset
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.platforms.presets import compose

pytestmark = pytest.mark.integration

pytest.importorskip("jinja2", reason="needs the extra `server`")
pytest.importorskip("uvicorn", reason="needs the extra `server`")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningIndex]:
    """Yield a live index with a release with variants."""
    folder = tmp_path_factory.mktemp("index")
    with RunningIndex(folder / "store") as running:
        for label in ("cu128", "v3", None):
            wheel = build_wheel(folder, "fast-fft", "2.1", label=label, document=DOCUMENT)
            assert running.upload(wheel) == 200
        yield running
        assert running.stop() == 0
        assert not running.events("failure")


def read(index: RunningIndex, path: str) -> Document:
    """Return a page without faults."""
    status, headers, content = index.get(path)
    assert status == 200
    assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
    document = Document(content)
    assert document.faults == []
    return document


def test_pages(index: RunningIndex) -> None:
    """An upload is on the pages at once, with valid links."""
    assert "fast-fft 2.1 1 release 2 variants" in read(index, "/").text
    page = read(index, "/project/fast-fft/2.1/")
    assert "needs CUDA driver >= 12.8 and a GPU of compute capability 8.0 or 9.0" in page.text
    assert f"wheelfit install --index-url {index.url} fast-fft==2.1" in page.text
    for link in page.links:
        if link.startswith("../../../") and "://" not in link:
            assert index.get(f"/{link.removeprefix('../../../')}")[0] == 200, link


def test_new_release(index: RunningIndex, tmp_path: Path) -> None:
    """A cached page is renewed when its project changes."""
    assert "2.2" not in read(index, "/project/fast-fft/").text
    assert index.upload(build_wheel(tmp_path, "fast-fft", "2.2")) == 200
    assert "2.2 newest" in read(index, "/project/fast-fft/").text
    assert "./project/fast-fft/2.2/" in read(index, "/").links
    assert b"fast-fft 2.2" in index.get("/feed.xml")[2]


def test_host_file(index: RunningIndex) -> None:
    """An uploaded host file is answered."""
    text = host_text(host_of_preset(compose(["cuda-12.8-sm90"]))[0])
    head = 'Content-Disposition: form-data; name="content"; filename="mine.toml"'
    body = f"--b\r\n{head}\r\n\r\n{text}\r\n--b--\r\n".encode()
    status, _, content = index.ask(
        "POST",
        "/project/fast-fft/2.1/which/",
        body,
        content_type="multipart/form-data; boundary=b",
    )
    assert status == 200
    assert "mine.toml gets cu128" in Document(content).text
