"""Attestations that are written: signed by a sigstore on this machine, and verified by its root."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from server.legacy import LegacyIndex
from server.uploading import DOCUMENT

from wheelfit.building.publishing.release_files import collect_files
from wheelfit.building.publishing.signing import attest
from wheelfit.errors import AttestationProblem
from wheelfit.operations.context import Context
from wheelfit.operations.publish import PublishRequest, publish
from wheelfit.testing.attestations import SigningAuthority
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
    from building.publishing.sigstore_instance import IDENTITY, ISSUER
    from pypi_attestations import Attestation
    from sigstore.models import ClientTrustConfig
    from sigstore.verify import Verifier
    from sigstore.verify.policy import AllOf, Identity, OIDCIssuerV2

    trusted = ClientTrustConfig.from_json(json.dumps(sigstore.configuration())).trusted_root
    policy = AllOf([Identity(identity=IDENTITY), OIDCIssuerV2(ISSUER)])
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
    files = collect_files([tmp_path / "dist"]).files
    written = attest(files, {"SIGSTORE_ID_TOKEN": sigstore.token()}, instance)
    assert [path.name for path in written] == [f"{file.filename}.publish.attestation"
                                               for file in files]  # fmt: skip
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
    (earlier,) = attest(
        collect_files([old]).files, {"SIGSTORE_ID_TOKEN": sigstore.token()}, instance
    )
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
    assert report.result is not None, report.checks
    assert earlier.read_bytes() == before
    assert json.loads(index.fields[old.name]["attestations"][0]) == [json.loads(before)]
    (sent,) = json.loads(index.fields[new.name]["attestations"][0])
    assert statement(sigstore, json.dumps(sent).encode())["subject"][0]["name"] == new.name
    assert [len(file.attestations) for file in report.outgoing.files] == [1, 1]


VERIFY = """
import json, sys
from pathlib import Path
from wheelfit.errors import AttestationProblem
from wheelfit.sources.attestations import make_provenance
for attestation, name, sha256 in json.load(sys.stdin):
    try:
        make_provenance(f"[{Path(attestation).read_text()}]".encode(), name, sha256)
        print("holds")
    except AttestationProblem as error:
        print(str(error).replace("\\n", " "))
"""


def verified(environ: Mapping[str, str], *questions: tuple[Path, str, str]) -> list[str]:
    """Return the answers of our verifier, in a process that reads the root of trust once.

    :param questions: an attestation, and the name and SHA-256 of a file each.
    """
    asked = json.dumps([(str(path), name, sha256) for path, name, sha256 in questions])
    command = [sys.executable, "-c", VERIFY]
    completed = subprocess.run(
        command, input=asked, capture_output=True, text=True, check=True, env=dict(environ)
    )
    return completed.stdout.splitlines()


def shape(value: object) -> object:
    """Return a document with the types of its values in place of these."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else type(value)


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="caches are found as on Linux")
def test_wheels_with_a_label_are_signed_alike(
    sigstore: Sigstore, instance: Path, tmp_path: Path
) -> None:
    """PEP 740: the same document as of a wheel without label, and it is verified as that is."""
    from pypi_attestations import Attestation, Distribution

    dist, environ = tmp_path / "dist", {"SIGSTORE_ID_TOKEN": sigstore.token()}
    build_wheel(dist, "fast", "1.0")
    build_wheel(dist, "fast", "1.0", label="mkl", document=DOCUMENT)
    plain, labelled = files = collect_files([dist]).files
    plain_path, labelled_path = attest(files, environ, instance)
    documents = [json.loads(path.read_bytes()) for path in (plain_path, labelled_path)]
    assert shape(documents[0]) == shape(documents[1])
    signed = [statement(sigstore, path.read_bytes()) for path in (plain_path, labelled_path)]
    assert signed[0] | {"subject": None} == signed[1] | {"subject": None}
    assert signed[1]["subject"] == [
        {"name": labelled.filename, "digest": {"sha256": labelled.sha256}}
    ]
    # The root of trust of this sigstore in place of the public one.
    trusting = SigningAuthority("owner/fast").trust(tmp_path / "cache")
    (root,) = (tmp_path / "cache").rglob("trusted_root.json")
    root.write_text(json.dumps(sigstore.configuration()["trustedRoot"]))
    name, sha256 = labelled.filename, labelled.sha256
    *holds, digest, label, no_label = verified(
        trusting,
        (plain_path, plain.filename, plain.sha256),
        (labelled_path, name, sha256),
        (labelled_path, name, "0" * 64),
        (labelled_path, name.replace("mkl", "open"), sha256),
        (plain_path, name, plain.sha256),
    )
    assert holds == ["holds", "holds"]
    assert "digest" in digest
    assert "it names" in label
    assert "it names" in no_label
    public = {"XDG_CACHE_HOME": str(tmp_path / "public")}
    (told,) = verified(public, (labelled_path, name, sha256))
    assert "is not valid" in told
    with pytest.raises(ValueError, match="build number"):  # the reason for a verifier of our own
        Distribution(name=name, digest=sha256)
    assert Attestation.model_validate(documents[1]).statement == signed[1]


def test_wheels_with_a_label_are_published_with_attestations(
    sigstore: Sigstore, instance: Path, tmp_path: Path
) -> None:
    """Every file that is sent is signed."""
    dist = tmp_path / "dist"
    build_wheel(dist, "fast", "1.0")
    build_wheel(dist, "fast", "1.0", label="mkl", document=DOCUMENT)
    environ = {"WHEELFIT_CACHE_DIR": str(tmp_path / "c"), "SIGSTORE_ID_TOKEN": sigstore.token()}
    request = PublishRequest(
        paths=(str(dist),), to=str(tmp_path / "site"), attest=True, sigstore=str(instance),
        ignore=("bad-attestation",),
    )  # fmt: skip
    report = publish(request, Context(environ))
    assert report.result is not None, report.checks
    assert [len(file.attestations) for file in report.outgoing.files] == [1, 1]


def test_what_cannot_be_signed_is_not_published(
    sigstore: Sigstore, instance: Path, tmp_path: Path
) -> None:
    """Without an identity, an authority or a configuration nothing is written."""
    build_wheel(tmp_path / "dist", "fast", "1.0")
    files = collect_files([tmp_path / "dist"]).files
    with pytest.raises(InvalidConfiguration, match="not for the audience 'sigstore'"):
        attest(files, {"SIGSTORE_ID_TOKEN": sigstore.token("wheels")}, instance)
    with pytest.raises((AttestationProblem, InvalidConfiguration)):
        attest(files, {"SIGSTORE_ID_TOKEN": "e30.eyJhdWQiOiJzaWdzdG9yZSJ9.x"}, instance)
    sigstore.is_down = True
    with pytest.raises(Unreachable, match="cannot be signed"):
        attest(files, {"SIGSTORE_ID_TOKEN": sigstore.token()}, instance)
    instance.write_text("{}")
    with pytest.raises(FileProblem, match="not a sigstore trust configuration"):
        attest(files, {"SIGSTORE_ID_TOKEN": sigstore.token()}, instance)
    assert [path.suffix for path in (tmp_path / "dist").iterdir()] == [".whl"]
