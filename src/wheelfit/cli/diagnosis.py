"""What ``doctor`` found, for people and for programs; without what identifies the machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from shlex import quote
from textwrap import wrap
from typing import TYPE_CHECKING

from wheelfit import __version__
from wheelfit.check.findings import Finding, Severity
from wheelfit.cli.columns import columns
from wheelfit.cli.output import in_one_line
from wheelfit.doctor.diagnoses import DIAGNOSES, Area
from wheelfit.doctor.variables import variables_in
from wheelfit.install.environment import Kind
from wheelfit.platforms.features import Status
from wheelfit.wording import count_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from wheelfit.cli.output import Style
    from wheelfit.core.target import Target
    from wheelfit.doctor.environment import Contents
    from wheelfit.doctor.families import Build
    from wheelfit.doctor.process import Process
    from wheelfit.doctor.settings import Settings
    from wheelfit.doctor.timing import Asked
    from wheelfit.doctor.variables import Variable
    from wheelfit.install.environment import Environment
    from wheelfit.platforms.features import Detection
    from wheelfit.platforms.scrubbing import Scrubber

    Line = tuple[str, Style]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Hold everything that was looked at, and what was found."""

    machine: str
    """Which machine, in words."""
    findings: tuple[Finding, ...]
    scrubber: Scrubber
    host: Mapping[str, object] | None = None
    """Which host is judged for, as results say it; None: no other than the machine."""
    replayed: bool = False
    """Whether it is a captured machine, of whose interpreter nothing is known."""
    overrides: tuple[str, ...] = ()
    """What replaces or narrows what is detected, as ``NAME=value`` or an option."""
    target: Target | None = None
    environment: Environment | None = None
    detections: tuple[Detection, ...] = ()
    asked: tuple[Asked, ...] = ()
    """The child processes of detection."""
    settings: Settings | None = None
    """None where another machine is judged for, which has its own."""
    contents: Contents | None = None
    process: Process | None = None

    def reduced(self, *, only: Sequence[str], ignore: Sequence[str]) -> Diagnosis:
        """Return the same with fewer findings, in order: area, severity, place.

        :param only: codes that stay; empty: all.
        :param ignore: codes that go.
        """
        areas, severities = list(Area), list(Severity)
        kept = [
            one
            for one in self.findings
            if (not only or one.code in only) and one.code not in ignore
        ]
        kept.sort(
            key=lambda one: (areas.index(DIAGNOSES[one.code]), severities.index(one.severity))
        )
        return replace(self, findings=tuple(kept))


# --- for programs ----------------------------------------------------------------------------


def mapping_of(found: Diagnosis) -> dict[str, object]:
    """Return the report as plain data, for ``--json``.

    :param found: what was found.
    """
    scrub = found.scrubber.text
    return {
        "version": 1,
        "wheelfit": __version__,
        "machine": scrub(found.machine),
        "host": found.host,
        "overrides": [scrub(text) for text in found.overrides],
        "interpreter": None if found.target is None else _interpreter(found.target, scrub),
        "namespaces": {one.namespace: _detection(one, scrub) for one in found.detections},
        "processes": [
            {
                "name": one.name,
                "seconds": round(one.seconds, 6),
                "ending": str(one.ending),
                "code": one.code,
            }
            for one in found.asked
        ],
        "environment": _environment(found),
        "settings": None if found.settings is None else _settings(found.settings, scrub),
        "runtime": None if found.process is None else _process(found.process, scrub),
        "summary": summary_mapping(found.findings),
        "findings": [finding_mapping(one, scrub) for one in found.findings],
    }


def summary_mapping(findings: Sequence[Finding]) -> dict[str, int]:
    """Return how many findings there are of each severity."""
    return {
        f"{severity}s": sum(one.severity is severity for one in findings) for severity in Severity
    }


def finding_mapping(finding: Finding, scrub: Callable[[str], str] = str) -> dict[str, object]:
    """Return a finding as plain data.

    :param finding: of `wheelfit.doctor`.
    :param scrub: takes out what identifies the machine; default: nothing.
    """
    return {
        "severity": finding.severity.value,
        "area": DIAGNOSES[finding.code].value,
        "code": finding.code,
        "rule": finding.rule or None,
        "where": scrub(finding.where),
        "message": scrub(finding.message),
        "remedy": scrub(finding.remedy),
    }


