"""Large pages are remembered as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from wheelfit.sources.cache import Store
from wheelfit.sources.client import Answer
from wheelfit.sources.page import OtherPages
from wheelfit.sources.parsed_pages import ParsedPages
from wheelfit.sources.simple_api import parse_page
from wheelfit_runtime.errors import InvalidPage

if TYPE_CHECKING:
    from pathlib import Path

A = canonicalize_name("a")
URL = "https://index.example/simple/a/"


def answer(body: str, url: str = URL) -> Answer:
    """Wrap a page."""
    return Answer(200, {"content-type": "text/html"}, url, body.encode())


LARGE = (
    "".join(
        f'<a href="../../f/a-{number}-py3-none-any.whl{fragment}"{attributes}>a</a>'
        for number in range(200)
        for fragment in ("", f"#sha256={number:064x}")
        for attributes in (
            "",
            ' data-yanked="" data-requires-python="&gt;=3.8"',
            f' data-core-metadata="sha256={number:064x}"',
            ' data-core-metadata="true"',
        )
    )
    + '<a href="..%2fa-1.whl">bad</a>'
)


def test_the_same_page_comes_back(tmp_path: Path) -> None:
    """What is remembered is equal to what is read, notes included."""
    expected = parse_page(LARGE.encode(), "text/html", URL, A, source="s")
    assert len(expected.files) == 1600
    for _ in range(2):
        page = ParsedPages(Store(tmp_path)).page(answer(LARGE), A, source="s")
        assert replace(page, stamp="", fresh=0.0) == expected
    assert list((tmp_path / "parsed-1").rglob("*"))


def test_where_a_project_is_besides_comes_back(tmp_path: Path) -> None:
    """PEP 708, PEP 792: it is remembered with the files, and so is what the project is."""
    said = (
        '<meta name="pypi:tracks" content="https://a.example/a/">'
        '<meta name="pypi:alternate-locations" content="https://b.example/a/">'
        '<meta name="pypi:project-status" content="archived">'
    )
    for _ in range(2):
        page = ParsedPages(Store(tmp_path)).page(answer(said + LARGE), A, source="s")
        assert page.elsewhere == OtherPages(("https://a.example/a/",), ("https://b.example/a/",))
        assert page.status.marker == "archived"


def test_it_belongs_to_the_page(tmp_path: Path) -> None:
    """Other bytes, another URL or another source are another page."""
    pages = ParsedPages(Store(tmp_path))
    pages.page(answer(LARGE), A, source="s")
    assert len(pages.page(answer(LARGE + '<a href="a-1.whl">a</a>'), A, source="s").files) == 1601
    moved = pages.page(answer(LARGE, "https://other.example/x/a/"), A, source="s")
    assert moved.files[0].url.startswith("https://other.example/")
    assert pages.page(answer(LARGE), A, source="t").files[0].source == "t"


def test_small_pages_and_errors_are_not_kept(tmp_path: Path) -> None:
    """What is quick or wrong is read each time."""
    pages = ParsedPages(Store(tmp_path))
    pages.page(answer("<a href='a-1.whl'>a</a>"), A, source="s")
    wrong = Answer(200, {"content-type": "image/png"}, URL, b"x" * 100_000)
    with pytest.raises(InvalidPage):
        pages.page(wrong, A, source="s")
    assert list(tmp_path.iterdir()) == []
