"""Detect AMD's GPUs and ROCm (P-120 to P-126)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.features import (
    Detection,
    Evidence,
    FeatureConfig,
    Status,
    values_by_device,
)
from wheelfit_runtime.platforms.probes import pci_devices
from wheelfit_runtime.platforms.provider import BuiltInProvider, answer
from wheelfit_runtime.platforms.providers.amd import probes, tables
from wheelfit_runtime.platforms.providers.amd.probes import AmdDriver, AmdGpu
from wheelfit_runtime.platforms.providers.amd.record import FAMILY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit_runtime.platforms.system_view import SystemView


NAMESPACE = "amd"

_GFX = "gfx_arch"
_ROCM = "rocm_version"
_ORDER = (_GFX, _ROCM)

_FORCE_GFX = "AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH"
_FORCE_ROCM = "AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION"
_BOOTSTRAP_GFX = "ROCM_BOOTSTRAP_FORCE_GFX_ARCH"
_BOOTSTRAP_OFF = "ROCM_BOOTSTRAP_DISABLE_DETECTION"
_OVERRIDE_GFX = "HSA_OVERRIDE_GFX_VERSION"
_OWN_GFX = "WHEELFIT_OVERRIDE_AMD_GFX_ARCH"
_OWN_ROCM = "WHEELFIT_OVERRIDE_AMD_ROCM_VERSION"

_DXG = "/dev/dxg"

# Compiled when they are needed, since most machines have no AMD GPU.
_GFX_VALUE = r"gfx[1-9][0-9]?[0-9a-f]{2}"
_ROCM_VALUE = r"[0-9]{1,4}\.[0-9]{1,4}"
_FORCED_ROCM = r"([0-9]{1,4})\.([0-9]{1,4})(?:\.[0-9]{1,9})?"


def _find(view: SystemView, overridden: Mapping[str, tuple[str, ...]]) -> Detection:
    amd_overrides = _read_overrides(view.environ)
    if amd_overrides.is_off:
        return answer(NAMESPACE, evidence=amd_overrides.evidence)._replace(status=Status.DISABLED)
    if _GFX in overridden:
        # Treated as names of AMD's variable, so that the replaced GPUs cause no warnings.
        amd_overrides = amd_overrides._replace(names=overridden[_GFX])
    # If all values are overridden, detection has nothing to add.
    is_known = overridden.keys() == set(_ORDER) or amd_overrides.is_complete
    driver = amd_overrides.apply_to(AmdDriver() if is_known else read(view))
    detection = supported(driver, same_major=view.rocm_same_major, reference=view.reference)
    hints = _hints(driver, view, overridden.keys() | ({_GFX} if amd_overrides.names else set()))
    return detection._replace(
        warnings=(*detection.warnings, *hints),
        devices=() if amd_overrides.names else detection.devices,  # overrides are for all GPUs
    )


def supported(driver: AmdDriver, *, same_major: bool = False, reference: bool = False) -> Detection:
    """Return the architectures of the GPUs, and the versions of ROCm that count as installed.

    :param same_major: whether older minors of the same major count as installed too (P-123).
    :param reference: whether to answer exactly as amd-variant-provider: names sorted as text, none
        if one of them is not in its list, and only the installed version (P-43).
    """
    usable = [gpu for gpu in driver.gpus if not gpu.problem]
    ordered = sorted(usable, key=lambda gpu: (gpu.integrated, gpu.node))  # P-122
    devices = values_by_device(_GFX, ((gpu, [gpu.name]) for gpu in ordered))
    names = tuple(dict.fromkeys(gpu.name for gpu in ordered))
    if reference:
        names = tuple(sorted(names)) if set(names) <= set(tables.PUBLISHED_GFX) else ()
    versions = _rocm_values(driver.rocm_version, same_major and not reference)
    configs = (FeatureConfig(_GFX, names, multi_value=True), FeatureConfig(_ROCM, versions))
    return answer(
        NAMESPACE,
        configs,
        broken=driver.broken,
        evidence=driver.evidence,
        warnings=driver.warnings if reference else (*driver.warnings, *_warnings(driver, ordered)),
        devices=() if reference else devices,
    )


def _rocm_values(version: tuple[int, int] | None, same_major: bool) -> tuple[str, ...]:  # noqa: FBT001
    """Return the installed version, and on request the older ones of its major (P-123)."""
    if version is None:
        return ()
    major, minor = version
    oldest = 0 if same_major else minor
    return tuple(f"{major}.{number}" for number in range(minor, oldest - 1, -1))


def _warnings(driver: AmdDriver, usable: Sequence[AmdGpu]) -> tuple[str, ...]:
    """Return the warnings about unusable GPUs, and about GPUs that limit others."""
    warnings = [driver.problem] if driver.problem else []
    if driver.gpus and not usable:
        warnings += [f"{gpu} cannot be used: {gpu.problem}" for gpu in driver.gpus[:1]]
        count = len(driver.gpus) - 1
        if count:
            warnings[-1] += f"; likewise {count} more"
    discrete = [gpu for gpu in usable if not gpu.integrated]
    limiting = [gpu for gpu in usable if gpu.integrated and gpu.name != usable[0].name]
    if discrete and limiting:
        warnings.append(
            f"the machine has {limiting[0]} and {discrete[0]}: a wheel must run on both, "
            f"unless --devices highest chooses for {discrete[0].name} alone"
        )
    return tuple(warnings)


def read(view: SystemView) -> AmdDriver:
    """Read files, and run AMD's tools if the files lack facts (P-124, P-125)."""
    topology = probes.KfdTopology()
    if view.system == "Linux":
        topology = probes.parse_kfd(probes.read_kfd(view))
    driver = AmdDriver(topology.gpus, evidence=topology.evidence)
    if not topology.is_listed:
        driver = _ask_tools(view, driver)
        if not driver.gpus and view.system == "Linux":
            driver = _without_driver(view, driver)
    driver = _with_release(driver, view)
    if not driver.evidence:
        driver = driver._replace(evidence=(Evidence("files", "no sign of an AMD GPU or ROCm"),))
    return driver


