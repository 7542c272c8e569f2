"""The support of the machine for this process, and the libraries already loaded.

An installation depends on the machine, a choice at run time on the process: a mask may hide GPUs,
and loaded libraries cannot be replaced. CUDA is never initialised here, because a process with CUDA
cannot be forked (P-72). So this process queries only the version of the driver; a child process
queries the devices if they are needed, or if the library of the driver exists without a kernel
module.
"""
# Paths are those of the machine, as in `wheelfit_runtime.platforms.system_view`.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit_runtime.loader.driver import MASK, driver_cuda_version, hides_all
from wheelfit_runtime.loader.planning import LoadedValue
from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.accelerator_libraries import MPI_OF_SONAME, identify
from wheelfit_runtime.platforms.cache import CachedProcesses
from wheelfit_runtime.platforms.cache_folder import cache_folder_of, unsafe_cache_folder
from wheelfit_runtime.platforms.child_processes import RealProcesses
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Detection, DeviceValues
from wheelfit_runtime.platforms.probes import mapped_libraries
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability, NvidiaDriver
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from wheelfit_runtime.platforms.probes.mapped_libraries import MappedFile
    from wheelfit_runtime.platforms.providers.nvidia.facts import NvidiaFiles, NvidiaGpu
    from wheelfit_runtime.platforms.providers.nvidia.kernel import KernelGpu

    _Gpu = TypeVar("_Gpu", NvidiaGpu, KernelGpu)

_NVIDIA = "nvidia"
_LOWER_BOUND = "cuda_version_lower_bound"
_DEVICE_ORDER = "CUDA_DEVICE_ORDER"
_INDEX = re.compile(r"[0-9]{1,4}")
# A library that a wheel contains under a unique name, so its symbols do not affect others.
_PRIVATE_BLAS = re.compile(r"libscipy_openblas|.*-[0-9a-f]{8}\.")
_MPI = re.compile(r"lib(mpi|mpich)\.so\.([0-9]+)")


@dataclass(frozen=True, slots=True)
class Process:
    """The facts about this process and its machine."""

    detections: Mapping[str, Detection]
    """The detections of the machine, by requested namespace."""
    loaded_values: tuple[LoadedValue, ...] = ()
    """The values, such as CUDA 12, to which loaded libraries bind the process."""


def detect(namespaces: Iterable[str], view: SystemView, *, devices: bool = False) -> Process:
    """Return the support of the machine for some namespaces, and the loaded libraries.

    :param namespaces: the namespaces to detect; those without a provider are left out.
    :param devices: whether facts about single NVIDIA GPUs are needed.
    """
    machine = Machine(view)
    detections: dict[str, Detection] = {}
    for namespace in namespaces:
        if namespace == _NVIDIA:
            detections[namespace] = _detect_nvidia(view, devices=devices)
        elif (detection := machine.detect(namespace)) is not None:
            detections[namespace] = detection
    return Process(detections, loaded_values(mapped_libraries.read(view, None).files))


def process_view(environ: Mapping[str, str]) -> SystemView:
    """Return a view of this machine, with cached answers of child processes.

    Conda's overrides describe the machine to install for, not this one, and are left out.
    """
    variables = {
        name: text for name, text in environ.items() if not name.startswith(overrides.CONDA_PREFIX)
    }
    view = SystemView(environ=variables)

    def cache_folder() -> str | None:
        folder = cache_folder_of(environ)
        return None if unsafe_cache_folder(folder) else os.path.join(folder, "probes")

    processes = CachedProcesses(RealProcesses(), cache_folder, view)
    return SystemView(environ=view.environ, processes=processes)


def _detect_nvidia(view: SystemView, *, devices: bool) -> Detection:
    from wheelfit_runtime.platforms.providers.nvidia import provider

    drivers: list[NvidiaDriver] = []  # the driver, once it was queried

    def query(view: SystemView) -> NvidiaDriver:
        drivers.append(query_driver(view, devices=devices))
        return drivers[0]

    try:
        detection = provider.provider_with(query).detect(view)
        if not drivers or provider.PROVIDER.overrides_in_effect(view):
            return detection  # an override applies to all GPUs
        return detection._replace(
            devices=(
                *detection.devices,
                *_usable_bounds(detection, drivers[0], view),
            )
        )
    except Exception as error:  # noqa: BLE001  # P-17: every fault is in the result
        problem = f"detection of nvidia failed: {type(error).__name__}: {error}"
        return provider.supported(NvidiaDriver(problem=problem, broken=True))


def _usable_bounds(
    detection: Detection, driver: NvidiaDriver, view: SystemView
) -> Iterator[DeviceValues]:
    """Yield the lower bounds of the CUDA majors with code for a GPU, as one entry (P-95).

    If every major has code for one of them, nothing is yielded.

    :param driver: with GPUs if they were requested; else the ids of the kernel's GPUs are used.
    """
    from wheelfit_runtime.platforms.providers.nvidia import cuda_values
    from wheelfit_runtime.platforms.providers.nvidia import kernel as nvidia_kernel

    if driver.gpus:
        gpus = [(str(gpu), _unusable_majors(gpu)) for gpu in driver.gpus]
    else:
        kernel_gpus = nvidia_kernel.gpus(view.read_text, view.children, view.exists)
        mask, order = view.environ.get(MASK), view.environ.get(_DEVICE_ORDER, "")
        gpus = [
            (str(gpu), _unusable_majors_by_id(gpu))
            for gpu in visible_gpus(kernel_gpus, mask, order)
        ]
    unusable_majors = set.intersection(*(majors for _, majors in gpus)) if gpus else set()
    bounds = detection.values_of(_LOWER_BOUND)
    if unusable_majors and bounds:
        first_unusable = min(unusable_majors)  # later majors drop further GPUs
        yield DeviceValues(
            _LOWER_BOUND,
            ", ".join(dict.fromkeys(name for name, _ in gpus)),
            # Also bounds above the driver's: these GPUs would support them with a newer driver.
            frozenset(
                value
                for value in (*bounds, *cuda_values.every_bound())
                if int(value.partition(".")[0]) < first_unusable
            ),
        )


