"""Diagnoses of machines, environments and processes, as text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wheelfit.cli.render.machines import status_in_words
from wheelfit.core.durations import duration_in_words
from wheelfit.operations.diagnosis import libc_of
from wheelfit.operations.text import columns, in_one_line
from wheelfit_runtime import __version__
from wheelfit_runtime.wording import count_of, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wheelfit.checking.findings import Finding
    from wheelfit.cli.output import Output, Style
    from wheelfit.doctor.accelerators import AcceleratorBuild
    from wheelfit.installation.environment import Environment
    from wheelfit.operations.check_environment import FitnessReport
    from wheelfit.operations.diagnosis import Diagnosis, SourcesReport
    from wheelfit.operations.indexes import ConfiguredSource
    from wheelfit.operations.owner_indexes import OwnerIndex
    from wheelfit_runtime.platforms.features import Detection

    Line = tuple[str, Style]


_STATUS: dict[str, Style] = {
    "supported": "good",
    "failed": "bad",
    "disabled": "warning",
}
_WIDTH = 66
"""Characters of a summary that are shown without ``--verbose``."""


def show_diagnosis(diagnosis: Diagnosis, output: Output) -> None:
    """Print the result of an examination."""
    output.result_json(diagnosis.to_json())
    for line, style in _lines(diagnosis, verbose=output.verbosity > 0, quiet=output.verbosity < 0):
        _print(line, style, output)


def _print(line: str, style: Style, output: Output) -> None:
    words = line.lstrip(" ")
    if words.startswith("→ wheelfit "):  # a command stays in one line, so that it can be copied
        output.result(line, style)
    else:
        # In a line of columns the last one has its own margin.
        _, gap, last = words.rpartition("  ")
        output.folded(line, style, len(words) - len(last) if gap else 2 * words.startswith("→"))


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
            ("Sources", ((f"  {line}", "plain") for line in _places(diagnosis.sources))),
            ("Process", _process_lines(diagnosis)),
        ):
            said = list(section)
            if said:
                lines += [("", "plain"), (title, "strong"), *said]
    shown = [finding for finding in diagnosis.findings if verbose or finding.severity != "note"]
    if shown:
        if lines:
            lines += [("", "plain")]
        lines += [("Findings", "strong")]
        lines += [line for one in shown for line in finding_lines(one)]
    if lines:
        lines += [("", "plain")]
    lines += [summary_line(diagnosis.findings, verbose=verbose)]
    return [(in_one_line(diagnosis.scrubber.text(text)), style) for text, style in lines]


def _places(sources: SourcesReport) -> Iterator[str]:
    """Yield a line for each place where files come from, and some on the indexes of owners."""
    yield from source_lines(sources.configured)
    reasons: dict[str, list[str]] = {}
    for owner in sources.owners:
        reasons.setdefault(owner.reason, []).append(owner.family)
    for reason, families in reasons.items():
        names = listed(list(dict.fromkeys(families)))
        if reason:
            yield f"indexes of owners do not count for {names}: {reason}"
            continue
        yield f"instead of the registry indexes of owners count for {names} (bridges = []: none)"
    problems = sources.problems
    if problems is not None:
        silent = {name: problem for name, problem in problems.items() if problem}
        yield from (f"the index of {name} does not answer: {silent[name]}" for name in silent)
        if answering := [name for name in problems if name not in silent]:
            yield f"indexes that answer: {listed(answering)}"
    for build in sources.builds:
        yield f"{build.name} {build.version} is the build {build.build} of {build.place}"


def source_lines(sources: Sequence[ConfiguredSource]) -> Iterator[str]:
    """Return a line for each place where files come from."""
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
    """Return lines on the projects for which the index of their owner is in effect, or why not."""
    reasons = {owner.reason for owner in owners}
    if len(reasons) == 1 and (reason := reasons.pop()):
        yield f"no index of an owner of projects counts: {reason}"
        return
    if owners:
        yield "instead of the registry the index of an owner counts (bridges = []: none):"
    for owner in owners:
        verb, why = (" does not count", f": {owner.reason}") if owner.reason else ("", "")
        yield f"  {owner.url}{verb} for {', '.join(owner.projects)}{why}"


def _head(diagnosis: Diagnosis) -> Iterator[Line]:
    words = f"wheelfit {__version__}, {diagnosis.machine}"
    target = diagnosis.target
    if target is not None:
        environment = target.environment
        python = environment.get("platform_python_implementation", "Python")
        system = [
            environment.get(f"platform_{name}", "") for name in ("system", "release", "machine")
        ]
        parts = [f"{python} {target.python_full_version}"]
        if not diagnosis.replayed:  # the interpreter is not of that machine
            parts += [" ".join(filter(None, system)), libc_of(target) or ""]
        words += f": {', '.join(part for part in parts if part)}"
    yield words, "strong"


def _machine_lines(diagnosis: Diagnosis, *, verbose: bool) -> Iterator[Line]:
    width = max((len(detection.namespace) for detection in diagnosis.detections), default=0)
    for detection in diagnosis.detections:
        words = _clipped(_summary_of(detection), verbose=verbose)
        status = status_in_words(detection)
        duration = duration_in_words(detection.seconds)
        head = f"  {detection.namespace:<{width}}  {status:<9}  {duration:>8}"
        yield f"{head}  {words}", _STATUS.get(status, "dim")
        if not verbose:
            continue
        version = f", knowledge of {detection.version}" if detection.version else ""
        yield f"      decided by {detection.source}{version}", "dim"
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
    for question in diagnosis.questions:
        duration = duration_in_words(question.seconds)
        yield f"  asked {question.name}: {question}, {duration}", "dim"


def _summary_of(detection: Detection) -> str:
    """Return the supported properties of a namespace in a few words, or the reason without any."""
    if status_in_words(detection) != "supported":
        said = list(detection.warnings)
        said += [
            one.value if one.source == "files" else f"{one.source}: {one.value}"
            for one in detection.evidence
        ]
        return said[0] if said else detection.source
    flags = sum(feature.values == ("on",) for feature in detection.features)
    words = [
        f"{feature.name} {feature.values[0]}"
        for feature in detection.features
        if feature.values and feature.values != ("on",) and feature.name != _UPPER
    ]
    return ", ".join([*words, *([f"{flags} flags"] if flags else [])])


_UPPER = "cuda_version_upper_bound"
"""Follows from the lower bound, so it is not shown."""


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
    variants = sum(one.installed.label is not None for one in contents.packages)
    words = f"  {count_of(len(contents.packages), 'package')}, {count_of(variants, 'variant')}"
    built: dict[str, int] = {}
    for build in contents.builds:
        for text in (
            *(f"CUDA {major}" for major in build.cuda),
            *(f"ROCm {v}" for v in build.rocm),
        ):
            built[text] = built.get(text, 0) + 1
    words += "".join(f", {number} for {text}" for text, number in sorted(built.items()))
    yield words, "plain"
    if verbose:
        yield f"  interpreter {interpreter.executable}, {len(interpreter.tags)} wheel tags", "dim"
        for build in contents.builds:
            for text, sign in _signs(build):
                yield f"  {build.package} for {text}: {sign}", "dim"
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


def _signs(build: AcceleratorBuild) -> Iterator[tuple[str, str]]:
    for major, sign in build.cuda.items():
        yield f"CUDA {major}", sign
    for version, sign in build.rocm.items():
        yield f"ROCm {version}", sign
    if build.cpu_only:
        yield "the CPU", build.cpu_only


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
            one.soname,
            f"CUDA {one.cuda_major}"
            if one.cuda_major
            else one.identity.kind or one.identity.family,
            one.version,
            one.owner,
            f"{one.path} (deleted)" if one.file.deleted else one.path,
        )
        for one in process.libraries
    ]
    for line in columns(("Library", "Of", "Version", "Owner", "File"), rows):
        yield f"  {line}", "plain"


def show_fitness(report: FitnessReport, output: Output) -> None:
    """Print the installed variants that fit, and the findings."""
    output.result_json(report.to_json())
    verbose = output.verbosity > 0
    for one in report.variants:
        if one.fits and verbose:
            output.result(f"  fits    {one.variant}", "dim")
    for finding in report.findings:
        if verbose or finding.severity != "note":
            for line, style in finding_lines(finding):
                _print(line, style, output)
    fitting = sum(one.fits is True for one in report.variants)
    output.note(f"{fitting} of {len(report.variants)} installed variants fit {report.machine.name}")
    output.result(*summary_line(report.findings, verbose=verbose))


_STYLES: dict[str, Style] = {"error": "bad", "warning": "warning", "note": "dim"}


def finding_lines(finding: Finding) -> Iterator[Line]:
    """Yield the lines of a finding."""
    mark = f"  {finding.severity.value:<7} {finding.code}"
    rule = f" ({finding.rule})" if finding.rule else ""
    yield f"{mark}{rule}  {finding.where}", _STYLES[finding.severity.value]
    for line in finding.message.splitlines() or [""]:
        yield f"          {line}", "plain"
    yield f"          → {finding.remedy}", "dim"


def summary_line(findings: Iterable[Finding], *, verbose: bool) -> Line:
    """Return the numbers of findings, in a line.

    :param verbose: whether notes are shown.
    """
    counts = Counter(str(finding.severity) for finding in findings)
    faults = (severity for severity in ("error", "warning") if counts[severity])
    words = ", ".join(count_of(counts[fault], fault) for fault in faults) or "nothing is wrong"
    if counts["note"]:
        words += f"; {count_of(counts['note'], 'note')}" + ("" if verbose else " (-v shows)")
    if counts["error"]:
        return words, "bad"
    return words, "warning" if counts["warning"] else "good"
