"""An index over HTTP, on real servers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from packaging.utils import canonicalize_name

from wheelfit.sources.cache import Store
from wheelfit.sources.file_readers import AllFiles
from wheelfit.sources.http_index import HttpIndex
from wheelfit.sources.merged import Pool
from wheelfit_runtime.errors import InvalidPage, UnexpectedStatus, Unreachable

if TYPE_CHECKING:
    from pathlib import Path

A = canonicalize_name("a")


def index(url: str, pages: Any, notes: list[str] | None = None) -> HttpIndex:
    """Make an index whose files nobody reads."""
    return HttpIndex(
        url, pages, AllFiles(), note=notes.append if notes is not None else pytest.fail
    )


@pytest.fixture(params=["html", "json"])
def served(request: pytest.FixtureRequest, server: Any) -> Any:
    """Serve one project, in either form."""
    if request.param == "html":
        body, kind = b'<a href="../../f/a-1-py3-none-any.whl">a</a>', "text/html"
    else:
        entry = {
            "filename": "a-1-py3-none-any.whl",
            "url": "../../f/a-1-py3-none-any.whl",
            "hashes": {},
        }
        body = json.dumps({"meta": {"api-version": "1.0"}, "files": [entry]}).encode()
        kind = "application/vnd.pypi.simple.v1+json"
    server.replies["/simple/a/"] = server.reply(body, headers={"Content-Type": kind})
    return server


@pytest.mark.parametrize("end", ["/simple", "/simple/", "/simple//"])
def test_project(served: Any, make_pages: Any, end: str) -> None:
    """The page of a project is found, whether or not the index URL ends with a slash."""
    page = index(served.url + end, make_pages()).project(A)
    assert page is not None
    assert page.name == "a"
    assert page.files[0].url == f"{served.url}/f/a-1-py3-none-any.whl"
    assert page.source == page.files[0].source == served.url + end
    assert "json" in served.requests[0].headers["accept"]


def test_credentials(served: Any, make_pages: Any) -> None:
    """They are sent, and stand neither in the name nor in any file."""
    url = served.url.replace("://", "://me:secret@") + "/simple"
    page = index(url, make_pages(url)).project(A)
    assert page is not None
    assert served.requests[0].headers["authorization"].startswith("Basic ")
    assert "secret" not in repr(page)
    assert page.source == f"http://****@127.0.0.1:{served.port}/simple"


def test_redirected_page(served: Any, make_pages: Any) -> None:
    """Links are relative to where the page was found in the end."""
    served.replies["/old/a/"] = served.reply(status=301, headers={"Location": "/simple/a/"})
    page = index(f"{served.url}/old/", make_pages()).project(A)
    assert page is not None
    assert page.files[0].url == f"{served.url}/f/a-1-py3-none-any.whl"


@pytest.mark.parametrize("status", [404, 410])
def test_unknown(server: Any, make_pages: Any, status: int) -> None:
    """What is not there is not known."""
    server.replies["/simple/a/"] = server.reply(status=status)
    assert index(f"{server.url}/simple", make_pages()).project(A) is None


def test_forbidden(server: Any, make_pages: Any) -> None:
    """403 without a login is what static hosts say for 404; with a login it is an error."""
    server.replies["/simple/a/"] = server.reply(status=403)
    notes: list[str] = []
    assert index(f"{server.url}/simple", make_pages(), notes).project(A) is None
    assert "403" in notes[0]
    url = server.url.replace("://", "://me:secret@") + "/simple"
    with pytest.raises(UnexpectedStatus, match="forbidden") as excinfo:
        index(url, make_pages(url)).project(A)
    assert "secret" not in str(excinfo.value.parts())


def test_no_index_page(server: Any, make_pages: Any) -> None:
    """Something else than a page is an error that says so."""
    server.replies["/simple/a/"] = server.reply(b"x", headers={"Content-Type": "image/png"})
    with pytest.raises(InvalidPage):
        index(f"{server.url}/simple", make_pages()).project(A)


def test_no_server(make_pages: Any) -> None:
    """An index that is not there is unreachable, shown without credentials."""
    with pytest.raises(Unreachable) as excinfo:
        index("http://me:secret@127.0.0.1:1/simple", make_pages()).project(A)
    assert "secret" not in str(excinfo.value.parts())


def test_truncated_page(server: Any, make_pages: Any) -> None:
    """A page that breaks off each time is an error and not a shorter page."""
    server.replies["/simple/a/"] = server.reply(
        b'<a href="a-1.whl">a</a>' * 100, headers={"Content-Type": "text/html"}, cut_after=500
    )
    with pytest.raises(Unreachable, match="broke off"):
        index(f"{server.url}/simple", make_pages()).project(A)


def test_a_page_of_another_index_is_not_of_this_one(
    served: Any, other_server: Any, make_pages: Any
) -> None:
    """A redirect to another index says nothing of this one, where that is what is asked."""
    other_server.replies["/simple/a/"] = served.replies["/simple/a/"]
    served.replies["/own/a/"] = served.reply(status=302, headers={"Location": "/own/a/x/"})
    served.replies["/own/a/x/"] = served.replies["/simple/a/"]
    away = f"{other_server.url}/simple/a/"
    served.replies["/away/a/"] = served.reply(status=302, headers={"Location": away})
    served.replies["/beside/a/"] = served.reply(status=302, headers={"Location": "/simple/a/"})
    pages = make_pages()
    for path, is_here in (("own", True), ("away", False), ("beside", False)):
        notes: list[str] = []
        confined = HttpIndex(
            f"{served.url}/{path}",
            pages,
            AllFiles(),
            requires_pages_below_url=True,
            note=notes.append,
        )
        assert (confined.project(A) is not None) is is_here
        assert bool(notes) is not is_here
        assert index(f"{served.url}/{path}", pages).project(A) is not None


@pytest.mark.parametrize("status", [404, 403])
def test_offline_a_missing_project_is_known(
    served: Any, other_server: Any, make_pages: Any, tmp_path: Path, status: int
) -> None:
    """Offline, an index that lacked a project lacks it still, so the next one is read (as uv)."""
    other_server.replies["/simple/a/"] = served.reply(status=status)
    for offline in (False, True):
        pages = make_pages(store=Store(tmp_path), offline=offline)
        first = index(f"{other_server.url}/simple", pages, [])
        page = Pool([first, index(f"{served.url}/simple", pages)]).project(A)
        assert page is not None
        assert [file.filename for file in page.files] == ["a-1-py3-none-any.whl"]
    assert len(other_server.requests) == 1
    with pytest.raises(Unreachable):  # it was never requested, so it may be private
        first.project(canonicalize_name("b"))
