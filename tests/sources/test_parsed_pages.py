"""Large pages are remembered as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.sources.cache import Store
from wheelfit.sources.cached_pages import Copy
from wheelfit.sources.parsed_pages import ParsedPages, stamp_of_copy
from wheelfit.sources.release_files import PageFiles, sort_by_release
from wheelfit.sources.simple_api import parse_page
from wheelfit_runtime.errors import InvalidPage

if TYPE_CHECKING:
    from pathlib import Path

A = canonicalize_name("a")
URL = "https://index.example/simple/a/"


def answer(body: str, url: str = URL) -> Copy:
    """Wrap a page."""
    return Copy(body.encode(), url, {"content-type": "text/html"}, 0.0)


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
        assert replace(page, stamp="", fresh_seconds=0.0) == expected
    assert list((tmp_path / "parsed-1").rglob("*"))


def test_status(tmp_path: Path) -> None:
    """PEP 792: the status of the project is stored with the files."""
    meta = '<meta name="pypi:project-status" content="archived">'
    for _ in range(2):
        page = ParsedPages(Store(tmp_path)).page(answer(meta + LARGE), A, source="s")
        assert page.status.marker == "archived"


def test_a_release_is_read_alone(tmp_path: Path) -> None:
    """The files by release are those of the page, and of one release its part alone is read."""
    files = parse_page(LARGE.encode(), "text/html", URL, A, source="s").files
    expected = sort_by_release(A, files)
    ParsedPages(Store(tmp_path)).page(answer(LARGE), A, source="s")
    page = ParsedPages(Store(tmp_path)).page(answer(LARGE), A, source="s")
    assert isinstance(page.files, PageFiles)
    assert list(page.files.by_release.releases) == list(expected.releases)
    assert page.files.by_release.ignored == expected.ignored
    for version, release in page.files.by_release.releases.items():
        plain = expected.releases[version]
        assert release.files() == plain.files()
        assert set(release.kinds) == set(plain.kinds)
        assert release.is_partly_yanked == plain.is_partly_yanked
        assert not release.source_pythons
        assert not release.has_variants
    found = {file.filename for file in page.files.of([Version("7"), Version("1000")])}
    assert found == {"a-7-py3-none-any.whl"}


def test_sources_and_variants_are_in_the_table(tmp_path: Path) -> None:
    """Of the best source distribution its Python counts; labels and other files are not lost."""
    body = LARGE + "".join(
        f'<a href="../../f/{name}"{attributes}>a</a>'
        for name, attributes in (
            ("a-300.zip", ' data-requires-python="&gt;=3.1"'),
            ("a-300.tar.gz", ' data-requires-python="&gt;=3.2"'),
            ("a-300-py3-none-any-cu128.whl", ""),
            ("a-300-variants.json", ""),
            ("b-300-py3-none-any.whl", ""),
        )
    )
    ParsedPages(Store(tmp_path)).page(answer(body), A, source="s")
    page = ParsedPages(Store(tmp_path)).page(answer(body), A, source="s")
    assert isinstance(page.files, PageFiles)
    releases = page.files.by_release.releases
    assert list(releases[Version("300")].source_pythons) == [">=3.2"]
    assert releases[Version("300")].has_variants
    assert page.files.by_release.ignored == ("b-300-py3-none-any.whl belongs to b",)
    assert page.files == parse_page(body.encode(), "text/html", URL, A, source="s").files
    assert [file.filename for file in page.files.of([])] == ["b-300-py3-none-any.whl"]


def test_a_damaged_part_is_read_from_the_page(tmp_path: Path) -> None:
    """What a full disk or a clean-up took from the cache is parsed again."""
    store = Store(tmp_path)
    store_page = ParsedPages(store).page(answer(LARGE), A, source="s")
    page = ParsedPages(store).page(answer(LARGE), A, source="s")
    assert isinstance(page.files, PageFiles)
    (entry,) = (path for path in (tmp_path / "parsed-1").rglob("*") if path.is_file())
    data = entry.read_bytes()
    entry.write_bytes(data[:-1000] + bytes(1000))
    assert page.files == store_page.files
    entry.unlink()
    release = page.files.by_release.releases[Version("0")].files()
    assert [file.filename for file, _ in release.wheels] == ["a-0-py3-none-any.whl"] * 8


def test_a_damaged_entry_is_parsed_once_and_mended(tmp_path: Path) -> None:
    """Of a page whose every part is damaged, the body is fetched once, and the entry is whole."""
    store, fetched = Store(tmp_path), []

    def with_body(copy: Copy) -> Copy:
        fetched.append(copy)
        return answer(LARGE)

    first = ParsedPages(store).page(answer(LARGE), A, source="s")
    (entry,) = (path for path in (tmp_path / "parsed-1").rglob("*") if path.is_file())
    sound = entry.read_bytes()
    entry.write_bytes(sound[:-100_000] + bytes(100_000))
    page = ParsedPages(store).page(answer(LARGE), A, source="s", with_body=with_body)
    assert isinstance(page.files, PageFiles)
    for release in page.files.by_release.releases.values():
        assert release.files().wheels
    assert page.files == first.files
    assert len(fetched) == 1
    assert entry.read_bytes() == sound


def test_a_page_that_is_replaced_meanwhile(tmp_path: Path) -> None:
    """Another page than the known one has its own stamp and entry, and loses no file."""
    store = Store(tmp_path)
    newer = answer('<a href="../../f/a-0-cp311-cp311-any.whl">a</a>' + LARGE)
    old = replace(answer(LARGE), digest=answer(LARGE).sha256, body=b"")
    page = ParsedPages(store).page(old, A, source="s", with_body=lambda _: newer)
    assert page.stamp == stamp_of_copy(newer)
    assert len(ParsedPages(store).page(answer(LARGE), A, source="s").files) == 1600
    for path in (tmp_path / "parsed-1").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-100_000] + bytes(100_000))
    again = ParsedPages(store).page(old, A, source="s", with_body=lambda _: newer)
    assert isinstance(again.files, PageFiles)
    assert len(again.files.by_release.releases[Version("0")].files().wheels) == 9


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
    wrong = Copy(b"x" * 100_000, URL, {"content-type": "image/png"}, 0.0)
    with pytest.raises(InvalidPage):
        pages.page(wrong, A, source="s")
    assert list(tmp_path.iterdir()) == []


def test_projects_that_share_a_page(tmp_path: Path) -> None:
    """An index may redirect all projects to one list; each has its own releases there."""
    b = canonicalize_name("b")
    shared = answer(LARGE + LARGE.replace("/a-", "/b-"), "https://index.example/all/")
    for name in (A, b, A):
        page = ParsedPages(Store(tmp_path)).page(shared, name, source="s")
        assert isinstance(page.files, PageFiles)
        release = page.files.by_release.releases[Version("7")].files()
        assert {filename.name for _, filename in release.wheels} == {name}
