"""Accelerators: hardware that people buy for speed, and by which wish a build of its is named."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.core.properties import Property
from wheelfit.core.provider_table import HARDWARE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.ordering import Choice
    from wheelfit.core.properties import PropertySet

__all__ = ["ACCELERATORS", "LIBRARIES", "accelerators_of", "owner_of_libraries"]


def __dir__() -> list[str]:
    return __all__


ACCELERATORS: Mapping[str, Choice] = MappingProxyType(
    {
        **{namespace: namespace for namespace in sorted(HARDWARE - {"aarch64", "x86_64"})},
        # P-150: a build may also say that it is for machines without one.
        "tpu": Property("tpu", "present", "true"),
    }
)
"""Namespaces of accelerators, each with what builds that use it have."""


LIBRARIES: Mapping[str, str] = MappingProxyType(
    {
        "cuda-": "nvidia",
        "nvidia-cu": "nvidia",  # cublas, cuda-*, cudnn, cufft, cusolver, cusparse, ...
        "nvidia-n": "nvidia",  # nccl, npp, nvjitlink, nvshmem, nvtx
        "rocm-sdk-": "amd",
        "intel-sycl-rt": "intel",
        "intel-opencl-rt": "intel",
        "dpcpp-cpp-rt": "intel",
    }
)
"""How the names of packages begin that hold nothing but a vendor's libraries, with whose they
are; as of 2026-11. What needs one is made for that accelerator, whatever it says itself."""


def accelerators_of(properties: PropertySet) -> tuple[str, ...]:
    """Return the namespaces of the accelerators that a build uses.

    :param properties: what the label of the build stands for.
    """
    return tuple(
        namespace
        for namespace in properties.namespaces
        if namespace in ACCELERATORS
        and not (namespace == "tpu" and properties.values("tpu", "present") == ("false",))
    )


def owner_of_libraries(name: str) -> str | None:
    """Return whose accelerator a package only holds libraries of; None for all others.

    :param name: of the project, normalised.
    """
    for start, namespace in LIBRARIES.items():
        if name.startswith(start):
            return namespace
    return None
