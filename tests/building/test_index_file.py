"""Index files made of the wheels of a folder."""

from __future__ import annotations

import json
import time
import zipfile
from typing import TYPE_CHECKING

import pytest

from wheelfit.building.index_file import read_wheel_document, write_index_files
from wheelfit.core.metadata import check_document
from wheelfit.errors import InconsistentDocuments
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import FileProblem, InvalidWheel

if TYPE_CHECKING:
    from pathlib import Path

STATIC = {"blas": {"library": ["openblas", "mkl"]}}
DOCUMENT = release_document(
    {
        "null": {},
        "mkl": {"blas": {"library": ["mkl"]}},
        "open": {"blas": {"library": ["openblas"]}},
    },
    static=STATIC,
)


def test_one_release(tmp_path: Path) -> None:
    """B-50, F-70: all labels of a release in one file, its name spelled as wheels are."""
    build_wheel(tmp_path, "Fast-FFT", "2.1")
    for label in ("null", "mkl", "open"):
        build_wheel(tmp_path, "Fast-FFT", "2.1", label=label, document=DOCUMENT)
    (path,) = write_index_files(tmp_path)
    assert path.name == "fast_fft-2.1-variants.json"
    assert json.loads(path.read_bytes()) == DOCUMENT
    assert not check_document(path.read_bytes())


def test_several_releases(tmp_path: Path) -> None:
    """B-50: one file for each name and value of the version; none without variants."""
    build_wheel(tmp_path, "some", "1.0", label="mkl", document=DOCUMENT)
    second = build_wheel(tmp_path / "x", "some", "1.0", label="open", document=DOCUMENT)
    second.rename(tmp_path / "some-1.0.0-py3-none-any-open.whl")
    build_wheel(tmp_path, "some", "2", label="mkl", document=DOCUMENT)
    build_wheel(tmp_path, "other", "1", label="null", document=DOCUMENT)
    build_wheel(tmp_path, "plain", "1")
    (tmp_path / "notes.whl").touch()
    paths = write_index_files(tmp_path)
    assert [path.name for path in paths] == [
        "other-1-variants.json",
        "some-1.0-variants.json",
        "some-2-variants.json",
    ]
    assert set(json.loads(paths[1].read_bytes())["variants"]) == {"mkl", "open"}


def test_again(tmp_path: Path) -> None:
    """B-39: equal wheels give equal bytes; what is right already is not touched."""
    build_wheel(tmp_path, "some", "1.0", label="mkl", document=DOCUMENT)
    (path,) = write_index_files(tmp_path)
    before = path.stat().st_mtime_ns
    time.sleep(0.02)
    assert write_index_files(tmp_path) == (path,)
    assert path.stat().st_mtime_ns == before


def test_conflict(tmp_path: Path) -> None:
    """F-65: a conflict names both wheels, and no file is written, not even of other releases."""
    build_wheel(tmp_path, "some", "1.0", label="mkl", document=DOCUMENT)
    other = release_document({"open": {"blas": {"library": ["openblas"]}}}, static=STATIC)
    other["default-priorities"] = {"namespace": ["blas"]}
    other["providers"] = {"blas": {"static-properties": {"library": ["openblas"]}}}
    build_wheel(tmp_path, "some", "1.0", label="open", document=other)
    build_wheel(tmp_path, "good", "1.0", label="mkl", document=DOCUMENT)
    with pytest.raises(InconsistentDocuments) as excinfo:
        write_index_files(tmp_path)
    shown = f"{excinfo.value} {excinfo.value.note}"
    assert "some-1.0-py3-none-any-mkl.whl" in shown
    assert "some-1.0-py3-none-any-open.whl" in shown
    assert not list(tmp_path.glob("*.json"))


