"""Uploads by CI jobs: real tokens of a local issuer, exchanged by publishing tools."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from error_codes import raises_code
from programs import run_program
from server.ci_service import JOB, Issuer
from server.running import RunningIndex, bearer, clean_environ, post

from wheelfit.server.hosting.settings import read_settings
from wheelfit.server.hosting.trusted_publishing import TrustedPublisher
from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.messages import Request, Response
from wheelfit.testing.wheels import build_wheel

jwt = pytest.importorskip("jwt", reason="needs the extra `server`")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
pytestmark = pytest.mark.integration
for _name in ("uvicorn", "prometheus_client", "python_multipart", "jinja2"):
    pytest.importorskip(_name, reason="needs the extra `server`")


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    """Run an issuer."""
    with Issuer() as issuer:
        yield issuer


@contextmanager
def trusting(folder: Path, issuer: Issuer, claims: str) -> Iterator[RunningIndex]:
    """Run an index at a known address that trusts jobs with certain claims."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        (folder / "server.toml").write_text(f"""
public-url = "http://127.0.0.1:{listener.getsockname()[1]}"
[[trusted-publisher]]
projects = ["fast", "fast_extras"]
issuer = "{issuer.url}"
owner = "acme"
[trusted-publisher.claims]
{claims}
""")
        options = ("--fd", str(listener.fileno()), "--settings", str(folder / "server.toml"))
        with RunningIndex(folder / "index", *options, pass_fds=[listener.fileno()]) as index:
            yield index


@pytest.fixture(scope="module")
def index(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningIndex]:
    """Run an index that trusts a job."""
    claims = """\
