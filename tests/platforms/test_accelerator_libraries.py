"""Names of accelerator libraries."""

from __future__ import annotations

import pytest

from wheelfit_runtime.platforms.accelerator_libraries import identify


@pytest.mark.parametrize(
    ("name", "family", "major", "ambiguous"),
    [
        ("libcudart.so.11.0", "cuda", 11, False),
        ("libcudart.so.12", "cuda", 12, False),
        ("libcudart.so.13.0.96", "cuda", 13, False),
        ("libcudart-9335f6a2.so.12.1.105", "cuda", 12, False),
        ("libcudart.so", "cuda", None, False),
        ("cudart64_110.dll", "cuda", 11, False),
        ("cudart64_12.dll", "cuda", 12, False),
        ("libcufft.so.10", "cuda", 11, False),
        ("libcufft.so.11", "cuda", 12, False),
        ("libcufft.so.12", "cuda", 13, False),
        ("libnvJitLink.so.12", "cuda", 12, False),
        ("libcublasLt.so.13", "cuda", 13, False),
        ("libcusolver.so.11", "cuda", None, True),
        ("libcusparse.so.12", "cuda", None, True),
        ("libcurand.so.10", "cuda", None, True),
        ("libnccl.so.2", "cuda", None, True),
        ("libcudnn_graph.so.9", "cuda", None, True),
        ("cudnn64_9.dll", "cuda", None, True),
        ("libcublas.so.99", "cuda", None, False),
        ("libcuda.so.1", "driver", None, False),
        ("libnvidia-ml.so.550.54.15", "driver", None, False),
        ("nvcuda.dll", "driver", None, False),
        ("libamdhip64.so.6", "rocm", None, False),
        ("libze_loader.so.1", "level-zero", None, False),
        ("libtpu.so", "tpu", None, False),
    ],
)
def test_accelerators(name: str, family: str, major: int | None, *, ambiguous: bool) -> None:
    """P-92: the CUDA major follows from name and number by a table, or does not follow at all."""
    found = identify(name)
    assert found is not None
    assert (found.family, found.cuda_major, found.is_ambiguous) == (family, major, ambiguous)


@pytest.mark.parametrize(
    ("name", "family", "kind"),
    [
        ("libgomp.so.1", "openmp", "gnu"),
        ("libgomp-a34b3233.so.1.0.0", "openmp", "gnu"),
        ("libiomp5.so", "openmp", "intel"),
        ("libiomp5md.dll", "openmp", "intel"),
        ("libomp.dylib", "openmp", "llvm"),
        ("vcomp140.dll", "openmp", "microsoft"),
        ("libopenblasp-r0-23e5df77.3.21.dev.so", "blas", "openblas"),
        ("libscipy_openblas64_-6bb31eeb.so", "blas", "openblas"),
        ("libmkl_rt.so.2", "blas", "mkl"),
    ],
)
def test_processors(name: str, family: str, kind: str) -> None:
    """P-160: OpenMP and linear algebra libraries are known by maker."""
    found = identify(name)
    assert found is not None
    assert (found.family, found.kind) == (family, kind)


@pytest.mark.parametrize(
    "name",
    [
        "libpng16.so.16",
        "cudart.py",
        "libcudart",
        "libcudart.so.12.txt",
        "libcudaq.so.1",
        "",
        "lib.so",
    ],
)
def test_others(name: str) -> None:
    """What only looks like one is none."""
    assert identify(name) is None
