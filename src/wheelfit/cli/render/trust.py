"""Trust in plugins, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.render.detections import shortened

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.trust import SwitchReport, TrustPlan, TrustReport, UntrustReport
    from wheelfit_runtime.platforms.features import Detection


def show_trust(report: TrustReport, output: Output, *, with_plan: bool) -> None:
    """Print what is trusted now.

    :param with_plan: whether to list the files, for one who was not shown them before.
    """
    output.result_json(report.to_json())
    if with_plan:
        for line in plan_lines(report.plan):
            output.result(line)
    entry = report.plan.entry
    output.result(f"trusted: {entry.package}{entry.versions}; written to {report.file}")
    if report.answer is not None:
        _show_answer(report.answer, output)


def show_untrust(report: UntrustReport, output: Output) -> None:
    """Print what is not trusted any more."""
    output.result_json(report.to_json())
    output.result(f"not trusted any more: {', '.join(report.packages)}")
    for folder in report.removed:
        output.note(f"removed {folder}")


def show_switch(report: SwitchReport, output: Output) -> None:
    """Print which providers were switched."""
    output.result_json(report.to_json())
    switched = "enabled" if report.on else "disabled"
    output.result(f"{switched}: {', '.join(report.namespaces)}; written to {report.file}")


def plan_lines(plan: TrustPlan) -> list[str]:
    """Return the lines about what would be trusted."""
    entry = plan.entry
    lines = [f"{entry.package}{entry.versions} consists of"]
    for one in plan.wheels:
        file = one.pin.file
        size = "" if file.size is None else f", {file.size:,} bytes"
        when = f", uploaded {file.upload_time[:10]}" if file.upload_time else ""
        lines += [
            f"  {one.pin.name} {one.pin.version}",
            f"    file    {one.pin.filename.text}{size}{when}",
            f"    sha256  {one.sha256}",
            f"    from    {one.origin}",
        ]
    namespace = entry.namespace or "any namespace that names it"
    lines.append(f"It may answer for {namespace}, at {entry.plugin_api or 'any endpoint'}.")
    return lines


def _show_answer(answer: Detection, output: Output) -> None:
    output.result(f"{answer.source}: {answer.status}")
    values = {feature.name: feature.values for feature in answer.features}
    flags = [name for name, some in values.items() if some == ("on",)]
    for name, some in values.items():
        if name not in flags:
            output.result(f"  {name}  {shortened(some, output)}")
    if flags:
        output.result(f"  on  {shortened(flags, output)}")
    for one in answer.evidence:
        output.result(f"  evidence  {one.source}: {one.value}", "dim")
