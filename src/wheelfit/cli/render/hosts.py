"""Descriptions of machines, as text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit.cli.render.detections import shortened, show_detections

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wheelfit.cli.output import Output
    from wheelfit.core.host_difference import Difference
    from wheelfit.operations.host_descriptions import HostComparison, HostList, HostReport
    from wheelfit.operations.new_host import NewHost

_BEGINNING = re.compile(r"[a-z]+-(?:M\.m-)?")
_COLUMNS = 100


def show_host_list(report: HostList, output: Output, words: Sequence[str]) -> None:
    """Print the host files of the user and the parts of presets.

    :param words: what was looked for.
    """
    output.result_json(report.to_json())
    if report.own:
        output.result(f"your own, in {report.folder}", "strong")
        width = max(len(one.name) for one in report.own)
        for one in report.own:
            output.result(f"  {one.name:<{width}}  {one.about}")
        output.result()
    if report.presets:
        output.result("parts of presets, joined as cuda-12.8-sm90+cpu-x86_64-v3", "strong")
        for line in _preset_table(report):
            output.result(line)
    if not report.own and not report.presets:
        output.result(f"nothing is called {' '.join(words)}")


def show_host_report(report: HostReport, output: Output) -> None:
    """Print everything that is known of a machine."""
    output.result_json(report.to_json())
    host, file, target = report.host, report.host.file, report.target
    output.result(f"{host.name}: {host.words}" if host.words else host.name, "strong")
    in_use = "" if file.interpreter else " (the one in use; the file names none)"
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
            output.result(f"  {what:<12}{text}")
    for entry in file.providers:
        only = " ".join(filter(None, (entry.plugin_api, *entry.resolved)))
        if only:
            output.result(f"  {'only for':<12}{entry.namespace}: {only}")
    show_detections(report.detections, output, versions=True)


def show_comparison(report: HostComparison, output: Output) -> None:
    """Print what differs between two machines."""
    output.result_json(report.to_json())
    names = (report.left.name, report.right.name)
    alike = "" if report.differences else ": alike"
    output.result(f"{names[0]} and {names[1]}{alike}")
    for one in report.differences:
        for line in _lines(one, names, output):
            output.result(line)


def show_new_host(report: NewHost, output: Output) -> None:
    """Print where a new host file was written."""
    output.result_json(report.to_json())
    host = report.host
    output.result(f"wrote {report.path}: {host.words or host.file.origin or host.name}")
    output.say(f"use it anywhere: wheelfit install --for {report.name} …")


def _preset_table(report: HostList) -> Iterator[str]:
    """Yield the parts of presets by kind, those with the same meaning in one row."""
    from textwrap import wrap

    width = max(len(one.pattern) for one in report.presets)
    for kind, lines in report.presets_by_kind().items():
        rows: dict[str, list[str]] = {}
        for one in lines:
            rows.setdefault(one.words, []).append(one.pattern)
        yield f"{kind}:"
        for words, (first, *others) in rows.items():
            also = ", ".join(_BEGINNING.sub("", other, count=1) for other in others)
            text = f"{words}; also {also}" if also else words
            for number, part in enumerate(wrap(text, max(40, _COLUMNS - width - 4))):
                yield f"  {'' if number else first:<{width}}  {part}"


def _lines(one: Difference, names: tuple[str, str], output: Output) -> Iterator[str]:
    if len(one.left) < 2 and len(one.right) < 2:
        left, right = (" ".join(some) or "nothing" for some in (one.left, one.right))
        yield f"  {one.path}: {left} | {right}"
        return
    yield f"  {one.path}"
    for name, some in zip(names, (one.only_left, one.only_right), strict=True):
        if some:
            yield f"    only {name}: {shortened(some, output)}"
    if one.reordered:
        yield "    the rest stands in another order"
