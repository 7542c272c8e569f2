"""Builds for versions of other packages, chosen together with those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name
from resolution.releases import add_release, installed_build, reasons

from wheelfit.core.core_metadata import read_metadata
from wheelfit.core.labels import parse_label
from wheelfit.core.ordering import Preferences, parse_preference
from wheelfit.core.provider_lookup import ProviderPolicy
from wheelfit.errors import NoSolution
from wheelfit.resolution.candidates import ChoicePolicy
from wheelfit.resolution.request import InstalledBuild, direct_wheel
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.resolution_setup import ResolutionSetup
from wheelfit.testing.wheels import release_document, single_label_document
from wheelfit_runtime.errors import NoCompatibleWheel

ABI = {"abi": {"builtin": "abi_dependency"}}
Features = Mapping[str, Sequence[str]]


def document(labels: Mapping[str, Features]) -> dict[str, Any]:
    """Return a document whose labels were built for versions of other packages."""
    variants = {label: {"abi": found} if found else {} for label, found in labels.items()}
    return release_document(variants, providers=ABI)


def add(
    world: ResolutionSetup,
    release: str,
    labels: Mapping[str, Features],
    needs: Mapping[str, Sequence[str]] | Sequence[str] = (),
    *,
    plain: bool = False,
    extras: Sequence[str] = (),
) -> None:
    """Add a release: what its labels were built for, and what each of them needs."""
    add_release(world.repository, release, document(labels), needs, plain=plain, extras=extras)


def installed(
    text: str, label: str = "", built_for: Features | None = None, *requires: str
) -> InstalledBuild:
    """Return an installed distribution, maybe of a label."""
    whole = document({label: built_for or {}}) if label else None
    return installed_build(text, label, whole, requires)


BOTH = {"pyt28": {"torch": ["2.8"]}, "pyt29": {"torch": ["2.9"]}}


@pytest.fixture
def world() -> ResolutionSetup:
    """Return a world with torch 2.8 to 2.10 and a flash with a build for two of them."""
    world = ResolutionSetup()
    world.add("torch 2.8.0", "torch 2.8.1", "torch 2.9.0", "torch 2.10.0", "numbers 1", "other 1")
    add(world, "flash 1", BOTH)
    return world


class TestConstraint:
    """P-52: a label limits, and asks for nothing."""

    def test_limits_what_is_needed(self, world: ResolutionSetup) -> None:
        """P-45, P-52: the dependency is among the versions the label was built for."""
        world.add("app 1", requires=["torch"])
        assert world.pins("flash", "app") == {"flash": "1:pyt29", "app": "1", "torch": "2.9.0"}

    @pytest.mark.parametrize(
        ("torch", "label"),
        [("torch", "stable"), ("torch==2.8.0", "pyt28"), ("torch==2.9.0", "pyt29")],
    )
    @pytest.mark.parametrize("values", [["2.9", "2.10", "2"], ["2"]])
    def test_range(self, world: ResolutionSetup, torch: str, label: str, values: list[str]) -> None:
        """P-45: a build for 2.10 and newer says so by ``2`` and in its requirements."""
        labels = {**BOTH, "stable": {"torch": values}}
        add(world, "flash 2", labels, {"stable": ["torch>=2.10"]})
        world.add("torch 2.15.0")
        assert world.pins("flash", torch)["flash"] == f"2:{label}"

    def test_asks_for_nothing(self, world: ResolutionSetup) -> None:
        """P-52: no label brings the package it was built for along by itself."""
        assert world.pins("flash", installed=[installed("torch 2.8.1")]) == {"flash": "1:pyt28"}

    def test_newer_versions_of_what_is_asked_for_come_first(self, world: ResolutionSetup) -> None:
        """P-55: first newer versions of what the user named, then better labels."""
        add(world, "flash 2", BOTH, plain=True)
        assert world.pins("flash", "torch") == {"flash": "2", "torch": "2.10.0"}
        assert world.pins("torch", "flash") == {"flash": "2", "torch": "2.10.0"}
        assert world.pins("flash==1", "torch") == {"flash": "1:pyt29", "torch": "2.9.0"}

    def test_better_labels_before_what_nobody_named(self, world: ResolutionSetup) -> None:
        """P-55: a better label is worth an older version of a package nobody named."""
        add(world, "flash 2", BOTH, ["torch"], plain=True)
        assert world.pins("flash") == {"flash": "2:pyt29", "torch": "2.9.0"}

    def test_pre_releases_do_not_come_in_this_way(self, world: ResolutionSetup) -> None:
        """P-48, P-52: a label for a pre-release matches it but does not ask for it."""
        world.add("torch 3.0rc1")
        add(world, "flash 2", {"pyt3": {"torch": ["3"]}, **BOTH}, ["torch"])
        assert world.pins("flash") == {"flash": "2:pyt29", "torch": "2.9.0"}
        assert world.pins("flash", "torch==3.0rc1")["flash"] == "2:pyt3"


class TestNeedsOfLabels:
    """F-112: every label has its own needs."""

    def test_are_never_those_of_another_label(self, world: ResolutionSetup) -> None:
        """F-112: what one label needs is not what another one needs, nor the plain wheel."""
        needs = {"pyt28": ["torch", "numbers"], "pyt29": ["torch", "other"], "": ["torch"]}
        add(world, "flash 2", BOTH, needs, plain=True)
        assert set(world.pins("flash")) == {"flash", "torch", "other"}
        assert set(world.pins("flash", "torch<2.9")) == {"flash", "torch", "numbers"}
        assert set(world.pins("flash", "torch>2.9")) == {"flash", "torch"}

    def test_a_better_label_is_given_up(self, world: ResolutionSetup) -> None:
        """P-55: a label whose needs cannot be met gives way, and it is said."""
        add(world, "flash 2", BOTH, {"pyt28": ["torch"], "pyt29": ["torch", "missing"]})
        resolution = world.resolve("flash")
        pin = resolution.pin(canonicalize_name("flash"))
        assert str(pin) == "flash 2 (pyt28)"
        assert reasons(pin)["pyt29"].startswith("is built for torch 2.9, torch 2.8.1 is chosen")

    def test_a_label_given_up_for_its_needs_alone(self, world: ResolutionSetup) -> None:
        """P-55: a label that would fit what was chosen names its needs as the reason."""
        labels = {"best": {"torch": ["2.8.1"]}, "good": {"torch": ["2.8"]}}
        add(world, "flash 2", labels, {"best": ["torch", "missing"], "good": ["torch"]})
        pin = world.resolve("flash").pin(canonicalize_name("flash"))
        assert str(pin) == "flash 2 (good)"
        assert "its requirements cannot be met" in reasons(pin)["best"]

    def test_unsound_metadata_costs_one_label(self, world: ResolutionSetup) -> None:
        """F-94, F-112: a label whose metadata cannot be read gives way to the next one."""
        add(world, "flash 2", BOTH, {"pyt28": ["torch"], "pyt29": ["not a requirement"]})
        assert world.pins("flash") == {"flash": "2:pyt28", "torch": "2.8.1"}

    def test_extras_are_those_of_the_label(self, world: ResolutionSetup) -> None:
        """F-112: an extra brings what the metadata of the chosen label says."""
        needs = {
            "pyt28": ["torch", 'numbers; extra == "x"'],
            "pyt29": ["torch", 'other; extra == "x"'],
        }
        add(world, "flash 2", BOTH, needs, extras=["x"])
        assert set(world.pins("flash[x]")) == {"flash", "torch", "other"}
        assert set(world.pins("flash[x]", "torch<2.9")) == {"flash", "torch", "numbers"}
        (pin,) = (pin for pin in world.resolve("flash[x]").pins if pin.name == "flash")
        assert pin.extras == {"x"}


GATED = [
    'torch==2.8.*; "abi :: torch :: 2.8" in variant_properties',
    'torch==2.9.*; "abi::torch::2.9" in variant_properties',
    'numbers; "abi :: torch" in variant_features',
    'other; "abi :: torch :: 2.8" not in variant_properties',
]


class TestBranches:
    """P-53: a marker may bring the dependency whose version decides the marker."""

    def test_the_most_recent_version_first(self, world: ResolutionSetup) -> None:
        """P-53: of the values that markers mention the most recent is tried first."""
        add(world, "flash 2", {"both": {"torch": ["2.8", "2.9"]}}, GATED)
        assert world.pins("flash") == {
            "flash": "2:both", "torch": "2.9.0", "numbers": "1", "other": "1",
        }  # fmt: skip

    def test_the_other_version(self, world: ResolutionSetup) -> None:
        """P-53, F-111: a branch sees the values its version meets, and no other."""
        add(world, "flash 2", {"both": {"torch": ["2.8", "2.9"]}}, GATED)
        resolution = world.resolve("flash", "torch<2.9")
        pin = resolution.pin(canonicalize_name("flash"))
        assert pin is not None
        assert [str(one) for one in pin.supported] == ["abi :: torch :: 2.8"]
        assert [str(one) for one in pin.properties] == [
            "abi :: torch :: 2.8",
            "abi :: torch :: 2.9",
        ]
        assert {pin.name for pin in resolution.pins} == {"flash", "torch", "numbers"}

    def test_values_within_each_other(self, world: ResolutionSetup) -> None:
        """P-53, F-111: a version that meets two values meets both for the markers."""
        needs = [
            'torch==2.8.1; "abi :: torch :: 2.8.1" in variant_properties',
            'numbers; "abi :: torch :: 2" in variant_properties',
        ]
        add(world, "flash 2", {"both": {"torch": ["2", "2.8.1"]}}, needs)
        assert set(world.pins("flash", "torch==2.8.1")) == {"flash", "torch", "numbers"}

    def test_a_forbidden_value(self, world: ResolutionSetup) -> None:
        """F-91, F-110: a value the user forbids is no way to meet a label."""
        add(world, "flash 2", {"both": {"torch": ["2.8", "2.9"]}}, GATED)
        forbid = (parse_preference("abi :: torch :: 2.9"),)
        world.policy = ChoicePolicy(preferences=Preferences(forbid=forbid))
        assert world.pins("flash")["torch"] == "2.8.1"


class TestWhatIsNotThere:
    """P-54: a build for something that is neither installed nor selected is given up."""

    def test_the_next_label_is_taken(self, world: ResolutionSetup) -> None:
        """P-54: the search continues, and the reason is told."""
        add(world, "flash 2", {**BOTH, "null": {}})
        pin = world.resolve("flash").pin(canonicalize_name("flash"))
        assert str(pin) == "flash 2 (null)"
        assert "torch is neither installed nor chosen" in reasons(pin)["pyt29"]

    def test_very_many_labels(self, world: ResolutionSetup) -> None:
        """P-54: a release with very many such labels does not hold up the search."""
        labels = {f"l{number}": {"torch": [f"3.{number}"]} for number in range(120)}
        add(world, "flash 2", labels, plain=True)
        assert world.pins("flash") == {"flash": "2"}

    def test_an_older_release_is_taken(self, world: ResolutionSetup) -> None:
        """P-54: where no label is left, the search goes on with the next release."""
        world.add("flash 0")
        assert world.pins("flash") == {"flash": "0"}

    def test_nothing_is_left(self, world: ResolutionSetup) -> None:
        """P-54: a request that only such builds could meet fails, and the reason is told."""
        with pytest.raises(NoSolution) as excinfo:
            world.resolve("flash")
        assert "is built for torch, which nothing else needs" in str(excinfo.value.note)

    def test_something_else_may_bring_it(self, world: ResolutionSetup) -> None:
        """P-54: before that, what would bring it is looked for."""
        world.add("app 1", requires=["torch"])
        world.add("app 2")
        assert world.pins("app", "flash") == {"app": "1", "flash": "1:pyt29", "torch": "2.9.0"}

    def test_no_dependencies(self, world: ResolutionSetup) -> None:
        """P-54: without dependencies only what is installed or named counts."""
        add(world, "flash 2", BOTH, ["torch"], plain=True)
        assert world.pins("flash", dependencies=False) == {"flash": "2"}
        there = [installed("torch 2.8.1")]
        assert world.pins("flash", dependencies=False, installed=there) == {"flash": "2:pyt28"}


class TestInstalled:
    """P-56: installed versions are fixed unless upgrading is requested."""

    def test_are_not_changed(self, world: ResolutionSetup) -> None:
        """P-56: the build for what is installed is taken, and that stays."""
        add(world, "flash 2", BOTH, ["torch"])
        resolution = world.resolve("flash", installed=[installed("torch 2.8.0")])
        assert [str(pin) for pin in resolution.pins] == ["flash 2 (pyt28)"]
        assert [str(kept) for kept in resolution.kept] == ["torch 2.8.0"]

    def test_a_build_for_another_version(self, world: ResolutionSetup) -> None:
        """P-56, A-48: what is installed is not exchanged for a build, and it is said."""
        add(world, "flash 2", {"pyt28": {"torch": ["2.8"]}}, ["torch==2.8.*"])
        with pytest.raises(NoCompatibleWheel) as excinfo:
            world.resolve("flash==2", installed=[installed("torch 2.9.0")])
        assert "is built for torch 2.8, torch 2.9.0 is installed" in str(excinfo.value.note)
        assert "--upgrade-package torch" in str(excinfo.value.hint)

    def test_what_is_asked_for_may_change(self, world: ResolutionSetup) -> None:
        """P-56: a version that the request itself excludes is not fixed."""
        add(world, "flash 2", BOTH, ["torch"])
        torch = [installed("torch 2.9.0")]
        assert world.pins("flash", "torch<2.9", installed=torch) == {
            "flash": "2:pyt28", "torch": "2.8.1",
        }  # fmt: skip

    def test_upgrading_frees_it(self, world: ResolutionSetup) -> None:
        """P-56: what is to be upgraded may change."""
        add(world, "flash 2", BOTH, ["torch"])
        torch = [installed("torch 2.8.0")]
        assert world.pins("flash", "torch", installed=torch, upgrade=True) == {
            "flash": "2:pyt29", "torch": "2.9.0",
        }  # fmt: skip

    def test_an_installed_build_stays(self, world: ResolutionSetup) -> None:
        """F-96: an installed build that still fits stays, and is not even looked up."""
        there = [installed("torch 2.8.0"), installed("flash 1", "pyt28", BOTH["pyt28"])]
        resolution = world.resolve("flash", installed=there)
        assert resolution.pins == ()
        assert world.repository.requests == []

    def test_an_installed_build_gives_way(self, world: ResolutionSetup) -> None:
        """F-96, P-55: with another torch the same release is taken in another build."""
        flash = installed("flash 1", "pyt28", BOTH["pyt28"])
        there = [installed("torch 2.8.0"), flash]
        assert world.pins("torch==2.9.0", "flash", installed=there) == {
            "flash": "1:pyt29", "torch": "2.9.0",
        }  # fmt: skip

    def test_a_broken_build_is_exchanged(self, world: ResolutionSetup) -> None:
        """F-96: a build whose torch was exchanged behind its back is chosen anew."""
        there = [installed("torch 2.9.0"), installed("flash 1", "pyt28", BOTH["pyt28"])]
        resolution = world.resolve("flash", installed=there)
        assert [str(pin) for pin in resolution.pins] == ["flash 1 (pyt29)"]
        assert "torch 2.9.0 is installed" in resolution.notes[0]


class TestPublishedWheels:
    """The published demo with the metadata of its wheels as it is."""

    @pytest.fixture
    def demo(self, shared_data: Path) -> ResolutionSetup:
        """Return a world with the demo, and something for everything it needs."""
        folder = shared_data / "variant-abi-dependency-example"
        features = {"cuda_version_lower_bound": ["12.8", "12.0"], "sm_arch": ["90_real"]}
        world = ResolutionSetup(machine=FixedDetector({"nvidia": features}))
        needed: dict[str, None] = {}
        for wheel in sorted((folder / "wheel_dist_info").iterdir()):
            metadata = (wheel / "METADATA").read_bytes()
            world.repository.add_wheel(wheel.name, metadata=metadata)
            for requirement in read_metadata(metadata, wheel.name).requires:
                if requirement.name != "torch":
                    first = min((one.version for one in requirement.specifier), default="1")
                    needed[f"{requirement.name} {first}"] = None
        for path in sorted((folder / "docs" / "v0.0.2").rglob("*-variants.json")):
            world.repository.add_file(path.name, path.read_bytes())
        world.add(*needed)
        return world

    @pytest.mark.parametrize(
        ("requirements", "expected"),
        [
            (["torch", "flash-attn"], {"torch": "2.9.0:cuda12.8", "flash-attn": "cu12_pyt2.9.0"}),
            (["flash-attn"], {"torch": "2.9.0:cuda12.8", "flash-attn": "cu12_pyt2.9.0"}),
            (
                ["flash-attn", "vllm"],
                {
                    "torch": "2.8.0:cuda12.8",
                    "flash-attn": "cu12_pyt2.8.0",
                    "vllm": "cu128_pyt2.8.0",
                },
            ),
        ],
    )
    def test_chosen_together(
        self, requirements: list[str], expected: dict[str, str], demo: ResolutionSetup
    ) -> None:
        """A-43, A-45, F-54, F-101: the real markers bring the torch that was decided for."""
        pins = demo.pins(*requirements)
        for name, ending in expected.items():
            assert pins[name].endswith(ending)
        # What torch needs follows its own label.
        assert pins["nvidia-cublas"] == "12.8.4.1"


class TestOthers:
    """What else has a say."""

    def test_a_given_wheel(self, world: ResolutionSetup) -> None:
        """F-125: a wheel that is named limits like one that is chosen."""
        labels = {"pyt28": BOTH["pyt28"]}
        world.repository.add_wheel(
            "flash-5-py3-none-any-pyt28.whl",
            requires=["torch"],
            document=single_label_document(document(labels), "pyt28"),
            project="x",
        )
        wheel = direct_wheel("https://fake.invalid/flash-5-py3-none-any-pyt28.whl")
        pins = {pin.name: str(pin) for pin in world.resolve(wheels=[wheel]).pins}
        assert pins == {"flash": "flash 5 (pyt28)", "torch": "torch 2.8.1"}
        with pytest.raises(NoSolution) as excinfo:
            world.resolve("torch==2.9.0", wheels=[wheel])
        assert "flash 5 (pyt28) is built for torch 2.8" in str(excinfo.value.note)

    def test_a_label_that_is_asked_for(self, world: ResolutionSetup) -> None:
        """F-91: a label the user names limits what it was built for."""
        add(world, "flash 2", BOTH, ["torch"])
        labels = {"flash": parse_label("pyt28")}
        world.policy = ChoicePolicy(preferences=Preferences(labels=labels))
        assert world.pins("flash") == {"flash": "2:pyt28", "torch": "2.8.1"}

    def test_a_preferred_value(self, world: ResolutionSetup) -> None:
        """F-69, P-55: preferences order these labels like any others."""
        add(world, "flash 2", BOTH, ["torch"])
        prefer = (parse_preference("abi :: torch :: 2.8"),)
        world.policy = ChoicePolicy(preferences=Preferences(prefer=prefer))
        assert world.pins("flash") == {"flash": "2:pyt28", "torch": "2.8.1"}

    def test_switched_off(self, world: ResolutionSetup) -> None:
        """P-50, A-49: switched off, such labels are out, and it is noted."""
        add(world, "flash 2", BOTH, ["torch"], plain=True)
        world.policy = ChoicePolicy(providers=ProviderPolicy(abi_dependency=False))
        resolution = world.resolve("flash")
        assert "flash 2" in map(str, resolution.pins)
        assert any("switched off" in note for note in resolution.notes)

    def test_two_builds_for_each_other(self, world: ResolutionSetup) -> None:
        """P-52: packages that were built for each other are chosen together."""
        add(world, "left 1", {"a": {"right": ["1"]}, "b": {"right": ["2"]}}, ["right"])
        add(world, "right 2", {"a": {"left": ["2"]}}, ["left"])
        add(world, "right 1", {"a": {"left": ["1"]}}, ["left"])
        assert world.pins("left") == {"left": "1:a", "right": "1:a"}

    def test_the_proof_names_who_disagrees(self, world: ResolutionSetup) -> None:
        """House plan: what was built for what is told with its labels."""
        add(world, "flash 2", BOTH, ["torch"])
        add(world, "vllm 1", {"pyt210": {"torch": ["2.10"]}}, ["torch"])
        with pytest.raises(NoSolution) as excinfo:
            world.resolve("flash", "vllm")
        note = str(excinfo.value.note)
        for clause in (
            "vllm 1 (pyt210) is built for torch 2.10",
            "flash 2 (pyt29) is built for torch 2.9",
            "flash 2 (pyt28) is built for torch 2.8",
            "flash 1 (pyt29) is built for torch 2.9",
        ):
            assert clause in note
