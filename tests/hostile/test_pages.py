"""Index pages that mean harm (CVE-2026-13346, CVE-2025-47273, pip #6413; PEP 503, PEP 691)."""

from __future__ import annotations

import gzip
import html
import json
from typing import Any

import pytest
from hostile.archives import rebuilt
from hostile.conftest import Site
from hostile.shelf import Endless

from wheelfit.server.messages import Response
from wheelfit.server.pages import HTML, JSON
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

EVIL = "demo-9-py3-none-any.whl"


@pytest.fixture(autouse=True)
def flat(site: Site) -> None:
    """Be quick: nothing here depends on the kind of environment."""
    site.flat = True


def json_page(*files: dict[str, Any], **changes: object) -> tuple[str, bytes]:
    """Return a page in JSON."""
    page = {"meta": {"api-version": "1.0"}, "name": "demo", "files": list(files), **changes}
    return JSON, json.dumps(page).encode()


def html_page(*links: tuple[str, str], head: str = "") -> tuple[str, bytes]:
    """Return a page in HTML."""
    lines = (f'<a href="{html.escape(url)}">{html.escape(text)}</a>' for url, text in links)
    return HTML, f"<!DOCTYPE html><html><head>{head}</head><body>{''.join(lines)}".encode()


@pytest.fixture
def good(site: Site) -> Site:
    """Put a good wheel, and a bad one that no page of the index should lead to."""
    site.shelf.put(build_wheel(site.wheels, "demo", "1"))
    bad = build_wheel(site.wheels, "demo", "9")
    (site.folder / "home" / EVIL).write_bytes(bad.read_bytes())
    bad.unlink()
    return site


GOOD = "demo-1-py3-none-any.whl"


class TestNames:
    """File names that are paths, once or twice encoded."""

    @pytest.mark.parametrize(
        "last",
        [
            "..%2f..%2fdemo-9-py3-none-any.whl",
            "%2e%2e%2fdemo-9-py3-none-any.whl",
            "%252e%252e%252fdemo-9-py3-none-any.whl",
            "..%5c..%5cdemo-9-py3-none-any.whl",
            "%2fetc%2fdemo-9-py3-none-any.whl",
            "demo-9-py3-none-any.whl%00.txt",
            "demo-9-py3-none-any%0d%0aX-Evil: 1.whl",
            "demo-9%2f..%2f..-py3-none-any.whl",
            "demo-9-py3-none-any.whl%2f..%2f..%2fevil",
            "C%3ademo-9-py3-none-any.whl",
        ],
    )
    def test_in_html(self, good: Site, last: str) -> None:
        """F-16: the last part of the URL is decoded once, and is a plain name or nothing."""
        good.shelf.pages["demo"] = html_page((f"/files/{last}", last), (f"/files/{GOOD}", GOOD))
        good.run("install", "demo")
        assert (good.library / "demo-1.dist-info").exists()
        assert {request.path for request in good.index.requests} == {
            "/simple/demo/",
            f"/files/{GOOD}",
        }

    @pytest.mark.parametrize(
        "name",
        [
            f"../{EVIL}",
            f"../../../../{EVIL}",
            f"/tmp/{EVIL}",
            f"..\\{EVIL}",
            f"C:\\{EVIL}",
            f"{EVIL}\0",
            f"{EVIL}\r\nX-Evil: 1",
            f" {EVIL}",
            f"{EVIL} ",
            f"\x1b[2J{EVIL}",
            "..",
            ".",
            "",
        ],
    )
    def test_in_json(self, good: Site, name: str) -> None:
        """The name of an entry is a plain name, whatever its URL ends with."""
        good.shelf.pages["demo"] = json_page(
            {"filename": name, "url": f"/files/{EVIL}", "hashes": {}},
            {"filename": GOOD, "url": f"/files/{GOOD}", "hashes": {}},
        )
        result = good.run("install", "demo")
        assert (good.library / "demo-1.dist-info").exists()
        told = good.run("explain", "demo")
        assert "\x1b" not in result.out + result.err + told.out + told.err

    def test_the_name_a_server_invents(self, good: Site) -> None:
        """Pip #6413: Content-Disposition decides nothing."""
        wheel = good.shelf.bodies[f"/files/{GOOD}"]
        good.shelf.answers[f"/files/{GOOD}"] = Response.of(
            200, wheel, {"content-disposition": 'attachment; filename="../../../evil.whl"'}
        )
        before = good.world()
        good.run("install", "demo")
        assert all(name.startswith("flat") for name in good.world().keys() - before.keys())


