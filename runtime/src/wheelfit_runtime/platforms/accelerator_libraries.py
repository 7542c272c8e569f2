"""Identify accelerator libraries, and their majors, by the names of their files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.providers.nvidia import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# As of 2026-11, by published packages.

# Libraries of drivers by the prefix of the name; the families of hardware have the others.
_OTHER_DRIVERS: Mapping[str, str] = {"dxcore": "windows", "d3d12": "windows"}

_OPENMP: Mapping[str, str] = {
    "gomp": "gnu",
    "iomp5": "intel",
    "iomp5md": "intel",
    "omp": "llvm",
    "omp140": "llvm",
    "vcomp140": "microsoft",
}
"""OpenMP run-time libraries, with their names of P-160, by the name without "lib"."""

_BLAS: Mapping[str, str] = {
    "openblas": "openblas",
    "openblasp": "openblas",
    "openblas64_": "openblas",
    "scipy_openblas": "openblas",
    "scipy_openblas64_": "openblas",
    "mkl_rt": "mkl",
    "mkl_core": "mkl",
    "blis": "blis",
    "nvpl_blas_core": "nvpl",
}
"""Linear algebra libraries, with their names of P-160, by the name without "lib"."""

# MPICH and the libraries with its ABI (Intel MPI, MVAPICH, Cray) have number 12; Open MPI had 20
# before 40.
MPI_OF_SONAME: Mapping[tuple[str, str], str] = {
    ("mpi", "12"): "mpich",
    ("mpich", "12"): "mpich",
    ("mpi", "20"): "openmpi",
    ("mpi", "40"): "openmpi",
}
"""Families of MPI, by the name without "lib" and the first number of the SONAME."""

# auditwheel puts eight hexadecimal digits of a hash behind the name.
_LINUX = re.compile(r"lib(?P<stem>.+?)(?:-[0-9a-f]{8})?\.so(?:\.(?P<version>[0-9][0-9.]*))?")
_MACOS = re.compile(r"lib(?P<stem>[^.]+)(?:\.(?P<version>[0-9][0-9.]*))?\.dylib")
_WINDOWS = re.compile(
    r"(?:lib)?(?P<stem>.+?)(?:64)?(?:[_-](?P<version>[0-9]+)(?:_[0-9]+)*)?\.dll", re.IGNORECASE
)
_OPENBLAS = re.compile(r"(?:scipy_)?openblas(?:64_|p)?")


@dataclass(frozen=True, slots=True)
class AcceleratorLibrary:
    """A library that programs use to reach an accelerator, or to compute in parallel."""

    stem: str
    """Its name in lower case without ``lib`` and number, such as ``cudart``."""
    family: str
    """``cuda``, ``driver``, ``openmp``, ``blas``, or another maker's, such as ``rocm``."""
    kind: str = ""
    """The implementation or vendor, such as ``gnu`` or ``nvidia``; empty for other families."""
    number: str = ""
    """The number in the file name, such as ``12.9.79``; empty if there is none."""
    cuda_major: int | None = None
    """The CUDA major it belongs to; None if its name does not show it, or it is not CUDA's."""
    is_ambiguous: bool = False
    """Whether libraries of several CUDA majors have the same SONAME."""


def identify(name: str) -> AcceleratorLibrary | None:
    """Return the library of a file name, or None for an unknown one.

    >>> identify("libcufft.so.11.3.3").cuda_major
    12
    >>> identify("libgomp-a34b3233.so.1.0.0").kind
    'gnu'
    >>> identify("libpng16.so.16") is None
    True

    :param name: file name without folders.
    """
    match = _LINUX.fullmatch(name) or _MACOS.fullmatch(name) or _WINDOWS.fullmatch(name)
    if match is None:
        return None
    stem, number = match["stem"].lower(), match["version"] or ""
    majors = tables.MAJOR_OF_SONAME.get(stem)
    if majors is not None:
        first = _first_number(number, windows=name.lower().endswith(".dll"))
        major = majors.get(first) if first is not None else None
        return AcceleratorLibrary(
            stem, "cuda", "", number, major, is_ambiguous=first in majors and major is None
        )
    # cuDNN is a dozen libraries: cudnn, cudnn_ops, cudnn_graph …
    if stem in tables.SAME_SONAME or stem.startswith("cudnn_"):
        return AcceleratorLibrary(stem, "cuda", "", number, None, is_ambiguous=True)
    if (kind := _OPENMP.get(stem)) is not None:
        return AcceleratorLibrary(stem, "openmp", kind, number)
    # OpenBLAS puts its version into the name, as in libopenblasp-r0.3.21.so.
    if (blas := _OPENBLAS.match(stem)) is not None:
        stem = blas[0]
    if (kind := _BLAS.get(stem)) is not None:
        return AcceleratorLibrary(stem, "blas", kind, number)
    if (family := _runtimes().get(stem)) is not None:
        return AcceleratorLibrary(stem, family, "", number)
    for beginning, maker in _drivers().items():
        if stem == beginning or (beginning.endswith("-") and stem.startswith(beginning)):
            return AcceleratorLibrary(stem, "driver", maker, number)
    return None


@lru_cache(maxsize=1)
def _runtimes() -> dict[str, str]:
    """Return the software of run-time libraries, by stem."""
    return {stem: name for family in providers.families() for stem, name in family.runtimes.items()}


@lru_cache(maxsize=1)
def _drivers() -> dict[str, str]:
    """Return the vendors of driver libraries, by the prefix of the stem."""
    by_stem = {stem: family.namespace for family in providers.families() for stem in family.drivers}
    return {**by_stem, **_OTHER_DRIVERS}


def _first_number(number: str, *, windows: bool) -> int | None:
    first = number.partition(".")[0]
    if not first:
        return None
    # cudart64_110.dll is 11.0; from 12 on there is only the major.
    return int(first[:2]) if windows and len(first) == 3 else int(first)
