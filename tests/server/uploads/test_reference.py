"""The documentation of uploads."""

from __future__ import annotations

import re
from pathlib import Path

from wheelfit.checking.checks import CHECKS
from wheelfit.checking.findings import Severity

REPOSITORY = Path(__file__).parents[3]
SOURCES = REPOSITORY / "src" / "wheelfit" / "server"


def test_documented_references() -> None:
    """The reference has exactly the reasons for refusals."""
    page = (REPOSITORY / "docs" / "reference" / "uploads.md").read_text()
    explained = set(re.findall(r"^\| `([a-z-]+)` \| ", page, re.MULTILINE))
    explained -= {"filetype", "attestations", "content"}  # of the form
    used = {
        reference
        for folder in ("store", "uploads")
        for path in (SOURCES / folder).glob("*.py")
        for reference in re.findall(
            r'(?:Violation|single_refusal)\(\s*"([a-z-]+)"', path.read_text()
        )
    }
    assert len(used) > 20
    assert explained == used


def test_names_shared_with_check() -> None:
    """A reference that `check` also has is one of its errors."""
    page = (REPOSITORY / "docs" / "reference" / "uploads.md").read_text()
    explained = set(re.findall(r"^\| `([a-z-]+)` \| ", page, re.MULTILINE))
    shared = {CHECKS[name].severity for name in explained & CHECKS.keys()}
    assert shared == {Severity.ERROR}