def _interpreter(target: Target, scrub: Callable[[str], str]) -> dict[str, object]:
    environment = target.environment
    return {
        "path": scrub(target.name),
        "implementation": environment.get("implementation_name", ""),
        "version": str(target.python_full_version),
        "system": environment.get("platform_system", ""),
        "release": environment.get("platform_release", ""),
        "machine": environment.get("platform_machine", ""),
        "architecture": target.architecture,
        "libc": _libc(target),
        "tags": len(target.tags),
    }


def _detection(one: Detection, scrub: Callable[[str], str]) -> dict[str, object]:
    return {
        "status": str(one.status),
        "source": scrub(one.source),
        "provider_version": one.version,
        "seconds": round(one.seconds, 6),
        "features": [
            {"name": feature.name, "values": list(feature.values)} for feature in one.features
        ],
        "evidence": [
            {"source": scrub(entry.source), "value": scrub(entry.value)} for entry in one.evidence
        ],
        "warnings": [scrub(text) for text in one.warnings],
        "devices": [
            {"device": scrub(d.device), "feature": d.feature, "values": sorted(d.values)}
            for d in one.devices
        ],
    }


def _environment(found: Diagnosis) -> dict[str, object] | None:
    if found.environment is None or found.contents is None:
        return None
    packages = found.contents.packages
    return {
        "path": found.scrubber.text(found.environment.name),
        "virtual": found.environment.interpreter.virtual,
        "packages": len(packages),
        "variants": [
            {
                "name": one.name,
                "version": str(one.installed.version),
                "label": one.installed.label,
                "properties": [str(item) for item in one.installed.properties],
            }
            for one in packages
            if one.installed.label is not None
        ],
        "builds": [
            {
                "name": one.package.name,
                "version": str(one.package.installed.version),
                "cuda": [{"major": major, "known_by": sign} for major, sign in one.cuda.items()],
                "rocm": [
                    {"version": version, "known_by": sign} for version, sign in one.rocm.items()
                ],
                "cpu_only": one.cpu_only or None,
            }
            for one in found.contents.builds
            if one.cuda or one.rocm or one.cpu_only
        ],
    }


def _settings(settings: Settings, scrub: Callable[[str], str]) -> dict[str, object]:
    return {
        "variables": [
            {"name": one.name, "value": scrub(one.value), "meaning": one.meaning}
            for one in settings.variables
        ],
        "tools": [
            {"name": one.name, "path": scrub(one.path), "version": one.version or None}
            for one in (*settings.tools, *settings.toolkits)
        ],
    }


def _process(process: Process, scrub: Callable[[str], str]) -> dict[str, object]:
    return {
        "pid": process.mapped.pid,
        "program": process.mapped.program or None,
        "problem": process.mapped.problem or None,
        "variables": [
            {"name": one.name, "value": scrub(one.value), "meaning": one.meaning}
            for one in variables_in(dict(process.mapped.environ))
        ],
        "libraries": [
            {
                "soname": one.soname,
                "path": scrub(one.path),
                "family": one.library.family,
                "cuda_major": one.cuda_major,
                "version": one.version or None,
                "owner": scrub(one.owner),
                "deleted": one.file.deleted,
            }
            for one in process.libraries
        ],
    }


# --- for people ------------------------------------------------------------------------------

_STYLES: dict[str, Style] = {"error": "bad", "warning": "warning", "note": "dim"}
_STATUS: dict[Status, Style] = {
    Status.SUPPORTED: "good",
    Status.FAILED: "bad",
    Status.DISABLED: "warning",
}
_WIDTH = 66
"""How many characters of a summary are shown without ``--verbose``."""
_COLUMNS = 88
"""How wide the words of a finding are."""
_LIBC = re.compile(r"(manylinux|musllinux)_([0-9]+)_([0-9]+)_")


