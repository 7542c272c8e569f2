"""Pages with memory are never staler than the server allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wheelfit.sources.cache import Store
from wheelfit.sources.cached_pages import SharedPages
from wheelfit.sources.certificates import verifying_context
from wheelfit.sources.client import Answer
from wheelfit.sources.memory_cache import MemoryCache
from wheelfit.sources.urllib3_transport import Urllib3Transport
from wheelfit_runtime.errors import InvalidPage, UnexpectedStatus, Unreachable

CERTIFICATES = Path(__file__).parent / "certificates"


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Give a clock."""
    return Clock()


@pytest.fixture
def pages(make_pages: Any, tmp_path: Path, clock: Clock) -> Any:
    """Give pages that remember."""
    return make_pages(store=Store(tmp_path), clock=clock)


def versioned(server: Any, *, control: str | None = None, validator: str = "ETag") -> list[bytes]:
    """Serve a page that can change; return the list that holds its present content."""
    content = [b"one"]

    def answer(request: Any) -> Any:
        value = (
            f'"{content[0].decode()}"' if validator == "ETag" else "Thu, 01 Jan 2026 00:00:00 GMT"
        )
        headers = {validator: value, "Content-Type": "text/html"}
        if control is not None:
            headers["Cache-Control"] = control
        asked = request.headers.get("if-none-match" if validator == "ETag" else "if-modified-since")
        if asked == value:
            return server.reply(status=304, headers=headers)
        return server.reply(content[0], headers=headers)

    server.replies["/p"] = answer
    return content


def test_revalidation(server: Any, pages: Any) -> None:
    """Without a word about freshness the server is asked each time, at the cost of no bytes."""
    versioned(server)
    url = f"{server.url}/p"
    first, second = pages.get(url), pages.get(url)
    assert first.body == second.body == b"one"
    assert second.status == 200
    assert second.headers["content-type"] == "text/html"
    assert [request.headers.get("if-none-match") for request in server.requests] == [None, '"one"']


@pytest.mark.parametrize("control", ["no-cache", "max-age=60"])
def test_a_long_body_stays_on_disk(server: Any, pages: Any, clock: Clock, control: str) -> None:
    """The current copy has its digest, and its body when it is wanted."""
    content = [b"long" * 100_000]

    def answer(request: Any) -> Any:
        headers = {"ETag": f'"{len(content[0])}"', "Cache-Control": control}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return server.reply(status=304, headers=headers)
        return server.reply(content[0], headers=headers)

    server.replies["/p"] = answer
    url = f"{server.url}/p"
    first = pages.current(url, "*/*")
    assert len(first.body) == 400_000
    second = pages.current(url, "*/*")
    assert len(second.body) == 0
    assert second.sha256 == first.sha256
    whole = pages.with_body(url, "*/*", second)
    assert len(whole.body) == 400_000
    assert whole.sha256 == first.sha256
    content[0] = b"other"
    clock.now += 100
    assert pages.current(url, "*/*").body == b"other"
    assert pages.with_body(url, "*/*", second).body == b"other"  # the old one is gone
    server.replies["/p"] = server.reply(status=404)
    clock.now += 100
    assert pages.current(url, "*/*").status == 404


@pytest.mark.parametrize("validator", ["ETag", "X-Nothing"])
def test_what_came_again_is_not_written_again(
    server: Any, pages: Any, tmp_path: Path, validator: str
) -> None:
    """A page that is as it was, and not called fresh, costs no writing; a changed one does."""
    content = versioned(server, validator=validator)
    url = f"{server.url}/p"

    def written() -> dict[str, int]:
        files = (path for path in (tmp_path / "pages-1").rglob("*") if path.is_file())
        return {path.name: path.stat().st_ino for path in files}  # each writing makes a new file

    pages.get(url)
    before = written()
    assert pages.get(url).body == b"one"
    assert written() == before
    content[0] = b"two"
    assert pages.get(url).body == b"two"
    assert written() != before


def test_dates_do_not_tell_servers_apart(server: Any, pages: Any) -> None:
    """Two servers tried on one port, one after the other, are not mixed up by an older file."""
    content = versioned(server, validator="Last-Modified")
    pages.get(f"{server.url}/p")
    content[0] = b"two"
    assert pages.get(f"{server.url}/p").body == b"two"


