"""Tokens and the secrets of stages: shown once, stored as digests."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from wheelfit.core.project_patterns import fits
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.records import ONE_TIME_PREFIX, Scope, Stage, Token
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packaging.utils import NormalizedName

    from wheelfit.server.store.sql_records import Records


_PREFIX = "wheelfit-"
STAGE_PREFIX = "wheelfit-stage-"
"""The prefix of secrets of stages."""
_STAGE_SECRET = pattern(rf"{STAGE_PREFIX}[\w-]+")


def issue_token(
    records: Records,
    owner: str,
    scopes: Iterable[Scope],
    *,
    now: datetime,
    projects: Iterable[str] | None = None,
    lifetime: timedelta | None = None,
    note: str = "",
) -> tuple[Token, str]:
    """Store a new token; return it with its secret.

    :param projects: names and patterns; None: all projects of its owner, and new ones.
    :param lifetime: the time for which it is valid; None: until it is revoked.
    """
    token, secret = _token(owner, scopes, now, projects, lifetime, note)
    records.add_token(token, secret_digest(secret))
    return token, secret


def exchange_credential(
    records: Records,
    credential_digest: str,
    owner: str,
    scopes: Iterable[Scope],
    *,
    now: datetime,
    projects: Iterable[str],
    lifetime: timedelta,
    note: str = "",
) -> tuple[Token, str] | None:
    """Store a new token in exchange for a one-time credential; return None if it was used.

    :param credential_digest: the digest of the credential, part of the token's identifier.
    """
    token, secret = _token(owner, scopes, now, projects, lifetime, note)
    token = replace(token, id=f"{ONE_TIME_PREFIX}{credential_digest}")
    day_ago = timestamp(now - timedelta(days=1))
    is_new = records.add_token_once(token, secret_digest(secret), expired=day_ago)
    return (token, secret) if is_new else None


def issue_first_token(
    records: Records,
    owner: str,
    scopes: Iterable[Scope],
    *,
    now: datetime,
    save: Callable[[str], None],
    note: str = "",
) -> bool:
    """Store a new token if there is none at all, for all projects of its owner.

    :param save: stores the secret; called before the token is valid.
    :return: whether it was the first.
    """
    token, secret = _token(owner, scopes, now, None, None, note)
    return records.add_first_token(token, secret_digest(secret), lambda: save(secret))


def _token(
    owner: str,
    scopes: Iterable[Scope],
    now: datetime,
    projects: Iterable[str] | None,
    lifetime: timedelta | None,
    note: str,
) -> tuple[Token, str]:
    token = Token(
        id=secrets.token_hex(8),
        owner=owner,
        scopes=frozenset(scopes),
        created=timestamp(now),
        projects=None if projects is None else frozenset(projects),
        expires=None if lifetime is None else timestamp(now + lifetime),
        note=note,
    )
    return token, _PREFIX + secrets.token_urlsafe(32)


def valid_token(records: Records, secret: str, *, now: datetime) -> Token | None:
    """Return the token of a secret; None if it is unknown or has expired."""
    token = records.token(secret_digest(secret))
    if token is None or (token.expires is not None and token.expires <= timestamp(now)):
        return None
    return token


def permits(records: Records, token: Token, scope: Scope, project: NormalizedName) -> bool:
    """Return whether a token permits an action on a project; ``admin`` includes all.

    A token for all projects is valid for those of its owner and for those without one.
    """
    if scope not in token.scopes and "admin" not in token.scopes:
        return False
    if token.projects is not None and not fits(project, token.projects):
        return False
    owners = records.owners(project)
    return not owners or token.owner in owners


def open_stage(
    records: Records, owner: str, *, now: datetime, lifetime: timedelta
) -> tuple[Stage, str]:
    """Open a stage; return it with its secret."""
    stage, secret = new_stage(owner, now=now, lifetime=lifetime)
    records.open_stage(stage, secret_digest(secret))
    return stage, secret


def new_stage(owner: str, *, now: datetime, lifetime: timedelta) -> tuple[Stage, str]:
    """Return a stage that is not recorded yet, and its secret."""
    secret = STAGE_PREFIX + secrets.token_urlsafe(32)
    return Stage(secrets.token_hex(8), owner, timestamp(now), timestamp(now + lifetime)), secret


def stage_of_secret(records: Records, secret: str, *, now: datetime) -> Stage | None:
    """Return the stage that a secret opens, unless it has expired."""
    stage = records.stage(secret_digest(secret))
    return None if stage is None or stage.expires <= timestamp(now) else stage


def redact_stage_secrets(path: str) -> str:
    """Return the path of a request for logs: addresses of previews have secrets."""
    return _STAGE_SECRET.sub(f"{STAGE_PREFIX}…", path)


def secret_digest(secret: str) -> bytes:
    """Return the digest that identifies a secret."""
    # 256 random bits need no slow hash, and only digests are compared byte by byte.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
