"""The identity of a CI job becomes a login, at an index that checks real tokens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest
from web_servers import AnsweringServer

from wheelfit.building.publishing.trusted_publishing import has_identity, trusted_login
from wheelfit.server.messages import Request, Response
from wheelfit.sources.credentials import Login
from wheelfit_runtime.errors import InvalidConfiguration, NetworkError, PolicyRefusal

jwt = pytest.importorskip("jwt", reason="needs PyJWT, which comes with the extra `attestations`")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
pytest.importorskip("twine", reason="needs the extra `publish`")

ISSUER = "https://issuer.example"
REQUEST_TOKEN = "of-the-job"
MINTED = "pypi-minted"


class Parties(AnsweringServer):
    """A CI service that gives identities, and an index that trusts one repository of it."""

    def __init__(self, key: Any) -> None:
        super().__init__()
        self.key = key
        self.audience: str | None = "wheels"
        """Whom the index wants tokens for; None: it has never heard of any."""
        self.status = 200
        self.methods: list[str] = []
        """Of all requests."""

    def identity(self, audience: str, **changes: object) -> str:
        """Return the token of a job."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": audience, "repository": "owner/fast", "iat": now,
                  "exp": now + 60}  # fmt: skip
        return str(jwt.encode({**claims, **changes}, self.key, algorithm="RS256"))

    def mint(self, token: str) -> tuple[int, dict[str, object]]:
        """Check a token as an index does."""
        try:
            claims = jwt.decode(token, self.key.public_key(), algorithms=["RS256"],
                                audience=self.audience, issuer=ISSUER)  # fmt: skip
        except jwt.PyJWTError as error:
            return 422, {"errors": [{"code": "invalid-token", "description": str(error)}]}
        if claims["repository"] != "owner/fast":
            reason = {"code": "invalid-publisher", "description": "valid token, no publisher"}
            return 422, {"message": "Token request failed", "errors": [reason]}
        return 200, {"success": True, "token": MINTED}

    def answer(self, request: Request) -> Response:
        """Answer a request."""
        self.methods.append(request.method)
        status, told = self._answer(request)
        return Response.of(status, json.dumps(told).encode(), {})

    def _answer(self, request: Request) -> tuple[int, dict[str, object]]:
        shown = request.headers.get("authorization")
        if request.path == "/identity" and shown == f"bearer {REQUEST_TOKEN}":
            return 200, {"value": self.identity(parse_qs(request.query)["audience"][0])}
        if request.path == "/_/oidc/audience" and self.audience is not None:
            return self.status, {"audience": self.audience}
        if request.path == "/_/oidc/mint-token":
            return self.mint(json.load(request.body)["token"])
        return 404, {}


@pytest.fixture(scope="module")
def key() -> Any:
    """Return the key of the identity provider."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def parties(key: Any) -> Iterator[Parties]:
    """Serve both."""
    with Parties(key) as running:
        yield running


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return an environment of no CI service, which is that of this process too."""
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI",
                 "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    return {}


def in_job(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], **variables: str
) -> dict[str, str]:
    """Make this process a job of a CI service."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return environ | variables


def on_github(parties: Parties) -> dict[str, str]:
    """Return the variables of a job of GitHub that may have an identity."""
    return {
        "GITHUB_ACTIONS": "true",
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{parties.origin}/identity?api=1",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": REQUEST_TOKEN,
    }


def test_a_job_of_github(
    parties: Parties, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its identity is had for the audience of the index, checked there, and gives a token."""
    assert not has_identity(environ)
    environ = in_job(monkeypatch, environ, **on_github(parties))
    assert has_identity(environ)
    login = trusted_login(f"{parties.origin}/legacy/", environ)
    assert login == Login("__token__", MINTED)
    assert parties.asked == ["/_/oidc/audience", "/identity", "/_/oidc/mint-token"]
    assert parties.methods == ["GET", "GET", "POST"]
    assert parties.logins == [None, f"bearer {REQUEST_TOKEN}", None]


def test_a_job_of_gitlab(
    parties: Parties, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GitLab puts the token in a variable that is named after the audience."""
    variables = {"GITLAB_CI": "true", "WHEELS_ID_TOKEN": parties.identity("wheels")}
    environ = in_job(monkeypatch, environ, **variables)
    assert trusted_login(f"{parties.origin}/legacy/", environ) == Login("__token__", MINTED)


def test_any_other_job(parties: Parties, environ: dict[str, str]) -> None:
    """A token that somebody got otherwise is in a variable of ours; for others it is not shown."""
    environ["WHEELFIT_OIDC_TOKEN"] = parties.identity("wheels")
    assert trusted_login(f"{parties.origin}/legacy/", environ) == Login("__token__", MINTED)
    parties.asked.clear()
    for token in (parties.identity("other"), "no-token", "a.b.c"):
        environ["WHEELFIT_OIDC_TOKEN"] = token
        with pytest.raises(InvalidConfiguration, match="not for the audience 'wheels'"):
            trusted_login(f"{parties.origin}/legacy/", environ)
    assert set(parties.asked) == {"/_/oidc/audience"}


def test_whom_the_index_does_not_trust(parties: Parties, environ: dict[str, str]) -> None:
    """The reason of the index is told, and the token is not."""
    for changes, words in (
        ({"repository": "other/fast"}, "valid token, no publisher"),
        ({"exp": 1}, "expired"),
    ):
        token = parties.identity("wheels", **changes)
        environ["WHEELFIT_OIDC_TOKEN"] = token
        with pytest.raises(PolicyRefusal, match=words) as excinfo:
            trusted_login(f"{parties.origin}/legacy/", environ)
        assert token not in str(vars(excinfo.value))


def test_a_job_without_permission(
    parties: Parties, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of GitHub that asked for no identity is told what to write."""
    environ = in_job(monkeypatch, environ, GITHUB_ACTIONS="true")
    with pytest.raises(InvalidConfiguration) as excinfo:
        trusted_login(f"{parties.origin}/legacy/", environ)
    assert "id-token: write" in str(excinfo.value.hint)


def test_an_index_that_knows_no_identities(parties: Parties, environ: dict[str, str]) -> None:
    """Where the index has no audience nothing is shown to it; one that fails is no such index."""
    environ["WHEELFIT_OIDC_TOKEN"] = parties.identity("wheels")
    parties.audience = None
    assert trusted_login(f"{parties.origin}/legacy/", environ) is None
    assert parties.asked == ["/_/oidc/audience"]
    parties.audience, parties.status = "wheels", 503
    with pytest.raises(NetworkError, match="503"):
        trusted_login(f"{parties.origin}/legacy/", environ)


def test_an_index_that_gives_no_token(
    parties: Parties, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that fails at the second request is not said to have failed at the first."""
    environ["WHEELFIT_OIDC_TOKEN"] = parties.identity("wheels")
    monkeypatch.setattr(parties, "mint", lambda _token: (503, {}))
    with pytest.raises(NetworkError, match="exchange of the identity with 503"):
        trusted_login(f"{parties.origin}/legacy/", environ)


def test_an_identity_is_not_shown_in_the_open(environ: dict[str, str]) -> None:
    """Plain HTTP to another machine is refused before anything is asked."""
    with pytest.raises(InvalidConfiguration, match="plain HTTP"):
        trusted_login("http://index.example/legacy/", environ)
