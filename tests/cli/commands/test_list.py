"""``wheelfit list``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.testing.wheels import build_wheel, release_document

DOCUMENT = release_document(
    {"mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
)


@pytest.fixture
def target(run: Runner, tmp_path: Path) -> Path:
    """Install a variant wheel and the plain wheel it needs."""
    folder = tmp_path / "target"
    variant = build_wheel(
        tmp_path, "fast", "2.0", label="mkl", document=DOCUMENT, requires=["plain"]
    )
    build_wheel(tmp_path, "plain", "1.0")
    run("install", "--no-index", "-f", tmp_path, "--target", folder, variant)
    return folder


def test_labels(target: Path, run: Runner) -> None:
    """F-96: the label has its own column."""
    assert run("list", "--target", target).out.splitlines() == [
        "Package  Version  Variant",
        "-------  -------  -------",
        "fast     2.0      mkl",
        "plain    1.0",
    ]


def test_variants_option(target: Path, run: Runner) -> None:
    """``--variants`` omits plain packages."""
    assert run("list", "--target", target, "--variants").out.splitlines()[2:] == [
        "fast     2.0      mkl"
    ]
    (entry,) = run("list", "--target", target, "--variants", "--json").object["packages"]
    assert entry["name"] == "fast"


def test_empty_folder(run: Runner, tmp_path: Path) -> None:
    """An empty folder gives no output and an empty JSON list."""
    folder = tmp_path / "empty"
    folder.mkdir()
    assert run("list", "--target", folder).out == ""
    assert run("list", "--target", folder, "--json").object["packages"] == []


def test_editable_and_egg_info(target: Path, run: Runner) -> None:
    """Editable and egg-info distributions are marked."""
    info = target / "linked-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: linked\nVersion: 1.0\n")
    (info / "direct_url.json").write_text(
        json.dumps({"url": "file:///source", "dir_info": {"editable": True}})
    )
    (target / "old-1.0.egg-info").write_text("Metadata-Version: 1.0\nName: old\nVersion: 1.0\n")
    lines = run("list", "--target", target).out.splitlines()
    assert lines[0].split() == ["Package", "Version", "Variant", "Remark"]
    assert lines[3].split() == ["linked", "1.0", "editable:", "/source"]
    assert lines[4].split() == ["old", "1.0", "legacy"]
    packages = run("list", "--target", target, "--json").object["packages"]
    assert {entry["name"]: entry["editable"] for entry in packages} == {
        "fast": False, "linked": True, "old": False, "plain": False,
    }  # fmt: skip
    assert {entry["name"]: entry["project"] for entry in packages if entry["project"]} == {
        "linked": "/source"
    }


def test_unreadable_distribution(target: Path, run: Runner) -> None:
    """An unreadable distribution causes a warning; the others are listed."""
    (target / "broken-1.0.dist-info").mkdir()
    (target / "~old-1.0.dist-info").mkdir()
    result = run("list", "--target", target, "--json")
    assert [entry["name"] for entry in result.object["packages"]] == ["fast", "plain"]
    assert "broken-1.0.dist-info: its metadata file is missing, or may not be read" in result.err
    assert "~old-1.0.dist-info: it was left behind" in result.err


def test_damaged_record(target: Path, run: Runner) -> None:
    """A damaged record is replaced by ``variant.json``, with a note in verbose output."""
    (target / "fast-2.0.dist-info" / "wheelfit.json").write_text("{")
    result = run("list", "--target", target, "--verbose")
    assert "fast     2.0      mkl" in result.out
    assert "fast 2.0 (mkl): wheelfit.json cannot be understood" in result.err
    assert run("list", "--target", target).err == ""
