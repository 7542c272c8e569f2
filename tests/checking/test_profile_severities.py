"""Profiles say how much a check matters where a wheel is to go."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from checking.broken_wheels import LINUX, native, plain, with_files
from checking.releases import check, only

from wheelfit.checking.checks import CHECKS
from wheelfit.checking.tool_profiles import SEVERITIES, Profile, with_profile_severities
from wheelfit.testing.binaries import elf_file

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "checks.md").read_text("utf-8")


def severity(path: Path, code: str, profiles: str) -> str | None:
    """Return how much a finding matters with some profiles; None: not at all."""
    report = with_profile_severities(
        check(path, binaries=True), frozenset(map(Profile, profiles.split()))
    )
    found = [finding for finding in report.findings if finding.code == code]
    return found[0].severity if found else None


@pytest.mark.parametrize(
    ("profiles", "expected"),
    [
        ("", "warning"),
        ("uv", "warning"),
        ("conda-forge", "error"),
        ("internal", "error"),
        ("pypi", "warning"),
        ("pypi internal", "error"),
    ],
)
def test_more(tmp_path: Path, profiles: str, expected: str) -> None:
    """F-155: a profile may make an error of a warning; of several the strictest counts."""
    wheel = with_files(tmp_path, {"tests/test_fast.py": ""})
    assert severity(wheel, "generic-top-level", profiles) == expected


@pytest.mark.parametrize(
    ("profiles", "expected"),
    [("", "error"), ("conda-forge", None), ("conda-forge pypi", "error"), ("internal", "error")],
)
def test_less(tmp_path: Path, profiles: str, expected: str | None) -> None:
    """F-155: what a place brings itself is nobody's fault there."""
    wheel = native(tmp_path, elf_file(versions={"libc.so.6": ["GLIBC_2.34"]}))
    assert severity(wheel, "platform-too-old", profiles) == expected


def test_circumstances(tmp_path: Path) -> None:
    """F-155: a profile makes no error of a finding that is milder than its check."""
    binary = elf_file(runpath="$ORIGIN/../../..")
    wheel = plain(tmp_path, tag=LINUX, files={"fast/a.so": binary})
    assert only(check(wheel, binaries=True), "rpath-leads-out").severity == "note"
    assert severity(wheel, "rpath-leads-out", "internal") == "note"


def test_the_table_of_the_reference() -> None:
    """The page has every row of the table, and no other."""
    columns = [str(profile) for profile in SEVERITIES]
    assert f"| check | without | {' | '.join(columns)} |" in PAGE
    rows = re.findall(r"^\| \[`([a-z-]+)`\]\(#\1\) \| (\w+) \|(.*) \|$", PAGE, re.MULTILINE)
    said = {}
    for code, default, cells in rows:
        assert CHECKS[code].severity == default
        for profile, cell in zip(SEVERITIES, cells.split("|"), strict=True):
            if word := cell.strip():
                said[profile, code] = None if word == "off" else word
    assert said == {
        (profile, code): severity
        for profile, table in SEVERITIES.items()
        for code, severity in table.items()
    }
    assert {code for _, code in said} <= CHECKS.keys()
