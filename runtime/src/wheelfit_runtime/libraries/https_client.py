"""Make requests with the standard library alone, for programs without an installer.

Unencrypted requests go to this machine only, and a login goes to its own server only, not to a
target of its redirects.
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
)
from wheelfit_runtime.libraries.wheels import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wheelfit_runtime.errors import NetworkError

_T = TypeVar("_T")
_PIECE = 1 << 16
_LARGEST = 8 << 30
"""Bytes that are read where no size is promised."""
_SLOWEST = 1000
"""Bytes a second; a server that stays below for the allowed silence counts as silent."""
_PAUSE = 0.3
_LONGEST_PAUSE = 30.0
"""Seconds a server may have us wait; where it wants more, we give up."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TEMPORARY = (408, 429, 500, 502, 503, 504)
BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where systems have the certificates that they trust."""


class HttpsClient:
    """A client of servers over HTTPS.

    :param home: the URL of a server, with its login if there is one.
    :param silence: seconds a server may be silent.
    :raises Unreachable: the URL is not encrypted, and of another machine.
    :raises UserError: it is not a valid URL.
    """

    def __init__(
        self, home: str, environ: Mapping[str, str], *, attempts: int, silence: float
    ) -> None:
        _require_https(home)
        parts = urlsplit(home)
        self._home = _origin(home)
        self._login = (unquote(parts.username or ""), unquote(parts.password or ""))
        self._environ = environ
        self._attempts = attempts
        self._silence = silence
        self._opener: urllib.request.OpenerDirector | None = None

    def get(self, url: str, limit: int, accept: str = "*/*") -> tuple[bytes, str, str]:
        """Return a body, its type, and its final URL."""

        def work() -> tuple[bytes, str, str]:
            with self._open(url, accept) as response:
                body = bytearray()
                for piece in self._pieces(response, url, response.length):
                    body += piece
                    if len(body) > limit:
                        raise InvalidPage("more was sent than is read", where=shown(url))
                return bytes(body), response.headers.get("Content-Type", ""), response.url

        return self._tried(work)

    def download(
        self, url: str, path: str, size: int | None, tell: Callable[[int, int | None], None]
    ) -> None:
        """Write a body into a file.

        :param size: promised bytes; None: unknown.
        """

        def work() -> None:
            done = 0
            with self._open(url) as response, open(path, "wb") as file:  # noqa: PTH123
                total = size or response.length
                if response.length not in (None, total):
                    raise Unreachable("another length was promised", where=shown(url))
                for piece in self._pieces(response, url, total):
                    done += len(piece)
                    if done > (total or _LARGEST):
                        raise Unreachable("more was sent than was promised", where=shown(url))
                    file.write(piece)
                    tell(done, total)

        self._tried(work)

    def _pieces(
        self, response: http.client.HTTPResponse, url: str, total: int | None
    ) -> Iterator[bytes]:
        """Yield a body as it comes.

        :raises _Temporary: it does not come to its end, or hardly gets on.
        """
        done, start = 0, time.monotonic()
        while total is None or done < total:
            try:
                piece = response.read1(_PIECE)
            except (OSError, http.client.HTTPException) as error:
                raise _unreachable(url, error) from None
            if not piece:
                break
            done += len(piece)
            passed = time.monotonic() - start
            if passed > self._silence and done < passed * _SLOWEST:
                raise _Temporary(Unreachable("the server sends too slowly", where=shown(url)))
            yield piece
        if total is not None and done < total:
            raise _Temporary(Unreachable("the connection ended too early", where=shown(url)))

    def _tried(self, work: Callable[[], _T]) -> _T:
        """Return the result of a request, with retries where they may help."""
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
        _require_https(url)
        request = urllib.request.Request(  # noqa: S310 - looked at in the line above
            without_login(url), headers={"Accept": accept, "User-Agent": "wheelfit-runtime"}
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
            response: http.client.HTTPResponse = self._opener.open(request, timeout=self._silence)
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

    def _authorization(self, request: urllib.request.Request) -> None:
        """Add the login that a server gets."""
        login = self._login_for(request.full_url)
        if login:
            token = base64.b64encode(":".join(login).encode()).decode("ascii")
            # "Unredirected": it does not go where a redirection leads.
            request.add_unredirected_header("Authorization", f"Basic {token}")

    def _login_for(self, url: str) -> tuple[str, str] | None:
        if _origin(url) == self._home and any(self._login):
            return self._login
        file = self._environ.get("NETRC") or os.path.expanduser("~/.netrc")  # noqa: PTH111
        try:
            known = netrc.netrc(file).authenticators(urlsplit(url).hostname or "")
        except (OSError, netrc.NetrcParseError, ValueError):
            return None
        return (known[0], known[2] or "") if known else None


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
        """Return the request that follows a redirection."""
        _require_https(newurl, only_https=urlsplit(req.full_url).scheme == "https")
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


class _Temporary(Exception):
    """Raised for a temporary error.

    :param pause: seconds to wait as requested by the server; 0: not stated.
    """

    def __init__(self, error: NetworkError, pause: float = 0.0) -> None:
        super().__init__()
        self.error = error
        self.pause = pause


def trusting() -> ssl.SSLContext:
    """Return a context that trusts the certificates of ``SSL_CERT_FILE``, else the system's."""
    context = ssl.create_default_context()
    named = {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys()
    paths = ssl.get_default_verify_paths()
    if not (named or paths.cafile or paths.capath):
        # A program that was frozen on another system looks where that one had them.
        for path in filter(os.path.isfile, BUNDLES):
            context.load_verify_locations(path)
            break
    return context


def _require_https(url: str, *, only_https: bool = False) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise UserError("this is not an address of a server", where=shown(url)) from None
    is_here = parts.scheme == "http" and parts.hostname in _LOOPBACK and not only_https
    if parts.hostname and (parts.scheme == "https" or is_here):
        return
    raise Unreachable(
        "libraries are fetched over https only",
        where=shown(url),
        hint="over plain HTTP, both a library and its hash can be changed on the way",
    )


def _unreachable(url: str, error: Exception) -> Exception:
    reason = getattr(error, "reason", None) or error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return Unreachable(
            f"the certificate of the server is not trusted: {reason.verify_message}",
            where=shown(url),
            hint="if a proxy of your organisation replaces certificates, set SSL_CERT_FILE to "
            "the file with its authority",
        )
    # Some errors repeat the address that they do not understand, with the login in it.
    words = "it has no right address" if "@" in str(reason) else str(reason)
    return _Temporary(
        Unreachable(
            f"the server cannot be reached: {words}",
            where=shown(url),
            hint="fetch ahead where there is a network: python -m wheelfit_runtime store prefetch",
        )
    )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def without_login(url: str) -> str:
    """Return an address without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
