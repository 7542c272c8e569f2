"""Prepared pages with generated wheels."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from server.static_site import StaticSite

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.server.messages import Request, Response
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import release_document, single_label_document
from wheelfit.wheels.archive import WheelArchive

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENT = release_document(
    {"null": {}, "mkl": {"blas": {"library": ["mkl"]}}},
    static={"blas": {"library": ["openblas", "mkl"]}},
)
PAGE = """<!DOCTYPE html>
<a href="some-1.0-variants.json#sha256=0">some-1.0-variants.json</a>
<a href="https://files.example.org/a/b/some-1.0-py3-none-any-mkl.whl#sha256=1">mkl</a>
<a href="https://files.example.org/a/some-1.0-py3-none-any.whl">plain</a>
<a href="https://other.example.org/">elsewhere</a>
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Write the files of a static index."""
    folder = tmp_path / "tree" / "some"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "some-1.0-variants.json").write_text(json.dumps(DOCUMENT))
    (tmp_path / "secret.html").write_text("secret")
    return tmp_path / "tree"


def get(site: StaticSite, path: str) -> Response:
    """Request a path."""
    return site(Request("GET", path))


def test_unchanged_pages(tree: Path) -> None:
    """Without a folder for generated wheels nothing is changed or generated."""
    site = StaticSite(tree)
    answer = get(site, "/simple/some/")
    assert b"".join(answer.body) == PAGE.encode()
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert get(site, "/simple/some").headers["location"] == "/simple/some/"
    assert get(site, "/simple/some/some-1.0-variants.json").status == 200
    assert get(site, "/simple/some/some-1.0-py3-none-any.whl").status == 404
    assert get(site, "/simple/other/").status == 404
    assert get(site, "/").status == 404


@pytest.mark.parametrize(
    "path",
    [
        "/simple/../secret.html",
        "/simple/%2e%2e/secret.html",
        "/simple/..%2fsecret.html",
        "/simple/some/..%2f..%2f..%2fsecret.html",
        "/simple//etc/passwd",
        "/simple/some/%00",
        "/simple/..",
    ],
)
def test_no_traversal(tree: Path, path: str) -> None:
    """Nothing outside the tree is served."""
    assert get(StaticSite(tree), path).status == 404


def test_generated_wheels(tree: Path, tmp_path: Path) -> None:
    """Wheels of other hosts are served locally, with the properties of their labels."""
    site = StaticSite(tree, stubs=tmp_path / "stubs", requires={"some": ["other"]})
    text = b"".join(get(site, "/simple/some/").body).decode()
    names = re.findall('href="([^"]*[.]whl)"', text)
    assert names == ["some-1.0-py3-none-any-mkl.whl", "some-1.0-py3-none-any.whl"]
    assert 'href="https://other.example.org/"' in text
    for name in names:
        assert get(site, f"/simple/some/{name}").status == 200
    with WheelArchive(tmp_path / "stubs" / names[0]) as wheel:
        wheel.verify()
        document = json.loads(wheel.variant_document() or b"")
        assert document == single_label_document(DOCUMENT, "mkl")
        assert b"Requires-Dist: other" in wheel.metadata()
    with WheelArchive(tmp_path / "stubs" / names[1]) as wheel:
        assert wheel.filename == parse_wheel_filename(names[1])
    assert get(site, "/simple/some/no-wheel.whl").status == 404


def test_site_as_second_index(tree: Path) -> None:
    """A site can follow the main index."""
    with RecordingIndex(StaticSite(tree)) as index:
        assert index.url.endswith("/simple/")
        assert not index.requests
