"""Indexes that lie, stutter or lead elsewhere: what is said of them, and what never leaks."""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from runtime.libraries.stored import CUDART, SILENT, http
from web_servers import served

from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.messages import Request, Response
from wheelfit.testing.index import RecordingIndex
from wheelfit_runtime.errors import (
    InvalidPage,
    NetworkError,
    NoCompatibleWheel,
    UnexpectedStatus,
    Unreachable,
    UserError,
    WheelfitError,
)
from wheelfit_runtime.libraries.https_client import BUNDLES, ssl_context
from wheelfit_runtime.libraries.listings import read_page
from wheelfit_runtime.libraries.machine import this_machine
from wheelfit_runtime.libraries.transport_http import HttpTransport
from wheelfit_runtime.libraries.versions import Requirement, parse_requirement, parse_version
from wheelfit_runtime.libraries.wheels import ListedWheel, safe_url

PAGE = "https://index.example/simple/some/"
JSON = "application/vnd.pypi.simple.v1+json"


def ask(transport: HttpTransport, project: str = "cuda-toolkit") -> list[ListedWheel]:
    """Return what a client finds of a project."""
    return transport.resolve([Requirement(project)], this_machine(), SILENT)


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Yield a function that serves an answer, or what makes one, and returns the index's URL."""
    with ExitStack() as servers:

        def start(answer: Response | Callable[[Request], Response]) -> str:
            made = answer if callable(answer) else (lambda _: answer)
            return f"{servers.enter_context(LoopbackServer(made)).origin}/simple/"

        yield start


# --- pages ------------------------------------------------------------------------------------


def test_a_page_in_another_encoding() -> None:
    """A page may say in what encoding it is."""
    page = '<p>Müll</p><a href="some-1.0-py3-none-any.whl">x</a>'
    for name in ("utf-8", "latin-1", "utf-16"):
        kind = f"text/html; charset={name}"
        assert [one.version for one in read_page(page.encode(name), kind, PAGE)] == ["1.0"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("Müll".encode("latin-1"), "text/html"),
        (b"x", "text/html; charset=banana"),
        (b"[" * 100_000, "application/json"),
        (b'{"files": [{"filename": "x-1-py3-none-any.whl", "url": "file:///etc/passwd"}]}', JSON),
        (b'{"files": [{"filename": "x-1-py3-none-any.whl", "url": "https://x:y/"}]}', JSON),
        (b'<base href="file:///wheels/"><a href="some-1.0-py3-none-any.whl">x</a>', "text/html"),
        (b"<![banana[ x ]]>", "text/html"),
        (b'<a href="/login?next=some">log in</a><a href="/help">help</a>', "text/html"),
    ],
)
def test_pages_that_mean_harm(body: bytes, kind: str) -> None:
    """A page that cannot be read, leads to this machine or is a login's is an error of its own."""
    with pytest.raises(InvalidPage) as excinfo:
        read_page(body, kind, f"{PAGE}?token=secret")
    assert excinfo.value.where == PAGE


def test_what_a_page_says_of_a_file_is_held_to_its_form() -> None:
    """Sizes that are none, odd hashes and names that lead elsewhere say nothing."""
    name = "some-{}-py3-none-any.whl"
    files: list[dict[str, Any]] = [
        {"filename": name.format(1), "url": "a#sha256=00", "size": -1, "hashes": {"md5": "00"}},
        {"filename": name.format(2), "url": "b", "size": True, "hashes": {"sha256": "A" * 64}},
        {"filename": f"../../{name.format(3)}", "url": "c"},
    ]
    files[0]["core-metadata"], files[1]["core-metadata"] = {"sha256": "no"}, {"sha256": "B" * 64}
    one, two, three = read_page(json.dumps({"files": files}).encode(), JSON, PAGE)
    assert (one.sha256, one.size, one.metadata_sha256) == ("", None, "")
    assert (two.sha256, two.size, two.metadata_sha256) == ("a" * 64, None, "b" * 64)
    assert three.project != "some"


def test_html_promises_metadata_in_capitals_too() -> None:
    """The hash of METADATA counts whatever its letters are in."""
    link = f'<a href="some-1-py3-none-any.whl" data-core-metadata="sha256={"B" * 64}">x</a>'
    assert read_page(link.encode(), "text/html", PAGE)[0].metadata_sha256 == "b" * 64


@pytest.mark.parametrize("text", ["1" * 5000, "1." * 30 + "x", "12.9.79+corp", "1!2", "²"])
def test_versions_that_are_none_of_ours(text: str) -> None:
    """What is not a plain version is passed over."""
    assert parse_version(text) is None


