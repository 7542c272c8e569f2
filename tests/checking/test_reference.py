"""The reference of checks is complete and true."""

from __future__ import annotations

import re
from pathlib import Path

from wheelfit.checking.checks import CHECKS

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE = (REFERENCE / "checks.md").read_text()
SECTIONS = dict(re.findall(r"^### (\S+)\n\n(.*?)(?=\n##|\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_every_check_is_explained() -> None:
    """The page has each check, in the order of the table, and no other."""
    assert list(SECTIONS) == list(CHECKS)


def test_in_the_same_words() -> None:
    """Severity, rule, meaning and remedy are those of the program, and there is an example."""
    for code, check in CHECKS.items():
        section = SECTIONS[code]
        assert section.startswith(f"{check.severity}, {check.rule}: {check.meaning}.\n")
        remedy = f"- Remedy: {check.remedy[0].upper()}{check.remedy[1:]}."
        assert remedy.lower() in section.lower()
        (example,) = re.findall(r"^- Example: (.+)$", section, re.MULTILINE)
        assert len(example) > 5, code


def test_rules_exist() -> None:
    """Every rule that a check names is in the list of rules; scenarios have a list of their own."""
    rules = (REFERENCE / "rules.md").read_text()
    known = set(re.findall(r"^\| ([FPB]-\d+) \|", rules, re.MULTILINE))
    named = {check.rule for check in CHECKS.values()}
    assert {rule for rule in named if not rule.startswith("A-")} <= known


def test_codes() -> None:
    """Codes are stable names in kebab-case, and sentences have no final full stop."""
    for code, check in CHECKS.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code)
        assert check.code == code
        assert not check.meaning.endswith(".")
        assert not check.remedy.endswith(".")
