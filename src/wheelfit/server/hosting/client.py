"""The client of the administration API of an index server."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, cast
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from wheelfit.errors import UploadRefused
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
    from collections.abc import Mapping, Sequence
    from ssl import SSLContext

    from wheelfit.server.store.records import Scope


_TIMEOUT = 60.0
_HEALTH_TIMEOUT = 15.0
_MAX_HEALTH_SIZE = 100
_MAX_SIZE = 16 << 20
_FILES_SHAPE = {"files": [str]}
_SECRET_SHAPE = {"id": str, "secret": str}
_ENTRY_TEXTS = ("time", "action", "outcome", "project", "subject", "owner", "token", "note",
                   "address", "detail")  # fmt: skip
_STAGE_SHAPE = {"id": str, "files": [{"filename": str, "sha256": str}]}


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
    """The administration of an index by its server; the methods are those of `StoreAdministration`.

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

    def yank(self, names: Sequence[str], reason: str | None) -> list[str]:
        """Yank files, or undo that."""
        if reason is None:
            return _files(self._request("POST", "unyank", _FILES_SHAPE, names=list(names)))
        return _files(self._request("POST", "yank", _FILES_SHAPE, names=list(names), reason=reason))

    def set_status(self, project: str, marker: str, reason: str) -> dict[str, Any]:
        """Set the status of a project."""
        shape = {"project": str, "status": str, "reason": str}
        return self._request("POST", "status", shape, project=project, status=marker, reason=reason)

    def delete(self, names: Sequence[str]) -> list[str]:
        """Delete files permanently."""
        return _files(self._request("POST", "delete", _FILES_SHAPE, names=list(names)))

    def open_stage(self, owner: str, lifetime: float) -> dict[str, Any]:
        """Open a stage."""
        del owner  # the server takes the owner of the token
        return self._request("POST", "stages", _SECRET_SHAPE, lifetime=lifetime)

    def stages(self) -> list[dict[str, Any]]:
        """Return the stages that are open."""
        return list(self._request("GET", "stages", {"stages": [_STAGE_SHAPE]})["stages"])

    def publish(self, stage: str) -> list[str]:
        """Publish all files of a stage at once."""
        path = f"stages/{quote(stage, safe='')}/publish"
        return _files(self._request("POST", path, _FILES_SHAPE))

    def drop(self, stage: str) -> int:
        """Delete a stage and its files."""
        response = self._request("DELETE", f"stages/{quote(stage, safe='')}", {"count": int})
        return int(response["count"])

    def create_token(
        self,
        owner: str,
        scopes: Sequence[Scope],
        projects: Sequence[str] | None,
        lifetime: float | None,
        note: str,
    ) -> dict[str, Any]:
        """Create a token."""
        return self._request(
            "POST",
            "tokens",
            _SECRET_SHAPE,
            owner=owner,
            scopes=list(scopes),
            projects=None if projects is None else list(projects),
            lifetime=lifetime,
            note=note,
        )

    def tokens(self) -> list[dict[str, Any]]:
        """Return all tokens."""
        return list(self._request("GET", "tokens", {"tokens": [dict]})["tokens"])

    def revoke(self, token: str) -> bool:
        """Revoke a token."""
        response = self._request("DELETE", f"tokens/{quote(token, safe='')}", {"revoked": bool})
        return bool(response["revoked"])

    def audit(self, filters: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return entries of the audit log."""
        shape = {"entries": [dict.fromkeys(_ENTRY_TEXTS, str)]}
        return list(self._request("GET", f"audit?{urlencode(filters)}", shape)["entries"])

    def close(self) -> None:
        """Do nothing: every request has a connection of its own."""

    def _request(
        self, method: str, path: str, shape: Mapping[str, object], **body: object
    ) -> dict[str, Any]:
        """Send a request; return the response, or raise an error if it has another shape."""
        data = json.dumps(body).encode() if method == "POST" else None
        url = f"{self._url}/-/api/{path}"
        request = Request(url, data, self._headers, method=method)  # noqa: S310 - it is http(s)
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as response:
                received = response.read(_MAX_SIZE + 1)
            if len(received) > _MAX_SIZE:
                raise InvalidPage(
                    "the response is too long", where=self._url, hint="request fewer entries"
                )
            content = json.loads(received)
        except HTTPError as error:
            with error:
                raise _error_of(error.code, _read_body(error), self._url) from None
        except (OSError, HTTPException) as error:
            raise _unreachable(error, self._url) from None
        except (ValueError, RecursionError):
            content = None
        if not _has_shape(content, shape):
            raise InvalidPage(
                "the server at this URL is no index of wheelfit",
                where=self._url,
                hint="check the URL of --at",
            )
        return content  # type: ignore[no-any-return]  # which is a mapping


def _opener(context: SSLContext | None) -> OpenerDirector:
    return build_opener(_NoRedirects, HTTPSHandler(context=context))


class _NoRedirects(HTTPRedirectHandler):
    """A handler that follows no redirects: the token is for this server alone."""

    def redirect_request(self, *_: Any) -> None:
        """Return nothing, so that the redirect raises an error."""
        return


def _has_shape(value: object, shape: object) -> bool:
    """Return whether a response has the expected fields and types; it may have more."""
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            _has_shape(value.get(name), expected) for name, expected in shape.items()
        )
    if isinstance(shape, list):
        return isinstance(value, list) and all(_has_shape(item, shape[0]) for item in value)
    return isinstance(value, cast("type", shape))


def _unreachable(error: Exception, where: str) -> Unreachable:
    """Return the error for a server that does not answer, or not in HTTP."""
    reason = str(getattr(error, "reason", error)).strip() or type(error).__name__
    return Unreachable(f"the server cannot be reached: {reason}", where=where)


def _read_body(error: HTTPError) -> bytes:
    try:
        return error.read(_MAX_SIZE)
    except (OSError, HTTPException):
        return b""


def _files(response: dict[str, Any]) -> list[str]:
    return [str(name) for name in response["files"]]


def _error_of(status: int, content: bytes, where: str) -> Exception:
    """Return the error in a response, as `StoreAdministration` raises it."""
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
