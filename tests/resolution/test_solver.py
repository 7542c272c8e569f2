"""The solver on graphs that mean something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from resolution.graphs import Graph, dependencies

from wheelfit.resolution.proof import write_proof
from wheelfit.resolution.solver import Unsolvable, solve

if TYPE_CHECKING:
    from collections.abc import Mapping


def answer(graph: Graph, *roots: str, **options: Any) -> dict[str, str]:
    """Return what is chosen, as text."""
    constraints = dependencies(*options.pop("constraints", ()))
    solved = solve(graph, dependencies(*roots), constraints, **options)
    return {str(package): str(version) for package, version in solved.versions.items()}


def proof(graph: Graph, *roots: str, **options: Any) -> str:
    """Return why nothing can be chosen."""
    with pytest.raises(Unsolvable) as excinfo:
        answer(graph, *roots, **options)
    return write_proof(excinfo.value.step, graph)


class TestExtras:
    """Extras are packages of their own."""

    GRAPH = Graph(
        {
            "lib 1": [],
            "lib 2": ["base"],
            "lib[fast] 2": ["speed>=1"],
            "lib[all] 2": ["lib[fast]"],
            "base 1": [],
            "speed 1": [],
        }
    )

    def test_bring_their_needs_along(self) -> None:
        """An extra adds needs to those of its project."""
        assert answer(self.GRAPH, "lib[fast]") == {
            "lib": "2", "lib[fast]": "2", "base": "1", "speed": "1",
        }  # fmt: skip

    def test_may_name_other_extras(self) -> None:
        """An extra may stand for others of the same project."""
        assert set(answer(self.GRAPH, "lib[all]")) == {
            "lib", "lib[all]", "lib[fast]", "base", "speed",
        }  # fmt: skip

    def test_have_the_version_of_their_project(self) -> None:
        """An extra never comes from another version than its project."""
        assert answer(self.GRAPH, "lib[fast]", "lib<2") == {"lib": "1", "lib[fast]": "1"}

    def test_of_a_long_history(self) -> None:
        """Beside one version of a project no other version of its extra is tried."""
        graph = Graph(
            {
                **{f"lib {number}": [] for number in range(1, 300)},
                **{f"lib[fast] {number}": [f"speed>={number}"] for number in range(1, 300)},
                "speed 298": [],
            }
        )
        assert answer(graph, "lib[fast]") == {"lib": "298", "lib[fast]": "298", "speed": "298"}
        assert {version.major for name, version in graph.asked if name == "lib"} == {299, 298}

    @pytest.mark.parametrize(
        ("options", "releases"),
        [({}, {}), ({"constraints": ["speed<1"]}, {"speed 1": []})],
        ids=["no release", "constraint"],
    )
    def test_with_an_unmet_dependency(
        self, options: Mapping[str, Any], releases: Mapping[str, list[str]]
    ) -> None:
        """A dependency that nothing meets excludes all releases with it in a few steps."""
        graph = Graph(
            {
                **{f"lib {number}": [] for number in range(300)},
                "lib[fast] 0": [],
                **{f"lib[fast] {number}": ["speed>=1"] for number in range(1, 300)},
                **releases,
            }
        )
        assert answer(graph, "lib[fast]", rounds=50, **options) == {"lib": "0", "lib[fast]": "0"}
        with pytest.raises(Unsolvable):
            answer(graph, "lib[fast]>=1", rounds=50, **options)

    def test_in_proofs(self) -> None:
        """A proof says that an extra comes in the version of its project."""
        graph = Graph(
            {
                "lib 1": [],
                "lib 2": [],
                "lib[fast] 1": [],
                "lib[fast] 2": ["speed"],
                "app 1": ["lib>1"],
            }
        )
        assert proof(graph, "app", "lib[fast]").startswith(
            "because lib[fast] 1 needs lib of the same version and app 1 needs lib>1, "
            "lib[fast] 1 and app 1 cannot be used together\n"
        )

    def test_with_a_requirement_on_their_project(self) -> None:
        """A proof names what an extra requires of its project beside the same version."""
        graph = Graph({"lib 1": [], "lib[fast] 1": ["lib>=2"]})
        assert "lib[fast] 1 needs lib of the same version, lib>=2" in proof(graph, "lib[fast]")

    def test_are_limited_like_their_project(self) -> None:
        """A constraint on a project limits its extras."""
        assert answer(self.GRAPH, "lib[fast]", constraints=["lib<2"])["lib[fast]"] == "1"


class TestConstraints:
    """Constraints limit and never ask."""

    GRAPH = Graph({"app 1": ["lib"], "lib 1": [], "lib 2": [], "tool 1": []})

    def test_limit_what_is_needed(self) -> None:
        """A constraint narrows the versions of what is needed anyway."""
        assert answer(self.GRAPH, "app", constraints=["lib<2"]) == {"app": "1", "lib": "1"}

    def test_ask_for_nothing(self) -> None:
        """A constraint on something nobody needs does nothing."""
        assert answer(self.GRAPH, "lib", constraints=["tool>=5"]) == {"lib": "2"}

    def test_are_named_in_proofs(self) -> None:
        """A proof says that a constraint is in the way."""
        assert proof(self.GRAPH, "lib>=2", constraints=["lib<2"]) == (
            "because the constraint lib<2 excludes lib 2 and you require lib>=2, "
            "your request cannot be met"
        )


class TestPrereleases:
    """PEP 440: pre-releases count when asked for, or when nothing else fits."""

    GRAPH = Graph(
        {
            "lib 1": [], "lib 2a1": [], "lib 3a1": [],
            "new 1a1": [], "new 1a2": [],
            "user 1": ["lib>=2a1"], "user 2": ["lib>=2a1", "nothing"],
        }
    )  # fmt: skip

    def test_do_not_count(self) -> None:
        """A final release is preferred to a newer pre-release."""
        assert answer(self.GRAPH, "lib") == {"lib": "1"}

    def test_count_when_wanted(self) -> None:
        """The user may let them count."""
        assert answer(self.GRAPH, "lib", prereleases=True) == {"lib": "3a1"}

    def test_count_when_named(self) -> None:
        """A specifier that names one admits them."""
        assert answer(self.GRAPH, "lib>=2a1") == {"lib": "3a1"}
        assert answer(self.GRAPH, "lib==2a1") == {"lib": "2a1"}

    def test_count_when_there_is_nothing_else(self) -> None:
        """A project, or a specifier, that has only pre-releases gets them."""
        assert answer(self.GRAPH, "new") == {"new": "1a2"}
        assert answer(self.GRAPH, "lib>1") == {"lib": "3a1"}

    def test_count_when_a_dependency_names_them(self) -> None:
        """What a release needs counts as much as what the user asks."""
        assert answer(self.GRAPH, "lib", "user") == {"lib": "3a1", "user": "1"}

    def test_are_no_way_out_of_a_conflict(self) -> None:
        """A pre-release is not taken because the final releases conflict."""
        graph = Graph({"lib 1": ["x<2"], "lib 2a1": [], "x 1": [], "x 2": []})
        proof(graph, "lib", "x>=2")

    def test_a_rejected_release_admits_nothing_for_good(self) -> None:
        """What only a release named that was not taken comes after everything else."""
        graph = Graph({"a 2": ["lib>=2a1", "none"], "a 1": ["lib"], "lib 1": [], "lib 2a1": []})
        assert answer(graph, "a") == {"a": "1", "lib": "1"}


class TestYanked:
    """PEP 592: yanked releases count when pinned."""

    GRAPH = Graph({"lib 1": [], "lib 2": [], "pin 1": ["lib==2"]}, yanked=["lib 2"])

    def test_are_passed_over(self) -> None:
        """Without a pin the newest release that is not yanked is taken."""
        assert answer(self.GRAPH, "lib") == {"lib": "1"}

    def test_count_when_pinned(self) -> None:
        """A pin takes them, also one of a dependency."""
        assert answer(self.GRAPH, "lib==2") == {"lib": "2"}
        assert answer(self.GRAPH, "lib", "pin") == {"lib": "2", "pin": "1"}

    def test_do_not_count_for_a_range(self) -> None:
        """A range that has only yanked releases has none."""
        proof(self.GRAPH, "lib>=2")


class TestKept:
    """F-96: what is installed and will do stays."""

    RELEASES: ClassVar = {
        "app 1": ["lib>=1"],
        "app 2": ["lib>=2"],
        "lib 1": [],
        "lib 2": [],
        "lib 3": [],
    }

    def test_is_not_even_looked_up(self) -> None:
        """What stays is not asked about."""
        graph = Graph(self.RELEASES, kept={"lib": "1"})
        assert answer(graph, "lib") == {"lib": "1"}
        assert graph.asked == []

    def test_gives_way_to_a_need(self) -> None:
        """What no longer satisfies is exchanged, for the newest."""
        graph = Graph(self.RELEASES, kept={"lib": "1"})
        assert answer(graph, "app") == {"app": "2", "lib": "3"}

    def test_stays_below_something_new(self) -> None:
        """A dependency that satisfies is not upgraded."""
        graph = Graph(self.RELEASES, kept={"lib": "2"})
        assert answer(graph, "app") == {"app": "2", "lib": "2"}


class TestUnusable:
    """F-92: a release without a wheel that fits is passed over."""

    def test_the_next_release_is_taken(self) -> None:
        """An older release takes the place of one that does not fit."""
        graph = Graph({"lib 1": [], "lib 2": []}, unusable=["lib 2"])
        assert answer(graph, "lib") == {"lib": "1"}

    def test_backtracks_over_what_needs_it(self) -> None:
        """A release that needs one that does not fit is passed over too."""
        graph = Graph(
            {"app 1": ["lib"], "app 2": ["lib>=2"], "lib 1": [], "lib 2": []}, unusable=["lib 2"]
        )
        assert answer(graph, "app") == {"app": "1", "lib": "1"}


class TestProofs:
    """A request that cannot be met is explained."""

    def test_a_shared_need(self) -> None:
        """Two needs that exclude each other are told with where they come from."""
        graph = Graph({"a 1": ["c<2"], "b 1": ["c>=2"], "c 1": [], "c 2": []})
        assert proof(graph, "a", "b").splitlines() == [
            "because a 1 needs c<2 and b 1 needs c>=2, a 1 and b 1 cannot be used together",
            "and because you require b and you require a, your request cannot be met",
        ]

    def test_every_version(self) -> None:
        """Versions that share a fate are told together."""
        graph = Graph({f"a {version}": ["c<2"] for version in range(1, 9)} | {"c 1": [], "c 2": []})
        assert proof(graph, "a", "c>=2").splitlines() == [
            (
                "because every version of a needs c<2 and you require c>=2, "
                "every version of a cannot be used"
            ),
            "and because you require a, your request cannot be met",
        ]

    def test_a_missing_project(self) -> None:
        """A project that nobody knows is named as such."""
        assert "nobody knows b" in proof(Graph({"a 1": ["b"]}), "a")

    def test_a_circle(self) -> None:
        """Projects that need each other are no problem; their contradiction is told."""
        graph = Graph({"a 1": ["b==1"], "b 1": ["a>=2"]})
        assert "cannot be" in proof(graph, "a")
        assert answer(Graph({"a 1": ["b"], "b 1": ["a"]}), "a") == {"a": "1", "b": "1"}

    def test_a_very_long_one_is_told_by_its_facts(self) -> None:
        """A derivation that nobody would read to the end is told by its facts."""
        releases = {f"a {n}": [f"b=={n}"] for n in range(60)} | {"c 1": [], "c 2": []}
        releases |= {f"b {n}": [f"d{n}"] for n in range(60)} | {
            f"d{n} 1": ["c<2"] for n in range(60)
        }
        lines = proof(Graph(releases), "a", "c>=2").splitlines()
        assert lines[0] == "these cannot all be met:"
        assert lines[1:3] == ["  - you require c>=2", "  - you require a"]
        assert len(lines) <= 32


class TestOrder:
    """What the user named is decided first, newest first."""

    def test_a_named_package_is_not_older_than_it_must_be(self) -> None:
        """P-55: what is named gets its newest version, whatever that means for others."""
        graph = Graph(
            {"suite 1": ["book", "engine"]}
            | {f"book {n}": ["engine<2"] if n > 1 else [] for n in range(1, 9)}
            | {"engine 1": [], "engine 2": []}
        )
        expected = {"suite": "1", "book": "6", "engine": "1"}
        assert answer(graph, "suite", "book<7") == expected
        assert answer(graph, "book<7", "suite") == expected

    def test_in_the_order_of_naming(self) -> None:
        """P-55: of two that cannot both be newest the first named is."""
        graph = Graph({"a 1": [], "a 2": ["b<2"], "b 1": [], "b 2": ["a<2"]})
        assert answer(graph, "a", "b") == {"a": "2", "b": "1"}
        assert answer(graph, "b", "a") == {"a": "1", "b": "2"}


class TestBuilds:
    """A release may have several builds, which are tried in order."""

    GRAPH = Graph(
        {"flash 1": [], "torch 1": [], "torch 2": [], "app 1": ["torch<2"]},
        builds={"flash 1": [("new", ["torch"], ["torch==2"]), ("old", ["torch"], ["torch==1"])]},
    )

    def test_the_best_first(self) -> None:
        """P-55: the first build is taken if it can be had."""
        solved = solve(self.GRAPH, dependencies("flash"))
        assert {str(name): place for name, place in solved.builds.items()} == {"flash": 0}
        assert answer(self.GRAPH, "flash") == {"flash": "1", "torch": "2"}

    def test_the_next_one(self) -> None:
        """P-52, P-55: a build that cannot be had gives way to the next one."""
        assert solve(self.GRAPH, dependencies("flash", "app")).builds == {"flash": 1}
        assert answer(self.GRAPH, "flash", "app")["torch"] == "1"

    def test_the_proof(self) -> None:
        """House plan: builds are told by their labels."""
        graph = Graph(
            {"flash 1": [], "torch 1": [], "torch 2": [], "torch 3": []},
            builds={"flash 1": [("new", [], ["torch==2"]), ("old", [], ["torch==1"])]},
        )
        assert proof(graph, "flash", "torch==3").splitlines() == [
            (
                "because flash 1 (old) is built for torch==1 and flash 1 (new) is built for "
                "torch==2, flash 1 and torch 3 cannot be used together"
            ),
            "and because you require torch==3 and you require flash, your request cannot be met",
        ]

    def test_an_unsound_build(self) -> None:
        """F-94: a build that cannot be read gives way, and the proof says that none is left."""
        builds = {"flash 1": [("new", ["torch"], ["torch==2"]), ("old", [], ["torch==1"])]}
        releases: dict[str, list[str]] = {"flash 1": [], "torch 1": [], "torch 2": []}
        graph = Graph(releases, builds=builds, unsound=[("flash 1", "new")])
        assert solve(graph, dependencies("flash", "torch")).builds == {"flash": 1}
        graph = Graph(releases, builds=builds, unsound=[("flash 1", "new"), ("flash 1", "old")])
        assert "flash 1 has no build" in proof(graph, "flash")


def test_the_empty_request() -> None:
    """Nothing asked, nothing chosen."""
    assert answer(Graph({})) == {}


def test_edges_tell_who_needs_whom() -> None:
    """The result says who needs whom, for the order of installation."""
    solved = solve(Graph({"a 1": ["b"], "b 1": []}), dependencies("a"))
    assert [(str(one), str(other)) for one, other in solved.edges] == [("a", "b")]


def test_an_unmet_dependency_on_itself() -> None:
    """A project whose releases exclude themselves is avoided, however often it conflicts."""
    numbers = range(1, 30)
    graph = Graph(
        {
            "app 2": ["middle"],
            "app 1": [],
            **{f"middle {number}": [f"lib>={number}", "other"] for number in numbers},
            **{f"other {number}": [f"lib<={number}"] for number in numbers},
            **{f"lib {number}": [f"part=={number}", "lib<1"] for number in numbers},
            **{f"part {number}": [f"lib<{number}"] for number in numbers},
        }
    )
    assert answer(graph, "app") == {"app": "1"}
