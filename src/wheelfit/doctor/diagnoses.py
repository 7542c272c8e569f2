"""Everything that ``doctor`` can find, in four areas; the reference lists the same."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.checking.checks import BROKEN_BY_DEPENDENCY, UNSUPPORTED_HERE
from wheelfit.checking.findings import Check, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping


class Area(StrEnum):
    """Say what a finding is about; causes come before consequences."""

    MACHINE = "machine"
    """Hardware, drivers, the interpreter, and whether they could be looked at."""
    SETTINGS = "settings"
    """Environment variables, tools and toolkits."""
    PACKAGES = "packages"
    """What is installed."""
    PROCESS = "process"
    """A running process."""


_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

# --- machine -----------------------------------------------------------------------------

DETECTION_FAILED = Check(
    "detection-failed",
    "P-17",
    _ERROR,
    "a driver or tool could not be asked, so nothing of its namespace counts as supported",
    "read the evidence (wheelfit doctor -v) and repair the driver; until then an override or "
    "--for says what the machine supports",
)
OVERRIDE_UNREADABLE = Check(
    "override-unreadable",
    "P-73",
    _ERROR,
    "a variable that replaces detection cannot be understood, so its provider is switched off",
    "correct the variable, or unset it",
)
DRIVER_MISSING = Check(
    "driver-missing",
    "P-96",
    _WARNING,
    "an NVIDIA GPU is there and no driver for it",
    "install NVIDIA's driver and restart the machine",
)
DRIVER_UNREACHABLE = Check(
    "driver-unreachable",
    "P-99",
    _WARNING,
    "an NVIDIA driver is loaded, and its libraries are not to be found from here",
    "in a container: start it through the NVIDIA Container Toolkit (docker run --gpus all) with "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility; else install the driver's libraries",
)
DRIVER_VERSIONS_DIFFER = Check(
    "driver-versions-differ",
    "P-94",
    _WARNING,
    "the driver's libraries are older than its kernel module",
    "restart the machine after a driver update; in a container remove the libraries of its image, "
    "which hide those of the host",
)
FORWARD_COMPATIBLE = Check(
    "forward-compatibility",
    "P-94",
    _NOTE,
    "the driver's libraries are newer than its kernel module, as with NVIDIA's cuda-compat; that "
    "works with data-centre GPUs, some RTX GPUs and Jetson only",
    "nothing if it is meant so; on error 803 or 804 remove cuda-compat, or update the driver",
)
DETECTION_WARNING = Check(
    "detection-warning",
    "P-21",
    _WARNING,
    "detection says something that may not be what you expect",
    "if that hardware is to be used, remove the cause that is named; wheelfit doctor -v shows the "
    "evidence",
)
TRANSLATED = Check(
    "translated-interpreter",
    "P-106",
    _WARNING,
    "this Python runs translated for another kind of processor",
    "install a Python made for arm64, and make the environment anew with it",
)
NARROW_INTERPRETER = Check(
    "narrow-interpreter",
    "P-104",
    _WARNING,
    "a 32-bit Python runs on a 64-bit system, and few wheels are made for it",
    "install a 64-bit Python, and make the environment anew with it",
)

# --- settings ----------------------------------------------------------------------------

ENVIRONMENT_UNUSABLE = Check(
    "environment-unusable",
    "",
    _ERROR,
    "the active virtual environment cannot be used, so another one was looked at",
    "deactivate it and make it anew: python -m venv FOLDER",
)
OVERRIDE_IN_EFFECT = Check(
    "override-in-effect",
    "P-73",
    _WARNING,
    "a variable replaces what would be detected",
    "unset it unless that is what you want",
)
OVERRIDE_CONCERNS_NOBODY = Check(
    "override-concerns-nobody",
    "P-73",
    _WARNING,
    "a variable looks like an override, and no provider reads it",
    "correct its name: WHEELFIT_OVERRIDE_{NAMESPACE}_{FEATURE}",
)
MASK_HIDES_ALL = Check(
    "mask-hides-all",
    "P-89",
    _WARNING,
    "a mask hides every device from programs, though not from the installer",
    "unset the variable, or name devices in it",
)
MASK_STOPS_EARLY = Check(
    "mask-stops-early",
    "P-89",
    _WARNING,
    "a mask names a device that does not exist; programs do not see that one nor any after it",
    "name only devices that exist, from 0 on",
)
STRAY_TOOL = Check(
    "stray-tool",
    "P-98",
    _WARNING,
    "a vendor's tool is on PATH, and the driver that it belongs to is not there",
    "uninstall what brought it; some tools take its presence for a GPU",
)
FOREIGN_TOOL = Check(
    "foreign-tool",
    "P-98",
    _WARNING,
    "nvidia-smi on PATH is of another driver release than the driver",
    "remove the one that does not come with the driver; what it says may be wrong",
)
STUB_LIBRARY = Check(
    "stub-library",
    "P-98",
    _ERROR,
    "the loader's path leads to stub libraries, which only serve to link programs",
    "remove the folder from the variable: with stubs no GPU is ever found",
)
LIBRARY_PATH_HIDES = Check(
    "library-path-hides",
    "P-92",
    _WARNING,
    "a library on the loader's path may be taken instead of the one that is installed here",
    "unset the variable, or take the folder out of it: wheels find their libraries without it",
)
PATH_ENTRY_MISSING = Check(
    "path-entry-missing",
    "",
    _NOTE,
    "a variable names a file or folder that does not exist",
    "take it out of the variable",
)
PRELOADED = Check(
    "preloaded",
    "",
    _NOTE,
    "a library is loaded into every program before its own",
    "unset the variable when something crashes, and try again",
)
PYTHONPATH_HIDES = Check(
    "pythonpath-hides",
    "",
    _WARNING,
    "a module on PYTHONPATH is imported instead of one that is installed",
    "unset PYTHONPATH, or take the folder out of it",
)
PYTHONHOME_SET = Check(
    "pythonhome-set",
    "",
    _WARNING,
    "PYTHONHOME makes every Python take its standard library from one place",
    "unset it: virtual environments and other versions break with it",
)
PIP_ELSEWHERE = Check(
    "pip-elsewhere",
    "",
    _NOTE,
    "pip on PATH does not install into the environment that was looked at",
    "activate the environment, or say python -m pip with its own Python",
)
SEVERAL_TOOLKITS = Check(
    "toolkits-differ",
    "",
    _NOTE,
    "the variables and PATH name different CUDA toolkits",
    "let CUDA_HOME and PATH name one; it matters when something is compiled, not for wheels",
)
OPENMP_CHECK_OFF = Check(
    "openmp-check-off",
    "",
    _WARNING,
    "KMP_DUPLICATE_LIB_OK silences the check for several OpenMP runtimes; crashes and wrong "
    "results may follow",
    "unset it, and remove one of the runtimes (see mixed-openmp)",
)

# --- packages ----------------------------------------------------------------------------

WRONG_PLATFORM = Check(
    "wrong-platform",
    "PEP 425",
    _ERROR,
    "packages are installed that were built for another Python or system",
    "install them again: the builds that fit are chosen",
)
OWN_REQUIREMENT_UNMET = Check(
    "own-requirement-unmet",
    "",
    _ERROR,
    "a package that wheelfit itself depends on is missing, damaged or of an unsuitable version",
    "install what is needed with wheelfit doctor --repair",
)
DRIVER_TOO_OLD = Check(
    "driver-too-old",
    "P-92",
    _ERROR,
    "packages need a CUDA major that the driver does not run",
    "update the driver, or install the builds for an older CUDA",
)
GPU_TOO_OLD = Check(
    "gpu-too-old",
    "P-95",
    _ERROR,
    "packages were made with a CUDA that makes no code for this GPU any more",
    "install the builds for the CUDA major before",
)
MIXED_CUDA = Check(
    "mixed-cuda",
    "P-92",
    _WARNING,
    "packages for several CUDA majors are installed",
    "install all of them for one CUDA major",
)
MIXED_ROCM = Check(
    "mixed-rocm",
    "P-123",
    _WARNING,
    "packages for several ROCm versions are installed",
    "install all of them for one ROCm version",
)
MIXED_VARIANTS = Check(
    "mixed-variants",
    "",
    _WARNING,
    "variants are installed that do not agree on what all of an environment must agree on",
    "install all of them for the same",
)
MIXED_OPENMP = Check(
    "mixed-openmp",
    "P-160",
    _WARNING,
    "OpenMP runtimes of several makers are installed; together in one process they may hang, "
    "crash or slow each other down",
    "take all packages from one source, or set the number of threads of one of them to 1",
)
SEVERAL_BLAS = Check(
    "several-blas",
    "P-160",
    _NOTE,
    "linear algebra libraries of several makers are installed; each brings its own threads",
    "if the processors are overloaded, set OMP_NUM_THREADS, or use threadpoolctl",
)
IDLE_HARDWARE = Check(
    "idle-hardware",
    "",
    _WARNING,
    "a build without GPU support is installed on a machine with a GPU",
    "install it again: the build that fits is chosen",
)
IDLE_BUILD = Check(
    "idle-build",
    "",
    _WARNING,
    "builds for a GPU are installed on a machine that cannot use them",
    "if the GPU is not to come, install the builds for the CPU: they are much smaller",
)
NEWER_THAN_DRIVER = Check(
    "newer-than-driver",
    "P-91",
    _NOTE,
    "packages were made with a newer CUDA of the same major than the driver has; code that is "
    "compiled on the machine may be refused (error 222)",
    "update the driver if something fails with that error",
)
SHARED_FILE = Check(
    "shared-file",
    "PEP 376",
    _WARNING,
    "two packages own one file with different content; the one installed last won",
    "uninstall both, and install only the one that is needed",
)
LOST_FILE = Check(
    "lost-file",
    "PEP 376",
    _ERROR,
    "files of a package are missing",
    "install it again",
)
CHANGED_FILE = Check(
    "changed-file",
    "PEP 376",
    _WARNING,
    "files of a package are not as they were installed",
    "install it again, unless you changed them on purpose",
)
DUPLICATE = Check(
    "duplicate-package",
    "PEP 376",
    _ERROR,
    "one package is recorded as installed twice",
    "uninstall it until nothing of it is left, and install it again",
)
INTERRUPTED = Check(
    "interrupted-installation",
    "",
    _WARNING,
    "an installation is running, or did not come to its end",
    "wheelfit recover; what pip left goes when it is run again",
)
UNREADABLE = Check(
    "unreadable-package",
    "PEP 376",
    _WARNING,
    "records or files of a package cannot be read",
    "install it again, or let its owner allow this user to read it",
)
UNMET = Check(
    "unmet-requirement",
    "",
    _WARNING,
    "a package needs another one that is missing or has the wrong version",
    "install what it needs",
)
UNASKED = Check(
    "unasked-variant",
    "P-17",
    _WARNING,
    "whether a variant still fits could not be found out",
    "see what wheelfit probe says of its namespace",
)

# --- process -----------------------------------------------------------------------------

SAME_SONAME = Check(
    "same-soname",
    "P-92",
    _ERROR,
    "two different libraries of one name are loaded; who asks for it by name gets the first",
    "remove one of the packages, or load both from one place",
)
SEVERAL_MAJORS = Check(
    "several-majors",
    "P-92",
    _WARNING,
    "libraries of several CUDA majors are loaded; that works as long as every program was linked "
    "with its own",
    "install all packages for one CUDA major",
)
SEVERAL_OPENMP = Check(
    "several-openmp",
    "P-160",
    _WARNING,
    "OpenMP runtimes of several makers are loaded; they may hang, crash or slow each other down",
    "take all packages from one source, or set the number of threads of one of them to 1",
)
SECOND_COPY = Check(
    "second-copy",
    "P-92",
    _NOTE,
    "one library is loaded twice from different files with the same content; each has a state of "
    "its own",
    "let one package bring it",
)
DELETED_LIBRARY = Check(
    "deleted-library",
    "",
    _WARNING,
    "a library was replaced or removed while the process runs",
    "restart the process",
)
STUB_LOADED = Check(
    "stub-loaded",
    "P-98",
    _ERROR,
    "a stub library is loaded, which only serves to link programs; no GPU is ever found with it",
    "take the folder with stubs out of LD_LIBRARY_PATH, and restart the process",
)
FOREIGN_LIBRARY = Check(
    "foreign-library",
    "P-92",
    _WARNING,
    "a library was loaded from elsewhere, though an installed package has it",
    "unset LD_LIBRARY_PATH and LD_PRELOAD, and restart the process",
)
PROCESS_DRIVER_TOO_OLD = Check(
    "runtime-too-new",
    "P-92",
    _ERROR,
    "the loaded CUDA runtime needs a newer driver than the one that is loaded",
    "update the driver, or install the builds for an older CUDA",
)
NOT_LOOKED = Check(
    "process-unreadable",
    "",
    _ERROR,
    "the process could not be looked at",
    "name a process of your own, or ask as its user",
)

# -----------------------------------------------------------------------------------------

AREAS: Mapping[Area, tuple[Check, ...]] = MappingProxyType(
    {
        Area.MACHINE: (
            DETECTION_FAILED,
            OVERRIDE_UNREADABLE,
            DRIVER_MISSING,
            DRIVER_UNREACHABLE,
            DRIVER_VERSIONS_DIFFER,
            FORWARD_COMPATIBLE,
            DETECTION_WARNING,
            TRANSLATED,
            NARROW_INTERPRETER,
        ),
        Area.SETTINGS: (
            ENVIRONMENT_UNUSABLE,
            OVERRIDE_IN_EFFECT,
            OVERRIDE_CONCERNS_NOBODY,
            MASK_HIDES_ALL,
            MASK_STOPS_EARLY,
            STRAY_TOOL,
            FOREIGN_TOOL,
            STUB_LIBRARY,
            LIBRARY_PATH_HIDES,
            PATH_ENTRY_MISSING,
            PRELOADED,
            PYTHONPATH_HIDES,
            PYTHONHOME_SET,
            PIP_ELSEWHERE,
            SEVERAL_TOOLKITS,
            OPENMP_CHECK_OFF,
        ),
        Area.PACKAGES: (
            OWN_REQUIREMENT_UNMET,
            UNSUPPORTED_HERE,
            BROKEN_BY_DEPENDENCY,
            WRONG_PLATFORM,
            DRIVER_TOO_OLD,
            GPU_TOO_OLD,
            MIXED_CUDA,
            MIXED_ROCM,
            MIXED_VARIANTS,
            MIXED_OPENMP,
            SEVERAL_BLAS,
            IDLE_HARDWARE,
            IDLE_BUILD,
            NEWER_THAN_DRIVER,
            SHARED_FILE,
            LOST_FILE,
            CHANGED_FILE,
            DUPLICATE,
            INTERRUPTED,
            UNREADABLE,
            UNMET,
            UNASKED,
        ),
        Area.PROCESS: (
            SAME_SONAME,
            SEVERAL_MAJORS,
            SEVERAL_OPENMP,
            SECOND_COPY,
            DELETED_LIBRARY,
            STUB_LOADED,
            FOREIGN_LIBRARY,
            PROCESS_DRIVER_TOO_OLD,
            NOT_LOOKED,
        ),
    }
)
"""What is looked for, by area."""

DIAGNOSES: Mapping[str, Area] = MappingProxyType(
    {check.code: area for area, checks in AREAS.items() for check in checks}
)
"""The area of each code."""
