"""``wheelfit download``: a folder of wheels that gives the same builds."""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import build_release, build_wheel, release_document

DOCUMENT = release_document(
    {
        "gpu": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}},
        "mkl": {"blas": {"library": ["mkl"]}},
        "open": {"blas": {"library": ["openblas"]}},
    },
    static={"blas": {"library": ["openblas", "mkl"]}},
    providers={"nvidia": NVIDIA},
    namespaces=["nvidia", "blas"],
)
OPEN, GPU = "fast-2.0-py3-none-any-open.whl", "fast-2.0-py3-none-any-gpu.whl"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a project with variants and a plain dependency, and one for each platform."""
    place = tmp_path / "index"
    build_release(place, "fast", "2.0", DOCUMENT, ("gpu", "mkl", "open"), requires=["small"])
    build_wheel(place, "small", "1.0")
    for tag in ("cp312-cp312-macosx_11_0_arm64", "cp311-cp311-manylinux_2_17_x86_64"):
        build_wheel(place, "native", "1.0", tag=tag)
    with RecordingIndex(place) as server:
        yield server


def names(folder: Path) -> list[str]:
    """Return the names of all files in a folder, including hidden ones."""
    return sorted(path.name for path in folder.iterdir())


def test_install_from_the_folder(
    run: Runner, index: RecordingIndex, environment: Callable[[], Path], tmp_path: Path
) -> None:
    """The variants document is included, so builds are chosen from the folder."""
    out = tmp_path / "new" / "out"
    words = ["--for", "cuda-12.8-sm90", "--for", "linux-x86_64"]
    result = run("download", "-i", index.url, "-d", out, *words, "fast")
    assert "fast 2.0 (gpu)" in result.out
    assert "fast 2.0 (open)" in result.out
    files = sorted([OPEN, GPU, "fast-2.0-variants.json", "small-1.0-py3-none-any.whl"])
    assert names(out) == files
    python = environment()
    folder: list[str | Path] = ["--no-index", "--find-links", out, "--no-cache-dir"]
    run("install", "--python", python, *folder, "fast")
    assert run.labels("--python", python) == {"fast": "open", "small": None}
    words = ["--for", "cuda-12.8-sm90", "--json"]
    (project,) = run("explain", "--python", python, *folder, *words, "fast").object["projects"]
    assert project["chosen"]["filename"] == GPU
    again = run("download", "-i", index.url, "-d", out, "fast")
    assert "wrote 0 files" in again.out
    assert "  downloaded small-1.0-py3-none-any.whl" in result.err
    assert "  copied small-1.0-py3-none-any.whl" in again.err  # from the cache
    assert "downloaded" not in again.err
    assert names(out) == files


def test_other_platforms_and_pythons(run: Runner, index: RecordingIndex, tmp_path: Path) -> None:
    """Each platform and Python gets its wheel; a missing one is an error."""
    words = ["-i", index.url, "-d", "out", "native"]
    run("download", *words, "--platform", "macos-arm64", "--python-version", "3.12")
    run("download", *words, "--platform", "linux-x86_64", "--python-version", "3.11")
    assert names(tmp_path / "out") == [
        "native-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
        "native-1.0-cp312-cp312-macosx_11_0_arm64.whl",
    ]
    run("download", *words, "--platform", "windows-x86_64", code=3)
    assert len(names(tmp_path / "out")) == 2


def test_no_dependencies_and_dry_run(run: Runner, index: RecordingIndex, tmp_path: Path) -> None:
    """With ``--no-deps`` only named projects are fetched; a dry run fetches nothing."""
    words = ["-i", index.url, "-d", "out", "--label", "fast=mkl", "fast", "--json"]
    report = run("download", "--dry-run", *words).object
    (target,) = report["targets"]
    assert {package["name"] for package in target["packages"]} == {"fast", "small"}
    assert report["files"] == []
    assert not (tmp_path / "out").exists()
    report = run("download", "--no-deps", *words).object
    assert [file["filename"] for file in report["files"]] == [
        "fast-2.0-py3-none-any-mkl.whl",
        "fast-2.0-variants.json",
    ]
    run("download", "-i", index.url, "-d", "out", "--no-deps", "fast==99", code=3)


def test_wheels_beside_a_rejected_one(run: Runner, index: RecordingIndex, tmp_path: Path) -> None:
    """F-93: after a wheel was rejected, the others are not fetched again, even without a cache."""
    place = tmp_path / "index"
    other = {**DOCUMENT, "variants": {"open": {"blas": {"library": ["mkl"]}}}}
    build_wheel(place, "fast", "2.0", label="open", document=other, requires=["small"])
    run("download", "-i", index.url, "--no-cache-dir", "-d", "out", "fast")
    mkl, small = "fast-2.0-py3-none-any-mkl.whl", "small-1.0-py3-none-any.whl"
    assert names(tmp_path / "out") == sorted([mkl, "fast-2.0-variants.json", small])
    fetched = [request.path for request in index.requests if request.path.endswith(".whl")]
    assert sorted(fetched) == sorted(f"/files/{name}" for name in (OPEN, mkl, small))


def test_dependencies_of_rejected_wheels(
    run: Runner, index: RecordingIndex, tmp_path: Path
) -> None:
    """F-93: what only a wheel needs that contradicts its metadata is not in the folder."""
    place = tmp_path / "index"
    build_release(place, "swapped", "2.0", DOCUMENT, ("open",), requires=["small"])
    other = {**DOCUMENT, "variants": {"open": {"blas": {"library": ["mkl"]}}}}
    build_wheel(place, "swapped", "2.0", label="open", document=other, requires=["small"])
    build_wheel(place, "swapped", "1.0")
    run("download", "-i", index.url, "-d", "out", "swapped")
    assert names(tmp_path / "out") == ["swapped-1.0-py3-none-any.whl"]


def test_failed_download(run: Runner, index: RecordingIndex, tmp_path: Path) -> None:
    """After a wrong hash or a missing file the folder is unchanged."""
    index.faults.wrong_hash.add("small-1.0-py3-none-any.whl")
    words = ["-i", index.url, "-d", "out", "--no-cache-dir"]
    run("download", *words, "fast", code=4)
    assert not (tmp_path / "out").exists()
    index.faults.wrong_hash.clear()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "small-1.0-py3-none-any.whl").write_text("mine")
    error = run("download", *words, "fast", "--json", code=1).error
    assert error["message"] == "another file of this name exists"
    assert names(tmp_path / "out") == ["small-1.0-py3-none-any.whl"]
    assert (tmp_path / "out" / "small-1.0-py3-none-any.whl").read_text() == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are others there")
@pytest.mark.parametrize("words", [[], ["--no-cache-dir"]])
def test_others_may_read_the_files(
    run: Runner, index: RecordingIndex, tmp_path: Path, words: list[str]
) -> None:
    """The files have the usual permissions, whether the cache keeps them or not (as in pip)."""
    run("download", "-i", index.url, "-d", "out", *words, "small")
    (tmp_path / "usual").touch()
    usual = (tmp_path / "usual").stat().st_mode
    assert {path.stat().st_mode for path in (tmp_path / "out").iterdir()} == {usual}


def test_files_are_copies(run: Runner, index: RecordingIndex, tmp_path: Path) -> None:
    """Later changes in the folder do not affect the cache."""
    for folder in ("one", "two"):
        run("download", "-i", index.url, "-d", folder, "small")
        path = tmp_path / folder / "small-1.0-py3-none-any.whl"
        assert path.stat().st_nlink == 1
        path.write_bytes(b"changed")
    run("download", "-i", index.url, "-d", "three", "small")
    assert (tmp_path / "three" / "small-1.0-py3-none-any.whl").read_bytes() != b"changed"


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ((), 2, "no requirements were given"),
        (("--platform", "beos", "small"), 2, "is not a platform"),
        (("--python-version", "3.99", "small"), 2, "unknown Python version 3.99"),
        (("--platform", "linux-x86_64", "--for", "linux-x86_64", "small"), 2, "name two machines"),
        (("--for", "no-such-machine", "small"), 1, "no-such-machine"),
        (("-d", "file", "small"), 1, "the folder cannot be created"),
        (("./project",), 1, "only packages of indexes"),
    ],
)
def test_wrong_input(
    run: Runner, index: RecordingIndex, tmp_path: Path, words: tuple[str, ...], code: int, part: str
) -> None:
    """Invalid arguments are errors, and no folder is made."""
    (tmp_path / "file").write_text("")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "pyproject.toml").write_text("[project]\nname='x'\nversion='1'\n")
    where = () if "-d" in words else ("-d", "out")
    error = run("download", "-i", index.url, *where, *words, "--json", code=code).error
    assert part in error["message"]
    assert not (tmp_path / "out").exists()


def test_source_distribution(run: Runner, tmp_path: Path) -> None:
    """With consent a source distribution is downloaded as published."""
    metadata = b"Metadata-Version: 2.2\nName: source\nVersion: 1.0\nRequires-Dist: small\n"
    build_wheel(tmp_path / "index", "small", "1.0")
    with tarfile.open(tmp_path / "index" / "source-1.0.tar.gz", "w:gz") as archive:
        for name, data in (("PKG-INFO", metadata), ("pyproject.toml", b"[build-system]\n")):
            member = tarfile.TarInfo(f"source-1.0/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    words = ["-d", "out", "--no-index", "-f", str(tmp_path / "index"), "source"]
    error = run("download", *words, "--json", code=3).error
    assert error["code"] == "source-build-not-allowed"
    error = run("download", *words, "--python-version", "3.9", "--json", code=3).error
    assert "for another Python or system" in error["note"]
    run("download", *words, "--allow-source", "source")
    assert names(tmp_path / "out") == ["small-1.0-py3-none-any.whl", "source-1.0.tar.gz"]
