"""How much a check matters where a wheel is to go: the profiles of `wheelfit check`."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.checking.checks import CHECKS
from wheelfit.checking.findings import Report, Severity
from wheelfit.checking.tool_profiles import Profile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.checking.findings import Finding

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING

SEVERITIES: Mapping[Profile, Mapping[str, Severity | None]] = MappingProxyType(
    {
        # What the registry refuses at an upload.
        Profile.PYPI: {"unknown-classifier": _ERROR, "deprecated-classifier": _ERROR},
        # Recipes bring libraries and the C library as packages and relocate what they build, and
        # their packages are not published with these tags; but files of two packages may not meet.
        Profile.CONDA_FORGE: {
            "wrong-wheel-tags": None,
            "generic-top-level": _ERROR,
            "compiled-python": _ERROR,
            "startup-code": _WARNING,
            "unknown-classifier": None,
            "deprecated-classifier": None,
            "platform-too-old": None,
            "external-library": None,
            "rpath-leads-out": None,
            "build-path": _WARNING,
            "no-plain-wheel": None,
            "no-index-file": None,
        },
        # What an organisation can hold its own builds to, beyond what it can ask of others.
        Profile.INTERNAL: {
            "generic-top-level": _ERROR,
            "compiled-python": _ERROR,
            "startup-code": _WARNING,
            "unknown-classifier": None,
            "deprecated-classifier": None,
            "rpath-leads-out": _ERROR,
            "debug-symbols": _ERROR,
            "build-path": _WARNING,
            "duplicate-library": _WARNING,
            "unhashed-files": _ERROR,
        },
    }
)
"""By profile: the severity of checks that matter more or less there; None: not at all."""


def graded(report: Report, profiles: frozenset[Profile]) -> Report:
    """Return a report with the severities of profiles; of several the strictest counts."""
    if not profiles & SEVERITIES.keys():
        return report
    found = [_graded(one, profiles) for one in report.findings]
    return replace(report, findings=tuple(one for one in found if one is not None))


def _graded(finding: Finding, profiles: frozenset[Profile]) -> Finding | None:
    declared = CHECKS[finding.code].severity if finding.code in CHECKS else finding.severity
    wishes = [SEVERITIES.get(one, {}).get(finding.code, declared) for one in profiles]
    kept = [wish for wish in wishes if wish is not None]
    if not kept:
        return None
    wish = min(kept, key=list(Severity).index)
    if finding.severity is not declared or wish is declared:  # it was judged by its circumstances
        return finding
    return finding._replace(severity=wish)
