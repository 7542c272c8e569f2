"""Repetition, redirects, logins and limits, with a transport that is all told."""

from __future__ import annotations

import gzip
import zlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from wheelfit.sources.client import Client
from wheelfit.sources.credentials import Credentials, Login, NetrcEntries
from wheelfit.sources.retries import RetryPolicy
from wheelfit.sources.transport import Interrupted
from wheelfit.wheels.remote import RangeUnsupported, Span, Suffix
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import UnexpectedStatus, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HERE = "https://h.example/simple/a/"


class FakeResponse:
    """A response that is all there."""

    def __init__(
        self,
        status: int = 200,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        breaks: bool = False,
    ) -> None:
        self.status = status
        self.headers = dict(headers or {})
        self.body = body
        self.breaks = breaks
        self.read = 0
        self.closed = False

    def chunks(self) -> Iterator[bytes]:
        """Yield the body in small pieces."""
        for start in range(0, len(self.body), 1000):
            self.read += 1000
            yield self.body[start : start + 1000]
        if self.breaks:
            raise Interrupted("the answer broke off")

    def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True

    def cancel(self) -> None:
        """Do nothing."""


class FakeTransport:
    """Give prepared responses in order, or errors, and remember the requests."""

    def __init__(self, *replies: FakeResponse | Interrupted) -> None:
        self.replies = list(replies)
        self.given: list[FakeResponse] = []
        self.requests: list[tuple[str, Mapping[str, str]]] = []

    def send(self, url: str, headers: Mapping[str, str]) -> FakeResponse:
        """Give the next response; the last one again and again."""
        self.requests.append((url, headers))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Interrupted):
            raise reply
        self.given.append(reply)
        return reply

    def close(self) -> None:
        """Do nothing."""

    def cancel(self) -> None:
        """Do nothing."""

    @property
    def logins(self) -> list[str | None]:
        """What each request had as Authorization."""
        return [headers.get("Authorization") for _, headers in self.requests]


def client(transport: FakeTransport, waits: Any, *indexes: str) -> Client:
    """Make a client that knows some indexes."""
    return Client(
        transport,
        credentials=Credentials(indexes, logins=NetrcEntries({})),
        policy=RetryPolicy(3),
        sleep=waits,
        clock=lambda: 0.0,
    )


class TestRepetition:
    """What goes away by itself is tried again, within limits."""

    def test_statuses(self, waits: Any) -> None:
        """A server that is busy for a moment is asked again, as it wishes."""
        busy = FakeResponse(503, headers={"retry-after": "7"})
        transport = FakeTransport(busy, FakeResponse(500), FakeResponse(body=b"ok"))
        assert client(transport, waits).get(HERE).body == b"ok"
        assert waits == [7.0, 0.5]
        assert all(response.closed for response in transport.given)

    def test_statuses_that_stay(self, waits: Any) -> None:
        """After the last try the status is the error, with a hint."""
        transport = FakeTransport(FakeResponse(502))
        with pytest.raises(UnexpectedStatus) as excinfo:
            client(transport, waits).get(HERE)
        assert (excinfo.value.status, excinfo.value.hint) == (502, "try again later")
        assert len(transport.requests) == 4

    def test_broken_bodies(self, waits: Any) -> None:
        """A body that breaks off is fetched again from the start."""
        transport = FakeTransport(
            FakeResponse(body=b"half", breaks=True), FakeResponse(body=b"whole")
        )
        assert client(transport, waits).get(HERE).body == b"whole"

    def test_unreachable(self, waits: Any) -> None:
        """The error says which server and why; the server costs its waiting time once."""
        transport = FakeTransport(
            Interrupted("Connection refused", retry_chance="little", hint="h")
        )
        asking = client(transport, waits)
        for _ in range(2):
            with pytest.raises(Unreachable, match=r"https://h\.example cannot be read") as excinfo:
                asking.get(HERE + "?token=secret")
            assert excinfo.value.hint == "h"
            assert "secret" not in str(excinfo.value.parts())
        assert len(transport.requests) == 3
        assert waits == [0.25, 0.5]

    def test_an_unreachable_server_returns(self) -> None:
        """Requests in the pause after a failure do not make it longer."""
        refused = Interrupted("Connection refused", retry_chance="none")
        transport = FakeTransport(refused, FakeResponse(body=b"ok"))
        clock = SimpleNamespace(now=0.0)
        asking = Client(transport, unreachable_pause=60, clock=lambda: clock.now)
        for clock.now in (0.0, 50.0):
            with pytest.raises(Unreachable):
                asking.get(HERE)
        clock.now = 61.0
        assert asking.get(HERE).body == b"ok"

    def test_nothing_is_hopeless_because_of_a_body(self, waits: Any) -> None:
        """A server whose answers break off may still give others."""
        broken = FakeResponse(body=b"x", breaks=True)
        transport = FakeTransport(broken, broken, broken, broken, FakeResponse(body=b"ok"))
        asking = client(transport, waits)
        with pytest.raises(Unreachable):
            asking.get(HERE)
        assert asking.get(HERE).body == b"ok"

    def test_missing_is_an_answer(self, waits: Any) -> None:
        """404 is neither repeated nor an error here, and its body is not read."""
        transport = FakeTransport(FakeResponse(404, body=b"x" * 100))
        assert client(transport, waits).get(HERE, limit=10).status == 404
        assert transport.given[0].read == 0


