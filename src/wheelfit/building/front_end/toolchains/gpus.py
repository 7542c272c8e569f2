"""CUDA and HIP: the architectures of a variant, in the variables and settings of build systems.

PyTorch's extensions and CMake have their own variables. NVIDIA's and AMD's compilers read options
from variables too, but use them for every file, also for those that a build system compiles for
fewer architectures; so these are set only if no build system selects architectures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.building.front_end.toolchains.inputs import CMAKE_BACKENDS, BuildInputs, Toolchain
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit.core.properties import PropertySet

_VALUE = pattern(r"(\d{2,3})([af]?)_(real|virtual)")
_SKBUILD = "scikit_build_core.build"


@dataclass(frozen=True, slots=True, order=True)
class Architecture:
    """A value of ``nvidia :: sm_arch``: machine code or PTX of one architecture."""

    number: int
    """As 90."""
    suffix: str
    """``a``, ``f`` or empty."""
    is_virtual: bool
    """Whether it is PTX, which drivers compile."""

    @property
    def name(self) -> str:
        """The architecture, such as ``90a``."""
        return f"{self.number}{self.suffix}"

    @property
    def code(self) -> str:
        """Its name in nvcc, such as ``sm_90a`` or ``compute_90a``."""
        return f"{'compute' if self.is_virtual else 'sm'}_{self.name}"

    @property
    def cmake(self) -> str:
        """Its name in CMake, such as ``90a-real``."""
        return f"{self.name}-{'virtual' if self.is_virtual else 'real'}"

    @property
    def dotted(self) -> str:
        """Its name in PyTorch, such as ``9.0a``."""
        return f"{self.number // 10}.{self.number % 10}{self.suffix}"


def cuda_architectures(properties: PropertySet) -> tuple[Architecture, ...]:
    """Return the architectures of NVIDIA's GPUs that properties name, oldest first."""
    matches = map(_VALUE.fullmatch, properties.values("nvidia", "sm_arch"))
    return tuple(
        sorted(
            Architecture(int(match[1]), match[2], match[3] == "virtual")
            for match in matches
            if match
        )
    )


def torch_list(architectures: Iterable[Architecture]) -> str:
    """Return ``TORCH_CUDA_ARCH_LIST``; PyTorch compiles no PTX without machine code beside it.

    >>> torch_list([Architecture(80, "", False), Architecture(90, "a", False)])
    '8.0;9.0a'
    >>> torch_list([Architecture(90, "", False), Architecture(90, "", True)])
    '9.0+PTX'
    """
    architectures = list(architectures)
    with_ptx = {architecture.dotted for architecture in architectures if architecture.is_virtual}
    names = dict.fromkeys(architecture.dotted for architecture in architectures)
    return ";".join(f"{name}+PTX" if name in with_ptx else name for name in names)


def _cuda_words(properties: PropertySet, _machine: Mapping[str, str]) -> tuple[str, ...]:
    """Return the architectures as nvcc names them."""
    return tuple(architecture.code for architecture in cuda_architectures(properties))


def _add_cuda(inputs: BuildInputs, properties: PropertySet) -> BuildInputs:
    architectures = cuda_architectures(properties)
    if not architectures:
        return inputs
    names = ";".join(architecture.cmake for architecture in architectures)
    inputs = inputs.with_variable("CUDAARCHS", names)
    inputs = inputs.with_variable("TORCH_CUDA_ARCH_LIST", torch_list(architectures))
    if inputs.backend == _SKBUILD:
        inputs = inputs.with_setting("cmake.define.CMAKE_CUDA_ARCHITECTURES", names)
    if _build_system_selects(inputs) or "NVCC_APPEND_FLAGS" in inputs.project_variables:
        return inputs
    options = [
        f"-gencode=arch=compute_{architecture.name},code={architecture.code}"
        for architecture in architectures
    ]
    return inputs.with_appended("NVCC_APPEND_FLAGS", options)


def _build_system_selects(inputs: BuildInputs) -> bool:
    """Return whether PyTorch or CMake selects the architectures."""
    return (
        inputs.backend in CMAKE_BACKENDS
        or "torch" in inputs.packages
        or (inputs.project / "CMakeLists.txt").exists()
    )


def _hip_words(properties: PropertySet, _machine: Mapping[str, str]) -> tuple[str, ...]:
    """Return the architectures as hipcc names them."""
    return tuple(properties.values("amd", "gfx_arch"))


def _add_hip(inputs: BuildInputs, properties: PropertySet) -> BuildInputs:
    names = _hip_words(properties, inputs.machine)
    if not names:
        return inputs
    architectures = ";".join(names)
    inputs = inputs.with_variable("PYTORCH_ROCM_ARCH", architectures)
    if inputs.backend == _SKBUILD:
        # CMake's language HIP reads the first, the packages of ROCm the others.
        for name in ("CMAKE_HIP_ARCHITECTURES", "GPU_TARGETS", "AMDGPU_TARGETS"):
            inputs = inputs.with_setting(f"cmake.define.{name}", architectures)
    if _build_system_selects(inputs) or "HIPCC_COMPILE_FLAGS_APPEND" in inputs.project_variables:
        return inputs
    options = [f"--offload-arch={name}" for name in names]
    return inputs.with_appended("HIPCC_COMPILE_FLAGS_APPEND", options)


CUDA = Toolchain(_cuda_words, _add_cuda)
HIP = Toolchain(_hip_words, _add_hip)
