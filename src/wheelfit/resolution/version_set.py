"""Sets of versions, as the solver computes with them.

A thin, immutable wrapper of `packaging.ranges.VersionRange`, which implements the specifiers of
PEP 440. It adds the relation of two sets, a cached hash, and intervals.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from packaging.ranges import VersionRange
from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterable


class Relation(Enum):
    """The relation of the members of one set to those of another."""

    EMPTY = (True, True)
    SUBSET = (True, False)
    DISJOINT = (False, True)
    OVERLAPPING = (False, False)

    @property
    def is_subset(self) -> bool:
        """Return whether every member of the left set is in the right one."""
        return bool(self.value[0])

    @property
    def is_disjoint(self) -> bool:
        """Return whether the two sets share no member."""
        return bool(self.value[1])


# ``VersionRange.full()`` also contains arbitrary texts that are not versions. A difference of two
# ranges never has them, so it would not be equal to the same range computed in another way, and the
# conflict resolution of the solver would loop.
_ALL = VersionRange.full(admit_arbitrary=False)
# From versions without a final release, packaging's filter keeps all pre-releases; beside a final
# one, only those that a specifier names. So this release is added before filtering.
_FINAL = Version("0")
_ANY_FINAL = VersionRange.singleton(_FINAL)


class VersionSet:
    """A set of versions, which can be hashed and compared.

    A set also records in which of its intervals a specifier named a pre-release (PEP 440). Two sets
    that differ in this are not equal, even if they have the same members.

    >>> VersionSet.of(">=1,<2") & VersionSet.of("!=1.5") == VersionSet.of(">=1,!=1.5,<2")
    True
    """

    __slots__ = ("_hash", "_range")

    def __init__(self, versions: VersionRange) -> None:
        self._range = versions
        self._hash = hash(versions)

    # --- constructors -------------------------------------------------------

    @classmethod
    def empty(cls) -> VersionSet:
        """Return the set without members."""
        return _EMPTY

    @classmethod
    def full(cls) -> VersionSet:
        """Return the set of all versions."""
        return _FULL

    @classmethod
    def singleton(cls, version: Version | str) -> VersionSet:
        """Return the set of exactly one version; ``1.0+local`` is another one."""
        return cls(VersionRange.singleton(version))

    @classmethod
    def of(cls, specifiers: SpecifierSet | str) -> VersionSet:
        """Return the set that a specifier set admits.

        :param specifiers: as ``>=1,<2``; the empty text admits all.
        :raises packaging.specifiers.InvalidSpecifier: the text is not a specifier set.
        """
        return _of(str(specifiers))

    @classmethod
    def between(cls, lower: Version | None, upper: Version | None) -> VersionSet | None:
        """Return the versions strictly between two, or None if no specifier expresses them.

        :param lower: the version below; None: nothing is below.
        :param upper: the version above; None: nothing is above.
        """
        # No public specifier separates a local version from its neighbours.
        if (lower is not None and lower.local) or (upper is not None and upper.local):
            return None
        between = _ALL
        if lower is not None:
            between &= _from(lower) - VersionRange.singleton(lower)
        if upper is not None:
            between -= _from(upper)
        return cls(between)

    @classmethod
    def union_of_intervals(cls, intervals: Iterable[tuple[Version, Version]]) -> VersionSet | None:
        """Return the union of closed intervals, or None if no specifier expresses it.

        :param intervals: pairs of first and last version.
        """
        union = VersionRange.empty()
        for first, last in intervals:
            if first.local or last.local:
                return None
            above = _from(last) - VersionRange.singleton(last)
            union |= _from(first) - above
        return cls(union)

    # --- for the solver -------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Return whether there is no member."""
        return self._range.is_empty

    def __contains__(self, version: object) -> bool:
        return isinstance(version, Version) and version in self._range

    def __and__(self, other: object) -> VersionSet:
        if not isinstance(other, VersionSet):
            return NotImplemented
        if other is _FULL:
            return self
        if self is _FULL:
            return other
        return VersionSet(self._range & other._range)

    def __or__(self, other: object) -> VersionSet:
        if not isinstance(other, VersionSet):
            return NotImplemented
        return VersionSet(self._range | other._range)

    def __sub__(self, other: object) -> VersionSet:
        if not isinstance(other, VersionSet):
            return NotImplemented
        return VersionSet(self._range - other._range)

    def __invert__(self) -> VersionSet:
        return VersionSet(~self._range)

    def is_subset(self, other: VersionSet) -> bool:
        """Return whether every member is in the other set."""
        return self._range.is_subset(other._range)

    def is_superset(self, other: VersionSet) -> bool:
        """Return whether every member of the other set is here."""
        return other._range.is_subset(self._range)

    def is_disjoint(self, other: VersionSet) -> bool:
        """Return whether the two share no member."""
        return self._range.is_disjoint(other._range)

    def relation(self, other: VersionSet) -> Relation:
        """Return the relation to the members of another set."""
        if self._range.is_disjoint(other._range):  # by far the most frequent
            return Relation.EMPTY if self._range.is_empty else Relation.DISJOINT
        return Relation.SUBSET if self.is_subset(other) else Relation.OVERLAPPING

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, VersionSet):
            return NotImplemented
        return self._hash == other._hash and self._range == other._range

    def __hash__(self) -> int:
        return self._hash

    # --- for the candidates ---------------------------------------------------

    def members(self, versions: Iterable[Version]) -> list[Version]:
        """Return those of some versions that are in the set, in their order."""
        return list(self._range.filter(versions, prereleases=True))

    def without_unrequested_prereleases(self, versions: Iterable[Version]) -> frozenset[Version]:
        """Return the members among some versions, without pre-releases that no specifier names.

        PEP 440 excludes those.
        """
        members = self.members(versions)
        if not any(version.is_prerelease for version in members):
            return frozenset(members)
        named = (self._range | _ANY_FINAL).filter((_FINAL, *members))
        return frozenset(named).intersection(members)

    # --- text -----------------------------------------------------------------

    def __str__(self) -> str:
        """Return it as a specifier set if there is one, else as intervals."""
        text = self.specifiers()
        return _intervals(self._range) if text is None else text

    def specifiers(self) -> str | None:
        """Return it as a short specifier set, or None if there is none."""
        if self._range == _ALL:
            return ""
        specifiers = self._range.to_specifier_set()
        if specifiers is None or len(specifiers) > _READABLE:
            return None
        # ``>=1,!=1.5,<2`` reads better than the order of the alphabet.
        return ",".join(sorted(map(str, specifiers), key=_reading_order))

    def __repr__(self) -> str:
        return f"VersionSet({str(self)!r})"


