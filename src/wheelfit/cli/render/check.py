"""Reports of checks, as text, JSON or SARIF, with the exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.errors import UsageError
from wheelfit.operations.text import in_one_line
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from wheelfit.checking.findings import Finding, Report, UncheckedTarget
    from wheelfit.cli.output import Output, Style
    from wheelfit.operations.check import CheckReport

FAULTS = 9
"""The exit code for faults."""
INCOMPLETE = 10
"""The exit code for unchecked targets."""


def exit_code(report: Report, *, strict: bool) -> int:
    """Return 10 if a target was left unchecked, 9 for faults, else 0."""
    if report.unchecked:
        return INCOMPLETE
    return FAULTS if report.has_faults(strict=strict) else 0


def check_forms(*, sarif: bool, output: Output) -> None:
    """Check that a report is not requested as SARIF and as JSON.

    :raises UsageError: it is.
    """
    if sarif and output.json:
        raise UsageError("--sarif and --json exclude each other", hint="choose one")


def show_check(
    report: CheckReport, output: Output, *, sarif: bool = False, file: str | None = None
) -> None:
    """Print a report, and write it into a file, if one is named.

    :param sarif: whether to write SARIF: into the file, or without one to standard output.
    :param file: path of the file; None: standard output only.
    """
    import json

    mapping = report.to_json()
    findings = report.findings
    lines = report_lines(findings, verbose=output.verbosity > 0, quiet=output.verbosity < 0)
    text = ""
    if sarif:
        text = json.dumps(report.to_sarif(), indent=2) + "\n"
    elif file and output.json:
        text = json.dumps(mapping, indent=2, ensure_ascii=False) + "\n"
    elif file:
        text = "\n".join([*(output.styled(line, "plain") for line, _ in lines), ""])
    if file:
        from wheelfit.operations.files import write_atomically

        write_atomically(file, text.encode("utf-8", "replace"))
    elif sarif:
        output.result(text.rstrip("\n"))
        return
    output.result_json(mapping)
    for line, style in lines:
        output.paragraph(line, style)
    if findings.counts.wheels and not report.full:
        output.detail("contents were not compared with RECORD and hashes; use --full to do that")


def show_findings(report: Report, output: Output) -> None:
    """Print findings and an empty line, if there are any."""
    if not report.findings and not report.unchecked:
        return
    verbosity = output.verbosity
    for line, style in report_lines(report, verbose=verbosity > 0, quiet=verbosity < 0):
        output.paragraph(line, style)
    output.result()


def report_lines(report: Report, *, verbose: bool, quiet: bool = False) -> list[tuple[str, Style]]:
    """Return the lines of a report as text, grouped by file."""
    from itertools import groupby

    lines: list[tuple[str, Style]] = []
    shown = [item for item in report.findings if not quiet or item.severity != "note"]
    for where, group in groupby(shown, key=lambda finding: finding.where):
        if lines:
            lines.append(("", "plain"))
        lines.append((in_one_line(where), "strong"))
        advised: set[tuple[str, str]] = set()
        for finding in group:
            lines += _finding_lines(finding)
            advice = (finding.code, finding.remedy)
            if verbose or advice not in advised:
                lines.append((f"          → {finding.remedy}", "dim"))
            advised.add(advice)
    for target in report.unchecked:
        if lines:
            lines.append(("", "plain"))
        lines += _unchecked_lines(target)
    if lines:
        lines.append(("", "plain"))
    return [*lines, (_summary(report), "plain")]


SEVERITY_STYLES: dict[str, Style] = {"error": "bad", "warning": "warning", "note": "dim"}


def _finding_lines(finding: Finding) -> list[tuple[str, Style]]:
    place = "/".join(part for part in (finding.member, finding.path) if part)
    line = f"line {finding.line}" if finding.line is not None and not finding.member else ""
    head = ", ".join(part for part in (line, place) if part)
    style = SEVERITY_STYLES[finding.severity.value]
    mark = f"  {finding.severity.value:<7} {finding.code} ({finding.rule})"
    return [
        (f"{mark}  {head}" if head else mark, style),
        (f"          {finding.message}", "plain"),
    ]


def _unchecked_lines(target: UncheckedTarget) -> list[tuple[str, Style]]:
    lines: list[tuple[str, Style]] = [
        (in_one_line(target.where), "strong"),
        (f"  not checked: {target.message} [{target.code}]", "bad"),
    ]
    return [*lines, (f"          → {target.hint}", "dim")] if target.hint else lines


def _summary(report: Report) -> str:
    severity_counts = report.severity_counts().items()
    findings = (
        ", ".join(count_of(number, word) for word, number in severity_counts if number)
        or "no faults"
    )
    counts = report.counts
    parts = [
        count_of(number, word)
        for number, word in (
            (counts.wheels, "wheel"),
            (counts.index_files, "index file"),
            (counts.releases, "release"),
            (counts.metadata_files, "metadata file"),
        )
        if number
    ]
    text = f"{findings} in {', '.join(parts)}" if parts else findings
    if not parts and not report.findings and not report.unchecked:
        text += ": no variants to check"
    if report.unchecked:
        left = count_of(len(report.unchecked), "target")
        return f"{text}; {left} could not be checked"
    return text
