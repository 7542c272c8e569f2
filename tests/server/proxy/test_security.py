"""Attacks by clients of the proxy, and by pages that it reads."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from server.proxy.behind import CUDA, JSON, LINUX_TAG, NV, PIP, Behind, body, release
from server.running import raw

from wheelfit.server.allowed_addresses import AddressRules
from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.messages import Request, Response
from wheelfit.server.proxy.application import SecretPathGuard
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import release_document

PUBLIC = AddressRules(frozenset(), 0)
LOCALHOST = AddressRules(frozenset({"localhost"}), 0)
"""As the operator names an index on this machine; its pages may name public addresses only."""
WHEEL = f"some-1.0-{LINUX_TAG}-cu129.whl"
BY_VARIANT = ('x; variant_label == "cu129"',)


class TestAdmission:
    """Addresses that pages may name."""

    @pytest.mark.parametrize(
        "address",
        [
            "127.0.0.1",
            "127.8.9.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "::1",
            "::",
            "fe80::1%eth0",
            "fd00::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "64:ff9b:1::a9fe:a9fe",
            "::ffff:0:7f00:1",
            "::7f00:1",
            "fec0::1",
            "192.0.0.192",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "2130706433",
            "017700000001",
            "0x7f000001",
            "0x7f.1",
            "127.1",
            "0xa9.0xfe.0xa9fe",
            "[::]",
            "127.0.0.1.",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b:1::7f00:1",
            "fd00:ec2::254",
            "100.100.100.200",
        ],
    )
    def test_public_index(self, address: str) -> None:
        """A public index may not name loopback, private or link-local addresses."""
        admits = AddressRules.of("https://index.example/simple/")
        assert not admits("files.example", address)
        assert admits("index.example", address)  # the operator named that one
        assert admits("files.example", "93.184.216.34")
        assert admits("files.example", "2606:2800:220:1::1")

    def test_private_index(self) -> None:
        """A private index may name private addresses, but not the metadata service."""
        private = AddressRules.of("http://10.0.0.5/simple/")
        assert private("files", "10.0.0.6")
        assert not private("files", "127.0.0.1")
        here = AddressRules.of("http://127.0.0.1:3141/simple/")
        assert here("localhost", "127.0.0.1")
        for admits in (private, here):
            for address in ("169.254.169.254", "2852039166", "fd00:ec2::254", "168.63.129.16"):
                assert not admits("metadata", address)
            for address in ("64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "::ffff:169.254.169.254"):
                assert not admits("metadata", address)

    def test_spellings_of_public_addresses(self) -> None:
        """Unusual spellings of public addresses are allowed."""
        admits = AddressRules.of("https://index.example/simple/")
        for address in ("1572395042", "0x5db8d822", "93.184.55330", "192.88.99.1"):
            assert admits("files.example", address)

    def test_allowed_hosts(self) -> None:
        """The operator can allow hosts at any address."""
        admits = AddressRules.of("https://index.example/", ["Files.Internal"])
        assert admits("files.internal", "10.0.0.1")
        assert not admits("other.internal", "10.0.0.1")


@pytest.fixture
def internal() -> Iterator[tuple[str, list[Request]]]:
    """Yield an internal server and the list of its requests."""
    requests: list[Request] = []

    def answer(request: Request) -> Response:
        requests.append(request)
        return Response.of(200, b"{}", {"content-type": "application/json"})

    with LoopbackServer(answer) as server:
        yield server.origin, requests


class TestRedirection:
    """An index that redirects the proxy to internal addresses."""

    def test_connected_address(self, internal: tuple[str, list[Request]]) -> None:
        """The address of the connection is checked before anything is sent."""
        origin, requests = internal
        with Behind(f"{origin}/simple/", admission=PUBLIC, mode="full") as behind:
            answer = behind.ask("/simple/some/")
            assert answer.status == 502
            assert b"public index" in body(answer)
            (note,) = behind.notes  # installers show no more than the number
            assert "public index" in note
            assert requests == []

    @pytest.mark.parametrize(
        ("redirected", "suffix"),
        [("/simple/some/", None), ("some-1.0-variants.json", None), (WHEEL, ""),
         (f"{WHEEL}.metadata", ".metadata")],
    )  # fmt: skip
    def test_internal_urls(
        self,
        redirected: str,
        suffix: str | None,
        internal: tuple[str, list[Request]],
        folder: Path,
        index: RecordingIndex,
    ) -> None:
        """The proxy requests no internal URL of a page or a redirect."""
        origin, requests = internal
        release(folder, "some", {"cu129": [LINUX_TAG]}, requires=BY_VARIANT)
        index.faults.redirect[redirected] = f"{origin}/x"
        url = index.url.replace("127.0.0.1", "localhost")
        with Behind(url, supported={"nvidia": CUDA}, mode="full", admission=LOCALHOST) as behind:
            path = "/simple/some/"
            if suffix is not None:
                (file,) = behind.page("some", PIP).values()
                path = f"{behind.path_of(file)}{suffix}"
            assert behind.ask(path).status == 502
        assert requests == []

    def test_dns_rebinding(
        self, internal: tuple[str, list[Request]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """DNS rebinding: the address at connection time is checked."""
        origin, requests = internal
        port = int(origin.rpartition(":")[2])
        answers = iter(["127.0.0.2", "127.0.0.1"])
        real = socket.getaddrinfo

        def resolver(host: str, *rest: object, **more: object) -> object:
            """Be a name server of somebody who wants in."""
            if host != "files.evil.example":
                return real(host, *rest, **more)  # type: ignore[arg-type]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

        monkeypatch.setattr(socket, "getaddrinfo", resolver)
        seen: list[str] = []

        def admits(_host: str, address: str) -> bool:
            """Stand for what is public: the address that the name has first."""
            seen.append(address)
            return address == "127.0.0.2"

        page = Response.of(200, b"", {"content-type": "text/html", "connection": "close"})
        with LoopbackServer(lambda _request: page, host="127.0.0.2", port=port):
            url = f"http://files.evil.example:{port}/simple/"
            with Behind(url, admission=admits, mode="full") as behind:
                assert [behind.ask("/simple/some/").status for _ in range(2)] == [200, 502]
        assert seen == ["127.0.0.2", "127.0.0.1"]  # connected to, looked at, and told nothing
        assert requests == []

    @pytest.mark.parametrize(
        "location",
        [
            "file:///etc/passwd",
            "gopher://127.0.0.1:70/x",
            "ftp://127.0.0.1/x",
            "http://169.254.169.254/latest/meta-data/",
            "http://index.example@169.254.169.254/",
            "http://[::ffff:169.254.169.254]/",
            "http://2852039166/",
            "http://0/",
            "//[::]/",
            "http://127.1/",
            "http://x\r\nX-Evil: yes/",
        ],
    )
    def test_invalid_redirects(self, location: str) -> None:
        """Other schemes, unusual spellings, credentials and line breaks are not followed."""
        paths: list[str] = []

        def answer(request: Request) -> Response:
            paths.append(request.path)
            return Response(302, {"location": location.replace("\r\n", "%0d%0a")})

        with RecordingIndex(answer) as index:
            url = index.url.replace("127.0.0.1", "localhost")
            with Behind(url, mode="full", admission=LOCALHOST) as behind:
                assert behind.ask("/simple/some/").status == 502
        assert set(paths) == {"/simple/some/"}

    @pytest.mark.parametrize(
        "url",
        [
            "file:///etc/passwd",
            "file://localhost/etc/passwd",
            "gopher://127.0.0.1:70/x",
            "data:text/plain,x",
            "bridge:cupy/x",
            "FILE:///etc/passwd",
        ],
    )
    @pytest.mark.parametrize("kind", ["json", "html", "base"])
    def test_links_of_other_schemes(self, url: str, kind: str) -> None:
        """Links with other schemes are not followed."""
        names = (
            f"some-1.0-{LINUX_TAG}-cu129.whl",
            "some-1.0-variants.json",
            "some-1.0-py3-none-any.whl",
        )
        if kind == "json":
            files = [
                {"filename": name, "url": url, "hashes": {}, "core-metadata": True}
                for name in names
            ]
            page = json.dumps({"meta": {"api-version": "1.0"}, "name": "some", "files": files})
        else:
            base = f'<base href="{url}">' if kind == "base" else ""
            links = (f'<a href="{name if base else url}">{name}</a>' for name in names)
            page = f"<!doctype html><head></head>{base}" + "".join(links)
        form = {"content-type": JSON if kind == "json" else "text/html"}
        with (
            RecordingIndex(lambda _request: Response.of(200, page.encode(), form)) as index,
            Behind(index.url, supported={"nvidia": CUDA}, mode="full") as behind,
        ):
            answer = behind.ask("/simple/some/", PIP)
            if answer.status == 200:
                assert json.loads(body(answer))["files"] == []
            else:
                assert answer.status == 502


class TestPages:
    """Malicious pages."""

    def served(self, content: bytes, **headers: str) -> RecordingIndex:
        """Return an index with one page for every path."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return RecordingIndex(
            lambda _request: Response.of(200, content, {"content-type": JSON, **named})
        )

    def test_gzip_bomb(self) -> None:
        """A gzip bomb is refused at the maximum page size."""
        bomb = gzip.compress(b"[" * (80 << 20), 1)
        with (
            self.served(bomb, content_encoding="gzip") as index,
            Behind(index.url, mode="full") as behind,
        ):
            answer = behind.ask("/simple/some/")
            assert answer.status == 502
            assert b"longer than" in body(answer)

    def test_many_empty_gzip_members(self) -> None:
        """A page of many empty gzip members is read in linear time."""
        page = json.dumps({"meta": {"api-version": "1.0"}, "name": "some", "files": []}).encode()
        members = gzip.compress(b"") * 50_000 + gzip.compress(page)
        with (
            self.served(members, content_encoding="gzip") as index,
            Behind(index.url, mode="full") as behind,
        ):
            answer = behind.ask("/simple/some/", {"accept": JSON, "accept-encoding": "identity"})
            assert (answer.status, body(answer)) == (200, page)

    def test_wrong_hash_of_a_small_wheel(
        self, folder: Path, index: RecordingIndex, behind: Behind
    ) -> None:
        """A small wheel with a wrong hash is an error before any byte is sent."""
        release(folder, "some", {"cu129": [LINUX_TAG]}, requires=BY_VARIANT)
        index.faults.wrong_hash.add(WHEEL)
        (file,) = behind.page("some", PIP).values()
        answer = behind.ask(behind.path_of(file))
        assert (answer.status, b"sha256" in body(answer).lower()) == (502, True)

    def test_header_injection(self) -> None:
        """URLs with line breaks cannot add headers."""
        document = release_document(
            {"cu129": {"nvidia": {"cuda_version_lower_bound": ["12.9"]}}}, providers={"nvidia": NV}
        )
        page = {
            "meta": {"api-version": "1.0"},
            "name": "some",
            "files": [
                {
                    "filename": WHEEL,
                    "url": f"http://evil.example/a\r\nSet-Cookie: b=c\r\n\r\n/{WHEEL}",
                    "hashes": {},
                },
                {"filename": "some-1.0-variants.json", "url": "/v", "hashes": {}},
            ],
        }

        def answer(request: Request) -> Response:
            if request.path.startswith("/simple/"):
                return Response.of(200, json.dumps(page).encode(), {"content-type": JSON})
            return Response.of(200, json.dumps(document).encode(), {"content-type": JSON})

        with (
            RecordingIndex(answer) as index,
            Behind(index.url, supported={"nvidia": CUDA}, mode="full") as behind,
        ):
            page["files"][0]["url"] = f"{index.origin}/a\r\nSet-Cookie: b=c/{WHEEL}"  # type: ignore[index]
            (file,) = behind.page("some", PIP).values()
            location = behind.ask(behind.path_of(file)).headers["location"]
            assert location == f"{index.origin}/aSet-Cookie:%20b=c/{WHEEL}"

    def test_path_traversal(self, folder: Path, index: RecordingIndex, behind: Behind) -> None:
        """Project names cannot traverse paths."""
        release(folder, "some", {"cu129": [LINUX_TAG]})
        moved = behind.ask("/simple/SoMe/")
        assert (moved.status, moved.headers["location"]) == (301, "../some/")
        before = len(index.requests)
        for name in ("..", "..%2f..%2fetc", "%00", "a%0d%0ab", "%2e%2e", "a/b", "-", "a%20b"):
            assert behind.ask(f"/simple/{name}/").status in (301, 404)
            assert behind.ask(f"/for/{name}/simple/some/").status == 404
            assert behind.ask(f"/files/{name}/{'0' * 16}/x.whl").status == 404
        asked = {request.path for request in index.requests[before:]}
        assert all(path.startswith("/simple/") and ".." not in path for path in asked)


