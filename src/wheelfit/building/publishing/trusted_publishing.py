"""Upload tokens without a stored password: an index trusts the identity of a CI job (OIDC).

Only this module imports `id`, which reads the identity of a job in each CI service. The token of
the identity is sent to the requested index only; no redirect is followed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from wheelfit.building.publishing.twine_sender import IndexConnection
from wheelfit.sources.credentials import Login
from wheelfit.sources.response_message import response_message
from wheelfit.sources.urls import is_loopback, redact
from wheelfit_runtime.errors import InvalidConfiguration, PolicyRefusal, UnexpectedStatus

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from wheelfit.building.publishing.answers import Answer

GENERIC_TOKEN = "WHEELFIT_OIDC_TOKEN"  # noqa: S105 - the name of a variable
"""A variable with a token for the audience of the index, set by any CI service."""
_SERVICES = ("GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI")
_TIMEOUTS = (15.0, 60.0)
"""Seconds for a connection, and for an answer."""
_USER = "__token__"


def has_identity(environ: Mapping[str, str]) -> bool:
    """Return whether this process is a CI job that may have an identity; no request is sent."""
    return any(environ.get(name) for name in (GENERIC_TOKEN, *_SERVICES))


def trusted_login(
    url: str, environ: Mapping[str, str], context: ssl.SSLContext | None = None
) -> Login | None:
    """Exchange the identity of this CI job for a login; return None if the index does not do so.

    :param url: the address for uploads; the request goes to its server, below ``/_/oidc/``.
    :param environ: the environment of the process, which `id` reads too.
    :raises InvalidConfiguration: the job has no identity, or would send it over plain HTTP.
    :raises PolicyRefusal: the index does not trust this job.
    :raises NetworkError: the index, or the CI service, cannot be reached.
    """
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise InvalidConfiguration(
            "an identity token is not sent over plain HTTP", where=redact(url), hint="use https"
        )
    exchange = _Exchange(url, context)
    audience = exchange.audience()
    if audience is None:
        return None
    token = identity(audience, environ, redact(url))
    return Login(_USER, exchange.mint(token))


def identity(
    audience: str, environ: Mapping[str, str], where: str, *, variable: str = GENERIC_TOKEN
) -> str:
    """Return the token of this job's identity for an audience.

    :param where: its recipient, for messages.
    :param variable: the variable with the token, for jobs that `id` does not support.
    :raises InvalidConfiguration: the job has no identity.
    """
    from id import (  # comes with twine
        AmbientCredentialError,
        GitHubOidcPermissionCredentialError,
        detect_credential,
    )

    token = environ.get(variable)
    if token:
        if audience not in _audiences(token):
            raise InvalidConfiguration(
                f"the token in {variable} is not for the audience {audience!r}",
                where=where,
                hint="request one for that audience from the CI service",
            )
        return token
    try:
        credential = detect_credential(audience)
    except GitHubOidcPermissionCredentialError:
        raise InvalidConfiguration(
            "this job of GitHub has no identity",
            where=where,
            hint="write `permissions: {id-token: write}` in the job",
        ) from None
    except AmbientCredentialError as error:
        raise InvalidConfiguration(
            f"no identity of this job is available: {str(error).splitlines()[0][:300]}",
            where=where,
            hint=f"give the job a token for the audience {audience!r}",
        ) from None
    if credential is None:
        raise InvalidConfiguration(
            "the environment is not a CI job with an identity",
            where=where,
            hint=f"put a token for the audience {audience!r} in {variable}",
        )
    return credential


def _audiences(token: str) -> list[object]:
    """Return the audiences of a token; the index verifies the token itself."""
    from id import decode_oidc_token  # comes with twine

    try:
        audience = json.loads(decode_oidc_token(token)[1])["aud"]
    except (ValueError, LookupError, TypeError):
        return []
    return audience if isinstance(audience, list) else [audience]


class _Exchange:
    """A client of the two endpoints by which an index exchanges identities."""

    def __init__(self, url: str, context: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        self._root = urlunsplit((parts.scheme, parts.netloc, "/_/oidc/", "", ""))
        self._connection = IndexConnection(url, None, context)

    def audience(self) -> str | None:
        """Return the audience of the tokens that the index accepts; None if it accepts none."""
        answer = self._request("GET", "audience", "request the audience of identities")
        if answer.status in (404, 405) or 300 <= answer.status < 400:
            return None
        if answer.status != 200:
            raise self._failure(answer, "the request for its audience")
        audience = answer.json().get("audience")
        # Any other answer is a page of a server without trusted publishing.
        return audience if isinstance(audience, str) and audience else None

    def mint(self, token: str) -> str:
        """Return the upload token for an identity."""
        answer = self._request("POST", "mint-token", "exchange an identity", {"token": token})
        content = answer.json()
        upload_token = content.get("token")
        if answer.status < 300 and isinstance(upload_token, str) and upload_token:
            return upload_token
        errors = content.get("errors")
        if isinstance(errors, list) and errors:
            reasons = "; ".join(
                str(error.get("description") or error.get("code"))
                for error in errors
                if isinstance(error, dict)
            )
            raise PolicyRefusal(
                f"the index does not trust this job: {' '.join(reasons.split())[:500]}",
                where=self._root,
                hint="name this repository, workflow and environment as a publisher on the index",
            )
        raise self._failure(answer, "the exchange of the identity")

    def _request(
        self, method: str, path: str, purpose: str, data: Mapping[str, str] | None = None
    ) -> Answer:
        try:
            return self._connection.request(
                method,
                f"{self._root}{path}",
                purpose,
                json=data,
                auth=lambda request: request,  # no login, not even that of netrc
                headers={"Accept": "application/json"},
                timeout=_TIMEOUTS,
            )
        finally:
            self._connection.close()

    def _failure(self, answer: Answer, request: str) -> UnexpectedStatus:
        message = response_message(answer.reason, answer.content)
        return UnexpectedStatus(
            f"the index answers {request} with {answer.status}: {message}",
            status=answer.status,
            where=self._root,
            hint="`--trusted-publishing never` leaves the identity of the job unused",
        )
