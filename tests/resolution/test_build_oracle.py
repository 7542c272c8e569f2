"""Releases with several builds against brute force on small graphs."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from functools import cache

import pytest
from packaging.requirements import Requirement
from resolution.graphs import Graph, dependencies

from wheelfit.resolution.proof import write_proof
from wheelfit.resolution.solver import Unsolvable, solve

pytestmark = pytest.mark.integration

VERSIONS = 3
NAMES = ("a", "b", "c", "d")

Build = tuple[str, list[str], list[str]]
Choice = tuple[dict[str, int], dict[str, int]]
"""Versions, and the place of the build where there are several."""


@dataclass
class Problem:
    """Hold a graph in which some releases have builds for versions of others."""

    releases: dict[str, list[str]]
    builds: dict[str, list[Build]]
    roots: list[str]
    there: dict[str, str]

    def graph(self) -> Graph:
        """Return it as the solver asks for it."""
        return Graph(self.releases, builds=self.builds, there=self.there)

    def dependencies_of(self, name: str, choice: Choice) -> list[str]:
        """Return what a chosen release needs, in its build."""
        release = f"{name} {choice[0][name]}"
        if release in self.builds:
            return self.builds[release][choice[1][name]][1]
        return self.releases[release]

    def is_solution(self, choice: Choice) -> bool:
        """Return whether needs, limits and P-54 are met, and nothing is there in vain."""
        versions, places = choice
        if not all(met(root, versions) for root in self.roots):
            return False
        reached: set[str] = set()
        pending = [Requirement(root).name for root in self.roots]
        while pending:
            name = pending.pop()
            if name in reached:
                continue
            reached.add(name)
            for dependency in self.dependencies_of(name, choice):
                if not met(dependency, versions):
                    return False
                pending.append(Requirement(dependency).name)
        there = {name: int(version) for name, version in self.there.items()} | versions
        limits = (
            limit
            for name, place in places.items()
            for limit in self.builds[f"{name} {versions[name]}"][place][2]
        )
        return reached == set(versions) and all(met(limit, there) for limit in limits)

    def solutions(self) -> list[Choice]:
        """Try every choice there is."""
        found = []
        for numbers in itertools.product(range(VERSIONS + 1), repeat=len(NAMES)):
            versions = {n: v for n, v in zip(NAMES, numbers, strict=True) if v}
            if not all(met(root, versions) for root in self.roots):
                continue
            divided = [n for n, v in versions.items() if f"{n} {v}" in self.builds]
            counts = [len(self.builds[f"{n} {versions[n]}"]) for n in divided]
            for places in itertools.product(*map(range, counts)):
                choice = versions, dict(zip(divided, places, strict=True))
                if self.is_solution(choice):
                    found.append(choice)
        return found

    def rank(self, choice: Choice) -> tuple[list[int], list[int]]:
        """Return a key that is lower for what P-55 prefers."""
        named = list(dict.fromkeys(Requirement(root).name for root in self.roots))
        versions, places = choice
        return [-versions[name] for name in named], [places.get(name, 0) for name in named]


@cache
def parsed(text: str) -> tuple[str, frozenset[int]]:
    """Return the name of a requirement, and which versions meet it."""
    requirement = Requirement(text)
    numbers = range(1, VERSIONS + 1)
    return requirement.name, frozenset(n for n in numbers if str(n) in requirement.specifier)


def met(text: str, versions: dict[str, int]) -> bool:
    """Return whether a requirement is met."""
    name, numbers = parsed(text)
    return versions.get(name) in numbers


def random_problem(seed: int, *, brought: bool) -> Problem:
    """Return a problem.

    :param brought: whether every build needs what it was made for, as real ones do.
    """
    rng = random.Random(seed)

    def others(name: str, probability: float) -> list[str]:
        return [one for one in NAMES if one != name and rng.random() < probability]

    def requirement(name: str) -> str:
        operator = rng.choice(["==", ">=", ">=", "<=", "!="])
        return f"{name}{operator}{rng.randint(1, VERSIONS)}"

    releases: dict[str, list[str]] = {}
    builds: dict[str, list[Build]] = {}
    for name in NAMES:
        for version in range(1, VERSIONS + 1):
            release = f"{name} {version}"
            releases[release] = [requirement(one) for one in others(name, 0.3)]
            if rng.random() < 0.45:
                builds[release] = []
                for number in range(rng.randint(1, 3)):
                    made_for = others(name, 0.35)
                    limits = [f"{one}=={rng.randint(1, VERSIONS)}" for one in made_for]
                    found = [requirement(one) for one in others(name, 0.25)]
                    found += made_for if brought else []
                    builds[release].append((f"l{number}", found, limits))
    roots = [requirement(name) for name in rng.sample(NAMES, rng.randint(1, 2))]
    there = {} if brought else {n: str(rng.randint(1, 3)) for n in NAMES if rng.random() < 0.1}
    return Problem(releases, builds, roots, there)


def solved(problem: Problem) -> Choice | str:
    """Return what the solver chooses, or its proof that there is nothing."""
    graph = problem.graph()
    try:
        found = solve(graph, dependencies(*problem.roots))
    except Unsolvable as error:
        return write_proof(error.step, graph)
    versions = {str(package): int(str(version)) for package, version in found.versions.items()}
    return versions, {str(name): place for name, place in found.builds.items()}


@pytest.mark.parametrize("seed", range(120))
def test_right_about_every_request(seed: int) -> None:
    """P-52, P-54: what is found is a solution, and where nothing is found there is none."""
    problem = random_problem(seed, brought=False)
    found = solved(problem)
    if isinstance(found, str):
        assert not problem.solutions()
        assert "your request cannot be met" in found or "cannot all hold" in found
    else:
        assert problem.is_solution(found)


@pytest.mark.parametrize("seed", range(120))
def test_the_best_of_all(seed: int) -> None:
    """P-55: no solution has newer versions of what is named, and with those better labels."""
    problem = random_problem(seed, brought=True)
    found, solutions = solved(problem), problem.solutions()
    if isinstance(found, str):
        assert not solutions
    else:
        assert problem.is_solution(found)
        assert problem.rank(found) == min(map(problem.rank, solutions))
