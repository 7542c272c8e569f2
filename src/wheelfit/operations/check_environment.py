"""Findings about what is installed, and whether it still fits the machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from wheelfit.checking.findings import Finding, Severity
from wheelfit.core.agreements import binding
from wheelfit.doctor.diagnoses import DIAGNOSES
from wheelfit.doctor.environment import about_contents, read_environment
from wheelfit.installation.fit import judge
from wheelfit.operations.environments import open_environment_of, tell_interruption
from wheelfit.operations.machine import choose_machine
from wheelfit.operations.requests import EnvironmentOptions, MachineOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wheelfit.checking.installed import Judged
    from wheelfit.core.agreements import Agreement
    from wheelfit.operations.context import Context
    from wheelfit.operations.machine import ChosenMachine


@dataclass(frozen=True, kw_only=True)
class ExaminationRequest(EnvironmentOptions, MachineOptions):
    """The environment to examine, and the machine that its packages must fit."""

    allow_mixed: tuple[str, ...] = ()
    agreement_table: tuple[Agreement, ...] = ()


def faults_among(findings: Iterable[Finding], *, strict: bool) -> tuple[Finding, ...]:
    """Return the findings that are faults.

    :param strict: whether warnings are faults too.
    """
    counted = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return tuple(one for one in findings if one.severity in counted)


def summary_json(findings: Sequence[Finding]) -> dict[str, int]:
    """Return how many findings there are of each severity."""
    return {
        f"{severity}s": sum(one.severity is severity for one in findings) for severity in Severity
    }


def finding_json(finding: Finding, scrub: Callable[[str], str] = str) -> dict[str, object]:
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


def remedies_for(findings: Iterable[Finding], request: ExaminationRequest) -> Iterator[Finding]:
    """Add the requested environment and machine to the commands in remedies.

    :param request: the environment and the machine.
    """
    given = {name: getattr(request, name) for name in ("python", "prefix", "target", "root")}
    place = "".join(f" --{name} {quote(value)}" for name, value in given.items() if value)
    host = f" --for {quote(request.host)}" if request.host else ""
    for finding in findings:
        remedy = re.sub(
            r"\bwheelfit (install|uninstall)(?= )",
            lambda verb: verb[0] + place + (host if verb[1] == "install" else ""),
            finding.remedy,
        )
        yield replace(finding, remedy=remedy)


@dataclass(frozen=True, slots=True)
class FitnessReport:
    """Which installed variants fit a machine, and what is wrong in their environment."""

    machine: ChosenMachine
    environment: str
    variants: tuple[Judged, ...]
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {
            "version": 1,
            "machine": self.machine.name,
            **self.machine.to_mapping(),
            "environment": self.environment,
            "variants": [_variant(one) for one in self.variants],
            "summary": summary_json(self.findings),
            "findings": [finding_json(one) for one in self.findings],
        }


def check_environment(request: ExaminationRequest, context: Context) -> FitnessReport:
    """Judge every installed variant; drivers are asked anew, and nothing is changed.

    :param request: the environment and the machine.
    :raises WheelfitError: the environment or the machine cannot be opened.
    """
    environment = open_environment_of(request, context.environ)
    tell_interruption(environment, context.reporter)
    machine = choose_machine(request, environment.target(), context, recall=False)
    contents = read_environment(environment, machine.target)
    judged = judge((package.installed for package in contents.packages), machine.support)
    agreements = binding(request.agreement_table, request.allow_mixed)
    report = about_contents(contents, machine.target, None, machine.support, agreements)
    findings = tuple(remedies_for(report.findings, request))
    return FitnessReport(machine, environment.name, tuple(judged), findings)


def _variant(one: Judged) -> dict[str, object]:
    variant = one.variant
    return {
        "name": variant.name,
        "version": str(variant.version),
        "label": variant.label,
        "fits": one.fits,
        "because": one.reason or None,
    }
