"""The index of a folder, called without a socket."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import pytest
from msgspec.structs import replace

from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import Request, Response
from wheelfit.testing.wheels import build_wheel, release_document

if TYPE_CHECKING:
    from pathlib import Path

JSON = "application/vnd.pypi.simple.v1+json"
DOCUMENT = release_document({"null": {}}, static={"blas": {"library": ["mkl"]}})


def get(index: FolderIndex, path: str, **headers: str) -> Response:
    """Send a GET request."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return index(Request("GET", path, named, "http://127.0.0.1:80"))


def page(index: FolderIndex, name: str) -> list[dict[str, object]]:
    """Return the entries of a page."""
    answer = get(index, f"/simple/{name}/", accept=JSON)
    assert answer.status == 200
    files: list[dict[str, object]] = json.loads(b"".join(answer.body))["files"]
    return files


def test_page(tmp_path: Path) -> None:
    """Hash, size, Requires-Python and the hash of METADATA are those of the file."""
    path = build_wheel(tmp_path, "Some.Thing", "1.0", requires_python=">=3.9")
    (entry,) = page(FolderIndex(tmp_path), "some-thing")
    assert entry["filename"] == path.name
    assert entry["url"] == f"../../files/{path.name}"
    assert entry["hashes"] == {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert entry["size"] == path.stat().st_size
    assert entry["requires-python"] == ">=3.9"
    answer = get(FolderIndex(tmp_path), f"/files/{path.name}.metadata")
    metadata = b"".join(answer.body)
    assert metadata.startswith(b"Metadata-Version")
    assert entry["core-metadata"] == {"sha256": hashlib.sha256(metadata).hexdigest()}


def test_variants_json(tmp_path: Path) -> None:
    """F-70, F-71, F-72: every page lists the index file beside the wheels, with only its hash."""
    build_wheel(tmp_path, "some", "1.0", label="null", document=DOCUMENT)
    (tmp_path / "some-1.0-variants.json").write_text("{}")
    entries = page(FolderIndex(tmp_path), "some")
    assert [entry["filename"] for entry in entries] == [
        "some-1.0-py3-none-any-null.whl",
        "some-1.0-variants.json",
    ]
    assert set(entries[1]) == {"filename", "url", "hashes", "size"}
    digest = hashlib.sha256(b"{}").hexdigest()
    assert entries[1]["hashes"] == {"sha256": digest}
    for kind in ("text/html", "application/vnd.pypi.simple.v1+html"):
        html = b"".join(get(FolderIndex(tmp_path), "/simple/some/", accept=kind).body).decode()
        (link,) = (line for line in html.splitlines() if "some-1.0-variants.json" in line)
        assert f"some-1.0-variants.json#sha256={digest}" in link
        assert "data-" not in link
    answer = get(FolderIndex(tmp_path), "/files/some-1.0-variants.json")
    assert b"".join(answer.body) == b"{}"
    assert answer.headers["content-type"] == "application/json"


def test_changes_are_seen(tmp_path: Path) -> None:
    """Added, changed and removed files are visible at once."""
    index = FolderIndex(tmp_path)
    assert get(index, "/simple/some/").status == 404
    path = build_wheel(tmp_path, "some", "1.0")
    (first,) = page(index, "some")
    build_wheel(tmp_path, "some", "1.0", files={"more.py": ""})
    (second,) = page(index, "some")
    assert first["hashes"] != second["hashes"]
    path.unlink()
    assert get(index, "/simple/some/").status == 404
    assert get(index, f"/files/{path.name}").status == 404


def test_broken_wheel(tmp_path: Path) -> None:
    """A broken wheel is listed without metadata."""
    path = tmp_path / "some-1.0-py3-none-any.whl"
    path.write_bytes(b"no wheel")
    (entry,) = page(FolderIndex(tmp_path), "some")
    assert set(entry) == {"filename", "url", "hashes", "size"}
    assert get(FolderIndex(tmp_path), f"/files/{path.name}.metadata").status == 404


def test_other_files_are_not_served(tmp_path: Path) -> None:
    """Only distribution files at the top level are served."""
    folder = tmp_path / "folder"
    build_wheel(folder / "inside", "some", "1.0")
    (folder / "secret.txt").write_text("secret")
    (folder / "some-1.0.tar.gz").write_bytes(b"sdist")
    (tmp_path / "other-1.0.tar.gz").write_bytes(b"outside")
    index = FolderIndex(folder)
    assert index.projects() == ("some",)
    assert [entry["filename"] for entry in page(index, "some")] == ["some-1.0.tar.gz"]
    assert get(index, "/files/secret.txt").status == 404


@pytest.mark.parametrize(
    "path",
    [
        "/files/../other-1.0.tar.gz",
        "/files/..%2fother-1.0.tar.gz",
        "/files/%2e%2e%2fother-1.0.tar.gz",
        "/files/%252e%252e%252fother-1.0.tar.gz",
        "/files/..%5cother-1.0.tar.gz",
        "/files//etc/passwd",
        "/files/%2fetc%2fpasswd",
        "/files/",
        "/files/some-1.0.tar.gz%00",
        "/files/%ff",
        "/simple/../files/",
        "/simple/..%2f/",
        "/other",
        "*",
        "http://elsewhere/simple/",
    ],
)
def test_no_traversal(tmp_path: Path, path: str) -> None:
    """CVE-2026-13346: no encoding of a path leads out of the folder."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "other-1.0.tar.gz").write_bytes(b"outside")
    answer = get(FolderIndex(tmp_path / "folder"), path)
    assert answer.status in (301, 404)
    assert not answer.headers.get("location", "").startswith("/")


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/", "/simple/"),
        ("/simple", "/simple/"),
        ("/simple/some", "/simple/some/"),
        ("/simple/Some_Thing/", "/simple/some-thing/"),
        ("/simple/Some.Thing", "/simple/some-thing/"),
        ("/simple/a%0d%0aset-cookie:x", "/simple/a%0D%0Aset-cookie%3Ax/"),
    ],
)
def test_redirects(tmp_path: Path, path: str, location: str) -> None:
    """PEP 503: names are normalised, and cannot inject headers."""
    answer = get(FolderIndex(tmp_path), path)
    assert (answer.status, urljoin(path, answer.headers["location"])) == (301, location)


def test_entity_tags(tmp_path: Path) -> None:
    """F-73: pages have an entity tag, which changes with the folder."""
    build_wheel(tmp_path, "some", "1.0")
    index = FolderIndex(tmp_path)
    etag = get(index, "/simple/some/").headers["etag"]
    assert get(index, "/simple/some/", if_none_match=etag).status == 304
    build_wheel(tmp_path, "some", "2.0")
    assert get(index, "/simple/some/", if_none_match=etag).status == 200
    assert get(index, "/simple/some/").headers["vary"] == "Accept"


def test_unacceptable(tmp_path: Path) -> None:
    """PEP 691: a client that accepts neither JSON nor HTML gets 406."""
    build_wheel(tmp_path, "some", "1.0")
    assert get(FolderIndex(tmp_path), "/simple/some/", accept="image/png").status == 406
    assert get(FolderIndex(tmp_path), "/simple/", accept="image/png").status == 406


def test_revised_entries(tmp_path: Path) -> None:
    """The caller can revise entries."""
    path = build_wheel(tmp_path, "some", "1.0")
    index = FolderIndex(tmp_path, edit_entry=lambda file: replace(file, yanked="bad", hashes={}))
    (entry,) = page(index, "some")
    assert entry["yanked"] == "bad"
    assert get(index, f"/files/{path.name}").status == 200
