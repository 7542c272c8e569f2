"""The reference of findings is complete and true."""

from __future__ import annotations

import re
from pathlib import Path

from wheelfit.cli.commands.machines import EXIT_CODES
from wheelfit.doctor.diagnoses import AREAS, DIAGNOSES, Area

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE = (REFERENCE / "doctor.md").read_text()
SECTIONS = dict(re.findall(r"^### ([a-z-]+)\n\n(.*?)(?=\n##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
CHECKS = {check.code: check for checks in AREAS.values() for check in checks.values()}


def test_every_finding_is_explained() -> None:
    """The page has each kind of finding, in the order of the areas, and no other."""
    assert list(SECTIONS) == list(CHECKS) == list(DIAGNOSES)


def test_in_the_same_words() -> None:
    """Severity, rule, meaning and remedy are those of the program, and there is an example."""
    for code, check in CHECKS.items():
        section = SECTIONS[code]
        rule = f", {check.rule}" if check.rule else ""
        assert section.startswith(f"{check.severity}{rule}: {check.meaning}.\n")
        assert f"- Remedy: {check.remedy}." in section
        assert re.search(r"^- Example: .{5,}$", section, re.MULTILINE), code
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code)
        assert not check.meaning.endswith("."), code
        assert not check.remedy.endswith("."), code


def test_exit_codes() -> None:
    """Each area has a code, in the order in which they count, as both pages say."""
    assert list(EXIT_CODES) == [str(area) for area in Area]
    assert list(EXIT_CODES.values()) == sorted(EXIT_CODES.values())
    page = (REFERENCE / "exit-codes.md").read_text()
    for area, code in EXIT_CODES.items():
        assert f"| {code} | `doctor" in page
        assert f"## {area.capitalize()}\n\nWith an error, exit code {code}:" in PAGE


def test_rules_exist() -> None:
    """Every rule that a kind of finding names is in the list of rules."""
    known = set(
        re.findall(r"^\| ([FPB]-\d+) \|", (REFERENCE / "rules.md").read_text(), re.MULTILINE)
    )
    named = {check.rule for check in CHECKS.values() if check.rule}
    assert {rule for rule in named if not rule.startswith("PEP ")} <= known
