"""Check wheels, index files, folders of them, and what is published.

Everything that is wrong is said at once, with the place, the rule and what to do. A TARGET is a
wheel, a *-variants.json or variant.json file, a folder (searched with all folders in it), a URL of
such a file, or a project of an index: `torch`, `torch==2.8.0`. --environment looks at what is
installed instead, or as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options import add_environment, add_machine, add_sources, given

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from wheelfit.check.findings import Finding, Report, Unchecked
    from wheelfit.check.profile import Profile
    from wheelfit.cli.output import Output, Style
    from wheelfit.core.requirements import Requirement
    from wheelfit.sources.progress import Progress

FAULTS = 9
"""The exit code when something is wrong."""
INCOMPLETE = 10
"""The exit code when something could not be checked."""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "targets",
        nargs="*",
        type=given,
        metavar="TARGET",
        help="a wheel, an index file, a folder, a URL, or a project of an index (name==version)",
    )
    parser.add_argument(
        "--environment",
        action="store_true",
        help="check the installed variants too: whether they still fit",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="compare all content with RECORD and with the hashes on pages",
    )
    parser.add_argument(
        "--profile",
        action="append",
        default=[],
        choices=("uv", "pypi"),
        help="rules of a tool besides: of uv 0.13.8, or of the public registry",
    )
    parser.add_argument("--strict", action="store_true", help="let warnings count as faults")
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="CODE",
        help="leave out the findings of a check",
    )
    parser.add_argument(
        "--sarif", action="store_true", help="write the report as SARIF 2.1.0, for code review"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=given,
        metavar="FILE",
        help="write the report to a file too, in the form asked for",
    )
    add_sources(parser)
    add_environment(parser)
    add_machine(parser)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Check the targets; the exit code is 9 for faults and 10 if something was left unchecked."""
    from wheelfit.check.checks import CHECKS
    from wheelfit.errors import UsageError

    if arguments.sarif and arguments.json:
        raise UsageError("--sarif and --json are two forms of one report", hint="choose one")
    if not arguments.targets and not arguments.environment:
        raise UsageError("there is nothing to check", hint="name a TARGET, or --environment")
    for code in arguments.ignore:
        if code not in CHECKS:
            raise UsageError(f"there is no check {code!r}", hint=_suggestion(code, CHECKS))
    report = _check(arguments, output, environ).without(arguments.ignore)
    _deliver(report, arguments, output)
    if report.unchecked:
        return INCOMPLETE
    return FAULTS if _is_faulty(report, strict=arguments.strict) else 0


