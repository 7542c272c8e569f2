"""Pages of the Simple API, in both forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from wheelfit.sources.page import File, ProjectPage, Status
from wheelfit.sources.simple_api import parse_page
from wheelfit_runtime.errors import InvalidPage

URL = "https://index.example/simple/a/"
A = canonicalize_name("a")
JSON_TYPE = "application/vnd.pypi.simple.v1+json"
DIGEST = "ab" * 32


def html(*anchors: str, head: str = "") -> ProjectPage:
    """Parse an HTML page."""
    body = f"<html><head>{head}</head><body>{''.join(anchors)}</body></html>"
    return parse_page(body.encode(), "text/html; charset=utf-8", URL, A)


def from_json(*files: dict[str, Any], **more: Any) -> ProjectPage:
    """Parse a JSON page."""
    page = {"meta": {"api-version": "1.1"}, "name": "a", "files": files, **more}
    return parse_page(json.dumps(page).encode(), JSON_TYPE, URL, A)


class TestBoth:
    """An entry means the same in HTML and in JSON."""

    def test_all_attributes(self) -> None:
        """Every attribute of a wheel arrives, unescaped, digests in lower case."""
        anchor = (
            f'<a href="../../f/a-1.0-py3-none-any.whl#sha256={DIGEST.upper()}" '
            'data-requires-python="&gt;=3.8,&lt;4" data-yanked="broken &amp; bad" '
            f'data-core-metadata="sha256={DIGEST}">a-1.0-py3-none-any.whl</a>'
        )
        entry = {
            "filename": "a-1.0-py3-none-any.whl",
            "url": "../../f/a-1.0-py3-none-any.whl",
            "hashes": {"sha256": DIGEST.upper()},
            "requires-python": ">=3.8,<4",
            "yanked": "broken & bad",
            "core-metadata": {"sha256": DIGEST},
        }
        expected = File(
            filename="a-1.0-py3-none-any.whl",
            url="https://index.example/f/a-1.0-py3-none-any.whl",
            hashes={"sha256": DIGEST},
            requires_python=">=3.8,<4",
            yanked="broken & bad",
            metadata_hashes={"sha256": DIGEST},
            source=URL,
        )
        assert html(anchor).files == from_json(entry).files == (expected,)

    def test_variants_entry_is_only_its_identity(self) -> None:
        """F-72: other attributes of this entry do not count; that they are there is remembered."""
        name = "a-1.0-variants.json"
        anchor = (
            f'<a href="{name}#sha256={DIGEST}" data-requires-python="&gt;=4" data-yanked="x" '
            f'data-dist-info-metadata="true">{name}</a>'
        )
        entry = {
            "filename": name,
            "url": name,
            "hashes": {"sha256": DIGEST},
            "requires-python": ">=4",
            "yanked": True,
            "core-metadata": True,
        }
        ignored = ("requires-python", "yanked", "core-metadata")
        expected = File(name, URL + name, {"sha256": DIGEST}, source=URL, forbidden=ignored)
        assert html(anchor).files == from_json(entry).files == (expected,)

    @pytest.mark.parametrize(
        "url",
        [
            "file:///etc/a-1.0-py3-none-any.whl",
            "ftp://x/a-1.0-py3-none-any.whl",
            "javascript:a-1.0-py3-none-any.whl",
        ],
    )
    def test_remote_pages_reach_no_local_files(self, url: str) -> None:
        """A page from a server cannot make anything but HTTP happen."""
        entry = {"filename": "a-1.0-py3-none-any.whl", "url": url, "hashes": {}}
        for page in (html(f'<a href="{url}">a-1.0-py3-none-any.whl</a>'), from_json(entry)):
            assert page.files == ()
            assert "neither http nor https" in page.notes[0]

    def test_credentials_in_links_do_not_get_into_files(self) -> None:
        """A file's URL has no credentials, whatever the page says."""
        url = "https://me:secret@files.example/a-1.0-py3-none-any.whl"
        entry = {"filename": "a-1.0-py3-none-any.whl", "url": url, "hashes": {}}
        for page in (html(f'<a href="{url}">a-1.0-py3-none-any.whl</a>'), from_json(entry)):
            assert page.files[0].url == "https://files.example/a-1.0-py3-none-any.whl"


