"""Detect the CUDA versions of the driver, and the code that the GPUs run (P-80 to P-99)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.features import Evidence, FeatureConfig, Status, values_by_device
from wheelfit_runtime.platforms.provider import BuiltInProvider, answer
from wheelfit_runtime.platforms.providers.nvidia import cuda_values, tables
from wheelfit_runtime.platforms.providers.nvidia import files as nvidia_files
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability, NvidiaDriver, NvidiaGpu

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit_runtime.platforms.features import Detection
    from wheelfit_runtime.platforms.providers.nvidia.facts import NvidiaFiles
    from wheelfit_runtime.platforms.system_view import SystemView

NAMESPACE = "nvidia"

_LOWER = "cuda_version_lower_bound"
_UPPER = "cuda_version_upper_bound"
_SM = "sm_arch"
_ORDER = (_LOWER, _UPPER, _SM)

_FORCE_DRIVER = "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION"
_FORCE_SM = "NV_VARIANT_PROVIDER_FORCE_SM_ARCH"
_OBSOLETE = "NV_PROVIDER_FORCE_DRIVER_VERSION"

_NO_DEVICES = ("", "none", "void")  # values that the NVIDIA Container Toolkit defines
_BOUND_LIMIT = 1024  # P-86

_FORCED_DRIVER = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.[0-9]{1,9})?")
_FORCED_SM = re.compile(r"([0-9]{1,3})\.([0-9])")
_BOUND = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_SM_VALUE = re.compile(r"[0-9]{2,}[af]?_(?:real|virtual)")


def supported(driver: NvidiaDriver, *, reference: bool = False) -> Detection:
    """Return the CUDA version bounds and GPU architectures that driver and devices support.

    :param reference: whether to return exactly what the reference plugin does: no appended
        values, only the highest device, nothing for unknown drivers (P-43).
    """
    warnings = (*driver.warnings, driver.problem) if driver.problem else driver.warnings
    unsupported = answer(
        NAMESPACE, broken=driver.broken, evidence=driver.evidence, warnings=warnings
    )
    version = driver.cuda_version
    if version is None:
        return unsupported
    if version.major < tables.OLDEST_CUDA:  # P-84
        warning = f"the NVIDIA driver's CUDA version {version} is too old; 11.0 is the oldest"
        return unsupported._replace(warnings=(*driver.warnings, warning))
    if cuda_values.bound_count(version) > _BOUND_LIMIT:  # P-86
        warning = f"the CUDA driver version {version} is not credible"
        return unsupported._replace(status=Status.FAILED, warnings=(*driver.warnings, warning))
    if reference and not cuda_values.is_known_to_reference(version):
        return unsupported
    ordered = sorted(driver.gpus, key=lambda gpu: gpu.capability, reverse=True)  # P-88
    devices = values_by_device(_SM, ((gpu, _all_values(gpu.capability)) for gpu in ordered))
    features = (
        FeatureConfig(_LOWER, cuda_values.lower_bounds(version)),
        FeatureConfig(_UPPER, cuda_values.upper_bounds(version)),
        FeatureConfig(_SM, _sm_values(driver.gpus, reference=reference), multi_value=True),
    )
    return answer(
        NAMESPACE,
        features,
        evidence=driver.evidence,
        warnings=driver.warnings,
        devices=() if reference else devices,
    )


def _sm_values(gpus: Sequence[NvidiaGpu], *, reference: bool) -> tuple[str, ...]:
    """Return the values of the highest device, then those of the others (P-87, P-88)."""
    capabilities = sorted({gpu.capability for gpu in gpus}, reverse=True)
    if reference:
        highest = capabilities[:1]
        return tuple(
            value for capability in highest for value in cuda_values.reference_sm_values(capability)
        )
    values = (value for capability in capabilities for value in _all_values(capability))
    return tuple(dict.fromkeys(values))


def _all_values(capability: Capability) -> tuple[str, ...]:
    return (
        *cuda_values.reference_sm_values(capability),
        *cuda_values.appended_sm_values(capability),
    )


def read(view: SystemView) -> NvidiaDriver:
    """Read files, and query the driver if they show that there is one (P-96 to P-98)."""
    files = nvidia_files.parse(nvidia_files.read(view))
    if not files.has_signs and not view.library_folders:
        return NvidiaDriver(evidence=(Evidence("files", "no sign of an NVIDIA GPU or driver"),))
    # Imported only for machines with signs of a driver.
    from wheelfit_runtime.platforms.providers.nvidia import library as nvidia_library

    libraries = nvidia_library.candidates(view, files)
    if libraries:
        library_answer = nvidia_library.read(view, libraries)
        driver = nvidia_library.parse(library_answer, files, view.deadline)
    else:
        driver = nvidia_library.without_libraries(files)
    compatibility = _compatibility_package(driver, files)
    if compatibility and libraries.cuda:
        # libcuda shows whether it supports the GPU; NVML does not.
        only_cuda = replace(libraries, nvml=())
        library_answer = nvidia_library.read(view, only_cuda, "nvidia libcuda")
        cuda_driver = nvidia_library.parse(library_answer, files, view.deadline)
        if cuda_driver.broken:
            driver = cuda_driver._replace(evidence=(*driver.evidence, *cuda_driver.evidence))
    # Without a kernel module nvidia-smi is not run (P-98).
    may_run_smi = files.has_driver or view.system == "Windows"
    is_unknown = driver.cuda_version is None and driver.driver_version is None
    if may_run_smi and is_unknown and not driver.broken:
        texts = nvidia_library.ask_smi(view)
        smi_driver = nvidia_library.parse_smi(*texts) if texts else None
        if smi_driver is not None:
            driver = smi_driver._replace(evidence=driver.evidence + smi_driver.evidence)
    evidence = [*files.evidence, *compatibility, *_masks(view.environ, driver)]
    if files.kernel_version and driver.driver_version not in (None, files.kernel_version):
        note = f"kernel module {files.kernel_version}, library {driver.driver_version}"  # P-94
        evidence.append(Evidence("driver versions", note))
    if driver.problem and view.environ.get("NVIDIA_VISIBLE_DEVICES") in _NO_DEVICES:
        note = "NVIDIA_VISIBLE_DEVICES hides the GPUs from this container"
        driver = driver._replace(problem=f"{driver.problem}; {note}")
    warnings = (*driver.warnings, *_tegra_warnings(driver, files))
    return driver._replace(evidence=(*evidence, *driver.evidence), warnings=warnings)


def _compatibility_package(driver: NvidiaDriver, files: NvidiaFiles) -> tuple[Evidence, ...]:
    """Return evidence of a user-mode driver newer than the kernel's (P-94)."""
    release = files.kernel_version
    if release is None or driver.cuda_version is None:
        return ()
    kernel_cuda = tables.CUDA_OF_BRANCH.get(int(release.partition(".")[0]))
    if kernel_cuda is None or driver.cuda_version <= kernel_cuda:
        return ()
    text = (
        f"CUDA {driver.cuda_version} on kernel module {release}, which has CUDA {kernel_cuda}: "
        "a compatibility package; the user-mode driver counts"
    )
    return (Evidence("forward compatibility", text),)