def _unusable_majors(gpu: NvidiaGpu) -> set[int]:
    """Return the CUDA majors without code for a GPU, by its compute capability."""
    from wheelfit_runtime.platforms.providers.nvidia.tables import CUDA_CODE_FLOOR

    return {major for major, floor in CUDA_CODE_FLOOR.items() if gpu.capability < floor}


def _unusable_majors_by_id(gpu: KernelGpu) -> set[int]:
    """Return the CUDA majors without code for a GPU, by its id on the PCI bus; none if unknown."""
    from wheelfit_runtime.platforms.providers.nvidia.kernel import FIRST_DEVICE

    return {major for major, first in FIRST_DEVICE.items() if gpu.device and gpu.device < first}


def query_driver(view: SystemView, *, devices: bool = False) -> NvidiaDriver:
    """Return the driver's facts for this process, without initialising it here."""
    from wheelfit_runtime.platforms.providers.nvidia import files as nvidia_files
    from wheelfit_runtime.platforms.providers.nvidia import provider

    mask = view.environ.get(MASK)
    files = nvidia_files.parse(nvidia_files.read(view))
    if not files.has_signs and not view.library_folders:
        return NvidiaDriver(problem="there is no sign of an NVIDIA GPU or driver here")
    if mask is not None and hides_all(mask):
        return NvidiaDriver(problem=f"{MASK}={mask} hides every GPU from this process")
    if devices or not files.has_driver:
        # Images for many machines have the library without a kernel module.
        driver = provider.read(view)
        gpus = visible_gpus(driver.gpus, mask, view.environ.get(_DEVICE_ORDER, ""))
        if driver.gpus and not gpus:
            return NvidiaDriver(problem=f"{MASK}={mask} names no GPU of this machine")
        if not files.has_driver and view.system != "Windows":
            driver = driver._replace(broken=False)  # without a kernel module, it is absent
        return driver._replace(gpus=gpus)
    return _version_only(view, files)


def _version_only(view: SystemView, files: NvidiaFiles) -> NvidiaDriver:
    from wheelfit_runtime.platforms.providers.nvidia import library as nvidia_library

    cuda = driver_cuda_version(nvidia_library.candidates(view, files).cuda)
    if cuda is None:
        return nvidia_library.without_libraries(files)
    return NvidiaDriver(cuda_version=Capability(*cuda), driver_version=files.kernel_version)


def visible_gpus(gpus: Sequence[_Gpu], mask: str | None, order: str) -> tuple[_Gpu, ...]:
    """Return the GPUs that a mask leaves to a process; all, if that is uncertain.

    The mask ends at the first entry that does not name exactly one GPU.

    :param gpus: all of the machine, in the order of their PCI addresses.
    :param mask: ``CUDA_VISIBLE_DEVICES``; None: unset.
    :param order: ``CUDA_DEVICE_ORDER``; empty: unset.
    """
    if mask is None:
        return tuple(gpus)
    are_alike = len({gpu.kind for gpu in gpus}) < 2
    chosen: list[_Gpu] = []
    for entry in (word.strip() for word in mask.split(",")):
        if entry.startswith("MIG-"):
            return tuple(gpus)  # its GPU is unknown
        if _INDEX.fullmatch(entry):
            if not are_alike and order != "PCI_BUS_ID":
                return tuple(gpus)  # CUDA numbers the fastest GPU first, and that one is unknown
            matching = [gpu for gpu in gpus if gpu.index == int(entry)]
        else:
            matching = [gpu for gpu in gpus if entry and gpu.uuid.startswith(entry)]
        if len(matching) != 1:
            break
        chosen += matching
    return tuple(dict.fromkeys(chosen))


def loaded_values(files: Iterable[MappedFile]) -> tuple[LoadedValue, ...]:
    """Return the values of shared dimensions by the names of loaded libraries."""
    loaded: dict[tuple[str, str], LoadedValue] = {}
    for file in files:
        for dimension, value in _shared_values(file.name):
            reason = f"{file.path} is loaded"
            loaded.setdefault((dimension, value), LoadedValue(dimension, value, reason))
    return tuple(loaded.values())


def _shared_values(name: str) -> Iterator[tuple[str, str]]:
    if match := _MPI.match(name):
        family = MPI_OF_SONAME.get((match[1], match[2]))
        if family is not None:
            yield "mpi", family
        return
    library = identify(name)
    if library is None:
        return
    if library.cuda_major is not None:
        yield "cuda", str(library.cuda_major)
    elif library.family == "rocm" and library.stem == "amdhip64" and library.number:
        yield "rocm", library.number.partition(".")[0]
    elif library.family == "openmp" or (library.family == "blas" and not _PRIVATE_BLAS.match(name)):
        yield library.family, library.kind
