"""Functions on URLs as text: joining, credentials, redaction, and paths of files."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, unquote_to_bytes, urljoin, urlsplit, urlunsplit

from wheelfit_runtime.patterns import pattern

if sys.platform == "win32":
    from urllib.request import url2pathname
else:
    # The same function on POSIX, without the import of `urllib.request`, which takes 50 ms.
    url2pathname = unquote

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# The second form is malformed: a password with a slash, question mark or hash that was not encoded.
# The text after the colon is not a port then.
_USERINFO = pattern(r"(?<=//)(?:[^/?#\s]*|[^/?#\s:@]+:(?!\d*(?:[/?#]|\s|$))\S*)@")
_UNSAFE = pattern(r"[^!-~]+")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """The scheme, host and port of a request; credentials belong to one of these."""

    scheme: str
    """``http`` or ``https``."""
    host: str
    """Lower case; an IPv6 address without brackets."""
    port: int
    """The default of the scheme if the URL has none."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = _DEFAULT_PORTS.get(self.scheme) == self.port
        return f"{self.scheme}://{host}" + ("" if default else f":{self.port}")


def origin(url: str) -> Origin:
    """Return the origin of a URL.

    :raises ValueError: the URL has no scheme or no host, or a port that is not a number.
    """
    parts = urlsplit(url)
    if not (parts.scheme and parts.hostname):
        raise ValueError("no scheme or no host")
    port = parts.port if parts.port is not None else _DEFAULT_PORTS.get(parts.scheme, 0)
    return Origin(parts.scheme, parts.hostname.lower(), port)


def is_below(url: str, folder: str) -> bool:
    """Return whether a URL lies below another one, on the same server.

    A redirect from HTTP to HTTPS at the default ports stays on the same server.

    >>> is_below("https://index.example/simple/x/", "http://index.example/simple")
    True
    >>> is_below("https://other.example/simple/x/", "https://index.example/simple")
    False
    """
    server, folder_server = origin(url), origin(folder)
    is_upgraded = server == Origin("https", folder_server.host, 443) and folder_server.port == 80
    path = urlsplit(folder).path.rstrip("/")
    return (server == folder_server or is_upgraded) and urlsplit(url).path.startswith(f"{path}/")


def is_loopback(host: str) -> bool:
    """Return whether a host name means this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("127.example")
    (True, True, False)
    """
    host = host.lower().rstrip(".")
    return (
        host in {"localhost", "::1"}
        or host.endswith(".localhost")
        or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None
    )


def is_protected(server: Origin, is_trusted: Callable[[str, int | None], bool]) -> bool:
    """Return whether no third party can read or change what is sent, or the user accepts that.

    :param is_trusted: returns whether plain HTTP is acceptable at a host and port.
    """
    is_private = server.scheme == "https" or is_loopback(server.host)
    return is_private or is_trusted(server.host, server.port)


def redact(url: str) -> str:
    """Return a URL, or a text with URLs, as it may be shown.

    User names, passwords and query values (which may be signatures) are
    replaced. Works on malformed URLs too.

    >>> redact("https://me:secret@index.example/simple/?token=abc#sha256=00")
    'https://****@index.example/simple/?****#sha256=00'
    """
    text = _USERINFO.sub("****@", url)
    return re.sub(r"\?[^#\s]+", "?****", text) if "://" in text else text


def split_userinfo(url: str) -> tuple[str, tuple[str, str | None] | None]:
    """Separate a URL from the credentials in it.

    :return: the URL without credentials, and (user name, password or None),
        both percent-decoded once; None if there are no credentials.

    >>> split_userinfo("https://me:p%40ss@index.example/simple/")
    ('https://index.example/simple/', ('me', 'p@ss'))
    """
    if "@" not in url:
        return url, None
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    user, colon, password = userinfo.partition(":")
    clean = urlunsplit(parts._replace(netloc=host))
    if not userinfo:
        return clean, None
    return clean, (unquote(user), unquote(password) if colon else None)


def with_userinfo(url: str, user: str, password: str | None) -> str:
    """Add credentials to a URL that has none, the inverse of `split_userinfo`."""
    parts = urlsplit(url)
    secret = "" if password is None else f":{quote(password, safe='')}"
    return urlunsplit(parts._replace(netloc=f"{quote(user, safe='')}{secret}@{parts.netloc}"))


def parse_public_url(text: str) -> str:
    """Return the address under which others reach an index, without a slash at the end.

    :raises ValueError: it is not an address of a server, or has a login, which others would see.
    """
    parts = urlsplit(text)
    _ = parts.port  # which raises if it is invalid
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ValueError("it is not an address of a server, as https://wheels.example.org/")
    if parts.username is not None:
        raise ValueError("the address has a login, which others would see: leave it out")
    return text.rstrip("/")


def without_fragment(url: str) -> str:
    """Return a URL without its fragment."""
    return url.partition("#")[0]


def subdirectory_of(url: str) -> str:
    """Return the ``subdirectory`` in a URL's fragment, without ``/`` at its ends; or nothing."""
    # A plus sign is a blank in a query only.
    fragment = url.partition("#")[2].replace("+", "%2B")
    return dict(parse_qsl(fragment)).get("subdirectory", "").strip("/")


def join(base: str, reference: str) -> str:
    """Resolve a reference against the URL of its page.

    Blanks, control characters and non-ASCII characters are percent-encoded;
    what is encoded already stays as it is.
    """
    url = urljoin(base, reference.strip())
    return _UNSAFE.sub(lambda match: quote(match[0]), url)


def last_segment(url: str) -> str:
    """Return the last part of the path, percent-decoded exactly once (F-16).

    >>> last_segment("https://index.example/f/x-1%252B0-py3-none-any.whl#sha256=00")
    'x-1%2B0-py3-none-any.whl'
    """
    path = without_fragment(url).partition("?")[0]
    segment = path.rpartition("/")[2]
    return unquote(segment) if "%" in segment else segment


def file_path(url: str) -> str:
    """Return the path that a ``file:`` URL names.

    :raises ValueError: the URL names a file of another host.
    """
    parts = urlsplit(url)
    host = parts.netloc
    if host and not is_loopback(host):
        if sys.platform != "win32":
            raise ValueError("a file: URL may not name another host")
        return url2pathname(f"//{host}{parts.path}")
    if sys.platform != "win32":
        # Paths are bytes; the characters they stand for depend on the locale.
        return os.fsdecode(unquote_to_bytes(parts.path))
    return url2pathname(parts.path)


def relative_path(path: Path | str, folder: Path) -> str:
    """Return a path relative to a folder, with slashes; the whole path if its drive is another."""
    path = os.fspath(path)
    with suppress(ValueError):  # on Windows
        path = os.path.relpath(path, folder)
    return path.replace(os.sep, "/")


def file_url(path: Path) -> str:
    """Return the ``file:`` URL of a path; folders get no final slash."""
    return path.absolute().as_uri()
