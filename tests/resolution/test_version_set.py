"""Sets of versions."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from wheelfit.resolution.version_set import Relation, VersionSet, is_pin

VERSIONS = [Version(text) for text in ("0.9", "1.0a1", "1.0", "1.0+cpu", "1.0.post1", "1.5", "2")]


@pytest.mark.parametrize("text", ["", ">=1", "==1.0", "~=1.0", "!=1.5", "<2,>=1", "==1.*"])
def test_has_the_members_of_the_specifiers(text: str) -> None:
    """PEP 440: a set holds what its specifiers admit, pre-releases included."""
    admitted = list(SpecifierSet(text).filter(VERSIONS, prereleases=True))
    assert VersionSet.of(text).members(VERSIONS) == admitted


def test_arbitrary_equality_is_a_single_version() -> None:
    """PEP 440: ``===`` names one version; a text that is none names nothing."""
    assert VersionSet.of("===1.0").members(VERSIONS) == [Version("1.0")]
    assert VersionSet.of("===wat").is_empty
    assert VersionSet.of(">=1.2,===1.0").is_empty


@pytest.mark.parametrize(
    ("left", "right", "relation"),
    [
        (">=2", ">=1", Relation.SUBSET),
        (">=1", ">=2", Relation.OVERLAPPING),
        (">=2", "<2", Relation.DISJOINT),
        (">=2,<2", "<2", Relation.EMPTY),
    ],
)
def test_relation(left: str, right: str, relation: Relation) -> None:
    """The solver's contract: one relation says how two sets lie to each other."""
    found = VersionSet.of(left).relation(VersionSet.of(right))
    assert found is relation
    assert found.is_subset is VersionSet.of(left).is_subset(VersionSet.of(right))
    assert found.is_disjoint is VersionSet.of(left).is_disjoint(VersionSet.of(right))


def test_the_widest_set_is_the_complement_of_the_empty_one() -> None:
    """The solver's contract: nothing is lost when a difference is put back."""
    assert ~VersionSet.empty() == VersionSet.full() == VersionSet.of("")
    some = VersionSet.of(">=1,<2")
    assert VersionSet.full().is_subset((VersionSet.full() - some) | some)


def test_a_gap_holds_what_lies_between() -> None:
    """House plan: a decision stands for the gap around its release."""
    gap = VersionSet.between(Version("1.0"), Version("1.5"))
    assert gap is not None
    assert gap.members(VERSIONS) == [Version("1.0+cpu"), Version("1.0.post1")]
    below = VersionSet.between(None, Version("1.0a1"))
    above = VersionSet.between(Version("1.5"), None)
    assert below is not None
    assert above is not None
    assert below.members(VERSIONS) == [Version("0.9")]
    assert above.members(VERSIONS) == [Version("2")]
    assert VersionSet.between(Version("1.0+cpu"), None) is None


def test_adjacent_gaps_leave_only_the_releases_between() -> None:
    """House plan: gaps of neighbours merge, so that a clause can hold a whole history."""
    one = VersionSet.between(Version("1"), Version("3"))
    two = VersionSet.between(Version("2"), Version("4"))
    assert one is not None
    assert two is not None
    assert (one | two) == VersionSet.between(Version("1"), Version("4"))


@pytest.mark.parametrize(
    ("text", "version", "admitted"),
    [
        (">=1", "2a1", False),
        (">=2a1", "2a1", True),
        (">=2a1", "3b1", True),
        ("==2a1", "2a1", True),
        (">=2a1", "1a1", False),
        ("", "1a1", False),
        (">=1", "1", True),
        (">=1,<1.5", "1.4a1", False),
    ],
)
def test_named_prereleases_are_admitted(text: str, version: str, *, admitted: bool) -> None:
    """PEP 440: a specifier that names a pre-release admits pre-releases."""
    found = VersionSet.of(text).without_unrequested_prereleases([Version(version)])
    assert (found == {Version(version)}) is admitted


def test_a_named_prerelease_survives_intersection() -> None:
    """PEP 440: of several specifiers one that names a pre-release is enough."""
    both = VersionSet.of(">=1") & VersionSet.of(">=2a1")
    assert both.without_unrequested_prereleases([Version("2a2")])


@pytest.mark.parametrize(
    ("text", "shown"),
    [("", ""), (">=1", ">=1"), ("<2,>=1,!=1.5", ">=1,!=1.5,<2"), ("==1.*", "==1.*")],
)
def test_reads_as_it_was_written(text: str, shown: str) -> None:
    """Proofs speak in specifiers, lower bounds first."""
    assert str(VersionSet.of(text)) == shown


def test_falls_back_to_intervals() -> None:
    """What no specifier says is still shown."""
    runs = VersionSet.union_of_intervals(
        [(Version("1"), Version("1.2")), (Version("2"), Version("2"))]
    )
    assert str(runs) == "[1, 1.2] | [2, 2]"
    assert VersionSet.union_of_intervals([(Version("1+cpu"), Version("2"))]) is None


@pytest.mark.parametrize(
    ("text", "pin"),
    [("==1.0", True), ("===1.0", True), ("==1.*", False), (">=1", False), (">=1,==1.2", True)],
)
def test_pins(text: str, *, pin: bool) -> None:
    """PEP 592: only ``==`` without wildcard and ``===`` ask for a yanked release."""
    assert is_pin(SpecifierSet(text)) is pin
