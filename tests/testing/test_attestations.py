"""The signing authority for tests: its attestations hold where it is trusted, and nowhere else."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from programs import run_program

pytest.importorskip("pypi_attestations", reason="needs the extra `attestations`")

from wheelfit.testing.attestations import SigningAuthority

FILE = "demo-1-py3-none-any.whl"
SHA256 = hashlib.sha256(b"demo").hexdigest()
VERIFY = """
import json, sys
from wheelfit.errors import AttestationProblem
from wheelfit.sources.attestations import make_provenance, verify_provenance
for attestation, name, sha256, publisher in json.load(sys.stdin):
    try:
        provenance = make_provenance(f"[{attestation}]".encode(), name, sha256)
        print(*verify_provenance(provenance, name, sha256, trusted=[publisher]))
    except AttestationProblem as error:
        print(str(error).replace("\\n", " "))
"""


@pytest.fixture
def authority() -> SigningAuthority:
    """Return an authority that signs for a workflow of a repository."""
    return SigningAuthority("example/demo")


def verified(questions: list[tuple[str, ...]], environ: Mapping[str, str]) -> list[str]:
    """Return the answers of a process of its own, which reads the root of trust once.

    :param questions: an attestation, a file's name and SHA-256, and a trusted publisher each.
    """
    asked = json.dumps(questions)
    completed = run_program(sys.executable, "-c", VERIFY, input=asked, env=environ)
    return completed.stdout.splitlines()


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="caches are found as on Linux")
def test_what_it_signs(authority: SigningAuthority, tmp_path: Path) -> None:
    """An attestation holds for its file and workflow, by the authority that is trusted."""
    attestation = authority.attest(FILE, SHA256).decode()
    other = SigningAuthority("example/demo").attest(FILE, SHA256).decode()
    publisher = "github:example/demo"
    right = (attestation, FILE, SHA256, publisher)
    holds, digest, name, signer, stranger = verified(
        [
            right,
            (attestation, FILE, "0" * 64, publisher),
            (attestation, "demo-2-py3-none-any.whl", SHA256, publisher),
            (attestation, FILE, SHA256, "github:example/other"),
            (other, FILE, SHA256, publisher),
        ],
        authority.trust(tmp_path),
    )
    assert holds == publisher
    assert "digest" in digest
    assert "name" in name
    assert "not by" in signer
    assert "is not valid" in stranger
    (public,) = verified([right], {"XDG_CACHE_HOME": str(tmp_path / "public")})
    assert "is not valid" in public