def test_several_conflicts(tmp_path: Path) -> None:
    """F-65: conflicts of several releases are told together."""
    other = release_document({"mkl": {"blas": {"library": ["openblas"]}}}, static=STATIC)
    for name in ("a", "b"):
        build_wheel(tmp_path, name, "1", label="mkl", document=DOCUMENT)
        build_wheel(tmp_path, name, "1", label="mkl", document=other, tag="py3-none-win32")
    with pytest.raises(InconsistentDocuments) as excinfo:
        write_index_files(tmp_path)
    assert "b-1-py3" in (excinfo.value.note or "")


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"{", "cannot be used"),
        (json.dumps(DOCUMENT).encode(), "describes"),
        (json.dumps({**DOCUMENT, "variants": {"mkl": 1}}).encode(), "unusable"),
        (json.dumps({**DOCUMENT, "variants": {}}).encode(), "does not describe its label"),
    ],
)
def test_bad_documents(tmp_path: Path, document: bytes, reason: str) -> None:
    """F-24, F-65: a wheel whose document is not about its label stops everything."""
    path = build_wheel(tmp_path, "some", "1.0", label="mkl", document=document)
    with pytest.raises(InvalidWheel, match=reason) as excinfo:
        write_index_files(tmp_path)
    assert excinfo.value.where == str(path)
    assert not list(tmp_path.glob("*.json"))


def test_plain_wheels_have_no_document(tmp_path: Path) -> None:
    """F-10: a plain wheel is none of the variants, whatever it contains."""
    path = build_wheel(tmp_path, "some", "1.0", document=DOCUMENT)
    with pytest.raises(InvalidWheel, match="not a variant wheel"):
        read_wheel_document(path)
    assert write_index_files(tmp_path) == ()


def test_no_folder(tmp_path: Path) -> None:
    """A folder that is not there is an error of the user."""
    with pytest.raises(FileProblem):
        write_index_files(tmp_path / "nowhere")


def test_an_index_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index file of an earlier run is compared; a fault of the disk is told with its path."""
    build_wheel(tmp_path, "some", "1.0", label="mkl", document=DOCUMENT)
    (path,) = write_index_files(tmp_path)

    def fail(_path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", fail)
    with pytest.raises(FileProblem, match="the index file cannot be read") as excinfo:
        write_index_files(tmp_path)
    assert excinfo.value.where == str(path)


def test_little_is_read(tmp_path: Path) -> None:
    """B-51: damage to a member that is not needed goes unnoticed, since nobody reads it."""
    content = bytes(range(256)) * 64
    path = build_wheel(
        tmp_path, "some", "1.0", label="mkl", document=DOCUMENT, files={"some/data.bin": content}
    )
    (good,) = write_index_files(tmp_path)
    before = good.read_bytes()
    good.unlink()
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("some/data.bin")
    start = info.header_offset + 30 + len(info.filename)
    data[start : start + info.compress_size] = bytes(info.compress_size)
    path.write_bytes(data)
    with WheelArchive(path) as wheel, pytest.raises(InvalidWheel):
        wheel.read("some/data.bin")
    (again,) = write_index_files(tmp_path)
    assert again.read_bytes() == before


def test_one_more_wheel(tmp_path: Path) -> None:
    """B-50: a wheel that comes later is added; one that contradicts leaves the file alone."""
    build_wheel(tmp_path, "some", "1.0", label="mkl", document=DOCUMENT)
    (path,) = write_index_files(tmp_path)
    assert set(json.loads(path.read_bytes())["variants"]) == {"mkl"}
    build_wheel(tmp_path, "some", "1.0", label="open", document=DOCUMENT)
    assert write_index_files(tmp_path) == (path,)
    after = path.read_bytes()
    assert set(json.loads(after)["variants"]) == {"mkl", "open"}
    other = release_document({"mkl": {"blas": {"library": ["openblas"]}}}, static=STATIC)
    build_wheel(tmp_path, "some", "1.0", label="mkl", document=other, tag="py3-none-win32")
    with pytest.raises(InconsistentDocuments):
        write_index_files(tmp_path)
    assert path.read_bytes() == after
