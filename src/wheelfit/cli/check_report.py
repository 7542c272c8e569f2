"""What was checked, as it is said: lines for people, JSON, SARIF, and the exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.wording import count_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Collection, Iterable

    from wheelfit.check.findings import Finding, Report, Unchecked
    from wheelfit.cli.output import Output, Style

FAULTS = 9
"""The exit code when something is wrong."""
INCOMPLETE = 10
"""The exit code when something could not be checked."""


def check_options(arguments: Namespace) -> None:
    """Refuse what cannot be meant, before anything is looked at.

    :param arguments: with those of `checking.REPORTING`.
    :raises UsageError: there are two forms of one report, or there is no such check.
    """
    from wheelfit.errors import UsageError

    if arguments.sarif and arguments.json:
        raise UsageError("--sarif and --json are two forms of one report", hint="choose one")
    check_ignored(arguments.ignore)


def check_ignored(codes: Iterable[str], more: Collection[str] = ()) -> None:
    """Refuse names of checks that there are not.

    :param codes: those whose findings are left out.
    :param more: codes that there are besides those of `wheelfit check`.
    :raises UsageError: there is no such check.
    """
    from wheelfit.check.checks import CHECKS
    from wheelfit.errors import UsageError

    known = {*CHECKS, *more}
    for code in codes:
        if code not in known:
            raise UsageError(f"there is no check {code!r}", hint=_suggestion(code, known))


def _suggestion(code: str, known: Collection[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(code, known, n=1)
    return f"did you mean {close[0]!r}?" if close else "docs/reference/checks.md lists them"


def exit_code(report: Report, *, strict: bool) -> int:
    """Return 10 if something was left unchecked, 9 for faults, else 0.

    :param report: what was found.
    :param strict: whether warnings count as faults.
    """
    from wheelfit.check.findings import Severity

    if report.unchecked:
        return INCOMPLETE
    counted = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return FAULTS if report.worst() in counted else 0


def deliver(report: Report, arguments: Namespace, output: Output) -> None:
    """Write a report where it is wanted.

    :param report: what was found.
    :param arguments: with those of `checking.REPORTING`.
    :param output: how to speak.
    """
    import json

    mapping = _mapping(report, arguments)
    lines = report_lines(report, verbose=output.verbosity > 0, quiet=output.verbosity < 0)
    text = ""
    if arguments.sarif:
        from pathlib import Path

        from wheelfit.check.sarif import to_sarif

        text = json.dumps(to_sarif(report, folder=Path.cwd()), indent=2) + "\n"
    elif arguments.json:
        text = json.dumps(mapping, indent=2, ensure_ascii=False) + "\n"
    elif arguments.output:
        text = "\n".join([*(output.styled(line, "plain") for line, _ in lines), ""])
    if arguments.output:
        from wheelfit.operations.files import write_atomically

        write_atomically(arguments.output, text.encode("utf-8", "replace"))
    elif arguments.sarif:
        output.result(text.rstrip("\n"))
        return
    output.result_json(mapping)
    for line, style in lines:
        output.result(line, style)
    if report.count.wheels and not arguments.full:
        output.detail("content was not compared with RECORD and hashes; --full does that")


def _mapping(report: Report, arguments: Namespace) -> dict[str, object]:
    from wheelfit.check.findings import Severity
    from wheelfit.sources.urls import redact

    return {
        "version": 1,
        "targets": [redact(target) for target in arguments.targets],
        "profiles": sorted(set(arguments.profile)),
        "full": arguments.full,
        "checked": {
            "wheels": report.count.wheels,
            "index_files": report.count.index_files,
            "releases": report.count.releases,
            "installed": report.count.installed,
        },
        "summary": {f"{severity}s": report.number(severity) for severity in Severity},
        "findings": [finding.to_mapping() for finding in report.findings],
        "unchecked": [one.to_mapping() for one in report.unchecked],
    }


def report_lines(report: Report, *, verbose: bool, quiet: bool = False) -> list[tuple[str, Style]]:
    """Return a report for people, grouped by file.

    :param report: what was found.
    :param verbose: repeat the remedy of a check for every finding.
    :param quiet: leave notes out.
    """
    from itertools import groupby

    from wheelfit.check.findings import Severity
    from wheelfit.cli.output import in_one_line

    lines: list[tuple[str, Style]] = []
    shown = [one for one in report.findings if not quiet or one.severity is not Severity.NOTE]
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
    for one in report.unchecked:
        if lines:
            lines.append(("", "plain"))
        lines += _unchecked_lines(one)
    if lines:
        lines.append(("", "plain"))
    return [*lines, (_summary(report), "plain")]


_STYLES: dict[str, Style] = {"error": "bad", "warning": "warning", "note": "dim"}


def _finding_lines(finding: Finding) -> list[tuple[str, Style]]:
    place = "/".join(part for part in (finding.member, finding.path) if part)
    line = f"line {finding.line}" if finding.line is not None and not finding.member else ""
    head = ", ".join(part for part in (line, place) if part)
    style = _STYLES[finding.severity.value]
    mark = f"  {finding.severity.value:<7} {finding.code} ({finding.rule})"
    return [
        (f"{mark}  {head}" if head else mark, style),
        (f"          {finding.message}", "plain"),
    ]


def _unchecked_lines(one: Unchecked) -> list[tuple[str, Style]]:
    from wheelfit.cli.output import in_one_line

    lines: list[tuple[str, Style]] = [
        (in_one_line(one.where), "strong"),
        (f"  not checked: {one.message} [{one.code}]", "bad"),
    ]
    return [*lines, (f"          → {one.hint}", "dim")] if one.hint else lines


def _summary(report: Report) -> str:
    from wheelfit.check.findings import Severity

    counts = [(report.number(severity), str(severity)) for severity in Severity]
    found = ", ".join(count_of(number, word) for number, word in counts if number) or "no faults"
    count = report.count
    parts = [
        count_of(number, word)
        for number, word in (
            (count.wheels, "wheel"),
            (count.index_files, "index file"),
            (count.releases, "release"),
            (count.installed, "installed variant"),
        )
        if number
    ]
    text = f"{found} in {', '.join(parts)}" if parts else found
    if not parts and not report.findings and not report.unchecked:
        text += ": there are no variants to look at"
    if report.unchecked:
        left = count_of(len(report.unchecked), "target")
        return f"{text}; {left} could not be checked"
    return text
