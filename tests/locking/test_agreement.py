"""Builds from one lock agree with each other, and with what is installed."""

from __future__ import annotations

from typing import Any

import pytest
from locking.entries import TARGET, locked
from packaging.utils import canonicalize_name
from resolution.releases import add_release, installed_build

from wheelfit.errors import NoConsistentSet
from wheelfit.locking.document import Lock
from wheelfit.locking.locking import new_lock
from wheelfit.locking.selection import LockCandidates, LockSelection
from wheelfit.resolution.candidates import ChoicePolicy
from wheelfit.resolution.request import InstalledBuild
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.repositories import FakeRepository
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import release_document

BOUNDS = [f"{major}.{minor}" for major in (13, 12, 11) for minor in range(9, -1, -1)]
GPU = FixedDetector({"nvidia": {"cuda_version_lower_bound": BOUNDS}})
OLD_GPU = FixedDetector({"nvidia": {"cuda_version_lower_bound": BOUNDS[10:]}})
CUDA = {"cu11": "11.0", "cu12": "12.0", "cu13": "13.0"}


def document(*labels: str) -> dict[str, Any]:
    """Return a document of labels for CUDA versions."""
    variants = {label: {"nvidia": {"cuda_version_lower_bound": [CUDA[label]]}} for label in labels}
    return release_document(variants, providers={"nvidia": NVIDIA})


def lock(**packages: str) -> Lock:
    """Return a lock of packages with builds for some versions; ``-`` is a plain wheel."""
    repository = FakeRepository()
    for name, builds in packages.items():
        labels = [build for build in builds.split() if build != "-"]
        add_release(repository, f"{name} 1", document(*labels), plain="-" in builds)
    tables = [locked(repository, name, "1").table for name in packages]
    return new_lock(tables, roots=list(packages), where="pylock.toml")


def installed(name: str, label: str) -> InstalledBuild:
    """Return an installed build for a CUDA version."""
    return installed_build(f"{name} 1", label, document(label))


def choose(
    lock: Lock,
    *there: InstalledBuild,
    machine: FixedDetector = GPU,
    policy: ChoicePolicy = ChoicePolicy(),
) -> LockSelection:
    """Choose from a lock."""
    candidates = LockCandidates(lock, TARGET, machine, policy)
    return candidates.select(installed={present.name: present for present in there})


def labels(selection: LockSelection) -> dict[str, str | None]:
    """Return the label of each chosen wheel."""
    return {pin.name: pin.label for pin in selection.resolution().pins}


BOTH = lock(torch="cu12 cu13", flash="cu12")


class TestTogether:
    """One machine gets builds that go with each other."""

    def test_the_better_build_gives_way(self) -> None:
        """A-47: of a lock the build that all can share is taken, and it is said why."""
        selection = choose(BOTH)
        assert labels(selection) == {"torch": "cu12", "flash": "cu12"}
        (held,) = selection.resolution().agreements
        assert str(held) == (
            "CUDA 12 for all, because flash 1 has only builds for CUDA 12: "
            "cu12 of torch 1, not cu13"
        )
        torch = selection.resolution().pin(canonicalize_name("torch"))
        assert torch is not None
        reasons = [verdict.reason for verdict in torch.choice.selection.verdicts]
        assert "is built for CUDA 13, this environment has CUDA 12 because of flash" in reasons

    def test_each_machine_by_itself(self) -> None:
        """One lock holds builds that no environment would mix, each for its machines."""
        both = lock(torch="cu12 cu13", flash="cu12 cu13")
        assert set(labels(choose(both)).values()) == {"cu13"}
        assert set(labels(choose(both, machine=OLD_GPU)).values()) == {"cu12"}

    def test_a_plain_wheel_gives_way_to_nobody(self) -> None:
        """Where one build has no counterpart, the plain wheel of the other one is taken."""
        selection = choose(lock(torch="cu13 -", flash="cu12"))
        assert labels(selection) == {"torch": None, "flash": "cu12"}

    def test_no_set(self) -> None:
        """A-47: a lock without builds that agree is refused, with the closest sets."""
        with pytest.raises(NoConsistentSet) as excinfo:
            choose(lock(torch="cu13", flash="cu12"))
        assert excinfo.value.message.endswith("CUDA 12: flash; CUDA 13: torch")
        assert [(detail["values"], detail["lacks"]) for detail in excinfo.value.details] == [
            ({"cuda": "13"}, ["flash"]),
            ({"cuda": "12"}, ["torch"]),
        ]
        assert "torch has no wheel in the lock" in str(excinfo.value.note)

    def test_mixing_can_be_allowed(self) -> None:
        """A-47: with mixing allowed each package has its best build, with a warning."""
        selection = choose(BOTH, policy=ChoicePolicy(mixed=frozenset(["cuda"])))
        assert labels(selection) == {"torch": "cu13", "flash": "cu12"}
        assert selection.notes == (
            "builds for different CUDA majors are mixed (CUDA 12: flash; CUDA 13: torch)",
        )

    def test_again_after_a_wheel_was_rejected(self) -> None:
        """F-93: what was forced once is chosen anew when a wheel turns out to be another."""
        candidates = LockCandidates(lock(torch="cu12 cu13", flash="cu12 -"), TARGET, GPU)
        first = candidates.select()
        assert labels(first) == {"torch": "cu12", "flash": "cu12"}
        flash = first.resolution().pin(canonicalize_name("flash"))
        assert flash is not None
        candidates.candidates.reject(flash.filename, "it is broken")
        assert labels(candidates.select()) == {"torch": "cu13", "flash": None}