repository = "acme/fast"
environment = "release"
job_workflow_ref = "acme/fast/.github/workflows/release.yml@*"
"""
    with trusting(tmp_path_factory.mktemp("server"), issuer, claims) as index:
        yield index


def mint(index: RunningIndex, token: object, body: bytes | None = None) -> tuple[int, Any]:
    """Exchange an identity token."""
    data = json.dumps({"token": token}).encode() if body is None else body
    status, _, answer = index.ask("POST", "/_/oidc/mint-token", data)
    return status, json.loads(answer)


def audience(index: RunningIndex) -> str:
    """Return the audience of the index."""
    return str(json.loads(index.get("/_/oidc/audience")[2])["audience"])


def test_exchange(index: RunningIndex, issuer: Issuer, tmp_path: Path) -> None:
    """An upload token is for the projects of the job, and expires in minutes."""
    status, minted = mint(index, issuer.identity(audience(index)))
    assert (status, minted["success"]) == (200, True)
    good = build_wheel(tmp_path, "fast-extras", "1.0")
    assert post(index.address, good, token=minted["token"])[0] == 200
    foreign = build_wheel(tmp_path, "other", "1.0")
    assert post(index.address, foreign, token=minted["token"])[0] == 403
    (event,) = [event for event in index.events("action") if event.get("action") == "mint-token"][
        -1:
    ]
    assert event["owner"] == "acme"
    assert event["subject"] == JOB["sub"]
    query = "/-/api/audit?action=mint-token&actor=acme"
    noted = json.loads(index.get(query, authorization=bearer(index.token))[2])["entries"][0]
    assert JOB["sub"] in noted["note"]
    assert noted["address"] == "127.0.0.1"
    assert minted["token"] not in index.log


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"repository": "evil/fast"}, "invalid-publisher"),
        ({"environment": "test"}, "invalid-publisher"),
        ({"environment": None}, "invalid-publisher"),
        ({"job_workflow_ref": "evil/x@acme/fast/.github"}, "invalid-publisher"),
        ({"aud": "https://other.example"}, "invalid-token"),
        ({"iss": "https://issuer.example"}, "invalid-token"),
        ({"exp": 1_700_000_000}, "invalid-token"),
        ({"iat": int(time.time()) + 86_400}, "invalid-token"),
        ({"jti": None}, "invalid-token"),
        ({"exp": None}, "invalid-token"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_refusals(index: RunningIndex, issuer: Issuer, changes: dict[str, Any], code: str) -> None:
    """Another job, another index or another time gets no token."""
    status, answer = mint(index, issuer.identity(audience(index), **changes))
    assert status == 422
    assert [error["code"] for error in answer["errors"]] == [code]


def test_forged(index: RunningIndex, issuer: Issuer) -> None:
    """Identity tokens that are unsigned or signed by others are refused."""
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    forged = issuer.identity(audience(index), key=other)
    assert mint(index, forged)[0] == 422
    claims = jwt.decode(forged, options={"verify_signature": False})
    unsigned = jwt.encode(claims, None, algorithm="none", headers={"kid": "one"})
    shared = jwt.encode(claims, b"secret" * 8, algorithm="HS256", headers={"kid": "one"})
    for token in (unsigned, shared, "", "a.b.c", "x" * 5000, 5, None, ["x"]):
        status, answer = mint(index, token)
        assert status == 422, token
        assert answer["errors"][0]["code"] == "invalid-token"


def test_used_once(index: RunningIndex, issuer: Issuer) -> None:
    """An identity token can be used once."""
    identity = issuer.identity(audience(index))
    assert mint(index, identity)[0] == 200
    status, answer = mint(index, identity)
    assert (status, answer["errors"][0]["code"]) == (422, "invalid-reuse-token")


@pytest.mark.parametrize("answer", [b"5", b"no json", b"{}", b'{"keys":[{"kty":"?"}]}'])
def test_issuer_in_trouble(tmp_path: Path, answer: bytes) -> None:
    """Whatever the issuer answers, no token is given, and the index still works."""
    with Issuer() as issuer, trusting(tmp_path, issuer, 'repository = "acme/fast"') as index:
        token = issuer.identity(audience(index))
        issuer.keys_answer = answer
        assert mint(index, token)[0] == 422
        asked = len(issuer.asked)
        assert mint(index, token)[0] == 422
        assert len(issuer.asked) == asked  # not for a minute
        assert index.get("/simple/")[0] == 200


def test_bad_requests(index: RunningIndex) -> None:
    """Invalid requests are refused, and there are no other paths."""
    assert index.ask("POST", "/_/oidc/mint-token", b"no json")[0] == 400
    assert index.ask("POST", "/_/oidc/mint-token", b"x" * (2 << 20))[0] == 400
    assert index.get("/_/oidc/mint-token")[0] == 405
    assert index.ask("POST", "/_/oidc/audience", b"{}")[0] == 405
    assert index.get("/_/oidc/else")[0] == 404


def test_patterns(index: RunningIndex, issuer: Issuer) -> None:
    """In claims only ``*`` is special."""
    for text, pattern, is_met in (
        ("acme/fast", "acme/fast", True),
        ("acme/fast", "acme/*", True),
        ("a\nb", "a*", True),
        ("acmeXfast", "acme.fast", False),
        ("p", "[prod]", False),
        ("[prod]", "[prod]", True),
        ("acme/faster", "acme/fast", False),
    ):
        publisher = TrustedPublisher(frozenset(), issuer.url, {"repository": pattern}, "admin")
        assert publisher.admits({"iss": issuer.url, "repository": text}) is is_met
    assert audience(index) == index.origin


def test_index_without_an_address(tmp_path: Path) -> None:
    """An index without an address, which could be confused with another, is refused."""
    (tmp_path / "server.toml").write_text(
        """[[trusted-publisher]]
projects = ["fast"]
issuer = "https://ci.example"
claims = {repository = "acme/fast"}
"""
    )
    with raises_code("invalid-configuration"):
        read_settings({}, {}, str(tmp_path / "server.toml"))


def test_no_trusted_publishers(tmp_path: Path) -> None:
    """Without trusted publishers the paths do not exist."""
    with RunningIndex(tmp_path / "index") as index:
        assert index.get("/_/oidc/audience")[0] == 404


def test_publish(index: RunningIndex, issuer: Issuer, tmp_path: Path) -> None:
    """`wheelfit publish` uploads from a job without a stored secret, atomically."""
    wheel = build_wheel(tmp_path / "dist", "fast", "2.0")
    with LoopbackServer(_jobs(issuer)) as job:
        environ = clean_environ(tmp_path) | {
            "GITHUB_ACTIONS": "true",
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{job.origin}/token?x=1",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "of-the-job",
        }
        command = (sys.executable, "-m", "wheelfit", "publish", wheel, "--to", index.origin)
        run_program(*command, env=environ)
    assert wheel.name.encode() in index.get("/simple/fast/")[2]


def _jobs(issuer: Issuer) -> Callable[[Request], Response]:
    """Return a server that issues identity tokens to jobs."""

    def answer(request: Request) -> Response:
        fields = dict(pair.split("=", 1) for pair in request.query.split("&"))
        value = issuer.identity(unquote(fields["audience"]))
        content = json.dumps({"value": value}).encode()
        return Response.of(200, content, {"content-type": "application/json"})

    return answer
