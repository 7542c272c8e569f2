"""Detect which CUDA versions and which GPU code this machine supports (P-80 to P-99).

Reachable as a PEP 850 plugin: ``wheelfit_runtime.platforms.providers.nvidia.provider:PROVIDER``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.features import (
    Evidence,
    FeatureConfig,
    Status,
    values_by_device,
)
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

_NO_DEVICES = ("", "none", "void")  # words of the NVIDIA Container Toolkit
_BOUND_LIMIT = 1024  # P-86

_FORCED_DRIVER = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.[0-9]{1,9})?")
_FORCED_SM = re.compile(r"([0-9]{1,3})\.([0-9])")
_BOUND = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_SM_VALUE = re.compile(r"[0-9]{2,}[af]?_(?:real|virtual)")


def supported(driver: NvidiaDriver, *, reference: bool = False) -> Detection:
    """Return the bounds and the GPU code that driver and devices support.

    :param reference: answer exactly as the reference plugin does: no appended
        values, only the highest device, nothing for drivers it does not know (P-43).
    """
    warnings = (*driver.warnings, driver.problem) if driver.problem else driver.warnings
    nothing = answer(NAMESPACE, broken=driver.broken, evidence=driver.evidence, warnings=warnings)
    version = driver.cuda_version
    if version is None:
        return nothing
    if version.major < tables.OLDEST_CUDA:  # P-84
        words = f"the NVIDIA driver's CUDA version {version} is too old; 11.0 is the oldest"
        return nothing._replace(warnings=(*driver.warnings, words))
    if cuda_values.bound_count(version) > _BOUND_LIMIT:  # P-86
        words = f"the CUDA driver version {version} is not credible"
        return nothing._replace(status=Status.FAILED, warnings=(*driver.warnings, words))
    if reference and not cuda_values.is_known_to_reference(version):
        return nothing
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
        return tuple(value for c in highest for value in cuda_values.reference_sm_values(c))
    values = (value for capability in capabilities for value in _all_values(capability))
    return tuple(dict.fromkeys(values))


def _all_values(capability: Capability) -> tuple[str, ...]:
    return (
        *cuda_values.reference_sm_values(capability),
        *cuda_values.appended_sm_values(capability),
    )


def read(view: SystemView) -> NvidiaDriver:
    """Read files, and query the driver only if they give reason to (P-96 to P-98)."""
    files = nvidia_files.parse(nvidia_files.read(view))
    if not files.has_signs and not view.library_folders:
        return NvidiaDriver(evidence=(Evidence("files", "no sign of an NVIDIA GPU or driver"),))
    # What child processes need takes longer to import than the rest of the provider,
    # and most machines never come here.
    from wheelfit_runtime.platforms.providers.nvidia import library as nvidia_library

    libraries = nvidia_library.candidates(view, files)
    if libraries:
        answer = nvidia_library.read(view, libraries)
        driver = nvidia_library.parse(answer, files, view.deadline)
    else:
        driver = nvidia_library.without_libraries(files)
    compatibility = _compatibility_package(driver, files)
    if compatibility and libraries.cuda:
        # NVML does not know whether the GPU can do with it; libcuda does.
        only_cuda = replace(libraries, nvml=())
        answer = nvidia_library.read(view, only_cuda, "nvidia libcuda")
        proof = nvidia_library.parse(answer, files, view.deadline)
        if proof.broken:
            driver = proof._replace(evidence=(*driver.evidence, *proof.evidence))
    # An installed tool does not prove a driver: without one in the kernel it is not run (P-98).
    may_ask = files.has_driver or view.system == "Windows"
    is_unknown = driver.cuda_version is None and driver.driver_version is None
    if may_ask and is_unknown and not driver.broken:
        texts = nvidia_library.ask_smi(view)
        told = nvidia_library.parse_smi(*texts) if texts else None
        driver = told._replace(evidence=driver.evidence + told.evidence) if told else driver
    evidence = [*files.evidence, *compatibility, *_masks(view.environ, driver)]
    if files.kernel_version and driver.driver_version not in (None, files.kernel_version):
        words = f"kernel module {files.kernel_version}, library {driver.driver_version}"  # P-94
        evidence.append(Evidence("driver versions", words))
    if driver.problem and view.environ.get("NVIDIA_VISIBLE_DEVICES") in _NO_DEVICES:
        words = "NVIDIA_VISIBLE_DEVICES keeps the GPUs out of this container"
        driver = driver._replace(problem=f"{driver.problem}; {words}")
    warnings = (*driver.warnings, *_tegra_warnings(driver, files))
    return driver._replace(evidence=(*evidence, *driver.evidence), warnings=warnings)


def _compatibility_package(driver: NvidiaDriver, files: NvidiaFiles) -> tuple[Evidence, ...]:
    """Return evidence of a user-mode driver newer than the kernel's (P-94)."""
    release = files.kernel_version
    if release is None or driver.cuda_version is None:
        return ()
    brought = tables.CUDA_OF_BRANCH.get(int(release.partition(".")[0]))
    if brought is None or driver.cuda_version <= brought:
        return ()
    words = (
        f"CUDA {driver.cuda_version} on kernel module {release}, which brings CUDA {brought}: "
        "a compatibility package; the user-mode driver counts"
    )
    return (Evidence("forward compatibility", words),)


