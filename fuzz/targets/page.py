"""Pages of the Simple API, JSON and HTML: what comes off them is fit to be used (PEP 503, 691)."""

from __future__ import annotations

import html
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from wheelfit.core.filename import parse_index_file_name, parse_wheel_filename
from wheelfit.errors import InvalidFilename
from wheelfit.sources.page import VARIANTS_SUFFIX
from wheelfit.sources.simple_api import parse_links
from wheelfit.sources.urls import last_segment, origin, split_userinfo
from wheelfit_runtime.errors import InvalidPage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.sources.page import File

LONGEST = 4096
"""Bytes of an input."""

REMOTE = "https://index.example/simple/a/"
LOCAL = "file:///srv/wheels/a/index.html"
JSON = "application/vnd.pypi.simple.v1+json"
KINDS = [
    (JSON, REMOTE),
    ("text/html", REMOTE),
    ("", REMOTE),
    (JSON, LOCAL),
    ("text/html", LOCAL),
    ("text/html; charset=latin-1", REMOTE),
    ("text/html; charset=utf-16", REMOTE),
    ("application/vnd.pypi.simple.v1+html; charset=none", "http://[::1]:8080/simple/a/?x=y"),
]
"""Content type and address; the first byte of an input chooses."""
DIGEST = re.compile(r"[0-9a-f]+")
ALGORITHM = re.compile(r"[a-z0-9_]+")
PRINTABLE_ASCII = re.compile(r"[!-~]+")
LONGEST_WORDS = 500


def check(data: bytes) -> None:
    """Hold the reader of pages to its promises for one page."""
    content_type, url = KINDS[(data[0] if data else 0) % len(KINDS)]
    body = data[1:]
    try:
        files, notes = parse_links(body, content_type, url, source="s")
    except InvalidPage as error:
        assert error.message.isprintable()
        return
    for note in notes:
        assert note.isprintable()
    for file in files:
        check_file(file, url, in_hex="html" in content_type)
    # Of what may not be there the rewritten page has nothing.
    files = tuple(replace(file, forbidden=()) for file in files)
    check_json(files, url)
    check_html(files, url)


def check_file(file: File, page: str, *, in_hex: bool) -> None:
    """Check that everything a file carries is of the shape that `File` promises."""
    check_url(file.url, page)
    assert 0 < len(file.filename) <= 255
    assert not {"/", "\\"} & set(file.filename)
    assert file.filename not in {".", ".."}
    assert file.filename.isprintable()
    assert file.source == "s"
    assert file.size is None or file.size >= 0
    assert file.requires_python != ""
    if file.yanked is not None:
        assert len(file.yanked) <= LONGEST_WORDS
        assert file.yanked.isprintable()
    for hashes in (file.hashes, file.metadata_hashes or {}):
        for algorithm, digest in hashes.items():
            assert algorithm == algorithm.lower()
            assert digest == digest.lower() != ""
            if in_hex:
                assert ALGORITHM.fullmatch(algorithm)
                assert DIGEST.fullmatch(digest)
    if file.filename.endswith(VARIANTS_SUFFIX):  # F-72
        assert (file.requires_python, file.yanked, file.metadata_hashes) == (None, None, None)
    else:
        assert file.forbidden == ()
    parse_index_file_name(file.filename)
    with suppress(InvalidFilename):
        parse_wheel_filename(file.filename)


def check_url(url: str, page: str) -> None:
    """Check that a URL is absolute, escaped, without secrets, and leads where the page may."""
    assert PRINTABLE_ASCII.fullmatch(url)
    assert "#" not in url
    assert split_userinfo(url) == (url, None)
    if url.startswith("file:"):
        assert page.startswith("file:")
    else:
        where = origin(url)
        assert where.scheme in {"http", "https"}
        assert PRINTABLE_ASCII.fullmatch(where.host)
        assert url.lower().startswith(("http://", "https://"))


def check_json(files: tuple[File, ...], url: str) -> None:
    """Check that a JSON page written from what was read says the same."""
    body = json.dumps({"meta": {"api-version": "1.0"}, "files": [entry(file) for file in files]})
    again, notes = parse_links(body.encode(), JSON, url, source="s")
    assert again == files
    assert [dict(file.hashes) for file in again] == [dict(file.hashes) for file in files]
    assert [file.metadata_hashes for file in again] == [file.metadata_hashes for file in files]
    assert notes == ()


def check_html(files: tuple[File, ...], url: str) -> None:
    """Check that an HTML page does so too, of what can be said in HTML."""
    sayable = [replace(file, size=None, upload_time=None) for file in files if in_html(file)]
    body = "".join(map(anchor, sayable)).encode()
    again, notes = parse_links(body, "text/html", url, source="s")
    assert list(again) == sayable
    assert [file.hashes for file in again] == [file.hashes for file in sayable]
    assert [file.metadata_hashes for file in again] == [file.metadata_hashes for file in sayable]
    assert notes == ()


def in_html(file: File) -> bool:
    """Say whether an anchor can say everything about a file."""
    digests = [*file.hashes.items(), *(file.metadata_hashes or {}).items()]
    return file.filename == last_segment(file.url).strip() and all(
        ALGORITHM.fullmatch(name) and DIGEST.fullmatch(digest) for name, digest in digests
    )


def anchor(file: File) -> str:
    """Write a file as an anchor of an HTML page."""
    attributes = {"href": f"{file.url}#{fragment(file.hashes)}"}
    if file.requires_python is not None:
        attributes["data-requires-python"] = file.requires_python
    if file.yanked is not None:
        attributes["data-yanked"] = file.yanked
    if file.metadata_hashes is not None:
        attributes["data-core-metadata"] = fragment(file.metadata_hashes) or "true"
    words = " ".join(f"{name}='{html.escape(value)}'" for name, value in attributes.items())
    return f"<a {words}>{html.escape(file.filename)}</a>\n"


def fragment(hashes: Mapping[str, str]) -> str:
    """Write digests as the fragment of a URL."""
    return "&".join(f"{name}={digest}" for name, digest in hashes.items())


def entry(file: File) -> dict[str, Any]:
    """Write a file as an entry of a JSON page."""
    metadata = file.metadata_hashes
    return {
        "filename": file.filename,
        "url": file.url,
        "hashes": dict(file.hashes),
        "requires-python": file.requires_python,
        "yanked": False if file.yanked is None else (file.yanked or True),
        "size": file.size,
        "upload-time": file.upload_time,
        "core-metadata": (dict(metadata) or True) if metadata is not None else False,
    }
