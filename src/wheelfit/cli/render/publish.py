"""Reports of published releases, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.render.check import FAULTS, exit_code, show_findings
from wheelfit.operations.sizes import size_words
from wheelfit.operations.text import columns
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.publish import PublishReport


def show_publish(report: PublishReport, output: Output) -> None:
    """Print what was found, every file with its state, and what was sent."""
    output.result_json(report.to_json())
    show_findings(report.found, output)
    rows = [
        (one.filename, size_words(one.size), report.state(one.filename))
        for one in report.outgoing.files
    ]
    for line in columns(("file", "size", "state"), rows):
        output.result(line)
    for forecast in report.forecasts:
        output.say(str(forecast), "dim")
    _show_end(report, output)
    if report.is_public and report.act is not None and report.act.sent:
        output.say("the registry takes more files for a release for 14 days only", "dim")


def publish_exit_code(report: PublishReport, *, strict: bool) -> int:
    """Return the exit code of a release: that of its findings, or 9 where files were refused.

    :param strict: whether warnings are faults too, and refused index files.
    """
    code = exit_code(report.found, strict=strict)
    if report.act is None:
        return code or (0 if report.dry_run else FAULTS)
    return code or (FAULTS if report.act.refused_index_files and strict else 0)


def _show_end(report: PublishReport, output: Output) -> None:
    act = report.act
    if act is None:
        output.result("nothing was sent", "plain" if report.dry_run else "bad")
        return
    if not act.sent:
        output.result(f"{report.to} has all of it already", "good")
        return
    files = count_of(len(act.sent), "file")
    if act.unlisted:
        words = f"{files} sent to {report.to}, which does not list {len(act.unlisted)}"
        output.result(words, "bad")
    elif not act.is_confirmed:
        words = f"{files} sent to {report.to}; whether it lists them could not be asked"
        output.result(words, "warning")
    else:
        how = "one by one" if report.way == "one-by-one" else "in one act"
        resumed = ", going on with what was sent before" if act.is_resumed else ""
        output.result(f"{files} published at {report.to} {how}{resumed}", "good")
