"""The rules for sending user names and passwords, all in this module.

Credentials come from the URL of an index, from netrc, and from keyring. They are attached to a
request by its origin (scheme, host, port): those of an index go to URLs of its own origin only,
also after links of a page or redirects.
"""

from __future__ import annotations

import stat
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from wheelfit.sources.urls import Origin, is_loopback, is_protected, origin, split_userinfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from wheelfit.sources.keyring_access import Keyring


class Login(Struct, frozen=True):
    """A user name and a password."""

    user: str
    """The user name; often a fixed word when the password is a token."""
    password: str
    """The password or token."""

    def __repr__(self) -> str:
        return "Login(****)"

    @property
    def header(self) -> str:
        """The value of the ``Authorization`` header."""
        text = f"{self.user}:{self.password}".encode()
        import base64

        return "Basic " + base64.b64encode(text).decode("ascii")


class NetrcEntries(Struct, frozen=True):
    """The logins of a netrc file."""

    hosts: Mapping[str, Login]
    """By host name, lower case."""
    default: Login | None = None
    """For every other host; None if the file has none."""


def read_netrc(
    environ: Mapping[str, str], home: Path, *, note: Callable[[str], None]
) -> NetrcEntries:
    """Read the user's netrc file, if there is one.

    :param environ: ``NETRC`` names the file; otherwise ``.netrc`` or ``_netrc``.
    :param note: called for a file that cannot be used.
    """
    named = environ.get("NETRC")
    paths = [home.joinpath(named)] if named else [home / ".netrc", home / "_netrc"]
    for path in paths:
        try:
            problem = _why_not_netrc(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            problem = str(error)
        if problem is not None:
            note(f"{path} is not used: {problem}")
            continue
        import netrc

        try:
            entries = netrc.netrc(str(path)).hosts
        except (OSError, UnicodeDecodeError) as error:
            note(f"{path} is not used: {error}")
            continue
        except netrc.NetrcParseError as error:
            # Its message may quote a part of a password.
            note(f"{path} is not used: line {error.lineno} cannot be parsed")
            continue
        logins = {
            host.lower(): Login(user or "", password or "")
            for host, (user, _, password) in entries.items()
        }
        default = logins.pop("default", None)
        return NetrcEntries(logins, default)
    return NetrcEntries({})


_MAX_NETRC_SIZE = 1 << 20


def _why_not_netrc(path: Path) -> str | None:
    """Return the reason a path is not read as netrc, such as a pipe; None if it is read."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        return "it is not a file"
    return f"it has {status.st_size} bytes" if status.st_size > _MAX_NETRC_SIZE else None


class _ConfiguredIndex(Struct, frozen=True):
    """A configured index with the login in its URL."""

    url: str
    origin: Origin
    segments: tuple[str, ...]
    user: str | None
    password: str | None


class Credentials:
    """The logins for requests, whose URLs have no credentials.

    :param indexes: configured URLs, with credentials if they have any.
    :param keyring: queried only after a server has refused.
    :param is_trusted: returns whether plain HTTP is acceptable at a host and port.
    """

    def __init__(
        self,
        indexes: Iterable[str],
        *,
        logins: NetrcEntries,
        keyring: Keyring | None = None,
        is_trusted: Callable[[str, int | None], bool] = lambda _host, _port: False,
    ) -> None:
        self._configured_indexes = tuple(
            index for url in indexes if (index := _configured_index(url)) is not None
        )
        self._logins = logins
        self._keyring = keyring
        self._is_trusted = is_trusted
        self._from_keyring: dict[tuple[Origin, str | None], Login | None] = {}
        self._lock = threading.Lock()

    def first(self, url: str) -> Login | None:
        """Return the login to send before a server has refused; None: there is none."""
        target = origin(url)
        index = self._index_of(url, target)
        if index is not None and index.user is not None and index.password is not None:
            return Login(index.user, index.password)
        if index is None and not is_protected(target, self._is_trusted):
            return None
        user = index.user if index is not None else None
        # The default is for hosts that the user has named; a page may name any.
        default = self._logins.default if index is not None else None
        login = self._logins.hosts.get(target.host, default)
        if login is not None and user in {None, login.user}:
            return login
        with self._lock:
            keyring_login = self._from_keyring.get((target, user))
        if keyring_login is not None:
            return keyring_login
        # A user name without password may be a token.
        return Login(user, "") if user is not None else None

    def after_redirect(self, url: str, previous: str) -> Login | None:
        """Return the login for the target of a redirect.

        Within one origin it is the result of `first`. For another host, only a login in netrc for
        exactly that host is used, and only if the connection is no less safe.
        """
        old, new = origin(previous), origin(url)
        if old == new or (
            old.host == new.host
            and (old.scheme, old.port, new.scheme, new.port) == ("http", 80, "https", 443)
        ):
            return self.first(url)
        is_safe = new.scheme == "https" or (old.scheme == "http" and is_loopback(new.host))
        return self._logins.hosts.get(new.host) if is_safe and old.host != new.host else None

    def after_refusal(self, url: str, refused: Login | None) -> Login | None:
        """Return the login from keyring after a server answered 401; None: there is no new one."""
        if self._keyring is None:
            return None
        target = origin(url)
        index = self._index_of(url, target)
        if index is None and not is_protected(target, self._is_trusted):
            return None
        user = index.user if index is not None else None
        key = (target, user)
        with self._lock:
            if key not in self._from_keyring:
                # The index is the more specific name, so it is queried first.
                names = [index.url] if index is not None else []
                names.append(urlsplit(url).netloc)
                logins = (self._keyring.find(name, user) for name in names)
                pair = next((login for login in logins if login is not None), None)
                self._from_keyring[key] = Login(*pair) if pair is not None else None
            login = self._from_keyring[key]
        return login if login != refused else None

    def _index_of(self, url: str, target: Origin) -> _ConfiguredIndex | None:
        """Return the index of the same origin whose path shares most with that of a URL.

        Files are often beside the listing and not below it, so the path need not begin with that of
        the index.
        """
        candidates = [index for index in self._configured_indexes if index.origin == target]
        if not candidates:
            return None
        segments = _segments(url)
        return max(candidates, key=lambda index: _shared_length(index.segments, segments))


def _configured_index(url: str) -> _ConfiguredIndex | None:
    try:
        bare_url, userinfo = split_userinfo(url)
        index_origin = origin(bare_url)
    except ValueError:
        return None
    user, password = userinfo if userinfo is not None else (None, None)
    return _ConfiguredIndex(bare_url, index_origin, _segments(bare_url), user, password)


def _segments(url: str) -> tuple[str, ...]:
    return tuple(urlsplit(url).path.strip("/").split("/"))


def _shared_length(path: tuple[str, ...], other_path: tuple[str, ...]) -> int:
    count = 0
    for left, right in zip(path, other_path, strict=False):
        if left != right:
            break
        count += 1
    return count
