"""Ask other implementations, and print why their answers differ."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ORACLES = Path(__file__).parents[1] / "oracles"
Reason = tuple[str, str]
"""A rule, and what is done otherwise because of it."""


def answers_of(python: Path, oracle: str, folder: Path, cases: object, *words: str) -> Any:
    """Let an oracle answer in a folder where nothing configures it.

    :param python: an interpreter that has what is asked.
    :param cases: anything that JSON knows.
    :param words: arguments before the names of the two files.
    """
    (folder / "cases.json").write_text(json.dumps(cases), "utf-8")
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    subprocess.run(
        [python, "-I", ORACLES / oracle, *words, "cases.json", "answers.json"],
        cwd=folder,
        env={**kept, "HOME": str(folder)},
        check=True,
        timeout=300,
    )
    return json.loads((folder / "answers.json").read_text("utf-8"))


def show(capsys: pytest.CaptureFixture[str], title: str, found: Counter[Reason]) -> None:
    """Print how often each difference occurred, the most frequent first."""
    with capsys.disabled():
        print(f"\n{title}")
        for (rule, why), count in found.most_common():
            print(f"  {count:5} {rule}: {why}")