@pytest.mark.parametrize("depth", [101, 900, 5000])
def test_markers_without_end(depth: int) -> None:
    """A marker of hundreds or thousands of parentheses is refused."""
    with pytest.raises(InvalidPage):
        parse_requirement(f"some; {'(' * depth}").applies({})


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_table_that_is_a_bomb(
    serve: Callable[..., str], tmp_path: Path, *, is_whole: bool
) -> None:
    """Of METADATA that unpack to much, a megabyte is read; of broken ones it is said."""
    wheel = tmp_path / "cuda_toolkit-12.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cuda_toolkit-12.9.dist-info/METADATA", b"x" * (16 << 20))
    content = wheel.read_bytes()
    if not is_whole:
        content = content[:60] + b"rubbish" + content[67:]
    digest = hashlib.sha256(content).hexdigest()

    def answer(request: Request) -> Response:
        if request.path.endswith(".whl"):
            return Response.of(200, content, {"content-type": "application/octet-stream"})
        link = f'<a href="/{wheel.name}#sha256={digest}">x</a>'
        return Response.of(200, link.encode(), {"content-type": "text/html"})

    transport = http(serve(answer))
    asked = [Requirement("cuda-toolkit", ("cudart",))]
    if is_whole:
        assert len(transport.resolve(asked, this_machine(), SILENT)) == 1
    else:
        with pytest.raises(InvalidPage):
            transport.resolve(asked, this_machine(), SILENT)


# --- servers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503, 408])
def test_a_server_that_wants_patience(serve: Callable[..., str], status: int) -> None:
    """What is busy is asked again, after the time it names, unless that is too long."""
    asked = []

    def answer(_: Request) -> Response:
        asked.append(1)
        if len(asked) == 1:
            return Response.text(status, "later", {"retry-after": "0"})
        if len(asked) == 3:
            return Response.text(status, "tomorrow", {"retry-after": "86400"})
        return Response.of(200, b"", {"content-type": "text/html"})

    url = serve(answer)
    with pytest.raises(NoCompatibleWheel):
        ask(http(url, attempts=2))
    with pytest.raises(UnexpectedStatus):
        ask(http(url, attempts=5))
    assert len(asked) == 3


def test_a_file_is_asked_for_again(
    index: RecordingIndex, tmp_path: Path, cuda_wheels: Path
) -> None:
    """A server that fails for a moment while a wheel is fetched is asked again."""
    path = next(cuda_wheels.glob("nvidia_cuda_runtime_cu12-12.9*"))
    wheel = ListedWheel(CUDART, "12.9.7", path.name, index.file_url(path.name), "0" * 64)
    index.faults.status[path.name] = 503
    transport = http(index.url, attempts=2)
    with pytest.raises(UnexpectedStatus):
        transport.fetch(wheel, str(tmp_path), SILENT)
    assert len(index.requests) == 2
    index.faults.status.clear()
    assert Path(transport.fetch(wheel, str(tmp_path), SILENT)).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "where", ["{url}cuda-toolkit/", "file:///etc/passwd", "ftp://127.0.0.1/", "http://[x/", "//"]
)
def test_redirections_that_lead_nowhere(index: RecordingIndex, where: str) -> None:
    """A loop, a file, another protocol and rubbish are errors of the network."""
    index.faults.redirect["/simple/cuda-toolkit/"] = where.format(url=index.url)
    with pytest.raises((NetworkError, UserError)):
        ask(http(index.url))


def test_a_login_goes_with_a_redirection_of_its_server(index: RecordingIndex) -> None:
    """A server that redirects to itself gets its login again."""
    index.faults.login = ("me", "secret")
    index.faults.redirect["/old/"] = index.url
    assert ask(http(index.url_with_login("me", "secret").replace("/simple/", "/old/")))


def test_a_redirection_with_a_login_in_it(index: RecordingIndex) -> None:
    """A login in the address that a server redirects to is shown nowhere."""
    index.faults.redirect["/simple/cuda-toolkit/"] = "http://me:secret@127.0.0.1:9/simple/x/"
    with pytest.raises(Unreachable) as excinfo:
        ask(http(index.url))
    assert "secret" not in str(excinfo.value.parts())


@pytest.mark.parametrize(
    "url",
    ["https://me:secret@[x/", "https://me:secret@x:y/simple/", "https:///simple/", "me:secret@x"],
)
def test_addresses_that_are_none(url: str) -> None:
    """An address that is none is said, without the login in it."""
    with pytest.raises(WheelfitError) as excinfo:
        http(url)
    assert "secret" not in str(excinfo.value.parts())


