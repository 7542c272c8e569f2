"""The solver on dense and large graphs; the laws of the solver hold it against brute force."""

from __future__ import annotations

import random

import pytest
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