class TestLinks:
    """Links that lead where an index has no business."""

    @pytest.mark.parametrize("kind", ["json", "html"])
    @pytest.mark.parametrize(
        "link",
        [
            "file://{home}/{evil}",
            "FILE://{home}/{evil}",
            "file:{home}/{evil}",
            "file://localhost{home}/{evil}",
            " file://{home}/{evil}",
            "fi\tle://{home}/{evil}",
            "javascript:alert(1)//{evil}",
            "data:application/zip;base64,/{evil}",
            "ftp://127.0.0.1/{evil}",
            "gopher://127.0.0.1/{evil}",
            "git+https://127.0.0.1/{evil}",
            "http:///{evil}",
            "http://[::1/{evil}",
            "http://127.0.0.1:99999/{evil}",
            "http://127.0.0.1:" + "9" * 5000 + "/{evil}",
            "http://127.0.0.1:x/{evil}",
            "http://a..b/{evil}",
            "http://" + "a" * 300 + "/{evil}",
            "http://\u2100.invalid/{evil}",
        ],
        ids=range(19),
    )
    def test_they_are_left_out(self, good: Site, kind: str, link: str) -> None:
        """A page of a server leads to servers only; what is not a URL is not a file."""
        url = link.format(home=good.folder / "home", evil=EVIL)
        if kind == "json":
            good.shelf.pages["demo"] = json_page(
                {"filename": EVIL, "url": url, "hashes": {}},
                {"filename": GOOD, "url": f"/files/{GOOD}", "hashes": {}},
            )
        else:
            good.shelf.pages["demo"] = html_page((url, EVIL), (f"/files/{GOOD}", GOOD))
        result = good.attempt("install", "demo", "--timeout", "2")
        assert result.code in {0, 5}
        assert not (good.library / "demo-9.dist-info").exists()
        if result.code == 5:
            assert not url.strip().lower().startswith(("file", "fi\t", "javascript", "data"))

    def test_a_base_that_is_local(self, good: Site) -> None:
        """``<base href="file:...">`` makes no local files of the links of a remote page."""
        home = good.folder / "home"
        head = f'<base href="file://{home}/">'
        good.shelf.pages["demo"] = html_page((EVIL, EVIL), head=head)
        result = good.attempt("install", "--json", "demo")
        assert result.code == 3
        good.shelf.pages["page.html"] = html_page((EVIL, EVIL), head=head)
        result = good.attempt("install", "demo", "--no-index", "-f", f"{good.index.url}page.html/")
        assert result.code == 3

    @pytest.mark.parametrize("base", ["javascript:alert(1)", "http://[", "//", "data:,"])
    def test_a_base_that_is_none(self, good: Site, base: str) -> None:
        """A page with a senseless base is an error or empty, not a crash."""
        good.shelf.pages["demo"] = html_page((GOOD, GOOD), head=f'<base href="{base}">')
        assert good.attempt("install", "--json", "demo").code in {1, 3, 5}

    def test_the_page_redirected_to_a_file(self, good: Site) -> None:
        """A redirect leads to servers only (exit code 5)."""
        good.index.faults.redirect["/simple/demo/"] = f"file://{good.folder}/home/"
        good.refused("demo", code=5)

    @pytest.mark.parametrize(
        "target",
        ["file://{home}/" + EVIL, "javascript:alert(1)", "http://[", "http://", "ftp://x/"],
    )
    def test_a_file_redirected(self, good: Site, target: str) -> None:
        """The same for files."""
        home = good.folder / "home"
        good.index.faults.redirect[GOOD] = target.format(home=home)
        good.refused("demo", code=5)


class TestRedirects:
    """Redirects without end, and with more in them than a URL."""

    def test_a_loop(self, good: Site) -> None:
        """A loop ends after a few rounds (exit code 5)."""
        good.index.faults.redirect["/simple/demo/"] = f"{good.index.url}demo/"
        good.refused("demo", code=5)
        assert len(good.index.requests) < 20

    def test_a_spiral(self, good: Site) -> None:
        """So does one that never comes to the same place twice."""
        good.index.faults.redirect["/simple/"] = f"{good.index.url}more/"
        good.refused("demo", code=5)
        assert len(good.index.requests) < 20

    @pytest.mark.parametrize("location", ["/simple/demo\r\nX-Evil: 1", "/a b/\x00", "\x7f", ""])
    def test_line_ends_in_a_location(self, good: Site, location: str) -> None:
        """What is in a location ends up in no header of the next request."""
        good.index.faults.redirect["/simple/demo/"] = location
        good.attempt("install", "--json", "demo")
        for request in good.index.requests:
            assert "x-evil" not in request.headers

    def test_line_ends_in_a_link(self, good: Site) -> None:
        """Nor what is in a link."""
        url = f"/files/{GOOD}?\r\nX-Evil: 1\r\n"
        good.shelf.pages["demo"] = json_page({"filename": GOOD, "url": url, "hashes": {}})
        good.attempt("install", "demo")
        for request in good.index.requests:
            assert "x-evil" not in request.headers


