"""A CI service whose jobs have identities: an issuer of OpenID Connect on this machine."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.messages import Request, Response

jwt = pytest.importorskip("jwt", reason="needs the extra `server`")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
JOB = {
    "sub": "repo:acme/fast:environment:release",
    "repository": "acme/fast",
    "environment": "release",
    "job_workflow_ref": "acme/fast/.github/workflows/release.yml@refs/tags/v1",
}


class Issuer(LoopbackServer):
    """A CI service that signs identities of its jobs."""

    def __init__(self) -> None:
        self.keys = {"one": rsa.generate_private_key(public_exponent=65537, key_size=2048)}
        self.asked: list[str] = []
        self.keys_answer: bytes | None = None
        """What is answered instead of the keys."""
        super().__init__(self._answer)
        self.url = self.origin
        """Its name in tokens."""

    def _answer(self, request: Request) -> Response:
        self.asked.append(request.path)
        kind = {"content-type": "application/json"}
        if request.path == "/.well-known/openid-configuration":
            content: object = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        elif request.path == "/keys":
            algorithm = jwt.algorithms.RSAAlgorithm
            content = {
                "keys": [
                    {**json.loads(algorithm.to_jwk(key.public_key())), "kid": name, "use": "sig"}
                    for name, key in self.keys.items()
                ]
            }
        else:
            return Response.text(404, "there is no such page")
        if request.path == "/keys" and self.keys_answer is not None:
            return Response.of(200, self.keys_answer, kind)
        return Response.of(200, json.dumps(content).encode(), kind)

    def identity(self, audience: str, kid: str = "one", key: Any = None, **changes: Any) -> str:
        """Return the token of a job."""
        now = int(time.time())
        claims = {**JOB, "iss": self.url, "aud": audience, "iat": now, "exp": now + 300}
        claims |= {"jti": f"{now}-{len(self.asked)}-{time.perf_counter_ns()}", **changes}
        claims = {name: value for name, value in claims.items() if value is not None}
        signer = self.keys[kid] if key is None else key
        return str(jwt.encode(claims, signer, algorithm="RS256", headers={"kid": kid}))
