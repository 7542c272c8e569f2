"""The permissions of a request, from the token in it."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.errors import UploadRefused
from wheelfit.server.messages import Request, Response
from wheelfit.server.rebinding_guard import is_from_browser
from wheelfit.server.store.audit import Action, Actor
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.records import Scope, Token, violations_of
from wheelfit.server.store.tokens import permits, valid_token
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from packaging.utils import NormalizedName

    from wheelfit.server.store.sql_records import Records


OPERATOR = "admin"
"""The owner of unowned projects, who manages tokens."""
_USER = "__token__"
TOKEN_NEEDED = f"a token is needed: user name {_USER}, and the token as the password"
BEARER = 'Bearer realm="wheelfit"'
"""The challenge for clients other than browsers, which must not store such a token."""
_BASIC = 'Basic realm="wheelfit: tokens for reading", charset="UTF-8"'
"""The challenge that makes a browser prompt for a login, which it stores."""
_VERBS: dict[Scope, str] = {"read": "read", "upload": "upload to", "admin": "administer"}


class PermissionDenied(Exception):
    """Raised when a request is not allowed.

    :param status: 401 if another login is needed, 403 if the token is invalid or not permitted.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(slots=True)
class AttemptedChange:
    """A requested change, with the details that are known so far."""

    action: Action
    project: str = ""
    subject: str = ""


class AuthenticatedUser(NamedTuple):
    """The user who sent a request with a token."""

    token: Token
    records: Records
    actor: Actor
    """The data of the request for the audit log."""
    is_local: bool = False
    """Whether the user has access to the store itself, and so may change every project."""

    @contextmanager
    def recording_refusals(self, attempt: AttemptedChange) -> Iterator[None]:
        """Record a refused change in the audit log, and raise its error."""
        try:
            yield
        except (PermissionDenied, UploadRefused) as error:
            reason = error.message
            if isinstance(error, UploadRefused):
                reason = "; ".join(map(str, violations_of(error)))
            self.records.audit.refuse(
                self.actor, attempt.action, attempt.project, attempt.subject, reason
            )
            raise

    def require(self, scope: Scope, project: NormalizedName) -> None:
        """Raise `PermissionDenied` unless the token permits an action on a project."""
        if not self.is_local and not permits(self.records, self.token, scope, project):
            raise PermissionDenied(403, f"this token is not allowed to {_VERBS[scope]} {project}")

    def require_scope(self, scope: Scope) -> None:
        """Raise `PermissionDenied` unless the token permits an action at all."""
        if scope != "read" and not self.token.scopes & {scope, "admin"}:
            raise PermissionDenied(403, f"this token is not allowed to {_VERBS[scope]} anything")

    def require_operator(self) -> None:
        """Raise `PermissionDenied` unless the token is for all of the index."""
        if not is_operator(self.token):
            raise PermissionDenied(403, f"a token of {OPERATOR} for all projects is needed")

    def require_stage(self, stage: str, *, now: datetime) -> None:
        """Verify that a stage exists, and belongs to the user.

        :raises PermissionDenied: it belongs to another owner.
        :raises FileProblem: it does not exist.
        """
        self.require_scope("upload")
        record = next((record for record in self.records.stages() if record.id == stage), None)
        if record is None or record.expires <= timestamp(now):
            raise _no_stage(stage)
        if record.owner != self.token.owner and not is_operator(self.token):
            raise PermissionDenied(403, "this stage belongs to another owner")

    def require_whole_stage(
        self, stage: str, may_read: Callable[[NormalizedName], bool], *, now: datetime
    ) -> None:
        """Verify that a token permits changes of a whole stage.

        :raises PermissionDenied: as `require_stage`, or the token is not for all of its projects.
        :raises FileProblem: as `require_stage`, or a project of it is invisible to the user.
        """
        self.require_stage(stage, now=now)
        projects = sorted(self.records.staged_projects(stage))
        if not all(map(may_read, projects)):
            raise _no_stage(stage)
        for project in projects:
            self.require("upload", project)


def _no_stage(stage: str) -> FileProblem:
    return FileProblem(
        "the stage does not exist: it was published, dropped, or expired", where=stage[:80]
    )


def secret_of(request: Request, *, takes_basic: bool = True) -> str:
    """Return the secret in a request, as Basic or Bearer; empty: none.

    :param takes_basic: whether Basic is accepted, which browsers store and send automatically.
    :raises PermissionDenied: it is malformed, or has a user name.
    """
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if not scheme:
        return ""
    if scheme.lower() == "bearer":
        return value.strip()
    if not takes_basic:
        raise PermissionDenied(401, "a token is accepted here as Authorization: Bearer only")
    if scheme.lower() != "basic":
        raise PermissionDenied(401, "credentials are given as Basic or Bearer")
    try:
        user, _, secret = base64.b64decode(value.strip(), validate=True).decode().partition(":")
    except ValueError:  # also for characters that Base64 does not have
        raise PermissionDenied(401, "the credentials cannot be read") from None
    if user != _USER:
        raise PermissionDenied(401, f"the user name is {_USER}, and the password is a token")
    return secret.strip()


def authenticate(
    request: Request, records: Records, *, now: datetime, takes_basic: bool = True
) -> AuthenticatedUser:
    """Return the user whose token a request has.

    The database finds a token by the digest of its secret, so the time that this takes is
    independent of the secret.

    :raises PermissionDenied: there is no valid token; or a browser would store a token that permits
        more than reading.
    """
    secret = secret_of(request, takes_basic=takes_basic)
    if not secret and not takes_basic:
        raise PermissionDenied(401, "a token is needed: Authorization: Bearer, and the token")
    if not secret:
        raise PermissionDenied(401, TOKEN_NEEDED)
    token = valid_token(records, secret, now=now)
    if token is None:
        raise PermissionDenied(403, "the token is not known, was revoked, or has expired")
    is_basic = request.headers["authorization"][:5].lower() == "basic"
    if is_basic and is_from_browser(request) and token.scopes != {"read"}:
        raise PermissionDenied(
            401,
            "use a token with the scope read only in a browser, which stores logins and may send "
            "them in requests of other pages",
        )
    actor = Actor(token.owner, token.id, token.note, request.client, timestamp(now))
    return AuthenticatedUser(token, records, actor)


def is_operator(token: Token) -> bool:
    """Return whether a token is for all of the index: its tokens, its metrics."""
    return "admin" in token.scopes and token.projects is None and token.owner == OPERATOR


def denial_response(error: PermissionDenied, *, takes_basic: bool) -> Response:
    """Return the response to a client that is denied access."""
    challenge = _BASIC if takes_basic else BEARER
    headers = {"www-authenticate": challenge} if error.status == 401 else {}
    return replace(Response.text(error.status, error.message, headers), reason=error.message)
