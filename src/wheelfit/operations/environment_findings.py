"""Findings about an environment, shared by ``check`` and ``doctor``.

They are not in `check_environment`, because ``doctor`` must run without third-party packages.
"""

from __future__ import annotations

import re
from shlex import quote
from typing import TYPE_CHECKING

from wheelfit.checking.findings import Finding, Severity
from wheelfit.doctor.diagnoses import DIAGNOSES
from wheelfit.operations.requests import EnvironmentOptions, MachineOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wheelfit.core.agreements import Agreement


class ExaminationRequest(EnvironmentOptions, MachineOptions):
    """The environment to examine, and the machine that its packages must fit."""

    allow_mixed: tuple[str, ...] = ()
    agreement_table: tuple[Agreement, ...] = ()


def faults_among(findings: Iterable[Finding], *, strict: bool) -> tuple[Finding, ...]:
    """Return the errors among findings, and with ``strict`` the warnings."""
    counted = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return tuple(finding for finding in findings if finding.severity in counted)


def summary_json(findings: Sequence[Finding]) -> dict[str, int]:
    """Return the number of findings of each severity."""
    return {
        f"{severity}s": sum(finding.severity is severity for finding in findings)
        for severity in Severity
    }


def finding_json(finding: Finding, scrub: Callable[[str], str] = str) -> dict[str, object]:
    """Return a finding as plain data.

    :param scrub: removes data that identifies the machine; default: texts are kept.
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


def with_remedies_for(
    findings: Iterable[Finding], request: ExaminationRequest
) -> Iterator[Finding]:
    """Add the requested environment and machine to the commands in remedies."""
    options = {name: getattr(request, name) for name in ("python", "prefix", "target", "root")}
    environment_options = "".join(
        f" --{name} {quote(value)}" for name, value in options.items() if value
    )
    machine_option = f" --for {quote(request.host)}" if request.host else ""
    for finding in findings:
        remedy = re.sub(
            r"\bwheelfit (install|uninstall)(?= )",
            lambda match: (
                match[0] + environment_options + (machine_option if match[1] == "install" else "")
            ),
            finding.remedy,
        )
        yield finding._replace(remedy=remedy)
