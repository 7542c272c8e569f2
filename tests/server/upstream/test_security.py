"""Attacks on a mirror by its upstream or its clients."""

from __future__ import annotations

import gzip
import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name
from server.upstream.mirroring import JSON, Mirroring, read

from wheelfit.server.allowed_addresses import AddressRules, UrlRules
from wheelfit.server.messages import Request, Response
from wheelfit.server.store.folder import FolderBlobs
from wheelfit.server.upstream.mirrored import MirroredIndex
from wheelfit.server.upstream.pulled_files import PulledFiles
from wheelfit.server.upstream.settings import MirrorSettings
from wheelfit.sources.open import open_web
from wheelfit.sources.settings import SourceSettings
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import InvalidConfiguration, NetworkError

Opener = Callable[..., Mirroring]
SMALL = "small-1.0-py3-none-any.whl"
LARGE = "large-1.0-py3-none-any.whl"


def page_of(*files: dict[str, Any]) -> Response:
    """Return a page that lists certain files."""
    content = {"meta": {"api-version": "1.0"}, "name": "some", "files": list(files)}
    return Response.of(200, json.dumps(content).encode(), {"content-type": JSON})


def entry(url: str, name: str = "some-1.0-py3-none-any.whl", **more: Any) -> dict[str, Any]:
    """Return an entry of a page."""
    return {"filename": name, "url": url, "hashes": {}, **more}


@pytest.fixture
def secret() -> Iterator[RecordingIndex]:
    """Run a server on another port of this machine, with a secret file."""
    with RecordingIndex(lambda _: Response.text(200, "the secret")) as server:
        yield server