class TestRedirects:
    """Each hop is decided anew."""

    def redirect(self, location: str, status: int = 302) -> FakeResponse:
        """Return a redirect."""
        return FakeResponse(status, headers={"location": location})

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_within_the_origin(self, waits: Any, status: int) -> None:
        """A redirect within the origin keeps the login; the answer knows where it came from."""
        transport = FakeTransport(self.redirect("../b/", status), FakeResponse(body=b"ok"))
        answer = client(transport, waits, "https://me:pw@h.example/simple").get(HERE)
        assert answer.url == "https://h.example/simple/b/"
        assert transport.logins == [Login("me", "pw").header] * 2

    @pytest.mark.parametrize(
        "target", ["https://evil.example/", "https://h.example:444/", "//evil.example/"]
    )
    def test_to_another_origin(self, waits: Any, target: str) -> None:
        """The login stays where it belongs, also on the way back through a stranger."""
        transport = FakeTransport(self.redirect(target), FakeResponse(body=b"ok"))
        client(transport, waits, "https://me:pw@h.example/simple").get(HERE)
        assert transport.logins == [Login("me", "pw").header, None]

    def test_no_step_down(self, waits: Any) -> None:
        """From https nothing leads to http, except to this machine."""
        with pytest.raises(UnexpectedStatus, match=r"from https to http://h\.example"):
            client(FakeTransport(self.redirect("http://h.example/")), waits).get(HERE)
        transport = FakeTransport(self.redirect("http://127.0.0.1:1/"), FakeResponse())
        client(transport, waits).get(HERE)

    def test_trusted_hosts_may_step_down(self, waits: Any) -> None:
        """A trusted host is trusted over http too."""
        transport = FakeTransport(self.redirect("http://t.example/"), FakeResponse())
        Client(transport, is_trusted=lambda host, _: host == "t.example", sleep=waits).get(HERE)

    @pytest.mark.parametrize(
        "target", ["file:///etc/passwd", "ftp://h.example/", "http://", "https://h:x/", "data:,x"]
    )
    def test_elsewhere(self, waits: Any, target: str) -> None:
        """A redirect leads to servers and nowhere else."""
        transport = FakeTransport(self.redirect(target))
        with pytest.raises(UnexpectedStatus, match="the redirect leads"):
            client(transport, waits).get(HERE)
        assert len(transport.requests) == 1

    def test_round_and_round(self, waits: Any) -> None:
        """A loop ends."""
        with pytest.raises(UnexpectedStatus, match="too many redirects"):
            client(FakeTransport(self.redirect(HERE)), waits).get(HERE)

    def test_the_servers_own_login(self, waits: Any) -> None:
        """A login in the target is used for that hop, and shown to nobody else."""
        transport = FakeTransport(
            self.redirect("https://u:p@files.example/x"),
            self.redirect("https://cdn.example/x"),
            FakeResponse(),
        )
        answer = client(transport, waits).get(HERE)
        assert transport.logins == [None, Login("u", "p").header, None]
        assert [url for url, _ in transport.requests][1:] == [
            "https://files.example/x",
            "https://cdn.example/x",
        ]
        assert answer.url == "https://cdn.example/x"

    def test_raw_utf8(self, waits: Any) -> None:
        """The bytes of a target stay as they are, though headers are read as Latin-1."""
        target = "/ä%20b/?x=ü".encode().decode("latin-1")
        answer = client(FakeTransport(self.redirect(target), FakeResponse()), waits).get(HERE)
        assert answer.url == "https://h.example/%C3%A4%20b/?x=%C3%BC"

    def test_line_breaks(self, waits: Any) -> None:
        """CR and LF in a target cannot become a header."""
        transport = FakeTransport(self.redirect("/x\r\nEvil: 1"), FakeResponse())
        client(transport, waits).get(HERE)
        assert "\n" not in transport.requests[1][0]


