"""Findings about an environment, as text."""

from __future__ import annotations

from collections import Counter
from textwrap import wrap
from typing import TYPE_CHECKING

from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.checking.findings import Finding
    from wheelfit.cli.output import Style

    Line = tuple[str, Style]

_STYLES: dict[str, Style] = {"error": "bad", "warning": "warning", "note": "dim"}
_COLUMNS = 88
"""How wide the words of a finding are."""


def finding_lines(finding: Finding) -> Iterator[Line]:
    """Yield the lines of a finding."""
    mark = f"  {finding.severity.value:<7} {finding.code}"
    rule = f" ({finding.rule})" if finding.rule else ""
    yield f"{mark}{rule}  {finding.where}", _STYLES[finding.severity.value]
    for line in _wrapped(finding.message):
        yield f"          {line}", "plain"
    # A command stays in one line, so that it can be copied.
    command = finding.remedy.startswith("wheelfit ")
    for number, line in enumerate([finding.remedy] if command else _wrapped(finding.remedy)):
        yield f"          {'  ' if number else '→ '}{line}", "dim"


def summary_line(findings: Iterable[Finding], *, verbose: bool) -> Line:
    """Return how much was found, in a line.

    :param findings: what was found.
    :param verbose: whether notes are shown.
    """
    counts = Counter(str(one.severity) for one in findings)
    faults = (severity for severity in ("error", "warning") if counts[severity])
    words = ", ".join(count_of(counts[one], one) for one in faults) or "nothing is wrong"
    if counts["note"]:
        words += f"; {count_of(counts['note'], 'note')}" + ("" if verbose else " (-v shows)")
    if counts["error"]:
        return words, "bad"
    return words, "warning" if counts["warning"] else "good"


def _wrapped(text: str) -> list[str]:
    return wrap(text, _COLUMNS, break_long_words=False, break_on_hyphens=False) or [""]
