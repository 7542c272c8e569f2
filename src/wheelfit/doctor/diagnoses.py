"""The kinds of findings of ``doctor``, in four areas; docs/reference/doctor.md lists them."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.checking.findings import CheckTable

if TYPE_CHECKING:
    from collections.abc import Mapping


class Area(StrEnum):
    """The area of a finding; causes come before consequences."""

    MACHINE = "machine"
    """Hardware, drivers, the interpreter, and failures to detect them."""
    SETTINGS = "settings"
    """Environment variables, tools and toolkits."""
    PACKAGES = "packages"
    """Installed packages."""
    PROCESS = "process"
    """A running process."""


AREAS: Mapping[Area, CheckTable] = MappingProxyType({area: CheckTable() for area in Area})
"""The diagnoses, by area."""

# A table: code and rule, meaning, remedy.
# fmt: off

# --- machine -----------------------------------------------------------------------------

_machine = AREAS[Area.MACHINE]
DETECTION_FAILED = _machine.error("detection-failed", "P-17",
    "a driver or tool did not answer, so its namespace counts as unsupported",
    "read the evidence (`wheelfit doctor -v`) and repair the driver; until then state what the "
    "machine supports with an override or --for")
OVERRIDE_UNREADABLE = _machine.error("override-unreadable", "P-73",
    "a variable that replaces detection cannot be understood, so its provider is switched off",
    "correct the variable, or unset it")
DRIVER_MISSING = _machine.warning("driver-missing", "P-96",
    "the machine has an NVIDIA GPU, but no driver for it",
    "install NVIDIA's driver and restart the machine")
DRIVER_UNREACHABLE = _machine.warning("driver-unreachable", "P-99",
    "an NVIDIA driver is loaded, but its libraries cannot be found",
    "in a container: start it through the NVIDIA Container Toolkit (docker run --gpus all) with "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility; else install the driver's libraries")
DRIVER_VERSIONS_DIFFER = _machine.warning("driver-versions-differ", "P-94",
    "the driver's libraries are older than its kernel module",
    "restart the machine after a driver update; in a container remove the libraries of its image, "
    "which hide those of the host")
FORWARD_COMPATIBLE = _machine.note("forward-compatibility", "P-94",
    "the driver's libraries are newer than its kernel module, as with NVIDIA's cuda-compat; that "
    "works with data-centre GPUs, some RTX GPUs and Jetson only",
    "no action is needed if that is intended; on error 803 or 804 remove cuda-compat, or update "
    "the driver")
DETECTION_WARNING = _machine.warning("detection-warning", "P-21",
    "detection reports something unusual about the hardware or its driver",
    "if you use this hardware, fix the cause; `wheelfit doctor -v` shows the evidence")
TRANSLATED = _machine.warning("translated-interpreter", "P-106",
    "this Python runs translated for another kind of processor",
    "install a Python built for arm64, and create the environment again with it")
NARROW_INTERPRETER = _machine.warning("narrow-interpreter", "P-104",
    "a 32-bit Python runs on a 64-bit system, and few wheels are made for it",
    "install a 64-bit Python, and create the environment again with it")

# --- settings ----------------------------------------------------------------------------

_settings = AREAS[Area.SETTINGS]
ENVIRONMENT_UNUSABLE = _settings.error("environment-unusable", "",
    "the active virtual environment cannot be used, so another one was examined",
    "deactivate it and create it again: python -m venv FOLDER")
OVERRIDE_IN_EFFECT = _settings.warning("override-in-effect", "P-73",
    "a variable replaces a detected value",
    "unset it unless that is intended")
OVERRIDE_WITHOUT_PROVIDER = _settings.warning("override-without-provider", "P-73",
    "a variable looks like an override, but no provider reads it",
    "correct its name: WHEELFIT_OVERRIDE_{NAMESPACE}_{FEATURE}")
MASK_HIDES_ALL = _settings.warning("mask-hides-all", "P-89",
    "a variable such as CUDA_VISIBLE_DEVICES hides every device from programs, though not from the "
    "installer",
    "unset the variable, or name devices in it")
MASK_STOPS_EARLY = _settings.warning("mask-stops-early", "P-89",
    "a variable such as CUDA_VISIBLE_DEVICES names a device that does not exist; programs do not "
    "see that one nor any after it",
    "name only devices that exist, from 0 on")
STRAY_TOOL = _settings.warning("stray-tool", "P-98",
    "a vendor's tool is on PATH, but the driver that it belongs to is missing",
    "uninstall the package that it belongs to: some programs conclude from it that there is a GPU")
FOREIGN_TOOL = _settings.warning("foreign-tool", "P-98",
    "nvidia-smi on PATH belongs to another release than the driver",
    "remove the one that does not come with the driver; its output may be wrong")
STUB_LIBRARY = _settings.error("stub-library", "P-98",
    "the loader's path leads to stub libraries, which only serve to link programs",
    "remove the folder from the variable: with stubs no GPU is ever found")
LIBRARY_PATH_HIDES = _settings.warning("library-path-hides", "P-92",
    "a library on the loader's path may be taken instead of the one that is installed here",
    "unset the variable, or remove the folder from it: wheels find their libraries without it")
PATH_ENTRY_MISSING = _settings.note("path-entry-missing", "",
    "a variable names a folder that does not exist",
    "remove it from the variable")
SEVERAL_TOOLKITS = _settings.note("toolkits-differ", "",
    "the variables and PATH name different CUDA toolkits",
    "make CUDA_HOME and PATH name the same; it matters for compiling, not for wheels")

# --- packages ----------------------------------------------------------------------------

_packages = AREAS[Area.PACKAGES]
OWN_REQUIREMENT_UNMET = _packages.error("own-requirement-unmet", "",
    "a package that wheelfit itself depends on is missing, damaged or of an unsuitable version",
    "install what is needed with `wheelfit doctor --repair`")
UNSUPPORTED_HERE = _packages.error("unsupported-here", "F-96",
    "an installed variant is no longer supported by this machine",
    "replace it by the build that fits: `wheelfit install --refit`")
BROKEN_BY_DEPENDENCY = _packages.error("broken-by-dependency", "P-56",
    "an installed variant was built for another version of an installed package",
    "replace it with `wheelfit install --refit`, or install the version that it was built for")
WRONG_PLATFORM = _packages.error("wrong-platform", "PEP 425",
    "packages are installed that were built for another Python or system",
    "install them again: the builds that fit are chosen")
DRIVER_TOO_OLD = _packages.error("driver-too-old", "P-92",
    "packages need a CUDA major that the driver does not run",
    "update the driver, or install the builds for an older CUDA")
GPU_TOO_OLD = _packages.error("gpu-too-old", "P-95",
    "packages were built with a CUDA that no longer supports this GPU",
    "install the builds for the previous CUDA major")
MIXED_CUDA = _packages.warning("mixed-cuda", "P-92",
    "packages for several CUDA majors are installed",
    "install all of them for one CUDA major")
MIXED_ROCM = _packages.warning("mixed-rocm", "P-123",
    "packages for several ROCm versions are installed",
    "install all of them for one ROCm version")
MIXED_VARIANTS = _packages.warning("mixed-variants", "",
    "installed variants disagree about a value that must be the same in an environment",
    "install builds for one value")
MIXED_OPENMP = _packages.warning("mixed-openmp", "P-160",
    "OpenMP runtimes of several makers are installed; together in one process they may hang, "
    "crash or slow each other down",
    "take all packages from one source, or set the number of threads of one of them to 1")
SEVERAL_BLAS = _packages.note("several-blas", "P-160",
    "linear algebra libraries of several makers are installed; each brings its own threads",
    "if the processors are overloaded, set OMP_NUM_THREADS, or use threadpoolctl")
IDLE_HARDWARE = _packages.warning("idle-hardware", "",
    "a build without GPU support is installed on a machine with a GPU",
    "install it again: the build that fits is chosen")
IDLE_BUILD = _packages.warning("idle-build", "",
    "builds for a GPU are installed on a machine that cannot use them",
    "if there will be no GPU, install the builds for the CPU: they are much smaller")
NEWER_THAN_DRIVER = _packages.note("newer-than-driver", "P-91",
    "packages were built with a newer minor version of CUDA than the driver supports; code that "
    "is compiled on the machine may be refused (error 222)",
    "update the driver if something fails with that error")
SHARED_FILE = _packages.warning("shared-file", "PEP 376",
    "two packages own one file with different content; the one installed last wrote it",
    "uninstall both, and install only the one that is needed")
LOST_FILE = _packages.error("lost-file", "PEP 376",
    "files of a package are missing",
    "install it again")
CHANGED_FILE = _packages.warning("changed-file", "PEP 376",
    "files of a package are not as they were installed",
    "install it again, unless you changed them on purpose")
DUPLICATE = _packages.error("duplicate-package", "PEP 376",
    "one package is recorded as installed twice",
    "uninstall it until nothing of it is left, and install it again")
INTERRUPTED = _packages.warning("interrupted-installation", "",
    "an installation is running, or was interrupted",
    "`wheelfit recover`; pip removes its own leftovers when it runs again")
UNREADABLE = _packages.warning("unreadable-package", "PEP 376",
    "records or files of a package cannot be read",
    "install it again, or give this user the permission to read it")
UNMET = _packages.warning("unmet-requirement", "",
    "a package requires another one that is missing or has the wrong version",
    "install the missing requirement")
UNCHECKED_VARIANT = _packages.warning("unchecked-variant", "P-17",
    "whether a variant still fits could not be checked",
    "run `wheelfit probe`, and read the part about its namespace")

# --- process -----------------------------------------------------------------------------

_process = AREAS[Area.PROCESS]
SAME_SONAME = _process.error("same-soname", "P-92",
    "two different libraries with one SONAME are loaded; programs that need it get the first",
    "remove one of the packages, or load both from one place")
SEVERAL_MAJORS = _process.warning("several-majors", "P-92",
    "libraries of several CUDA majors are loaded; that works as long as every program was linked "
    "with its own",
    "install all packages for one CUDA major")
SEVERAL_OPENMP = _process.warning("several-openmp", "P-160",
    "OpenMP runtimes of several makers are loaded; they may hang, crash or slow each other down",
    "take all packages from one source, or set the number of threads of one of them to 1")
SECOND_COPY = _process.note("second-copy", "P-92",
    "one library is loaded twice from different files with the same content; each has its "
    "own state",
    "keep it in one package only")
DELETED_LIBRARY = _process.warning("deleted-library", "",
    "a library was replaced or removed while the process runs",
    "restart the process")
STUB_LOADED = _process.error("stub-loaded", "P-98",
    "a stub library is loaded, which only serves to link programs; no GPU is ever found with it",
    "remove the folder with stubs from LD_LIBRARY_PATH, and restart the process")
FOREIGN_LIBRARY = _process.warning("foreign-library", "P-92",
    "a library was loaded from elsewhere, though an installed package has it",
    "unset LD_LIBRARY_PATH and LD_PRELOAD, and restart the process")
RUNTIME_TOO_NEW = _process.error("runtime-too-new", "P-92",
    "the loaded CUDA runtime needs a newer driver than the one that is loaded",
    "update the driver, or install the builds for an older CUDA")
PROCESS_UNREADABLE = _process.error("process-unreadable", "",
    "the process could not be examined",
    "name a process of your own, or run the command as its user")

# -----------------------------------------------------------------------------------------

DIAGNOSES: Mapping[str, Area] = MappingProxyType(
    {code: area for area, table in AREAS.items() for code in table}
)
"""The area of each code."""
