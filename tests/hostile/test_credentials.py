"""Who learns a user name and a password, and who sees it."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.conftest import Site
from hostile.shelf import Shelf

from wheelfit.server.messages import Response
from wheelfit.sources.credentials import Credentials, Login, NetrcEntries
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

SECRET = "hunter2-secret"
LOGIN = ("alice", SECRET)


@pytest.fixture
def foreign(site: Site) -> Iterator[RecordingIndex]:
    """Give a second server, which has no business with what the first one is told."""
    shelf = Shelf()
    shelf.put(build_wheel(site.wheels, "demo", "1"))
    with RecordingIndex(shelf) as index:
        yield index


def logins(index: RecordingIndex) -> set[str]:
    """Return every login that a server was shown."""
    shown = set()
    for request in index.requests:
        if header := request.headers.get("authorization"):
            shown.add(base64.b64decode(header.removeprefix("Basic ")).decode())
        assert SECRET not in request.path
        assert not any(SECRET in value for value in request.headers.values())
    return shown


def put(site: Site) -> None:
    """Put a wheel on an index that wants a login."""
    site.shelf.put(build_wheel(site.wheels, "demo", "1"))
    site.index.faults.login = LOGIN


def test_it_is_used_and_not_shown(site: Site) -> None:
    """The login of an index gets the user in, and stands in no output and in nothing kept."""
    put(site)
    url = site.index.url_with_login(*LOGIN)
    for words in (["explain", "demo"], ["install", "--json", "-v", "demo"], ["list", "--json"]):
        result = site.run(*words, *(["-i", url] if words[0] != "list" else []))
        assert SECRET not in result.out + result.err
    for path in site.folder.rglob("*"):
        assert SECRET not in path.name
        if path.is_file() and not path.is_symlink():
            assert SECRET.encode() not in path.read_bytes()


@pytest.mark.parametrize("what", ["/simple/demo/", "/files/"])
def test_a_redirect_to_another_server(site: Site, foreign: RecordingIndex, what: str) -> None:
    """A login goes to its own scheme, host and port; a redirect elsewhere takes none along."""
    put(site)
    rest = "simple/demo/" if what != "/files/" else "files/"
    site.index.faults.redirect[what] = f"{foreign.origin}/{rest}"
    site.run("install", "demo", "-i", site.index.url_with_login(*LOGIN))
    assert foreign.requests
    assert logins(foreign) == set()


def test_a_redirect_that_brings_a_login(site: Site, foreign: RecordingIndex) -> None:
    """What is in a location is the server's own, for that one request, and is not shown."""
    put(site)
    evil = foreign.origin.replace("://", f"://eve:{SECRET}x@")
    site.index.faults.redirect["/files/"] = f"{evil}/files/"
    foreign.faults.status["demo-1-py3-none-any.whl"] = 404
    result = site.attempt("install", "--json", "demo", "-i", site.index.url_with_login(*LOGIN))
    assert result.code == 5
    assert SECRET not in result.out + result.err


def test_a_link_to_another_server(site: Site, foreign: RecordingIndex) -> None:
    """A page cannot send the login of its index to a server of its choice."""
    put(site)
    name = "demo-1-py3-none-any.whl"
    for where in (f"{foreign.origin}/files/{name}", f"//alice@{foreign.origin[7:]}/files/{name}"):
        site.shelf.revise(name, url=where)
        site.attempt("install", "demo", "-i", site.index.url_with_login(*LOGIN), "--no-cache-dir")
        assert SECRET not in "".join(logins(foreign))
    assert foreign.requests


def test_another_server_that_asks_for_it(site: Site, foreign: RecordingIndex) -> None:
    """Nor does that server get it by asking (401)."""
    put(site)
    name = "demo-1-py3-none-any.whl"
    site.shelf.revise(name, url=f"{foreign.origin}/files/{name}")
    foreign.faults.login = ("anyone", "at all")
    site.refused("demo", "-i", site.index.url_with_login(*LOGIN), code=5)
    assert logins(foreign) == set()


def test_two_indexes(site: Site, foreign: RecordingIndex) -> None:
    """Each index sees its own login."""
    put(site)
    foreign.faults.login = ("bob", "other")
    site.run(
        "install",
        "demo",
        "-i",
        foreign.url_with_login("bob", "other"),
        "--extra-index-url",
        site.index.url_with_login(*LOGIN),
    )
    assert logins(foreign) == {"bob:other"}
    assert logins(site.index) <= {f"alice:{SECRET}"}


