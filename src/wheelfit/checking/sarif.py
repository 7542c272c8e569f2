"""Reports as SARIF 2.1.0, which code review tools show beside the files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from wheelfit.checking.checks import CHECKS
from wheelfit_runtime import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.checking.findings import Check, Finding, Report, UncheckedTarget

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_DOCS = "docs/reference/checks.md"
_ROOT = "%SRCROOT%"


def to_sarif(report: Report, *, folder: Path) -> dict[str, Any]:
    """Return a report as a SARIF log with one run."""
    codes = sorted({finding.code for finding in report.findings})
    rules = [CHECKS[code] for code in codes]
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "wheelfit",
                "version": __version__,
                "rules": [_rule(check) for check in rules],
            }
        },
        "invocations": [
            {
                "executionSuccessful": not report.unchecked,
                "toolExecutionNotifications": [
                    _notification(unchecked, folder) for unchecked in report.unchecked
                ],
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, codes.index(finding.code), folder) for finding in report.findings
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(check: Check) -> dict[str, Any]:
    page = f"{_DOCS}#{check.code}"
    return {
        "id": check.code,
        "name": "".join(part.capitalize() for part in check.code.split("-")),
        "shortDescription": {"text": _sentence(check.meaning)},
        "help": {
            "text": f"{_sentence(check.remedy)} Rule {check.rule}; see {page}.",
            "markdown": f"{_sentence(check.remedy)} Rule {check.rule}; see `{page}`.",
        },
        "defaultConfiguration": {"level": check.severity.value},
        "properties": {"tags": [check.rule], "documentation": page},
    }


def _result(finding: Finding, index: int, folder: Path) -> dict[str, Any]:
    place = "/".join(part for part in (finding.member, finding.path) if part)
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": _artifact(finding.where, folder),
            # The location is the wheel, and a finding in a member counts the member's lines.
            "region": {"startLine": (finding.line or 1) if not finding.member else 1},
        }
    }
    if place:
        location["logicalLocations"] = [{"fullyQualifiedName": place}]
    inside = f"{place}: " if place else ""
    fixes = list(_fixes(finding, folder))
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": finding.severity.value,
        "message": {"text": f"{inside}{finding.message}. What to do: {finding.remedy}."},
        "locations": [location],
        "partialFingerprints": {"wheelfit/v1": _fingerprint(finding)},
        "properties": {"rule": finding.rule},
        **({"fixes": fixes} if fixes else {}),
    }


def _fixes(finding: Finding, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the change of the file that fixes a finding, if it is certain.

    Members of wheels and files on indexes cannot be edited.
    """
    correction = finding.correction
    if correction is None or correction.region is None or finding.member or "://" in finding.where:
        return
    line, column, end_line, end_column = correction.region
    deleted = {
        "startLine": line,
        "startColumn": column,
        "endLine": end_line,
        "endColumn": end_column,
    }
    replacement = {"deletedRegion": deleted, "insertedContent": {"text": correction.text}}
    yield {
        "description": {"text": _sentence(finding.remedy)},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(finding.where, folder),
                "replacements": [replacement],
            }
        ],
    }


def _notification(unchecked: UncheckedTarget, folder: Path) -> dict[str, Any]:
    return {
        "level": "error",
        "message": {"text": f"{unchecked.where}: {unchecked.message}"},
        "descriptor": {"id": unchecked.code},
        "locations": [
            {"physicalLocation": {"artifactLocation": _artifact(unchecked.where, folder)}}
        ],
    }


def _artifact(where: str, folder: Path) -> dict[str, str]:
    if "://" in where:
        return {"uri": where}
    path = Path(where)
    if not path.is_absolute():
        return {"uri": _quoted(path), "uriBaseId": _ROOT}
    try:
        return {"uri": _quoted(path.relative_to(folder)), "uriBaseId": _ROOT}
    except ValueError:
        return {"uri": path.as_uri()}


def _quoted(path: Path) -> str:
    return quote(os.fsencode(path.as_posix()))  # names need not be UTF-8


def _fingerprint(finding: Finding) -> str:
    """Return a fingerprint that is independent of a finding's line."""
    parts = (finding.code, Path(finding.where).name, finding.member, finding.path, finding.message)
    return hashlib.sha256("\n".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
