"""Files that mean harm are found out; nothing that a stranger writes ends a check."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from checking.releases import DOCUMENT, check, codes
from hostile.attacks import ATTACKS, NAME, UNPORTABLE, Attack
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wheelfit.checking.documents.document import check_variant_document
from wheelfit.checking.findings import Location, Report, Severity
from wheelfit.checking.tool_profiles import CheckOptions, Profile
from wheelfit.checking.wheels.wheel import check_wheel
from wheelfit.testing.wheels import build_wheel

PROFILES = frozenset(Profile)


@pytest.mark.parametrize("label", ATTACKS)
def test_hostile_archives(tmp_path: Path, label: str) -> None:
    """B-34, B-54: every archive that is refused when it is installed is an error here."""
    report = check_attack(tmp_path, ATTACKS[label], NAME)
    assert report.has_faults(strict=False)


@pytest.mark.parametrize("label", UNPORTABLE)
def test_names_of_other_systems(tmp_path: Path, label: str) -> None:
    """B-34: a warning for wheels of any system, an error for those of Windows."""
    report = check_attack(tmp_path, UNPORTABLE[label], NAME)
    assert set(codes(report)) == {"unportable-name"}
    assert [finding.severity for finding in report.findings] == [Severity.WARNING]
    report = check_attack(tmp_path, UNPORTABLE[label], NAME.replace("any", "win_amd64"))
    assert report.has_faults(strict=False)


def check_attack(folder: Path, attack: Attack, name: str) -> Report:
    """Check a wheel on which an attack was made, and nothing else."""
    wheel = build_wheel(folder, "demo", "2")
    content = attack(wheel)
    wheel.unlink()
    (folder / name).write_bytes(content)
    report = check(folder, full=True)
    (folder / name).unlink()
    assert not report.unchecked
    return report


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Give the bytes of a sound variant wheel."""
    folder = tmp_path_factory.mktemp("sound")
    requires = ['a; "nvidia" in variant_namespaces', "b>=1"]
    wheel = build_wheel(folder, "fast", "1.0", label="mkl", document=DOCUMENT, requires=requires)
    return wheel.read_bytes()


@given(st.data())
@settings(
    max_examples=2 * settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_damaged_wheels(sound: bytes, data: st.DataObject) -> None:
    """Whatever happens to the bytes of a wheel, a check of it comes to its end."""
    damaged = bytearray(sound)
    for position in data.draw(st.lists(st.integers(0, len(sound) - 1), min_size=1, max_size=4)):
        damaged[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, 3)) == 0
    content = bytes(damaged[: data.draw(st.integers(0, len(sound)))] if cut else damaged)
    for full in (False, True):
        findings, _ = check_wheel(
            io.BytesIO(content),
            "fast-1.0-py3-none-any-mkl.whl",
            where="x.whl",
            options=CheckOptions(full, profiles=PROFILES),
        )
        assert all(finding.message and finding.rule for finding in findings)


LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(
    ["nvidia", "sm_arch", "90_real", "null", "mkl", "abi_dependency", "blas>=1", "", "A", "\x00"]
)  # fmt: skip
KEYS = st.sampled_from(
    [
        "$schema", "default-priorities", "namespace", "feature", "property", "providers",
        "variants", "requires", "plugin-api", "static-properties", "feature-order", "builtin",
        "optional", "nvidia", "x86_64", "blas", "abi", "sm_arch", "library", "null", "mkl", "x",
    ]
)  # fmt: skip
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.lists(KEYS, max_size=3), KEYS, ANYTHING), max_size=5))
@settings(max_examples=2 * settings().max_examples)
def test_any_document(changes: list[tuple[list[str], str, object]]) -> None:
    """F-131, F-32: whatever a document holds, all of it is judged and nothing fails."""
    document = json.loads(json.dumps(DOCUMENT))
    for steps, key, value in changes:
        location = document
        for step in steps:
            location = location.get(step) if isinstance(location, dict) else None
        if isinstance(location, dict):
            location[key] = value
    data = json.dumps(document).encode()
    for label in (None, "mkl"):
        findings, _ = check_variant_document(
            data,
            Location("x.json"),
            label=label,  # type: ignore[arg-type]
            profiles=PROFILES,
        )
        assert all(finding.message and finding.rule for finding in findings)


def test_endless_words() -> None:
    """What a document says at length is cut short in the report about it (F-131)."""
    document = json.loads(json.dumps(DOCUMENT))
    label = "c" * 100_000
    document["variants"] = {label: {"nvidia": {"sm_arch": ["9" * 100_000]}}}
    findings, _ = check_variant_document(json.dumps(document).encode(), Location("x.json"))
    assert {"unknown-value", "long-label"} <= {finding.code for finding in findings}
    assert all(len(str(finding.to_mapping())) < 3000 for finding in findings)
