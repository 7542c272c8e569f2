"""The parts put together as settings say."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from wheelfit.sources.open import open_sources
from wheelfit.sources.page import File
from wheelfit.sources.settings import SourceSettings
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import InvalidConfiguration, UnexpectedStatus, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wheelfit.sources.memoized import MemoizedRepository

A = canonicalize_name("a")
QUICK = SourceSettings(retries=0, timeout=5.0, keyring="disabled", no_index=True)
CERTIFICATES = Path(__file__).parent / "certificates"


@pytest.fixture
def notes() -> list[str]:
    """Give a list that notes arrive in."""
    return []


@pytest.fixture
def opened(tmp_path: Path, notes: list[str]) -> Iterator[Callable[..., MemoizedRepository]]:
    """Give a function that opens sources."""
    made: list[MemoizedRepository] = []

    def make(**settings: Any) -> MemoizedRepository:
        options = {
            "cache_folder": tmp_path / "cache",
            "environ": settings.pop("environ", {}),
            "home": tmp_path,
            "working_folder": tmp_path,
            "note": notes.append,
        }
        options |= {
            name: settings.pop(name) for name in ("offline", "urls_with_logins") if name in settings
        }
        if "index_url" in settings:
            settings["no_index"] = False
        made.append(open_sources(replace(QUICK, **settings), **options))
        return made[-1]

    yield make
    for sources in made:
        sources.close()


def page(server: Any, *anchors: str) -> Any:
    """Return a page."""
    return server.reply("".join(anchors).encode(), headers={"Content-Type": "text/html"})


def test_order(server: Any, opened: Any, tmp_path: Path) -> None:
    """F-126: the index, then the extra ones; the first that knows supplies, beside find-links."""
    for name in ("a", "b", "c"):
        server.replies[f"/main/{name}/"] = page(
            server, f'<a href="{name}-1-py3-none-any.whl">x</a>'
        )
        server.replies[f"/more/{name}/"] = page(
            server, f'<a href="{name}-2-py3-none-any.whl">x</a>'
        )
    del server.replies["/main/c/"]
    build_wheel(tmp_path / "links", "a", "0.1")
    sources = opened(
        find_links=("links",),
        index_url=f"{server.url}/main",
        extra_index_urls=(f"{server.url}/more",),
    )
    found = [sources.project(canonicalize_name(name)) for name in "abcd"]
    assert [each and [file.filename for file in each.files] for each in found] == [
        ["a-0.1-py3-none-any.whl", "a-1-py3-none-any.whl"],
        ["b-1-py3-none-any.whl"],
        ["c-2-py3-none-any.whl"],
        None,
    ]


def test_places_of_every_kind(opened: Any, notes: list[str], tmp_path: Path) -> None:
    """A place is a path, a file: URL, a page or a wheel; one that is missing costs a note."""
    wheel = build_wheel(tmp_path / "b c", "b", "1")
    (tmp_path / "page.html").write_text('<a href="x/c-1-py3-none-any.whl">c</a>')
    (tmp_path / "simple/d").mkdir(parents=True)
    build_wheel(tmp_path / "simple/d", "d", "1")
    sources = opened(
        find_links=("absent", wheel.parent.as_uri(), "page.html"),
        index_url=(tmp_path / "simple").as_uri(),
        extra_index_urls=(str(tmp_path / "nothing"),),
    )
    for name in "bcd":
        assert sources.project(canonicalize_name(name)) is not None
    assert sources.project(A) is None
    assert [note.partition(",")[0] for note in notes] == [
        str(tmp_path / "absent"),
        str(tmp_path / "nothing"),
    ]


def test_a_page_of_files_is_downloaded(server: Any, opened: Any, tmp_path: Path) -> None:
    """Everything together: a page, metadata by a range, the wheel, all kept for offline use."""
    wheel = build_wheel(tmp_path / "w", "a", "1", requires=["b"])
    import hashlib

    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    server.replies["/simple/a/"] = page(server, f'<a href="/f/{wheel.name}#sha256={digest}">a</a>')
    server.serve_file(f"/f/{wheel.name}", wheel.read_bytes())
    for offline in (False, True):
        sources = opened(index_url=f"{server.url}/simple", offline=offline)
        found = sources.project(A)
        assert found is not None
        assert b"Requires-Dist: b" in sources.metadata(found.files[0])
        target = tmp_path / f"target-{offline}"
        target.mkdir()
        assert sources.download(found.files[0], target).read_bytes() == wheel.read_bytes()
    assert len(server.requests) == 3


def test_no_cache(server: Any, opened: Any, tmp_path: Path) -> None:
    """Without cache nothing is left on disk."""
    server.replies["/simple/a/"] = page(server)
    opened(index_url=f"{server.url}/simple", cache=False).project(A)
    assert not (tmp_path / "cache").exists()


def test_plain_http_is_left_out(opened: Any, notes: list[str]) -> None:
    """As in pip, an index that anybody on the way could change is not asked."""
    sources = opened(
        index_url="http://index.invalid/simple", find_links=("http://links.invalid/x.html",)
    )
    assert sources.project(A) is None
    assert len(notes) == 2
    assert all("--trusted-host" in note for note in notes)


def test_trusted_plain_http_is_asked(opened: Any) -> None:
    """Unless the user trusts the host."""
    sources = opened(index_url="http://index.invalid/simple", trusted_hosts=("index.invalid",))
    with pytest.raises(Unreachable):
        sources.project(A)


def test_netrc(server: Any, opened: Any, tmp_path: Path) -> None:
    """Logins in netrc are used for the host they name."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password pw\n")
    (tmp_path / ".netrc").chmod(0o600)
    server.replies["/simple/a/"] = page(server)
    opened(index_url=f"{server.url}/simple").project(A)
    assert server.requests[0].headers["authorization"] == "Basic bWU6cHc="


