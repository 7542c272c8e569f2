"""Tokens of a live index, which allow uploads or the reading of a private index."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from wheelfit.operations.live_index import LiveIndexRequest, open_administration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.operations.context import Context


@dataclass(frozen=True, kw_only=True)
class CreateTokenRequest(LiveIndexRequest):
    """The token to create."""

    project: tuple[str, ...] = ()
    scope: Literal["read", "upload", "admin"] = "upload"
    owner: str = "admin"
    expires: str | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class TokenRequest(LiveIndexRequest):
    """A token, by its ID."""

    token: str


@dataclass(frozen=True, slots=True)
class CreatedToken:
    """A token that was created."""

    token: Mapping[str, Any]
    """Its ``id``, its ``secret``, and its rights."""

    def to_json(self) -> dict[str, object]:
        """Return the report as plain data."""
        return {"version": 1, **self.token}


@dataclass(frozen=True, slots=True)
class TokensReport:
    """The tokens of an index, without their secrets."""

    tokens: tuple[Mapping[str, Any], ...]

    def to_json(self) -> dict[str, object]:
        """Return the report as plain data."""
        return {"version": 1, "tokens": list(self.tokens)}


@dataclass(frozen=True, slots=True)
class RevokedToken:
    """A token that was revoked, by its ID."""

    token: str

    def to_json(self) -> dict[str, object]:
        """Return the report as plain data."""
        return {"version": 1, "revoked": self.token}


def create_token(request: CreateTokenRequest, context: Context) -> CreatedToken:
    """Create a token; its secret cannot be read afterwards.

    :raises UserError: the time until it expires cannot be understood.
    """
    from wheelfit.server.hosting.administration import seconds_of

    with closing(open_administration(request, context)) as administration:
        token = administration.create_token(
            request.owner,
            ("upload", "admin") if request.scope == "admin" else (request.scope,),
            request.project or None,
            None if request.expires is None else seconds_of(request.expires),
            request.note,
        )
    return CreatedToken(token)


def list_tokens(request: LiveIndexRequest, context: Context) -> TokensReport:
    """Return the tokens."""
    with closing(open_administration(request, context)) as administration:
        return TokensReport(tuple(administration.tokens()))


def revoke_token(request: TokenRequest, context: Context) -> RevokedToken:
    """Revoke a token.

    :raises FileProblem: there is none of that ID.
    """
    from wheelfit_runtime.errors import FileProblem

    with closing(open_administration(request, context)) as administration:
        if not administration.revoke(request.token):
            raise FileProblem("there is no such token", where=request.token)
    return RevokedToken(request.token)