def _masks(environ: Mapping[str, str], driver: NvidiaDriver) -> tuple[Evidence, ...]:
    """Return evidence of variables that hide devices from processes (P-89)."""
    masks = []
    mask = environ.get("CUDA_VISIBLE_DEVICES")
    if mask is not None:
        text = f"{mask!r} is ignored: the whole machine is detected, not one process"
        masks.append(Evidence("CUDA_VISIBLE_DEVICES", text))
    devices = environ.get("NVIDIA_VISIBLE_DEVICES")
    if devices in _NO_DEVICES and driver.cuda_version is None:
        masks.append(Evidence("NVIDIA_VISIBLE_DEVICES", f"{devices!r}: none for this container"))
    return tuple(masks)


def _tegra_warnings(driver: NvidiaDriver, files: NvidiaFiles) -> tuple[str, ...]:
    """Return warnings about machine code on boards with a built-in GPU (P-90)."""
    boards = [gpu for gpu in driver.gpus if gpu.capability in tables.TEGRA]
    if not boards or not files.jetson:
        return ()
    start = f"{boards[0]} is part of a Jetson: machine code made for other GPUs may not run on it"
    return (f"{start}, although its sm_arch is the same; PTX runs",)


@dataclass(frozen=True, slots=True)
class _Overrides:
    """The values of NVIDIA's and conda's variables, which replace detected ones."""

    version: Capability | None
    capability: Capability | None
    evidence: tuple[Evidence, ...]
    """The variables that are set."""
    no_driver: bool = False
    no_gpu: bool = False

    @property
    def is_complete(self) -> bool:
        is_gpu_known = self.capability is not None or self.no_gpu
        return self.no_driver or (self.version is not None and is_gpu_known)

    def apply_to(self, driver: NvidiaDriver) -> NvidiaDriver:
        """Return a detected driver with the values replaced."""
        evidence = tuple(map(overrides.shown_override, self.evidence))
        if self.no_driver:
            return NvidiaDriver(evidence=evidence)
        if self.no_gpu:
            driver = driver._replace(gpus=())
        if self.version is not None:
            # A known version makes a failure irrelevant.
            driver = driver._replace(cuda_version=self.version, broken=False)
        if self.capability is not None:
            # This GPU has no effect without the version of a driver.
            driver = driver._replace(gpus=(NvidiaGpu(0, "", self.capability),))
        return driver._replace(evidence=(*evidence, *driver.evidence))


