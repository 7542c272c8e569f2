"""Fuzz targets: their corpus passes everywhere, and a short run finds nothing new."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from python_runs import printed_by

REPOSITORY = Path(__file__).parents[2]
FUZZ = REPOSITORY / "fuzz"
TARGETS = sorted(path.stem for path in (FUZZ / "targets").glob("*.py"))
RUNS = {
    "binary": 100,
    "document": 450,
    "filename": 2_000,
    "machine": 250,
    "marker": 500,
    "page": 450,
    "project": 200,
    "pylock": 600,
}
SEED = 20_260_101


def target(name: str) -> Any:
    """Import a target."""
    spec = importlib.util.spec_from_file_location(name, FUZZ / "targets" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fuzz(name: str | Path, *options: object) -> subprocess.CompletedProcess[str]:
    """Fuzz in a process of its own; skip where the fuzzer cannot be had."""
    pytest.importorskip("atheris", reason="atheris has no wheel for this Python or platform")
    return subprocess.run(
        [sys.executable, FUZZ / "run.py", str(name), *map(str, options), f"-seed={SEED}"],
        capture_output=True, text=True, errors="replace", check=False, timeout=300,
    )  # fmt: skip


def test_every_target_has_a_corpus_and_a_dictionary() -> None:
    """What the documentation lists is there, and nothing else."""
    for folder in ("corpus", "dictionaries"):
        assert sorted(path.stem for path in (FUZZ / folder).iterdir()) == TARGETS
    assert sorted(RUNS) == TARGETS
    page = (REPOSITORY / "docs/how-to/fuzz.md").read_text()
    assert all(f"| `{name}` |" in page for name in TARGETS)


def test_the_corpus_is_small() -> None:
    """What is kept stays below a megabyte."""
    assert sum(path.stat().st_size for path in (FUZZ / "corpus").glob("*/*")) < 1_000_000


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_passes(name: str) -> None:
    """Every input that was kept meets the invariants, with or without the fuzzer."""
    module = target(name)
    inputs = sorted((FUZZ / "corpus" / name).iterdir())
    assert inputs
    for path in inputs:
        module.check(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_a_short_run_finds_nothing(name: str, tmp_path: Path) -> None:
    """From the corpus, with a fixed seed, some hundred inputs break no invariant."""
    run = fuzz(
        name, tmp_path, FUZZ / "corpus" / name, f"-runs={RUNS[name]}", "-rss_limit_mb=2048",
        f"-artifact_prefix={tmp_path}/",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    assert f"Done {RUNS[name]} runs" in run.stderr


def test_a_campaign_ends_with_a_table(tmp_path: Path) -> None:
    """What ``nox -s fuzz`` runs fuzzes the target, keeps its inputs and counts."""
    pytest.importorskip("atheris", reason="atheris has no wheel for this Python or platform")
    words = (FUZZ / "campaign.py", "filename", "--found", tmp_path, "--hours", "0.0003")
    (row,) = printed_by(*words, deadline=300).splitlines()[1:]
    name, executions, _rate, features, findings = row.split()
    assert (name, findings) == ("filename", "0")
    assert int(executions.replace(",", "")) > 0
    assert int(features.replace(",", "")) > 0
    assert list((tmp_path / "filename" / "corpus").iterdir())


class TestPlanted:
    """A run ends badly when there is something to find."""

    PLANTED = Path(__file__).parent / "planted.py"

    def test_a_bug_is_found(self, tmp_path: Path) -> None:
        """A failing input is found byte by byte, and kept."""
        run = fuzz(self.PLANTED, "-runs=200000", f"-artifact_prefix={tmp_path}/")
        assert run.returncode != 0
        assert "the planted bug" in run.stdout + run.stderr
        (kept,) = tmp_path.iterdir()
        assert kept.read_bytes().startswith(b"bug")

    def test_a_slow_input_is_a_finding(self, tmp_path: Path) -> None:
        """More than a second of processor time fails, though the check passes."""
        slow = tmp_path / "slow"
        slow.write_bytes(b"slow")
        run = fuzz(self.PLANTED, slow)
        assert run.returncode != 0
        assert "seconds of processor time" in run.stdout + run.stderr
