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
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from wheelfit.errors import (
    HashMismatch,
    IntegrityError,
    InvalidPage,
    ProjectNotFound,
    UnexpectedStatus,
    Unreachable,
    UserError,
    WheelfitError,
)
from wheelfit.runtime.libraries.index_page import ACCEPT, read_page
from wheelfit.runtime.libraries.verifying import BROKEN_ARCHIVE
from wheelfit.runtime.libraries.versions import Requirement, parse_requirement
from wheelfit.runtime.libraries.wheels import best, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wheelfit.errors import NetworkError
    from wheelfit.runtime.libraries.machine import Machine
    from wheelfit.runtime.libraries.progress import Progress
    from wheelfit.runtime.libraries.wheels import Listed

__all__ = ["BUNDLES", "HttpTransport", "trusting"]


def __dir__() -> list[str]:
    return __all__


_T = TypeVar("_T")
_PIECE = 1 << 16
_LARGEST_PAGE = 64 << 20
_LARGEST_TABLE = 1 << 20
_LARGEST_WHEEL = 8 << 30
"""Bytes that are read where no size is promised."""
_SILENCE = 60.0
"""Seconds a server may say nothing."""
_ATTEMPTS = 3
_PAUSE = 0.3
_LONGEST_PAUSE = 30.0
"""Seconds a server may have us wait; where it wants more, we give up."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_NOT_FOUND = (404, 410)
_TEMPORARY = (408, 429, 500, 502, 503, 504)
BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where systems have the certificates that they trust."""


