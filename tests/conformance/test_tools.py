"""What the conformance suite says of wheelfit, uv and variantlib, as it is published."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from python_runs import run_python
from suite.judging import Outcome
from suite.tables import cell

REPOSITORY = Path(__file__).parents[2]
SUITE = REPOSITORY / "conformance"
PAGE = REPOSITORY / "docs" / "reference" / "conformance.md"
DRAWN = {"F-28", "F-66", "A-80"}
"""Rules of the drawn cases, of which other tools are asked fewer here than for the page."""


def measure(command: str, *options: str) -> tuple[dict[str, Any], list[str]]:
    """Run the suite on one tool; return what came out, and what was unexpected."""
    words = (SUITE / "run.py", "--json", "--adapter", command, *options)
    completed = run_python(*words, deadline=1200)
    assert completed.returncode in (0, 1), completed.stderr
    (tool,) = json.loads(completed.stdout)["tools"]
    # Adapters and tools may write to standard error too.
    said = [line for line in completed.stderr.splitlines() if line.startswith(f"{tool['tool']}: ")]
    return tool, said


def adapter(name: str, python: Path | str = sys.executable, *options: str) -> str:
    """Return the command line of an adapter."""
    return " ".join([str(python), str(SUITE / "adapters" / f"{name}_adapter.py"), *options])


def published(title: str) -> dict[str, str]:
    """Return the column of a tool on the page: what it does about each rule."""
    rows = [
        [part.strip() for part in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    header = next(row for row in rows if row[0] == "rule" and title in row)
    column = header.index(title)
    table = rows[rows.index(header) + 2 :]
    return {row[0]: row[column] for row in table if len(row) == len(header)}


def measured(tool: dict[str, Any]) -> dict[str, str]:
    """Return the same as it was measured now."""
    return {
        rule: cell({outcome: counts[outcome] for outcome in Outcome})
        for rule, counts in tool["rules"].items()
    }


def test_wheelfit_passes() -> None:
    """Wheelfit passes every case, and its column on the page says what a run says now."""
    tool, unexpected = measure(adapter("wheelfit"))
    assert unexpected == []
    differing = [case for case in tool["cases"] if case["outcome"] != "pass"]
    assert differing == []
    assert len(tool["cases"]) > 1000
    title = f"wheelfit {tool['version']}"
    assert published(title) == measured(tool)
    total = len(tool["cases"])
    assert f"| {title} | {total} | {total} | 0 | 0 |" in PAGE.read_text(encoding="utf-8")


def hold(tool: dict[str, Any], unexpected: list[str], title: str) -> None:
    """Hold what another tool does now against the page and the list of known differences."""
    assert unexpected == []
    assert f"{tool['tool']} {tool['version']}" == title
    now, then = measured(tool), published(title)
    assert now.keys() == then.keys()
    assert {rule: one for rule, one in now.items() if rule not in DRAWN} == {
        rule: one for rule, one in then.items() if rule not in DRAWN
    }


@pytest.mark.network
def test_uv(uv: Path) -> None:
    """Uv 0.13.8 differs where the page says so, and nowhere else."""
    known = f"uv={SUITE / 'known' / 'uv.json'}"
    command = adapter("uv", sys.executable, "--uv", str(uv))
    hold(*measure(command, "--expected", known, "--drawn", "5"), "uv 0.13.8")


@pytest.mark.network
def test_variantlib(variantlib_python: Path) -> None:
    """Variantlib 0.2.2 differs where the page says so, and nowhere else."""
    known = f"variantlib={SUITE / 'known' / 'variantlib.json'}"
    command = adapter("variantlib", variantlib_python)
    hold(*measure(command, "--expected", known, "--drawn", "20"), "variantlib 0.2.2")