def _without_driver(view: SystemView, driver: AmdDriver) -> AmdDriver:
    """Return the driver with evidence of GPUs on the bus that cannot compute."""
    devices = [
        device
        for device in pci_devices.of(view, FAMILY.pci_vendor)
        if device.base_class in (pci_devices.DISPLAY, pci_devices.ACCELERATOR)
    ]
    evidence = tuple(
        Evidence(
            f"{pci_devices.FOLDER}/{device.address}",
            f"AMD GPU {device.device:04x}, driver {device.driver or 'none'}",
        )
        for device in devices
    )
    driver = driver._replace(evidence=(*driver.evidence, *evidence))
    # GPUs with other drivers are too old to compute, or belong to a virtual machine.
    idle = [device for device in devices if device.driver in ("", "amdgpu")]
    if not idle or driver.problem:
        return driver
    fault = "does not support computing (KFD)" if idle[0].driver else "is not loaded"
    problem = f"there is an AMD GPU at {idle[0].address}, and its driver amdgpu {fault}"
    return driver._replace(problem=problem)


def _with_release(driver: AmdDriver, view: SystemView) -> AmdDriver:
    """Return the driver with the version of ROCm, from the first file that has one."""
    for path, text in probes.read_release(view):
        evidence = Evidence(path, text)
        driver = driver._replace(evidence=(*driver.evidence, evidence))
        version = probes.parse_release(text)
        if version is not None:
            return driver._replace(rocm_version=version)
    return driver


def _ask_tools(view: SystemView, driver: AmdDriver) -> AmdDriver:
    """Run the tools where the kernel may not list all GPUs: on Windows and WSL."""
    signs = ("/sys/module/amdgpu", probes.KFD_DEVICE, _DXG)
    is_linux_with_sign = view.system == "Linux" and any(map(view.exists, signs))
    if view.system != "Windows" and not is_linux_with_sign:
        return driver
    answers = probes.ask_tools(view, probes.rocm_folders(view))
    if not answers:
        return driver
    # Imported only for machines with signs of a GPU.
    from wheelfit_runtime.platforms.probes import child_answers

    failures = {tool.name: child_answers.tool_failure(tool.answer) for tool in answers}
    gpus: tuple[AmdGpu, ...] = ()
    evidence = list(driver.evidence)
    for tool in answers:  # only the last one may have GPUs
        gpus = probes.gpus_of_tool(tool)
        names = ", ".join(gpu.name for gpu in gpus) or "no GPU"
        evidence.append(Evidence(tool.name, failures[tool.name] or names))
    driver = driver._replace(gpus=gpus, evidence=tuple(evidence))
    problem = "; ".join(f"{name} {failure}" for name, failure in failures.items() if failure)
    if gpus or not problem:
        return driver
    return driver._replace(problem=problem, broken=child_answers.is_broken(answers[-1].answer))


