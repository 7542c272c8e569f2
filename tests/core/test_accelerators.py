"""Packages of accelerator libraries: their platforms and dependencies."""

from __future__ import annotations

import pytest

from wheelfit.core.accelerators import (
    ACCELERATORS,
    LIBRARIES,
    accelerator_extras,
    libraries_in_words,
    library_major,
    library_needs,
    owner_of_libraries,
)
from wheelfit.core.core_metadata import read_metadata
from wheelfit.core.properties import Property
from wheelfit_runtime.platforms import providers


@pytest.mark.parametrize(
    ("name", "version", "owner", "major"),
    [
        ("nvidia-cudnn-cu13", "9.26.0.51", "nvidia", "13"),
        ("nvidia-cublas-cu12", "12.9.1.4", "nvidia", "12"),
        ("cuda-toolkit", "13.2.2", "nvidia", "13"),
        ("nvidia-cublas", "13.2.0.9", "nvidia", "13"),
        ("nvidia-cublas", "", "nvidia", None),
        ("nvidia-cufft", "12.2.0.1", "nvidia", None),  # of CUDA 13: its number is its own
        ("nvidia-cutlass-cu99", "1", "nvidia", None),
        ("nvidia-nccl-cu12", "2.27", "nvidia", "12"),
        ("intel-sycl-rt", "2025.3", "intel", None),
        ("nvidia-variant-provider", "0.0.1", None, None),
        ("rocm-sdk-core", "7.14", "amd", None),
        ("nvidia-ml-py", "13.1", None, None),
        ("tritonclient", "2.60", None, None),
        ("numpy", "2.0", None, None),
    ],
)
def test_library_packages(name: str, version: str, owner: str | None, major: str | None) -> None:
    """Names and local versions give the platform and its major version."""
    assert owner_of_libraries(name) == owner
    assert library_major(name, version) == major
    assert set(LIBRARIES.values()) <= set(ACCELERATORS)


def test_properties() -> None:
    """Every property that libraries need is one that a machine can have."""
    assert library_needs("nvidia", "13") == (
        Property("nvidia", "cuda_version_lower_bound", "13.0"),
        Property("nvidia", "sm_arch", "75_virtual"),
    )
    assert library_needs("amd", "7") == library_needs("nobody", "1") == ()
    for family in providers.accelerators():
        for major in family.library_needs:
            for one in library_needs(family.namespace, major):
                assert family.provider.accepts(one.feature, one.value)


def test_descriptions() -> None:
    """Libraries are named after the platform, or else the device."""
    assert [libraries_in_words(name) for name in ("nvidia", "amd", "intel", "unknown")] == [
        "CUDA",
        "ROCm",
        "Intel GPU",
        "unknown",
    ]


def test_extras() -> None:
    """An extra counts if it requires libraries, or something named after it."""
    core = read_metadata(
        b"Metadata-Version: 2.1\nName: jax\nVersion: 1\n"
        b"Provides-Extra: cuda13\nProvides-Extra: and-cuda\nProvides-Extra: ci\n"
        b"Requires-Dist: numpy\n"
        b'Requires-Dist: jax-cuda13-plugin[with-cuda]<2; extra == "cuda13"\n'
        b"Requires-Dist: NVIDIA_cudnn-cu12 (>=9) ; extra == 'and_cuda'\n"
        b'Requires-Dist: pytest; extra == "ci"\n\n',
        "jax.whl",
    )
    assert accelerator_extras(core) == ["and-cuda", "cuda13"]
