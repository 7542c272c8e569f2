"""Make requests with the standard library alone, for programs without an installer.

Unencrypted requests are sent to this machine only. A login is sent only to the server that it is
for, not to the targets of redirects.
"""

from __future__ import annotations

import base64
import http.client
import netrc
import os
import ssl
import time
import urllib.error
import urllib.request
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from wheelfit_runtime.errors import (
    InvalidPage,
    UnexpectedStatus,
    Unreachable,
    UserError,
    WheelfitError,
    os_reason,
)
from wheelfit_runtime.libraries.wheels import safe_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wheelfit_runtime.errors import NetworkError

_T = TypeVar("_T")
_CHUNK_SIZE = 1 << 16
_MAX_SIZE = 8 << 30
"""The most bytes of a body whose size was not announced."""
_MIN_RATE = 1000
"""Bytes a second, on average; checked after the seconds for which a server may be silent."""
_RETRY_DELAY = 0.3
"""Seconds before the second attempt; before later ones, a multiple of it."""
_MAX_RETRY_DELAY = 30.0
"""Seconds that a server may ask the client to wait; for more, the request fails."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TEMPORARY_STATUSES = (408, 429, 500, 502, 503, 504)
BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Files with trusted certificates on various systems."""


class HttpsClient:
    """A client of servers over HTTPS.

    :param index_url: the URL of an index, with its login if there is one.
    :param silence: seconds a server may be silent.
    :raises Unreachable: the URL is not encrypted, and of another machine.
    :raises UserError: it is not a valid URL.
    """

    def __init__(
        self, index_url: str, environ: Mapping[str, str], *, attempts: int, silence: float
    ) -> None:
        _require_https(index_url)
        parts = urlsplit(index_url)
        self._index_origin = _origin(index_url)
        self._login = (unquote(parts.username or ""), unquote(parts.password or ""))
        self._environ = environ
        self._attempts = attempts
        self._silence = silence
        self._opener: urllib.request.OpenerDirector | None = None

    def get(self, url: str, limit: int, accept: str = "*/*") -> tuple[bytes, str, str]:
        """Return a body of at most ``limit`` bytes, its content type, and its final URL."""

        def read_body() -> tuple[bytes, str, str]:
            with self._open(url, accept) as response:
                body = bytearray()
                for piece in self._pieces(response, url, response.length):
                    body += piece
                    if len(body) > limit:
                        raise InvalidPage(
                            f"the answer has more than {limit} bytes", where=safe_url(url)
                        )
                return bytes(body), response.headers.get("Content-Type", ""), response.url

        return self._with_retries(read_body)

    def download(
        self, url: str, path: str, size: int | None, report: Callable[[int, int | None], None]
    ) -> None:
        """Write a body into a file.

        :param size: promised bytes; None: unknown.
        """

        def write_body() -> None:
            received = 0
            with self._open(url) as response, open(path, "wb") as file:  # noqa: PTH123
                total = size or response.length
                if response.length not in (None, total):
                    raise Unreachable("another length was promised", where=safe_url(url))
                for piece in self._pieces(response, url, total):
                    received += len(piece)
                    if received > (total or _MAX_SIZE):
                        raise Unreachable("more was sent than was promised", where=safe_url(url))
                    file.write(piece)
                    report(received, total)

        self._with_retries(write_body)

    def _pieces(
        self, response: http.client.HTTPResponse, url: str, total: int | None
    ) -> Iterator[bytes]:
        """Yield a body in pieces.

        :raises _TemporaryError: the connection ends too early, or the server is too slow.
        """
        received, start = 0, time.monotonic()
        while total is None or received < total:
            try:
                piece = response.read1(_CHUNK_SIZE)
            except (OSError, http.client.HTTPException) as error:
                raise _unreachable(url, error) from None
            if not piece:
                break
            received += len(piece)
            elapsed = time.monotonic() - start
            if elapsed > self._silence and received < elapsed * _MIN_RATE:
                raise _TemporaryError(
                    Unreachable("the server sends too slowly", where=safe_url(url))
                )
            yield piece
        if total is not None and received < total:
            raise _TemporaryError(
                Unreachable("the connection ended too early", where=safe_url(url))
            )

    def _with_retries(self, request: Callable[[], _T]) -> _T:
        """Return the result of a request, repeated after temporary errors."""
        attempt = 1
        while True:
            try:
                return request()
            except _TemporaryError as temporary:
                if attempt == self._attempts or temporary.delay > _MAX_RETRY_DELAY:
                    raise temporary.error from None
                time.sleep(temporary.delay or _RETRY_DELAY * attempt)
                attempt += 1

    def _open(self, url: str, accept: str = "*/*") -> http.client.HTTPResponse:
        _require_https(url)
        request = urllib.request.Request(  # noqa: S310 - checked in the line above
            without_login(url), headers={"Accept": accept, "User-Agent": "wheelfit-runtime"}
        )
        self._add_login(request)
        if self._opener is None:
            # Unencrypted requests are for this machine, and need no proxy.
            proxies = {k: v for k, v in urllib.request.getproxies().items() if k == "https"}
            self._opener = urllib.request.build_opener(
                _Redirections(self._add_login),
                urllib.request.ProxyHandler(proxies),
                urllib.request.HTTPSHandler(context=ssl_context()),
            )
        try:
            response: http.client.HTTPResponse = self._opener.open(request, timeout=self._silence)
        except urllib.error.HTTPError as error:
            error.close()
            problem = UnexpectedStatus(
                f"the server answered with status {error.code}",
                status=error.code,
                where=safe_url(url),
                hint="the index needs a login: put it into its URL or into .netrc"
                if error.code == http.client.UNAUTHORIZED
                else None,
            )
            if error.code not in _TEMPORARY_STATUSES:
                raise problem from None
            wait = error.headers.get("Retry-After", "")
            raise _TemporaryError(problem, float(wait) if wait.isdecimal() else 0.0) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _unreachable(url, error) from None
        return response

    def _add_login(self, request: urllib.request.Request) -> None:
        login = self._login_for(request.full_url)
        if login:
            token = base64.b64encode(":".join(login).encode()).decode("ascii")
            # "Unredirected": it is not sent to the target of a redirect.
            request.add_unredirected_header("Authorization", f"Basic {token}")

    def _login_for(self, url: str) -> tuple[str, str] | None:
        if _origin(url) == self._index_origin and any(self._login):
            return self._login
        file = self._environ.get("NETRC") or os.path.expanduser("~/.netrc")  # noqa: PTH111
        try:
            login = netrc.netrc(file).authenticators(urlsplit(url).hostname or "")
        except (OSError, netrc.NetrcParseError, ValueError):
            return None
        return (login[0], login[2] or "") if login else None


