"""The references of checks and of the doctor's findings are complete and true."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from wheelfit.checking.checks import CHECKS
from wheelfit.checking.findings import Check
from wheelfit.cli.commands.machines import EXIT_CODES
from wheelfit.doctor.diagnoses import AREAS, DIAGNOSES, Area

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
OF_DOCTOR = {check.code: check for checks in AREAS.values() for check in checks.values()}

on_each_page = pytest.mark.parametrize(
    ("page", "checks"), [("checks.md", CHECKS), ("doctor.md", OF_DOCTOR)]
)


def sections(page: str) -> dict[str, str]:
    """Return the sections of a page by their codes."""
    text = (REFERENCE / page).read_text()
    return dict(re.findall(r"^### ([a-z-]+)\n\n(.*?)(?=\n##|\Z)", text, re.MULTILINE | re.DOTALL))


@on_each_page
def test_every_check_is_explained(page: str, checks: Mapping[str, Check]) -> None:
    """A page has each check, in the order of the table or of the areas, and no other."""
    assert list(sections(page)) == list(checks)
    assert list(OF_DOCTOR) == list(DIAGNOSES)


@on_each_page
def test_in_the_same_words(page: str, checks: Mapping[str, Check]) -> None:
    """Severity, rule, meaning and remedy are those of the program, and there is an example."""
    for code, section in sections(page).items():
        check = checks[code]
        rule = f", {check.rule}" if check.rule else ""
        assert section.startswith(f"{check.severity}{rule}: {check.meaning}.\n")
        assert f"- Remedy: {check.remedy}." in section
        (example,) = re.findall(r"^- Example: (.+)$", section, re.MULTILINE)
        assert len(example) > 5, code


@on_each_page
def test_codes(page: str, checks: Mapping[str, Check]) -> None:
    """Codes are stable names in kebab-case, and sentences have no final full stop."""
    del page
    for code, check in checks.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code)
        assert check.code == code
        assert not check.meaning.endswith(".")
        assert not check.remedy.endswith(".")


def test_rules_exist() -> None:
    """Every rule that a check names is in the list of rules; scenarios have a list of their own."""
    rules = (REFERENCE / "rules.md").read_text()
    known = set(re.findall(r"^\| ([FPB]-\d+) \|", rules, re.MULTILINE))
    named = {check.rule for check in [*CHECKS.values(), *OF_DOCTOR.values()] if check.rule}
    assert {rule for rule in named if not rule.startswith(("A-", "PEP "))} <= known


def test_exit_codes() -> None:
    """Each area has a code, in the order in which they count, as both pages say."""
    assert list(EXIT_CODES) == [str(area) for area in Area]
    assert list(EXIT_CODES.values()) == sorted(EXIT_CODES.values())
    exit_codes = (REFERENCE / "exit-codes.md").read_text()
    findings = (REFERENCE / "doctor.md").read_text()
    for area, code in EXIT_CODES.items():
        assert f"| {code} | `doctor" in exit_codes
        assert f"## {area.capitalize()}\n\nWith an error, exit code {code}:" in findings
