"""The transport over real connections, TLS and proxies included."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from wheelfit.sources.certificates import unverified_context, verifying_context
from wheelfit.sources.transport import Interrupted
from wheelfit.sources.urllib3_transport import Urllib3Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CERTIFICATES = Path(__file__).parent / "certificates"
Transports: TypeAlias = "Callable[..., Urllib3Transport]"


@pytest.fixture
def transports() -> Iterator[Callable[..., Urllib3Transport]]:
    """Give a function that makes transports."""
    made: list[Urllib3Transport] = []

    def make(**options: Any) -> Urllib3Transport:
        options.setdefault("context", verifying_context(None, None, environ={}))
        made.append(Urllib3Transport(**options))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


def test_headers_and_body(server: Any, transports: Transports) -> None:
    """Status, headers in lower case, and the body as it was sent."""
    server.replies["/x"] = lambda request: server.reply(request.headers["x-asked"].encode())
    response = transports().send(f"{server.url}/x", {"X-Asked": "yes"})
    assert (response.status, response.headers["content-length"]) == (200, "3")
    assert b"".join(response.chunks()) == b"yes"
    response.close()


def test_redirects_are_not_followed(server: Any, transports: Transports) -> None:
    """Following is decided elsewhere."""
    server.replies["/x"] = server.reply(status=302, headers={"Location": "/y"})
    response = transports().send(f"{server.url}/x", {})
    response.close()
    assert (response.status, server.paths) == (302, ["/x"])


def test_connections_are_used_again(server: Any, transports: Transports) -> None:
    """A body read to its end leaves the connection for the next request."""
    server.replies["/x"] = server.reply(b"x" * 1000)
    transport = transports()
    for _ in range(5):
        response = transport.send(f"{server.url}/x", {})
        assert len(b"".join(response.chunks())) == 1000
        response.close()
    assert server.connections == 1


def test_connections_are_used_again_without_a_body(server: Any, transports: Transports) -> None:
    """A page that is only confirmed costs no new connection."""
    server.replies["/x"] = server.reply(status=304)
    transport = transports()
    for _ in range(5):
        response = transport.send(f"{server.url}/x", {})
        response.close()
        assert response.status == 304
    assert server.connections == 1


def test_no_wait_for_chunks_without_a_body(server: Any, transports: Transports) -> None:
    """Status 304 may name the encoding that the page would have had (RFC 9112, 6.1)."""
    server.replies["/x"] = server.reply(status=304, headers={"Transfer-Encoding": "chunked"})
    transport = transports(timeout=5.0)
    since = time.monotonic()
    transport.send(f"{server.url}/x", {}).close()
    assert time.monotonic() - since < 4


def test_repeated_headers_are_joined(server: Any, transports: Transports) -> None:
    """Of two equal headers none is lost, such as ``no-store``."""
    headers = {"Cache-Control": "no-store", "cache-control": "max-age=600"}
    server.replies["/x"] = server.reply(headers=headers)
    response = transports().send(f"{server.url}/x", {})
    response.close()
    assert response.headers["cache-control"] == "no-store, max-age=600"


class TestInterruptions:
    """Every failure becomes words, without URL or login, and a guess whether to try again."""

    def test_refused(self, transports: Transports) -> None:
        """Nobody listens."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with pytest.raises(Interrupted) as excinfo:
            transports().send(f"http://127.0.0.1:{port}/", {})
        assert (excinfo.value.reason, excinfo.value.retry_chance) == (
            "Connection refused",
            "little",
        )

    def test_no_such_host(self, transports: Transports) -> None:
        """The name means nothing."""
        with pytest.raises(Interrupted) as excinfo:
            transports(timeout=5.0).send("http://no-such-host.invalid/", {})
        assert excinfo.value.retry_chance == "little"

    def test_silence(self, transports: Transports) -> None:
        """A server that says nothing is left after the time allowed."""
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen()
            with pytest.raises(Interrupted, match="within the time allowed"):
                transports(timeout=0.1).send(f"http://127.0.0.1:{deaf.getsockname()[1]}/", {})

    @pytest.mark.parametrize("cut", [0, 500])
    def test_cut(self, server: Any, transports: Transports, cut: int) -> None:
        """A body shorter than announced is broken, however it ends."""
        server.replies["/x"] = server.reply(b"x" * 1000, cut_after=cut)
        response = transports().send(f"{server.url}/x", {})
        with pytest.raises(Interrupted, match="broke"):
            list(response.chunks())
        response.close()

    def test_hang_up(self, transports: Transports) -> None:
        """A server that hangs up at once is worth another try."""
        with socket.socket() as rude:
            rude.bind(("127.0.0.1", 0))
            rude.listen()
            rude.settimeout(5)

            def hang_up() -> None:
                connection, _ = rude.accept()
                connection.recv(1000)
                connection.close()

            thread = threading.Thread(target=hang_up)
            thread.start()
            with pytest.raises(Interrupted) as excinfo:
                transports().send(f"http://127.0.0.1:{rude.getsockname()[1]}/", {})
            thread.join()
        assert excinfo.value.retry_chance == "good"

    @pytest.mark.parametrize("url", ["http:///x", "http://h:99999/", "http://[::1/"])
    def test_bad_urls(self, transports: Transports, url: str) -> None:
        """A URL that is none is not tried again."""
        with pytest.raises((Interrupted, ValueError)) as excinfo:
            transports().send(url, {})
        if isinstance(excinfo.value, Interrupted):
            assert excinfo.value.retry_chance in {"none", "little"}