def _suggestion(code: str, known: Mapping[str, object]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(code, known, n=1)
    return f"did you mean {close[0]!r}?" if close else "docs/reference/checks.md lists them"


def _is_faulty(report: Report, *, strict: bool) -> bool:
    from wheelfit.check.findings import Severity

    counted = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return report.worst() in counted


# --- checking -----------------------------------------------------------------------------


def _check(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> Report:
    from pathlib import Path

    from wheelfit.check.findings import Report
    from wheelfit.check.local import check_paths
    from wheelfit.check.profile import Profile

    profiles = frozenset(map(Profile, arguments.profile))
    paths: list[Path] = []
    urls: list[str] = []
    projects: list[Requirement] = []
    for text in arguments.targets:
        if text.startswith(("https://", "http://")):
            urls.append(text)
        elif (project := _project(text)) is not None:
            projects.append(project)
        else:
            paths.append(Path(text))
    report = Report()
    if paths:
        with _Bar(output, "checking") as bar:
            report += check_paths(paths, full=arguments.full, profiles=profiles, progress=bar)
    if urls or projects:
        report += _published(arguments, output, environ, urls, projects, profiles)
    if arguments.environment:
        report += _installed(arguments, output, environ)
    return report


def _project(text: str) -> Requirement | None:
    """Return the project that a target names; None if it is a path.

    What exists on this machine is a path, and so is what looks like one.
    """
    from pathlib import Path

    from wheelfit.core.requirements import parse_requirement
    from wheelfit.errors import InvalidRequirement, UsageError

    if text.endswith((".whl", ".json", ".html")) or set(text) & set("/\\") or Path(text).exists():
        return None
    try:
        requirement = parse_requirement(text, allow_variant_markers=False)
    except InvalidRequirement:
        return None
    if requirement.url or requirement.marker or requirement.extras:
        raise UsageError(
            f"{text!r} is no target: name a project, or one with versions",
            hint="as torch or torch==2.8.0",
        )
    return requirement


def _published(
    arguments: Namespace,
    output: Output,
    environ: Mapping[str, str],
    urls: Sequence[str],
    projects: Sequence[Requirement],
    profiles: frozenset[Profile],
) -> Report:
    from datetime import UTC, datetime

    from wheelfit.check.findings import Report
    from wheelfit.check.remote import check_project, check_url
    from wheelfit.cli.indexes import open_indexes, read_settings

    settings = read_settings(arguments, environ)
    report = Report()
    with open_indexes(arguments, settings, environ, output, urls) as repository:
        for url in urls:
            report += check_url(repository, url, full=arguments.full, profiles=profiles)
        for project in projects:
            with _Bar(output, project.name) as bar:
                report += check_project(
                    repository,
                    project.name,
                    project.specifier,
                    now=datetime.now(UTC),
                    full=arguments.full,
                    profiles=profiles,
                    progress=bar,
                )
    return report


def _installed(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> Report:
    from wheelfit.check.findings import Count, Report, Unchecked
    from wheelfit.check.installed import report_on
    from wheelfit.cli.environments import open_environment_of
    from wheelfit.cli.machine import choose_machine
    from wheelfit.install.fit import judge

    environment = open_environment_of(arguments, environ, must_exist=True)
    machine = choose_machine(arguments, environment.target(), environ, output)
    scan = environment.scan()
    broken = [Unchecked(str(one.path), "file-problem", one.reason) for one in scan.broken]
    judged = judge(scan.installed, machine.support)
    return report_on(judged) + Report.of((), broken, Count())


class _Bar:
    """Draw how far the work has come, on a terminal (it implements ``sources.progress.Progress``).

    :param output: decides whether to draw.
    :param what: what is done.
    """

    def __init__(self, output: Output, what: str) -> None:
        self._output = output
        self._what = what
        self._rich: RichProgress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Progress:
        if self._output.animate:
            from rich.progress import TextColumn, TimeRemainingColumn

            from wheelfit.cli.progress import start_bars

            columns = (TextColumn("{task.percentage:>3.0f}%"), TimeRemainingColumn())
            self._rich = start_bars(self._output, *columns)
        return self

    def __exit__(self, *_: object) -> None:
        if self._rich is not None:
            self._rich.stop()

    def start(self, total: int | None) -> None:
        """Begin."""
        if self._rich is not None:
            self._task = self._rich.add_task(self._what, total=total)

    def rest_is_here(self, size: int) -> None:
        """Tell nothing of it: all is read."""

    def advance(self, count: int) -> None:
        """Get on."""
        if self._rich is not None and self._task is not None:
            self._rich.advance(self._task, count)

    def done(self) -> None:
        """End well."""

    def unpacking(self, total: int) -> Progress:  # noqa: ARG002
        """Tell nothing more: what is checked is not unpacked."""
        return self


# --- saying -------------------------------------------------------------------------------


def _deliver(report: Report, arguments: Namespace, output: Output) -> None:
    """Write the report where it is wanted."""
    import json

    mapping = _mapping(report, arguments)
    lines = _lines(report, verbose=output.verbosity > 0, quiet=output.verbosity < 0)
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
        from wheelfit.cli.files import write_atomically

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


def _lines(report: Report, *, verbose: bool, quiet: bool = False) -> list[tuple[str, Style]]:
    """Return the report for people, grouped by file."""
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
    found = ", ".join(_count(number, word) for number, word in counts if number) or "no faults"
    count = report.count
    parts = [
        _count(number, word)
        for number, word in (
            (count.wheels, "wheel"),
            (count.index_files, "index file"),
            (count.releases, "release"),
            (count.installed, "installed variant"),
        )
        if number
    ]
    text = f"{found} in {', '.join(parts)}" if parts else found
    if report.unchecked:
        left = _count(len(report.unchecked), "target")
        return f"{text}; {left} could not be checked"
    return text


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
