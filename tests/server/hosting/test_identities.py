"""Identities of CI jobs, exchanged without a running index."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from server.ci_service import Issuer, jwt
from server.hosting.hosts import text

from wheelfit.server.hosting.trusted_publishing import TrustedPublisher, TrustedPublishing
from wheelfit.server.store.opening import Store, open_store
from wheelfit.sources.open import open_web
from wheelfit.sources.settings import SourceSettings

AUDIENCE = "https://wheels.example"


class Exchange:
    """An index that trusts the jobs of an issuer."""

    def __init__(self, store: Store, issuer: Issuer) -> None:
        self.store = store
        publisher = TrustedPublisher(
            frozenset({"fast"}), issuer.url, {"repository": "acme/fast"}, "acme"
        )
        settings = SourceSettings(timeout=5.0, retries=0)
        client = open_web(settings, cache_folder=None, environ={}).client
        self._publishing = TrustedPublishing([publisher], AUDIENCE, client)

    def mint(self, identity: str) -> tuple[int, str]:
        """Exchange an identity; return the status and the text of the response."""
        now = datetime.now(UTC)
        response = self._publishing.respond(
            ["oidc", "mint-token"],
            {"token": identity},
            self.store.records,
            now,
            lambda *_, **__: None,
        )
        assert response is not None
        return response.status, text(response)


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    """Run an issuer."""
    with Issuer() as issuer:
        yield issuer


@pytest.fixture
def exchange(tmp_path: Path, issuer: Issuer) -> Iterator[Exchange]:
    """Return an index that trusts the issuer."""
    with open_store(tmp_path) as store:
        yield Exchange(store, issuer)


@pytest.mark.parametrize("changes", [{"iss": ["https://a.example"]}, {"iss": {}}, {"iss": 5}])
def test_issuer_of_another_type(
    exchange: Exchange, issuer: Issuer, changes: dict[str, Any]
) -> None:
    """An issuer that is not a text is refused."""
    claims = jwt.decode(issuer.identity(AUDIENCE), options={"verify_signature": False})
    identity = jwt.PyJWS().encode(
        jwt.api_jwt.json.dumps(claims | changes).encode(), issuer.keys["one"], algorithm="RS256"
    )
    status, answer = exchange.mint(identity)
    assert status == 422
    assert "invalid-token" in answer


def test_unknown_key_while_the_issuer_is_down(
    exchange: Exchange, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed request for unknown keys does not remove the known ones."""
    assert exchange.mint(issuer.identity(AUDIENCE))[0] == 200
    unknown = jwt.encode({"iss": issuer.url}, issuer.keys["one"], "RS256", {"kid": "other"})
    with monkeypatch.context() as patch:
        patch.setattr("wheelfit.server.hosting.trusted_publishing._REFETCH_AFTER", 0.0)
        patch.setattr(issuer, "keys_answer", b"5")
        assert exchange.mint(unknown)[0] == 422
    assert exchange.mint(issuer.identity(AUDIENCE))[0] == 200


def test_keys_that_were_not_sent(
    exchange: Exchange, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the issuer is not requested again, the message does not speak of the key."""
    monkeypatch.setattr(issuer, "keys_answer", b"5")
    for _ in range(2):
        status, answer = exchange.mint(issuer.identity(AUDIENCE))
        assert status == 422
        assert "has no such key" not in answer


def test_revoked(exchange: Exchange, issuer: Issuer) -> None:
    """An identity cannot be used again after its token was revoked."""
    identity = issuer.identity(AUDIENCE)
    assert exchange.mint(identity)[0] == 200
    (token,) = exchange.store.records.tokens()
    assert exchange.store.records.revoke(token.id)
    assert not exchange.store.records.revoke(token.id)
    (revoked,) = exchange.store.records.tokens()
    assert revoked.expires == token.created
    status, answer = exchange.mint(identity)
    assert status == 422
    assert "invalid-reuse-token" in answer


def test_old_identity(exchange: Exchange, issuer: Issuer) -> None:
    """An identity that outlives the memory of its use is refused."""
    issued = int(datetime.now(UTC).timestamp()) - 86_400
    status, answer = exchange.mint(issuer.identity(AUDIENCE, iat=issued))
    assert status == 422
    assert "it was issued too long ago" in answer
