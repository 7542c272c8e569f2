"""Layouts of existing indexes: PyTorch's, and the published index with variants."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from server.static_site import StaticSite
from server.upstream.mirroring import Mirroring, read

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.server.messages import Request, Response, content_response
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

Opener = Callable[..., Mirroring]
TORCH = "torch-2.8.0+cu128-py3-none-any.whl"


class PyTorchLike:
    """Respond as PyTorch's index for one CUDA version does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.hashed = True

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        match request.path.split("/")[1:]:
            case ["whl", "cu128", project, ""]:
                return self._page(project)
            case ["whl", "cu128", name]:
                path = self._folder / name.replace("%2B", "+").replace("%2b", "+")
                if path.is_file():
                    data = path.read_bytes()
                    return content_response(
                        request, data, len(data), etag=f'"{len(data)}"', headers={}
                    )
        return Response.text(403, "<Error><Code>AccessDenied</Code></Error>")

    def _page(self, project: str) -> Response:
        paths = sorted(self._folder.glob(f"{project}-*"))
        if not paths:
            return Response.text(403, "<Error><Code>AccessDenied</Code></Error>")
        links = []
        for path in paths:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            mark = f"#sha256={digest}" if self.hashed else ""
            links.append(f'    <a href="/whl/cu128/{quote(path.name)}{mark}">{path.name}</a><br/>')
        extra = '    <a href="/whl/cu128/other-1.0-py3-none-any.whl">other</a><br/>'
        html = "\n".join(
            ["<!DOCTYPE html><html><body>", f"    <h1>Links for {project}</h1>", *links, extra,
             "</body></html>", "<!--TIMESTAMP 1755000000-->"]
        )  # fmt: skip
        return Response.of(200, html.encode(), {"content-type": "text/html"})


@pytest.fixture
def pytorch(tmp_path: Path) -> Iterator[tuple[PyTorchLike, RecordingIndex]]:
    """Run an index like PyTorch's."""
    folder = tmp_path / "bucket"
    for version in ("2.8.0+cu128", "2.7.1+cu128"):
        build_wheel(folder, "torch", version, requires=["nvidia-cublas-cu12"])
    site = PyTorchLike(folder)
    with RecordingIndex(site) as server:
        yield site, server


class TestPyTorch:
    """Mirrored pages of PyTorch."""

    def test_page(self, mirror: Opener, pytorch: tuple[PyTorchLike, RecordingIndex]) -> None:
        """Local versions keep their spelling, links are the mirror's, and metadata is listed."""
        one = mirror(f"{pytorch[1].origin}/whl/cu128/")
        page = one.page("torch")
        assert set(page) == {TORCH, "torch-2.7.1+cu128-py3-none-any.whl"}
        entry = page[TORCH]
        assert entry["url"] == "../../files/torch-2.8.0%2Bcu128-py3-none-any.whl"
        assert list(entry["hashes"]) == ["sha256"]
        assert entry["core-metadata"] is True
        metadata = one.file("torch-2.8.0%2Bcu128-py3-none-any.whl.metadata")
        assert b"Requires-Dist: nvidia-cublas-cu12" in metadata
        assert one.file("torch-2.8.0%2Bcu128-py3-none-any.whl").startswith(b"PK")

    def test_unknown_projects(
        self, mirror: Opener, pytorch: tuple[PyTorchLike, RecordingIndex]
    ) -> None:
        """403 means that the project does not exist, and the next index may have it."""
        assert mirror(f"{pytorch[1].origin}/whl/cu128").ask("/simple/numpy/").status == 404

    def test_files_without_hash(
        self, mirror: Opener, pytorch: tuple[PyTorchLike, RecordingIndex]
    ) -> None:
        """After the first download, which has no entity tag, hash and size are listed."""
        pytorch[0].hashed = False
        one = mirror(f"{pytorch[1].origin}/whl/cu128/")
        assert one.page("torch")[TORCH]["hashes"] == {}
        first = one.ask("/files/torch-2.8.0%2Bcu128-py3-none-any.whl")
        data = read(first)
        assert len(data) == first.length
        digest = hashlib.sha256(data).hexdigest()
        assert one.kept() == {digest: len(data)}
        entry = one.page("torch")[TORCH]
        assert (entry["hashes"], entry["size"]) == ({"sha256": digest}, len(data))
        etag = one.ask("/files/torch-2.8.0%2Bcu128-py3-none-any.whl").headers["etag"]
        assert etag == f'"{digest}"'
        later = mirror(f"{pytorch[1].origin}/whl/cu128/")
        assert later.page("torch")[TORCH]["hashes"] == {"sha256": digest}


def test_published_index_with_variants(
    mirror: Opener, tmp_path: Path, published_index: Path
) -> None:
    """F-128: its documents are passed on unchanged, beside their wheels."""
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    with RecordingIndex(StaticSite(published_index, stubs=stubs)) as upstream:
        one = mirror(upstream.url)
        page = one.page("torch")
        documents = [name for name in page if name.endswith("-variants.json")]
        labelled = [
            name for name in page if name.endswith(".whl") and parse_wheel_filename(name).is_variant
        ]
        assert documents
        assert labelled
        for name in documents:
            assert set(page[name]) == {"filename", "url", "hashes"}
            assert one.file(quote(name)) == (published_index / "torch" / name).read_bytes()
        assert one.file(quote(labelled[0])).startswith(b"PK")
        assert one.ask("/simple/no-such-project/").status == 404
