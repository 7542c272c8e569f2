"""Diagnoses of machines, environments and processes, as text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wheelfit.cli.render.check import SEVERITY_STYLES
from wheelfit.cli.render.machines import STATUS_STYLES, status_in_words
from wheelfit.core.durations import duration_in_words
from wheelfit.operations.diagnosis import Diagnosis, SourcesReport, libc_of
from wheelfit.operations.text import columns, in_one_line
from wheelfit_runtime import __version__
from wheelfit_runtime.wording import count_of, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wheelfit.checking.findings import Finding
    from wheelfit.cli.output import Output, Style
    from wheelfit.doctor.accelerators import AcceleratorBuild
    from wheelfit.installation.environment import Environment
    from wheelfit.operations.indexes import ConfiguredSource
    from wheelfit.operations.owner_indexes import OwnerIndex
    from wheelfit_runtime.platforms.features import Detection

    Line = tuple[str, Style]


_WIDTH = 66
"""Characters of a summary that are shown without ``--verbose``."""


def show_diagnosis(diagnosis: Diagnosis, output: Output) -> None:
    """Print a diagnosis."""
    for line, style in _lines(diagnosis, verbose=output.verbosity > 0, quiet=output.verbosity < 0):
        _print(line, style, output)


def _print(line: str, style: Style, output: Output) -> None:
    text = line.lstrip(" ")
    if text.startswith("→ wheelfit "):  # a command stays in one line, so that it can be copied
        output.result(line, style)
    else:
        _, gap, last_column = text.rpartition("  ")
        if gap:  # the line has columns, and continues below the last one
            hang = len(text) - len(last_column)
        elif text.startswith("→"):  # a remedy continues behind its arrow
            hang = 2
        else:
            hang = 0
        output.paragraph(line, style, hang)


def _lines(diagnosis: Diagnosis, *, verbose: bool, quiet: bool) -> list[Line]:
    """Return the lines of the report.

    :param quiet: findings and summary only.
    """
    lines: list[Line] = []
    if not quiet:
        lines += _head(diagnosis)
        for title, section in (
            ("Machine", _machine_lines(diagnosis, verbose=verbose)),
            ("Environment", _environment_lines(diagnosis, verbose=verbose)),
            ("Variables", _variable_lines(diagnosis)),
            ("Sources", ((f"  {line}", "plain") for line in _source_lines(diagnosis.sources))),
            ("Process", _process_lines(diagnosis)),
        ):
            section_lines = list(section)
            if section_lines:
                lines += [("", "plain"), (title, "strong"), *section_lines]
    findings = [finding for finding in diagnosis.findings if verbose or finding.severity != "note"]
    if findings:
        if lines:
            lines += [("", "plain")]
        lines += [("Findings", "strong")]
        lines += [line for finding in findings for line in finding_lines(finding)]
    if lines:
        lines += [("", "plain")]
    lines += [summary_line(diagnosis.findings, verbose=verbose)]
    return [(in_one_line(diagnosis.scrubber.text(text)), style) for text, style in lines]


def _source_lines(sources: SourcesReport) -> Iterator[str]:
    """Yield a line for each source of files, and lines about indexes of projects' owners."""
    yield from source_lines(sources.configured)
    reasons: dict[str, list[str]] = {}
    for owner in sources.owners:
        reasons.setdefault(owner.reason, []).append(owner.family)
    for reason, families in reasons.items():
        names = listed(list(dict.fromkeys(families)))
        if reason:
            yield f"owners' indexes are not used for {names}: {reason}"
            continue
        yield (
            f"owners' indexes replace the registry for {names} "
            "(the setting bridges = [] turns this off)"
        )
    for build in sources.builds:
        yield f"{build.name} {build.version} ({build.build}) comes from {build.place}"


def source_lines(sources: Sequence[ConfiguredSource]) -> Iterator[str]:
    """Yield a line for each source of files."""
    for source in sources:
        words = [f"{source.kind} {source.url}"]
        if source.name not in ("", source.url):
            words[0] += f" ({source.name})"
        if source.pins:
            words.append(f"the only source of {', '.join(source.pins)}")
        if source.is_explicit:
            words.append("explicit" if source.pins else "explicit, and no project is pinned to it")
        yield f"{', '.join(words)}: {source.origin}"


