"""Results of builds, edits and checks of a project, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.operations.abi_bounds import AbiBoundsReport, verdict_in_words
from wheelfit.operations.text import columns
from wheelfit_runtime.wording import count_of, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wheelfit.building.front_end.build_orders import BuiltWheel, TunedParts
    from wheelfit.building.provider_guide import Guide
    from wheelfit.building.wheel_results import WheelResult
    from wheelfit.cli.output import Output, Style
    from wheelfit.operations.build import BuildReport
    from wheelfit.operations.init import InitReport
    from wheelfit.operations.matrix import MatrixReport
    from wheelfit.operations.wheel_tests import WheelTestsReport


FAILURES = 9
"""The exit code if some jobs failed."""


def show_build(report: BuildReport, output: Output) -> int:
    """Print the wheels that were built, and return the exit code."""
    for warning in report.warnings:
        output.warn(warning)
    wheels = report.by_filename
    for path in report.files:
        wheel = wheels.get(path.name)
        output.report(str(path), "good")
        if wheel is not None and wheel.label is not None:
            output.report(f"  {wheel.properties or 'no properties'}")
            output.report(f"  {_build_details(wheel)}", "dim")
            if tuning := _tuning(wheel.tuned):
                output.report(f"  {tuning}", "dim")
    return _show_jobs(report, output) if report.results else 0


def show_tests(report: WheelTestsReport, output: Output) -> int:
    """Print the result and relative time of each wheel, and return the exit code."""
    rows = []
    for result in report.results:
        seconds = "" if result.seconds is None else f"{result.seconds:.1f} s"
        ratio = report.relative_time(result)
        ratio_text = "" if ratio is None or result.label is None else f"{ratio:.2f}"
        rows.append(
            (
                result.label or "plain",
                result.state,
                _test_machine(result),
                seconds,
                ratio_text,
                result.filename,
            )
        )
    for line in columns(("label", "tests", "on", "time", "× plain", "wheel"), rows, output.width):
        output.report(line)
    for result in report.results:
        if result.reason:
            output.report(
                f"{result.filename} {result.state.replace('-', ' ')}: {result.reason}", "warning"
            )
        elif result.state == "failed":
            output.report(f"{result.filename} failed with {result.exit_code}: {result.log}", "bad")
    return report.exit_code


def _test_machine(result: WheelResult) -> str:
    words = {"machine": "this machine", "described": "a described machine"}
    return f"QEMU {result.cpu}" if result.cpu else words.get(result.how or "", "")


def _build_details(wheel: BuiltWheel) -> str:
    parts = [f"converted from a plain wheel of {wheel.backend}"]
    if wheel.flags:
        parts.append(" ".join(wheel.flags))
    parts += [
        f"{namespace}: {provider}" for namespace, provider in wheel.validators.items() if provider
    ]
    return "; ".join(parts)


def _tuning(tuned: TunedParts) -> str:
    """Return the parts of a variant that differ from the plain wheel; empty where unknown."""
    parts = []
    if tuned.changed:
        parts.append(f"compiled for it: {listed(tuned.changed)}")
    if tuned.unchanged:
        parts.append(f"as in the plain wheel: {listed(tuned.unchanged)}")
    if crates := tuned.crates:
        parts.append(f"Rust: {crates.tuned} of {count_of(crates.total, 'crate')}")
    return "; ".join(parts)


def _show_jobs(report: BuildReport, output: Output) -> int:
    """Print errors of jobs and their counts, and return the exit code."""
    results = report.results
    # Jobs that failed for the same reason have equal errors, of which one is shown.
    errors = {
        str(result.error.parts()): result.error for result in results if result.error is not None
    }
    if not output.json:
        for error in errors.values():
            output.error(error)
    skipped = sorted({result.job.platform for result in results if result.status == "skipped"})
    words = {
        "built": "built",
        "kept": "kept from before",
        "failed": "failed",
        "skipped": f"for other platforms ({', '.join(skipped)})",
    }
    counts = {status: sum(result.status == status for result in results) for status in words}
    parts = [f"{count} {words[status]}" for status, count in counts.items() if count]
    output.remark(", ".join(parts), "bad" if counts["failed"] else "good")
    return FAILURES if counts["failed"] else 0


def show_matrix(report: MatrixReport, output: Output) -> None:
    """Print the wheels of each Python and platform."""
    rows: dict[tuple[str, str], list[str]] = {}
    for job in report.jobs:
        rows.setdefault((job.platform, job.python), []).append(job.label or "(plain)")
    cells = [(*target, ", ".join(labels)) for target, labels in rows.items()]
    output.table(("Platform", "Python", "Wheels"), cells)
    output.remark(f"{count_of(len(report.jobs), 'wheel')} of {report.name}")


def show_guides(guides: Sequence[Guide], output: Output) -> None:
    """Print the guides to namespaces."""
    output.result_json({"version": 1, "namespaces": [guide.to_mapping() for guide in guides]})
    for guide in guides:
        for line in guide.lines():
            output.result(line)
        output.result()


def show_edits(report: InitReport, output: Output, *, is_diff_shown: bool = False) -> None:
    """Print the edits, done or planned.

    :param is_diff_shown: whether the difference was printed before.
    """
    if not report.is_changed:
        output.report(f"{report.path} is up to date", "good")
        return
    if not is_diff_shown:
        show_diff(report.diff, output)
    if not report.is_written:
        output.report("nothing is written")
        return
    output.report(f"{report.path} is written", "good")
    if report.has_variants:
        output.remark("`wheelfit build --all` builds the variants it names", "dim")


def show_diff(diff: Sequence[str], output: Output) -> None:
    """Print the lines of a difference."""
    styles: dict[str, Style] = {"+": "good", "-": "bad", "@": "dim"}
    if output.verbosity >= 0:
        for line in diff:
            output.result(line, styles.get(line[:1], "plain"))


def show_bounds(report: AbiBoundsReport, output: Output) -> None:
    """Print the releases that a consumer works with."""
    for line in _bounds_lines(report):
        output.result(line)
    for note in report.bounds.notes:
        output.remark(f"note: {note}")


def _bounds_lines(report: AbiBoundsReport) -> Iterator[str]:
    bounds, feature = report.bounds, report.feature
    symbols = f"{count_of(len(bounds.symbols), 'symbol')} of {', '.join(bounds.libraries)}"
    yield f"{report.consumer.name} uses {bounds.interface or symbols}"
    for release in bounds.releases:
        yield f"  {verdict_in_words(release)}"
    if feature:
        yield "properties:"
        yield from (f"  {report.namespace} :: {feature} :: {value}" for value in bounds.values)
        yield f"requirement: {report.project}{bounds.requirement}"
    else:
        yield f"values: {', '.join(bounds.values)}"
        yield f"versions: {bounds.requirement}"