@pytest.mark.parametrize("password", ["hush/hush", "hush?hush", "hush#hush"])
def test_passwords_that_make_an_address_invalid(password: str) -> None:
    """A password that had to be quoted in an address is not shown either."""
    with pytest.raises(UserError, match="not a valid URL") as excinfo:
        HttpTransport(f"https://me:{password}@a.example/simple/", {})
    assert "hush" not in str(excinfo.value) + str(excinfo.value.where)


def test_what_is_shown_of_an_address() -> None:
    """Neither a login nor what is behind the question mark."""
    assert safe_url("https://me:pw@x.example:8/a?token=1#b") == "https://x.example:8/a"
    assert safe_url("https://x.example/a@b") == "https://x.example/a@b"


def test_no_proxy_hears_of_this_machine(
    index: RecordingIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not encrypted goes to this machine straight, whatever proxy is set."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert ask(http(index.url))


def test_a_proxy_with_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that is not there is an error in which its password does not stand."""
    for proxy in ("http://me:secret@127.0.0.1:9", "http:me:secret@nowhere"):
        monkeypatch.setenv("https_proxy", proxy)
        with pytest.raises(Unreachable) as excinfo:
            ask(http("https://index.example/simple/"))
        assert "secret" not in str(excinfo.value.parts())


def test_more_than_was_promised(serve: Callable[..., str], tmp_path: Path) -> None:
    """A body that is longer or shorter than was promised is not taken."""
    url = serve(Response.of(200, b"x" * 100, {"content-type": "text/html"}))
    for size in (99, 101):
        wheel = ListedWheel(CUDART, "1", "some.whl", f"{url}some.whl", "0" * 64, size=size)
        with pytest.raises(Unreachable):
            http(url).fetch(wheel, str(tmp_path), SILENT)


def test_a_server_that_drips(serve: Callable[..., str], tmp_path: Path) -> None:
    """A server that sends a little now and then, for hours, is taken for one that is silent."""

    def drops() -> Iterator[bytes]:
        while True:
            time.sleep(0.02)
            yield b"x"

    url = serve(lambda _: Response(200, {"content-type": "text/html"}, drops(), 1 << 20))
    transport = HttpTransport(url, {"NETRC": os.devnull}, attempts=1, silence=0.1)
    with pytest.raises(Unreachable, match="sends too slowly"):
        ask(transport)
    wheel = ListedWheel(CUDART, "1", "some.whl", f"{url}some.whl", "0" * 64)
    with pytest.raises(Unreachable, match="sends too slowly"):
        transport.fetch(wheel, str(tmp_path), SILENT)


# --- TLS --------------------------------------------------------------------------------------

CERTIFICATES = Path(__file__).parents[2] / "sources" / "certificates"


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Yield a function that serves an empty page with a certificate, and returns the index."""
    (tmp_path / "simple" / "cuda-toolkit").mkdir(parents=True)
    (tmp_path / "simple" / "cuda-toolkit" / "index.html").touch()
    with ExitStack() as servers:
        yield (
            lambda name: (
                servers.enter_context(served(tmp_path, certificate=CERTIFICATES / name))
                + "/simple/"
            )
        )


def test_certificates(secure: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An authority nobody trusts and a name of another server are said; SSL_CERT_FILE counts."""
    url = secure("server.pem")
    with pytest.raises(Unreachable, match="certificate of the server is not trusted") as excinfo:
        ask(http(url, attempts=3))
    assert "SSL_CERT_FILE" in (excinfo.value.hint or "")
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "authority.pem"))
    with pytest.raises(NoCompatibleWheel):  # the page is empty, and was read
        ask(http(url))
    stranger = http(secure("stranger.pem"))
    with pytest.raises(Unreachable, match="is not trusted: self-signed"):
        ask(stranger)
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "stranger.pem"))
    stranger = http(secure("stranger.pem"))
    with pytest.raises(Unreachable, match="is not trusted: IP address mismatch"):
        ask(stranger)


def test_certificates_of_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program frozen on another system finds the certificates of the one it runs on."""
    known = [path for path in BUNDLES if Path(path).is_file()]
    if not known:
        pytest.skip("this system keeps its certificates elsewhere")
    nowhere = ssl.DefaultVerifyPaths("", "", "SSL_CERT_FILE", "", "SSL_CERT_DIR", "")
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nowhere)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert ssl_context().get_ca_certs()
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "authority.pem"))
    assert len(ssl_context().get_ca_certs()) == 1