def _read_overrides(environ: Mapping[str, str]) -> _Overrides:
    """Read NVIDIA's variables, and conda's where NVIDIA's are not set (P-85, CEP 46)."""
    driver = _override_variable(environ, _FORCE_DRIVER, overrides.CONDA_CUDA)
    gpu = _override_variable(environ, _FORCE_SM, overrides.CONDA_CUDA_ARCH)
    return _Overrides(
        _overridden_version(driver) if driver and driver.value else None,
        _overridden_capability(gpu) if gpu and gpu.value else None,
        tuple(filter(None, (driver, gpu))),
        no_driver=driver is not None and not driver.value,
        no_gpu=gpu is not None and not gpu.value,
    )


def _overridden_version(variable: Evidence) -> Capability:
    match = _FORCED_DRIVER.fullmatch(variable.value)
    if match is None:
        raise overrides.invalid_override(*variable, "it must be a version as 12.8")
    version = Capability(int(match[1]), int(match[2] or 0))
    if cuda_values.bound_count(version) > _BOUND_LIMIT:
        raise overrides.invalid_override(*variable, "the version is not credible")
    return version


def _overridden_capability(variable: Evidence) -> Capability:
    match = _FORCED_SM.fullmatch(variable.value)
    if match is None:
        raise overrides.invalid_override(*variable, "it must be a capability as 9.0")
    return Capability(int(match[1]), int(match[2]))


def _override_variable(
    environ: Mapping[str, str], vendor_name: str, conda_name: str
) -> Evidence | None:
    """Return NVIDIA's variable if it is set, else conda's; the value may be empty."""
    text = overrides.value_of(environ, vendor_name)
    if text is not None:
        return Evidence(vendor_name, text)
    text = overrides.conda_override(environ, conda_name)
    return None if text is None else Evidence(conda_name, text)


def _hints(environ: Mapping[str, str]) -> tuple[str, ...]:
    if overrides.value_of(environ, _OBSOLETE) is None:
        return ()
    return (f"{_OBSOLETE} is obsolete and ignored; use {_FORCE_DRIVER}",)


def provider_with(read_driver: Callable[[SystemView], NvidiaDriver]) -> BuiltInProvider:
    """Return the provider with a function that reads the driver, as `read`."""

    def find(view: SystemView, overridden: Mapping[str, tuple[str, ...]]) -> Detection:
        values = _read_overrides(view.environ)
        # If all values are overridden, detection has nothing to add.
        is_known = overridden.keys() == set(_ORDER) or values.is_complete
        driver = NvidiaDriver() if is_known else read_driver(view)
        detection = supported(values.apply_to(driver), reference=view.reference)
        return detection._replace(warnings=(*detection.warnings, *_hints(view.environ)))

    return BuiltInProvider(
        NAMESPACE,
        tables.DATA_VERSION,
        find,
        {_LOWER: _BOUND.fullmatch, _UPPER: _BOUND.fullmatch, _SM: _SM_VALUE.fullmatch},
        multi_value=(_SM,),
        overrides=lambda view: _read_overrides(view.environ).evidence,
    )


PROVIDER = provider_with(read)