class TestTls:
    """Certificates are checked, except where the user says otherwise."""

    def test_unknown_authority(self, tls_server: Any, transports: Transports) -> None:
        """A certificate that nobody vouches for ends the matter, with a hint."""
        with pytest.raises(Interrupted, match="not trusted") as excinfo:
            transports().send(f"{tls_server.url}/", {})
        assert excinfo.value.retry_chance == "none"
        assert "--cert" in (excinfo.value.hint or "")

    def test_named_authority(self, tls_server: Any, transports: Transports) -> None:
        """With the right authority named, it is trusted."""
        context = verifying_context(str(CERTIFICATES / "authority.pem"), None, environ={})
        response = transports(context=context).send(f"{tls_server.url}/", {})
        response.close()
        assert response.status == 404

    def test_wrong_name(self, stranger: Any, transports: Transports) -> None:
        """A certificate for another name is not, even if its authority is known."""
        context = verifying_context(str(CERTIFICATES / "stranger.pem"), None, environ={})
        with pytest.raises(Interrupted, match=r"not trusted.*127\.0\.0\.1"):
            transports(context=context).send(f"{stranger.url}/", {})

    @pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
    def test_trusted_host(self, tls_server: Any, transports: Transports) -> None:
        """A trusted host is not checked; every other one still is."""
        transport = transports(
            insecure=unverified_context(None), is_trusted=lambda host, _: host == "127.0.0.1"
        )
        response = transport.send(f"{tls_server.url}/", {})
        response.close()
        assert response.status == 404
        with pytest.raises(Interrupted):
            transport.send(f"https://localhost:{tls_server.port}/", {})


class TestCutting:
    """Whoever waits for a server that has fallen silent goes on at once when told."""

    @pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
    @pytest.mark.parametrize("tls", [False, True])
    @pytest.mark.parametrize("whole", [False, True])
    def test_silence(
        self,
        server: Any,
        tls_server: Any,
        transports: Transports,
        *,
        tls: bool,
        whole: bool,
    ) -> None:
        """One answer can be cut, or everything; the bytes that came before are not lost."""
        asked = tls_server if tls else server
        asked.replies["/"] = asked.reply(b"x" * 1000, silent_after=10)
        transport = transports(insecure=unverified_context(None), is_trusted=lambda *_: True)
        response = transport.send(f"{asked.url}/", {})
        came: list[object] = []

        def read() -> None:
            try:
                came.extend(response.chunks())
            except Interrupted as interrupted:
                came.append(interrupted)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        while thread.is_alive():  # until the thread has begun to wait
            (transport if whole else response).cancel()
            thread.join(0.05)
        response.close()
        assert isinstance(came[-1], Interrupted)
        assert came[:-1] in ([], [b"x" * 10])
        if whole:
            with pytest.raises(Interrupted, match="were cancelled"):
                transport.send(f"{asked.url}/", {})
        else:
            assert transport.send(f"{asked.url}/other", {}).status == 404

    def test_another_answer_on_the_same_connection(
        self, server: Any, transports: Transports
    ) -> None:
        """An answer that is closed does not cut the next one of its connection."""
        server.replies["/"] = server.reply(b"whole")
        transport = transports()
        first = transport.send(f"{server.url}/", {})
        list(first.chunks())
        first.close()
        second = transport.send(f"{server.url}/", {})
        first.cancel()
        assert list(second.chunks()) == [b"whole"]
        second.close()
        assert server.connections == 1


def test_small_pieces_are_gathered(server: Any, transports: Transports) -> None:
    """What comes in small pieces at once is one chunk; nothing is lost where it breaks off."""
    server.replies["/"] = server.reply(b"x" * 100_000, cut_after=99_999)
    response = transports().send(f"{server.url}/", {})
    came: list[bytes] = []
    with pytest.raises(Interrupted):
        came.extend(response.chunks())
    response.close()
    assert sum(map(len, came)) == 99_999


class TestProxy:
    """Requests go through the proxy that was chosen."""

    def test_http(self, server: Any, transports: Transports) -> None:
        """The proxy sees the whole URL and its own login, and the server's login as it is."""
        server.replies["http://h.example/x"] = server.reply(b"via proxy")
        proxy = server.url.replace("://", "://me:p%40ss@")
        transport = transports(proxy=lambda _: proxy)
        response = transport.send("http://h.example/x", {})
        assert b"".join(response.chunks()) == b"via proxy"
        response.close()
        assert server.requests[0].headers["proxy-authorization"] == "Basic bWU6cEBzcw=="

    def test_refusing_proxy(self, transports: Transports) -> None:
        """A proxy that is not there is named as the cause, without its password."""
        transport = transports(proxy=lambda _: "http://me:secret@127.0.0.1:1")
        with pytest.raises(Interrupted, match="proxy") as excinfo:
            transport.send("https://h.example/x", {})
        assert "secret" not in str(excinfo.value)
        assert "proxy" in (excinfo.value.hint or "")

    @pytest.mark.parametrize(
        ("status", "retry_chance"), [(407, "none"), (403, "none"), (503, "good")]
    )
    def test_refused_tunnel(
        self, server: Any, transports: Transports, status: int, retry_chance: str
    ) -> None:
        """A proxy that refuses a host is not asked again, and the status is named."""
        server.replies["h.example:443"] = server.reply(status=status)
        with pytest.raises(Interrupted, match=f"refuses the connection with status {status}") as e:
            transports(proxy=lambda _: server.url).send("https://h.example/x", {})
        assert e.value.retry_chance == retry_chance
        assert ("login" in (e.value.hint or "")) == (status == 407)