def test_dates_over_tls(tls_server: Any, make_pages: Any, make_client: Any, tmp_path: Path) -> None:
    """A server with a name of its own may revalidate by date."""
    versioned(tls_server, validator="Last-Modified")
    context = verifying_context(str(CERTIFICATES / "authority.pem"), None, environ={})
    client = make_client(transport=Urllib3Transport(context=context))
    pages = make_pages(client=client, store=Store(tmp_path))
    assert [pages.get(f"{tls_server.url}/p").body for _ in range(2)] == [b"one", b"one"]
    assert "if-modified-since" in tls_server.requests[1].headers


def test_freshness(server: Any, pages: Any, clock: Clock) -> None:
    """What the server calls fresh is not asked about until it is not."""
    content = versioned(server, control="public, max-age=600")
    url = f"{server.url}/p"
    pages.get(url)
    content[0] = b"two"
    clock.now += 599
    assert pages.get(url).body == b"one"
    clock.now += 2
    assert pages.get(url).body == b"two"
    clock.now -= 700
    content[0] = b"three"
    assert pages.get(url).body == b"three"  # the clock was turned back: rely on nothing


@pytest.mark.parametrize("control", ["max-age=99999999999", "no-cache, max-age=600", "no-store"])
def test_limits_of_freshness(server: Any, pages: Any, clock: Clock, control: str) -> None:
    """Nothing is fresh for more than an hour, and no-cache and no-store are obeyed."""
    versioned(server, control=control)
    pages.get(f"{server.url}/p")
    clock.now += 3601
    pages.get(f"{server.url}/p")
    assert len(server.requests) == 2
    assert ("if-none-match" in server.requests[1].headers) == (control != "no-store")


def test_refresh(server: Any, make_pages: Any, tmp_path: Path, clock: Clock) -> None:
    """The user can insist on asking, which still costs no bytes if nothing changed."""
    versioned(server, control="max-age=600")
    store = Store(tmp_path)
    make_pages(store=store, clock=clock).get(f"{server.url}/p")
    make_pages(store=store, clock=clock, refresh=True).get(f"{server.url}/p")
    assert "if-none-match" in server.requests[1].headers


def test_offline(server: Any, make_pages: Any, tmp_path: Path, clock: Clock) -> None:
    """Offline, what is kept counts, however old; what is not kept is an error."""
    versioned(server)
    store = Store(tmp_path)
    make_pages(store=store, clock=clock).get(f"{server.url}/p")
    clock.now += 10_000_000
    offline = make_pages(store=store, clock=clock, offline=True)
    assert offline.get(f"{server.url}/p").body == b"one"
    with pytest.raises(Unreachable, match="offline"):
        offline.get(f"{server.url}/q")
    assert len(server.requests) == 1


def test_users_do_not_share(server: Any, make_pages: Any, tmp_path: Path) -> None:
    """What one login was shown is not given to another."""
    server.replies["/p"] = lambda request: server.reply(
        request.headers.get("authorization", "nobody").encode(),
        headers={"Cache-Control": "max-age=600"},
    )
    store = Store(tmp_path)
    url = f"{server.url}/p"
    login = server.url.replace("://", "://me:pw@")
    assert make_pages(login, store=store).get(url).body != b"nobody"
    assert make_pages(store=store).get(url).body == b"nobody"


def test_missing_pages_are_not_remembered(server: Any, pages: Any) -> None:
    """A project that appears is found at once."""
    assert pages.get(f"{server.url}/p").status == 404
    versioned(server)
    assert pages.get(f"{server.url}/p").status == 200


def test_unprotected_answers_are_not_kept(server: Any, make_pages: Any, tmp_path: Path) -> None:
    """What anybody on the way could have changed does not outlive the run."""
    versioned(server, control="max-age=600")
    pages = make_pages(store=Store(tmp_path), may_cache=lambda _url: False)
    pages.get(f"{server.url}/p")
    pages.get(f"{server.url}/p")
    assert [request.headers.get("if-none-match") for request in server.requests] == [None, None]


