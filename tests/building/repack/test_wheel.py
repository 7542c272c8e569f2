"""Wheels that are repacked."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.building.repack.edits import NO_EDITS, Edits
from wheelfit.building.variant_wheel import repack_wheel
from wheelfit.core.core_metadata import read_metadata
from wheelfit.core.labels import parse_label
from wheelfit.core.metadata import read_document
from wheelfit.errors import InvalidFilename
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.rewrite import RewriteOptions
from wheelfit_runtime.errors import FileProblem, InvalidWheel

MKL = parse_label("mkl")
DOCUMENT = read_document(
    release_document(
        {"mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["openblas", "mkl"]}}
    ),
    where="document",
)
RENAME = Edits(name="fast", strip_local=True)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Build a wheel whose name and version are in all its folders."""
    return build_wheel(
        tmp_path / "in",
        "Fast-cu12",
        "1.0+cu126",
        files={
            "fast_cu12/__init__.py": "",
            "fast_cu12/Fast-cu12-1.0.txt": "not a folder",
            "Fast_cu12-1.0+cu126.data/scripts/fast": "#!python\n",
            "fast_cu12-1.0+cu126.data/data/etc/ünd, more.txt": "",
            "other-1.0+cu126.data/scripts/x": "#!python\n",
        },
        requires=["numpy", "nvidia-cublas-cu12"],
    )


def test_renamed(wheel: Path, output: Path) -> None:
    """B-43: file, dist-info, data, METADATA and RECORD are renamed, top-level packages never."""
    path = repack_wheel(wheel, output, RENAME)
    assert path.name == "fast-1.0-py3-none-any.whl"
    with WheelArchive(path) as archive:
        archive.verify()
        assert set(archive.names()) == {
            "fast_cu12/__init__.py",
            "fast_cu12/Fast-cu12-1.0.txt",
            "fast-1.0.data/scripts/fast",
            "fast-1.0.data/data/etc/ünd, more.txt",
            "other-1.0+cu126.data/scripts/x",
            "fast-1.0.dist-info/METADATA",
            "fast-1.0.dist-info/WHEEL",
            "fast-1.0.dist-info/RECORD",
        }
        core = read_metadata(archive.metadata(), "wheel")
    assert (core.name, core.version) == ("fast", Version("1.0"))
    assert (
        repack_wheel(wheel, output, RENAME, options=RewriteOptions(overwrite=True)).read_bytes()
        == path.read_bytes()
    )


def test_packed_bytes(wheel: Path, output: Path) -> None:
    """B-30: members in renamed folders keep their packed bytes, times and modes."""
    path = repack_wheel(wheel, output, RENAME)
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(path) as after:
        old = before.getinfo("Fast_cu12-1.0+cu126.data/scripts/fast")
        new = after.getinfo("fast-1.0.data/scripts/fast")
        for name in ("compress_type", "date_time", "external_attr", "CRC", "compress_size"):
            assert getattr(old, name) == getattr(new, name)
        assert after.read(new) == before.read(old)


def test_with_a_variant(wheel: Path, output: Path) -> None:
    """B-42: renamed, edited and made a variant in one step; a variant keeps its label otherwise."""
    edits = Edits(
        name="fast",
        strip_local=True,
        remove=frozenset({canonicalize_name("nvidia-cublas-cu12")}),
        add=('mkl; "blas :: library :: mkl" in variant_properties',),
    )
    path = repack_wheel(wheel, output, edits, label=MKL, document=DOCUMENT)
    assert path.name == "fast-1.0-py3-none-any-mkl.whl"
    again = repack_wheel(path, output, Edits(version=Version("2")))
    assert again.name == "fast-2-py3-none-any-mkl.whl"
    with WheelArchive(again) as archive:
        archive.verify()
        assert b'"blas :: library :: mkl" in variant_properties' in archive.metadata()
        assert b"nvidia" not in archive.metadata()
    resolved = repack_wheel(
        again, output, NO_EDITS, resolve_markers=True, options=RewriteOptions(overwrite=True)
    )
    with WheelArchive(resolved) as archive:
        assert b"Requires-Dist: mkl\n" in archive.metadata()


def test_nothing_to_do(wheel: Path, output: Path) -> None:
    """B-39: without edits the result has the same members with the same bytes."""
    path = repack_wheel(wheel, output, NO_EDITS)
    with WheelArchive(path) as after, WheelArchive(wheel) as before:
        assert path.name == wheel.name
        assert sorted(after.names()) == sorted(before.names())
        assert after.metadata() == before.metadata()


def test_in_place(wheel: Path) -> None:
    """B-31: a wheel can be edited where it lies, and the old one stays if the name is another."""
    before = wheel.read_bytes()
    assert repack_wheel(wheel, wheel.parent, Edits(add=("a",))) == wheel
    assert wheel.read_bytes() != before
    assert repack_wheel(wheel, wheel.parent, RENAME) != wheel
    assert wheel.exists()
    with pytest.raises(FileProblem, match="exists"):
        repack_wheel(wheel, wheel.parent, RENAME)


def test_names_that_fall_together(tmp_path: Path, output: Path) -> None:
    """B-34: a folder that would get the name of another one stops it, and nothing is written."""
    files = {"a_cu12-1.data/data/x": "", "a-1.data/data/x": ""}
    path = build_wheel(tmp_path, "a-cu12", "1", files=files)
    with pytest.raises(InvalidWheel):
        repack_wheel(path, output, Edits(name="a"))
    assert list(output.iterdir()) == []


def test_long_names(wheel: Path, output: Path) -> None:
    """F-3: a name that no file can have is refused."""
    with pytest.raises(InvalidFilename, match="bytes"):
        repack_wheel(wheel, output, Edits(name="x" * 250))
    assert list(output.iterdir()) == []


def test_label_without_document(wheel: Path, output: Path) -> None:
    """F-24: a label needs a document."""
    with pytest.raises(ValueError, match="together"):
        repack_wheel(wheel, output, NO_EDITS, label=MKL)


def test_other_tools_install_the_result(output: Path, tmp_path: Path) -> None:
    """B-43: PyPA's installer takes what was renamed, every row of RECORD validated."""
    files = {"fast.py": "", "fast_cu12-1.0+cu126.data/data/etc/x": "1"}
    wheel = build_wheel(tmp_path, "fast-cu12", "1.0+cu126", files=files)
    path = repack_wheel(wheel, output, RENAME)
    root = tmp_path / "root"
    command = [sys.executable, "-m", "installer", "--validate-record", "all"]
    subprocess.run([*command, "--destdir", root, path], check=True, capture_output=True)
    assert [found.read_text() for found in root.rglob("etc/x")] == ["1"]
    assert list(root.rglob("fast-1.0.dist-info/RECORD"))