class HttpTransport:
    """Find and fetch wheels at one index.

    :param index_url: of its simple API; may have a login.
    :param environ: variables that count: ``NETRC``.
    :param attempts: how often a request is made at most.
    """

    def __init__(
        self, index_url: str, environ: Mapping[str, str], *, attempts: int = _ATTEMPTS
    ) -> None:
        _refuse_plain(index_url)
        parts = urlsplit(index_url)
        self._login = (unquote(parts.username or ""), unquote(parts.password or ""))
        self._index = _without_login(index_url).rstrip("/") + "/"
        self._environ = environ
        self._attempts = attempts
        self._opener: urllib.request.OpenerDirector | None = None

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
        return read_page(body, content_type, _without_login(final))

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
                with archive.open(name) as file:
                    return file.read(_LARGEST_TABLE)
        except (*BROKEN_ARCHIVE, StopIteration) as error:
            raise InvalidPage(f"{wheel.filename} cannot be read: {error}") from None

    # --- fetching ---------------------------------------------------------------------------

    def fetch(self, wheel: Listed, folder: str, progress: Progress) -> str:
        """Write a wheel into a folder and return its path; whoever calls checks its hash.

        :raises NetworkError: it cannot be had.
        :raises IntegrityError: nobody promised a hash of it.
        """
        _promised(wheel)
        path = os.path.join(folder, "wheel.part")  # noqa: PTH118
        self._tried(lambda: self._write(wheel, path, progress))
        return path

    def _write(self, wheel: Listed, path: str, progress: Progress) -> None:
        what = f"fetching {wheel.project} {wheel.version}"
        with self._open(wheel.url) as response, open(path, "wb") as file:  # noqa: PTH123
            total = wheel.size or response.length
            done = 0
            while piece := self._piece(response, wheel.url):
                done += len(piece)
                if done > (total or _LARGEST_WHEEL):
                    raise Unreachable("more was sent than was promised", where=shown(wheel.url))
                file.write(piece)
                progress.tell(what, done, total)
        if total is not None and done < total:
            raise _cut_off(wheel.url)

    # --- requests -----------------------------------------------------------------------------

    def _get(self, url: str, limit: int, accept: str = "*/*") -> tuple[bytes, str, str]:
        return self._tried(lambda: self._read(url, limit, accept))

    def _read(self, url: str, limit: int, accept: str) -> tuple[bytes, str, str]:
        with self._open(url, accept) as response:
            body = bytearray()
            while piece := self._piece(response, url):
                body += piece
                if len(body) > limit:
                    raise InvalidPage("more was sent than is read", where=shown(url))
            if response.length:  # what is still to come
                raise _cut_off(url)
            return bytes(body), response.headers.get("Content-Type", ""), response.url

    def _tried(self, work: Callable[[], _T]) -> _T:
        """Return what a request gives, made again where that may help."""
        attempt = 1
        while True:
            try:
                return work()
            except _Temporary as caught:
                if attempt == self._attempts or caught.pause > _LONGEST_PAUSE:
                    raise caught.error from None
                time.sleep(caught.pause or _PAUSE * attempt)
                attempt += 1

    def _open(self, url: str, accept: str = "*/*") -> http.client.HTTPResponse:
        _refuse_plain(url)
        request = urllib.request.Request(  # noqa: S310 - looked at in the line above
            _without_login(url), headers={"Accept": accept, "User-Agent": "wheelfit-runtime"}
        )
        self._authorization(request)
        if self._opener is None:
            # What is not encrypted is of this machine, and no business of a proxy.
            proxies = {k: v for k, v in urllib.request.getproxies().items() if k == "https"}
            self._opener = urllib.request.build_opener(
                _Redirections(self._authorization),
                urllib.request.ProxyHandler(proxies),
                urllib.request.HTTPSHandler(context=trusting()),
            )
        try:
            response: http.client.HTTPResponse = self._opener.open(request, timeout=_SILENCE)
        except urllib.error.HTTPError as error:
            error.close()
            status = UnexpectedStatus(
                f"the server answered with status {error.code}",
                status=error.code,
                where=shown(url),
                hint="the index wants a login: put it into its URL or into .netrc"
                if error.code == http.client.UNAUTHORIZED
                else None,
            )
            if error.code not in _TEMPORARY:
                raise status from None
            wait = error.headers.get("Retry-After", "")
            raise _Temporary(status, float(wait) if wait.isdecimal() else 0.0) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _unreachable(url, error) from None
        return response

    @staticmethod
    def _piece(response: http.client.HTTPResponse, url: str) -> bytes:
        try:
            return response.read(_PIECE)
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(url, error) from None

    def _authorization(self, request: urllib.request.Request) -> None:
        """Add the login that a server gets."""
        login = self._login_for(request.full_url)
        if login:
            token = base64.b64encode(":".join(login).encode()).decode("ascii")
            # "Unredirected": it does not go where a redirection leads.
            request.add_unredirected_header("Authorization", f"Basic {token}")

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
    """Follow redirections, but from an encrypted place to none that is not.

    :param authorize: adds the login that the place gets where it leads.
    """

    def __init__(self, authorize: Callable[[urllib.request.Request], None]) -> None:
        self._authorize = authorize

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the request that follows a redirection."""
        _refuse_plain(newurl, only_https=urlsplit(req.full_url).scheme == "https")
        bare = _without_login(newurl)
        found = super().redirect_request(req, fp, code, msg, headers, bare)
        if found is not None:
            self._authorize(found)
        return found

    def http_error_302(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
    ) -> Any:
        """Follow one, and close what redirects if that cannot be."""
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except (ValueError, WheelfitError):
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _Temporary(Exception):
    """Carry an error that may not come again.

    :param error: what is raised in the end.
    :param pause: seconds that the server wants; 0: it says nothing.
    """

    def __init__(self, error: NetworkError, pause: float = 0.0) -> None:
        super().__init__()
        self.error = error
        self.pause = pause


def trusting() -> ssl.SSLContext:
    """Return whom to trust: as ``SSL_CERT_FILE`` says, else the system."""
    context = ssl.create_default_context()
    named = {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys()
    paths = ssl.get_default_verify_paths()
    if not (named or paths.cafile or paths.capath):
        # A program that was frozen on another system looks where that one had them.
        for path in filter(os.path.isfile, BUNDLES):
            context.load_verify_locations(path)
            break
    return context


def _refuse_plain(url: str, *, only_https: bool = False) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise UserError("this is no address of a server", where=shown(url)) from None
    is_here = parts.scheme == "http" and parts.hostname in _LOOPBACK and not only_https
    if parts.hostname and (parts.scheme == "https" or is_here):
        return
    raise Unreachable(
        "libraries are fetched over https only",
        where=shown(url),
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
            where=shown(wheel.url),
        )
    return wheel.sha256


def _cut_off(url: str) -> _Temporary:
    return _Temporary(Unreachable("the connection ended too early", where=shown(url)))


def _unreachable(url: str, error: Exception) -> Exception:
    reason = getattr(error, "reason", None) or error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return Unreachable(
            f"the server cannot prove who it is: {reason.verify_message}",
            where=shown(url),
            hint="if it is right that another certificate is shown here, as by a proxy of your "
            "company, name the file with the authority's in SSL_CERT_FILE",
        )
    # Some errors repeat the address that they do not understand, with the login in it.
    words = "it has no right address" if "@" in str(reason) else str(reason)
    return _Temporary(
        Unreachable(
            f"the server cannot be reached: {words}",
            where=shown(url),
            hint="fetch ahead where there is a network: python -m wheelfit.runtime store prefetch",
        )
    )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
