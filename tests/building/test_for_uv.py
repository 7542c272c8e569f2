"""What wheelfit makes keeps to what uv can use; uv itself is asked elsewhere."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from packaging.utils import canonicalize_name

from wheelfit.building.index_file import write_index_files
from wheelfit.building.variant_wheel import make_plain, repack_wheel
from wheelfit.core.core_metadata import read_metadata
from wheelfit.core.labels import parse_label
from wheelfit.core.metadata import read_document
from wheelfit.server.folder import FolderIndex
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.wheels.archive import WheelArchive

if TYPE_CHECKING:
    from pathlib import Path

VARIANTS = {
    "null": {},
    "cu12": {"nvidia": {"cuda_version_lower_bound": ["12"]}},
    "mkl": {"blas": {"library": ["mkl", "blis"], "threads": ["many"]}},
}
PROVIDERS = {
    "nvidia": {
        "requires": ["nvidia-variant-provider>=0.0.1,<1"],
        "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
    }
}
DOCUMENT = release_document(
    VARIANTS,
    static={"blas": {"threads": ["many"], "library": ["openblas", "mkl", "blis"]}},
    providers=PROVIDERS,
    namespaces=["nvidia", "blas"],
)
MARKED = ['only; "nvidia" in variant_namespaces', 'other; variant_label == ""', "always"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a release of three variants and a plain wheel, with its index file."""
    folder = tmp_path / "made"
    folder.mkdir()
    document = read_document(DOCUMENT, where="document")
    plain = build_wheel(tmp_path / "source", "Some.Fast-Thing", "1.0", requires=MARKED)
    for label in VARIANTS:
        made = repack_wheel(plain, folder, label=parse_label(label), document=document)
    make_plain(made, folder)
    write_index_files(folder)
    return folder


def documents(folder: Path) -> dict[str, dict[str, object]]:
    """Return the documents of all wheels and of the release, by file name."""
    found = {}
    for path in folder.iterdir():
        if path.suffix == ".json":
            found[path.name] = json.loads(path.read_bytes())
            continue
        with WheelArchive(path) as wheel:
            data = wheel.variant_document()
        if data is not None:
            found[path.name] = json.loads(data)
    return found


def test_documents(folder: Path) -> None:
    """F-150, F-152: current schema, no other keys, every provider, and orders, in each wheel."""
    found = documents(folder)
    assert len(found) == len(VARIANTS) + 1
    for document in found.values():
        assert sorted(document) == ["$schema", "default-priorities", "providers", "variants"]
        assert document["$schema"] == ("https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json")
        assert document["default-priorities"] == {"namespace": ["nvidia", "blas"]}
        assert document["providers"] == {
            "nvidia": PROVIDERS["nvidia"],
            "blas": {
                "static-properties": {
                    "threads": ["many"],
                    "library": ["openblas", "mkl", "blis"],
                },
                "feature-order": ["threads", "library"],
            },
        }


def test_index_file(folder: Path) -> None:
    """F-151: the normalised name, in the folder of the wheels and on their page, with its hash."""
    path = folder / "some_fast_thing-1.0-variants.json"
    assert path in folder.iterdir()
    page = FolderIndex(folder).project(canonicalize_name("some-fast-thing"))
    assert page is not None
    (entry,) = (file for file in page.files if file.filename == path.name)
    assert entry.hashes == {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert len(page.files) == len(VARIANTS) + 2


def test_plain_wheel(folder: Path) -> None:
    """F-154: the plain wheel is published without variant markers."""
    (path,) = (path for path in folder.glob("*.whl") if path.name.endswith("-any.whl"))
    with WheelArchive(path) as wheel:
        metadata = wheel.metadata()
    assert read_metadata(metadata, "METADATA").requires_texts == ("other", "always")
