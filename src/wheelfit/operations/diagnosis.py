"""The result of a diagnosis, without data that identifies the machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wheelfit.checking.findings import Finding, Report, Severity
from wheelfit.doctor.diagnoses import DIAGNOSES, Area
from wheelfit.doctor.settings import ExaminedVariable, MachineSettings, variables_in
from wheelfit.operations.plain_data import detection_json, plain_fields
from wheelfit_runtime import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from wheelfit.core.target import Target
    from wheelfit.doctor.environment import EnvironmentContents
    from wheelfit.doctor.machine import TimedProbe
    from wheelfit.doctor.process import ExaminedProcess
    from wheelfit.installation.environment import Environment
    from wheelfit.operations.indexes import ConfiguredSource
    from wheelfit.operations.owner_indexes import OwnerBuild, OwnerIndex
    from wheelfit_runtime.platforms.features import Detection
    from wheelfit_runtime.platforms.scrubbing import Scrubber

_LIBC = re.compile(r"(manylinux|musllinux)_([0-9]+)_([0-9]+)_")


@dataclass(frozen=True, slots=True)
class SourcesReport:
    """The sources of files on a machine."""

    configured: tuple[ConfiguredSource, ...] = ()
    owners: tuple[OwnerIndex, ...] = ()
    """The indexes that publishers of projects run, used here or not."""
    builds: tuple[OwnerBuild, ...] = ()
    """The installed packages that are builds of such an index."""

    def to_json(self, scrub: Callable[[str], str]) -> dict[str, object]:
        """Return the keys of ``--json`` about sources.

        :param scrub: removes data that identifies the machine.
        """
        return {
            "sources": [
                {**source.to_json(), "url": scrub(source.url), "origin": scrub(source.origin)}
                for source in self.configured
            ],
            "owners": [
                {
                    **owner.to_json(),
                    "url": scrub(owner.url),
                    "reason": scrub(owner.reason) if owner.reason else None,
                }
                for owner in self.owners
            ],
            "owned": [{**build.to_json(), "place": scrub(build.place)} for build in self.builds],
        }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of an examination."""

    machine: str
    """A description of the machine."""
    findings: tuple[Finding, ...]
    scrubber: Scrubber
    host: Mapping[str, object] | None = None
    """The host that the results are for; None: this machine."""
    overrides: tuple[str, ...] = ()
    """Overrides and limits of detection, as ``NAME=value`` or an option."""
    target: Target | None = None
    environment: Environment | None = None
    detections: tuple[Detection, ...] = ()
    probes: tuple[TimedProbe, ...] = ()
    """The child processes of detection."""
    settings: MachineSettings | None = None
    """The relevant settings; None if the results are for another machine."""
    sources: SourcesReport = SourcesReport()
    """The sources of files on this machine, by settings and pip's configuration."""
    contents: EnvironmentContents | None = None
    process: ExaminedProcess | None = None

    def without(self, codes: Container[str]) -> Diagnosis:
        """Return the diagnosis without some kinds of findings, sorted by area and severity."""
        areas, severities = list(Area), list(Severity)
        kept = [finding for finding in self.findings if finding.code not in codes]
        kept.sort(
            key=lambda finding: (
                areas.index(DIAGNOSES[finding.code]),
                severities.index(finding.severity),
            )
        )
        return replace(self, findings=tuple(kept))

    @property
    def variables(self) -> Sequence[ExaminedVariable]:
        """The relevant environment variables, of this process or the examined one."""
        if self.settings is not None:
            return self.settings.variables
        return () if self.process is None else variables_in(dict(self.process.mapped.environ))

    def faulty_areas(self, *, strict: bool) -> set[str]:
        """Return the areas with faults."""
        faults = Report(self.findings).faults(strict=strict)
        return {str(DIAGNOSES[finding.code]) for finding in faults}

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        scrub = self.scrubber.text
        severities = Report(self.findings).severity_counts().items()
        return {
            "version": 1,
            "wheelfit": __version__,
            "machine": scrub(self.machine),
            "host": self.host,
            "overrides": [scrub(text) for text in self.overrides],
            "interpreter": None if self.target is None else _interpreter(self.target, scrub),
            "namespaces": {
                detection.namespace: _detection(detection, scrub) for detection in self.detections
            },
            "processes": [
                plain_fields(probe, "name ending code", seconds=round(probe.seconds, 6))
                for probe in self.probes
            ],
            "environment": _environment(self),
            "settings": None if self.settings is None else _settings(self.settings, scrub),
            **self.sources.to_json(scrub),
            "runtime": None if self.process is None else _process(self.process, scrub),
            "summary": {f"{severity}s": number for severity, number in severities},
            "findings": [_finding(finding, scrub) for finding in self.findings],
        }