class TestHtml:
    """PEP 503."""

    def test_base(self) -> None:
        """Links are relative to the base of the page."""
        page = html('<a href="a-1.0.tar.gz">a</a>', head='<base href="/other/">')
        assert page.files[0].url == "https://index.example/other/a-1.0.tar.gz"

    @pytest.mark.parametrize(
        ("href", "url"),
        [
            ("a-1.tar.gz", "https://index.example/simple/a/a-1.tar.gz"),
            ("./a-1.tar.gz", "https://index.example/simple/a/a-1.tar.gz"),
            ("../../a-1.tar.gz", "https://index.example/a-1.tar.gz"),
            ("/f/../g/a-1.tar.gz", "https://index.example/g/a-1.tar.gz"),
            ("//cdn.example/a-1.tar.gz", "https://cdn.example/a-1.tar.gz"),
            ("http://cdn.example/a-1.tar.gz?x=/y", "http://cdn.example/a-1.tar.gz?x=/y"),
            ("a%2Bb/a-1.tar.gz", "https://index.example/simple/a/a%2Bb/a-1.tar.gz"),
        ],
    )
    def test_links_are_resolved(self, href: str, url: str) -> None:
        """Links of every shape lead where a browser would go."""
        assert html(f'<a href="{href}">a-1.tar.gz</a>').files[0].url == url

    def test_name_is_decoded_once(self) -> None:
        """F-16: ``%2B`` becomes a plus; what is encoded twice stays encoded once."""
        page = html(
            '<a href="a-1%2Bcpu-py3-none-any.whl">x</a>',
            '<a href="a-1%252B-py3-none-any.whl">x</a>',
        )
        assert [file.filename for file in page.files] == [
            "a-1+cpu-py3-none-any.whl",
            "a-1%2B-py3-none-any.whl",
        ]

    @pytest.mark.parametrize(
        "segment", ["..%2f..%2fa-1.whl", "..%5ca-1.whl", "a-1%00.whl", "a-1%0a.whl"]
    )
    def test_names_that_leave_the_folder_are_refused(self, segment: str) -> None:
        """A name with a separator or a control character, encoded in the link, is left out."""
        page = html(f'<a href="{segment}">a</a>')
        assert page.files == ()

    def test_double_encoding_stays_harmless(self) -> None:
        """``%252e%252e%252f`` is decoded once, so it is a name and no path."""
        page = html('<a href="%252e%252e%252fa-1-py3-none-any.whl">a</a>')
        assert [file.filename for file in page.files] == ["%2e%2e%2fa-1-py3-none-any.whl"]

    def test_name_of_a_variants_file_may_be_in_the_text_only(self) -> None:
        """F-71: the URL of the index file is free, its name stands in the text."""
        page = html(f'<a href="/blob/{DIGEST}#sha256={DIGEST}">a-1.0-variants.json</a>')
        assert page.files[0].filename == "a-1.0-variants.json"
        assert page.files[0].url == f"https://index.example/blob/{DIGEST}"

    def test_other_links_are_no_files(self) -> None:
        """Links for people are not listed."""
        assert (
            html('<a href="../">..</a>', '<a href="https://home.example/a-b">home</a>').files == ()
        )

    @pytest.mark.parametrize(
        ("value", "hashes"),
        [("true", {}), ("false", None), (f"sha256={DIGEST}", {"sha256": DIGEST}), ("", {})],
    )
    def test_metadata_attribute(self, value: str, hashes: dict[str, str] | None) -> None:
        """PEP 658, PEP 714: with a hash, without one, or not at all; the new name first."""
        page = html(
            f'<a href="a-1.whl" data-core-metadata="{value}" data-dist-info-metadata="md5=00">a</a>'
        )
        assert page.files[0].metadata_hashes == hashes

    def test_yanked_without_reason(self) -> None:
        """PEP 592: the attribute alone yanks."""
        assert html('<a href="a-1.whl" data-yanked>a</a>').files[0].yanked == ""

    @pytest.mark.parametrize("part", ["egg=face", "subdirectory=abc"])
    def test_fragments_that_are_no_hashes(self, part: str) -> None:
        """The other parts of a fragment that pip knows are not algorithms."""
        page = html(f'<a href="a-1.tar.gz#{part}">a</a><a href="a-2.tar.gz#{part}&sha256=ab">a</a>')
        assert [file.hashes for file in page.files] == [{}, {"sha256": "ab"}]

    def test_other_charset(self) -> None:
        """The charset of the answer counts; an unknown one is taken for UTF-8."""
        body = '<a href="a-1.tar.gz" data-yanked="ä">a</a>'
        for encoding, named in (
            ("latin-1", "latin-1"),
            ("utf-8", "martian"),
            ("utf-8", "undefined"),  # Python's codec of that name, which decodes nothing
            ("utf-8", "idna"),
        ):
            page = parse_page(body.encode(encoding), f"text/html; charset={named}", URL, A)
            assert page.files[0].yanked == "ä"

    def test_newer_major_version_is_refused(self) -> None:
        """PEP 629: version 2 is not guessed at, version 1.9 is fine."""
        meta = '<meta name="pypi:repository-version" content="{}">'
        assert html('<a href="a-1.whl">a</a>', head=meta.format("1.9")).files
        with pytest.raises(InvalidPage, match=r"version '2\.0'"):
            html(head=meta.format("2.0"))


