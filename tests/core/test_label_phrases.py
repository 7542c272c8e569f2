"""The requirements of labels on machines, in words."""

from __future__ import annotations

import pytest

from wheelfit.core.metadata import read_document
from wheelfit.core.phrases import describe_condition
from wheelfit.core.properties import PropertySet
from wheelfit.testing.wheels import release_document


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({}, "fits every machine"),
        ({"x86_64": {"level": ["v4", "v3"]}}, "needs x86-64-v3"),
        ({"x86_64": {"avx2": ["on"]}}, "needs a CPU with avx2"),
        ({"aarch64": {"version": ["8.2a"]}}, "needs Armv8.2-A"),
        (
            {"aarch64": {"version": ["8a"], "sve": ["off"]}},
            "needs aarch64 :: sve :: off and Armv8-A",
        ),
        (
            {"amd": {"gfx_arch": ["gfx942", "gfx90a"], "rocm_version": ["6.4"]}},
            "needs an AMD GPU gfx90a or gfx942 and ROCm 6.4",
        ),
        ({"amd": {"other": ["1"]}}, "needs amd :: other :: 1"),
        (
            {"nvidia": {"cuda_version_lower_bound": ["12"], "cuda_version_upper_bound": ["13"]}},
            "needs CUDA driver >= 12 and CUDA driver < 13",
        ),
        ({"tpu": {"present": ["false"]}, "x86_64": {"level": ["v2"]}},
         "needs x86-64-v2; is for machines without a TPU"),
        ({"blas": {"library": ["mkl", "openblas"]}}, "needs blas :: library :: mkl or openblas"),
    ],
)  # fmt: skip
def test_properties_in_words(properties: dict[str, dict[str, list[str]]], words: str) -> None:
    """All features of a label must hold, and of each one value."""
    assert describe_condition(PropertySet.from_mapping(properties), {}) == words


def test_static_lists() -> None:
    """P-11: values of the package's own list require nothing; missing ones are named."""
    document = read_document(
        release_document(
            {
                "mkl": {"blas": {"library": ["mkl"]}, "x86_64": {"level": ["v3"]}},
                "odd": {"blas": {"library": ["odd"]}},
            },
            static={"blas": {"library": ["openblas", "mkl"]}},
            providers={"x86_64": {"requires": ["x86-64-variant-provider"]}},
            namespaces=["blas", "x86_64"],
        ),
        where="x",
    )
    words = {
        label: describe_condition(properties, document.providers)
        for label, properties in document.variants.items()
    }
    assert words == {"mkl": "needs x86-64-v3", "odd": "needs blas :: library :: odd"}


def test_optional_list() -> None:
    """P-2: an optional provider counts only if it is enabled."""
    content = release_document(
        {"mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
    )
    content["providers"]["blas"]["optional"] = True  # type: ignore[index]
    document = read_document(content, where="x")
    properties = document.properties("mkl")
    assert properties is not None
    assert describe_condition(properties, document.providers) == "needs blas :: library :: mkl"


def test_versions_of_other_packages() -> None:
    """P-51: a build for versions of another package requires that package."""
    document = read_document(
        release_document(
            {"t28": {"abi": {"torch": ["2.8", "2.9"]}}},
            providers={"abi": {"builtin": "abi_dependency"}},
        ),
        where="x",
    )
    properties = document.properties("t28")
    assert properties is not None
    assert describe_condition(properties, document.providers) == "needs torch 2.9 or 2.8"
