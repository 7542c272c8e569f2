"""Supported values of machines, and descriptions of machines, as text."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from wheelfit.cli.terminal import fold

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wheelfit.cli.output import Output, Style
    from wheelfit.core.host_difference import Difference
    from wheelfit.operations.host_descriptions import HostComparison, HostList, HostReport, NewHost
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.operations.probe import ProbeRecord, ProbeReport
    from wheelfit_runtime.platforms.features import Detection, Evidence


_MAX_SHOWN_VALUES = 6
"""Values of a long list that are shown without ``--verbose``."""
_MAX_EVIDENCE_WIDTH = 72
"""Characters of a piece of evidence that are shown without ``--verbose``."""
_DEVICE_NUMBER = re.compile(r"\b[\da-f]{2}\b|\d")
"""The parts that distinguish names of devices: numbers, and addresses on a bus."""
STATUS_STYLES: dict[str, Style] = {"supported": "good", "failed": "bad", "disabled": "warning"}
_LABEL_WIDTH = 10
"""Minimum width of the names of values, evidence and sources, in columns."""


def show_detections(
    detections: Sequence[Detection], output: Output, *, versions: bool = False
) -> None:
    """Print the supported values of each namespace, and their evidence.

    A namespace without values gets one line with the reason.

    :param output: the output; unless it is verbose, long lists are cut.
    :param versions: whether to name the version of each provider.
    """
    unavailable: list[Detection] = []
    for detection in detections:
        if output.verbosity <= 0 and _fits_on_one_line(detection):
            unavailable.append(detection)
        else:
            _print_detection(detection, output, versions=versions)
    if unavailable:
        output.result()
        output.result("not available on this machine:", "dim")
    width = max((len(detection.namespace) for detection in unavailable), default=0)
    for detection in unavailable:
        line = f"  {detection.namespace:<{width}}  {_reason(detection, output)}"
        output.paragraph(line, "dim", width + 2)


def _fits_on_one_line(detection: Detection) -> bool:
    """Return whether nothing is supported, and one line is enough for the reason."""
    return (
        status_in_words(detection) == "nothing"
        and not detection.warnings
        and len(detection.evidence) < 2
        and detection.plugin is None
    )


def status_in_words(detection: Detection) -> str:
    """Return the status of a namespace; "nothing" if only the absence of a device is supported."""
    features = detection.features
    if features and all(feature.values == ("false",) for feature in features):  # P-150
        return "nothing"
    return str(detection.status)


def _reason(detection: Detection, output: Output) -> str:
    for evidence in detection.evidence:
        value = _clipped(evidence.value, output)
        # Values of a preset or of the built-in providers from files need no source.
        needs_no_source = evidence.source in ("files", detection.source)
        return value if needs_no_source else f"{evidence.source}: {value}"
    return detection.source


def _print_detection(detection: Detection, output: Output, *, versions: bool) -> None:
    output.result()
    status = status_in_words(detection)
    output.result(f"{detection.namespace}: {status}", STATUS_STYLES.get(status, "dim"))
    output.paragraph(f"  {'source':<{_LABEL_WIDTH}}  {detection.source}", hang=_LABEL_WIDTH + 2)
    if versions and detection.version:
        output.result(f"  {'provider':<{_LABEL_WIDTH}}  {detection.version}")
    # One feature per CPU flag would fill the screen; together they are one line.
    flags = [feature.name for feature in detection.features if feature.values == ("on",)]
    shown = [feature for feature in detection.features if feature.name not in flags]
    width = max([_LABEL_WIDTH, *(len(feature.name) for feature in shown)])
    for feature in shown:
        text = shortened(feature.values, output)
        output.paragraph(f"  {feature.name:<{width}}  {text}", hang=width + 2)
    if flags:
        output.paragraph(f"  {'on':<{width}}  {shortened(flags, output)}", hang=width + 2)
    order = {feature.name: feature.values for feature in detection.features}
    for device in detection.devices:
        values = [value for value in order.get(device.feature, ()) if value in device.values]
        output.result(f"  {device.device}: {device.feature}  {shortened(values, output)}")
    for source, value in _observations(detection, output):
        output.paragraph(
            f"  {'evidence':<{_LABEL_WIDTH}}  {source}: {value}", "dim", _LABEL_WIDTH + 2
        )
    warn_of_detection(detection, output)


def _observations(detection: Detection, output: Output) -> Iterator[tuple[str, str]]:
    """Yield the evidence; equal evidence of several devices is merged."""

    def grouping_key(evidence: Evidence) -> object:
        return (
            evidence
            if output.verbosity > 0
            else (_DEVICE_NUMBER.sub("", evidence.source), evidence.value)
        )

    for _, group in groupby(detection.evidence, key=grouping_key):
        first, *others = group
        source = f"{first.source} … {others[-1].source}" if others else first.source
        count = f" ({len(others) + 1} in all)" if others else ""
        yield source, f"{_clipped(first.value, output)}{count}"


def warn_of_detection(detection: Detection, output: Output) -> None:
    """Print the warnings of a provider."""
    for warning in detection.warnings:
        output.warn(f"{detection.namespace}: {warning}")


def shortened(values: Sequence[str], output: Output) -> str:
    """Return a list on one line; a long one with its beginning, end and length."""
    if len(values) <= _MAX_SHOWN_VALUES + 2 or output.verbosity > 0:
        return ", ".join(values)
    return f"{', '.join(values[:_MAX_SHOWN_VALUES])}, … {values[-1]} ({len(values)} in all)"


def _clipped(text: str, output: Output) -> str:
    if output.verbosity > 0:
        return text
    first, *rest = text.splitlines() or [""]
    first = " ".join(first.split())
    return f"{first[:_MAX_EVIDENCE_WIDTH]} …" if rest or len(first) > _MAX_EVIDENCE_WIDTH else first


def show_probe(report: ProbeReport, output: Output) -> None:
    """Print the supported values of a machine."""
    output.result(_headline(report.machine), "strong")
    show_detections(report.detections, output)
    if report.record is not None:
        _show_record(report.record, output)


def show_host_file(report: ProbeReport, output: Output) -> None:
    """Print the host file of a machine."""
    for detection in report.detections:
        warn_of_detection(detection, output)
    output.result(report.host_file().rstrip("\n"))
    if report.record is not None:
        _show_record(report.record, output)


def _headline(machine: ChosenMachine) -> str:
    if machine.description:
        return f"{machine.name}: {machine.description}"
    values = machine.target.environment
    return (
        f"{machine.name}: {values['implementation_name']} {machine.target.python_full_version}"
        f" on {values['platform_system']} {values['platform_machine']}"
    )


def _show_record(record: ProbeRecord, output: Output) -> None:
    if record.is_new:
        output.remark(
            f"recorded this machine in {record.folder}; review the files before you send them, "
            f"and the result: `wheelfit probe --replay {record.folder}`"
        )
    for namespace in record.differing:
        when = "when replayed" if record.is_new else "than when it was recorded"
        output.warn(f"{namespace}: detection has another result {when}")


_PRESET_PREFIX = re.compile(r"[a-z]+-(?:M\.m-)?")


def show_host_list(report: HostList, output: Output, names: Sequence[str]) -> None:
    """Print the host files of the user and the parts of presets."""
    if report.own:
        output.result(f"your own, in {report.folder}", "strong")
        width = max(len(host.name) for host in report.own)
        for host in report.own:
            output.result(f"  {host.name:<{width}}  {host.about}")
        output.result()
    if report.presets:
        output.result("parts of presets, joined as cuda-12.8-sm90+cpu-x86_64-v3", "strong")
        for line in _preset_table(report, output.width):
            output.result(line)
    if not report.own and not report.presets:
        output.result(f"no host is named {' '.join(names)}")


def show_host_report(report: HostReport, output: Output) -> None:
    """Print the description of a machine."""
    host, file, target = report.host, report.host.file, report.target
    output.result(f"{host.name}: {host.description}" if host.description else host.name, "strong")
    in_use = "" if file.interpreter else " (the current one; the file has none)"
    implementation = target.environment["implementation_name"]
    rows = {
        "describes": file.origin,
        "created by": file.created_by,
        "interpreter": f"{implementation} {target.python_full_version}{in_use}",
        "platforms": shortened(report.platforms, output),
        "tags": f"{len(target.tags)} in all, the best is {next(iter(target.tags))}",
        "markers": ", ".join(
            f"{name} {value}" for name, value in sorted(file.environment.items()) if value
        ),
        "overrides": ", ".join(file.overrides),
    }
    for what, text in rows.items():
        if text:
            output.paragraph(f"  {what:<12}{text}", hang=12)
    for entry in file.providers:
        only = " ".join(filter(None, (entry.plugin_api, *entry.resolved)))
        if only:
            output.result(f"  {'only for':<12}{entry.namespace}: {only}")
    show_detections(report.detections, output, versions=True)


def show_comparison(report: HostComparison, output: Output) -> None:
    """Print the differences between two machines."""
    names = (report.left.name, report.right.name)
    alike = "" if report.differences else ": alike"
    output.result(f"{names[0]} and {names[1]}{alike}")
    for difference in report.differences:
        for line in _difference_lines(difference, names, output):
            output.result(line)


def show_new_host(report: NewHost, output: Output) -> None:
    """Print the path of a new host file."""
    host = report.host
    output.report(f"wrote {report.path}: {host.description or host.file.origin or host.name}")
    output.remark(f"use it anywhere: `wheelfit install --for {report.name} …`")


def _preset_table(report: HostList, columns: int | None) -> Iterator[str]:
    """Yield the parts of presets by kind; parts with the same meaning are one row."""
    width = max(len(preset.pattern) for preset in report.presets)
    for kind, lines in report.presets_by_kind().items():
        rows: dict[str, list[str]] = {}
        for line in lines:
            rows.setdefault(line.description, []).append(line.pattern)
        yield f"{kind}:"
        for words, (first, *others) in rows.items():
            also = ", ".join(_PRESET_PREFIX.sub("", other, count=1) for other in others)
            text = f"{words}; also {also}" if also else words
            yield fold(f"  {first:<{width}}  {text}", columns, width + 2)


def _difference_lines(
    difference: Difference, names: tuple[str, str], output: Output
) -> Iterator[str]:
    if len(difference.left) < 2 and len(difference.right) < 2:
        left = " ".join(difference.left) or "nothing"
        right = " ".join(difference.right) or "nothing"
        yield f"  {difference.path}: {left} | {right}"
        return
    yield f"  {difference.path}"
    for name, values in zip(names, (difference.only_left, difference.only_right), strict=True):
        if values:
            yield f"    only {name}: {shortened(values, output)}"
    if difference.is_reordered:
        yield "    the others are in another order"
