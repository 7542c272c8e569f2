"""What builds must have in common."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from error_codes import raises_code

from wheelfit.core.agreements import (
    AGREEMENTS,
    DATA_VERSION,
    AgreedValue,
    Agreement,
    agreements_named,
    common_values,
    value_key,
    with_user_agreements,
)
from wheelfit.core.properties import PropertySet, parse_feature, parse_property
from wheelfit.core.static_families import STATIC_FAMILIES

BY_NAME = {one.name: one for one in AGREEMENTS}


def build(*properties: str) -> PropertySet:
    """Return what a label declares."""
    return PropertySet(map(parse_property, properties))


class TestBuiltIn:
    """The dated data."""

    @pytest.mark.parametrize(
        ("name", "properties", "values"),
        [
            ("cuda", ["nvidia :: cuda_version_lower_bound :: 12.8"], {"12"}),
            ("cuda", ["nvidia :: cuda_version_lower_bound :: 12"], {"12"}),
            # It runs on every driver from 9 on, which comes before 12.
            (
                "cuda",
                [f"nvidia :: cuda_version_lower_bound :: {v}" for v in ("12.8", "13.0", "9.2")],
                {"9"},
            ),
            ("cuda", ["nvidia :: cuda_version_upper_bound :: 13"], set()),
            ("cuda", ["nvidia :: cuda :: 12"], {"12"}),
            ("cuda", ["nvidia :: sm_arch :: 90_real"], set()),
            ("rocm", ["amd :: rocm_version :: 6.4", "amd :: rocm_version :: 7.0"], {"6", "7"}),
            ("rocm", ["amd :: gfx_arch :: gfx942"], set()),
            ("blas", ["blas_lapack :: provider :: mkl"], {"mkl"}),
            (
                "openmp",
                ["openmp :: provider :: gnu", "openmp :: provider :: llvm"],
                {"gnu", "llvm"},
            ),
            ("mpi", ["mpi :: provider :: openmpi"], {"openmpi"}),
            ("mpi", [], set()),
        ],
    )
    def test_what_a_build_goes_with(
        self, name: str, properties: list[str], values: set[str]
    ) -> None:
        """A label goes with the values of its features, or has no say."""
        assert BY_NAME[name].values(build(*properties)) == values

    def test_static_families_are_known_by_their_features(self) -> None:
        """What describes a build and not the machine must be the same for all, but for ranks."""
        features = {feature for agreement in AGREEMENTS for feature in agreement.features}
        for family in STATIC_FAMILIES.values():
            if family.namespace != "priority":
                for feature in family.features:
                    assert parse_feature(f"{family.namespace} :: {feature.name}") in features

    def test_the_reference(self) -> None:
        """The page of the reference lists the same, as of the same date."""
        page = Path(__file__).parents[2] / "docs" / "reference" / "agreements.md"
        text = page.read_text()
        rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
        listed = {name: (features, what) for name, features, what in rows}
        assert list(listed) == list(BY_NAME)
        for name, one in BY_NAME.items():
            features, what = listed[name]
            assert features == ", ".join(f"`{feature}`" for feature in one.features)
            assert ("major" in what) == (one.part == "major")
            assert ("lower bounds" in what) == one.is_bound
        assert f"As of {DATA_VERSION}." in text


class TestAgreed:
    """A value that holds for all."""

    @pytest.mark.parametrize(
        ("value", "objection"),
        [
            ("12", None),
            ("13", "is built for CUDA 12, not for CUDA 13"),
        ],
    )
    def test_objection(self, value: str, objection: str | None) -> None:
        """A build for another value is refused, with the reason."""
        cuda_12 = build("nvidia :: cuda_version_lower_bound :: 12.0")
        assert AgreedValue(BY_NAME["cuda"], value).objection(cuda_12) == objection

    def test_who_decided(self) -> None:
        """The reason names who decided, once that is known."""
        agreed = AgreedValue(BY_NAME["rocm"], "5", "because of torch")
        assert agreed.objection(
            build("amd :: rocm_version :: 6.4", "amd :: rocm_version :: 7.0")
        ) == ("is built for ROCm 6 or 7, this environment has ROCm 5 because of torch")

    def test_a_build_without_a_say(self) -> None:
        """What says nothing of a feature goes with every value."""
        assert AgreedValue(BY_NAME["cuda"], "13").objection(build()) is None


def test_common() -> None:
    """Builds have in common what all of them go with that have a say."""
    nobody: frozenset[str] = frozenset()
    assert common_values([nobody, nobody]) is None
    assert common_values([frozenset("ab"), nobody, frozenset("bc")]) == frozenset("b")
    assert common_values([frozenset("a"), frozenset("b")]) == nobody


def test_named() -> None:
    """An agreement is named by itself, by a feature, or with all others."""
    assert agreements_named("cuda", AGREEMENTS) == {"cuda"}
    assert agreements_named("blas_lapack::provider", AGREEMENTS) == {"blas"}
    assert agreements_named(":all:", AGREEMENTS) == set(BY_NAME)
    for wrong in ("cuda12", "nvidia :: sm_arch", ""):
        with raises_code("invalid-property") as excinfo:
            agreements_named(wrong, AGREEMENTS)
        assert excinfo.value.hint == "they agree on cuda, rocm, blas, openmp, mpi, pytorch"


def test_own() -> None:
    """A user adds to what there is, and replaces what has the same name."""
    feature = (parse_feature("acme :: fabric"),)
    first, second = Agreement("fabric", "one", feature), Agreement("fabric", "two", feature)
    cuda = Agreement("cuda", "all of CUDA", BY_NAME["cuda"].features)
    assert with_user_agreements([]) == AGREEMENTS
    assert with_user_agreements([first, second, cuda]) == (cuda, *AGREEMENTS[1:], first)


def test_values_are_ordered_as_people_do() -> None:
    """Numbers in values count as numbers."""
    values = ["9", "12", "12.8", "12.10", "mkl", "openblas"]
    assert sorted(values, key=value_key) == ["mkl", "openblas", *values[:4]]