class TestNetrc:
    """What lies in netrc is looked up by host."""

    def write(self, site: Site, text: str) -> None:
        """Write the file."""
        path = site.folder / "home" / ".netrc"
        path.write_text(text)
        path.chmod(0o600)

    def test_it_is_used(self, site: Site) -> None:
        """The host of the index may see what netrc has for it."""
        put(site)
        self.write(site, f"machine 127.0.0.1 login alice password {SECRET}\n")
        result = site.run("install", "demo")
        assert SECRET not in result.out + result.err

    def test_not_for_another_host(self, site: Site) -> None:
        """Other hosts do not, whatever redirects and links lead there."""
        put(site)
        self.write(site, f"machine example.invalid login alice password {SECRET}\n")
        site.refused("demo", code=5)
        assert logins(site.index) == set()

    def test_the_default_is_for_nobody_a_page_names(
        self, site: Site, foreign: RecordingIndex
    ) -> None:
        """A redirect to another server gets no default."""
        put(site)
        self.write(site, f"default login alice password {SECRET}\n")
        other = foreign.origin.replace("127.0.0.1", "localhost")
        site.index.faults.redirect["/files/"] = f"{other}/files/"
        site.run("install", "demo")
        assert logins(foreign) == set()

    def test_one_that_cannot_be_read(self, site: Site) -> None:
        """It is left out with a note that shows nothing of it."""
        put(site)
        self.write(site, f"machine 127.0.0.1 lgoin alice password {SECRET}\n")
        result = site.run("install", "demo", code=5)
        assert SECRET not in result.out + result.err
        assert ".netrc is not used" in result.err


class TestPlainHttp:
    """Servers that only a page has named, where anybody on the way may listen."""

    ENTRIES = NetrcEntries({"files.example": Login(*LOGIN)}, Login("anybody", SECRET))

    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("https://files.example/a.whl", Login(*LOGIN)),
            ("http://files.example/a.whl", None),
            ("http://files.example:443/a.whl", None),
            ("https://evil.example/a.whl", None),
            ("https://index.example/a.whl", Login("anybody", SECRET)),
            ("http://index.example/a.whl", None),
        ],
    )
    def test_what_they_learn(self, url: str, expected: Login | None) -> None:
        """They learn nothing, and nobody learns the default whom the user has not named."""
        known = Credentials(["https://index.example/simple/"], logins=self.ENTRIES)
        assert known.first(url) == expected

    def test_unless_they_are_trusted(self) -> None:
        """Whoever trusts a host has said so."""
        known = Credentials(
            ["https://index.example/simple/"],
            logins=self.ENTRIES,
            is_trusted=lambda host, _port: host == "files.example",
        )
        assert known.first("http://files.example/a.whl") == Login(*LOGIN)

    def test_keyring_is_not_asked_either(self) -> None:
        """Nor is it asked for a server that would not be told."""

        class Never:
            def find(self, service: str, user: str | None) -> tuple[str, str] | None:
                raise AssertionError(service, user)

        known = Credentials(
            ["https://index.example/simple/"], logins=NetrcEntries({}), keyring=Never()
        )
        assert known.after_refusal("http://files.example/a.whl", None) is None


