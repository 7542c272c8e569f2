"""Wheels of old layouts, written anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wheelfit.core.metadata import read_document
from wheelfit.errors import InvalidFilename
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.conversion import convert_wheel, rename_null_variant
from wheelfit_runtime.errors import InvalidDocument, InvalidWheel

OLD: dict[str, Any] = {
    "$schema": "https://variants-schema.wheelnext.dev/v0.0.3.json",
    "default-priorities": {"namespace": ["blas"]},
    "providers": {"blas": {"install-time": False}},
    "static-properties": {"blas": {"library": ["openblas", "mkl"]}},
    "variants": {"00000000": {}, "mkl": {"blas": {"library": ["mkl"]}}},
}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Make a folder for results."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(("label", "new"), [("mkl", "mkl"), ("00000000", "null")])
def test_old(tmp_path: Path, out: Path, label: str, new: str) -> None:
    """F-53, F-56: the document is current, and the null variant has its name of today."""
    wheel = build_wheel(tmp_path, "fast", "1.0", label=label, document=OLD)
    converted = convert_wheel(wheel, out)
    assert converted.path.name == f"fast-1.0-py3-none-any-{new}.whl"
    assert (converted.layout, converted.is_new, converted.lost) == ("L3", True, ())
    with WheelArchive(converted.path) as archive:
        archive.verify()
        document = json.loads(archive.variant_document() or b"")
    assert "peps/850" in document["$schema"]
    assert list(document["variants"]) == [new]
    again = convert_wheel(converted.path, out)
    assert (again.path, again.is_new) == (converted.path, False)


def test_losses(tmp_path: Path, out: Path) -> None:
    """F-56: what cannot be said goes with consent only, and is told."""
    lossy = {
        **OLD,
        "default-priorities": {"namespace": ["n"], "feature": {"n": ["f"]}},
        "providers": {"n": {"requires": ["p"]}},
        "static-properties": {},
        "variants": {"x": {"n": {"f": ["1"]}}},
    }
    wheel = build_wheel(tmp_path, "fast", "1.0", label="x", document=lossy)
    with pytest.raises(InvalidDocument) as excinfo:
        convert_wheel(wheel, out)
    assert {fault.rule for fault in excinfo.value.faults} == {"F-56"}
    assert list(out.iterdir()) == []
    assert len(convert_wheel(wheel, out, accept_losses=True).lost) == 1


def test_what_cannot_be_converted(tmp_path: Path, out: Path) -> None:
    """F-132: a plain wheel has no layout; what says nothing useful, or may not be, is left."""
    with pytest.raises(InvalidFilename):
        convert_wheel(build_wheel(tmp_path, "fast", "1.0"), out)
    wheel = build_wheel(tmp_path, "fast", "1.0", label="mkl", document=b"{")
    with pytest.raises(InvalidWheel):
        convert_wheel(wheel, out)
    broken = {**OLD, "variants": {"con": {"blas": {"library": ["mkl"]}}}}
    wheel = build_wheel(tmp_path, "fast", "1.0", label="con", document=broken)
    with pytest.raises(InvalidDocument) as excinfo:
        convert_wheel(wheel, out)
    assert excinfo.value.where == str(wheel)
    assert list(out.iterdir()) == []


def test_null_with_properties() -> None:
    """F-53: what is called as the null variant once was, but has properties, keeps its label."""
    content = release_document(
        {"00000000": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
    )
    document = read_document(content, where="document")
    assert rename_null_variant(document) is document