def _finding(finding: Finding, scrub: Callable[[str], str]) -> dict[str, object]:
    """Return a finding as plain data.

    :param scrub: removes data that identifies the machine.
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


def libc_of(target: Target) -> str | None:
    """Return the C library of the wheel tags, such as ``glibc 2.36``; None where they have none."""
    for tag in target.tags:
        if (match := _LIBC.match(tag.platform)) is not None:
            kind = "glibc" if match[1] == "manylinux" else "musl"
            return f"{kind} {match[2]}.{match[3]}"
    return None


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
        "libc": libc_of(target),
        "tags": len(target.tags),
    }


def _detection(detection: Detection, scrub: Callable[[str], str]) -> dict[str, object]:
    facts = detection_json(detection, scrub)
    del facts["plugin"]
    return {**facts, "seconds": round(detection.seconds, 6)}


def _environment(diagnosis: Diagnosis) -> dict[str, object] | None:
    if diagnosis.environment is None or diagnosis.contents is None:
        return None
    packages = diagnosis.contents.packages
    return {
        "path": diagnosis.scrubber.text(diagnosis.environment.name),
        "virtual": diagnosis.environment.interpreter.virtual,
        "packages": len(packages),
        "variants": [
            plain_fields(
                package.installed,
                "version label",
                name=package.name,
                properties=list(map(str, package.installed.properties)),
            )
            for package in packages
            if package.installed.label is not None
        ],
        "builds": [
            {
                "name": build.package.name,
                "version": str(build.package.installed.version),
                "cuda": [
                    {"major": major, "known_by": evidence} for major, evidence in build.cuda.items()
                ],
                "rocm": [
                    {"version": version, "known_by": evidence}
                    for version, evidence in build.rocm.items()
                ],
                "cpu_only": build.cpu_evidence or None,
            }
            for build in diagnosis.contents.builds
            if build.cuda or build.rocm or build.cpu_evidence
        ],
    }


def _settings(settings: MachineSettings, scrub: Callable[[str], str]) -> dict[str, object]:
    return {
        "variables": _variables(settings.variables, scrub),
        "tools": [
            {"name": tool.name, "path": scrub(tool.path), "version": tool.version or None}
            for tool in (*settings.tools, *settings.toolkits)
        ],
    }


def _variables(
    variables: Iterable[ExaminedVariable], scrub: Callable[[str], str]
) -> list[dict[str, object]]:
    return [
        {"name": variable.name, "value": scrub(variable.value), "meaning": variable.meaning}
        for variable in variables
    ]


def _process(process: ExaminedProcess, scrub: Callable[[str], str]) -> dict[str, object]:
    return {
        "pid": process.mapped.pid,
        "program": process.mapped.program or None,
        "problem": process.mapped.problem or None,
        "variables": _variables(variables_in(dict(process.mapped.environ)), scrub),
        "libraries": [
            {
                "soname": library.soname,
                "path": scrub(library.path),
                "family": library.identity.family,
                "cuda_major": library.cuda_major,
                "version": library.version or None,
                "owner": scrub(library.owner),
                "deleted": library.file.deleted,
            }
            for library in process.libraries
        ],
    }