class TestJson:
    """PEP 691 and its successors."""

    def test_what_pip_reads_too(self) -> None:
        """Hashes may be null, and the page may begin with a byte order mark."""
        body = b'\xef\xbb\xbf{"files": [{"filename": "a-1.whl", "url": "a-1.whl", "hashes": null}]}'
        page = parse_page(body, "application/vnd.pypi.simple.v1+json", URL, A)
        assert [(file.filename, file.hashes) for file in page.files] == [("a-1.whl", {})]

    def test_size_and_upload_time(self) -> None:
        """PEP 700: both are kept."""
        entry = {
            "filename": "a-1.whl",
            "url": "a-1.whl",
            "hashes": {},
            "size": 7,
            "upload-time": "2026-01-01T00:00:00Z",
        }
        file = from_json(entry).files[0]
        assert (file.size, file.upload_time) == (7, "2026-01-01T00:00:00Z")

    @pytest.mark.parametrize(
        ("keys", "expected"),
        [
            ({"core-metadata": True}, {}),
            ({"core-metadata": False, "dist-info-metadata": True}, None),
            ({"dist-info-metadata": {"sha256": "00"}}, {"sha256": "00"}),
            ({"core-metadata": None}, None),
        ],
    )
    def test_metadata_keys(self, keys: dict[str, Any], expected: dict[str, str] | None) -> None:
        """PEP 714: the old key counts only without the new one."""
        entry = {"filename": "a-1.whl", "url": "a-1.whl", "hashes": {}, **keys}
        assert from_json(entry).files[0].metadata_hashes == expected

    @pytest.mark.parametrize(
        "name", ["../a-1.whl", "a\\b-1.whl", "", ".", "..", " a-1.whl", "a-1.whl\n", "a\0-1.whl"]
    )
    def test_names_that_leave_the_folder_are_refused(self, name: str) -> None:
        """A bad name costs its own entry only, with a note."""
        good = {"filename": "a-1.whl", "url": "a-1.whl", "hashes": {}}
        page = from_json({**good, "filename": name}, good)
        assert [file.filename for file in page.files] == ["a-1.whl"]
        assert "not the name of a file" in page.notes[0]

    def test_wrong_types_are_named_by_path(self) -> None:
        """A page that breaks the types of the API says where."""
        with pytest.raises(InvalidPage, match=r"files\[1\]\.url") as excinfo:
            from_json(
                {"filename": "a-1.whl", "url": "a", "hashes": {}},
                {"filename": "a-2.whl", "url": 7, "hashes": {}},
            )
        assert excinfo.value.where == URL

    @pytest.mark.parametrize(
        "body",
        [
            b"{",
            b"[]",
            b'{"meta": {}}',
            b"\xff",
            b'{"files": ' + b"[" * 100_000,
            b'{"files": {}, "meta": {"api-version": "1.0"}}',
            b'{"files": [1], "meta": {"api-version": "1.0"}}',
            b'{"files": [{}], "meta": {"api-version": "1.0"}}',
            b'{"files": [], "meta": {"api-version": 1}}',
            b'{"files": [], "meta": {"api-version": "1.0", "more": NaN}}',
            b'{"files": [], "meta": {"api-version": "1.0"}, "project-status": 3}',
        ],
    )
    def test_broken_json(self, body: bytes) -> None:
        """What is no such JSON is an invalid page, however deep."""
        with pytest.raises(InvalidPage):
            parse_page(body, JSON_TYPE, URL, A)

    def test_newer_major_version_is_refused(self) -> None:
        """PEP 629 again."""
        with pytest.raises(InvalidPage, match="version '2"):
            from_json(meta={"api-version": "2.0"})

    def test_a_project_that_is_quarantined(self) -> None:
        """PEP 792: it says so, and no file of it is had, in whatever form the page is."""
        said = {"status": "quarantined", "reason": "malware"}
        page = from_json({"filename": "a-1.whl", "url": "a-1.whl"}, **{"project-status": said})
        html = (
            '<meta name="pypi:project-status" content="quarantined">'
            '<meta name="pypi:project-status-reason" content="malware">'
            '<a href="a-1.whl">a-1.whl</a>'
        )
        assert page == parse_page(html.encode(), "text/html", URL, A)
        assert page.status == Status("quarantined", "malware")
        assert page.notes == ("the project is quarantined: malware",)
        assert page.files == ()

    def test_a_project_that_is_archived(self) -> None:
        """PEP 792: its files stay, as do those of a project of whose status nobody knows yet."""
        for marker in ("archived", "deprecated", "resting"):
            files = {"filename": "a-1.whl", "url": "a-1.whl"}
            page = from_json(files, **{"project-status": {"status": marker}})
            assert (page.status.marker, len(page.files)) == (marker, 1)

    def test_null_digest(self) -> None:
        """A digest that is null is none; the page stays readable."""
        entry = {"filename": "a-1.whl", "url": "a-1.whl", "hashes": {"md5": None, "SHA256": "AB"}}
        assert from_json(entry).files[0].hashes == {"sha256": "ab"}


class TestContentType:
    """The answer says what it is."""

    def test_something_else_is_refused(self) -> None:
        """A page of another type is not an index page, and the error says what to check."""
        with pytest.raises(InvalidPage, match="image/png") as excinfo:
            parse_page(b"", "image/png", "https://me:secret@index.example/", A)
        assert "secret" not in str(excinfo.value.parts())

    @pytest.mark.parametrize("body", [b'{"files": []}', b"<html></html>"])
    def test_no_type(self, body: bytes) -> None:
        """Without a type, the first byte tells."""
        assert parse_page(body, "", URL, A).files == ()


def test_published_variant_index(request: pytest.FixtureRequest) -> None:
    """Pages of the index that PyTorch's variants were published on are read."""
    folder = request.config.rootpath.parent / "shared/data/variants-index/torch"
    page = folder / "index.html"
    if not page.is_file():
        pytest.skip("the published index is not at hand")
    parsed = parse_page(page.read_bytes(), "text/html", Path(page).as_uri(), A)
    assert any(file.filename.endswith("-variants.json") for file in parsed.files)
    assert any(file.filename.endswith(".whl") for file in parsed.files)