def owner_lines(owners: Sequence[OwnerIndex]) -> Iterator[str]:
    """Yield lines about projects that come from their owners' indexes, or the reasons if not."""
    reasons = {owner.reason for owner in owners}
    if len(reasons) == 1 and (reason := reasons.pop()):
        yield f"no owner's index is used: {reason}"
        return
    if owners:
        yield "owners' indexes replace the registry (the setting bridges = [] turns this off):"
    for owner in owners:
        verb, reason = (" is not used", f": {owner.reason}") if owner.reason else ("", "")
        yield f"  {owner.url}{verb} for {', '.join(owner.projects)}{reason}"


def _head(diagnosis: Diagnosis) -> Iterator[Line]:
    words = f"wheelfit {__version__}, {diagnosis.machine}"
    target = diagnosis.target
    if target is not None:
        environment = target.environment
        python = environment.get("platform_python_implementation", "Python")
        system = [
            environment.get(f"platform_{name}", "") for name in ("system", "release", "machine")
        ]
        parts = [
            f"{python} {target.python_full_version}",
            " ".join(filter(None, system)),
            libc_of(target),
        ]
        words += f": {', '.join(part for part in parts if part)}"
    yield words, "strong"


def _machine_lines(diagnosis: Diagnosis, *, verbose: bool) -> Iterator[Line]:
    width = max((len(detection.namespace) for detection in diagnosis.detections), default=0)
    for detection in diagnosis.detections:
        words = _clipped(_summary_of(detection), verbose=verbose)
        status = status_in_words(detection)
        duration = duration_in_words(detection.seconds)
        head = f"  {detection.namespace:<{width}}  {status:<9}  {duration:>8}"
        yield f"{head}  {words}", STATUS_STYLES.get(status, "dim")
        if not verbose:
            continue
        version = f", data of {detection.version}" if detection.version else ""
        yield f"      source: {detection.source}{version}", "dim"
        for feature in detection.features:
            if feature.values != ("on",):
                yield f"      {feature.name}  {', '.join(feature.values)}", "dim"
        for device in detection.devices:
            yield (
                f"      {device.device}: {device.feature} {', '.join(sorted(device.values))}",
                "dim",
            )
        for entry in detection.evidence:
            for number, line in enumerate(entry.value.splitlines() or [""]):
                yield f"      {entry.source}: {line}" if not number else f"        {line}", "dim"
    for probe in diagnosis.probes:
        yield f"  ran {probe.name}: {probe}, {duration_in_words(probe.seconds)}", "dim"


def _summary_of(detection: Detection) -> str:
    """Return the supported properties of a namespace in a few words, or why there are none."""
    if status_in_words(detection) != "supported":
        reasons = list(detection.warnings)
        reasons += [
            entry.value if entry.source == "files" else f"{entry.source}: {entry.value}"
            for entry in detection.evidence
        ]
        return reasons[0] if reasons else detection.source
    flag_count = sum(feature.values == ("on",) for feature in detection.features)
    words = [
        f"{feature.name} {feature.values[0]}"
        for feature in detection.features
        if feature.values and feature.values != ("on",) and feature.name != _UPPER_BOUND
    ]
    return ", ".join([*words, *([count_of(flag_count, "flag")] if flag_count else [])])


_UPPER_BOUND = "cuda_version_upper_bound"
"""A feature that is not shown, as it follows from the lower bound."""


def _clipped(text: str, *, verbose: bool) -> str:
    first, *rest = text.splitlines() or [""]
    if verbose:
        return first
    return f"{first[:_WIDTH]} …" if rest or len(first) > _WIDTH else first


