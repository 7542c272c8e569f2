"""The login for uploads, from the places where publishing tools and installers look for one."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

from wheelfit.operations.live_index import TOKEN
from wheelfit.sources.credentials import Credentials, Login, read_netrc
from wheelfit.sources.keyring_access import open_keyring
from wheelfit.sources.urls import is_loopback, redact, split_userinfo
from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from wheelfit.sources.settings import SourceSettings

_ANY = "__token__"
"""The user whose password is a token."""
_VARIABLES = (
    ("TWINE_USERNAME", "TWINE_PASSWORD"),
    ("UV_PUBLISH_USERNAME", "UV_PUBLISH_TOKEN"),
    ("UV_PUBLISH_USERNAME", "UV_PUBLISH_PASSWORD"),
)


def find_login(
    url: str,
    configured: Mapping[str, str],
    settings: SourceSettings,
    environ: Mapping[str, str],
    home: Path,
    *,
    is_ours: bool,
    note: Callable[[str], None],
) -> tuple[Login | None, str]:
    """Return a login for uploads, and where it was found; the first place that has one decides.

    :param url: the address for uploads, maybe with a login in it.
    :param configured: the section of ``.pypirc`` for the index.
    :param settings: say how keyring may be asked.
    :param environ: the environment of the process.
    :param home: where netrc lies.
    :param is_ours: whether the token for indexes of wheelfit is meant for it.
    :param note: takes remarks about files that cannot be used.
    :raises InvalidConfiguration: the login would travel in the open.
    """
    clean, userinfo = split_userinfo(url)
    login, place = _find(clean, userinfo, configured, settings, environ, home, is_ours, note)
    parts = urlsplit(clean)
    if login is not None and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise InvalidConfiguration(
            "a login is not sent over plain HTTP", where=redact(clean), hint="use https"
        )
    return login, place


def _find(
    url: str,
    userinfo: tuple[str, str | None] | None,
    configured: Mapping[str, str],
    settings: SourceSettings,
    environ: Mapping[str, str],
    home: Path,
    is_ours: bool,  # noqa: FBT001 - handed on
    note: Callable[[str], None],
) -> tuple[Login | None, str]:
    user, password = userinfo or (None, None)
    if password:
        return Login(user or _ANY, password), "the URL"
    if is_ours and environ.get(TOKEN):
        return Login(_ANY, environ[TOKEN]), TOKEN
    for name, secret in _VARIABLES:
        if environ.get(secret):
            return Login(user or environ.get(name) or _ANY, environ[secret]), secret
    user = user or configured.get("username")
    if configured.get("password"):
        return Login(user or _ANY, configured["password"]), ".pypirc"
    named = f"{quote(user, safe='')}@" if user else ""
    known = Credentials(
        [urlunsplit(urlsplit(url)._replace(netloc=f"{named}{urlsplit(url).netloc}"))],
        logins=read_netrc(environ, home, note=note),
        keyring=open_keyring(settings.keyring, environ=environ, note=note),
    )
    login = known.first(url)
    if login is not None and login.password:
        return login, "netrc"
    login = known.after_refusal(url, None)
    return (None, "") if login is None else (login, "keyring")


def with_login(url: str, login: Login | None) -> str:
    """Return a URL with a login in it, to read pages there.

    :param url: without one.
    :param login: None: there is none.
    """
    if login is None:
        return url
    parts = urlsplit(url)
    userinfo = f"{quote(login.user, safe='')}:{quote(login.password, safe='')}"
    return urlunsplit(parts._replace(netloc=f"{userinfo}@{parts.netloc}"))