def test_a_build_for_another_package_that_comes_with_the_value() -> None:
    """P-54: what was given up for want of another package is not given up where that comes."""
    repository = FakeRepository()
    nvidia = {label: {"nvidia": {"cuda_version_lower_bound": [CUDA[label]]}} for label in CUDA}
    abi = {"builtin": "abi_dependency"}
    providers: dict[str, Any] = {"nvidia": NVIDIA, "abi": abi}
    needs = {"cu13": ["flash"], "cu12": ["flash", "torch"]}
    for name, variants in {
        "app": {label: nvidia[label] for label in ("cu13", "cu12")},
        "other": {"cu12": nvidia["cu12"]},
        "flash": {"torch1": {"abi": {"torch": ["1"]}}, "null": {}},
    }.items():
        document = release_document(variants, providers=providers)
        add_release(repository, f"{name} 1", document, needs if name == "app" else ())
    repository.add_wheel("torch-1-py3-none-any.whl")
    names = ("app", "other", "flash", "torch")
    tables = [locked(repository, name, "1").table for name in names]
    alone = new_lock(tables, roots=["app"], where="pylock.toml")
    assert labels(choose(alone)) == {"app": "cu13", "flash": "null"}
    both = new_lock(tables, roots=["app", "other"], where="pylock.toml")
    assert labels(choose(both)) == {
        "app": "cu12",
        "other": "cu12",
        "flash": "torch1",
        "torch": None,
    }


class TestInstalled:
    """What is there takes part."""

    def test_beside_the_lock(self) -> None:
        """What stays though the lock does not have it decides about what does."""
        both = lock(torch="cu12 cu13", flash="cu12 cu13")
        selection = choose(both, installed("other", "cu12"))
        assert set(labels(selection).values()) == {"cu12"}
        assert selection.agreements[0].forced.reasons == (
            "the installed other 1 (cu12) is built for CUDA 12",
        )

    def test_beside_the_lock_and_in_the_way(self) -> None:
        """What stays and goes with no build of the lock is named."""
        with pytest.raises(NoConsistentSet) as excinfo:
            choose(BOTH, installed("other", "cu11"))
        assert "other 1 (cu11) is installed and not in the lock" in str(excinfo.value.note)

    def test_of_the_lock(self) -> None:
        """What is installed keeps its value if it can, and has no say if it cannot."""
        both = lock(torch="cu12 cu13", flash="cu12 cu13")
        assert set(labels(choose(both, installed("torch", "cu12"))).values()) == {"cu12"}
        assert set(labels(choose(both, installed("torch", "cu11"))).values()) == {"cu13"}

    def test_mixed_already(self) -> None:
        """What is mixed beside the lock is told; what is new takes a value that is there."""
        both = lock(torch="cu12 cu13")
        selection = choose(both, installed("one", "cu11"), installed("two", "cu12"))
        assert labels(selection) == {"torch": "cu12"}
        assert selection.notes[0].startswith("builds for different CUDA majors are mixed")