def _masks(environ: Mapping[str, str], driver: NvidiaDriver) -> tuple[Evidence, ...]:
    """Return evidence of variables that hide devices from processes (P-89)."""
    masks = []
    mask = environ.get("CUDA_VISIBLE_DEVICES")
    if mask is not None:
        words = f"{mask!r} is ignored: the machine is described, not a process"
        masks.append(Evidence("CUDA_VISIBLE_DEVICES", words))
    given = environ.get("NVIDIA_VISIBLE_DEVICES")
    if given in _NO_DEVICES and driver.cuda_version is None:
        masks.append(Evidence("NVIDIA_VISIBLE_DEVICES", f"{given!r}: none for this container"))
    return tuple(masks)


def _tegra_warnings(driver: NvidiaDriver, files: NvidiaFiles) -> tuple[str, ...]:
    """Return warnings about machine code on boards with a built-in GPU (P-90)."""
    boards = [gpu for gpu in driver.gpus if gpu.capability in tables.TEGRA]
    if not boards or not files.jetson:
        return ()
    words = f"{boards[0]} is part of a Jetson: machine code made for other GPUs may not run on it"
    return (f"{words}, though sm_arch cannot tell them apart; PTX does",)


@dataclass(frozen=True, slots=True)
class _Forced:
    """The values that NVIDIA's and conda's variables replace."""

    version: Capability | None
    capability: Capability | None
    evidence: tuple[Evidence, ...]
    """The variables."""
    no_driver: bool = False
    no_gpu: bool = False

    @property
    def is_complete(self) -> bool:
        is_gpu_known = self.capability is not None or self.no_gpu
        return self.no_driver or (self.version is not None and is_gpu_known)

    def applied_to(self, driver: NvidiaDriver) -> NvidiaDriver:
        """Return the driver as the user wants it to look."""
        seen = tuple(map(overrides.shown_override, self.evidence))
        if self.no_driver:
            return NvidiaDriver(evidence=seen)
        if self.no_gpu:
            driver = driver._replace(gpus=())
        if self.version is not None:
            # With the version forced, only what is known of devices still counts.
            driver = driver._replace(cuda_version=self.version, broken=False)
        if self.capability is not None:
            # Without a driver a device alone supports nothing.
            driver = driver._replace(gpus=(NvidiaGpu(0, "", self.capability),))
        return driver._replace(evidence=(*seen, *driver.evidence))


def _read_forced(environ: Mapping[str, str]) -> _Forced:
    """Read NVIDIA's variables, and conda's where NVIDIA's are not set (P-85, CEP 46)."""
    of_driver = _stated(environ, _FORCE_DRIVER, overrides.CONDA_CUDA)
    of_gpu = _stated(environ, _FORCE_SM, overrides.CONDA_CUDA_ARCH)
    return _Forced(
        _forced_version(of_driver) if of_driver else None,
        _forced_capability(of_gpu) if of_gpu else None,
        tuple(filter(None, (of_driver, of_gpu))),
        no_driver=of_driver is not None and not of_driver.value,
        no_gpu=of_gpu is not None and not of_gpu.value,
    )


def _forced_version(said: Evidence) -> Capability | None:
    if not said.value:
        return None
    match = _FORCED_DRIVER.fullmatch(said.value)
    if match is None:
        raise overrides.invalid_override(*said, "a version as 12.8 is wanted")
    version = Capability(int(match[1]), int(match[2] or 0))
    if cuda_values.bound_count(version) > _BOUND_LIMIT:
        raise overrides.invalid_override(*said, "the version is not credible")
    return version


def _forced_capability(said: Evidence) -> Capability | None:
    if not said.value:
        return None
    match = _FORCED_SM.fullmatch(said.value)
    if match is None:
        raise overrides.invalid_override(*said, "a capability as 9.0 is wanted")
    return Capability(int(match[1]), int(match[2]))


def _stated(environ: Mapping[str, str], vendors: str, condas: str) -> Evidence | None:
    """Return the variable that replaces a fact: NVIDIA's, or else conda's, which may be empty."""
    text = overrides.value_of(environ, vendors)
    if text is not None:
        return Evidence(vendors, text)
    text = overrides.conda_override(environ, condas)
    return None if text is None else Evidence(condas, text)


def _hints(environ: Mapping[str, str]) -> tuple[str, ...]:
    if overrides.value_of(environ, _OBSOLETE) is None:
        return ()
    return (f"{_OBSOLETE} is obsolete and ignored; use {_FORCE_DRIVER}",)


def provider_with(look: Callable[[SystemView], NvidiaDriver]) -> BuiltInProvider:
    """Return the provider that looks at the driver in a given way, as `read` does."""

    def find(view: SystemView, own: Mapping[str, tuple[str, ...]]) -> Detection:
        forced = _read_forced(view.environ)
        # Where all values are given, no detected one would count.
        is_known = own.keys() == set(_ORDER) or forced.is_complete
        driver = NvidiaDriver() if is_known else look(view)
        detection = supported(forced.applied_to(driver), reference=view.reference)
        return detection._replace(warnings=(*detection.warnings, *_hints(view.environ)))

    return BuiltInProvider(
        NAMESPACE,
        tables.DATA_VERSION,
        find,
        {_LOWER: _BOUND.fullmatch, _UPPER: _BOUND.fullmatch, _SM: _SM_VALUE.fullmatch},
        multi_value=(_SM,),
        others=lambda view: _read_forced(view.environ).evidence,
    )


PROVIDER = provider_with(read)
