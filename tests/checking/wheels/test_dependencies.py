"""Dependencies in METADATA."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking.releases import DOCUMENT, check, codes, only, sound_release

from wheelfit.checking.findings import Report
from wheelfit.testing.wheels import build_wheel, release_document


def variant(folder: Path, *requires: str, profiles: str = "") -> Report:
    """Check a variant wheel with some dependencies."""
    path = build_wheel(folder, "fast", "1.0", label="mkl", document=DOCUMENT, requires=requires)
    return check(path, profiles=profiles)


@pytest.mark.parametrize(
    "marker",
    [
        '"nvidia :: sm_arch" in variant_properties',
        '"nvidia" in variant_features',
        '"nvidia :: sm_arch :: 90_real :: x" not in variant_properties',
        '"NVIDIA" in variant_namespaces',
        '"nvidia :: sm_arch :: 90-real" in variant_properties',
        '"nvidia.x" in variant_namespaces',
        'variant_label == "CUDA"',
        '"CUDA" in variant_label',
    ],
)
def test_markers_that_never_match(tmp_path: Path, marker: str) -> None:
    """F-106: a literal of the wrong shape, or with upper case, is found."""
    report = variant(tmp_path, f"a; {marker}")
    assert codes(report) == {"marker-never-matches": 1}
    finding = only(report, "marker-never-matches")
    assert (finding.member, finding.rule) == ("METADATA", "F-106")
    assert "a; " in finding.message


@pytest.mark.parametrize(
    "marker",
    [
        '"nvidia::sm_arch::90_real" in variant_properties',
        '"nvidia   ::   sm_arch" in variant_features',
        '"blas" not in variant_namespaces',
        'variant_label != "null"',
        'variant_label == ""',
        'python_version >= "3.11" and extra == "gpu"',
    ],
)
def test_markers_that_may_match(tmp_path: Path, marker: str) -> None:
    """F-106: blanks around ``::`` do not matter, and other markers are no concern here."""
    assert not variant(tmp_path, f"a; {marker}").findings


@pytest.mark.parametrize(
    ("requirement", "rule"),
    [
        ('a; variant_namespaces == "x"', "F-105"),
        ('a; variant_label >= "x"', "F-105"),
        ("a; (", "PEP 508"),
        ("not a requirement", "PEP 508"),
    ],
)
def test_requirements_that_cannot_be_read(tmp_path: Path, requirement: str, rule: str) -> None:
    """F-105: the variant variables have few operators; what cannot be read is found."""
    report = variant(tmp_path, requirement, "good")
    assert codes(report) == {"invalid-requirement": 1}
    assert only(report, "invalid-requirement").rule == rule


def test_plain_wheels(tmp_path: Path) -> None:
    """B-40: variant markers in a plain wheel are an error, whatever they would yield."""
    requires = ['a; variant_label == ""', 'b; "x" in variant_namespaces', "c"]
    path = build_wheel(tmp_path, "fast", "1.0", requires=requires)
    report = check(path)
    assert codes(report) == {"variant-marker-in-plain-wheel": 1}
    finding = only(report, "variant-marker-in-plain-wheel")
    assert finding.severity == "error"
    assert "and 'b; " in finding.message
    assert codes(check(path, profiles="uv"))["uv-markers"] == 1


@pytest.mark.parametrize(
    ("marker", "found"),
    [
        ('"nvidia :: sm_arch :: 90_real" in variant_properties', 0),
        ('"nvidia :: sm_arch :: 91_real" in variant_properties', 1),
        ('"nvidia :: driver" in variant_features', 1),
        ('"amd" in variant_namespaces', 1),
        ('variant_label == "cu128"', 0),
        ('variant_label == "cu129"', 1),
        ('variant_label == "null"', 0),
        ('variant_label == ""', 0),
        ('"cu" in variant_label', 0),
        ('python_version == "3.99"', 0),
    ],
)
def test_what_no_variant_declares(tmp_path: Path, marker: str, found: int) -> None:
    """F-107: a marker on something that no variant of the release has is never true."""
    sound_release(tmp_path)
    build_wheel(tmp_path, "fast", "1.0", label="mkl", document=DOCUMENT, requires=[f"a; {marker}"])
    assert codes(check(tmp_path)) == ({"undeclared-in-marker": 1} if found else {})


def test_a_wheel_alone_knows_no_others(tmp_path: Path) -> None:
    """F-107: the wheels of a release share METADATA, so one alone is not blamed."""
    assert not variant(tmp_path, 'a; variant_label == "cu128"').findings


ABI = {"abi": {"builtin": "abi_dependency"}}


@pytest.mark.parametrize(
    ("values", "requires", "found"),
    [
        (["2.8"], ["torch==2.8.0"], {}),
        (["2.8"], ["torch>=2.8,<3"], {}),
        (["2.8"], ["torch==2.9.0"], {"abi-contradiction": 1}),
        (["2.8", "2.9"], ["torch>=2.9"], {"abi-contradiction": 1}),
        (["2.8.0", "2.9.0"], ["torch<2.8"], {"abi-contradiction": 2}),
        (["2.8"], ["numpy"], {"abi-not-required": 1}),
        (["2.8"], [], {"abi-not-required": 1}),
        (
            ["2.8.0", "2.9.0"],
            [
                'torch==2.8.0; "abi :: torch :: 2.8.0" in variant_properties',
                'torch==2.9.0; "abi :: torch :: 2.9.0" in variant_properties',
            ],
            {},
        ),
        (
            ["2.8.0", "2.9.0"],
            ['torch==2.8.0; "abi :: torch :: 2.9.0" in variant_properties'],
            {"abi-contradiction": 1},
        ),
    ],
)
def test_builds_for_versions_of_others(
    tmp_path: Path, values: list[str], requires: list[str], found: dict[str, int]
) -> None:
    """P-58: the requirement on the dependency must admit every value that is listed."""
    whole = release_document({"t": {"abi": {"torch": values}}}, providers=ABI)
    path = build_wheel(tmp_path, "fast", "1.0", label="t", document=whole, requires=requires)
    assert codes(check(path)) == found


def test_features_of_one_name_in_two_namespaces(tmp_path: Path) -> None:
    """P-58: a marker about another namespace's feature of that name holds for every value."""
    whole = release_document(
        {"t": {"abi": {"torch": ["2.8.0"]}, "x": {"torch": ["on"]}}},
        providers={**ABI, "x": {"builtin": "x"}},
    )
    requires = ['torch==2.9.0; "x :: torch :: on" in variant_properties']
    path = build_wheel(tmp_path, "fast", "1.0", label="t", document=whole, requires=requires)
    assert codes(check(path))["abi-contradiction"] == 1
