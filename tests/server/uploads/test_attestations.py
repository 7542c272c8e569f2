"""Attestations of uploads (PEP 740): real files with real signatures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from server.signed import signed_files
from server.uploading import refused, upload

from wheelfit.operations.context import Context
from wheelfit.operations.import_index import ImportIndexRequest, import_live_index
from wheelfit.server.simple import SimpleIndex
from wheelfit.server.store.opening import Store, open_store
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.server.uploads.accepting import AcceptedUpload
from wheelfit.sources.attestations import verify_provenance
from wheelfit.testing.index import RecordingIndex

pytestmark = [pytest.mark.network]

GITHUB = "pypi_attestations-0.0.19.tar.gz"
GITLAB = "gitlab_oidc_project-0.0.3.tar.gz"
CIRCLECI = "circleci_sign_publish_example-0.0.1.dev137-py3-none-any.whl"


@pytest.fixture(scope="session")
def assets(registry: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of signed files."""
    del registry
    return signed_files(tmp_path_factory.mktemp("signed"))


def attested(assets: Path, *names: str) -> dict[str, str]:
    """Return the form field with the attestations of these files."""
    texts = [(assets / f"{name}.publish.attestation").read_text() for name in names]
    return {"attestations": f"[{','.join(texts)}]"}


@pytest.mark.parametrize(
    ("name", "signer"),
    [
        (GITHUB, "github:trailofbits/pypi-attestations"),
        (GITLAB, "gitlab:facutuesca/gitlab-oidc-project"),
    ],
)
def test_valid_attestations(
    opened: Callable[[], Store], assets: Path, name: str, signer: str
) -> None:
    """A file with valid attestations has a provenance that names the signer."""
    store = opened()
    assert isinstance(upload(store, assets / name, changes=attested(assets, name)), AcceptedUpload)
    index = StoredIndex(store)
    content = index.content(f"{name}.provenance")
    file = index.content(name)
    assert content is not None
    assert file is not None
    assert file.sha256 is not None
    provenance = b"".join(content.parts(0, content.size))
    assert verify_provenance(provenance, name, file.sha256) == (signer,)
    (project,) = index.projects()
    page = index.project(project)
    assert page is not None
    assert page.files[0].provenance == f"../../files/{name}.provenance"


def test_invalid_attestations(opened: Callable[[], Store], assets: Path) -> None:
    """Attestations of another file, altered ones, and unknown signers refuse the file."""
    store = opened()
    true = attested(assets, GITLAB)["attestations"]
    for field in (
        attested(assets, GITHUB)["attestations"],
        attested(assets, GITLAB, GITHUB)["attestations"],
        true.replace('"signature":"M', '"signature":"N').replace(
            '"signature": "M', '"signature": "N'
        ),
        "[" * 100_000,
    ):
        assert field != true
        answer = upload(store, assets / GITLAB, changes={"attestations": field})
        assert refused(answer) == {"bad-attestation"}
    answer = upload(store, assets / CIRCLECI, changes=attested(assets, CIRCLECI))
    assert "bad-attestation" in refused(answer)
    assert StoredIndex(store).projects() == ()


def test_import(opened: Callable[[], Store], assets: Path, tmp_path: Path) -> None:
    """An import from another index verifies its provenance, and serves it."""
    store = opened()
    assert isinstance(
        upload(store, assets / GITHUB, changes=attested(assets, GITHUB)), AcceptedUpload
    )
    with RecordingIndex(SimpleIndex(StoredIndex(store))) as index:
        request = ImportIndexRequest(source=index.url, at=str(tmp_path / "new"))
        report = import_live_index(request, Context(environ={}))
    assert report.to_json()["added"] == 1
    with open_store(tmp_path / "new") as new:
        assert new.records.provenance(GITHUB) == store.records.provenance(GITHUB) is not None