class _Redirections(urllib.request.HTTPRedirectHandler):
    """A redirect handler that refuses redirects from encrypted to unencrypted URLs."""

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
        """Return the request that follows a redirect."""
        _require_https(newurl, loopback_allowed=urlsplit(req.full_url).scheme == "http")
        bare = without_login(newurl)
        request = super().redirect_request(req, fp, code, msg, headers, bare)
        if request is not None:
            self._authorize(request)
        return request

    def http_error_302(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
    ) -> Any:
        """Follow a redirect; close the response if that fails."""
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except (ValueError, WheelfitError):
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _TemporaryError(Exception):
    """Raised for a temporary error.

    :param delay: seconds to wait as requested by the server; 0: not stated.
    """

    def __init__(self, error: NetworkError, delay: float = 0.0) -> None:
        super().__init__()
        self.error = error
        self.delay = delay


def ssl_context() -> ssl.SSLContext:
    """Return an SSL context with the certificates of ``SSL_CERT_FILE``, else of the system."""
    context = ssl.create_default_context()
    variables = {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys()
    paths = ssl.get_default_verify_paths()
    if not (variables or paths.cafile or paths.capath):
        # A frozen application has the default paths of the system on which it was built.
        bundle = next(filter(os.path.isfile, BUNDLES), None)
        if bundle is not None:
            context.load_verify_locations(bundle)
    return context


def _require_https(url: str, *, loopback_allowed: bool = True) -> None:
    """Check that a URL is encrypted, or leads to this machine.

    :param loopback_allowed: whether an unencrypted URL of this machine is accepted.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # Drop all before the last "@": if a password has an unquoted "/" or "?", `safe_url` takes
        # it for a path, and would show it.
        where = safe_url(url.rpartition("@")[2])
        raise UserError("this is not a valid URL", where=where) from None
    is_loopback = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if parts.hostname and (parts.scheme == "https" or (is_loopback and loopback_allowed)):
        return
    raise Unreachable(
        "libraries are fetched over https only",
        where=safe_url(url),
        hint="over plain HTTP, both a library and its hash can be changed on the way",
    )


def _unreachable(url: str, error: Exception) -> Exception:
    """Return the error for a failed connection, temporary unless a certificate is not trusted."""
    reason = getattr(error, "reason", None) or error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return Unreachable(
            f"the certificate of the server is not trusted: {reason.verify_message}",
            where=safe_url(url),
            hint="if a proxy of your organisation replaces certificates, set SSL_CERT_FILE to "
            "the file with its authority",
        )
    # Some errors repeat an invalid address, with the login in it.
    cause = "its address is invalid" if "@" in str(reason) else os_reason(reason)
    return _TemporaryError(
        Unreachable(
            f"the server cannot be reached: {cause}",
            where=safe_url(url),
            hint="fetch ahead where there is a network: python -m wheelfit_runtime store prefetch",
        )
    )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def without_login(url: str) -> str:
    """Return a URL without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
