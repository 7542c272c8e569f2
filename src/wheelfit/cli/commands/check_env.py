"""Say which installed variants do not fit any more, after a driver or a GPU was changed.

Looks at what installed variants need and what the machine supports now, at packages that do not
go together, and at needs that are not met. Drivers are asked anew. Nothing is changed, and no
network is used; wheelfit install --refit exchanges what does not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import ENVIRONMENT
from wheelfit.cli.options.table.installing import CHECK_ENV
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.variants import AGREEMENT_SETTINGS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from wheelfit.check.findings import Finding
    from wheelfit.check.installed import Judged
    from wheelfit.cli.output import Output

MISFIT = 13
"""The exit code where something does not fit; `doctor` has the same for packages."""


OPTIONS = (CHECK_ENV, ENVIRONMENT, MACHINE, AGREEMENT_SETTINGS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Judge what is installed, and say what was found."""
    from wheelfit.check.findings import Severity
    from wheelfit.cli.diagnosis import finding_mapping, remedies_for, summary_mapping
    from wheelfit.core.agreements import binding
    from wheelfit.doctor.environment import about_contents, read_environment
    from wheelfit.install.fit import judge
    from wheelfit.operations.environments import open_environment_of, tell_interruption
    from wheelfit.operations.machine import choose_machine

    environment = open_environment_of(arguments, environ)
    tell_interruption(environment, output)
    machine = choose_machine(arguments, environment.target(), environ, output, recall=False)
    contents = read_environment(environment, machine.target)
    judged = judge((package.installed for package in contents.packages), machine.support)
    agreements = binding(arguments.agreement_table, arguments.allow_mixed)
    report = about_contents(contents, machine.target, None, machine.support, agreements)
    findings = tuple(remedies_for(report.findings, arguments))
    output.result_json(
        {
            "version": 1,
            "machine": machine.name,
            **machine.to_mapping(),
            "environment": environment.name,
            "variants": [_variant(one) for one in judged],
            "summary": summary_mapping(findings),
            "findings": [finding_mapping(one) for one in findings],
        }
    )
    _tell(judged, findings, machine.name, output)
    counted = {Severity.ERROR, Severity.WARNING} if arguments.strict else {Severity.ERROR}
    return MISFIT if any(one.severity in counted for one in findings) else 0


def _variant(one: Judged) -> dict[str, object]:
    variant = one.variant
    return {
        "name": variant.name,
        "version": str(variant.version),
        "label": variant.label,
        "fits": one.fits,
        "because": one.reason or None,
    }


def _tell(
    judged: Sequence[Judged], findings: Sequence[Finding], machine: str, output: Output
) -> None:
    from wheelfit.check.findings import Severity
    from wheelfit.cli.diagnosis import finding_lines, summary_line

    verbose = output.verbosity > 0
    for one in judged:
        if one.fits and verbose:
            output.result(f"  fits    {one.variant}", "dim")
    for finding in findings:
        if verbose or finding.severity is not Severity.NOTE:
            for line, style in finding_lines(finding):
                output.result(line, style)
    fitting = sum(one.fits is True for one in judged)
    output.say(f"{fitting} of {len(judged)} installed variants fit {machine}", "dim")
    output.result(*summary_line(findings, verbose=verbose))
