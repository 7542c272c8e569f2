"""Laws of the solver, held against trying everything."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.version import Version
from resolution.graphs import Graph, dependencies

from wheelfit.resolution.solver import Unsolvable, solve

NAMES = ("a", "b", "c", "d")
VERSIONS = (1, 2, 3)

requirements = st.builds(
    "{}{}{}".format,
    st.sampled_from(NAMES),
    st.sampled_from([">=", "<=", "==", "!="]),
    st.sampled_from(VERSIONS),
)
releases = st.fixed_dictionaries(
    {
        f"{name} {version}": st.lists(requirements, max_size=2)
        for name in NAMES
        for version in VERSIONS
    }
)
release_names = st.sampled_from([f"{name} {version}" for name in NAMES for version in VERSIONS])


def meets(text: str, chosen: dict[str, int]) -> bool:
    """Return whether a requirement is met."""
    requirement = Requirement(text)
    version = chosen.get(requirement.name)
    return version is not None and requirement.specifier.contains(Version(str(version)))


def is_solution(
    graph: dict[str, list[str]],
    roots: list[str],
    limits: list[str],
    unusable: list[str],
    chosen: dict[str, int],
) -> bool:
    """Return whether a choice meets everything."""
    return (
        all(meets(root, chosen) for root in roots)
        and all(meets(limit, chosen) or Requirement(limit).name not in chosen for limit in limits)
        and all(f"{name} {version}" not in unusable for name, version in chosen.items())
        and all(
            meets(need, chosen)
            for name, version in chosen.items()
            for need in graph[f"{name} {version}"]
        )
    )


@settings(max_examples=300, deadline=None)
@given(
    graph=releases,
    roots=st.lists(requirements, min_size=1, max_size=3),
    limits=st.lists(requirements, max_size=2),
    unusable=st.lists(release_names, max_size=3),
)
def test_right_about_every_request(
    graph: dict[str, list[str]], roots: list[str], limits: list[str], unusable: list[str]
) -> None:
    """The solver finds a solution exactly if there is one, and what it finds is one."""
    choices = (
        {name: version for name, version in zip(NAMES, choice, strict=True) if version}
        for choice in itertools.product((0, *VERSIONS), repeat=len(NAMES))
    )
    expected = any(is_solution(graph, roots, limits, unusable, choice) for choice in choices)
    try:
        solved = solve(Graph(graph, unusable=unusable), dependencies(*roots), dependencies(*limits))
    except Unsolvable:
        assert not expected
    else:
        chosen = {str(package): int(str(version)) for package, version in solved.versions.items()}
        assert is_solution(graph, roots, limits, unusable, chosen)


@settings(max_examples=100, deadline=None)
@given(graph=releases, kept=st.sampled_from(VERSIONS), root=st.sampled_from(NAMES))
def test_keeps_what_can_be_kept(graph: dict[str, list[str]], kept: int, root: str) -> None:
    """F-96: what is asked for and installed stays if its needs can be met with it."""
    alone = {**graph, f"{root} {kept}": []}
    solved = solve(Graph(alone, kept={root: str(kept)}), dependencies(root))
    assert {str(package): str(version) for package, version in solved.versions.items()} == {
        root: str(kept)
    }
