"""Cautions about what was chosen."""

from __future__ import annotations

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version
from resolution.releases import add_release

from wheelfit.core.agreements import AGREEMENTS
from wheelfit.core.properties import Property, PropertySet
from wheelfit.resolution.choice_warnings import warnings_about_mixture
from wheelfit.resolution.joint_choice import AgreementOutcome, ChosenBuild, outcomes_of
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.resolution_setup import NVIDIA, ResolutionSetup
from wheelfit.testing.wheels import release_document

TPU = {
    "requires": ["tpu-variant-provider==0.1.0"],
    "plugin-api": "tpu_variant_provider.plugin:TpuVariantPlugin",
}


def cuda(*versions: str) -> PropertySet:
    """Return the properties of a build for some CUDA versions."""
    return PropertySet(
        Property("nvidia", "cuda_version_lower_bound", version) for version in versions
    )


def held(**builds: PropertySet) -> tuple[AgreementOutcome, ...]:
    """Return on what some builds agree."""
    chosen = (
        ChosenBuild(canonicalize_name(name), Version("1"), None, properties)
        for name, properties in builds.items()
    )
    return tuple(outcomes_of(chosen, AGREEMENTS))


def test_two_cuda_majors() -> None:
    """A-47: builds for two CUDA majors in one environment are told."""
    (caution,) = warnings_about_mixture(
        held(torch=cuda("13.0"), xgboost=cuda("12.0"), numpy=cuda())
    )
    assert caution == (
        "builds for different CUDA majors are mixed (CUDA 12: xgboost; CUDA 13: torch)"
    )


def test_one_cuda_major() -> None:
    """A-47: minor versions of one major go together."""
    assert not list(warnings_about_mixture(held(torch=cuda("12.8", "13.0"), xgboost=cuda("12.0"))))


def test_two_libraries() -> None:
    """What is mixed is told of every agreement."""
    (caution,) = warnings_about_mixture(
        held(
            scipy=PropertySet([Property("blas_lapack", "provider", "mkl")]),
            numpy=PropertySet([Property("blas_lapack", "provider", "openblas")]),
        )
    )
    assert caution == "builds for different BLAS are mixed (BLAS mkl: scipy; BLAS openblas: numpy)"


def test_packages_that_share_a_caution() -> None:
    """What the chosen builds of several packages do not use is one line, with each reason once."""
    world = ResolutionSetup(
        machine=FixedDetector({"nvidia": {"cuda_version_lower_bound": ["12.4"]}})
    )
    document = release_document(
        {"null": {}, "cu129": {"nvidia": {"cuda_version_lower_bound": ["12.9"]}}},
        providers={"nvidia": NVIDIA},
    )
    names = ("torch", "torchaudio", "torchvision")
    for name in names:
        add_release(world.repository, f"{name} 2", document)
    notes = world.resolve(*names).notes
    cautions = [note for note in notes if "hardware is present" in note]
    assert cautions == [notes[0]]  # it heads the notes
    assert cautions[0].startswith(
        "torch, torchaudio and torchvision: nvidia hardware is present, but the chosen builds "
        "(null) do not use it; cu129: needs CUDA driver >= 12.9, this machine has 12.4"
    )
    assert cautions[0].count("needs CUDA driver") == 1


@pytest.mark.parametrize(("present", "cautions"), [("false", 0), ("true", 1)])
def test_hardware_whose_absence_is_an_answer(present: str, cautions: int) -> None:
    """P-150: without a TPU nobody is told that one is not used; with one they are."""
    world = ResolutionSetup(machine=FixedDetector({"tpu": {"present": [present]}}))
    document = release_document(
        {"null": {}, "v9": {"tpu": {"present": ["true"], "generation": ["v9"]}}},
        providers={"tpu": TPU},
    )
    add_release(world.repository, "jax 2", document)
    notes = [note for note in world.resolve("jax").notes if "tpu hardware is present" in note]
    assert len(notes) == cautions
