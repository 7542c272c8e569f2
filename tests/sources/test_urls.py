"""URLs taken apart, joined and shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wheelfit.sources.urls import (
    Origin,
    file_path,
    file_url,
    is_loopback,
    join,
    last_segment,
    origin,
    redact,
    relative_path,
    split_userinfo,
)


class TestRedact:
    """What is shown never holds a secret."""

    @pytest.mark.parametrize(
        "url",
        [
            "https://me:secret@index.example/simple/",
            "https://secret@index.example/simple/",
            "https://me:se:cr@secret@index.example/",
            "not a url but https://me:secret@host/x and http://secret@host/y",
            "https://index.example/f?X-Signature=secret#sha256=00",
            "https://me:secret@[::1]:8080/simple",
            "https://me:secret@index.example:not-a-port/",
            "https://me:pa/secret@index.example/simple/",
            "https://me:pa?secret#secret@index.example/simple/",
        ],
    )
    def test_secrets_are_hidden(self, url: str) -> None:
        """A user name, a password or a signature in a URL is not shown, even if it is malformed."""
        assert "secret" not in redact(url)

    def test_harmless_urls_stay(self) -> None:
        """A URL without credentials is shown as it is, at signs in its path too."""
        for url in (
            "https://index.example/@scope/simple/#sha256=00",
            "https://index.example:8080/@scope/simple/",
        ):
            assert redact(url) == url

    def test_paths_stay(self) -> None:
        """A path is not a URL: a question mark in it hides nothing."""
        assert redact("/srv/wheels?old") == "/srv/wheels?old"


class TestUserinfo:
    """Credentials come out of a URL once, decoded once."""

    def test_percent_decoded_once(self) -> None:
        """A doubly encoded password is decoded one time only."""
        clean, userinfo = split_userinfo("https://a%40b:p%2540w@index.example/x@y")
        assert clean == "https://index.example/x@y"
        assert userinfo == ("a@b", "p%40w")

    def test_user_only(self) -> None:
        """A user name without password is told from one with an empty password."""
        assert split_userinfo("https://token@h/")[1] == ("token", None)
        assert split_userinfo("https://token:@h/")[1] == ("token", "")

    def test_none(self) -> None:
        """An empty userinfo is none."""
        assert split_userinfo("https://@h/") == ("https://h/", None)


class TestOrigin:
    """Two URLs have one origin if scheme, host and port agree."""

    def test_default_ports(self) -> None:
        """The default port and no port are the same."""
        assert origin("https://H.example/a") == origin("https://h.example:443/b")
        assert origin("http://h/") == Origin("http", "h", 80)

    @pytest.mark.parametrize("url", ["https:///x", "mailto:me", "https://h:port/"])
    def test_refused(self, url: str) -> None:
        """A URL without host or with a port that is none has no origin."""
        with pytest.raises(ValueError):  # noqa: PT011 - the kind is the contract
            origin(url)

    def test_shown(self) -> None:
        """An origin is shown as short as possible."""
        assert str(origin("https://h:443/x")) == "https://h"
        assert str(origin("http://[::1]:81/x")) == "http://[::1]:81"


def test_loopback() -> None:
    """Only names and addresses of this machine are loopback."""
    assert all(map(is_loopback, ["localhost", "LOCALHOST.", "a.localhost", "127.1.2.3", "::1"]))
    assert not any(map(is_loopback, ["localhost.example", "127.0.0.1.example", "128.0.0.1", "::2"]))


def test_last_segment_decodes_once() -> None:
    """F-16: percent-decoding happens exactly once, so an encoded percent sign stays."""
    assert last_segment("https://h/f/%252e%252e%252fx.whl") == "%2e%2e%2fx.whl"
    assert last_segment("https://h/f/x%2B1.whl?a/b#c/d") == "x+1.whl"


def test_join_encodes_what_urls_may_not_hold() -> None:
    """Blanks and other letters are encoded; line breaks cannot get into a request."""
    assert join("https://h/simple/x/", " a b-1.0.whl ") == "https://h/simple/x/a%20b-1.0.whl"
    assert join("https://h/", "ä") == "https://h/%C3%A4"
    joined = join("https://h/", "x\r\nHost: evil")
    assert "\r" not in joined
    assert "\n" not in joined


class TestFileUrls:
    """Paths and file: URLs are two spellings of one thing."""

    def test_round_trip(self, tmp_path: object) -> None:
        """A path with blanks, percent and plus signs comes back."""
        from pathlib import Path

        path = Path(str(tmp_path), "a b%41+c")
        assert Path(file_path(file_url(path))) == path

    def test_other_hosts_are_refused(self) -> None:
        """A file: URL may name this machine, and no other."""
        assert file_path("file://localhost/srv/x") == "/srv/x"
        with pytest.raises(ValueError, match="another host"):
            file_path("file://elsewhere/srv/x")


def test_relative_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no path from one drive to another, so the whole path is written."""
    assert relative_path("/a/b c", Path("/a/d")) == "../b c"

    def relative(_path: str, _start: object) -> str:
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    monkeypatch.setattr(os.path, "relpath", relative)
    assert relative_path("/a/b c", Path("/a/d")) == "/a/b c"