def _environment_lines(diagnosis: Diagnosis, *, verbose: bool) -> Iterator[Line]:
    environment, contents = diagnosis.environment, diagnosis.contents
    if environment is None or contents is None:
        return
    interpreter = environment.interpreter
    yield f"  {environment.name} ({_kind(environment)})", "plain"
    variants = sum(package.installed.label is not None for package in contents.packages)
    words = f"  {count_of(len(contents.packages), 'package')}, {count_of(variants, 'variant')}"
    counts: dict[str, int] = {}
    for build in contents.builds:
        for text in (
            *(f"CUDA {major}" for major in build.cuda),
            *(f"ROCm {version}" for version in build.rocm),
        ):
            counts[text] = counts.get(text, 0) + 1
    words += "".join(f", {number} for {text}" for text, number in sorted(counts.items()))
    yield words, "plain"
    if verbose:
        yield f"  interpreter {interpreter.executable}, {len(interpreter.tags)} wheel tags", "dim"
        for build in contents.builds:
            for text, evidence in _evidence_of(build):
                yield f"  {build.package} for {text}: {evidence}", "dim"
    if diagnosis.settings is not None:
        for tool in (*diagnosis.settings.tools, *diagnosis.settings.toolkits):
            yield (
                f"  {tool.name:<12} {tool.path}{f'  {tool.version}' if tool.version else ''}",
                "dim",
            )


def _kind(environment: Environment) -> str:
    """Return the kind of the environment in words."""
    interpreter = environment.interpreter
    if environment.kind != "environment":
        return f"a folder, --{environment.kind}"
    if interpreter.virtual:
        return "a virtual environment"
    managed = interpreter.externally_managed is not None
    return "of another package manager" if managed else "no virtual environment"


def _evidence_of(build: AcceleratorBuild) -> Iterator[tuple[str, str]]:
    for major, evidence in build.cuda.items():
        yield f"CUDA {major}", evidence
    for version, evidence in build.rocm.items():
        yield f"ROCm {version}", evidence
    if build.cpu_evidence:
        yield "the CPU", build.cpu_evidence


def _variable_lines(diagnosis: Diagnosis) -> Iterator[Line]:
    for variable in diagnosis.variables:
        yield f"  {variable.name}={variable.value or '(empty)'}  ({variable.meaning})", "plain"


def _process_lines(diagnosis: Diagnosis) -> Iterator[Line]:
    process = diagnosis.process
    if process is None or process.mapped.problem:
        return
    name = f" ({process.mapped.program})" if process.mapped.program else ""
    number = len(process.libraries)
    words = count_of(number, "accelerator library", "accelerator libraries")
    yield (
        f"  process {process.mapped.pid}{name}: {words} of {len(process.mapped.files)} files",
        "plain",
    )
    rows = [
        (
            library.soname,
            f"CUDA {library.cuda_major}"
            if library.cuda_major
            else library.identity.kind or library.identity.family,
            library.version,
            library.owner,
            f"{library.path} (deleted)" if library.file.deleted else library.path,
        )
        for library in process.libraries
    ]
    for line in columns(("Library", "Of", "Version", "Owner", "File"), rows):
        yield f"  {line}", "plain"


def finding_lines(finding: Finding) -> Iterator[Line]:
    """Yield the lines of a finding."""
    prefix = f"  {finding.severity.value:<7} {finding.code}"
    rule = f" ({finding.rule})" if finding.rule else ""
    yield f"{prefix}{rule}  {finding.where}", SEVERITY_STYLES[finding.severity.value]
    for line in finding.message.splitlines() or [""]:
        yield f"          {line}", "plain"
    yield f"          → {finding.remedy}", "dim"


def summary_line(findings: Iterable[Finding], *, verbose: bool) -> Line:
    """Return the numbers of findings by severity, in a line."""
    counts = Counter(str(finding.severity) for finding in findings)
    faults = (severity for severity in ("error", "warning") if counts[severity])
    words = ", ".join(count_of(counts[fault], fault) for fault in faults) or "nothing is wrong"
    if counts["note"]:
        words += f"; {count_of(counts['note'], 'note')}" + ("" if verbose else " (shown with -v)")
    if counts["error"]:
        return words, "bad"
    return words, "warning" if counts["warning"] else "good"