class TestKeyring:
    """What keyring has is asked for by the URL of the index, then by host."""

    @pytest.fixture(autouse=True)
    def keyring(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put a program on PATH that knows the index and writes down what it is asked."""
        folder = site.folder / "home" / "bin"
        folder.mkdir()
        self.asked = site.folder / "cache" / "asked"
        self.asked.parent.mkdir()
        program = folder / "keyring"
        program.write_text(
            "#!/bin/sh\n"
            f'echo "$*" >> {self.asked}\n'
            f'case "$*" in *"{site.index.url}"*) '
            f"""echo '{{"username": "alice", "password": "{SECRET}"}}';; *) exit 1;; esac\n"""
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("PIP_KEYRING_PROVIDER", "subprocess")

    def test_it_is_asked_after_a_refusal(self, site: Site) -> None:
        """A server that needs no login causes no question."""
        site.shelf.put(build_wheel(site.wheels, "demo", "1"))
        site.run("install", "demo")
        assert not self.asked.exists()
        put(site)
        result = site.run("install", "demo", "--force-reinstall", "--no-cache-dir")
        assert self.asked.exists()
        assert SECRET not in result.out + result.err

    def test_another_server_gets_nothing(self, site: Site, foreign: RecordingIndex) -> None:
        """A server that a redirect leads to is asked about by its own name only."""
        put(site)
        foreign.faults.login = ("bob", "other")
        site.index.faults.redirect["/files/"] = f"{foreign.origin}/files/"
        site.refused("demo", code=5)
        assert logins(foreign) == set()
        questions = self.asked.read_text().splitlines()
        about_foreign = [line for line in questions if foreign.origin[7:] in line]
        assert all(site.index.origin[7:] not in line for line in about_foreign)


class TestCache:
    """What is kept of one source does not become what another one says."""

    def test_wheels_of_one_name(self, site: Site, foreign: RecordingIndex) -> None:
        """A wheel of another index is another wheel, whatever it is called."""
        site.shelf.put(build_wheel(site.wheels, "demo", "1", files={"demo.py": "good"}))
        site.run("install", "demo", "-i", foreign.url)
        site.run("install", "demo", "--force-reinstall")
        assert (site.library / "demo.py").read_text() == "good"

    def test_a_promise_that_is_not_kept(self, site: Site) -> None:
        """An index that promises the hash of another one's wheel gets that wheel, or nothing."""
        good = site.shelf.put(build_wheel(site.wheels, "demo", "1", files={"demo.py": "good"}))
        evil = Shelf()
        evil.put(
            build_wheel(site.wheels / "evil", "demo", "1", files={"demo.py": "evil"}),
            hashes=good.hashes,
            size=False,
        )
        with RecordingIndex(evil) as index:
            before = site.world()
            site.refused("demo", "-i", index.url, code=4)
            assert site.world() == before
            site.run("install", "demo")
            assert (site.library / "demo.py").read_text() == "good"
            site.run("install", "demo", "-i", index.url, "--force-reinstall")
            assert (site.library / "demo.py").read_text() == "good"

    def test_metadata_of_another(self, site: Site) -> None:
        """Metadata that one index has invented is not believed of another one's wheel."""
        good = site.shelf.put(build_wheel(site.wheels, "demo", "1", requires=["other"]))
        site.shelf.put(build_wheel(site.wheels, "other", "1"))
        evil = Shelf()
        evil.put(site.wheels / good.filename, metadata=b"Name: demo\nVersion: 1\n")
        with RecordingIndex(evil) as index:
            result = site.run("install", "--dry-run", "--json", "demo", "-i", index.url)
            assert len(result.object["install"]) == 1
        site.run("install", "demo")
        assert set(site.installed()) == {"demo", "other"}

    def test_pages_by_user(self, site: Site) -> None:
        """What one user may see is not shown to one who is not logged in."""
        put(site)
        site.shelf.answers["/simple/demo/"] = Response.of(
            200,
            b'<a href="/files/demo-1-py3-none-any.whl">demo-1-py3-none-any.whl</a>',
            {"content-type": "text/html", "cache-control": "max-age=600"},
        )
        site.run("install", "--dry-run", "demo", "-i", site.index.url_with_login(*LOGIN))
        site.refused("--dry-run", "demo", code=5)

    @pytest.mark.parametrize("damage", ["cut", "flip", "empty", "folder", "link"])
    def test_damage(self, site: Site, damage: str) -> None:
        """What is damaged on disk is fetched again."""
        site.shelf.put(build_wheel(site.wheels, "demo", "1", files={"demo.py": "good"}))
        site.run("install", "demo")
        kept = [path for path in (site.folder / "cache").rglob("*") if path.is_file()]
        for path in kept:
            data = path.read_bytes()
            path.unlink()
            match damage:
                case "cut":
                    path.write_bytes(data[: len(data) // 2])
                case "flip":
                    path.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
                case "empty":
                    path.write_bytes(b"")
                case "folder":
                    path.mkdir()
                case "link":
                    path.symlink_to("/etc/passwd")
        site.run("install", "demo", "--force-reinstall")
        assert (site.library / "demo.py").read_text() == "good"
        assert Path("/etc/passwd").is_file()

    def test_modes(self, site: Site) -> None:
        """Only the user may look into the cache and change it."""
        umask = os.umask(0o000)
        try:
            put(site)
            site.run("install", "demo", "-i", site.index.url_with_login(*LOGIN))
        finally:
            os.umask(umask)
        cache = site.folder / "cache"
        assert stat.S_IMODE(cache.stat().st_mode) == 0o700
        for path in cache.rglob("*"):
            # What is shared with environments has the mode it has there.
            is_shared = "tree" in path.relative_to(cache).parts
            if path.is_file() and path.name != "CACHEDIR.TAG" and not is_shared:
                assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
