"""The tables of NVIDIA's drivers, toolkits and GPUs (P-80 to P-95)."""

from __future__ import annotations

from wheelfit_runtime.platforms.providers.nvidia import record
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DATA_VERSION = "2026-11"

# P-90: devices that run the family code ("f") of a capability.
SM_FAMILIES: Mapping[Capability, frozenset[Capability]] = {
    Capability(10, 0): frozenset({Capability(10, 0), Capability(10, 3), Capability(10, 7)}),
    Capability(10, 3): frozenset({Capability(10, 3), Capability(10, 7)}),
    Capability(10, 7): frozenset({Capability(10, 7)}),
    Capability(11, 0): frozenset({Capability(11, 0)}),
    Capability(12, 0): frozenset({Capability(12, 0), Capability(12, 1)}),
    Capability(12, 1): frozenset({Capability(12, 1)}),
}

# Capabilities that GPUs have, from the compilers of CUDA 11.8, 12.9 and 13.5.
CAPABILITIES: frozenset[Capability] = frozenset(
    Capability(major, minor)
    for major, minors in {
        5: (0, 2, 3),
        6: (0, 1, 2),
        7: (0, 2, 5),
        8: (0, 6, 7, 9),
        9: (0,),
        10: (0, 1, 3, 7),
        11: (0,),
        12: (0, 1),
    }.items()
    for minor in minors
)

# P-83: the first capability with architecture-specific code, as sm_90a.
FIRST_SPECIFIC = Capability(9, 0)

# P-90: GPUs of Jetson and DRIVE boards, which do not run the machine code of others.
TEGRA: frozenset[Capability] = frozenset(
    {
        Capability(5, 3),  # Tegra X1
        Capability(6, 2),  # Tegra X2
        Capability(7, 2),  # Xavier
        Capability(8, 7),  # Orin
        Capability(10, 1),  # Thor, as CUDA 12 calls it
        Capability(11, 0),  # Thor, since CUDA 13
    }
)

# P-91: PTX version by CUDA toolkit, from the history in the PTX manual and from compiler output.
PTX_OF_TOOLKIT: Mapping[Capability, Capability] = {
    Capability(major, minor): Capability(*ptx)
    for major, versions in {  # of the minors, from 0 on
        11: ((7, 0), (7, 1), (7, 2), (7, 3), (7, 4), (7, 5), (7, 6), (7, 7), (7, 8)),
        12: ((8, 0), (8, 1), (8, 2), (8, 3), (8, 4), (8, 5), (8, 5), (8, 6), (8, 7), (8, 8)),
        13: ((9, 0), (9, 1), (9, 2), (9, 3), (9, 4), (9, 5)),
    }.items()
    for minor, ptx in enumerate(versions)
}

# The oldest CUDA version whose compiler, and driver, supports a GPU, from release notes and the PTX
# manual. For 10.7 only "after 12.9" is certain.
FIRST_CUDA: Mapping[Capability, Capability] = {
    Capability(8, 6): Capability(11, 1),
    Capability(8, 7): Capability(11, 4),
    Capability(8, 9): Capability(11, 8),
    Capability(9, 0): Capability(11, 8),
    Capability(10, 0): Capability(12, 8),
    Capability(10, 1): Capability(12, 8),
    Capability(12, 0): Capability(12, 8),
    Capability(10, 3): Capability(12, 9),
    Capability(12, 1): Capability(12, 9),
    Capability(10, 7): Capability(13, 0),
    Capability(11, 0): Capability(13, 0),
}
FIRST_CUDA_OF_OTHERS = Capability(11, 0)

# P-92: oldest driver release by CUDA major: Linux, Windows.
DRIVER_FLOOR: Mapping[int, tuple[str, str]] = {
    11: ("450.80.02", "452.39"),
    12: ("525.60.13", "528.33"),
    13: ("580", "580"),
}

# P-95: oldest capability each toolkit major compiles for.
CUDA_CODE_FLOOR: Mapping[int, Capability] = {
    11: Capability(3, 5),
    12: Capability(5, 0),
    13: Capability(7, 5),
}

# P-94: CUDA version of each branch of drivers; a user-mode driver with a newer one is from a
# compatibility package.
CUDA_OF_BRANCH: Mapping[int, Capability] = {
    450: Capability(11, 0),
    455: Capability(11, 1),
    460: Capability(11, 2),
    465: Capability(11, 3),
    470: Capability(11, 4),
    495: Capability(11, 5),
    510: Capability(11, 6),
    515: Capability(11, 7),
    520: Capability(11, 8),
    525: Capability(12, 0),
    530: Capability(12, 1),
    535: Capability(12, 2),
    545: Capability(12, 3),
    550: Capability(12, 4),
    555: Capability(12, 5),
    560: Capability(12, 6),
    565: Capability(12, 7),
    570: Capability(12, 8),
    575: Capability(12, 9),
    580: Capability(13, 0),
    590: Capability(13, 1),
    595: Capability(13, 2),
    610: Capability(13, 3),
    615: Capability(13, 4),
}

# The number in a SONAME is not always that of the toolkit: ``libcufft.so.11`` belongs to CUDA 12.
_SAME_NUMBER: Mapping[int, int | None] = {11: 11, 12: 12, 13: 13}

# The CUDA major, by the name without "lib", then by the first number of the SONAME; None: several
# majors have that SONAME.
MAJOR_OF_SONAME: Mapping[str, Mapping[int, int | None]] = {
    "cudart": _SAME_NUMBER,
    "nvrtc": _SAME_NUMBER,
    "nvjitlink": _SAME_NUMBER,
    "cublas": _SAME_NUMBER,
    "cublaslt": _SAME_NUMBER,
    "nvblas": _SAME_NUMBER,
    "nvjpeg": _SAME_NUMBER,
    "cupti": _SAME_NUMBER,
    "cufft": {10: 11, 11: 12, 12: 13},
    "cufftw": {10: 11, 11: 12, 12: 13},
    "cusolver": {11: None, 12: 13},
    "cusolvermg": {11: None, 12: 13},
    "cusparse": {11: 11, 12: None},
}

# Libraries with the same SONAME for several CUDA majors, of which a process can load only one.
SAME_SONAME: frozenset[str] = frozenset(
    {
        "cudnn",
        "cufile",
        "curand",
        "cusparselt",
        "cutensor",
        "nccl",
        "nvinfer",
        "nvshmem_host",
        "nvtx3interop",
    }
)

# --- the reference plugin's vocabulary -----------------------------------------------------

OLDEST_CUDA = record.OLDEST_CUDA
NEWEST_CUDA = Capability(*record.NEWEST_CUDA)
# P-82: below this capability there is no sm_arch.
OLDEST_CAPABILITY = Capability(5, 0)
# P-82: the newest capability; for every major, the plugin lists the minors from 0 to its minor.
NEWEST_CAPABILITY = Capability(12, 9)
