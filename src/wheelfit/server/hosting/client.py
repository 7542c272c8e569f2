"""The client of the administration API of an index server."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

import msgspec

from wheelfit.errors import UploadRefused
from wheelfit.server.hosting.results import ListedStage  # noqa: TC001 - msgspec reads it
from wheelfit.sources.response_message import response_message
from wheelfit.sources.urls import is_loopback, redact
from wheelfit_runtime.error_codes import CODES
from wheelfit_runtime.errors import (
    FileProblem,
    InvalidConfiguration,
    InvalidPage,
    PolicyRefusal,
    UnexpectedStatus,
    Unreachable,
    UserError,
)

if TYPE_CHECKING:
    from ssl import SSLContext


_Result = TypeVar("_Result")
_TIMEOUT = 60.0
_HEALTH_TIMEOUT = 15.0
_MAX_HEALTH_SIZE = 100
_MAX_SIZE = 16 << 20


class _StageId(TypedDict):
    id: str


class _Stages(TypedDict):
    stages: list[ListedStage]


def is_index_server(url: str, *, context: SSLContext | None = None) -> bool:
    """Return whether a server runs wheelfit, without sending a secret.

    :param url: the part before ``/-/``.
    :param context: the certificates to trust; by default those of Python.
    :raises Unreachable: it cannot be reached.
    """
    request = Request(f"{url.rstrip('/')}/-/health/live")  # noqa: S310 - callers pass http(s) only
    try:
        with _opener(context).open(request, timeout=_HEALTH_TIMEOUT) as response:
            return bool(response.read(_MAX_HEALTH_SIZE).strip() == b"alive")
    except HTTPError as error:
        error.close()
        return False
    except (OSError, HTTPException) as error:
        raise _unreachable(error, redact(url)) from None


class ServerAdministration:
    """The administration of an index by its server.

    :param url: the part before ``/-/api/``.
    :param context: the certificates to trust; by default those of Python.
    :raises InvalidConfiguration: it is not a URL, or the token would be sent over plain HTTP.
    """

    def __init__(self, url: str, token: str, *, context: SSLContext | None = None) -> None:
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise InvalidConfiguration(
                "this is not the URL of a server",
                where=parts.hostname or "",
                hint="as https://index.example.org; the token is not a part of it",
            )
        if not token:
            raise InvalidConfiguration(
                "the server of the index needs a token",
                where=parts.hostname,
                hint="set WHEELFIT_INDEX_TOKEN",
            )
        if not token.isascii() or not token.isprintable() or " " in token:
            raise InvalidConfiguration(
                "the token has characters that no token has, as a space or the end of a line",
                hint="set WHEELFIT_INDEX_TOKEN to the token alone",
            )
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise InvalidConfiguration(
                "a token is not sent over plain HTTP", where=parts.hostname, hint="use https"
            )
        self._url = url.rstrip("/")
        self._headers = {
            "authorization": f"Bearer {token}",
            "accept": "application/json",
            "content-type": "application/json",
        }
        self._opener = _opener(context)

    def open_stage(self, lifetime: float) -> str:
        """Open a stage, owned by the owner of the token; return its ID.

        :param lifetime: seconds until it expires.
        """
        return self.perform(_StageId, "POST", "stages", lifetime=lifetime)["id"]

    def stages(self) -> list[ListedStage]:
        """Return the open stages."""
        return self.perform(_Stages, "GET", "stages")["stages"]

    def publish(self, stage: str) -> None:
        """Publish all files of a stage at once."""
        self.perform(dict[str, list[str]], "POST", "stages", stage, "publish")

    def drop(self, stage: str) -> None:
        """Delete a stage and its files."""
        self.perform(dict[str, int], "DELETE", "stages", stage)

    def perform(
        self, result: type[_Result], method: str, *segments: str, **body: object
    ) -> _Result:
        """Perform an action of the server's `Administration`; return its result.

        :param result: the type of the result; the response may have further fields.
        :param segments: the segments of the path after ``/-/api/``.
        :raises InvalidPage: the response has another type.
        """
        url = f"{self._url}/-/api/{'/'.join(quote(segment, safe='') for segment in segments)}"
        data = json.dumps(body).encode() if method == "POST" else None
        if method == "GET" and body:
            url += f"?{urlencode(body)}"
        request = Request(url, data, self._headers, method=method)  # noqa: S310 - it is http(s)
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as response:
                received = response.read(_MAX_SIZE + 1)
        except HTTPError as error:
            with error:
                raise _error_of(error.code, _read_body(error), self._url) from None
        except (OSError, HTTPException) as error:
            raise _unreachable(error, self._url) from None
        if len(received) > _MAX_SIZE:
            raise InvalidPage(
                "the response is too long", where=self._url, hint="request fewer entries"
            )
        try:
            return msgspec.json.decode(received, type=result)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise InvalidPage(
                "the server at this URL is no index of wheelfit",
                where=self._url,
                hint="check the URL of --at",
            ) from None


def _opener(context: SSLContext | None) -> OpenerDirector:
    return build_opener(_NoRedirects, HTTPSHandler(context=context))


class _NoRedirects(HTTPRedirectHandler):
    """A handler that follows no redirects: the token is for this server alone."""

    def redirect_request(self, *_: Any) -> None:
        """Return nothing, so that the redirect raises an error."""
        return


def _unreachable(error: Exception, where: str) -> Unreachable:
    """Return the error for a server that does not answer, or not in HTTP."""
    reason = str(getattr(error, "reason", error)).strip() or type(error).__name__
    return Unreachable(f"the server cannot be reached: {reason}", where=where)


def _read_body(error: HTTPError) -> bytes:
    try:
        return error.read(_MAX_SIZE)
    except (OSError, HTTPException):
        return b""


def _error_of(status: int, content: bytes, where: str) -> Exception:
    """Return the error in a response, as `Administration` raises it."""
    try:
        errors = [
            {
                **{name: str(item[name] or "") for name in ("reference", "message", "where")},
                **({"hint": str(item["hint"])} if item.get("hint") else {}),
            }
            for item in json.loads(content)["errors"]
        ]
        first = errors[0]
        hint = first.get("hint")
    except (ValueError, LookupError, TypeError, RecursionError):
        text = response_message("", content)
        if status in (401, 403):
            return PolicyRefusal(f"the server refuses: {text}", where=where)
        return UnexpectedStatus(
            f"the server answered with {status}: {text}", status=status, where=where
        )
    if status == 404:
        return FileProblem(first["message"], where=first["where"], hint=hint)
    if status < 500 and first["reference"] not in CODES:  # of refused uploads
        return UploadRefused(first["message"], where=first["where"], details=errors)
    if status < 500:
        return UserError(first["message"], where=first["where"] or where, hint=hint)
    return UnexpectedStatus(
        f"the server answered with {status}: {first['message']}",
        status=status,
        where=where,
        hint=hint,
    )
