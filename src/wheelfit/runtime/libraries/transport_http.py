"""Ask an index with the standard library alone: for programs that have no installer with them.

Hashes are compulsory, what is not encrypted is taken from this machine only, and a login goes to
the server that it is for, and to no other it may redirect to.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import netrc
import os
import ssl
import time
import urllib.error
import urllib.request
import zipfile
from email.parser import HeaderParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from wheelfit.errors import (
    HashMismatch,
    IntegrityError,
    InvalidPage,
    ProjectNotFound,
    UnexpectedStatus,
    Unreachable,
)
from wheelfit.runtime.libraries.index_page import ACCEPT, read_page
from wheelfit.runtime.libraries.versions import Requirement, parse_requirement
from wheelfit.runtime.libraries.wheels import best

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wheelfit.runtime.libraries.machine import Machine
    from wheelfit.runtime.libraries.progress import Progress
    from wheelfit.runtime.libraries.wheels import Listed

__all__ = ["HttpTransport"]


def __dir__() -> list[str]:
    return __all__


_PIECE = 1 << 18
_LARGEST_PAGE = 64 << 20
_LARGEST_TABLE = 1 << 20
_SILENCE = 60.0
"""Seconds a server may say nothing."""
_ATTEMPTS = 3
_PAUSE = 0.3
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_NOT_FOUND = (404, 410)
_TRANSIENT = 500


class HttpTransport:
    """Find and fetch wheels at one index.

    :param index_url: of its simple API; may have a login.
    :param environ: variables that count: ``NETRC``.
    :param attempts: how often a request is made at most.
    """

    def __init__(
        self, index_url: str, environ: Mapping[str, str], *, attempts: int = _ATTEMPTS
    ) -> None:
        parts = urlsplit(index_url)
        self._login = (unquote(parts.username or ""), unquote(parts.password or ""))
        self._index = _without_login(index_url).rstrip("/") + "/"
        self._environ = environ
        self._attempts = attempts
        self._opener: urllib.request.OpenerDirector | None = None
        _refuse_plain(self._index)

    # --- finding ----------------------------------------------------------------------------

    def resolve(
        self, requirements: Sequence[Requirement], machine: Machine, progress: Progress
    ) -> list[Listed]:
        """Return the wheels of some requirements and of the extras they name.

        :raises NetworkError: the index cannot be asked, or answers strangely.
        :raises NoFit: it has no such project, or no wheel that fits.
        """
        found: dict[str, Listed] = {}
        wanted = list(requirements)
        while wanted:
            requirement = wanted.pop(0)
            if requirement.project in found:
                continue
            progress.tell(f"asking {urlsplit(self._index).hostname} for {requirement.project}")
            wheel = best(self._page(requirement.project), requirement, machine)
            found[requirement.project] = wheel
            if requirement.extras:
                wanted += self._of_extras(wheel, requirement.extras, machine)
        return list(found.values())

    def _page(self, project: str) -> list[Listed]:
        url = urljoin(self._index, f"{project}/")
        try:
            body, content_type, final = self._get(url, _LARGEST_PAGE, accept=ACCEPT)
        except UnexpectedStatus as error:
            if error.status in _NOT_FOUND:
                raise ProjectNotFound(
                    f"the index has no project {project}", where=self._index
                ) from None
            raise
        return read_page(body, content_type, final)

    def _of_extras(
        self, wheel: Listed, extras: Sequence[str], machine: Machine
    ) -> Iterator[Requirement]:
        headers = HeaderParser().parsestr(self._metadata(wheel).decode("utf-8", "replace"))
        requirements = [
            parse_requirement(str(text)) for text in headers.get_all("Requires-Dist") or ()
        ]
        for extra in extras:
            markers = {**machine.markers, "extra": extra}
            yield from (one for one in requirements if one.applies(markers))

    def _metadata(self, wheel: Listed) -> bytes:
        if wheel.metadata_sha256 is not None:
            try:
                body = self._get(f"{wheel.url}.metadata", _LARGEST_TABLE)[0]
            except UnexpectedStatus:
                body = b""
            if body:
                if wheel.metadata_sha256:
                    _check(body, wheel.metadata_sha256, f"{wheel.filename}.metadata")
                return body
        # Some indexes offer no metadata apart; a table is a wheel of some kilobytes.
        body = self._get(wheel.url, _LARGEST_TABLE)[0]
        _check(body, _promised(wheel), wheel.filename)
        try:
            with zipfile.ZipFile(io.BytesIO(body)) as archive:
                name = next(
                    one for one in archive.namelist() if one.endswith(".dist-info/METADATA")
                )
                return archive.read(name)
        except (zipfile.BadZipFile, StopIteration, RuntimeError, EOFError) as error:
            raise InvalidPage(f"{wheel.filename} cannot be read: {error}") from None

    # --- fetching ---------------------------------------------------------------------------

    def fetch(self, wheel: Listed, folder: str, progress: Progress) -> str:
        """Write a wheel into a folder and return its path; whoever calls checks its hash.

        :raises NetworkError: it cannot be had.
        :raises IntegrityError: nobody promised a hash of it.
        """
        _promised(wheel)
        path = os.path.join(folder, "wheel.part")  # noqa: PTH118
        for attempt in range(1, self._attempts + 1):
            try:
                self._write(wheel, path, progress)
            except Unreachable:
                if attempt == self._attempts:
                    raise
                time.sleep(_PAUSE * attempt)
            else:
                break
        return path

    def _write(self, wheel: Listed, path: str, progress: Progress) -> None:
        what = f"fetching {wheel.project} {wheel.version}"
        with self._open(wheel.url) as response, open(path, "wb") as file:  # noqa: PTH123
            told = response.headers.get("Content-Length", "")
            total = wheel.size or (int(told) if told.isdigit() else None)
            done = 0
            while piece := self._piece(response, wheel.url):
                done += len(piece)
                if total is not None and done > total:
                    raise Unreachable("more was sent than was promised", where=_shown(wheel.url))
                file.write(piece)
                progress.tell(what, done, total)
        if total is not None and done < total:
            raise _cut_off(wheel.url)

    # --- requests -----------------------------------------------------------------------------

    def _get(self, url: str, limit: int, accept: str = "*/*") -> tuple[bytes, str, str]:
        for attempt in range(1, self._attempts + 1):
            try:
                with self._open(url, accept) as response:
                    pieces = b""
                    while piece := self._piece(response, url):
                        pieces += piece
                        if len(pieces) > limit:
                            raise InvalidPage("more was sent than is read", where=_shown(url))
                    told = response.headers.get("Content-Length", "")
                    if told.isdigit() and len(pieces) < int(told):
                        raise _cut_off(url)
                    return pieces, response.headers.get("Content-Type", ""), response.url
            except (Unreachable, UnexpectedStatus) as error:
                status = getattr(error, "status", _TRANSIENT)
                if attempt == self._attempts or status < _TRANSIENT:
                    raise
                time.sleep(_PAUSE * attempt)
        raise AssertionError  # the last attempt returns or raises

    def _open(self, url: str, accept: str = "*/*") -> http.client.HTTPResponse:
        _refuse_plain(url)
        request = urllib.request.Request(  # noqa: S310 - looked at in the line above
            _without_login(url), headers={"Accept": accept, "User-Agent": "wheelfit-runtime"}
        )
        login = self._login_for(url)
        if login:
            token = base64.b64encode(":".join(login).encode()).decode("ascii")
            # "Unredirected": it does not go where a redirection leads.
            request.add_unredirected_header("Authorization", f"Basic {token}")
        if self._opener is None:
            self._opener = urllib.request.build_opener(
                _Redirections(), urllib.request.HTTPSHandler(context=ssl.create_default_context())
            )
        try:
            response: http.client.HTTPResponse = self._opener.open(request, timeout=_SILENCE)
        except urllib.error.HTTPError as error:
            error.close()
            raise UnexpectedStatus(
                f"the server answered with status {error.code}",
                status=error.code,
                where=_shown(url),
                hint="the index wants a login: put it into its URL or into .netrc"
                if error.code == http.client.UNAUTHORIZED
                else None,
            ) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _unreachable(url, error) from None
        return response

    @staticmethod
    def _piece(response: http.client.HTTPResponse, url: str) -> bytes:
        try:
            return response.read(_PIECE)
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(url, error) from None

    def _login_for(self, url: str) -> tuple[str, str] | None:
        if _origin(url) == _origin(self._index) and any(self._login):
            return self._login
        file = self._environ.get("NETRC") or os.path.expanduser("~/.netrc")  # noqa: PTH111
        try:
            known = netrc.netrc(file).authenticators(urlsplit(url).hostname or "")
        except (OSError, netrc.NetrcParseError, ValueError):
            return None
        return (known[0], known[2] or "") if known else None


class _Redirections(urllib.request.HTTPRedirectHandler):
    """Follow redirections, but from an encrypted place to none that is not."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: object,
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the request that follows a redirection."""
        if urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError("it redirects to a place that is not encrypted")
        _refuse_plain(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _refuse_plain(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return
    raise Unreachable(
        "libraries are fetched over https only",
        where=_shown(url),
        hint="over http anybody on the way could exchange both a library and its hash",
    )


def _check(body: bytes, promised: str, name: str) -> None:
    actual = hashlib.sha256(body).hexdigest()
    if actual != promised:
        raise HashMismatch(algorithm="sha256", expected=[promised], actual=actual, where=name)


def _promised(wheel: Listed) -> str:
    if not wheel.sha256:
        raise IntegrityError(
            f"the index promises no sha256 of {wheel.filename}, so it is not taken",
            where=_shown(wheel.url),
        )
    return wheel.sha256


def _cut_off(url: str) -> Unreachable:
    return Unreachable("the connection ended too early", where=_shown(url))


def _unreachable(url: str, error: Exception) -> Unreachable:
    reason = getattr(error, "reason", None) or error
    return Unreachable(
        f"the server cannot be reached: {reason}",
        where=_shown(url),
        hint="what is in the store already can be had with offline=True",
    )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _shown(url: str) -> str:
    """Return a URL as it may be shown: signed ones have secrets behind the question mark."""
    return _without_login(url).partition("?")[0]