def lines_of(found: Diagnosis, *, verbose: bool, quiet: bool) -> list[Line]:
    """Return the report for people.

    :param found: what was found.
    :param verbose: with all evidence, and with notes.
    :param quiet: findings and summary only.
    """
    lines: list[Line] = []
    if not quiet:
        lines += _head(found)
        for title, section in (
            ("Machine", _machine_lines(found, verbose=verbose)),
            ("Environment", _environment_lines(found, verbose=verbose)),
            ("Variables", _variable_lines(found)),
            ("Process", _process_lines(found)),
        ):
            said = list(section)
            if said:
                lines += [("", "plain"), (title, "strong"), *said]
    shown = [one for one in found.findings if verbose or one.severity is not Severity.NOTE]
    if shown:
        if lines:
            lines += [("", "plain")]
        lines += [("Findings", "strong")]
        lines += [line for one in shown for line in finding_lines(one)]
    if lines:
        lines += [("", "plain")]
    lines += [summary_line(found.findings, verbose=verbose)]
    return [(in_one_line(found.scrubber.text(text)), style) for text, style in lines]


def _head(found: Diagnosis) -> Iterator[Line]:
    words = f"wheelfit {__version__}, {found.machine}"
    target = found.target
    if target is not None:
        environment = target.environment
        python = environment.get("platform_python_implementation", "Python")
        system = [
            environment.get(f"platform_{name}", "") for name in ("system", "release", "machine")
        ]
        parts = [f"{python} {target.python_full_version}"]
        if not found.replayed:  # the interpreter is not of that machine
            parts += [" ".join(filter(None, system)), _libc(target) or ""]
        words += f": {', '.join(part for part in parts if part)}"
    yield words, "strong"


def _libc(target: Target) -> str | None:
    """Return the C library that the tags speak of, as ``glibc 2.36``."""
    for tag in target.tags:
        if (match := _LIBC.match(tag.platform)) is not None:
            kind = "glibc" if match[1] == "manylinux" else "musl"
            return f"{kind} {match[2]}.{match[3]}"
    return None


def _machine_lines(found: Diagnosis, *, verbose: bool) -> Iterator[Line]:
    width = max((len(one.namespace) for one in found.detections), default=0)
    for one in found.detections:
        words = _clipped(_summary_of(one), verbose=verbose)
        style = "dim" if words == _ABSENT else _STATUS.get(one.status, "dim")
        head = f"  {one.namespace:<{width}}  {one.status:<9}  {_time(one.seconds):>8}"
        yield f"{head}  {words}", style
        if not verbose:
            continue
        version = f", knowledge of {one.version}" if one.version else ""
        yield f"      decided by {one.source}{version}", "dim"
        for feature in one.features:
            if feature.values != ("on",):
                yield f"      {feature.name}  {', '.join(feature.values)}", "dim"
        for device in one.devices:
            yield (
                f"      {device.device}: {device.feature} {', '.join(sorted(device.values))}",
                "dim",
            )
        for entry in one.evidence:
            for number, line in enumerate(entry.value.splitlines() or [""]):
                yield f"      {entry.source}: {line}" if not number else f"        {line}", "dim"
    for asked in found.asked:
        yield f"  asked {asked.name}: {asked}, {_time(asked.seconds)}", "dim"


def _summary_of(detection: Detection) -> str:
    """Say in a few words what a namespace supports, or why nothing."""
    if detection.status is not Status.SUPPORTED:
        said = list(detection.warnings)
        said += [
            one.value if one.source == "files" else f"{one.source}: {one.value}"
            for one in detection.evidence
        ]
        return said[0] if said else detection.source
    if all(feature.values == ("false",) for feature in detection.features):
        return _ABSENT
    flags = sum(feature.values == ("on",) for feature in detection.features)
    words = [
        f"{feature.name} {feature.values[0]}"
        for feature in detection.features
        if feature.values and feature.values != ("on",) and feature.name != _UPPER
    ]
    return ", ".join([*words, *([f"{flags} flags"] if flags else [])])


_ABSENT = "not here, which is supported too"
"""Where a provider supports a value that says that there is no device (P-150)."""
_UPPER = "cuda_version_upper_bound"
"""Follows from the lower one, and says nothing to people."""


def _clipped(text: str, *, verbose: bool) -> str:
    first, *rest = text.splitlines() or [""]
    if verbose:
        return first
    return f"{first[:_WIDTH]} …" if rest or len(first) > _WIDTH else first


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def _environment_lines(found: Diagnosis, *, verbose: bool) -> Iterator[Line]:
    environment, contents = found.environment, found.contents
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
    if found.settings is not None:
        for tool in (*found.settings.tools, *found.settings.toolkits):
            yield (
                f"  {tool.name:<12} {tool.path}{f'  {tool.version}' if tool.version else ''}",
                "dim",
            )


