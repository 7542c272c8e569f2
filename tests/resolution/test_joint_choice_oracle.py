"""Sets of builds that agree against brute force on small worlds."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from resolution.releases import add_release, installed_build

from wheelfit.core.agreements import Agreement
from wheelfit.core.properties import parse_feature
from wheelfit.errors import NoConsistentSet
from wheelfit.resolution.candidates import ChoicePolicy
from wheelfit.resolution.request import InstalledBuild
from wheelfit.resolution.resolution import Resolution
from wheelfit.testing.resolution_setup import ResolutionSetup
from wheelfit.testing.wheels import release_document
from wheelfit_runtime.errors import NoFit

pytestmark = pytest.mark.integration

NAMES = ("a", "b", "c")
VERSIONS = 3
VALUES = ("1", "2", "3")
FABRIC = Agreement("fabric", "fabric", (parse_feature("acme :: fabric"),))
WEAVE = Agreement("weave", "weave", (parse_feature("acme :: weave"),))
ACME = {
    "static-properties": {"fabric": ["2", "3", "1"], "weave": ["1", "3", "2"]},
    "feature-order": ["fabric", "weave"],
}

Sets = dict[str, frozenset[str]]
"""The values of a label, by agreement."""
Build = tuple[int, str]
"""A version, and a label; empty: the plain wheel."""
Solution = dict[str, Build]


@dataclass
class Problem:
    """Hold a world of which everything is asked for, in some order."""

    labels: dict[str, dict[str, Sets]]
    """What each label of a release goes with; ``""`` is its plain wheel."""
    needs: dict[tuple[str, str], list[str]]
    """What the wheel of a label needs."""
    roots: list[str]
    agreements: tuple[Agreement, ...]
    beside: tuple[str, str] | None = None
    """A release and a label that is installed and that nobody asks for."""
    ranks: dict[str, list[str]] = field(default_factory=dict)
    """The labels of a release, best first, as they are ranked freely."""

    def world(self) -> ResolutionSetup:
        """Return it as the resolver sees it."""
        world = ResolutionSetup(policy=ChoicePolicy(agreements=self.agreements))
        for release, labels in self.labels.items():
            needs = {label: self.needs.get((release, label), ()) for label in labels}
            add_release(
                world.repository, release, self.document(release), needs, plain="" in labels
            )
        candidates = world.candidates()
        for release in self.labels:
            name, version = release.split()
            choice = candidates.choice(canonicalize_name(name), Version(version))
            self.ranks[release] = [label or "" for label in choice.labels]
        return world

    def document(self, release: str) -> dict[str, object]:
        """Return the variant metadata of a release."""
        variants = {
            label: {"acme": {name: sorted(values) for name, values in sets.items() if values}}
            for label, sets in self.labels[release].items()
            if label
        }
        return release_document(variants, providers={"acme": ACME})

    def installed(self) -> list[InstalledBuild]:
        """Return what is there."""
        if self.beside is None:
            return []
        release, label = self.beside
        return [installed_build(release, label, self.document(release))]

    # --- what is right ------------------------------------------------------------

    def values(self, name: str, build: Build, agreement: str) -> frozenset[str]:
        """Return what a chosen build goes with."""
        return self.labels[f"{name} {build[0]}"][build[1]].get(agreement, frozenset())

    def agrees(self, solution: Solution) -> bool:
        """Return whether all builds go with each other."""
        return all(
            any(
                all(
                    not (found := self.values(name, build, agreement.name)) or value in found
                    for name, build in solution.items()
                )
                for value in VALUES
            )
            for agreement in self.agreements
        )

    def label_of(self, release: str, held: dict[str, str]) -> str | None:
        """Return the best label that goes with some values."""
        for label in self.ranks[release]:
            sets = self.labels[release][label]
            if all(not sets.get(name) or value in sets[name] for name, value in held.items()):
                return label
        return None

    def best(self, held: dict[str, str]) -> Solution | None:
        """Return the newest versions of what is asked for, first that of the first."""
        order = list(dict.fromkeys(Requirement(root).name for root in self.roots))
        found: Solution | None = None
        for numbers in itertools.product(range(VERSIONS, 0, -1), repeat=len(order)):
            solution: Solution = {}
            for name, number in zip(order, numbers, strict=True):
                label = self.label_of(f"{name} {number}", held)
                if label is None:
                    break
                solution[name] = number, label
            else:
                if self.is_met(solution):
                    found = solution
                    break
        if found is None or self.beside is None:
            return found
        release, label = self.beside
        name, version = release.split()
        sets = self.labels[release][label]
        if any(sets.get(one) and value not in sets[one] for one, value in held.items()):
            other = self.label_of(release, held)
            if other is None:
                return None
            label = other
        return {**found, name: (int(version), label)}

    def sound(self) -> Iterator[Solution]:
        """Yield every set that agrees and whose needs are met, worse builds included."""
        names = list(NAMES)
        each = [
            [(n, label) for n in range(1, VERSIONS + 1) for label in self.ranks[f"{name} {n}"]]
            for name in NAMES
        ]
        if self.beside is not None:
            name, version = self.beside[0].split()
            names.append(name)
            each.append([(int(version), label) for label in self.ranks[self.beside[0]]])
        for builds in itertools.product(*each):
            solution = dict(zip(names, builds, strict=True))
            if self.agrees(solution) and self.is_met(solution):
                yield solution

    def is_met(self, solution: Solution) -> bool:
        """Return whether every need is met."""
        needs = [*self.roots]
        for name, (number, label) in solution.items():
            needs += self.needs.get((f"{name} {number}", label), [])
        return all(
            str(solution[parsed.name][0]) in parsed.specifier for parsed in map(Requirement, needs)
        )

    def rank(self, solution: Solution, free: Solution, held: dict[str, str]) -> object:
        """Return a key that is lower for what the rule prefers."""
        order = [*dict.fromkeys(Requirement(root).name for root in self.roots)]
        order += [name for name in free if name not in order]
        exchanged = sum(solution[name] != free[name] for name in solution if name not in NAMES)
        # All is asked for but what is installed beside, and that stays at its version.
        older = sum(build[0] < free[name][0] for name, build in solution.items())
        poorer = sum(
            bool(self.values(name, free[name], agreement.name))
            and not self.values(name, build, agreement.name)
            for agreement in self.agreements
            for name, build in solution.items()
        )
        # What stays as it is installed is better than any other build.
        places = [
            (
                -solution[name][0],
                -1
                if name not in NAMES and solution[name] == free[name]
                else self.ranks[f"{name} {solution[name][0]}"].index(solution[name][1]),
            )
            for name in order
        ]
        return (
            exchanged,
            older,
            poorer,
            places,
            [-int(held[agreement.name]) for agreement in self.agreements],
        )

    def expected(self) -> Solution | None:
        """Try every combination of values; None: nothing agrees."""
        free = self.best({})
        assert free is not None
        if self.agrees(free):
            return free
        found = []
        for values in itertools.product(VALUES, repeat=len(self.agreements)):
            held = {one.name: value for one, value in zip(self.agreements, values, strict=True)}
            solution = self.best(held)
            if solution is not None:
                found.append((self.rank(solution, free, held), solution))
        return min(found, key=lambda pair: pair[0])[1] if found else None  # type: ignore[arg-type,return-value]


def random_problem(seed: int, *, agreements: tuple[Agreement, ...], beside: bool) -> Problem:
    """Return a problem that has a solution freely."""
    rng = random.Random(seed)
    names = (*NAMES, "z") if beside else NAMES

    def sets() -> Sets:
        return {
            agreement.name: frozenset(rng.sample(VALUES, rng.choice([1, 1, 1, 2])))
            for agreement in agreements
            if rng.random() < 0.9
        }

    labels: dict[str, dict[str, Sets]] = {}
    needs: dict[tuple[str, str], list[str]] = {}
    for name in names:
        for number in range(1, VERSIONS + 1):
            release = f"{name} {number}"
            labels[release] = {f"l{i}": sets() for i in range(rng.randint(1, 3))}
            # A label has properties, or it would not be one.
            labels[release] = {k: v for k, v in labels[release].items() if v}
            if not labels[release] or rng.random() < 0.25:
                labels[release][""] = {}
            for label in labels[release]:
                others = [one for one in NAMES if one != name and rng.random() < 0.2]
                needs[release, label] = [
                    f"{one}{rng.choice(['==', '>=', '<=', '!='])}{rng.randint(1, VERSIONS)}"
                    for one in others
                    if name in NAMES
                ]
            if len(agreements) > 1:
                # Else a set that agrees by chance might be worse than one that has to: of a
                # release the best label is taken, and another one not for its needs alone.
                first = next(iter(labels[release]))
                needs |= {(release, label): needs[release, first] for label in labels[release]}
    roots = rng.sample(NAMES, len(NAMES))
    installed = None
    if beside:
        release = f"z {rng.randint(1, VERSIONS)}"
        known = [label for label in labels[release] if label]
        installed = (release, rng.choice(known)) if known else None
    problem = Problem(labels, needs, roots, agreements, installed)
    problem.world()
    return problem


def environment(problem: Problem, resolution: Resolution) -> Solution:
    """Return everything that would be there."""
    found = {str(p.name): (p.version.major, p.label or "") for p in problem.installed()}
    found |= {str(p.name): (p.version.major, p.label or "") for p in resolution.pins}
    return found


def check(problem: Problem) -> str:
    """Hold the resolver against brute force; return what came of it."""
    world = problem.world()
    if problem.best({}) is None:
        with pytest.raises(NoFit):
            world.resolve(*problem.roots, installed=problem.installed())
        return "none"
    expected = problem.expected()
    if expected is None and (sound := [*problem.sound()]):
        # Only a worse build of something, which needs less, goes with the rest.
        resolution = world.resolve(*problem.roots, installed=problem.installed())
        assert environment(problem, resolution) in sound
        return "worse"
    if expected is None:
        with pytest.raises(NoConsistentSet) as excinfo:
            world.resolve(*problem.roots, installed=problem.installed())
        assert excinfo.value.details
        return "refused"
    resolution = world.resolve(*problem.roots, installed=problem.installed())
    assert environment(problem, resolution) == expected
    assert all(held.values for held in resolution.agreements)
    return "forced" if any(held.forced.reasons for held in resolution.agreements) else "free"


@pytest.mark.parametrize("start", range(0, 120, 20))
def test_one_agreement(start: int) -> None:
    """The best set by the rule is found, and where nothing is found there is none."""
    outcomes = {
        check(random_problem(seed, agreements=(FABRIC,), beside=False))
        for seed in range(start, start + 20)
    }
    assert "forced" in outcomes


@pytest.mark.parametrize("start", range(0, 120, 20))
def test_something_is_installed(start: int) -> None:
    """What is installed and nobody asks for takes part, and stays if any set lets it."""
    outcomes = {
        check(random_problem(seed, agreements=(FABRIC,), beside=True))
        for seed in range(start, start + 20)
    }
    assert "forced" in outcomes


@pytest.mark.parametrize("start", range(0, 100, 20))
def test_two_agreements(start: int) -> None:
    """Several agreements hold at once."""
    outcomes = {
        check(random_problem(seed, agreements=(FABRIC, WEAVE), beside=False))
        for seed in range(start, start + 20)
    }
    assert "forced" in outcomes
