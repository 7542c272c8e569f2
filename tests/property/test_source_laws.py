"""Laws of pages, URLs and credentials."""

from __future__ import annotations

import gzip
import html
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from wheelfit.sources.body import read_body
from wheelfit.sources.cache import Store
from wheelfit.sources.cached_pages import Copy
from wheelfit.sources.credentials import Credentials, Login, NetrcEntries
from wheelfit.sources.html_links import read_links
from wheelfit.sources.parsed_pages import ParsedPages
from wheelfit.sources.simple_api import parse_page
from wheelfit.sources.transport import Interrupted
from wheelfit.sources.urls import join, origin, redact, split_userinfo
from wheelfit_runtime.errors import InvalidPage, UnexpectedStatus

if TYPE_CHECKING:
    from pathlib import Path

URL = "https://index.example/simple/a/"
A = canonicalize_name("a")

NAMES = st.builds(
    "a-{}-py3-none-any.whl".format,
    st.text(
        st.characters(codec="utf-8", exclude_characters="/\\", exclude_categories=["C", "Z"]),
        min_size=1,
        max_size=6,
    ),
)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=12)
DIGESTS = st.text("0123456789abcdefABCDEF", min_size=1, max_size=8)
ENTRIES = st.fixed_dictionaries(
    {
        "name": NAMES,
        "folder": st.sampled_from(["", "./", "../../f/", "/f/", "https://cdn.example/x/"]),
        "digest": st.none() | DIGESTS,
        "requires_python": st.none() | TEXTS,
        "yanked": st.none() | TEXTS,
        "metadata": st.none() | st.just("true") | DIGESTS,
    }
)


def anchor(entry: dict[str, Any], quotes: str) -> str:
    """Write an entry as HTML."""
    href = entry["folder"] + quote(entry["name"])
    if entry["digest"] is not None:
        href += f"#sha256={entry['digest']}"
    attributes = {"href": href}
    if entry["requires_python"] is not None:
        attributes["data-requires-python"] = entry["requires_python"]
    if entry["yanked"] is not None:
        attributes["data-yanked"] = entry["yanked"]
    if entry["metadata"] is not None:
        value = entry["metadata"] if entry["metadata"] == "true" else f"sha256={entry['metadata']}"
        attributes["data-core-metadata"] = value
    text = "".join(f" {name}={quotes}{html.escape(v)}{quotes}" for name, v in attributes.items())
    return f"<a{text}>{html.escape(entry['name'])}</a><br/>\n"


def mapping(entry: dict[str, Any]) -> dict[str, Any]:
    """Write an entry as JSON."""
    metadata = entry["metadata"]
    return {
        "filename": entry["name"],
        "url": entry["folder"] + quote(entry["name"]),
        "hashes": {} if entry["digest"] is None else {"sha256": entry["digest"]},
        "requires-python": entry["requires_python"],
        "yanked": False if entry["yanked"] is None else (entry["yanked"] or True),
        "core-metadata": metadata and (True if metadata == "true" else {"sha256": metadata}),
    }


@settings(max_examples=300)
@given(st.lists(ENTRIES, max_size=6), st.sampled_from("\"'"))
def test_html_and_json_say_the_same(entries: list[dict[str, Any]], quotes: str) -> None:
    """PEP 691: a listing means the same in both forms."""
    page = "".join(anchor(entry, quotes) for entry in entries).encode()
    body = json.dumps({"meta": {"api-version": "1.0"}, "files": [mapping(e) for e in entries]})
    from_html = parse_page(page, "text/html", URL, A)
    from_json = parse_page(body.encode(), "application/vnd.pypi.simple.v1+json", URL, A)
    assert from_html == from_json
    assert [file.filename for file in from_html.files] == [entry["name"] for entry in entries]


@settings(max_examples=100)
@given(st.lists(ENTRIES, max_size=4))
def test_remembered_pages_are_equal(tmp_path_factory: Any, entries: list[dict[str, Any]]) -> None:
    """What is remembered of a page is the page."""
    folder: Path = tmp_path_factory.mktemp("cache")
    body = "".join(anchor(entry, '"') for entry in entries).encode() + b" " * 20_000
    copy = Copy(body, URL, {"content-type": "text/html"}, 0.0)
    pages = [ParsedPages(Store(folder)).page(copy, A, source="s") for _ in range(2)]
    parsed = parse_page(body, "text/html", URL, A, source="s")
    for page in pages:
        assert page is not None
        assert replace(page, stamp="", fresh_seconds=0.0) == parsed


