"""P-110 to P-115: Arm versions and abilities."""

from __future__ import annotations

import pytest

from wheelfit.platforms.facts import Core, Cpu
from wheelfit.platforms.providers import aarch64
from wheelfit.platforms.tables.aarch64 import APPENDED, FEATURES, REQUIREMENTS

UP_TO: dict[str, frozenset[str]] = {}
for _version, _needed in REQUIREMENTS:
    UP_TO[_version] = frozenset().union(*UP_TO.values(), _needed)
EVERYTHING = frozenset(FEATURES + APPENDED)

N1, V1, V2 = Core(0x41, 0xD0C), Core(0x41, 0xD40), Core(0x41, 0xD4F)
M1, M2, M4 = Core(0x61, 0x022), Core(0x61, 0x032), Core(0x61, 0x052)
UNKNOWN = Core(0x41, 0xFFF)


def _version_of(cpu: Cpu, *, bits_decide: bool = True) -> str:
    return aarch64.supported(cpu, bits_decide=bits_decide).features[0].values[0]


@pytest.mark.parametrize("version", ["8a", "8.1a", "8.2a", "8.3a", "8.4a"])
def test_bits_alone_decide_up_to_8_4(version: str) -> None:
    """P-112: each version needs all bits of the lower ones, whatever the core."""
    assert _version_of(Cpu(UP_TO[version], (UNKNOWN,))) == version


@pytest.mark.parametrize(
    ("cores", "version"),
    [
        ((), "8.4a"),
        ((UNKNOWN,), "8.4a"),
        ((N1,), "8.4a"),
        ((M2,), "8.5a"),
        ((M4,), "8.5a"),
        ((V2,), "9.0a"),
        ((V2, UNKNOWN), "8.4a"),
        ((V1, V2), "8.4a"),
        ((M2, V2), "8.5a"),
    ],
)
def test_beyond_8_4_every_core_must_be_known(cores: tuple[Core, ...], version: str) -> None:
    """P-113, P-114: with every bit set, the weakest core decides."""
    assert _version_of(Cpu(EVERYTHING, cores)) == version


def test_a_known_core_needs_its_bits_too() -> None:
    """P-113: a hypervisor may hide what the core has; asimddp (bit 20) takes 8.4 away."""
    assert _version_of(Cpu(EVERYTHING - {"sve2"}, (V2,))) == "8.5a"
    assert _version_of(Cpu(EVERYTHING - {"frint"}, (V2,))) == "8.4a"
    assert _version_of(Cpu(EVERYTHING - {"asimddp"}, (V2,))) == "8.3a"
    assert _version_of(Cpu(EVERYTHING - {"atomics"}, (V2,))) == "8a"


@pytest.mark.parametrize(
    ("brand", "version"),
    [
        ("Apple M1 Pro", "8.4a"),
        ("Apple M2", "8.5a"),
        ("Apple M10 Ultra", "8.5a"),
        ("Apple processor", "8a"),
        ("", "8a"),
    ],
)
def test_on_macos_the_brand_identifies_the_core(brand: str, version: str) -> None:
    """P-113, section 11: a name that identifies nothing is 8a."""
    assert _version_of(Cpu(EVERYTHING, brand=brand), bits_decide=False) == version


def test_features_have_the_order_of_the_reference() -> None:
    """P-40, P-41, P-110, P-111: version, the reference's 42 abilities corrected, then ours."""
    names = [feature.name for feature in aarch64.supported(Cpu(EVERYTHING)).features]
    assert names == ["version", *FEATURES, *APPENDED]
    assert len(FEATURES) == 42
    assert not {"btiecv", "asimdrdmatomics"} & set(names)


def test_the_reference_mode_leaves_out_what_the_reference_does_not_know() -> None:
    """P-43: for differential tests."""
    detection = aarch64.supported(Cpu(EVERYTHING), reference=True)
    assert [feature.name for feature in detection.features] == ["version", *FEATURES]


def test_unknown_abilities_are_8a_with_a_warning() -> None:
    """P-112: nothing known is nothing promised."""
    detection = aarch64.supported(Cpu(None, (V2,)))
    assert [(f.name, f.values) for f in detection.features] == [("version", ("8a",))]
    assert "8a" in detection.warnings[0]


def test_every_version_supports_the_older_ones() -> None:
    """Section 11: newest first, down to 8a."""
    values = aarch64.supported(Cpu(EVERYTHING, (V2,))).features[0].values
    assert values == ("9.0a", "8.5a", "8.4a", "8.3a", "8.2a", "8.1a", "8a")