class _Overrides(NamedTuple):
    """The values of AMD's variables, which replace detected ones."""

    is_off: bool = False
    names: tuple[str, ...] = ()
    version: tuple[int, int] | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def is_complete(self) -> bool:
        return bool(self.names) and self.version is not None

    def apply_to(self, driver: AmdDriver) -> AmdDriver:
        """Return a detected driver with the values replaced."""
        if self.names:
            gpus = tuple(AmdGpu(number, name) for number, name in enumerate(self.names))
            driver = driver._replace(gpus=gpus, problem="", broken=False)
        if self.version is not None:
            driver = driver._replace(rocm_version=self.version)
        return driver._replace(evidence=(*self.evidence, *driver.evidence))


def _read_overrides(environ: Mapping[str, str]) -> _Overrides:
    """Read AMD's variables (P-126)."""
    if text := overrides.value_of(environ, _BOOTSTRAP_OFF):
        if text == "1":
            return _Overrides(is_off=True, evidence=(Evidence(_BOOTSTRAP_OFF, text),))
        if text != "0":
            raise overrides.invalid_override(_BOOTSTRAP_OFF, text, "it must be 1 or 0")
    result = _Overrides()
    for variable, separators in ((_FORCE_GFX, r"[,;\s]+"), (_BOOTSTRAP_GFX, r"\s*,\s*")):
        text = overrides.value_of(environ, variable)
        if text and not result.names:
            names = tuple(_overridden_names(variable, text, separators))
            result = _Overrides(names=names, evidence=(Evidence(variable, text),))
    if text := overrides.value_of(environ, _FORCE_ROCM):
        match = re.fullmatch(_FORCED_ROCM, text)
        if match is None:
            raise overrides.invalid_override(_FORCE_ROCM, text, "it must be a version as 7.0.0")
        evidence = Evidence(_FORCE_ROCM, text)
        version = (int(match[1]), int(match[2]))
        result = result._replace(version=version, evidence=(*result.evidence, evidence))
    return result


def _overridden_names(variable: str, text: str, separators: str) -> Sequence[str]:
    names = [tables.PACKAGE_OWNERS.get(name, name) for name in re.split(separators, text) if name]
    for name in names:
        if not re.fullmatch(_GFX_VALUE, name):
            raise overrides.invalid_override(variable, text, f"{name!r} is not a name as gfx942")
    if not names:
        raise overrides.invalid_override(variable, text, "it must be names as gfx942")
    return list(dict.fromkeys(names))


def _hints(driver: AmdDriver, view: SystemView, overridden: set[str]) -> tuple[str, ...]:
    """Return hints for the user about missing facts and permissions."""
    if all(gpu.problem for gpu in driver.gpus):
        return ()
    hints = []
    if driver.rocm_version is None and _ROCM not in overridden:
        hints.append(
            f"no installed ROCm was found, so wheels that need a {_ROCM} are not compatible; "
            f"set {_OWN_ROCM} to choose one"
        )
    if _GFX in overridden:
        return tuple(hints)
    if view.exists(probes.KFD_DEVICE) and not view.may_open(probes.KFD_DEVICE):
        hints.append(
            f"you may not open {probes.KFD_DEVICE}, so your programs cannot use the GPU; become a "
            "member of the group render"
        )
    override = overrides.value_of(view.environ, _OVERRIDE_GFX)
    if override:
        hints.append(
            f"{_OVERRIDE_GFX}={override} changes what programs see, but not the choice of wheels; "
            f"set {_OWN_GFX} for that"
        )
    return tuple(hints)


PROVIDER = BuiltInProvider(
    NAMESPACE,
    tables.DATA_VERSION,
    _find,
    {
        _GFX: lambda value: re.fullmatch(_GFX_VALUE, value),
        _ROCM: lambda value: re.fullmatch(_ROCM_VALUE, value),
    },
    multi_value=(_GFX,),
    overrides=lambda view: _read_overrides(view.environ).evidence,
)