class TestSize:
    """Pages that are too long."""

    def test_fifty_megabytes(self, good: Site) -> None:
        """A page of 50 MB is read, and costs about as many bytes."""
        filler = f"<!-- {'x' * 1000} -->\n" * 50_000
        kind, page = html_page((f"/files/{GOOD}", GOOD))
        good.shelf.pages["demo"] = kind, page + filler.encode()
        good.run("install", "demo")
        assert good.index.bytes_sent("/simple/demo/") < 60 << 20

    def test_many_links(self, good: Site) -> None:
        """A page of 20,000 links that are none is read in one go."""
        links = [(f"/x/demo-{n}-py3-none-any.wh", f"demo-{n}") for n in range(20_000)]
        good.shelf.pages["demo"] = html_page(*links, (f"/files/{GOOD}", GOOD))
        good.run("install", "demo")

    @pytest.mark.parametrize("kind", [JSON, HTML])
    def test_an_endless_one(self, good: Site, kind: str) -> None:
        """Reading stops at a bound (exit code 5)."""
        good.shelf.answers["/simple/demo/"] = Response(
            200, {"content-type": kind}, Endless(), length=1 << 50
        )
        good.refused("demo", code=5)
        assert good.index.bytes_sent() < 90 << 20

    @pytest.mark.parametrize("layers", [1, 2])
    def test_a_bomb(self, good: Site, layers: int) -> None:
        """So does unpacking (exit code 5)."""
        body = bytes(80 << 20)
        for _ in range(layers):
            body = gzip.compress(body, 1)
        headers = {"content-type": HTML, "content-encoding": ", ".join(["gzip"] * layers)}
        good.shelf.answers["/simple/demo/"] = Response.of(200, body, headers)
        good.refused("demo", code=5)

    @pytest.mark.parametrize("encoding", ["br", "zstd", "nonsense"])
    def test_an_encoding_nobody_asked_for(self, good: Site, encoding: str) -> None:
        """It is not guessed at (exit code 5)."""
        headers = {"content-type": HTML, "content-encoding": encoding}
        good.shelf.answers["/simple/demo/"] = Response.of(200, b"x" * 100, headers)
        good.refused("demo", code=5)


