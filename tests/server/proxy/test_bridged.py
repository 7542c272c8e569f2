"""Families of distributions for installers without variant support."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from server.proxy.behind import PIP, UV, Behind, body

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel
from wheelfit.wheels.archive import WheelArchive

CUDA_12 = {"nvidia": {"cuda_version_lower_bound": ["12.8", "12.6", "12.0", "11.8"]}}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingIndex]:
    """Serve members of some families."""
    folder = tmp_path_factory.mktemp("wheels")
    build_wheel(folder, "cupy-cuda12x", "14.2.0")
    build_wheel(folder, "cupy-cuda13x", "14.2.0")
    for version in ("1.26.0", "1.32.0"):
        build_wheel(folder, "onnxruntime", version)
    (folder / "onnxruntime-1.32.0.tar.gz").write_bytes(b"")
    build_wheel(folder, "onnxruntime-gpu", "1.26.0")
    build_wheel(folder, "xgboost", "3.3.0")
    build_wheel(folder, "xgboost-cpu", "3.3.0")
    with RecordingIndex(folder) as served:
        yield served


@pytest.fixture
def behind(index: RecordingIndex) -> Iterator[Behind]:
    """Return a proxy for a machine with CUDA 12."""
    with Behind(index.url, supported=CUDA_12, bridges=["xgboost"]) as proxy:
        yield proxy


def test_selector(behind: Behind, tmp_path: Path) -> None:
    """A selector is listed with a build tag and its hash, and is a valid wheel."""
    files = behind.page("cupy", UV)
    assert list(files) == ["cupy-14.2.0-0_cuda12-py3-none-any.whl"]
    (file,) = files.values()
    path = tmp_path / file["filename"]
    path.write_bytes(body(behind.ask(behind.path_of(file), UV)))
    with WheelArchive(path, parse_wheel_filename(path.name)) as wheel:
        assert b"Requires-Dist: cupy-cuda12x[ctk]==14.2.0" in wheel.metadata()


def test_no_fitting_member(index: RecordingIndex) -> None:
    """Without a fitting member the project is missing, and the log has the reason."""
    with Behind(index.url, bridges=[]) as proxy:
        assert not proxy.page("cupy", UV)
        (note,) = proxy.notes
        assert note.startswith("cupy: CuPy needs an NVIDIA GPU with a driver for CUDA 11.2")


def test_member_with_the_name_of_the_family(behind: Behind) -> None:
    """A labelled wheel of the publisher keeps its hash and its URL."""
    files = behind.page("xgboost", UV)
    file = files["xgboost-3.3.0-0_cuda12-py3-none-any.whl"]
    answer = behind.ask(behind.path_of(file), UV)
    assert answer.status == 302
    assert answer.headers["location"].endswith("/xgboost-3.3.0-py3-none-any.whl")


def test_newer_release_without_an_accelerator(behind: Behind) -> None:
    """A newer release without the accelerator is yanked."""
    files = behind.page("onnxruntime", UV)
    assert (
        files["onnxruntime-1.26.0-0_cuda12_cudnn9.10-py3-none-any.whl"].get("yanked", False)
        is False
    )
    for name in ("onnxruntime-1.32.0-py3-none-any.whl", "onnxruntime-1.32.0.tar.gz"):
        assert "the bridge has builds for this machine up to 1.26.0 only" in files[name]["yanked"]


def test_note_about_pip(index: RecordingIndex) -> None:
    """A note says that pip combines indexes and ignores the yank."""
    for mode, tool, count in (("additive", PIP, 1), ("additive", UV, 0), ("full", PIP, 0)):
        with Behind(index.url, supported=CUDA_12, bridges=[], mode=mode) as behind:
            behind.page("onnxruntime", tool)
            assert sum("with --full it takes 1.26.0" in note for note in behind.notes) == count


def test_no_gpu(index: RecordingIndex) -> None:
    """Without a GPU no release is yanked."""
    with Behind(index.url, bridges=()) as behind:
        files = behind.page("onnxruntime", UV)
        assert files["onnxruntime-1.32.0-py3-none-any.whl"].get("yanked", False) is False
        assert behind.ask("/simple/faiss/", UV).status == 404


def test_catalogue_without_families(index: RecordingIndex) -> None:
    """A catalogue has no family whose dependencies differ by member."""
    with Behind(index.url, supported=CUDA_12, bridges=[], all_variants=True, mode="full") as behind:
        assert behind.page("cupy", UV) == {}
        assert all("-0_" not in name for name in behind.page("onnxruntime", UV))
        assert len(behind.page("onnxruntime", UV)) == 3
        assert any("depend on the variant" in note for note in behind.notes)
