"""Text output of ``wheelfit explain --all``; the JSON is tested with the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import build_release, build_wheel, release_document

X86_64 = {"requires": ["x86-64-variant-provider<1"]}
DOCUMENT = release_document(
    {
        "null": {},
        "cu129": {"nvidia": {"cuda_version_lower_bound": ["12.9"], "sm_arch": ["90_real"]}},
        "cu13": {"nvidia": {"cuda_version_lower_bound": ["13"]}},
        "v3": {"x86_64": {"level": ["v3"]}},
    },
    providers={"nvidia": NVIDIA, "x86_64": X86_64},
    namespaces=["nvidia", "x86_64"],
)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a release for no Python of today, with CUDA builds, and an older plain one."""
    folder = tmp_path / "index"
    build_release(
        folder,
        "torch",
        "2.8",
        DOCUMENT,
        ("null", "cu129", "cu13", "v3"),
        tag="cp38-cp38-manylinux_2_28_x86_64",
    )
    build_wheel(folder, "torch", "2.7")
    build_wheel(folder, "plain", "1.0")
    with RecordingIndex(folder) as server:
        yield server


def test_labels_and_presets(index: RecordingIndex, run: Runner) -> None:
    """Every label of the newest release is listed with the presets that select it."""
    lines = run("explain", "--all", "torch", "-i", index.url, "--no-cache-dir").out.splitlines()
    assert lines[:2] == ["torch 2.8 for all machines: 4 wheels of 4 labels", f"  from {index.url}"]
    assert [line.strip() for line in lines if line.startswith("  ") and line[2] != " "] == [
        f"from {index.url}",
        "cu13",
        "cu129",
        "v3",
        "null",
        "no wheel for linux-aarch64, musllinux-x86_64, musllinux-aarch64, macos-arm64 and 9 more",
    ]
    text = "\n".join(lines)
    assert "    machine     needs CUDA driver >= 12.9 and a GPU of compute capability 9.0" in text
    assert "    built for   cp38 on Linux x86_64" in text
    assert "    chosen by   cuda-12.9-sm90\n" in text
    assert "    chosen by   cpu-x86_64-v3, cpu-x86_64-v4\n" in text
    assert "    chosen by   cuda-13.0-sm50, cuda-13.0-sm52, " in text


def test_own_hosts(
    index: RecordingIndex, run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's host files are listed first; an unreadable one causes a warning."""
    monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(tmp_path / "config" / "wheelfit.toml"))
    hosts = tmp_path / "config" / "hosts"
    hosts.mkdir(parents=True)
    (hosts.parent / "wheelfit.toml").write_text("")
    (hosts / "node.toml").write_text(
        '[metadata]\nversion = "0.1"\n[[provider]]\nnamespace = "nvidia"\n'
        '[provider.properties]\ncuda_version_lower_bound = ["13"]\n'
    )
    (hosts / "broken.toml").write_text("x =")
    result = run("explain", "--all", "torch", "-i", index.url, "--json")
    (release,) = result.object["releases"]
    (cu13,) = [label for label in release["labels"] if label["label"] == "cu13"]
    assert cu13["selected_by"][0] == "node"
    assert "broken is left out: " in result.err
    assert "cuda-13.0-sm90" in result.object["machines"]
    assert not [name for name in result.object["machines"] if name.startswith("rocm")]


def test_labels_without_a_version(run: Runner, tmp_path: Path) -> None:
    """For labels with hardware but no version the usual presets of the family are used."""
    document = release_document(
        {"gfx": {"amd": {"gfx_arch": ["gfx942"]}}},
        providers={"amd": {"requires": ["amd-variant-provider<1"]}},
    )
    build_wheel(tmp_path, "fast", "1", label="gfx", document=document)
    report = run("explain", "--all", tmp_path / "fast-1-py3-none-any-gfx.whl", "--json").object
    (row,) = report["releases"][0]["labels"]
    assert row["selected_by"]
    assert all(name.startswith("rocm-") for name in row["selected_by"])
    assert not [name for name in report["machines"] if name.startswith(("cuda", "cpu"))]


def test_constraint_markers(index: RecordingIndex, run: Runner, tmp_path: Path) -> None:
    """A constraint whose marker is false is ignored, with --all and without."""
    limits = tmp_path / "limits.txt"
    for marker, version in (('python_version < "3"', "2.8"), ('python_version > "3"', "2.7")):
        limits.write_text(f"torch<2.8; {marker}\n")
        result = run("explain", "--all", "torch", "-i", index.url, "-c", limits)
        assert result.out.startswith(f"torch {version} for all machines"), marker
    limits.write_text('plain<1; python_version < "3"\n')
    run("explain", "plain", "-i", index.url, "-c", limits)


def test_plain_release(index: RecordingIndex, run: Runner) -> None:
    """A release without variants is listed with platforms only."""
    report = run("explain", "--all", "plain", "torch<2.8", "-i", index.url, "--json").object
    assert [(release["name"], release["version"]) for release in report["releases"]] == [
        ("plain", "1.0"),
        ("torch", "2.7"),
    ]
    text = run("explain", "--all", "plain", "-i", index.url).out
    assert text.startswith("plain 1.0 for all machines: 1 plain wheel\n")
    (row,) = report["releases"][0]["labels"]
    assert row["label"] is None
    assert row["properties"] is None
    assert "linux-x86_64" in row["selected_by"]


def test_wheel_file(index: RecordingIndex, run: Runner, tmp_path: Path) -> None:
    """A wheel file is a release of one label."""
    path = tmp_path / "index" / "torch-2.8-cp38-cp38-manylinux_2_28_x86_64-cu129.whl"
    result = run("explain", "--all", path, "-i", index.url)
    assert result.out.startswith("torch 2.8 for all machines: 1 wheel of 1 label\n")
    assert "needs CUDA driver >= 12.9" in result.out


def test_verbose(index: RecordingIndex, run: Runner) -> None:
    """-v lists every machine and every file."""
    result = run("explain", "--all", "torch", "-i", index.url, "-v")
    assert " more" not in result.out
    assert "torch-2.8-cp38-cp38-manylinux_2_28_x86_64-v3.whl" in result.out


def test_usage_errors(index: RecordingIndex, run: Runner) -> None:
    """Conflicting options and missing releases are errors."""
    run("explain", "--all", "--for", "linux-x86_64", "torch", "-i", index.url, code=2)
    run("explain", "--all", "--with-deps", "torch", "-i", index.url, code=2)
    assert run("explain", "--all", "torch>9", "-i", index.url, code=3).out == ""
    run("explain", "--all", "nowhere", "-i", index.url, code=3)
