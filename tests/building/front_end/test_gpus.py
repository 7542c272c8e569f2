"""Architectures of GPUs in the words of build systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.building.front_end.flags import flags_of, with_flags
from wheelfit.building.front_end.toolchains.inputs import BuildInputs
from wheelfit.core.properties import PropertySet, parse_property

SETUPTOOLS, SKBUILD = "setuptools.build_meta", "scikit_build_core.build"
CUDA = ("90_virtual", "80_real", "100f_real", "90a_real", "90_real")
GENCODE = (
    "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 "
    "-gencode=arch=compute_90,code=compute_90 -gencode=arch=compute_90a,code=sm_90a "
    "-gencode=arch=compute_100f,code=sm_100f"
)
CMAKE = "80-real;90-real;90-virtual;90a-real;100f-real"
TORCH = "8.0;9.0+PTX;9.0a;10.0f"


def properties(feature: str, *values: str) -> PropertySet:
    """Return values of one feature."""
    return PropertySet(parse_property(f"{feature} :: {value}") for value in values)


SM = properties("nvidia :: sm_arch", *CUDA)
GFX = properties("amd :: gfx_arch", "gfx90a", "gfx1100")


def test_reports() -> None:
    """Architectures are named as compilers name them, the oldest first."""
    assert flags_of(SM, {}) == ("sm_80", "sm_90", "compute_90", "sm_90a", "sm_100f")
    assert flags_of(GFX, {}) == ("gfx1100", "gfx90a")


def test_setuptools_and_its_like(tmp_path: Path) -> None:
    """Where nobody else names architectures, nvcc and hipcc read them from variables."""
    inputs = BuildInputs({"NVCC_APPEND_FLAGS": "-O3"}, backend=SETUPTOOLS, project=tmp_path)
    found = with_flags(inputs, SM)
    assert found.environ == {
        "CUDAARCHS": CMAKE,
        "TORCH_CUDA_ARCH_LIST": TORCH,
        "NVCC_APPEND_FLAGS": f"-O3 {GENCODE}",
    }
    assert found.settings == {}
    assert with_flags(BuildInputs(backend=SETUPTOOLS, project=tmp_path), GFX).environ == {
        "PYTORCH_ROCM_ARCH": "gfx1100;gfx90a",
        "HIPCC_COMPILE_FLAGS_APPEND": "--offload-arch=gfx1100 --offload-arch=gfx90a",
    }


@pytest.mark.parametrize("by", ["backend", "torch", "file"])
def test_others_name_architectures(by: str, tmp_path: Path) -> None:
    """What CMake and PyTorch choose for each file gets no options for all files."""
    if by == "file":
        (tmp_path / "CMakeLists.txt").touch()
    inputs = BuildInputs(
        project=tmp_path,
        backend=SKBUILD if by == "backend" else SETUPTOOLS,
        packages=frozenset({"torch"} if by == "torch" else ()),
    )
    for wanted in (SM, GFX):
        variables = with_flags(inputs, wanted).environ.keys()
        assert variables
        assert variables <= {"CUDAARCHS", "TORCH_CUDA_ARCH_LIST", "PYTORCH_ROCM_ARCH"}


def test_settings_of_cmake(tmp_path: Path) -> None:
    """A setting counts more than what a project prefers, and one of the user most."""
    key = "cmake.define.CMAKE_CUDA_ARCHITECTURES"
    inputs = BuildInputs(backend=SKBUILD, project=tmp_path)
    assert with_flags(inputs, SM).settings == {key: CMAKE}
    own = BuildInputs(backend=SKBUILD, project=tmp_path, settings={key: "75"})
    assert with_flags(own, SM).settings == {key: "75"}
    assert with_flags(inputs, GFX).settings == {
        f"cmake.define.{name}": "gfx1100;gfx90a"
        for name in ("CMAKE_HIP_ARCHITECTURES", "GPU_TARGETS", "AMDGPU_TARGETS")
    }


def test_variables_that_are_there(tmp_path: Path) -> None:
    """The label counts more than variables of the machine, and less than those for this wheel."""
    here = {"CUDAARCHS": "75", "TORCH_CUDA_ARCH_LIST": "7.5"}
    inputs = BuildInputs(
        here, project=tmp_path, project_variables=frozenset({"TORCH_CUDA_ARCH_LIST"})
    )
    found = with_flags(inputs, SM).environ
    assert (found["CUDAARCHS"], found["TORCH_CUDA_ARCH_LIST"]) == (CMAKE, "7.5")


def test_ptx_alone(tmp_path: Path) -> None:
    """PyTorch compiles no PTX without machine code; the others do."""
    found = with_flags(
        BuildInputs(project=tmp_path), properties("nvidia :: sm_arch", "90_virtual")
    ).environ
    assert found == {
        "CUDAARCHS": "90-virtual",
        "TORCH_CUDA_ARCH_LIST": "9.0+PTX",
        "NVCC_APPEND_FLAGS": "-gencode=arch=compute_90,code=compute_90",
    }
