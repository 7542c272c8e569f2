"""Pages of the Simple API as bytes."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from wheelfit.server.pages import choose_type, write_project, write_projects, write_static_index
from wheelfit.sources.page import ACCEPT, File, ProjectPage, Status
from wheelfit.sources.simple_api import parse_page

JSON = "application/vnd.pypi.simple.v1+json"
HTML = "application/vnd.pypi.simple.v1+html"
NAME = canonicalize_name("some")
URL = "http://127.0.0.1:1/simple/some/"

WHEEL = File(
    "some-1.0-py3-none-any-cu128.whl",
    "http://127.0.0.1:1/files/some-1.0-py3-none-any-cu128.whl",
    hashes={"sha256": "1" * 64},
    requires_python=">=3.9,<4",
    yanked='"bad" & <wrong>',
    size=1234,
    metadata_hashes={"sha256": "2" * 64},
    source="index",
)
VARIANTS = File(
    "some-1.0-variants.json",
    "http://127.0.0.1:1/files/some-1.0-variants.json",
    hashes={"sha256": "3" * 64},
    requires_python=">=3.9",
    yanked="",
    size=99,
    metadata_hashes={"sha256": "4" * 64},
    source="index",
)
SDIST = File("some-0.9.tar.gz", "http://127.0.0.1:1/files/some-0.9.tar.gz", source="index")
PAGE = ProjectPage(NAME, (WHEEL, SDIST), "index")


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, "text/html"),
        ("*/*", "text/html"),
        ("text/html", "text/html"),
        (JSON, JSON),
        ("application/vnd.pypi.simple.latest+json", JSON),
        ("application/vnd.pypi.simple.latest+html", HTML),
        (ACCEPT, JSON),
        (f"{JSON};q=0.1, text/html", "text/html"),
        (f"{JSON};q=0, */*", "text/html"),
        ("text/html;q=0, */*;q=0.5", JSON),
        ("application/json", None),
        ("image/png", None),
        (f"{JSON};q=0", None),
        (f"{JSON};q=high", None),
        ("text/*", "text/html"),
        ("application/*", JSON),
        (f"{HTML}, {JSON}, */*;q=0.1", JSON),
        ("TEXT/HTML; charset=utf-8; q=1", "text/html"),
    ],
)
def test_negotiation(accept: str | None, expected: str | None) -> None:
    """PEP 691: the best type that the client accepts; HTML by default."""
    assert choose_type(accept) == expected


@pytest.mark.parametrize("media_type", [JSON, HTML, "text/html"])
def test_round_trip(media_type: str) -> None:
    """Writing and reading a page are inverses, except for sizes in HTML."""
    body = write_project(PAGE, media_type)
    files = parse_page(body, media_type, URL, NAME, source="index").files
    assert [file.filename for file in files] == [file.filename for file in PAGE.files]
    for read, written in zip(files, PAGE.files, strict=True):
        assert read.url == written.url
        assert read.hashes == written.hashes
        assert read.requires_python == written.requires_python
        assert read.yanked == written.yanked
        assert read.metadata_hashes == written.metadata_hashes
        assert read.size == (written.size if media_type == JSON else None)


def test_json() -> None:
    """PEP 691, 700, 714: the standard keys and the version of the API."""
    content = json.loads(write_project(PAGE, JSON))
    assert content["meta"] == {"api-version": "1.1"}
    assert content["name"] == "some"
    assert content["versions"] == ["0.9", "1.0"]
    wheel, sdist = content["files"]
    assert wheel["core-metadata"] == wheel["dist-info-metadata"] == {"sha256": "2" * 64}
    assert wheel["yanked"] == '"bad" & <wrong>'
    assert set(sdist) == {"filename", "url", "hashes"}


def test_api_version() -> None:
    """PEP 629: a page has the lowest API version that has its keys."""
    plain = ProjectPage(NAME, (File("some-1.tar.gz", "some-1.tar.gz"),), "index")
    attested = File("some-1.tar.gz", "some-1.tar.gz", provenance="some-1.tar.gz.provenance")
    pages = {
        "1.1": plain,
        "1.3": replace(plain, files=(attested,)),
        "1.4": replace(plain, files=(attested,), status=Status("deprecated", 'use "other"')),
    }
    for version, page in pages.items():
        assert json.loads(write_project(page, JSON))["meta"]["api-version"] == version
        said = f'<meta name="pypi:repository-version" content="{version}">'
        assert said in write_project(page, HTML).decode()
        for kind in (JSON, HTML):
            read = parse_page(write_project(page, kind), kind, URL, NAME)
            assert read.status == page.status


def test_attributes_of_index_files() -> None:
    """F-72: only the identity of an index file is published."""
    page = ProjectPage(NAME, (VARIANTS,), "index")
    (entry,) = json.loads(write_project(page, JSON))["files"]
    assert set(entry) == {"filename", "url", "hashes", "size"}
    body = write_project(page, HTML).decode()
    assert "data-" not in body
    assert f'<a href="{VARIANTS.url}#sha256={"3" * 64}">' in body


def test_escaping() -> None:
    """Names and reasons are escaped."""
    file = File("<b>-1.tar.gz", 'http://x/"><script>', requires_python=">3<4", yanked='"><i>')
    body = write_project(ProjectPage(NAME, (file,), ""), HTML).decode()
    assert "<script>" not in body
    assert "<b>" not in body
    assert "<i>" not in body
    assert "&gt;3&lt;4" in body


def test_projects() -> None:
    """PEP 503, 691: the list of all projects."""
    assert json.loads(write_projects(["a", "b"], JSON)) == {
        "meta": {"api-version": "1.1"},
        "projects": [{"name": "a"}, {"name": "b"}],
    }
    assert b'<a href="a/">a</a>' in write_projects(["a", "b"], "text/html")


def test_index_as_files() -> None:
    """Every page is written as HTML and as JSON, and the list has the projects in order."""
    other = ProjectPage(canonicalize_name("another"), (), "index")
    site = write_static_index([PAGE, other])
    assert site == {
        "index.html": write_projects(["another", "some"], HTML),
        "index.json": write_projects(["another", "some"], JSON),
        "another/index.html": write_project(other, HTML),
        "another/index.json": write_project(other, JSON),
        "some/index.html": write_project(PAGE, HTML),
        "some/index.json": write_project(PAGE, JSON),
    }