def _intervals(versions: VersionRange) -> str:
    """Return the intervals of a range, which packaging states only as ``<VersionRange '…'>``."""
    return repr(versions).split("'")[1]


_READABLE = 6
"""Specifiers of the longest set that is written as one; others are written as intervals."""
_ORDER = {"===": 0, "==": 0, "~=": 1, ">=": 1, ">": 1, "!=": 2, "<": 3, "<=": 3}


def _reading_order(specifier: str) -> tuple[int, str]:
    operator = specifier.rstrip("*").rstrip("0123456789abcdefghijklmnopqrstuvwxyz.+!-_")
    return _ORDER.get(operator, 2), specifier


def _from(version: Version) -> VersionRange:
    return SpecifierSet(f">={version}").to_range() & _ALL


@lru_cache(maxsize=4096)
def _of(text: str) -> VersionSet:
    if not text:
        return _FULL
    plain: list[Specifier] = []
    literals: list[Specifier] = []
    for specifier in SpecifierSet(text):
        (literals if specifier.operator == "===" else plain).append(specifier)
    versions = SpecifierSet(",".join(map(str, plain))).to_range() & _ALL
    for literal in literals:
        # Only texts that are versions can name a release; a set with a bare text
        # among its members would break the laws the solver relies on.
        try:
            versions &= VersionRange.singleton(literal.version)
        except InvalidVersion:
            versions = VersionRange.empty()
    return VersionSet(versions)


_EMPTY = VersionSet(VersionRange.empty())
_FULL = VersionSet(_ALL)


def is_pin(specifiers: SpecifierSet) -> bool:
    """Return whether a specifier set names one version with ``==`` or ``===`` (PEP 592).

    ``==1.*`` is not a pin.
    """
    return any(
        specifier.operator == "==="
        or (specifier.operator == "==" and not specifier.version.endswith(".*"))
        for specifier in specifiers
    )