def _kind(environment: Environment) -> str:
    """Say what kind of environment it is."""
    interpreter = environment.interpreter
    if environment.kind is not Kind.ENVIRONMENT:
        return f"a folder, --{environment.kind}"
    if interpreter.virtual:
        return "a virtual environment"
    managed = interpreter.externally_managed is not None
    return "of another package manager" if managed else "no virtual environment"


def _signs(build: Build) -> Iterator[tuple[str, str]]:
    for major, sign in build.cuda.items():
        yield f"CUDA {major}", sign
    for version, sign in build.rocm.items():
        yield f"ROCm {version}", sign
    if build.cpu_only:
        yield "the CPU", build.cpu_only


def _variable_lines(found: Diagnosis) -> Iterator[Line]:
    variables: Sequence[Variable] = ()
    if found.settings is not None:
        variables = found.settings.variables
    elif found.process is not None:
        variables = variables_in(dict(found.process.mapped.environ))
    for one in variables:
        yield f"  {one.name}={one.value or '(empty)'}  ({one.meaning})", "plain"


def _process_lines(found: Diagnosis) -> Iterator[Line]:
    process = found.process
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
            f"CUDA {one.cuda_major}" if one.cuda_major else one.library.kind or one.library.family,
            one.version,
            one.owner,
            f"{one.path} (deleted)" if one.file.deleted else one.path,
        )
        for one in process.libraries
    ]
    for line in columns(("Library", "Of", "Version", "Owner", "File"), rows):
        yield f"  {line}", "plain"


def remedies_for(findings: Iterable[Finding], arguments: Namespace) -> Iterator[Finding]:
    """Name in each command that is advised the environment and the machine that were asked for.

    :param findings: what was found.
    :param arguments: the options of `environment.ENVIRONMENT` and `machine.MACHINE`.
    """
    given = {name: getattr(arguments, name) for name in ("python", "prefix", "target", "root")}
    place = "".join(f" --{name} {quote(value)}" for name, value in given.items() if value)
    host = f" --for {quote(arguments.host)}" if arguments.host else ""
    for finding in findings:
        remedy = re.sub(
            r"\bwheelfit (install|uninstall)(?= )",
            lambda verb: verb[0] + place + (host if verb[1] == "install" else ""),
            finding.remedy,
        )
        yield replace(finding, remedy=remedy)


def finding_lines(finding: Finding) -> Iterator[Line]:
    """Yield a finding for people.

    :param finding: of `wheelfit.doctor`.
    """
    mark = f"  {finding.severity.value:<7} {finding.code}"
    rule = f" ({finding.rule})" if finding.rule else ""
    yield f"{mark}{rule}  {finding.where}", _STYLES[finding.severity.value]
    for line in _wrapped(finding.message):
        yield f"          {line}", "plain"
    # A command stays in one line, so that it can be copied.
    command = finding.remedy.startswith("wheelfit ")
    for number, line in enumerate([finding.remedy] if command else _wrapped(finding.remedy)):
        yield f"          {'  ' if number else '→ '}{line}", "dim"


def _wrapped(text: str) -> list[str]:
    return wrap(text, _COLUMNS, break_long_words=False, break_on_hyphens=False) or [""]


def summary_line(findings: Iterable[Finding], *, verbose: bool) -> Line:
    """Return how much was found, in a line.

    :param findings: what was found.
    :param verbose: whether notes are shown.
    """
    counts = dict.fromkeys(Severity, 0)
    for one in findings:
        counts[one.severity] += 1
    said = [
        count_of(number, str(severity))
        for severity, number in counts.items()
        if number and severity is not Severity.NOTE
    ]
    words = ", ".join(said) or "nothing is wrong"
    notes = counts[Severity.NOTE]
    if notes:
        words += f"; {count_of(notes, 'note')}" + ("" if verbose else " (-v shows)")
    if counts[Severity.ERROR]:
        return words, "bad"
    return words, "warning" if counts[Severity.WARNING] else "good"