class TestReach:
    """Permitted targets of links and redirects (reliability: SSRF)."""

    @pytest.mark.parametrize(
        "url",
        [
            "http://127.0.0.1/x",
            "http://localhost/x",
            "http://localhost./x",
            "http://[::1]/x",
            "http://[::ffff:127.0.0.1]/x",
            "http://0.0.0.0/x",
            "http://169.254.169.254/latest/meta-data/",
            "http://[fe80::1]/x",
            "http://10.0.0.1/x",
            "http://172.16.0.1/x",
            "http://192.168.1.1/x",
            "http://100.64.0.1/x",
            "http://[fc00::1]/x",
            "http://[64:ff9b::a00:1]/x",
            "http://[2002:a00:1::]/x",
            "https://index.example:22/x",
            "https://files.example:8443/x",
            "https://index.example:80/x",
            "file:///etc/passwd",
            "ftp://files.example/x",
            "gopher://files.example:70/x",
            "https:///x",
            "//files.example/x",
            "https://files.example:99999/x",
            "",
        ],
    )
    def test_forbidden_targets(self, url: str) -> None:
        """A public index cannot lead to this machine, its network, other ports or other schemes."""
        assert not UrlRules.of("https://index.example/simple/")(url)

    def test_permitted_targets(self) -> None:
        """It may lead to itself, to public hosts, and to configured hosts."""
        rules = UrlRules.of("https://index.example/simple/", ["cdn.internal", "10.1.2.3:8081"])
        assert rules("https://index.example/files/x")
        assert rules("https://files.example/x")
        assert rules("https://cdn.internal/x")
        assert rules("http://10.1.2.3:8081/x")
        assert not rules("http://10.1.2.3:8082/x")
        assert rules.address_rules("cdn.internal", "10.0.0.9")
        assert not rules.address_rules("files.example", "10.0.0.9")

    def test_links_to_another_port(self, mirror: Opener, secret: RecordingIndex) -> None:
        """They are not listed, and not available by their names."""
        links = [
            entry(f"{secret.origin}/x/some-1.0-py3-none-any.whl"),
            entry("http://169.254.169.254/some-2.0-py3-none-any.whl", "some-2.0-py3-none-any.whl"),
            entry("file:///etc/some-3.0-py3-none-any.whl", "some-3.0-py3-none-any.whl"),
            entry("/files/some-4.0-py3-none-any.whl", "some-4.0-py3-none-any.whl"),
        ]
        with RecordingIndex(lambda _: page_of(*links)) as upstream:
            one = mirror(upstream.url)
            assert set(one.page("some")) == {"some-4.0-py3-none-any.whl"}
            for link in links[:3]:
                assert one.ask(f"/files/{link['filename']}").status == 404
                assert one.ask(f"/files/{link['filename']}.metadata").status == 404
        assert not secret.requests
        assert any("may not request" in note for note in one.notes)

    def test_redirects_to_another_port(
        self, mirror: Opener, upstream: RecordingIndex, secret: RecordingIndex
    ) -> None:
        """They are not followed for pages, files, metadata or attestations."""
        one = mirror()
        one.page("small")
        upstream.faults.redirect = {
            "/files/": f"{secret.origin}/",
            "/simple/large/": f"{secret.origin}/large",
        }
        for path in (f"/files/{SMALL}", f"/files/{SMALL}.metadata", "/simple/large/"):
            answer = one.ask(path)
            assert answer.status == 502
            assert b"secret" not in read(answer)
        assert not secret.requests
        assert one.kept() == {}

    def test_other_projects_despite_a_bad_file(
        self, mirror: Opener, upstream: RecordingIndex, secret: RecordingIndex
    ) -> None:
        """Repeated requests for a file with a bad redirect do not block other projects."""
        one = mirror()
        one.page("small")
        upstream.faults.redirect = {"/files/": f"{secret.origin}/"}
        for _ in range(3):
            assert one.ask(f"/files/{SMALL}").status == 502
        assert one.ask("/simple/large/").status == 200

    def test_other_projects_despite_a_bad_page(
        self, mirror: Opener, upstream: RecordingIndex, secret: RecordingIndex
    ) -> None:
        """Repeated requests for a page with a bad redirect do not block other projects."""
        one = mirror()
        upstream.faults.redirect = {"/simple/small/": f"{secret.origin}/small"}
        assert one.ask("/simple/small/").status == 502
        assert one.ask("/simple/large/").status == 200

    def test_configured_port(self, mirror: Opener, upstream: RecordingIndex, wheels: Path) -> None:
        """A configured port is permitted, as some indexes have files on another server."""
        with RecordingIndex(wheels) as files:
            upstream.faults.redirect["/files/"] = f"{files.origin}/files/"
            one = mirror(hosts=(files.origin.removeprefix("http://"),))
            assert one.file(SMALL) == (wheels / SMALL).read_bytes()

    def test_dns_rebinding(self, upstream: RecordingIndex, tmp_path: Path) -> None:
        """The address of the connection counts, not the name."""
        named = upstream.url.replace("127.0.0.1", "localhost")
        link = entry(f"{upstream.origin}/files/{SMALL}", SMALL, size=5)
        upstream.faults.content["/simple/small/"] = b"".join(page_of(link).body)
        # The pages' own host was named by the operator, the other is taken for public.
        web = open_web(
            SourceSettings(index_url=named, keyring="disabled", retries=0),
            cache_folder=None,
            environ={},
            home=tmp_path,
            is_allowed_address=AddressRules(frozenset({"localhost"}), 0),
        )
        pulled = PulledFiles(FolderBlobs(tmp_path / "blobs"))
        index = MirroredIndex(MirrorSettings(named), web, pulled, is_allowed_url=lambda _url: True)
        assert index.project(canonicalize_name("small")) is not None
        with pytest.raises(NetworkError, match=r"private network.*hosts = \[\.\.\.\] of a mirror"):
            index.content(SMALL)
        assert not upstream.requests_for("/files/")
        index.close()

    def test_provenance_targets(self, mirror: Opener, secret: RecordingIndex) -> None:
        """The URL of a provenance is restricted in the same way."""
        link = entry("/files/some-1.0-py3-none-any.whl", provenance=f"{secret.origin}/p")
        with RecordingIndex(lambda _: page_of(link)) as upstream:
            answer = mirror(upstream.url).ask("/files/some-1.0-py3-none-any.whl.provenance")
            assert answer.status == 404
        assert not secret.requests