@settings(max_examples=500)
@given(st.text("<>a/!-='\" \nhref&;x#b", max_size=60))
def test_any_text_is_a_page(text: str) -> None:
    """No text makes the reader of links fail, and links come from anchors only."""
    links = read_links(text).links
    assert len(links) <= text.count("<a")


@given(st.binary(max_size=60), st.sampled_from(["application/json", "text/html", "", "x/y"]))
def test_any_bytes_are_a_page_or_an_error(body: bytes, content_type: str) -> None:
    """Bytes of any kind are a page or an invalid page, nothing else."""
    try:
        page = parse_page(body, content_type, URL, A)
    except InvalidPage:
        return
    assert all("/" not in file.filename for file in page.files)


SECRETS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=6, max_size=9)


@given(SECRETS, SECRETS, st.sampled_from(["h", "h:8080", "[::1]:1", "h.example"]))
def test_credentials_survive_splitting_and_are_never_shown(
    user: str, password: str, host: str
) -> None:
    """Splitting gives back what was put in; what is shown has neither part."""
    encoded = f"{quote(user, safe='')}:{quote(password, safe='')}"
    url = f"https://{encoded}@{host}/simple/"
    assert split_userinfo(url) == (f"https://{host}/simple/", (user, password))
    assert redact(url) == f"https://****@{host}/simple/"
    assert redact(f"see {url}, please") == f"see https://****@{host}/simple/, please"


HOSTS = st.sampled_from(["h.example", "evil.example", "h.example.evil.example"])
URLS = st.builds(
    "{}://{}{}/{}".format,
    st.sampled_from(["http", "https"]),
    HOSTS,
    st.sampled_from(["", ":443", ":80", ":8080"]),
    st.sampled_from(["simple/a/", "f/x.whl", "", "team/one/simple/"]),
)


@given(st.lists(URLS, min_size=1, max_size=4), URLS, URLS)
def test_logins_stay_with_their_origin(indexes: list[str], url: str, previous: str) -> None:
    """A login reaches URLs of the origin of its index only, directly or by redirect."""
    known = Credentials(
        [url.replace("://", f"://u{number}:p@") for number, url in enumerate(indexes)],
        logins=NetrcEntries({}),
    )
    for login in (known.first(url), known.after_redirect(url, previous)):
        if login is not None:
            assert login.password == "p"
            assert origin(indexes[int(login.user[1:])]) == origin(url)
    if origin(url) not in {origin(index) for index in indexes}:
        assert known.first(url) is None
    upgrade = origin(previous).host == origin(url).host and origin(url).scheme == "https"
    if origin(previous) != origin(url) and not upgrade:
        assert known.after_redirect(url, previous) is None


@given(st.text(max_size=20))
def test_joined_urls_are_clean(reference: str) -> None:
    """Whatever a page links to, the URL has no blanks, line breaks or control characters."""
    try:
        url = join(URL, reference)
    except ValueError:
        return
    assert all("!" <= character <= "~" for character in url)


@given(st.text(max_size=20), st.text(max_size=20))
def test_logins_are_shown_to_nobody(user: str, password: str) -> None:
    """The representation of a login says nothing about it."""
    assert repr(Login(user, password)) == "Login(****)"


@given(st.binary(max_size=3000), st.integers(0, 4000), st.integers(1, 700))
def test_bodies_end_at_the_limit(data: bytes, limit: int, step: int) -> None:
    """A compressed body is read exactly if it is within the limit, in pieces of any size."""
    packed = gzip.compress(data)
    pieces = [packed[start : start + step] for start in range(0, len(packed), step)]
    response: Any = SimpleNamespace(
        status=200, headers={"content-encoding": "gzip"}, chunks=lambda: iter(pieces)
    )
    try:
        assert read_body(response, limit, where="w") == data
        assert len(data) <= limit
    except UnexpectedStatus:
        assert len(data) > limit
    except Interrupted:
        raise AssertionError("the body was complete") from None
