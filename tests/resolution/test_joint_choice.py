"""Builds that are installed together agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from packaging.utils import canonicalize_name
from resolution.releases import add_release, installed_build, reasons

from wheelfit.core.agreements import AGREEMENTS, AgreedValue, Agreement
from wheelfit.core.labels import Label
from wheelfit.core.ordering import Preferences
from wheelfit.core.properties import parse_feature
from wheelfit.errors import NoConsistentSet
from wheelfit.resolution.candidates import ChoicePolicy
from wheelfit.resolution.joint_choice import (
    AgreedBuilds,
    Attempt,
    ChosenBuild,
    choose_agreeing_builds,
)
from wheelfit.resolution.request import InstalledBuild, ResolutionRequest
from wheelfit.resolution.resolver import resolve
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.resolution_setup import NVIDIA, ResolutionSetup, requested
from wheelfit.testing.wheels import release_document

BOUNDS = [f"{major}.{minor}" for major in (13, 12, 11) for minor in range(9, -1, -1)]
GPU = FixedDetector({"nvidia": {"cuda_version_lower_bound": BOUNDS}})
ABI = {"builtin": "abi_dependency"}
BLAS = {
    "static-properties": {"provider": ["mkl", "openblas"]},
    "feature-order": ["provider"],
}


def document(labels: Mapping[str, str | Mapping[str, Any]]) -> dict[str, Any]:
    """Return a document of labels for CUDA versions; an empty one is without properties."""
    variants: dict[str, Any] = {}
    for label, cuda in labels.items():
        if not isinstance(cuda, str):
            variants[label] = cuda
        elif cuda:
            variants[label] = {"nvidia": {"cuda_version_lower_bound": [cuda]}}
        else:
            variants[label] = {}
    return release_document(variants, providers={"nvidia": NVIDIA, "abi": ABI, "blas_lapack": BLAS})


def add(
    world: ResolutionSetup,
    release: str,
    labels: Mapping[str, str | Mapping[str, Any]],
    needs: Sequence[str] | Mapping[str, Sequence[str]] = (),
    *,
    plain: bool = False,
) -> None:
    """Add a release with a build for each label, and maybe a plain wheel."""
    add_release(world.repository, release, document(labels), needs, plain=plain)


def installed(text: str, label: str = "", cuda: str = "12.0") -> InstalledBuild:
    """Return an installed distribution, maybe of a build for a CUDA version."""
    return installed_build(text, label, document({label: cuda}) if label else None)


BOTH = {"cu12": "12.8", "cu13": "13.0"}


@pytest.fixture
def world() -> ResolutionSetup:
    """Return a machine for CUDA 13, a torch for both majors and a flash for the older one."""
    world = ResolutionSetup(machine=GPU)
    add(world, "torch 2", BOTH)
    add(world, "flash 1", {"cu12": "12.0"})
    return world


class TestWithinOneVersion:
    """Other builds are tried before older versions."""

    def test_the_better_build_gives_way(self, world: ResolutionSetup) -> None:
        """A-47: the build that all can share is taken, and it is said whose sake that is."""
        add(world, "torch 1", {"cu12": "12.8"})
        assert world.pins("torch", "flash") == {"torch": "2:cu12", "flash": "1:cu12"}
        resolution = world.resolve("torch", "flash")
        (held,) = resolution.agreements
        assert (held.agreement.name, held.values) == ("cuda", ("12",))
        assert held.forced.packages == ("flash",)
        assert str(held) == (
            "CUDA 12 for all, because flash 1 has only builds for CUDA 12: "
            "cu12 of torch 2, not cu13"
        )
        assert reasons(resolution.pin(canonicalize_name("torch")))["cu13"] == (
            "is built for CUDA 13, this environment has CUDA 12 because of flash"
        )
        assert not resolution.notes

    def test_nothing_is_tried_where_all_agree(self, world: ResolutionSetup) -> None:
        """Builds that agree anyway are chosen once, and nothing is said to be forced."""
        add(world, "xgboost 3", BOTH)
        resolution = world.resolve("torch", "xgboost")
        assert {pin.label for pin in resolution.pins} == {"cu13"}
        assert [
            (agreement.values, agreement.forced.reasons) for agreement in resolution.agreements
        ] == [(("13",), ())]
        chosen = {
            pin.name: ChosenBuild(pin.name, pin.version, pin.label, pin.properties)
            for pin in resolution.pins
        }

        requested: list[tuple[AgreedValue, ...]] = []

        def choose(agreed: tuple[AgreedValue, ...], *_: object) -> Attempt[str]:
            requested.append(agreed)
            return Attempt(agreed, chosen, tuple, "the set")

        assert choose_agreeing_builds(choose, AGREEMENTS, AGREEMENTS) == AgreedBuilds(
            "the set", resolution.agreements
        )
        assert requested == [()]

    def test_no_history_is_looked_at(self, world: ResolutionSetup) -> None:
        """Where the newest versions agree on something, nobody asks about older ones."""
        for version in ("0.7", "0.8", "0.9"):
            add(world, f"flash {version}", {"cu12": "12.0"})
        world.resolve("torch", "flash")
        assert not [request for request in world.repository.requests if "flash-0" in request]
        assert [request for request in world.repository.requests if "flash-1" in request]

    def test_a_pre_release_does_not_come_in_this_way(self, world: ResolutionSetup) -> None:
        """Looking for builds that agree admits no versions that did not count before."""
        add(world, "torch 3rc1", BOTH)
        assert world.pins("torch", "flash")["torch"] == "2:cu12"
        assert world.pins("torch>=3rc1", "flash")["torch"] == "3rc1:cu12"

    def test_a_build_without_a_say_before_an_older_version(self, world: ResolutionSetup) -> None:
        """What does without the feature is taken before an older version that has it."""
        add(world, "boost 2", {"cu13": "13.0"}, plain=True)
        add(world, "boost 1", {"cu12": "12.0"})
        resolution = world.resolve("torch", "flash", "boost")
        assert {str(pin) for pin in resolution.pins} == {
            "torch 2 (cu12)",
            "flash 1 (cu12)",
            "boost 2",
        }
        (note,) = resolution.notes
        assert note.startswith("boost: nvidia hardware is present, but the chosen build (plain)")
        assert "because of flash" in note

    def test_a_wish_for_the_feature_takes_the_older_version(self, world: ResolutionSetup) -> None:
        """Who requires the feature gets an older version that has it."""
        add(world, "boost 2", {"cu13": "13.0"}, plain=True)
        add(world, "boost 1", {"cu12": "12.0"})
        world.policy = ChoicePolicy(preferences=Preferences(require=("nvidia",)))
        assert world.pins("torch", "flash", "boost")["boost"] == "1:cu12"

    def test_older_versions_last(self, world: ResolutionSetup) -> None:
        """Where no build of the version goes with the others, an older one is taken."""
        add(world, "boost 2", {"cu13": "13.0"})
        add(world, "boost 1", {"cu12": "12.0"})
        resolution = world.resolve("torch", "flash", "boost")
        assert {str(pin) for pin in resolution.pins} == {
            "torch 2 (cu12)",
            "flash 1 (cu12)",
            "boost 1 (cu12)",
        }
        assert "cu12 of boost 1, not 2 cu13" in str(resolution.agreements[0])

    def test_what_nobody_named_becomes_older_before_anything_loses_the_feature(self) -> None:
        """P-55: a build with the feature is worth an older version of what nobody named."""
        world = ResolutionSetup(machine=GPU)
        add(world, "torch 1", {"cu12": "12.0"}, ["nccl"], plain=True)
        add(world, "nccl 2", {"cu13": "13.0"})
        add(world, "nccl 1", {"cu12": "12.0"})
        world.add("app 1", requires=["torch"])
        expected = {"torch": "1:cu12", "nccl": "1:cu12"}
        assert world.pins("torch") == expected
        assert world.pins("app") == {"app": "1", **expected}
        # But what was named keeps its version.
        assert world.pins("torch", "nccl") == {"torch": "1", "nccl": "2:cu13"}

    def test_the_fewest_older_versions(self, world: ResolutionSetup) -> None:
        """The value that leaves the most packages at their newest version is taken."""
        add(world, "flash 0.5", {"cu13": "13.0"})
        for name in ("boost", "burst"):
            add(world, f"{name} 2", {"cu13": "13.0"})
            add(world, f"{name} 1", {"cu12": "12.0"})
        resolution = world.resolve("flash", "boost", "burst")
        assert {str(pin) for pin in resolution.pins} == {
            "flash 0.5 (cu13)",
            "boost 2 (cu13)",
            "burst 2 (cu13)",
        }
        assert resolution.agreements[0].forced.packages == ("boost", "burst")

    def test_the_order_of_the_user_decides(self) -> None:
        """Where all else is equal, who is named first keeps the better build."""
        world = ResolutionSetup(machine=GPU)
        world.policy = ChoicePolicy(preferences=Preferences(prefer=()))
        add(world, "one 1", BOTH, plain=True)
        add(world, "two 1", {"cu12": "12.0"}, plain=True)
        add(world, "three 1", {"cu13": "13.0"}, plain=True)
        assert world.pins("two", "three") == {"two": "1:cu12", "three": "1"}
        assert world.pins("three", "two") == {"two": "1", "three": "1:cu13"}
        assert world.resolve("two", "three").agreements[0].forced.reasons == (
            "two has a better build for CUDA 12",
        )

    def test_values_that_only_older_releases_have(self) -> None:
        """A value is tried once a release that has it was looked at."""
        world = ResolutionSetup(machine=GPU)
        add(world, "one 2", {"cu13": "13.0"})
        add(world, "one 1", {"cu11": "11.0"})
        add(world, "two 2", {"cu12": "12.0"})
        add(world, "two 1", {"cu11": "11.0"})
        assert world.pins("one", "two") == {"one": "1:cu11", "two": "1:cu11"}


class TestBuildsOfOtherPackages:
    """On top of builds for versions of other packages."""

    def test_both_rules_hold(self, world: ResolutionSetup) -> None:
        """P-52, A-47: of the builds for the chosen torch one goes with the others too."""

        def both(cuda: str, torch: str) -> dict[str, Any]:
            return {"nvidia": {"cuda_version_lower_bound": [cuda]}, "abi": {"torch": [torch]}}

        add(world, "torch 3", BOTH)
        add(
            world,
            "vllm 1",
            {
                "a": both("13.0", "2"),
                "b": both("12.0", "2"),
                "c": both("13.0", "3"),
            },
            ["torch"],
        )
        assert world.pins("vllm") == {"vllm": "1:c", "torch": "3:cu13"}
        assert world.pins("vllm", "flash") == {"vllm": "1:b", "torch": "2:cu12", "flash": "1:cu12"}

    def test_builds_for_other_versions_do_not_count(self, world: ResolutionSetup) -> None:
        """A-47: who has a build for another CUDA only beside another torch is named too."""
        pins = {"nvidia": {"cuda_version_lower_bound": ["12.0"]}, "abi": {"torch": ["2"]}}
        newer = {"nvidia": {"cuda_version_lower_bound": ["13.0"]}, "abi": {"torch": ["3"]}}
        add(world, "torch 3", BOTH)
        add(world, "vllm 1", {"a": pins, "b": newer}, ["torch"])
        (held,) = world.resolve("torch==2", "vllm").agreements
        assert held.forced.packages == ("vllm",)
        assert held.forced.reasons == ("vllm 1 has only builds for CUDA 12",)


class TestSeveralValues:
    """A build may go with several values."""

    def test_one_of_them_is_enough(self) -> None:
        """What goes with two libraries goes with a package that wants either."""
        world = ResolutionSetup()
        provider = {"static-properties": {"provider": ["mkl", "openblas", "blis"]}}
        for name, libraries in {
            "one": [["mkl"], ["blis"]],
            "two": [["mkl", "openblas"]],
            "three": [["openblas"], ["blis", "mkl"]],
        }.items():
            labels = {
                f"l{i}": {"blas_lapack": {"provider": some}} for i, some in enumerate(libraries)
            }
            release = release_document(labels, providers={"blas_lapack": provider})
            add_release(world.repository, f"{name} 1", release)
        resolution = world.resolve("one", "two", "three")
        assert {str(pin) for pin in resolution.pins} == {"one 1 (l0)", "two 1 (l0)", "three 1 (l1)"}
        assert resolution.agreements[0].values == ("mkl",)


class TestInstalled:
    """What is there takes part."""

    def test_untouched_packages_have_a_say(self, world: ResolutionSetup) -> None:
        """An installed build that nobody asks about decides about what is new."""
        resolution = world.resolve("torch", installed=[installed("other 1", "cu12")])
        assert [str(pin) for pin in resolution.pins] == ["torch 2 (cu12)"]
        assert resolution.agreements[0].forced.reasons == (
            "the installed other 1 (cu12) is built for CUDA 12",
        )

    def test_a_plain_wheel_has_none(self, world: ResolutionSetup) -> None:
        """An installed plain wheel goes with everything."""
        resolution = world.resolve("torch", installed=[installed("other 1")])
        assert [str(pin) for pin in resolution.pins] == ["torch 2 (cu13)"]

    def test_what_is_installed_stays_if_any_set_lets_it(self, world: ResolutionSetup) -> None:
        """An older version of what is new is taken before anything installed is exchanged."""
        add(world, "flash 0.5", {"cu13": "13.0"})
        add(world, "other 1", BOTH)
        there = installed("other 1", "cu13", "13.0")
        assert world.pins("flash", installed=[there]) == {"flash": "0.5:cu13"}
        assert world.pins("flash", "other", installed=[there]) == {"flash": "0.5:cu13"}

    def test_what_is_installed_is_exchanged_at_its_version(self, world: ResolutionSetup) -> None:
        """Where no set lets it stay, an installed build is exchanged, and nothing else of it."""
        add(world, "other 1", BOTH)
        add(world, "other 2", BOTH)
        there = installed("other 1", "cu13", "13.0")
        resolution = world.resolve("flash", installed=[there])
        assert {str(pin) for pin in resolution.pins} == {"flash 1 (cu12)", "other 1 (cu12)"}
        assert {str(pin): pin.requested for pin in resolution.pins}["other 1 (cu12)"] is False
        (note,) = resolution.notes
        assert note == (
            "the installed other 1 (cu13) is not kept: is built for CUDA 13, "
            "this environment has CUDA 12 because of flash"
        )

    def test_what_cannot_be_exchanged(self, world: ResolutionSetup) -> None:
        """Where an installed build has no other one, the request is refused."""
        there = installed("other 1", "cu13", "13.0")
        with pytest.raises(NoConsistentSet) as excinfo:
            world.resolve("flash", installed=[there])
        assert "CUDA 12: flash; CUDA 13: other" in excinfo.value.message
        assert "other was not found in any index" in str(excinfo.value.note)

    def test_an_upgrade_lets_other_versions_in(self, world: ResolutionSetup) -> None:
        """Of what may be upgraded another version can be taken."""
        add(world, "other 2", {"cu12": "12.0"})
        there = installed("other 1", "cu13", "13.0")
        request = ResolutionRequest(
            requested("flash"),
            installed={there.name: there},
            upgrade_only=frozenset([canonicalize_name("other")]),
        )
        resolution = resolve(request, world.candidates(), threads=0)
        assert {str(pin) for pin in resolution.pins} == {"flash 1 (cu12)", "other 2 (cu12)"}

    def test_nothing_unnamed_turns_to_another_value(self, world: ResolutionSetup) -> None:
        """A need for a newer version does not turn an installed build to another CUDA."""
        add(world, "torch 3", BOTH)
        add(world, "app 1", {"cu12": "12.0", "cu13": "13.0"}, ["torch>=3"])
        there = installed("torch 2", "cu12")
        assert world.pins("app", installed=[there]) == {"app": "1:cu12", "torch": "3:cu12"}
        assert world.pins("app", "torch", installed=[there]) == {"app": "1:cu13", "torch": "3:cu13"}

    def test_a_mixed_environment_gets_no_worse(self, world: ResolutionSetup) -> None:
        """What is mixed stays and is told; what is new takes a value that is there."""
        there = [installed("one 1", "cu11", "11.0"), installed("two 1", "cu12")]
        resolution = world.resolve("torch", installed=there)
        assert [str(pin) for pin in resolution.pins] == ["torch 2 (cu12)"]
        assert resolution.notes == (
            "builds for different CUDA majors are mixed (CUDA 11: one; CUDA 12: torch, two)",
        )


class TestNoSet:
    """Where nothing agrees."""

    def test_the_closest_sets(self, world: ResolutionSetup) -> None:
        """A-47: for each value it is said what goes with it, what is missing, and why."""
        world.policy = ChoicePolicy(
            preferences=Preferences(labels={canonicalize_name("torch"): Label("cu13")})
        )
        with pytest.raises(NoConsistentSet) as excinfo:
            world.resolve("torch", "flash")
        error = excinfo.value
        assert error.exit_code == 3
        assert error.message.endswith("CUDA 12: flash; CUDA 13: torch")
        assert [
            (detail["values"], detail["packages"], detail["lacks"]) for detail in error.details
        ] == [
            ({"cuda": "13"}, ["torch"], ["flash"]),
            ({"cuda": "12"}, ["flash"], ["torch"]),
        ]
        assert error.parts()["closest"] == list(error.details)
        assert "--allow-mixed cuda" in str(error.hint)

    def test_what_cannot_be_agreed_on_is_named(self, world: ResolutionSetup) -> None:
        """Of several disagreements the one is named, with its option, that nothing resolves."""
        mkl, openblas = ({"blas_lapack": {"provider": [one]}} for one in ("mkl", "openblas"))
        cuda = {"nvidia": {"cuda_version_lower_bound": ["13.0"]}}
        add(world, "numpy 1", {"both": mkl | cuda, "mkl": mkl})
        add(world, "scipy 1", {"openblas": openblas})
        with pytest.raises(NoConsistentSet) as excinfo:
            world.resolve("flash", "numpy", "scipy")
        message = "must agree on BLAS, but these cannot: BLAS mkl: numpy; BLAS openblas: scipy"
        assert message in excinfo.value.message
        sets = "CUDA 12 and BLAS mkl (flash and numpy) are not available for all packages: scipy 1"
        assert sets in str(excinfo.value.note)
        assert "--allow-mixed blas allows" in str(excinfo.value.hint)
        world.policy = ChoicePolicy(mixed=frozenset(["blas"]))
        assert world.pins("flash", "numpy", "scipy")["numpy"] == "1:mkl"

    def test_the_option_that_lets_something_installed_change(self, world: ResolutionSetup) -> None:
        """Where what is installed stands in the way, it is said how another version comes in."""
        add(world, "other 1", {"cu13": "13.0"})
        there = installed("other 1", "cu13", "13.0")
        with pytest.raises(NoConsistentSet) as excinfo:
            world.resolve("flash", installed=[there])
        assert "-P" not in str(excinfo.value.hint)
        add(world, "other 2", {"cu12": "12.0"})
        with pytest.raises(NoConsistentSet) as excinfo:
            world.resolve("flash", installed=[there])
        assert str(excinfo.value.hint).startswith("-P other allows other versions")

    def test_a_worse_build_before_none(self, world: ResolutionSetup) -> None:
        """A build is given up for what it needs where nothing goes with the better ones."""
        labels = {"best": "12.9", "lean": "12.8", "new": "13.0"}
        add(world, "apex 1", labels, {"best": ["absent"]})
        assert world.pins("apex", "flash") == {"apex": "1:lean", "flash": "1:cu12"}

    def test_a_worse_build_of_what_is_installed(self, world: ResolutionSetup) -> None:
        """An installed build whose needs disagree gives way to another one of its version."""
        add(world, "torch 3", {"cu13": "13.0"})
        add(world, "app 1", {"a": "12.8", "b": "12.0"}, {"a": ["torch==3"]})
        there = installed_build("app 1", "a", document({"a": "12.8"}), ["torch==3"])
        assert world.pins("app", installed=[there]) == {"app": "1:b"}

    def test_mixing_can_be_allowed(self, world: ResolutionSetup) -> None:
        """A-47: with mixing allowed the ordinary order counts, and there is a warning."""
        world.policy = ChoicePolicy(mixed=frozenset(["cuda"]))
        resolution = world.resolve("torch", "flash")
        assert {str(pin) for pin in resolution.pins} == {"torch 2 (cu13)", "flash 1 (cu12)"}
        assert resolution.notes == (
            "builds for different CUDA majors are mixed (CUDA 12: flash; CUDA 13: torch)",
        )
        assert resolution.agreements[0].values == ()

    def test_what_is_not_declared_is_a_capability(self, world: ResolutionSetup) -> None:
        """Without a declaration builds need not agree; a user's own declaration counts."""
        world.policy = ChoicePolicy(agreements=())
        assert world.pins("torch", "flash") == {"torch": "2:cu13", "flash": "1:cu12"}
        bound = parse_feature("nvidia :: cuda_version_lower_bound")
        exact = Agreement("exact", "exactly CUDA", (bound,))
        world.policy = ChoicePolicy(agreements=(exact,))
        with pytest.raises(NoConsistentSet) as excinfo:
            world.resolve("torch", "flash")
        assert "exactly CUDA 12.0: flash; exactly CUDA 13.0: torch" in excinfo.value.message