def test_login_reaches_files_and_nobody_else(server: Any, other_server: Any, opened: Any) -> None:
    """The login of an index is used for its files, not for files of another server."""
    server.replies["/simple/a/"] = page(
        server,
        '<a href="/f/a-1-variants.json">a</a>',
        f'<a href="{other_server.url}/a-2-variants.json">a</a>',
    )
    server.replies["/f/a-1-variants.json"] = server.reply(b"{}")
    other_server.replies["/a-2-variants.json"] = other_server.reply(b"{}")
    sources = opened(index_url=server.url.replace("://", "://me:secret@") + "/simple")
    found = sources.project(A)
    assert found is not None
    for file in found.files:
        sources.read(file)
    assert [("authorization" in request.headers) for request in server.requests] == [True, True]
    assert "authorization" not in other_server.requests[0].headers
    assert "secret" not in json.dumps([sources.name, repr(found)])


def test_given_wheels(server: Any, opened: Any, tmp_path: Path) -> None:
    """A wheel named by path or URL needs no source; a login in its URL is used there only."""
    wheel = build_wheel(tmp_path / "w", "a", "1")
    server.serve_file(f"/{wheel.name}", wheel.read_bytes())
    url = f"{server.url}/{wheel.name}"
    sources = opened(urls_with_logins=[url.replace("://", "://me:pw@")])
    for given in (url, wheel.as_uri()):
        file = File(wheel.name, given, source="the request")
        assert b"Name: a" in sources.metadata(file)
        assert sources.download(file, tmp_path).is_file()
    assert all("authorization" in request.headers for request in server.requests)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can be somebody else")
def test_cache_of_another_user(opened: Any, tmp_path: Path, notes: list[str]) -> None:
    """Root leaves nothing in the cache of a user, as in pip."""
    os.chown(tmp_path, 1000, 1000)
    opened()
    assert "belongs to another user" in notes[0]


def test_wanted_login(server: Any, opened: Any) -> None:
    """An index that wants a login says so, and is not taken for one that knows nothing."""
    server.replies["/simple/a/"] = server.reply(status=401)
    with pytest.raises(UnexpectedStatus, match="user name and password"):
        opened(index_url=f"{server.url}/simple").project(A)


def test_certificates(tls_server: Any, opened: Any) -> None:
    """Over TLS the named authority counts; without it the server is not trusted."""
    tls_server.replies["/simple/a/"] = page(tls_server)
    url = f"{tls_server.url}/simple"
    with pytest.raises(Unreachable, match="not trusted"):
        opened(index_url=url).project(A)
    assert opened(index_url=url, cert=str(CERTIFICATES / "authority.pem")).project(A) is not None
    environ = {"SSL_CERT_FILE": str(CERTIFICATES / "authority.pem")}
    assert opened(index_url=url, environ=environ).project(A) is not None
    with pytest.raises(InvalidConfiguration):
        opened(index_url=url, environ={"SSL_CERT_FILE": "/absent.pem"})


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_trusted_host(tls_server: Any, opened: Any) -> None:
    """A trusted host, with its port or for every port, needs no certificate."""
    tls_server.replies["/simple/a/"] = page(tls_server)
    url = f"{tls_server.url}/simple"
    for trusted in ("127.0.0.1", f"127.0.0.1:{tls_server.port}"):
        assert opened(index_url=url, trusted_hosts=(trusted,)).project(A) is not None
    with pytest.raises(Unreachable):
        opened(index_url=url, trusted_hosts=("127.0.0.1:1",)).project(A)


def test_proxy(server: Any, opened: Any) -> None:
    """Requests go through the proxy of the settings, or of the environment."""
    server.replies["http://index.invalid/simple/a/"] = page(server)
    for options in (
        {"proxy": server.url},
        {"environ": {"http_proxy": server.url}},
    ):
        sources = opened(
            index_url="http://index.invalid/simple", trusted_hosts=("index.invalid",), **options
        )
        assert sources.project(A) is not None
    with pytest.raises(Unreachable):
        opened(
            index_url="http://index.invalid/simple",
            trusted_hosts=("index.invalid",),
            environ={"http_proxy": server.url},
            proxy="",
        ).project(A)


def test_local_folder_stands_in_for_a_server(opened: Any, notes: list[str], tmp_path: Path) -> None:
    """A machine without network still installs from its own folders, with a note."""
    build_wheel(tmp_path / "simple/a", "a", "1")
    sources = opened(
        index_url="http://127.0.0.1:1/simple",
        extra_index_urls=((tmp_path / "simple").as_uri(),),
    )
    assert sources.project(A) is not None
    assert "cannot be read" in notes[0]
    with pytest.raises(Unreachable):
        sources.project(canonicalize_name("b"))


@pytest.mark.parametrize(
    "settings",
    [
        {"index_url": "ftp://h/simple"},
        {"index_url": "file://elsewhere/simple"},
        {"index_url": "https:///simple"},
        {"find_links": ("git+https://h/x",)},
        {"trusted_hosts": ("",)},
        {"trusted_hosts": ("h:port",)},
        {"cert": "/absent.pem"},
        {"client_cert": "/absent.pem"},
    ],
)
def test_wrong_settings(opened: Any, settings: dict[str, Any]) -> None:
    """What cannot be meant is an error at once."""
    with pytest.raises(InvalidConfiguration):
        opened(**settings)


def test_notes_come_once(server: Any, opened: Any, notes: list[str]) -> None:
    """A note that concerns a server is given once, however often it happens."""
    for _ in range(3):
        sources = opened(find_links=(f"{server.url}/absent.html",))
        sources.project(A)
        sources.project(canonicalize_name("b"))
        assert len(notes) == 1
        notes.clear()
