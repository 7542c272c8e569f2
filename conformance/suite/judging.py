"""Hold answers against what is expected, and count."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from suite.cases import Case

__all__ = ["Finding", "Known", "Outcome", "Report", "judge", "load_known"]


class Outcome(StrEnum):
    """What became of one case with one tool."""

    PASS = "pass"
    DIFFERS = "differs"
    UNSUPPORTED = "not supported"


@dataclass(frozen=True, slots=True)
class Finding:
    """Hold one case with what a tool answered."""

    case: Case
    outcome: Outcome
    said: str = ""
    """What the tool answered where that matters: a difference, or why it is not supported."""


@dataclass(frozen=True, slots=True)
class Known:
    """Hold a difference that is known, with its reason."""

    cases: tuple[str, ...]
    """Ids of cases, or patterns as ``document-layout-*``."""
    rule: str
    """The rule that the tool does not follow."""
    why: str
    """One clause."""

    def covers(self, case: Case) -> bool:
        """Say whether a case is one of these."""
        return any(fnmatchcase(case.id, pattern) for pattern in self.cases)


@dataclass(frozen=True, slots=True)
class Report:
    """Hold everything that was found out about one tool."""

    tool: str
    version: str
    findings: tuple[Finding, ...]

    def count(self) -> dict[Outcome, int]:
        """Return how many cases ended how."""
        counts = Counter(finding.outcome for finding in self.findings)
        return {outcome: counts[outcome] for outcome in Outcome}

    def of_rule(self, rule: str) -> dict[Outcome, int]:
        """Return how many cases of one rule ended how."""
        counts = Counter(one.outcome for one in self.findings if rule in one.case.rules)
        return {outcome: counts[outcome] for outcome in Outcome}

    def differences(self) -> list[Finding]:
        """Return the cases in which the tool differs."""
        return [finding for finding in self.findings if finding.outcome is Outcome.DIFFERS]

    def unexpected(self, known: Sequence[Known]) -> list[Finding]:
        """Return the differences that nobody expects."""
        return [
            finding
            for finding in self.differences()
            if not any(one.covers(finding.case) for one in known)
        ]

    def outdated(self, known: Sequence[Known]) -> list[str]:
        """Return the patterns of known differences under which nothing differs any more."""
        differing = [finding.case.id for finding in self.differences()]
        asked = [finding.case.id for finding in self.findings]
        return [
            pattern
            for one in known
            for pattern in one.cases
            if any(fnmatchcase(name, pattern) for name in asked)
            and not any(fnmatchcase(name, pattern) for name in differing)
        ]


def load_known(path: Path) -> list[Known]:
    """Read a file of known differences.

    :param path: a JSON file with ``differences``, each with ``cases``, ``rule`` and ``why``.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    return [
        Known(tuple(entry["cases"]), entry["rule"], entry["why"])
        for entry in content["differences"]
    ]


def judge(case: Case, answer: Mapping[str, Any]) -> Finding:
    """Hold one answer against the case.

    :param case: what was asked.
    :param answer: has one of ``result``, ``invalid``, ``unsupported`` and ``error``.
    """
    if "unsupported" in answer:
        return Finding(case, Outcome.UNSUPPORTED, str(answer["unsupported"]))
    if any(_right(right, answer) for right in (case.expected, *case.also)):
        return Finding(case, Outcome.PASS)
    if answer.get("partial") is True and _shows_nothing(case.expected, answer):
        return Finding(case, Outcome.UNSUPPORTED, "the tool shows nothing of what is asked")
    said = {name: value for name, value in answer.items() if name not in ("id", "partial")}
    return Finding(case, Outcome.DIFFERS, json.dumps(said, ensure_ascii=False, sort_keys=True))


def _right(expected: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    if "invalid" in expected:
        return "invalid" in answer
    result = answer.get("result")
    if not isinstance(result, dict):
        return False
    wanted = expected["result"]
    if answer.get("partial") is True:
        shown = {name: value for name, value in wanted.items() if name in result}
        if result and not shown:
            return False
        wanted = shown
    return all(name in result and _same(value, result[name]) for name, value in wanted.items())


def _shows_nothing(expected: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    result = answer.get("result")
    wanted = expected.get("result", {})
    shown = result if isinstance(result, dict) else {}
    return bool(wanted and shown) and shown.keys().isdisjoint(wanted)


def _same(one: object, other: object) -> bool:
    """Compare as JSON does: 1 and True are different, and so is the order of a list."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def summary(findings: Iterable[Finding]) -> str:
    """Say in one line how many ended how."""
    counts = Counter(finding.outcome for finding in findings)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome)
