"""Findings of checks: a fault, its place, and its remedy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit_runtime.errors import WheelfitError


class Severity(StrEnum):
    """The severity of a finding, highest first."""

    ERROR = "error"
    """A broken rule, or a feature that can never work."""
    WARNING = "warning"
    """A likely mistake, which is allowed."""
    NOTE = "note"
    """Useful information."""


_MAX_LENGTH = 1000
"""Characters of a message, which may quote texts of any length."""


class Check(NamedTuple):
    """A check for one kind of fault."""

    code: str
    """Its stable name, such as ``no-plain-wheel``."""
    rule: str
    """The rule that it checks, such as ``F-23``."""
    severity: Severity
    meaning: str
    """What a finding means, one sentence."""
    remedy: str
    """How to correct the fault, one sentence."""


class CheckTable(dict[str, Check]):
    """Checks by their codes, in the order in which they are declared."""

    def error(self, code: str, rule: str, meaning: str, remedy: str) -> Check:
        """Declare a check for a broken rule."""
        return self.setdefault(code, Check(code, rule, Severity.ERROR, meaning, remedy))

    def warning(self, code: str, rule: str, meaning: str, remedy: str) -> Check:
        """Declare a check for likely mistakes."""
        return self.setdefault(code, Check(code, rule, Severity.WARNING, meaning, remedy))

    def note(self, code: str, rule: str, meaning: str, remedy: str) -> Check:
        """Declare a check for useful information."""
        return self.setdefault(code, Check(code, rule, Severity.NOTE, meaning, remedy))


class Region(NamedTuple):
    """A part of a text; lines and columns start at 1, in characters."""

    line: int
    column: int
    end_line: int
    end_column: int
    """The column after the last character."""


class Correction(NamedTuple):
    """The correction of a part of a document."""

    text: str
    """The new text, as JSON or TOML."""
    is_of_key: bool = False
    """Whether it replaces the key; otherwise the value."""
    region: Region | None = None
    """The part that it replaces; None before it was located."""


class Finding(NamedTuple):
    """A finding of a check."""

    severity: Severity
    code: str
    """Name of the check."""
    rule: str
    """The rule that it breaks, such as ``F-23``."""
    where: str
    """The file, or its URL without credentials."""
    message: str
    """The fault, one sentence without a final full stop."""
    remedy: str
    """The remedy, one sentence without a final full stop."""
    member: str = ""
    """The file inside a wheel, such as ``variant.json``; empty for the whole file."""
    path: str = ""
    """The place in the document, as ``variants.cu128.nvidia``; empty for the whole document."""
    line: int | None = None
    """Line of the document, from 1; None if it has none or it is unknown."""
    correction: Correction | None = None
    """The correction; None unless it is certain."""

    @property
    def sort_key(self) -> tuple[str, str, int, str, str, str]:
        """The key by which findings are sorted: file, then place in the file, then check."""
        return (self.where, self.member, self.line or 0, self.path, self.code, self.message)

    def to_mapping(self) -> dict[str, object]:
        """Return the finding as plain data, for ``--json``."""
        return {
            "severity": self.severity.value,
            "code": self.code,
            "rule": self.rule,
            "where": self.where,
            "member": self.member or None,
            "path": self.path or None,
            "line": self.line,
            "message": self.message,
            "remedy": self.remedy,
        }


class Location(NamedTuple):
    """The location of findings: a file, a file inside a wheel, or a part of the machine."""

    where: str
    """The file, its URL without credentials, or for ``doctor`` also a variable or a process."""
    member: str = ""
    """The file inside a wheel."""

    def inside(self, member: str) -> Location:
        """Return the location of a file inside this wheel."""
        return self._replace(member=member)

    def finding(
        self,
        check: Check,
        message: str,
        *,
        path: str = "",
        rule: str = "",
        remedy: str = "",
        severity: Severity | None = None,
        correction: Correction | None = None,
    ) -> Finding:
        """Return a finding at this location.

        Rule, remedy and severity are those of the check unless others are given.

        :param message: the fault, one sentence without a final full stop; shortened if it is very
            long.
        :param path: the place in the document, as ``variants.cu128``; empty: the whole document.
        """
        return Finding(
            severity or check.severity,
            check.code,
            rule or check.rule,
            self.where,
            message if len(message) <= _MAX_LENGTH else f"{message[:_MAX_LENGTH]}…",
            remedy or check.remedy,
            self.member,
            path,
            correction=correction,
        )


class UncheckedTarget(NamedTuple):
    """A target that could not be checked."""

    where: str
    """The file, folder, URL or project, without credentials."""
    code: str
    """The kind of error, such as ``file-problem``."""
    message: str
    """The reason, one sentence without a final full stop."""
    hint: str = ""
    """The remedy, if one is known."""

    @classmethod
    def from_error(cls, error: WheelfitError, where: str) -> UncheckedTarget:
        """Return a target that could not be checked because of an error.

        :param where: the target, for an error without a place.
        """
        return cls(error.where or where, error.reference, error.message, error.hint or "")

    def to_mapping(self) -> dict[str, object]:
        """Return the target as plain data, for ``--json``."""
        return {
            "where": self.where,
            "code": self.code,
            "message": self.message,
            "hint": self.hint or None,
        }


@dataclass(frozen=True, slots=True)
class CheckedCounts:
    """The numbers of checked files and releases."""

    wheels: int = 0
    index_files: int = 0
    releases: int = 0
    metadata_files: int = 0
    """Files named ``variant.json`` and ``pyproject.toml``."""

    def __add__(self, other: CheckedCounts) -> CheckedCounts:
        return CheckedCounts(
            self.wheels + other.wheels,
            self.index_files + other.index_files,
            self.releases + other.releases,
            self.metadata_files + other.metadata_files,
        )


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of a check of some targets."""

    findings: tuple[Finding, ...] = ()
    """The findings, sorted by file and place."""
    unchecked: tuple[UncheckedTarget, ...] = ()
    """Targets that could not be checked."""
    counts: CheckedCounts = CheckedCounts()

    @classmethod
    def of(
        cls,
        findings: Iterable[Finding],
        unchecked: Iterable[UncheckedTarget] = (),
        counts: CheckedCounts = CheckedCounts(),
    ) -> Report:
        """Return a report in sorted order without duplicates."""
        return cls(
            tuple(sorted(dict.fromkeys(findings), key=lambda finding: finding.sort_key)),
            tuple(
                sorted(dict.fromkeys(unchecked), key=lambda target: (target.where, target.message))
            ),
            counts,
        )

    def __add__(self, other: Report) -> Report:
        return Report.of(
            (*self.findings, *other.findings),
            (*self.unchecked, *other.unchecked),
            self.counts + other.counts,
        )

    def without(self, codes: Iterable[str]) -> Report:
        """Return the report without the findings of some checks."""
        ignored = frozenset(codes)
        findings = tuple(finding for finding in self.findings if finding.code not in ignored)
        return replace(self, findings=findings)

    def severity_counts(self) -> dict[Severity, int]:
        """Return the number of findings of each severity."""
        counts = dict.fromkeys(Severity, 0)
        for finding in self.findings:
            counts[finding.severity] += 1
        return counts

    def has_faults(self, *, strict: bool) -> bool:
        """Return whether there are faults among the findings.

        :param strict: whether warnings are faults too.
        """
        return bool(self.faults(strict=strict))

    def faults(self, *, strict: bool) -> tuple[Finding, ...]:
        """Return the faults among the findings.

        :param strict: whether warnings are faults too.
        """
        severities = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
        return tuple(finding for finding in self.findings if finding.severity in severities)


listed_briefly = partial(listed, most=4)
"""Joins strings in sentences; of more than four, the first three and the number of others."""
