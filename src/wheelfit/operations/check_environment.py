"""Findings about an environment: its faults, and whether its variants still fit the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.core.agreements import binding_agreements
from wheelfit.doctor.environment import diagnose_packages, read_environment
from wheelfit.installation.variant_fit import FitVerdict, judge
from wheelfit.operations.environment_findings import finding_json, summary_json, with_remedies_for
from wheelfit.operations.environments import open_environment_of, warn_of_interruption
from wheelfit.operations.machine import ChosenMachine, choose_machine
from wheelfit.operations.plain_data import plain_fields, plain_report

if TYPE_CHECKING:
    from wheelfit.checking.findings import Finding
    from wheelfit.operations.context import Context
    from wheelfit.operations.environment_findings import ExaminationRequest


@dataclass(frozen=True, slots=True)
class FitnessReport:
    """The installed variants that fit a machine, and the faults of their environment."""

    machine: ChosenMachine
    environment: str
    variants: tuple[FitVerdict, ...]
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        variants = [
            plain_fields(
                verdict.variant,
                "name version label",
                fits=verdict.fits,
                reason=verdict.reason or None,
            )
            for verdict in self.variants
        ]
        return plain_report(
            self,
            "environment",
            machine=self.machine.name,
            **self.machine.to_mapping(),
            variants=variants,
            summary=summary_json(self.findings),
            findings=list(map(finding_json, self.findings)),
        )


def check_environment(request: ExaminationRequest, context: Context) -> FitnessReport:
    """Judge every installed variant by a new detection of the machine; change nothing."""
    environment = open_environment_of(request, context.environ)
    warn_of_interruption(environment, context.reporter)
    machine = choose_machine(request, environment.target, context, use_probe_cache=False)
    contents = read_environment(environment, machine.target)
    verdicts = judge((package.installed for package in contents.packages), machine.support)
    agreements = binding_agreements(request.agreement_table, request.allow_mixed)
    report = diagnose_packages(contents, machine.target, None, machine.support, agreements)
    findings = tuple(with_remedies_for(report.findings, request))
    return FitnessReport(machine, environment.name, tuple(verdicts), findings)
