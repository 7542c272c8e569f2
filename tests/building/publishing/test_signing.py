"""Attestations that are written: signed by a sigstore on this machine, and verified by its root."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from server.legacy import LegacyIndex
from server.uploading import DOCUMENT

from wheelfit.building.publishing.release_files import collect
from wheelfit.building.publishing.signing import attest
from wheelfit.errors import AttestationProblem
from wheelfit.operations.context import Context, Reporter
from wheelfit.operations.publish import PublishRequest, publish
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration, Unreachable

pytest.importorskip("pypi_attestations", reason="needs the extra `attestations`")
pytest.importorskip("twine", reason="needs the extra `publish`")

if TYPE_CHECKING:
    from building.publishing.sigstore_instance import Sigstore


@pytest.fixture
def sigstore() -> Iterator[Sigstore]:
    """Run a sigstore."""
    from building.publishing.sigstore_instance import Sigstore

    with Sigstore() as running:
        yield running


@pytest.fixture
def instance(sigstore: Sigstore, tmp_path: Path) -> Path:
    """Return the file that names it."""
    path = tmp_path / "sigstore.json"
    path.write_text(json.dumps(sigstore.configuration()))
    return path


def statement(sigstore: Sigstore, attestation: bytes) -> Any:
    """Verify an attestation by the root of a sigstore alone; return what was signed."""
    from pypi_attestations import Attestation
    from sigstore.models import ClientTrustConfig
    from sigstore.verify import Verifier
    from sigstore.verify.policy import Identity

    trusted = ClientTrustConfig.from_json(json.dumps(sigstore.configuration())).trusted_root
    policy = Identity(identity="https://ci.example/owner/fast", issuer="https://issuer.example")
    bundle = Attestation.model_validate_json(attestation).to_bundle()
    kind, payload = Verifier(trusted_root=trusted).verify_dsse(bundle, policy)
    assert kind == "application/vnd.in-toto+json"
    return json.loads(payload)


def test_files_are_signed_by_the_identity_of_the_job(
    sigstore: Sigstore, instance: Path, tmp_path: Path
) -> None:
    """PEP 740: the statement names the file and its digest; certificate and log entries hold."""
    for tag in ("py3-none-any", "py2-none-any"):
        build_wheel(tmp_path / "dist", "fast", "1.0", tag=tag)
    files = collect([tmp_path / "dist"]).files
    written = attest(files, {"SIGSTORE_ID_TOKEN": sigstore.token()}, instance)
    assert [path.name for path in written] == [f"{one.filename}.publish.attestation"
                                               for one in files]  # fmt: skip
    for one, path in zip(files, written, strict=True):
        signed = statement(sigstore, path.read_bytes())
        assert signed["predicateType"] == "https://docs.pypi.org/attestations/publish/v1"
        (subject,) = signed["subject"]
        assert subject == {"name": one.filename, "digest": {"sha256": one.sha256}}
    assert len(sigstore.identities) == 1  # one certificate for all of them


def test_they_go_along_with_the_files(sigstore: Sigstore, instance: Path, tmp_path: Path) -> None:
    """What is signed now is sent in the form; what was signed before is sent as it is."""
    dist = tmp_path / "dist"
    old = build_wheel(dist, "fast", "1.0")
    new = build_wheel(dist, "fast", "1.0", tag="py2-none-any")
    (earlier,) = attest(collect([old]).files, {"SIGSTORE_ID_TOKEN": sigstore.token()}, instance)
    before = earlier.read_bytes()
    context = Context(
        {"WHEELFIT_CACHE_DIR": str(tmp_path / "cache"), "SIGSTORE_ID_TOKEN": sigstore.token()}
    )
    with LegacyIndex(tmp_path / "index") as index:
        request = PublishRequest(
            paths=(str(dist),), to=index.url, attest=True, sigstore=str(instance),
            # Its own root of trust is one that nobody else has.
            ignore=("bad-attestation",),
        )  # fmt: skip
        report = publish(request, context)
    assert report.act is not None, report.found
    assert earlier.read_bytes() == before
    assert json.loads(index.fields[old.name]["attestations"][0]) == [json.loads(before)]
    (sent,) = json.loads(index.fields[new.name]["attestations"][0])
    assert statement(sigstore, json.dumps(sent).encode())["subject"][0]["name"] == new.name
    assert [len(one.attestations) for one in report.outgoing.files] == [1, 1]


class Listening(Reporter):
    """Remember warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        """Take a warning."""
        self.warnings.append(text)


def test_wheels_with_a_label_are_left_out(
    sigstore: Sigstore, instance: Path, tmp_path: Path
) -> None:
    """The library refuses their names: they are published unsigned, and that is told."""
    dist = tmp_path / "dist"
    build_wheel(dist, "fast", "1.0")
    build_wheel(dist, "fast", "1.0", label="mkl", document=DOCUMENT)
    reporter = Listening()
    environ = {"WHEELFIT_CACHE_DIR": str(tmp_path / "c"), "SIGSTORE_ID_TOKEN": sigstore.token()}
    request = PublishRequest(
        paths=(str(dist),), to=str(tmp_path / "site"), attest=True, sigstore=str(instance)
    )
    report = publish(request, Context(environ, reporter=reporter))
    assert report.act is not None, report.found
    assert [len(one.attestations) for one in report.outgoing.files] == [1, 0]
    assert "wheels with a label are not signed" in reporter.warnings[0]


def test_what_cannot_be_signed_is_not_published(
    sigstore: Sigstore, instance: Path, tmp_path: Path
) -> None:
    """Without an identity, an authority or a configuration nothing is written."""
    build_wheel(tmp_path / "dist", "fast", "1.0")
    files = collect([tmp_path / "dist"]).files
    with pytest.raises(InvalidConfiguration, match="not for the audience 'sigstore'"):
        attest(files, {"SIGSTORE_ID_TOKEN": sigstore.token("wheels")}, instance)
    with pytest.raises((AttestationProblem, InvalidConfiguration)):
        attest(files, {"SIGSTORE_ID_TOKEN": "e30.eyJhdWQiOiJzaWdzdG9yZSJ9.x"}, instance)
    sigstore.is_down = True
    with pytest.raises(Unreachable, match="cannot be signed"):
        attest(files, {"SIGSTORE_ID_TOKEN": sigstore.token()}, instance)
    instance.write_text("{}")
    with pytest.raises(FileProblem, match="not a trust configuration"):
        attest(files, {"SIGSTORE_ID_TOKEN": sigstore.token()}, instance)
    assert [path.suffix for path in (tmp_path / "dist").iterdir()] == [".whl"]
