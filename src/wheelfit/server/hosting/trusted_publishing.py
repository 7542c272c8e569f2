"""Trusted publishing: uploads by CI jobs without a stored secret, as on the public registry.

A CI service signs a token that identifies the job and its repository (OpenID Connect). A job that
the operator trusts exchanges it for a token of the index that is valid for minutes. The only
importer of `jwt`, which verifies signatures.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from wheelfit.errors import NeedsExtra
from wheelfit.server.hosting.error_responses import json_response
from wheelfit.server.store.tokens import exchange_credential
from wheelfit.sources.urls import is_loopback, origin
from wheelfit_runtime.errors import InvalidConfiguration, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit.server.messages import Response
    from wheelfit.server.store.sql_records import Records
    from wheelfit.sources.client import Client

_TOKEN_LIFETIME = timedelta(minutes=15)
_ALGORITHMS = ["RS256", "ES256", "PS256"]
_REQUIRED_CLAIMS = ["exp", "iat", "iss", "aud", "jti"]
_LEEWAY = 30  # seconds that clocks may differ
# Less than the day for which the index remembers the identities that were used.
_MAX_IDENTITY_AGE = timedelta(hours=23)
_KEY_LIFETIME = 3600.0  # seconds for which keys are valid
_REFETCH_AFTER = 60.0  # seconds until unknown keys are fetched again
_MAX_RESPONSE_SIZE = 1 << 20


class TrustedPublisher(NamedTuple):
    """A CI job that may upload."""

    projects: frozenset[str]
    """Names and patterns."""
    issuer: str
    """URL of the CI service, as in the claim ``iss`` of its tokens."""
    claims: Mapping[str, str]
    """The claims a token must have; ``*`` matches any text."""
    owner: str
    """The owner of projects that the job uploads first."""

    def admits(self, claims: Mapping[str, Any]) -> bool:
        """Return whether the claims of a verified token are those of this job."""
        return claims.get("iss") == self.issuer and all(
            isinstance(claims.get(name), str) and _matches(claims[name], pattern)
            for name, pattern in self.claims.items()
        )


def check_publisher(publisher: TrustedPublisher) -> None:
    """Raise on a publisher that would trust any job, or whose keys others could replace.

    :raises InvalidConfiguration: the publisher is not safe.
    """
    try:
        issuer_origin = origin(publisher.issuer)
        is_safe = issuer_origin.scheme == "https" or is_loopback(issuer_origin.host)
    except ValueError:
        is_safe = False
    if not is_safe:
        raise InvalidConfiguration(
            "the issuer of a trusted publisher must be an https URL", where=publisher.issuer[:200]
        )
    if not publisher.projects:
        raise InvalidConfiguration("a trusted publisher names its projects")
    if not any(pattern.strip("*") for pattern in publisher.claims.values()):
        raise InvalidConfiguration(
            "a trusted publisher needs claims, or every job of that service could upload",
            hint='as claims = {repository = "acme/spam", environment = "release"}',
        )


class TrustedPublishing:
    """The exchange of identities for tokens of an index.

    :param audience: the name of this index in tokens, which no other index has.
    :param client: fetches the keys of issuers.
    :raises NeedsExtra: the library that verifies signatures is not installed.
    """

    def __init__(
        self, publishers: Sequence[TrustedPublisher], audience: str, client: Client
    ) -> None:
        try:
            import jwt
        except ImportError:
            raise NeedsExtra("server", "jwt") from None
        self._jwt = jwt
        self._publishers = publishers
        self._audience = audience
        self._client = client
        # By issuer: when its keys were requested, when they were received, and the keys.
        self._keys: dict[str, tuple[float, float, Any]] = {}
        self._lock = threading.Lock()

    def respond(
        self,
        segments: Sequence[str],
        body: Mapping[str, object],
        records: Records,
        now: datetime,
        log: Callable[..., None],
    ) -> Response | None:
        """Answer below ``/_/``; return None if there is no such address.

        :param body: the JSON of the request; empty if it was not posted.
        """
        if segments == ["oidc", "audience"]:
            return json_response(200, {"audience": self._audience})
        if segments != ["oidc", "mint-token"]:
            return None
        identity = body.get("token")
        try:
            claims = self._verified(identity if isinstance(identity, str) else "", now)
        except (self._jwt.PyJWTError, WheelfitError, ValueError) as error:
            log("refused", reason=f"identity of a job: {error}")
            return _error_response("invalid-token", f"the identity cannot be verified: {error}")
        admitting = [publisher for publisher in self._publishers if publisher.admits(claims)]
        if not admitting:
            log("refused", reason=f"identity of a job: no trusted publisher is {_job_name(claims)}")
            return _error_response(
                "invalid-publisher", f"no trusted publisher is {_job_name(claims)}"
            )
        owner = admitting[0].owner
        projects = [publisher.projects for publisher in admitting if publisher.owner == owner]
        identifier = f"{claims['iss']}\0{claims['jti']}"
        issued = exchange_credential(
            records,
            hashlib.sha256(identifier.encode()).hexdigest()[:16],
            owner,
            ["upload"],
            now=now,
            projects=frozenset().union(*projects),
            lifetime=_TOKEN_LIFETIME,
            note=f"trusted publishing: {_job_name(claims)}"[:200],
        )
        if issued is None:
            return _error_response("invalid-reuse-token", "this identity was used before")
        token, secret = issued
        log(
            "action",
            action="mint-token",
            owner=token.owner,
            token=token.id,
            subject=_job_name(claims),
        )
        return json_response(200, {"success": True, "token": secret, "expires": token.expires})

    def _verified(self, token: str, now: datetime) -> Mapping[str, Any]:
        """Return the claims of a token that a trusted issuer has signed for this index."""
        unverified = self._jwt.decode(token, options={"verify_signature": False})
        issuer = unverified.get("iss")
        if issuer not in [publisher.issuer for publisher in self._publishers]:
            raise ValueError("its issuer is not one of the trusted publishers")
        key = self._key(issuer, self._jwt.get_unverified_header(token).get("kid"))
        claims: Mapping[str, Any] = self._jwt.decode(
            token,
            key,
            algorithms=_ALGORITHMS,
            audience=self._audience,
            issuer=issuer,
            leeway=_LEEWAY,
            options={"require": _REQUIRED_CLAIMS},
        )
        if now.timestamp() - int(claims["iat"]) > _MAX_IDENTITY_AGE.total_seconds():
            raise ValueError("it was issued too long ago")
        return claims

    def _key(self, issuer: str, kid: object) -> Any:
        """Return a key of an issuer by its identifier; fetch the keys if they are too old."""
        with self._lock:
            never = float("-inf")
            requested, received, keys = self._keys.get(issuer, (never, never, {}))
            now = time.monotonic()
            if now - received > _KEY_LIFETIME:
                keys = {}
            if kid not in keys and now - requested > _REFETCH_AFTER:
                # Recorded first: an issuer that does not answer is not requested again for a while.
                self._keys[issuer] = (now, received, keys)
                keys = self._fetch(issuer)
                self._keys[issuer] = (now, now, keys)
        if not keys:
            raise ValueError("its issuer did not send its keys a moment ago")
        if kid not in keys:
            raise ValueError("its issuer has no such key")
        return keys[kid]

    def _fetch(self, issuer: str) -> dict[object, Any]:
        """Return the keys of an issuer, as its OpenID configuration names them."""
        configuration = self._json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if configuration.get("issuer") != issuer:
            raise ValueError("the OpenID configuration of its issuer names another one")
        keys_url = str(configuration.get("jwks_uri"))
        if origin(keys_url).scheme != origin(issuer).scheme:
            scheme = origin(issuer).scheme
            raise ValueError(
                f"the keys of its issuer are not served over {scheme} as the issuer is"
            )
        key_set = self._jwt.PyJWKSet.from_dict(self._json(keys_url))
        return {key.key_id: key for key in key_set.keys if key.key_id is not None}

    def _json(self, url: str) -> dict[str, Any]:
        response = self._client.get(url, limit=_MAX_RESPONSE_SIZE)
        if response.status != 200:
            raise ValueError(f"its issuer answered {response.status}")
        value = json.loads(response.body)
        if not isinstance(value, dict):
            raise ValueError("its issuer did not answer with a JSON object")  # noqa: TRY004 - untrusted data
        return value


def _matches(text: str, pattern: str) -> bool:
    """Return whether a text matches a pattern, in which only ``*`` is special."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def _job_name(claims: Mapping[str, Any]) -> str:
    """Return the name of a job for people, shortened, since it is untrusted."""
    return str(claims.get("sub") or claims.get("repository") or "an unnamed job")[:200]


def _error_response(code: str, description: str) -> Response:
    errors = [{"code": code, "description": description}]
    return json_response(422, {"message": "Token request failed", "errors": errors})
