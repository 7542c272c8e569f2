"""Reports as people read them: a table for the terminal, a page of documentation, JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from suite.cases import rule_order
from suite.judging import Outcome, summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from suite.cases import Case, Rule
    from suite.judging import Finding, Known, Report

__all__ = ["as_json", "as_markdown", "as_text", "cell"]


def cell(counts: Mapping[Outcome, int]) -> str:
    """Say in one word what a tool does about a rule.

    :param counts: how many of the cases ended how.
    """
    if counts[Outcome.DIFFERS]:
        shown = counts[Outcome.DIFFERS] + counts[Outcome.PASS]
        return f"differs ({counts[Outcome.DIFFERS]} of {shown})"
    return str(Outcome.PASS if counts[Outcome.PASS] else Outcome.UNSUPPORTED)


def as_text(reports: Sequence[Report], rules: Mapping[str, Rule], *, verbose: bool) -> str:
    """Return the table tool × rule, the sums, and on request every difference.

    :param reports: one for each tool, all about the same cases.
    :param rules: what the rules say.
    :param verbose: whether to tell of the single cases.
    """
    titles = [f"{report.tool} {report.version}" for report in reports]
    widths = [max(18, len(title)) for title in titles]
    lines = [
        "rule   " + "  ".join(f"{one:<{wide}}" for one, wide in zip(titles, widths, strict=True))
    ]
    for rule in _rules(reports):
        cells = [
            f"{cell(report.of_rule(rule)):<{wide}}"
            for report, wide in zip(reports, widths, strict=True)
        ]
        lines.append(
            f"{rule:<7}{'  '.join(cells)}  {rules[rule].says if rule in rules else ''}".rstrip()
        )
    lines.append("")
    for title, report in zip(titles, reports, strict=True):
        lines.append(f"{title}: {summary(report.findings)}")
        if verbose:
            lines += _details(report)
    return "\n".join(lines)


def _details(report: Report) -> Iterator[str]:
    for finding in report.findings:
        case = finding.case
        if finding.outcome is Outcome.PASS:
            continue
        rules = ", ".join(case.rules)
        if finding.outcome is Outcome.UNSUPPORTED:
            yield f"  not supported: {case.id} ({rules}): {finding.said}"
            continue
        yield f"  differs: {case.id} ({rules}): {case.claim}"
        yield f"    expected {json.dumps(dict(case.expected), ensure_ascii=False, sort_keys=True)}"
        said = finding.said if len(finding.said) < 2000 else f"{finding.said[:2000]}…"
        yield f"    answered {said}"


def as_json(reports: Sequence[Report]) -> dict[str, Any]:
    """Return everything as plain data; ``conformance/README.md`` describes it.

    :param reports: one for each tool.
    """
    return {
        "format": 1,
        "tools": [
            {
                "tool": report.tool,
                "version": report.version,
                "summary": {str(outcome): count for outcome, count in report.count().items()},
                "rules": {
                    rule: {str(one): number for one, number in report.of_rule(rule).items()}
                    for rule in _rules([report])
                },
                "cases": [_finding(finding) for finding in report.findings],
            }
            for report in reports
        ],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.case.id,
        "area": finding.case.area,
        "rules": list(finding.case.rules),
        "outcome": str(finding.outcome),
        "said": finding.said,
    }


def as_markdown(
    reports: Sequence[Report], rules: Mapping[str, Rule], known: Mapping[str, Sequence[Known]]
) -> str:
    """Return the tables of a page of documentation.

    :param reports: one for each tool.
    :param rules: what the rules say.
    :param known: by tool, why it differs.
    """
    titles = [f"{report.tool} {report.version}" for report in reports]
    lines = ["## In sum", "", "| | cases | " + " | ".join(Outcome) + " |"]
    lines.append("|---|--:|--:|--:|--:|")
    for title, report in zip(titles, reports, strict=True):
        numbers = [str(count) for count in report.count().values()]
        lines.append(f"| {title} | {len(report.findings)} | {' | '.join(numbers)} |")
    lines += ["", "## Rule by rule", ""]
    lines.append("| rule | from | says | cases | " + " | ".join(titles) + " |")
    lines.append("|---|---|---|--:|" + "---|" * len(titles))
    for name in _rules(reports):
        rule = rules[name]
        number = sum(name in finding.case.rules for finding in reports[0].findings)
        cells = " | ".join(cell(report.of_rule(name)) for report in reports)
        lines.append(f"| {name} | {rule.origin} | {rule.says} | {number} | {cells} |")
    for title, report in zip(titles, reports, strict=True):
        if report.differences():
            lines += ["", f"## Where {title} differs", ""]
            lines += list(_reasons(report, known.get(report.tool, ())))
    return "\n".join(lines) + "\n"


def _reasons(report: Report, known: Sequence[Known]) -> Iterator[str]:
    yield "| rule | because | cases |"
    yield "|---|---|---|"
    left = report.differences()
    for one in known:
        covered = [finding for finding in left if one.covers(finding.case)]
        left = [finding for finding in left if finding not in covered]
        if covered:
            yield f"| {one.rule} | {one.why} | {_ids(finding.case for finding in covered)} |"
    if left:
        yield f"| | not traced yet | {_ids(finding.case for finding in left)} |"


def _ids(cases: Iterator[Case]) -> str:
    names = [f"`{case.id}`" for case in cases]
    if len(names) <= 4:
        return ", ".join(names)
    return f"{', '.join(names[:3])} and {len(names) - 3} more"


def _rules(reports: Sequence[Report]) -> list[str]:
    return rule_order(
        rule for report in reports for finding in report.findings for rule in finding.case.rules
    )
