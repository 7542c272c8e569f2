"""``wheelfit uninstall``."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.running import Runner, tree

from wheelfit.testing.wheels import build_wheel, release_document

DOCUMENT = release_document(
    {"mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
)


@pytest.fixture
def target(run: Runner, tmp_path: Path) -> Path:
    """Install a variant wheel and a plain wheel."""
    folder = tmp_path / "target"
    fast = build_wheel(tmp_path, "fast.one", "2.0", label="mkl", document=DOCUMENT)
    plain = build_wheel(tmp_path, "plain", "1.0")
    run("install", "--no-index", "--target", folder, fast, plain)
    return folder


def test_uninstall(target: Path, run: Runner) -> None:
    """A package is removed by any spelling of its name, and printed with its label."""
    assert run("uninstall", "--target", target, "Fast_One").out == "removed fast-one 2.0 (mkl)\n"
    assert run.installed("--target", target).keys() == {"plain"}
    assert not (target / "fast_one").exists()


def test_prefix_below_a_root(run: Runner, tmp_path: Path) -> None:
    """With --root the prefix is a folder below it."""
    where: list[str | Path] = ["--root", tmp_path / "root", "--prefix", tmp_path / "prefix"]
    run("install", "--no-index", *where, build_wheel(tmp_path, "plain", "1.0"))
    assert not (tmp_path / "prefix").exists()
    assert run("uninstall", *where, "plain").out == "removed plain 1.0\n"


def test_json_report(target: Path, run: Runner) -> None:
    """The JSON object lists the removed packages."""
    result = run("uninstall", "--json", "--target", target, "fast-one", "plain", "-y")
    removed = result.object
    assert removed.pop("seconds").keys() == {"uninstall"}
    assert removed == {
        "version": 1,
        "dry_run": False,
        "removed": [
            {"name": "fast-one", "version": "2.0", "label": "mkl"},
            {"name": "plain", "version": "1.0", "label": None},
        ],
        "broken_requirements": [],
    }
    assert result.err == ""


def test_dry_run(target: Path, run: Runner) -> None:
    """A dry run lists the packages and removes none."""
    before = tree(target)
    result = run("uninstall", "--target", target, "--dry-run", "plain", "fast-one")
    assert sorted(result.out.splitlines()) == [
        "would remove fast-one 2.0 (mkl)",
        "would remove plain 1.0",
    ]
    assert run("uninstall", "--json", "--target", target, "--dry-run", "plain").object["dry_run"]
    assert tree(target) == before


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_package_that_is_not_installed(more: list[str], target: Path, run: Runner) -> None:
    """If one package is not installed, none is removed."""
    before = tree(target)
    result = run("uninstall", "--json", "--target", target, "plain", "absent", *more, code=1)
    assert result.error["code"] == "not-installed"
    assert "absent" in result.error["message"]
    assert tree(target) == before


@pytest.mark.parametrize("name", ["n i x", "", "plain==1.0", "../plain", "-"])
def test_invalid_name(name: str, target: Path, run: Runner) -> None:
    """Only package names are accepted."""
    before = tree(target)
    assert run("uninstall", "--target", target, "--json", name, code=1).error["code"] == (
        "invalid-requirement"
    )
    assert tree(target) == before


def test_broken_dependents(run: Runner, tmp_path: Path) -> None:
    """Packages whose dependency was removed are named."""
    folder = tmp_path / "target"
    build_wheel(tmp_path, "needed", "1")
    build_wheel(tmp_path, "needing", "2", requires=("needed>=1",))
    run("install", "--no-index", "-f", tmp_path, "--target", folder, "needing")
    dry = run("uninstall", "--json", "--dry-run", "--target", folder, "needed")
    assert dry.object["broken_requirements"] == [
        {"name": "needing", "version": "2", "requirement": "needed>=1", "installed": None}
    ]
    result = run("uninstall", "--target", folder, "needed")
    assert result.out == "removed needed 1\n"
    summary, warning = result.err.splitlines()
    assert summary.startswith("Uninstalled 1 package in ")
    assert warning == "warning: needing 2 needs needed>=1, but needed will be removed"
    assert "warning" not in run("uninstall", "--target", folder, "needing").err