class TestSlowIndexes:
    """Indexes that never finish."""

    @pytest.fixture
    def dripping(self, request: pytest.FixtureRequest) -> Iterator[str]:
        """Yield the URL of a server that sends a byte now and then."""
        begin: bytes = request.param
        over = threading.Event()

        def drip(line: socket.socket) -> None:
            with line, suppress(OSError):
                line.recv(65536)
                line.sendall(begin)
                while not over.wait(0.02):
                    line.sendall(b"a")

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=drip, args=(listener.accept()[0],)).start()

        listener = socket.create_server(("127.0.0.1", 0))
        thread = threading.Thread(target=accept)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/simple/"
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()

    @pytest.mark.parametrize(
        "dripping",
        [
            b"",
            b"HTTP/1.1 200 OK\r\nx-a: b",
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<a>",
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 9999999\r\n\r\n<a>",
        ],
        indirect=True,
    )
    def test_slow_page(self, dripping: str) -> None:
        """A page that does not end is abandoned with an error."""
        with Behind(dripping, mode="full", patience=0.5) as behind:
            answer = behind.ask("/simple/some/")
            assert (answer.status, b"takes too long" in body(answer)) == (502, True)

    @pytest.mark.parametrize(
        "dripping", [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"], indirect=True
    )
    def test_slow_documents(self, dripping: str, folder: Path, index: RecordingIndex) -> None:
        """Documents and metadata have no more time than a page."""
        release(folder, "some", {"cu129": [LINUX_TAG]})
        index.faults.redirect["some-1.0-variants.json"] = f"{dripping}x"
        options = {"supported": {"nvidia": CUDA}, "mode": "full", "patience": 0.5}
        with Behind(index.url, **options) as behind:  # type: ignore[arg-type]
            answer = behind.ask("/simple/some/", PIP)
            assert (answer.status, b"takes too long" in body(answer)) == (502, True)


class TestSecret:
    """The secret path."""

    @pytest.fixture
    def application(self) -> SecretPathGuard:
        """Return an application that answers with the path."""
        return SecretPathGuard(
            lambda request: Response.text(200, request.path), "s3cret-of-this-run"
        )

    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "",
            "/simple/",
            "//simple/",
            "/s3cret-of-this-ru/simple/",
            "/s3cret-of-this-run2/simple/",
            "/s3cret-of-this-run",
            "/%733cret-of-this-run/simple/",
            "/ä/simple/",
        ],
    )
    def test_wrong_path(self, application: SecretPathGuard, path: str) -> None:
        """Any other path is a 404."""
        answer = application(Request("GET", path))
        assert answer.status == 404
        assert body(answer) == b"there is no such page or file\n"

    def test_secret_path(self, application: SecretPathGuard) -> None:
        """The application gets the path without the secret."""
        answer = application(Request("GET", "/s3cret-of-this-run/simple/x/"))
        assert body(answer) == b"/simple/x/\n"