def test_redirected_page(server: Any, pages: Any) -> None:
    """A remembered page still knows where it came from, so its links keep their meaning."""
    versioned(server, control="max-age=600")
    server.replies["/from"] = server.reply(status=302, headers={"Location": "/p"})
    for _ in range(2):
        assert pages.get(f"{server.url}/from").url == f"{server.url}/p"
    assert server.paths == ["/from", "/p"]


class TestSharedPages:
    """The pages of a server, which many threads ask for."""

    def shared(self, pages: Any, **options: Any) -> tuple[Any, list[bytes]]:
        """Return a function that asks for a page, and the list of bodies that were read."""
        read: list[bytes] = []

        def parse(answer: Answer) -> str:
            read.append(answer.body)
            if answer.body == b"\xff":
                raise InvalidPage("not a page")
            return answer.body.decode()

        shared = SharedPages[str](pages, MemoryCache(1 << 20, lambda page: len(page[1])), **options)
        return lambda url: shared.get(url, "*/*", parse), read

    def test_what_was_confirmed_is_not_read_again(self, server: Any, pages: Any) -> None:
        """Status 304 keeps what was made of the page, and a new page is read."""
        content = versioned(server)
        get, read = self.shared(pages)
        for text in (b"one", b"one", b"two"):
            content[0] = text
            assert get(f"{server.url}/p")[1] == text.decode()
        assert read == [b"one", b"two"]
        assert len(server.requests) == 3

    def test_after_a_restart(self, server: Any, pages: Any) -> None:
        """The copy on disk is revalidated, not fetched again."""
        versioned(server)
        for _ in range(2):
            assert self.shared(pages)[0](f"{server.url}/p")[1] == "one"
        assert server.requests[1].headers["if-none-match"] == '"one"'

    @pytest.mark.parametrize("stale", [0.0, 60.0])
    def test_old_pages_while_the_server_fails(
        self, server: Any, pages: Any, clock: Clock, stale: float
    ) -> None:
        """A copy is given for as long as allowed, with a note; then the error is raised."""
        versioned(server)
        notes: list[float] = []
        get, _ = self.shared(
            pages, stale=stale, note_stale=lambda _url, age, _error: notes.append(age)
        )
        url = f"{server.url}/p"
        get(url)
        server.replies["/p"] = server.reply(status=500)
        clock.now += 30
        if stale:
            assert get(url)[1] == "one"
            assert notes == [30.0]
            clock.now += 30
        with pytest.raises(UnexpectedStatus):
            get(url)

    def test_an_invalid_page_is_no_failure_of_the_server(
        self, server: Any, pages: Any, clock: Clock
    ) -> None:
        """While one page cannot be read, changes of others are noticed at once."""
        content = versioned(server)
        get, _ = self.shared(pages, stale=60.0)
        get(f"{server.url}/p")
        server.replies["/q"] = server.reply(b"\xff")
        clock.now += 1
        with pytest.raises(InvalidPage):
            get(f"{server.url}/q")
        content[0] = b"two"
        assert get(f"{server.url}/p")[1] == "two"

    def test_a_refusal_is_no_failure(self, server: Any, pages: Any, clock: Clock) -> None:
        """A page that may not be read any more is not given from memory."""
        versioned(server)
        get, _ = self.shared(pages, stale=60.0)
        get(f"{server.url}/p")
        server.replies["/p"] = server.reply(status=401)
        clock.now += 1
        with pytest.raises(UnexpectedStatus):
            get(f"{server.url}/p")

    def test_removed_page_while_the_server_fails(
        self, server: Any, pages: Any, clock: Clock
    ) -> None:
        """A page that its server has removed is not served from disk later."""
        versioned(server)
        get, _ = self.shared(pages, stale=60.0, missing=5.0)
        url = f"{server.url}/p"
        get(url)
        server.replies["/p"] = server.reply(status=404)
        clock.now += 1
        assert get(url) is None
        server.replies["/p"] = server.reply(status=500)
        clock.now += 10
        with pytest.raises(UnexpectedStatus):
            get(url)