class TestContent:
    """Pages that are no pages."""

    @pytest.mark.parametrize(
        ("kind", "body", "code"),
        [
            (JSON, b"", 5),
            (JSON, b"{", 5),
            (JSON, b"[" * 1_000_000, 5),
            (JSON, b'{"files":' * 100_000, 5),
            (JSON, b'{"files": 1}', 5),
            (JSON, b'{"files": [{"filename": 1, "url": []}]}', 5),
            (JSON, b'{"files": [], "meta": {"api-version": "2.0"}}', 5),
            (JSON, b'{"files": [], "meta": {"api-version": "' + b"9" * 5000 + b'"}}', 5),
            (JSON, b'{"files": [{"filename": "a", "url": "a", "size": 1e999}]}', 5),
            (JSON, b'\xff\xfe{"files": []}', 5),
            (HTML, b'<meta name="pypi:repository-version" content="2.0">', 5),
            (HTML, b"<a href=" * 200_000, 3),
            (HTML, b"<a " + b"x=" * 500_000, 3),
            (HTML, b"<!--" * 500_000, 3),
            (HTML, b"<" * 2_000_000, 3),
            (HTML, b"<script>" * 200_000, 3),
            (HTML, b"<a href='" + b"&" * 1_000_000 + b"'>", 3),
            (HTML, b"\0" * 1_000_000, 3),
            ("text/html; charset=nonsense", b"<a>", 3),
            ("text/html; charset=utf-7", b"+ADw-a href=x+AD4-", 3),
            ("text/plain", b"hello", 5),
            ("", b"hello", 3),
            ("application/zip", b"PK\x03\x04", 5),
        ],
        ids=range(23),
    )
    def test_what_cannot_be_read(self, good: Site, kind: str, body: bytes, code: int) -> None:
        """A page that means nothing is an error (5) or empty (3), and never takes long."""
        good.shelf.answers["/simple/demo/"] = Response.of(200, body, {"content-type": kind})
        said = good.refused("demo", code=code)
        assert len(said.out) < 12_000

    def test_html_in_names(self, good: Site) -> None:
        """Names are text: nothing in them is a link or a script of the page."""
        good.shelf.pages["demo"] = html_page(
            ("x", f'<a href="/files/{EVIL}">'), (f"/files/{GOOD}", f"<script>{EVIL}</script>")
        )
        good.run("install", "demo")
        assert not good.index.requests_for(EVIL)

    @pytest.mark.parametrize(
        "changes",
        [
            {"requires-python": ">=" + "9" * 5000},
            {"requires-python": "\x1b[2J"},
            {"requires-python": "(" * 100_000},
            {"requires-python": ">=3" + ",>=3" * 20_000},
            {"yanked": "\x1b[2J\x1b]0;owned\x07 because"},
            {"yanked": "line\nanother: line"},
            {"upload-time": "\x1b[2J"},
            {"hashes": {"sha256": "../../../evil"}},
            {"hashes": {"sha256": "A" * 64}},
            {"hashes": {"crc32": "0"}},
            {"hashes": {"shake_128": "00"}},
            {"hashes": {"../evil": "00"}},
            {"hashes": {"sha256": ""}},
            {"size": -5},
            {"size": 1},
            {"core-metadata": {"sha256": "0" * 64}},
            {"core-metadata": {"nonsense": "0"}},
            {"gpg-sig": True},
        ],
        ids=range(18),
    )
    def test_attributes(self, good: Site, changes: dict[str, object]) -> None:
        """What is said about a file is checked, or shown without doing harm to a terminal."""
        entry = {"filename": GOOD, "url": f"/files/{GOOD}", "hashes": {}, **changes}
        good.shelf.pages["demo"] = json_page(entry)
        for command in ("explain", "install"):
            result = good.attempt(command, "demo")
            assert result.code in {0, 1, 3, 4, 5}
            assert "\x1b" not in result.out + result.err
            assert "\n" + "another: line" not in result.out + result.err


class TestHostsOfOthers:
    """Answers that claim to be other files."""

    def test_a_wheel_under_another_name(self, good: Site) -> None:
        """F-27: a redirect to the wheel of another project installs nothing of it."""
        other = build_wheel(good.wheels, "other", "1")
        good.shelf.put(other)
        good.shelf.pages["demo"] = json_page(
            {"filename": GOOD, "url": f"/files/{other.name}", "hashes": {}}
        )
        result = good.attempt("install", "--json", "demo")
        assert result.code in {3, 4}
        assert good.installed() == {}

    def test_ranges_that_lie(self, good: Site) -> None:
        """A server that answers a range with other bytes does not put a wheel together."""
        wheel = good.shelf.bodies[f"/files/{GOOD}"]
        good.shelf.pages["demo"] = json_page(
            {"filename": GOOD, "url": f"/files/{GOOD}", "hashes": {}}
        )
        for header in (
            f"bytes 0-99/{len(wheel)}",
            f"bytes 0-{len(wheel) - 1}/{len(wheel) * 2}",
            f"bytes 0-{len(wheel) - 1}/{'9' * 5000}",
            "bytes 5-1/3",
            "bytes */*",
            "nonsense",
        ):
            good.shelf.answers[f"/files/{GOOD}"] = Response.of(
                206, wheel, {"content-range": header, "content-type": "application/zip"}
            )
            result = good.attempt("install", "--json", "demo", "--no-cache-dir")
            assert result.code in {3, 4, 5}

    def test_a_file_that_changes(self, good: Site) -> None:
        """What one index promised is not taken from what another one serves."""
        changed = rebuilt(good.wheels / GOOD, {"demo/__init__.py": b"owned = True\n"})
        good.shelf.bodies[f"/files/{GOOD}"] = changed
        said = good.refused("demo", code=4)
        assert said.error["code"] == "hash-mismatch" or "size" in said.error["message"]
        with RecordingIndex(good.shelf) as other:
            assert good.attempt("install", "demo", "-i", other.url).code == 4