class TestLogin:
    """401 means: say who you are."""

    def test_refused(self, waits: Any) -> None:
        """Without another login the refusal is the error, and says what to do."""
        transport = FakeTransport(FakeResponse(401))
        with pytest.raises(UnexpectedStatus, match="user name and password") as excinfo:
            client(transport, waits, "https://me:secret@h.example/").get(HERE)
        assert "netrc" in (excinfo.value.hint or "")
        assert "secret" not in str(excinfo.value.parts())
        assert len(transport.requests) == 1

    def test_keyring(self, waits: Any) -> None:
        """After a refusal keyring is asked, and its login is used from then on."""

        class Keyring:
            def find(self, _service: str, _user: str | None) -> tuple[str, str]:
                return "k", "p"

        transport = FakeTransport(FakeResponse(401), FakeResponse(body=b"ok"))
        known = Credentials(["https://h.example/"], logins=NetrcEntries({}), keyring=Keyring())
        asking = Client(transport, credentials=known, sleep=waits)
        assert asking.get(HERE).body == b"ok"
        asking.get(HERE)
        assert transport.logins == [None, Login("k", "p").header, Login("k", "p").header]


class TestBodies:
    """Bodies are decompressed and limited."""

    def test_own_name(self, waits: Any) -> None:
        """Requests say who asks."""
        transport = FakeTransport(FakeResponse())
        client(transport, waits).get(HERE)
        assert transport.requests[0][1]["User-Agent"] == f"wheelfit/{__version__}"

    @pytest.mark.parametrize(
        ("encoding", "body"),
        [
            ("gzip", gzip.compress(b"page", mtime=0)),
            ("x-gzip", gzip.compress(b"pa", mtime=0) + gzip.compress(b"ge", mtime=0)),
            ("deflate", zlib.compress(b"page")),
            ("identity", b"page"),
            ("", b"page"),
        ],
    )
    def test_encodings(self, waits: Any, encoding: str, body: bytes) -> None:
        """What may be compressed is decompressed."""
        transport = FakeTransport(FakeResponse(body=body, headers={"content-encoding": encoding}))
        assert client(transport, waits).get(HERE, limit=4).body == b"page"

    def test_unknown_encoding(self, waits: Any) -> None:
        """What nobody asked for is refused."""
        transport = FakeTransport(FakeResponse(body=b"x", headers={"content-encoding": "br"}))
        with pytest.raises(UnexpectedStatus, match="br"):
            client(transport, waits).get(HERE)

    def test_no_gzip_at_all(self, waits: Any) -> None:
        """Bytes that are not what they claim are refused."""
        transport = FakeTransport(FakeResponse(body=b"page", headers={"content-encoding": "gzip"}))
        with pytest.raises(UnexpectedStatus, match="decompressed"):
            client(transport, waits).get(HERE)

    def test_cut_gzip(self, waits: Any) -> None:
        """A compressed body without its end is a broken one."""
        body = gzip.compress(b"page", mtime=0)
        headers = {"content-encoding": "gzip"}
        transport = FakeTransport(
            FakeResponse(body=body[:-3], headers=headers), FakeResponse(body=body, headers=headers)
        )
        assert client(transport, waits).get(HERE).body == b"page"

    def test_too_long(self, waits: Any) -> None:
        """So does one that is simply long."""
        response = FakeResponse(body=bytes(50_000))
        with pytest.raises(UnexpectedStatus, match="longer"):
            client(FakeTransport(response), waits).get(HERE, limit=2000)
        assert response.read == 3000


class TestRanges:
    """Ranges of bytes, for wheels read in part."""

    def test_range(self, waits: Any) -> None:
        """The part says which bytes it holds, of how many, in which state of the file."""
        response = FakeResponse(206, b"345", {"content-range": "bytes 3-5/10", "etag": '"1"'})
        transport = FakeTransport(response)
        part = client(transport, waits).get_range(HERE, Span(3, 6))
        assert (part.data, part.extent.total, part.extent.validator) == (b"345", 10, '"1"')
        assert transport.requests[0][1]["Range"] == "bytes=3-5"
        assert transport.requests[0][1]["Accept-Encoding"] == "identity"

    def test_ignored(self, waits: Any) -> None:
        """A server that gives the whole file instead is not read."""
        response = FakeResponse(body=bytes(100_000))
        with pytest.raises(RangeUnsupported):
            client(FakeTransport(response), waits).get_range(HERE, Suffix(10))
        assert (response.read, response.closed) == (0, True)

    @pytest.mark.parametrize("status", [403, 404, 410])
    def test_missing(self, waits: Any, status: int) -> None:
        """A file that is not there is an unexpected status, not a lack of ranges."""
        with pytest.raises(UnexpectedStatus) as excinfo:
            client(FakeTransport(FakeResponse(status)), waits).get_range(HERE, Suffix(9))
        assert excinfo.value.status == status

    def test_more_than_announced(self, waits: Any) -> None:
        """More bytes than announced are refused."""
        response = FakeResponse(206, b"3456789", {"content-range": "bytes 3-5/10"})
        with pytest.raises(UnexpectedStatus, match="longer"):
            client(FakeTransport(response), waits).get_range(HERE, Span(3, 6))
