"""The solver against brute force on small graphs."""

from __future__ import annotations

import itertools
import random

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from resolution.graphs import Graph, dependencies

from wheelfit.resolution.solver import Unsolvable, solve

pytestmark = pytest.mark.integration

Releases = dict[str, list[str]]


def random_graph(seed: int, projects: int, versions: int) -> tuple[Releases, list[str]]:
    """Return a dense graph with cycles, and what is asked of it."""
    rng = random.Random(seed)
    names = [chr(ord("a") + index) for index in range(projects)]

    def requirement(name: str) -> str:
        kind = rng.random()
        version = rng.randint(1, versions)
        if kind < 0.35:
            return f"{name}=={version}"
        if kind < 0.6:
            return f"{name}>={version}"
        if kind < 0.85:
            return f"{name}<={version}"
        return f"{name}!={version}"

    releases = {
        f"{name} {version}": [
            requirement(other)
            for other in names
            if (other != name or rng.random() < 0.05) and rng.random() < 0.45
        ]
        for name in names
        for version in range(1, versions + 1)
    }
    return releases, [requirement(name) for name in rng.sample(names, 2)]


def fits(releases: Releases, roots: list[str], chosen: dict[str, int]) -> bool:
    """Return whether a choice meets the roots and the needs of everything chosen."""

    def met(text: str) -> bool:
        requirement = Requirement(text)
        version = chosen.get(requirement.name)
        return version is not None and Version(str(version)) in requirement.specifier

    return all(map(met, roots)) and all(
        met(text) for name, version in chosen.items() for text in releases[f"{name} {version}"]
    )


def is_solvable(releases: Releases, roots: list[str], projects: int, versions: int) -> bool:
    """Try every choice there is."""
    names = [chr(ord("a") + index) for index in range(projects)]
    return any(
        fits(releases, roots, {n: v for n, v in zip(names, choice, strict=True) if v})
        for choice in itertools.product(range(versions + 1), repeat=projects)
    )


@pytest.mark.parametrize("seed", range(150))
def test_agrees_with_brute_force(seed: int) -> None:
    """House plan: on dense cyclic graphs the solver is right about every one."""
    releases, roots = random_graph(seed, projects=5, versions=3)
    expected = is_solvable(releases, roots, 5, 3)
    try:
        solved = solve(Graph(releases), dependencies(*roots))
    except Unsolvable:
        assert not expected
    else:
        assert expected
        chosen = {str(package): int(str(version)) for package, version in solved.versions.items()}
        assert fits(releases, roots, chosen)


@pytest.mark.parametrize("seed", range(40))
def test_the_same_twice(seed: int) -> None:
    """Equal questions get equal answers, whatever was asked before."""
    releases, roots = random_graph(seed, projects=6, versions=4)

    def answer() -> object:
        try:
            return solve(Graph(releases), dependencies(*roots))
        except Unsolvable as error:
            return [fact.text for fact in error.step.facts()]

    assert answer() == answer()


def test_a_long_history() -> None:
    """House plan: 800 releases that all conflict are one clause, not 800."""
    history = {f"client {major}.{minor}": [f"core=={major}.{minor}"]
               for major in range(1, 21) for minor in range(40)}  # fmt: skip
    core = {f"core {major}.{minor}": ["urls<2"] for major in range(1, 21) for minor in range(40)}
    graph = Graph(history | core | {"core 0.1": [], "client 0.1": [], "urls 1": [], "urls 2": []})
    solved = solve(graph, dependencies("client", "urls>=2"))
    assert {str(package): str(version) for package, version in solved.versions.items()} == {
        "client": "0.1", "urls": "2",
    }  # fmt: skip


def test_three_hundred_packages() -> None:
    """A request as large as a big application's is solved."""
    releases: Releases = {}
    for index in range(300):
        for version in range(1, 21):
            lower = max(1, version - 10)
            releases[f"p{index} {version}"] = [
                f"p{other}>={lower}" for other in range(index + 1, min(index + 5, 300))
            ]
    solved = solve(Graph(releases), dependencies("p0"))
    assert len(solved.versions) == 300
    assert set(map(str, solved.versions.values())) == {"20"}
