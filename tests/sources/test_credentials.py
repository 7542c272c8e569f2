"""A login goes where it belongs and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wheelfit.sources.credentials import Credentials, Login, NetrcEntries, read_netrc

if TYPE_CHECKING:
    from pathlib import Path

EMPTY = NetrcEntries({})


class NotedKeyring:
    """A keyring that remembers what it was asked."""

    def __init__(self, answers: dict[str, tuple[str, str]]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str | None]] = []

    def find(self, service: str, user: str | None) -> tuple[str, str] | None:
        """Answer from the table."""
        self.asked.append((service, user))
        return self.answers.get(service)


class TestIndexes:
    """Credentials in the URL of an index."""

    def test_files_beside_the_listing(self) -> None:
        """They go to the whole origin: files often lie beside the listing, not below it."""
        known = Credentials(["https://me:s%40cret@h.example/simple/"], logins=EMPTY)
        assert known.first("https://h.example/files/a.whl") == Login("me", "s@cret")

    @pytest.mark.parametrize(
        "url",
        [
            "http://h.example/simple/",
            "https://h.example:8443/simple/",
            "https://evil.example/simple/",
            "https://h.example.evil.example/simple/",
            "https://sub.h.example/simple/",
        ],
    )
    def test_never_to_another_origin(self, url: str) -> None:
        """Another scheme, port or host gets nothing, whatever a page links to."""
        known = Credentials(["https://me:secret@h.example/simple/"], logins=EMPTY)
        assert known.first(url) is None

    def test_the_nearest_index_counts(self) -> None:
        """Indexes of one origin keep their own logins; a public one beside them stays public."""
        known = Credentials(
            [
                "https://a:1@h/team/a/simple",
                "https://b:2@h/team/b/simple",
                "https://h/public/simple",
            ],
            logins=EMPTY,
        )
        assert known.first("https://h/team/a/files/x.whl") == Login("a", "1")
        assert known.first("https://h/team/b/simple/x/") == Login("b", "2")
        assert known.first("https://h/public/simple/x/") is None

    def test_token_as_user(self) -> None:
        """A user name alone is sent with an empty password: tokens are given that way."""
        assert Credentials(["https://token@h/"], logins=EMPTY).first("https://h/") == Login(
            "token", ""
        )

    def test_never_shown(self) -> None:
        """A login in a message or a traceback shows nothing."""
        assert "secret" not in repr(Login("secret", "secret"))

    def test_header(self) -> None:
        """RFC 7617, in UTF-8."""
        assert Login("ä", "ö").header == "Basic w6Q6w7Y="


class TestRedirects:
    """What is known at one place is not told to another."""

    KNOWN = Credentials(
        ["https://me:secret@h.example/simple/", "https://other:secret@other.example/"],
        logins=NetrcEntries({"files.example": Login("n", "p"), "h.example": Login("n", "q")}),
    )
    HERE = "https://h.example/simple/a/"

    def test_same_origin(self) -> None:
        """Within one origin nothing changes."""
        assert self.KNOWN.after_redirect("https://h.example/x", self.HERE) == Login("me", "secret")

    @pytest.mark.parametrize(
        "target",
        [
            "https://evil.example/",
            "https://h.example:8443/",
            "http://h.example/",
            "https://other.example/",
            "http://files.example/",
        ],
    )
    def test_other_origins(self, target: str) -> None:
        """Another host, port or scheme gets nothing, not even what another index is told."""
        assert self.KNOWN.after_redirect(target, self.HERE) is None

    def test_netrc_of_that_very_host(self) -> None:
        """A host that netrc names gets its own login."""
        target = "https://files.example/a.whl"
        assert self.KNOWN.after_redirect(target, self.HERE) == Login("n", "p")

    def test_upgrade(self) -> None:
        """From http to https on the default ports of one host is the same place."""
        known = Credentials(["http://me:x@h/", "https://me:x@h/"], logins=EMPTY)
        assert known.after_redirect("https://h/", "http://h/") == Login("me", "x")

    def test_default_of_netrc_stays_at_home(self) -> None:
        """The default entry of netrc is not for wherever a redirect leads."""
        known = Credentials(["https://h/simple/"], logins=NetrcEntries({}, Login("d", "d")))
        assert known.first("https://h/") == Login("d", "d")
        assert known.after_redirect("https://x/", "https://h/") is None


class TestNetrc:
    """The user's netrc file."""

    def test_places(self, tmp_path: Path) -> None:
        """NETRC names the file, else it lies at home."""
        (tmp_path / "other").write_text("machine H.example login a password b\n")
        (tmp_path / "_netrc").write_text("default login c password d\n")
        notes: list[str] = []
        named = read_netrc({"NETRC": str(tmp_path / "other")}, tmp_path, note=notes.append)
        assert named == NetrcEntries({"h.example": Login("a", "b")})
        at_home = read_netrc({}, tmp_path, note=notes.append)
        assert at_home == NetrcEntries({}, Login("c", "d"))
        assert notes == []

    def test_none(self, tmp_path: Path) -> None:
        """No file is not a problem."""
        assert read_netrc({}, tmp_path, note=pytest.fail) == EMPTY

    def test_broken(self, tmp_path: Path) -> None:
        """A broken file is noted with its line, not with its content."""
        (tmp_path / ".netrc").write_text("machine h login me password\nsecret topsecret\n")
        (tmp_path / ".netrc").chmod(0o600)
        notes: list[str] = []
        assert read_netrc({}, tmp_path, note=notes.append) == EMPTY
        assert notes == [f"{tmp_path / '.netrc'} is not used: line 3 cannot be parsed"]

    def test_user_of_the_index_must_agree(self) -> None:
        """A user name in the URL is not combined with the password of another."""
        logins = NetrcEntries({"h": Login("me", "secret")})
        assert Credentials(["https://me@h/"], logins=logins).first("https://h/") == Login(
            "me", "secret"
        )
        assert Credentials(["https://you@h/"], logins=logins).first("https://h/") == Login(
            "you", ""
        )


class TestKeyring:
    """keyring is slow and may ask the user something."""

    def test_only_after_refusal(self) -> None:
        """Nobody asks it before a server has refused; then by index, then by host, once."""
        keyring = NotedKeyring({"h:8443": ("me", "secret")})
        known = Credentials(["https://me@h:8443/simple/"], logins=EMPTY, keyring=keyring)
        url = "https://h:8443/simple/a/"
        first = known.first(url)
        assert keyring.asked == []
        assert known.after_refusal(url, first) == Login("me", "secret")
        assert keyring.asked == [("https://h:8443/simple/", "me"), ("h:8443", "me")]
        assert known.first(url) == Login("me", "secret")
        known.after_refusal("https://h:8443/simple/b/", None)
        assert len(keyring.asked) == 2

    def test_nothing_new(self) -> None:
        """The same login is not tried twice."""
        keyring = NotedKeyring({"h": ("me", "wrong")})
        known = Credentials([], logins=EMPTY, keyring=keyring)
        assert known.after_refusal("https://h/", Login("me", "wrong")) is None

    def test_no_keyring(self) -> None:
        """Without keyring a refusal is final."""
        assert Credentials([], logins=EMPTY).after_refusal("https://h/", None) is None
