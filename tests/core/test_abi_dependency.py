"""Names, values and branches of the ABI dependency provider."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.core.abi_dependency import (
    KnownVersion,
    KnownVersions,
    branches,
    matches,
    not_admitted,
    project_of,
    read_override,
    recent_first,
    supported_values,
)
from wheelfit.core.markers import VariantContext, parse_marker
from wheelfit.core.metadata import check_document, read_document
from wheelfit.core.ordering import order_labels
from wheelfit.core.properties import PropertySet
from wheelfit.core.property_support import Support, support_for
from wheelfit.testing.wheels import SCHEMA
from wheelfit_runtime.platforms.features import Status

ABI = frozenset(["abi"])
NUMBERS = st.integers(min_value=0, max_value=3)
VALUES = st.lists(NUMBERS, min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))
VERSIONS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "", "1!"]),
    st.lists(NUMBERS, min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts))),
    st.sampled_from(["", "rc1", ".dev2", ".post1", "+cu128"]),
).map(Version)


def document(**labels: dict[str, list[str]]) -> dict[str, Any]:
    """Return a document whose labels have these features."""
    return {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": ["abi"]},
        "providers": {"abi": {"builtin": "abi_dependency"}},
        "variants": {label: {"abi": features} for label, features in labels.items()},
    }


def known(*, is_open: bool = False, **versions: str) -> KnownVersions:
    """Return the known versions of some projects."""
    return KnownVersions(
        {canonicalize_name(name): KnownVersion(Version(one)) for name, one in versions.items()},
        is_open=is_open,
    )


def support(known_: KnownVersions, **labels: dict[str, list[str]]) -> Support:
    """Return the supported properties of a document."""
    read = read_document(document(**labels), where="x")
    return support_for(read, None, environment={}, known=known_)


def reasons(known_: KnownVersions, **labels: dict[str, list[str]]) -> dict[str, str | None]:
    """Return for each label why it is incompatible; None if it is compatible."""
    read = read_document(document(**labels), where="x")
    found = support(known_, **labels)
    return {label: found.refusal(properties) for label, properties in read.variants.items()}


class TestNames:
    """P-46: a feature is a project as dist-info folders spell it."""

    @pytest.mark.parametrize(
        ("feature", "project"),
        [("torch", "torch"), ("flash_attn", "flash-attn"), ("a_b_1", "a-b-1")],
    )
    def test_projects(self, feature: str, project: str) -> None:
        """P-46: underscores stand for hyphens."""
        assert project_of(feature) == project

    @pytest.mark.parametrize("feature", ["flash__attn", "_torch", "torch_", "__"])
    def test_other_spellings(self, feature: str) -> None:
        """P-46: F-130: any other spelling is invalid, and costs only its label."""
        assert project_of(feature) is None
        read = read_document(document(bad={feature: ["1"]}, good={"torch": ["1"]}), where="x")
        assert list(read.variants) == ["good"]
        assert "P-46" in read.unusable["bad"]


class TestValues:
    """P-47, P-48: a value is a release of one to three numbers."""

    @pytest.mark.parametrize("value", ["2", "0", "2.8", "2.8.0", "0.10.20"])
    def test_valid(self, value: str) -> None:
        """P-47: one to three numbers in canonical form."""
        assert not check_document(json.dumps(document(a={"torch": [value]})).encode())

    @pytest.mark.parametrize(
        "value",
        ["02", "2.08", "2.8.0.1", "2.", ".2", "2..8", "2.8rc1", "2.8.post1", "2.8.dev0", "x",
         "1_0", "9" * 600],
    )  # fmt: skip
    def test_invalid(self, value: str) -> None:
        """P-47: F-130: anything else makes only its label unusable."""
        made = document(bad={"torch": sorted(["2.8", value])}, good={"torch": ["2.8"]})
        read = read_document(made, where="x")
        assert list(read.variants) == ["good"]
        assert "P-47" in read.unusable["bad"]
        (fault,) = check_document(json.dumps(made).encode())
        assert (fault.rule, fault.path) == ("P-47", "variants.bad.abi.torch")

    def test_every_fault_of_a_label_is_reported(self) -> None:
        """F-131: a label with several faulty features gets a fault for each."""
        features = {"flash__attn": ["1"], "numpy": ["x"], "torch": ["y"]}
        faults = check_document(document(bad=features))
        assert [(fault.rule, fault.path) for fault in faults] == [
            ("P-46", "variants.bad.abi.flash__attn"),
            ("P-47", "variants.bad.abi.numpy"),
            ("P-47", "variants.bad.abi.torch"),
        ]

    @given(value=VALUES, version=VERSIONS)
    def test_matching_is_a_prefix_match(self, value: str, version: Version) -> None:
        """P-48: a value matches exactly what ``== value.*`` does."""
        expected = SpecifierSet(f"=={value}.*").contains(version, prereleases=True)
        assert matches(value, version) is expected


class TestSupported:
    """P-51: supported values for known versions."""

    @pytest.mark.parametrize(
        ("version", "values"),
        [
            ("2.8", ("2.8.0", "2.8", "2")),
            ("12.6.4.1", ("12.6.4", "12.6", "12")),
            ("3rc1", ("3.0.0", "3.0", "3")),
            ("1!2", ()),
        ],
    )
    def test_values_of_a_version(self, version: str, values: tuple[str, ...]) -> None:
        """P-51: prefixes of the release, padded, the most specific first."""
        assert supported_values(Version(version)) == values

    @given(values=st.lists(VALUES, unique=True, max_size=8), version=VERSIONS)
    def test_open_and_known_agree(self, values: list[str], version: Version) -> None:
        """P-51: values of open versions have the order of each known version."""
        order = [value for value in recent_first(values) if matches(value, version)]
        assert order == [one for one in supported_values(version) if one in values]

    def test_features_by_name(self) -> None:
        """P-51: features in ascending order of names, without missing projects."""
        found = support(known(torch="2.8", numpy="1.26.4"), a={"torch": ["2.8"]},
                        b={"numpy": ["1"], "scipy": ["1"]}).detections["abi"]  # fmt: skip
        assert [(feature.name, feature.values) for feature in found.features] == [
            ("numpy", ("1.26.4", "1.26", "1")),
            ("torch", ("2.8.0", "2.8", "2")),
        ]

    def test_unknown_versions(self) -> None:
        """P-51: without known versions nothing is supported, unless versions are still chosen."""
        labels = {"a": {"torch": ["2.8", "2.9.0"]}}
        assert support(KnownVersions(), **labels).detections["abi"].status is Status.NOTHING
        (config,) = support(KnownVersions(is_open=True), **labels).detections["abi"].features
        assert config.values == ("2.9.0", "2.8")

    def test_several_values_and_features(self) -> None:
        """P-49: one of the values, and every feature, has to match."""
        assert reasons(
            known(torch="2.8.1", numpy="2.1"),
            one={"torch": ["2.7", "2.8"]},
            none={"torch": ["2.7", "2.9"]},
            both={"torch": ["2.8"], "numpy": ["2"]},
            half={"torch": ["2.8"], "numpy": ["1"]},
        ) == {
            "one": None,
            "none": "is built for torch 2.9 or 2.7, torch 2.8.1 is installed "
            "(abi :: torch :: 2.7 or 2.9)",
            "both": None,
            "half": "is built for numpy 1, numpy 2.1 is installed (abi :: numpy :: 1)",
        }

    def test_missing_project(self) -> None:
        """P-54: a build for a missing project is rejected with that reason."""
        found = reasons(KnownVersions(), one={"torch": ["2.8"]})["one"]
        assert found == (
            "is built for torch 2.8, torch is neither installed nor chosen (abi :: torch :: 2.8)"
        )

    def test_order_of_labels(self) -> None:
        """P-55: labels are ordered like those of any namespace, the most specific first."""
        labels = {"a": {"torch": ["2"]}, "b": {"torch": ["2.8.0"]}, "c": {"torch": ["2.8"]}}
        read = read_document(document(**labels), where="x")
        found = order_labels(read, support(known(torch="2.8"), **labels))
        assert [one.label for one in found] == ["b", "c", "a"]


class TestBranches:
    """P-52, P-53: the alternatives by which a label can be satisfied."""

    @given(values=st.lists(VALUES, min_size=1, unique=True, max_size=6), version=VERSIONS)
    def test_partition(self, values: list[str], version: Version) -> None:
        """P-52, P-53: exactly one branch holds for each admitted version, and knows its values."""
        properties = PropertySet.from_mapping({"abi": {"torch": values}})
        holding = [
            way
            for (way,) in branches(properties, ABI)
            if SpecifierSet(way.specifier).contains(version, prereleases=True)
        ]
        met = {value for value in values if matches(value, version)}
        assert len(holding) == bool(met)
        assert all(way.matching_values == met for way in holding)

    def test_most_recent_first(self) -> None:
        """P-53: the most recent versions are tried first."""
        properties = PropertySet.from_mapping({"abi": {"torch": ["2.8.0", "2.10", "2.9.0"]}})
        assert [str(way) for (way,) in branches(properties, ABI)] == [
            "torch 2.10", "torch 2.9.0", "torch 2.8.0",
        ]  # fmt: skip

    def test_several_features(self) -> None:
        """P-49, P-53: every branch has all features of this namespace, and no others."""
        properties = PropertySet.from_mapping(
            {"abi": {"torch": ["2.8", "2.9"], "numpy": ["1", "2"]}, "x": {"y": ["1"]}}
        )
        ways = [" ".join(map(str, way)) for way in branches(properties, ABI)]
        assert ways == [
            "numpy 2 torch 2.9", "numpy 2 torch 2.8", "numpy 1 torch 2.9", "numpy 1 torch 2.8",
        ]  # fmt: skip

    def test_forbidden_value(self) -> None:
        """F-91: a forbidden value is not a branch; one that contains it is."""
        properties = PropertySet.from_mapping({"abi": {"torch": ["2", "2.8", "3"]}})
        forbidden = frozenset([("abi", "torch", "2.8"), ("abi", "torch", "3")])
        ways = {str(way): way.matching_values for (way,) in branches(properties, ABI, forbidden)}
        assert ways == {"torch 2.8": {"2.8", "2"}, "torch 2": {"2"}}

    def test_values_in_markers(self) -> None:
        """F-103, F-111: with a known version markers have only the values it matches."""
        labels = {"a": {"torch": ["2.8.0", "2.9.0"]}}
        properties = PropertySet.from_mapping({"abi": labels["a"]})
        context = VariantContext("a", support(known(torch="2.9.0"), **labels).filter(properties))
        for value, expected in (("2.8.0", False), ("2.9.0", True)):
            marker = parse_marker(f'"abi :: torch :: {value}" in variant_properties')
            assert marker.evaluate({}, "", context) is expected


def test_declared_versions() -> None:
    """P-57: items are read separately, and an invalid one does not affect others."""
    versions, ignored = read_override("torch==2.8.0, Flash_Attn == 2 ,x=1,==1,y==new,")
    assert {name: str(one.version) for name, one in versions.items()} == {
        "torch": "2.8.0", "flash-attn": "2",
    }  # fmt: skip
    assert [text.split(" is ")[0] for text in ignored] == ["'x=1'", "'==1'", "'y==new'"]


def test_values_outside_a_requirement() -> None:
    """P-58: a value without any admitted version is detected."""
    values = ["2.7", "2.8.0", "2.9"]
    assert not_admitted(SpecifierSet(">=2.7,<2.10"), values) == ()
    assert not_admitted(SpecifierSet("==2.8.*"), values) == ("2.9", "2.7")
    assert not_admitted(SpecifierSet("!=2.9.*"), values) == ("2.9",)
