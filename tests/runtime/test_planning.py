"""Which implementation each group gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelfit_runtime.loader.declarations import Feature, Implementation, Property
from wheelfit_runtime.loader.planning import Judgement, LoadedValue, judge, plan
from wheelfit_runtime.platforms.features import Detection, DeviceValues, FeatureConfig, Status


def machine(**features: str) -> dict[str, Detection]:
    """Return what is supported, as ``nvidia__sm_arch="90_real 80_real"``."""
    found: dict[str, list[FeatureConfig]] = {}
    for name, values in features.items():
        namespace, _, feature = name.partition("__")
        found.setdefault(namespace, []).append(FeatureConfig(feature, tuple(values.split())))
    return {
        namespace: Detection(namespace, tuple(each), status=Status.SUPPORTED)
        for namespace, each in found.items()
    }


DRIVER_12 = machine(
    nvidia__cuda_version_lower_bound="12.4 12.3 12.2 12.1 12.0 12 11.8 11.0 11",
    x86_64__level="v3 v2 v1",
)
NO_DRIVER = {
    **machine(x86_64__level="v3 v2 v1"),
    "nvidia": Detection("nvidia", status=Status.NOTHING, warnings=("no driver",)),
}


def implementation(
    title: str, *properties: str, priority: int = 0, **own: Sequence[object]
) -> Implementation:
    """Return one that is called ``group-name``, as its distribution."""
    group, _, name = title.partition("-")
    asked: dict[Feature, list[str]] = {}
    for text in properties:
        namespace, feature, value = text.split(" :: ")
        asked.setdefault(Feature(namespace, feature), []).append(value)
    return Implementation(
        group,
        name,
        f"{group}_{name}",
        tuple(Property(feature, tuple(values)) for feature, values in asked.items()),
        priority,
        title,
        **own,  # type: ignore[arg-type]
    )


def cuda(title: str, version: str) -> Implementation:
    """Return one that is built for a version of CUDA."""
    return implementation(title, f"nvidia :: cuda_version_lower_bound :: {version}")


def chosen(
    detections: Mapping[str, Detection],
    *implementations: Implementation,
    held: Sequence[LoadedValue] = (),
    asked: str = "",
) -> dict[str, str]:
    """Return the names of what is chosen by group."""
    made = plan([judge(one, detections, held) for one in implementations], held, asked)
    return {group: one.implementation.name for group, one in made.chosen.items()}


SPAM = (
    cuda("spam-cu12", "12.0"),
    cuda("spam-cu11", "11.8"),
    implementation("spam-avx512", "x86_64 :: level :: v4"),
    implementation("spam-avx2", "x86_64 :: level :: v3"),
    implementation("spam-generic"),
)


class TestOneGroup:
    """Capabilities are ranked."""

    @pytest.mark.parametrize(
        ("detections", "name"),
        [(DRIVER_12, "cu12"), (NO_DRIVER, "avx2"), (machine(x86_64__level="v1"), "generic")],
    )
    def test_the_best_that_fits(self, detections: dict[str, Detection], name: str) -> None:
        """Accelerators come before processors, higher levels before lower, nothing last."""
        given = {"nvidia": NO_DRIVER["nvidia"], **detections}
        assert chosen(given, *SPAM) == {"spam": name}

    def test_priority(self) -> None:
        """What the author puts first comes first."""
        generic = implementation("spam-generic", priority=1)
        assert chosen(DRIVER_12, *SPAM[:4], generic) == {"spam": "generic"}

    def test_nothing_fits(self) -> None:
        """A group of which nothing fits is missing."""
        assert chosen(NO_DRIVER, *SPAM[:2]) == {}

    def test_several_values(self) -> None:
        """Of several values of a feature one is enough, and the best counts."""
        gpu = machine(nvidia__sm_arch="90_real 80_real")
        both = implementation(
            "spam-all", "nvidia :: sm_arch :: 70_real", "nvidia :: sm_arch :: 90_real"
        )
        old = implementation("spam-old", "nvidia :: sm_arch :: 80_real")
        assert chosen(gpu, old, both) == {"spam": "all"}

    def test_order_of_files_does_not_matter(self) -> None:
        """Two that are equally good are told apart by their names."""
        one, two = implementation("spam-a"), implementation("spam-b")
        assert chosen({}, two, one) == chosen({}, one, two) == {"spam": "a"}


class TestReasons:
    """Why something does not fit."""

    @pytest.mark.parametrize(
        ("one", "words"),
        [
            (cuda("s-a", "13.0"), "needs an NVIDIA driver for CUDA 13.0 or newer; here it is 12.4"),
            (SPAM[2], "needs x86_64 :: level :: v4; here it is v3"),
            (implementation("s-a", "acme :: x :: 1"), "no provider detects acme :: x"),
            (
                implementation("s-a", "nvidia :: sm_arch :: 90_real"),
                "needs nvidia :: sm_arch :: 90_real; no nvidia :: sm_arch here",
            ),
        ],
    )
    def test_capabilities(self, one: Implementation, words: str) -> None:
        """Each reason says what is needed and what there is."""
        assert judge(one, DRIVER_12).reasons == (words,)

    def test_why_there_is_nothing(self) -> None:
        """What a provider says of an absent driver is passed on."""
        (words,) = judge(SPAM[0], NO_DRIVER).reasons
        assert words.endswith("; no driver")

    def test_every_device_counts(self) -> None:
        """Of unlike devices each must be able to run it."""
        gpus = machine(nvidia__sm_arch="90_real 75_real")["nvidia"]
        old = DeviceValues("sm_arch", "GPU 1 (T4, 7.5)", frozenset({"75_real"}))
        one = implementation("spam-new", "nvidia :: sm_arch :: 90_real")
        found = {"nvidia": Detection("nvidia", gpus.features, devices=(old,))}
        assert judge(one, found).reasons == (
            "needs nvidia :: sm_arch :: 90_real, which GPU 1 (T4, 7.5) cannot run",
        )

    def test_what_another_driver_would_do(self) -> None:
        """A newer driver is of use where the GPU has code of that CUDA, and nowhere else."""
        bound = "cuda_version_lower_bound"
        v100 = DeviceValues(bound, "V100", frozenset({"12.0", "11.8"}))
        there = Detection(
            "nvidia", (FeatureConfig(bound, ("11.8",)),), status=Status.SUPPORTED, devices=(v100,)
        )
        missed = {
            version: judge(cuda("spam-a", version), {"nvidia": there}).suitable_hardware
            for version in ("11.8", "12.0", "13.0")
        }
        assert missed == {"11.8": set(), "12.0": {"nvidia"}, "13.0": set()}
        broken = {"nvidia": Detection("nvidia", status=Status.FAILED)}
        assert judge(cuda("spam-a", "13.0"), broken).suitable_hardware == {"nvidia"}
        assert judge(cuda("spam-a", "13.0"), NO_DRIVER).suitable_hardware == set()

    def test_one_device_in_the_way_of_others(self) -> None:
        """Without the old GPU the new one could be used; without either there is nothing."""
        devices = tuple(
            DeviceValues("sm_arch", name, frozenset({value}))
            for name, value in (("H100", "90_real"), ("T4", "75_real"))
        )
        gpus = machine(nvidia__sm_arch="90_real 75_real")["nvidia"]
        there = {"nvidia": Detection("nvidia", gpus.features, devices=devices)}
        for value, missed in (("90_real", {"nvidia"}), ("100_real", set())):
            one = implementation("spam-a", f"nvidia :: sm_arch :: {value}")
            assert judge(one, there).suitable_hardware == missed

    def test_what_is_loaded_counts(self) -> None:
        """What the process has of another major stands against it, and says who brought it."""
        held = [LoadedValue("cuda", "13", "/x/libcudart.so.13 is loaded")]
        assert judge(SPAM[0], DRIVER_12, held).reasons == (
            "is for CUDA 12, but this process has CUDA 13: /x/libcudart.so.13 is loaded",
        )
        assert chosen(DRIVER_12, *SPAM, held=held) == {"spam": "avx2"}

    def test_what_is_mixed_already(self) -> None:
        """A process with two majors takes either."""
        held = [LoadedValue("cuda", "13", "torch"), LoadedValue("cuda", "12", "cupy")]
        assert judge(SPAM[0], DRIVER_12, held).fits
        assert not judge(SPAM[1], DRIVER_12, held).fits


class TestOwnFeatures:
    """What a declaration says of its own namespaces."""

    def test_requirement(self) -> None:
        """Of a feature that any declaration calls a requirement there is one value."""
        wire = Feature("acme", "wire")
        one = implementation("spam-a", "acme :: wire :: 2", single_valued_features=(wire,))
        two = implementation("eggs-a", "acme :: wire :: 1")
        three = implementation("eggs-b", "acme :: wire :: 2", priority=-1)
        found = [judge(each, {}, (), [wire]) for each in (one, two, three)]
        made = plan(found)
        assert made.agreed == {"acme :: wire": "2"}
        assert {g: c.implementation.name for g, c in made.chosen.items()} == {
            "spam": "a",
            "eggs": "b",
        }

    def test_ranks(self) -> None:
        """A list of values ranks; one that is not in it does not fit."""
        ranks = (Property(Feature("acme", "order"), ("3", "2")),)
        low = implementation("spam-a", "acme :: order :: 2", ranked_features=ranks)
        high = implementation("spam-b", "acme :: order :: 3", ranked_features=ranks)
        odd = implementation("spam-c", "acme :: order :: 9", ranked_features=ranks)
        assert chosen({}, low, high, odd) == {"spam": "b"}
        assert not judge(odd, {}).fits

    def test_static_families(self) -> None:
        """Which BLAS or MPI a build has, no machine is asked; a process has one of them."""
        made = [
            implementation("spam-a", "mpi :: provider :: mpich"),
            implementation("eggs-a", "mpi :: provider :: openmpi"),
            implementation("eggs-b", "mpi :: provider :: mpich"),
        ]
        assert chosen({}, *made) == {"spam": "a", "eggs": "b"}


class TestAllGroups:
    """Requirements are planned for all groups before the first choice."""

    EGGS = cuda("eggs-cu11", "11.8")

    def test_the_first_does_not_decide_alone(self) -> None:
        """Spam takes CUDA 11 for the sake of eggs, and 12 where there are none."""
        assert chosen(DRIVER_12, *SPAM[:2], self.EGGS, asked="spam") == {
            "spam": "cu11",
            "eggs": "cu11",
        }
        assert chosen(DRIVER_12, *SPAM[:2], asked="spam") == {"spam": "cu12"}

    def test_who_asks_is_served(self) -> None:
        """What is imported now is served, even where two others would get nothing then."""
        groups = [cuda("a-x", "12.0"), cuda("b-x", "12.0"), cuda("c-x", "11.0")]
        assert chosen(DRIVER_12, *groups) == {"a": "x", "b": "x"}
        assert chosen(DRIVER_12, *groups, asked="c") == {"c": "x"}

    def test_the_fewest_steps_down(self) -> None:
        """Where all are served either way, the fewest are worse off."""
        groups = [cuda(f"{group}-cu{major}", f"{major}.0") for group in "abc" for major in (11, 12)]
        groups[0] = groups[0]._replace(priority=1)
        assert set(chosen(DRIVER_12, *groups).values()) == {"cu12"}

    def test_what_is_demanded_is_followed(self) -> None:
        """The others follow what somebody demands, where they can."""
        found = [judge(one, DRIVER_12) for one in (*SPAM[:2], cuda("eggs-cu12", "12.0"))]
        found[1] = found[1]._replace(is_forced=True)
        made = plan(found)
        assert {g: one.implementation.name for g, one in made.chosen.items()} == {"spam": "cu11"}

    def test_two_demands(self) -> None:
        """Demands that contradict each other are both met."""
        found = [
            judge(one, DRIVER_12)._replace(is_forced=True)
            for one in (cuda("a-x", "11.0"), cuda("b-x", "12.0"))
        ]
        assert set(plan(found).chosen) == {"a", "b"}

    def test_who_asks_comes_before_demands_on_others(self) -> None:
        """What somebody demands of a group that may never be imported takes nothing from others."""
        found = [judge(one, DRIVER_12) for one in (cuda("spam-cu12", "12.0"), self.EGGS)]
        found[1] = found[1]._replace(is_forced=True)
        assert set(plan(found, imported_group="spam").chosen) == {"spam", "eggs"}
        found.append(judge(implementation("spam-any"), DRIVER_12))
        assert plan(found, imported_group="spam").chosen["spam"].implementation.name == "any"

    @pytest.mark.parametrize("names", ["a", "abcdef"])
    def test_who_asks_is_served_among_many_values(self, names: str) -> None:
        """What others want in great numbers does not push out what is imported now."""
        wire = [Feature(name, "wire") for name in names]

        def one(group: str, value: int) -> Judgement:
            asked = [f"{feature} :: {value}" for feature in wire]
            return judge(implementation(f"{group}-i{value}", *asked), {}, (), wire)

        found = [one(f"g{number}", value) for number in range(3) for value in range(30)]
        assert plan([*found, one("spam", 99)], imported_group="spam").agreed[str(wire[0])] == "99"

    def test_many_values(self) -> None:
        """However much is declared, a plan is made; those that are missed fall back."""
        found = []
        for number in range(40):
            wire = Feature(f"acme{number}", "wire")
            for value in range(25):
                one = implementation(f"g{number}-i{value}", f"acme{number} :: wire :: {value}")
                found.append(judge(one, {}, (), [wire]))
            found.append(judge(implementation(f"g{number}-z"), {}))
        assert len(plan(found).chosen) == 40


@st.composite
def _offers(draw: st.DrawFn) -> list[Judgement]:
    found = []
    for group in "abc"[: draw(st.integers(1, 3))]:
        for number in range(draw(st.integers(1, 3))):
            claims = {
                dimension: tuple(draw(st.sets(st.sampled_from("123"), min_size=1)))
                for dimension in draw(st.sets(st.sampled_from(["cuda", "mpi"])))
            }
            one = implementation(f"{group}-{number}")
            found.append(Judgement(one, (), (0, (9,), one.name), claims))
    return found


@pytest.mark.integration
@given(_offers(), st.sampled_from("abd"), st.randoms())
def test_no_plan_is_better(offers: list[Judgement], asked: str, chance: Random) -> None:
    """As a search of all sets of implementations; the order of files does not matter."""
    made = plan(offers, imported_group=asked)
    turned = list(offers)
    chance.shuffle(turned)
    assert plan(turned, imported_group=asked) == made
    for one in made.chosen.values():
        assert all(made.agreed[dimension] in values for dimension, values in one.claims.items())

    def score(taken: Sequence[Judgement]) -> tuple[bool, int, int]:
        groups = {one.implementation.group for one in taken}
        steps = sum(int(one.implementation.name) for one in taken)
        return asked not in groups, -len(taken), steps

    def goes_together(taken: Sequence[Judgement]) -> bool:
        sets = [[set(c.claims[d]) for c in taken if d in c.claims] for d in ("cuda", "mpi")]
        return all(not each or set.intersection(*each) for each in sets)

    groups = sorted({offer.implementation.group for offer in offers})
    by_group = [[None, *(o for o in offers if o.implementation.group == g)] for g in groups]
    every = ([one for one in row if one] for row in product(*by_group))
    assert score(list(made.chosen.values())) == min(map(score, filter(goes_together, every)))
