"""Uploads from the form to the page: what is accepted, and the reasons for refusals."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from server.uploading import DOCUMENT, NOW, refused, upload

from wheelfit.server.messages import Request
from wheelfit.server.simple import SimpleIndex
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.opening import Store
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.server.store.tokens import open_stage
from wheelfit.server.uploads.accepting import AcceptedUpload
from wheelfit.testing.wheels import build_wheel

SOME = canonicalize_name("some")
JSON = "application/vnd.pypi.simple.v1+json"


def page(store: Store, stage: str = "") -> dict[str, dict[str, object]]:
    """Return the entries of the project page by file name."""
    index = SimpleIndex(StoredIndex(store, stage=stage))
    answer = index(Request("GET", "/simple/some/", {"accept": JSON}))
    if answer.status == 404:
        return {}
    return {file["filename"]: file for file in json.loads(b"".join(answer.body))["files"]}


def get(store: Store, filename: str) -> bytes:
    """Return the response to a request for a file."""
    answer = SimpleIndex(StoredIndex(store))(Request("GET", f"/files/{filename}"))
    assert answer.status == 200
    return b"".join(answer.body)


def test_release_with_variants(store: Store, tmp_path: Path) -> None:
    """F-70, F-71, F-72, F-74: page, wheels, metadata and document agree after every upload."""
    labels = (None, "null", "mkl", "open")
    for number, label in enumerate(labels):
        path = build_wheel(
            tmp_path, "some", "1.0", label=label, document=DOCUMENT if label else None,
            requires_python=">=3.9",
        )  # fmt: skip
        answer = upload(store, path)
        assert isinstance(answer, AcceptedUpload)
        assert (answer.filename, answer.project, answer.is_new) == (path.name, "some", True)
        files = page(store)
        assert len(files) == number + 1 + (number > 0)
        for name, entry in files.items():
            content = get(store, name)
            assert entry["hashes"] == {"sha256": hashlib.sha256(content).hexdigest()}
            assert entry["size"] == len(content)
            if name.endswith(".json"):
                assert set(json.loads(content)["variants"]) == set(labels[1 : number + 1])
                assert set(entry) == {"filename", "url", "hashes", "size"}
            else:
                metadata = get(store, f"{name}.metadata")
                digest = hashlib.sha256(metadata).hexdigest()
                assert entry["core-metadata"] == {"sha256": digest}
                assert entry["requires-python"] == ">=3.9"
                assert entry["upload-time"] == timestamp(NOW)


def test_repeated_upload(store: Store, tmp_path: Path) -> None:
    """The same file is accepted again; other bytes, other spelling or a deleted file are not."""
    path = build_wheel(tmp_path, "some", "1.0")
    upload(store, path)
    again = upload(store, path)
    assert isinstance(again, AcceptedUpload)
    assert not again.is_new
    other = build_wheel(tmp_path / "other", "some", "1.0", files={"some.py": "other"})
    assert refused(upload(store, other)) == {"name-taken"}
    store.records.delete([path.name], time=timestamp(NOW))
    assert page(store) == {}
    assert refused(upload(store, path)) == {"name-deleted"}
    assert refused(upload(store, other)) == {"name-deleted"}


def test_all_faults_together(store: Store, tmp_path: Path) -> None:
    """F-131: faults of the form, the file and the release are in one response."""
    upload(store, build_wheel(tmp_path, "some", "1.0", label="mkl", document=DOCUMENT))
    other = {**DOCUMENT, "variants": {"mkl": {"blas": {"library": ["openblas"]}}}}
    path = build_wheel(
        tmp_path / "other", "some", "1.0", label="mkl", document=other, tag="py3-none-amiga",
        requires_python=">=3.9",
    )  # fmt: skip
    changes = {
        "name": "thing",
        "version": "2.0",
        "requires_python": ">=3.12",
        "filetype": "sdist",
        "sha256_digest": "0" * 64,
        "md5_digest": "0" * 32,
        ":action": "submit",
    }
    answer = upload(store, path, changes=changes)
    assert refused(answer) == {
        "bad-form",
        "wrong-filetype",
        "hash-mismatch",
        "form-disagrees",
        "unknown-platform",
        "inconsistent-variants",
    }
    assert isinstance(answer, tuple)
    assert len([one for one in answer if one.reference == "form-disagrees"]) == 3
    assert len([one for one in answer if one.reference == "hash-mismatch"]) == 2
    assert len(page(store)) == 2
    assert len(list(store.blobs.all_blobs())) == 1


@pytest.mark.parametrize(
    ("changes", "reference"),
    [
        ({"sha256_digest": "", "blake2_256_digest": ""}, "no-digest"),
        ({"sha256_digest": "", "blake2_256_digest": "0" * 64}, "hash-mismatch"),
        ({"sha256_digest": "é\x00"}, "hash-mismatch"),
        ({"protocol_version": "2"}, "bad-form"),
        ({"filetype": "bdist_egg"}, "wrong-filetype"),
        ({"version": "1.0; rm"}, "form-disagrees"),
        ({"name": ""}, "form-disagrees"),
        ({"requires_python": "nonsense"}, "form-disagrees"),
        ({"attestations": "[]"}, "bad-attestation"),
        ({"attestations": "[{}]"}, "bad-attestation"),
        ({"attestations": "no json"}, "bad-attestation"),
    ],
)
def test_wrong_form_fields(
    opened: Callable[[], Store], tmp_path: Path, changes: dict[str, str], reference: str
) -> None:
    """The form has to agree with the file."""
    path = build_wheel(tmp_path, "some", "1.0")
    assert refused(upload(opened(), path, changes=changes)) == {reference}


def test_equivalent_form_fields(opened: Callable[[], Store], tmp_path: Path) -> None:
    """Names, versions and specifiers are compared by meaning."""
    path = build_wheel(tmp_path, "Some.Thing", "1.0", requires_python=">=3.9,<4")
    digest = hashlib.sha256(path.read_bytes()).hexdigest().upper()
    changes = {
        "name": "some_THING",
        "version": "v1.0.0",
        "requires_python": "<4, >=3.9",
        "sha256_digest": digest,
    }
    assert isinstance(upload(opened(), path, changes=changes), AcceptedUpload)


@pytest.mark.parametrize(
    "name",
    ["../../some-1.0-py3-none-any.whl", "some-1.0-py3-none-any.whl\x00", "con", "a/b.whl", "x"],
)
def test_hostile_names(opened: Callable[[], Store], tmp_path: Path, name: str) -> None:
    """An invalid name is refused whatever the file, and nothing is left."""
    store = opened()
    path = build_wheel(tmp_path, "some", "1.0")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert "invalid-filename" in refused(upload(store, path, filename=name))
    assert StoredIndex(store).projects() == ()
    assert {path for path in tmp_path.rglob("*") if path.is_file()} - before <= set(
        tmp_path.rglob("index.sqlite3*")
    )


def test_names_equal_except_for_case(opened: Callable[[], Store], tmp_path: Path) -> None:
    """Two wheels whose names differ only in case are not both accepted."""
    store = opened()
    upload(store, build_wheel(tmp_path, "some", "1.0"))
    other = build_wheel(tmp_path / "other", "some", "1.0", files={"some.py": "x"})
    renamed = other.rename(other.with_name("SOME-1.0-py3-none-any.whl"))
    assert refused(upload(store, renamed)) == {"name-collision", "dist-info-spelling"}


def test_uploaded_document(store: Store, tmp_path: Path) -> None:
    """F-74: the document of a release is accepted only if the wheels give the same."""
    upload(store, build_wheel(tmp_path, "some", "1.0", label="mkl", document=DOCUMENT))
    path = tmp_path / "some-1.0-variants.json"
    path.write_bytes(get(store, path.name))
    answer = upload(store, path)
    assert isinstance(answer, AcceptedUpload)
    assert not answer.is_new
    path.write_bytes(path.read_bytes().replace(b"mkl", b"kml"))
    assert refused(upload(store, path)) == {"differs-from-wheels"}
    path = tmp_path / "some-2.0-variants.json"
    path.write_bytes(b"{}")
    assert refused(upload(store, path)) == {"differs-from-wheels"}


def test_staged_release(store: Store, tmp_path: Path) -> None:
    """All variants of a release become visible together, or none."""
    stage, _ = open_stage(store.records, "ann", now=NOW, lifetime=timedelta(days=1))
    for label in ("mkl", "open"):
        path = build_wheel(tmp_path, "some", "1.0", label=label, document=DOCUMENT)
        assert isinstance(upload(store, path, stage=stage.id, uploader="ann"), AcceptedUpload)
        assert page(store) == {}
    assert len(page(store, stage.id)) == 3
    store.records.publish(stage.id, time=timestamp(NOW + timedelta(hours=1)))
    files = page(store)
    assert len(files) == 3
    assert set(json.loads(get(store, "some-1.0-variants.json"))["variants"]) == {"mkl", "open"}
    assert refused(upload(store, path, stage=stage.id)) == {"no-such-stage", "name-taken"}


def test_yanked_file(opened: Callable[[], Store], tmp_path: Path) -> None:
    """F-72: a yanked file is listed as yanked, and the document is unchanged."""
    store = opened()
    path = build_wheel(tmp_path, "some", "1.0", label="mkl", document=DOCUMENT)
    upload(store, path)
    store.records.yank([path.name], "broken <b>")
    files = page(store)
    assert files[path.name]["yanked"] == "broken <b>"
    assert "yanked" not in files["some-1.0-variants.json"]


def test_warnings(opened: Callable[[], Store], tmp_path: Path) -> None:
    """A likely mistake that is allowed is a warning in the response."""
    path = build_wheel(tmp_path, "some", "1.0", metadata_extra=[("License-File", "LICENSE")])
    answer = upload(opened(), path)
    assert isinstance(answer, AcceptedUpload)
    assert answer.warnings
    assert replace(answer, warnings=()).is_new
