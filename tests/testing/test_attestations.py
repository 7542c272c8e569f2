"""The signing authority for tests: its attestations hold where it is trusted, and nowhere else."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("pypi_attestations", reason="needs the extra `attestations`")

from wheelfit.testing.attestations import SigningAuthority

FILE = "demo-1-py3-none-any.whl"
SHA256 = hashlib.sha256(b"demo").hexdigest()
VERIFY = """
import sys
from wheelfit.errors import AttestationProblem
from wheelfit.sources.attestations import make_provenance, verify_provenance
attestation, name, sha256, publisher = sys.argv[1:]
try:
    provenance = make_provenance(f"[{attestation}]".encode(), name, sha256)
    print(*verify_provenance(provenance, name, sha256, trusted=[publisher]))
except AttestationProblem as error:
    print(error)
"""


@pytest.fixture
def authority() -> SigningAuthority:
    """Return an authority that signs for a workflow of a repository."""
    return SigningAuthority("example/demo")


def verified(
    attestation: bytes,
    environ: Mapping[str, str],
    *,
    name: str = FILE,
    sha256: str = SHA256,
    publisher: str = "github:example/demo",
) -> str:
    """Return what a process of its own says, which reads the root of trust once."""
    command = [sys.executable, "-c", VERIFY, attestation.decode(), name, sha256, publisher]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(environ))
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="caches are found as on Linux")
def test_what_it_signs(authority: SigningAuthority, tmp_path: Path) -> None:
    """An attestation holds for its file and workflow, by the authority that is trusted."""
    attestation = authority.attest(FILE, SHA256)
    trusting = authority.trust(tmp_path)
    assert verified(attestation, trusting) == "github:example/demo"
    assert "digest" in verified(attestation, trusting, sha256="0" * 64)
    assert "name" in verified(attestation, trusting, name="demo-2-py3-none-any.whl")
    assert "not by" in verified(attestation, trusting, publisher="github:example/other")
    other = SigningAuthority("example/demo").attest(FILE, SHA256)
    assert "does not hold" in verified(other, trusting)
    assert "does not hold" in verified(attestation, {"XDG_CACHE_HOME": str(tmp_path / "public")})