class TestCredentials:
    """The login for an upstream."""

    def test_recipients(self, mirror: Opener, upstream: RecordingIndex, wheels: Path) -> None:
        """It is not sent to the host of the files or to clients, and not in notes."""
        upstream.faults.login = ("me", "secret")
        with RecordingIndex(wheels) as files:
            upstream.faults.redirect["/files/"] = f"{files.origin}/files/"
            one = mirror(
                upstream.url_with_login("me", "secret"),
                hosts=(files.origin.removeprefix("http://"),),
            )
            assert one.file(SMALL) == (wheels / SMALL).read_bytes()
            assert files.requests
            assert all("authorization" not in request.headers for request in files.requests)
        answer = one.ask("/simple/small/")
        assert b"secret" not in read(answer) + repr(one.settings).encode()
        assert "secret" not in "".join(one.notes)

    def test_client_headers(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """Logins, cookies, hosts and agents of clients are not passed on."""
        headers = {
            "accept": JSON,
            "authorization": "Basic bWU6cHJpdmF0ZQ==",
            "cookie": "private=1",
            "host": "evil.example",
            "user-agent": "private",
            "x-forwarded-for": "10.9.8.7",
            "range": "bytes=0-0",
        }
        one = mirror()
        one.ask("/simple/small/", headers)
        read(one.ask(f"/files/{SMALL}", headers))
        read(one.ask(f"/files/{SMALL}.metadata", headers))
        assert len(upstream.requests) == 3
        for request in upstream.requests:
            sent = " ".join(f"{name}: {value}" for name, value in request.headers.items())
            assert "private" not in sent
            assert "evil" not in sent
            assert "10.9.8.7" not in sent
            assert "range" not in request.headers
            assert "authorization" not in request.headers

    def test_netrc(self, mirror: Opener, upstream: RecordingIndex, tmp_path: Path) -> None:
        """The netrc file of the machine is not used."""
        upstream.faults.login = ("me", "secret")
        home = tmp_path / "home"
        home.mkdir()
        (home / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOME", str(home))
            patch.setenv("NETRC", str(home / ".netrc"))
            assert mirror().ask("/simple/small/").status == 502

    def test_plain_http(self, tmp_path: Path) -> None:
        """Plain HTTP has to be permitted by the operator."""
        with pytest.raises(InvalidConfiguration, match="uses plain HTTP"):
            Mirroring("http://index.example/simple/", tmp_path)
        Mirroring("http://index.example/simple/", tmp_path, trusted_hosts=("index.example",))


class TestLimits:
    """Limits for pages, files and time."""

    def test_compressed_bomb(self, mirror: Opener) -> None:
        """Reading stops at the size limit for pages."""
        bomb = gzip.compress(b"\0" * (80 << 20), 1)

        def answer(_: Request) -> Response:
            return Response.of(200, bomb, {"content-type": JSON, "content-encoding": "gzip"})

        with RecordingIndex(answer) as other:
            one = mirror(other.url)
            refused = one.ask("/simple/some/")
        assert refused.status == 502
        assert b"longer than" in read(refused)

    def test_endless_page(self, mirror: Opener) -> None:
        """A fast or slow endless page ends at a limit of bytes or of seconds."""

        def pieces() -> Iterator[bytes]:
            while True:
                yield b"<!-- -->"
                time.sleep(0.02)

        def answer(_: Request) -> Response:
            return Response(200, {"content-type": "text/html"}, pieces(), 1 << 20)

        with RecordingIndex(answer) as other:
            began = time.monotonic()
            assert mirror(other.url, page_timeout=0.3).ask("/simple/some/").status == 502
            assert time.monotonic() - began < 20

    def test_silent_upstream(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """It has a time limit, and an old page is served meanwhile."""
        one = mirror(max_age=10, timeout=0.2)
        before = one.page("small")
        upstream.faults.delay["/simple/small/"] = 2.0
        one.clock.now += 11
        assert one.page("small") == before

    def test_pause_after_silence(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """A silent upstream is not asked for a while, as each waiting request holds a thread."""
        upstream.faults.delay["*"] = 1.0
        one = mirror(timeout=0.2)
        assert one.ask("/simple/small/").status == 502
        asked = len(upstream.requests)
        assert one.ask("/simple/large/").status == 502
        assert one.ask("/simple/other/").status == 502
        assert len(upstream.requests) == asked
        upstream.faults.delay.clear()
        time.sleep(1.1)
        assert one.ask("/simple/large/").status == 200

    def test_endless_file(self, mirror: Opener) -> None:
        """A file of unknown size ends at the size limit."""
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        html = b'<a href="some-1.0-py3-none-any.whl">some-1.0-py3-none-any.whl</a>'

        def serve() -> None:
            while True:
                try:
                    line, _ = listener.accept()
                except OSError:
                    return
                with line:
                    asked = line.recv(4096)
                    try:
                        if b".whl" not in asked.split(b"\r\n")[0]:
                            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n"
                            line.sendall(head + b"content-length: %d\r\n\r\n" % len(html) + html)
                            continue
                        line.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
                        while True:
                            line.sendall(b"\0" * 65536)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            one = mirror(f"http://127.0.0.1:{port}/simple/", max_file_size=5 << 20)
            answer = one.ask("/files/some-1.0-py3-none-any.whl")
            assert answer.status == 502
            assert b"larger than" in read(answer)
            assert one.kept() == {}
        finally:
            socket.socket.shutdown(listener, socket.SHUT_RDWR)
            listener.close()
            thread.join()

    def test_announced_size(self, mirror: Opener) -> None:
        """Nothing of a file that is announced as too large is fetched."""
        one = mirror(max_file_size=1000)
        assert one.ask(f"/files/{LARGE}").status == 502
        assert one.kept() == {}

    def test_disconnected_client(
        self, mirror: Opener, upstream: RecordingIndex, wheels: Path
    ) -> None:
        """Its download continues for later clients."""
        upstream.faults.trickle[LARGE] = 0.0001
        one = mirror()
        answer = one.ask(f"/files/{LARGE}")
        pieces = iter(answer.body)
        next(pieces)
        pieces.close()  # type: ignore[attr-defined]
        assert one.file(LARGE) == (wheels / LARGE).read_bytes()
        assert len(upstream.requests_for(LARGE)) == 1


class TestPoisoning:
    """Cache poisoning between clients."""

    def test_request_headers(self, mirror: Opener, wheels: Path) -> None:
        """Stored files do not depend on the headers of the first request."""
        one = mirror()
        data = (wheels / LARGE).read_bytes()
        odd = {"host": "evil.example", "accept": "text/html", "range": "bytes=5-9"}
        part = one.ask(f"/files/{LARGE}", odd)
        assert (part.status, read(part)) == (206, data[5:10])
        assert one.file(LARGE) == data
        assert one.kept() == {hashlib.sha256(data).hexdigest(): len(data)}
        html = read(one.ask("/simple/large/", odd | {"range": ""}))
        assert b"evil" not in html
        assert one.page("large")[LARGE]["url"] == f"../../files/{LARGE}"

    def test_head_requests(self, mirror: Opener, wheels: Path) -> None:
        """After a HEAD request a file is complete for the next client."""
        one = mirror()
        head = one.ask(f"/files/{LARGE}", method="HEAD")
        assert (head.status, head.length) == (200, (wheels / LARGE).stat().st_size)
        assert one.file(LARGE) == (wheels / LARGE).read_bytes()

    def test_files_of_other_projects(self, mirror: Opener) -> None:
        """A page cannot supply files of another project."""
        links = [entry(f"/f/{name}", name) for name in (SMALL, "some-1.0-py3-none-any.whl")]
        with RecordingIndex(lambda _: page_of(*links)) as upstream:
            one = mirror(upstream.url)
            assert set(one.page("some")) == {"some-1.0-py3-none-any.whl"}
        assert any("left out 1 file not named after a release of" in note for note in one.notes)

    def test_files_without_hash(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """Later downloads of a file without hash have to equal the first."""
        upstream.faults.hashes = upstream.faults.sizes = False
        one = mirror(max_size=1)
        assert one.page("small")[SMALL]["hashes"] == {}
        data = one.file(SMALL)
        assert one.kept()
        digest = hashlib.sha256(data).hexdigest()
        assert one.page("small")[SMALL]["hashes"] == {"sha256": digest}
        one.blobs.delete(digest)
        upstream.faults.content[SMALL] = data[:-1] + b"x"
        assert one.ask(f"/files/{SMALL}").status == 502
        again = mirror()
        assert again.ask(f"/files/{SMALL}").status == 502
        upstream.faults.content.clear()
        assert again.file(SMALL) == data


class TestNames:
    """Names that could be read as another project."""

    @pytest.mark.parametrize(
        ("asked", "leads_to"),
        [
            ("Small", "../small/"),
            ("SMALL", "../small/"),
            ("sm%61ll", None),
            ("small_", "../small-/"),
            ("small%2e%2e", "../small-/"),
            ("sm%C4%B1ll", "../sm%C4%B1ll/"),
            ("%EF%BD%93mall", None),
            ("..%2fsmall", None),
            ("%2e%2e", None),
            ("small%00", None),
            ("small%0d%0aset-cookie:%20a=b", None),
        ],
    )
    def test_spellings(
        self, mirror: Opener, upstream: RecordingIndex, asked: str, leads_to: str | None
    ) -> None:
        """One spelling is served; others redirect to it or fail, and none breaks a header."""
        one = mirror()
        answer = one.ask(f"/simple/{asked}/")
        if asked == "sm%61ll":
            assert answer.status == 200
            return
        if answer.status == 301:
            location = answer.headers["location"]
            assert location.isascii()
            assert not set("\r\n\0") & set(location)
            assert leads_to in (None, location)
        else:
            assert answer.status == 404
        assert all(
            request.path.startswith("/simple/") and ".." not in request.path
            for request in upstream.requests
        )

    def test_hostile_texts(self, mirror: Opener) -> None:
        """Texts of the upstream are escaped, and break no line."""
        link = entry(
            "/f/some-1.0-py3-none-any.whl",
            **{"requires-python": '"><script>alert(1)</script>', "yanked": "<b>\r\nx: y"},
        )
        with RecordingIndex(lambda _: page_of(link)) as upstream:
            html = read(mirror(upstream.url).ask("/simple/some/", {"accept": "text/html"}))
        assert b"<script>" not in html
        assert b"<b>" not in html

    def test_spelling_of_file_names(self, mirror: Opener, wheels: Path) -> None:
        """A file is available only under its exact name on the page."""
        build_wheel(wheels, "two-words", "1.0")
        one = mirror()
        assert one.file("two_words-1.0-py3-none-any.whl")
        for name in ("Two_Words-1.0-py3-none-any.whl", "two-words-1.0-py3-none-any.whl"):
            assert one.ask(f"/files/{name}").status == 404