def test_content_security_policy() -> None:
    """Scripts in a page of an index are not executed by browsers."""
    page = b"<html><script>alert(1)</script><a href='x-1.tar.gz'>x-1.tar.gz</a></html>"
    answer = Response.of(200, page, {"content-type": "text/html"})
    with RecordingIndex(lambda _: answer) as index, Behind(index.url, mode="full") as behind:
        got = behind.ask("/simple/x/", {"accept": "text/html"})
    assert body(got).endswith(page)
    assert got.headers["content-security-policy"].startswith("default-src 'none'")
    assert got.headers["x-content-type-options"] == "nosniff"


def test_host_header_does_not_change_pages(folder: Path, behind: Behind) -> None:
    """Links are relative, so the Host header cannot poison a cache."""
    release(folder, "some", {"cu129": [LINUX_TAG]})
    with LoopbackServer(behind.proxy) as server:
        port = int(server.origin.rpartition(":")[2])
        request = b"GET /simple/some/ HTTP/1.0\r\nHost: evil.example\r\n\r\n"
        poisoned = raw(("127.0.0.1", port), request).partition(b"\r\n\r\n")[2]
        with urlopen(f"{server.origin}/simple/some/") as answer:
            assert answer.read() == poisoned
        assert b"evil" not in poisoned


def test_other_methods() -> None:
    """Only GET and HEAD are allowed."""
    with Behind("http://127.0.0.1:9/simple/") as behind:
        for method in ("POST", "PUT", "DELETE"):
            assert behind.ask("/simple/x/", method=method).status == 405
