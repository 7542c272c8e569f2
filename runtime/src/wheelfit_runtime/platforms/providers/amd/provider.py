"""Detect which AMD GPUs and which ROCm this machine has (P-120 to P-126).

Reachable as a PEP 850 plugin: ``wheelfit_runtime.platforms.providers.amd.provider:PROVIDER``.
"""

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
_DISGUISE = "HSA_OVERRIDE_GFX_VERSION"
_OWN_GFX = "WHEELFIT_OVERRIDE_AMD_GFX_ARCH"
_OWN_ROCM = "WHEELFIT_OVERRIDE_AMD_ROCM_VERSION"

_DXG = "/dev/dxg"

# Compiled where they are needed: most machines have nothing to match.
_GFX_VALUE = r"gfx[1-9][0-9]?[0-9a-f]{2}"
_ROCM_VALUE = r"[0-9]{1,4}\.[0-9]{1,4}"
_FORCED_ROCM = r"([0-9]{1,4})\.([0-9]{1,4})(?:\.[0-9]{1,9})?"


def _find(view: SystemView, own: Mapping[str, tuple[str, ...]]) -> Detection:
    forced = _read_forced(view.environ)
    if forced.off:
        return answer(NAMESPACE, evidence=forced.evidence)._replace(status=Status.DISABLED)
    if _GFX in own:  # then no warning about other GPUs is of use
        forced = forced._replace(names=own[_GFX])
    # Where all values are given, no detected one would count.
    is_known = own.keys() == set(_ORDER) or forced.is_complete
    driver = forced.applied_to(AmdDriver() if is_known else read(view))
    detection = supported(driver, same_major=view.rocm_same_major, reference=view.reference)
    hints = _hints(driver, view, own.keys() | ({_GFX} if forced.names else set()))
    return detection._replace(
        warnings=(*detection.warnings, *hints),
        devices=() if forced.names else detection.devices,  # the user spoke for all of them
    )


def supported(driver: AmdDriver, *, same_major: bool = False, reference: bool = False) -> Detection:
    """Return the code that the GPUs run, and the versions of ROCm that count as installed.

    :param same_major: count older minors of the same major as installed too (P-123).
    :param reference: answer exactly as amd-variant-provider does: names sorted as text,
        none at all if it does not know one, and only the installed version (P-43).
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
    """Return the installed version, and if wanted the older ones of its major (P-123)."""
    if version is None:
        return ()
    major, minor = version
    oldest = 0 if same_major else minor
    return tuple(f"{major}.{number}" for number in range(minor, oldest - 1, -1))


def _warnings(driver: AmdDriver, usable: Sequence[AmdGpu]) -> tuple[str, ...]:
    """Return the warnings about present GPUs that no wheel can use."""
    warnings = [driver.problem] if driver.problem else []
    if driver.gpus and not usable:
        warnings += [f"{gpu} cannot be used: {gpu.problem}" for gpu in driver.gpus[:1]]
        others = len(driver.gpus) - 1
        if others:
            warnings[-1] += f"; likewise {others} more"
    discrete = [gpu for gpu in usable if not gpu.integrated]
    other = [gpu for gpu in usable if gpu.integrated and gpu.name != usable[0].name]
    if discrete and other:
        warnings.append(
            f"{other[0]} stands beside {discrete[0]}: a wheel must run on both, "
            f"unless --devices highest chooses for {discrete[0].name} alone"
        )
    return tuple(warnings)


def read(view: SystemView) -> AmdDriver:
    """Read files, and run AMD's tools only if they give reason to (P-124, P-125)."""
    files = probes.read_kfd(view) if view.system == "Linux" else None
    topology = probes.parse_kfd(files) if files is not None else None
    driver = AmdDriver(
        gpus=topology.gpus if topology else (), evidence=topology.evidence if topology else ()
    )
    if topology is None or not topology.is_listed:
        driver = _ask_tools(view, driver)
        if not driver.gpus and view.system == "Linux":
            driver = _without_driver(view, driver)
    driver = _with_release(driver, view)
    if not driver.evidence:
        driver = driver._replace(evidence=(Evidence("files", "no sign of an AMD GPU or ROCm"),))
    return driver


def _without_driver(view: SystemView, driver: AmdDriver) -> AmdDriver:
    """Add GPUs on the bus without a driver for computing."""
    devices = [
        device
        for device in pci_devices.of(view, FAMILY.pci_vendor)
        if device.base_class in (pci_devices.DISPLAY, pci_devices.ACCELERATOR)
    ]
    seen = tuple(
        Evidence(
            f"{pci_devices.FOLDER}/{device.address}",
            f"AMD GPU {device.device:04x}, driver {device.driver or 'none'}",
        )
        for device in devices
    )
    driver = driver._replace(evidence=(*driver.evidence, *seen))
    # Another driver has it for a reason: it is too old to compute, or a virtual machine's.
    idle = [device for device in devices if device.driver in ("", "amdgpu")]
    if not idle or driver.problem:
        return driver
    what = "offers nothing to compute with (KFD)" if idle[0].driver else "is not loaded"
    words = f"there is an AMD GPU at {idle[0].address}, and its driver amdgpu {what}"
    return driver._replace(problem=words)


def _with_release(driver: AmdDriver, view: SystemView) -> AmdDriver:
    """Add the version of the installed ROCm, from the first file that states one."""
    for path, text in probes.read_release(view):
        seen = Evidence(path, text)
        driver = driver._replace(evidence=(*driver.evidence, seen))
        version = probes.parse_release(text)
        if version is not None:
            return driver._replace(rocm_version=version)
    return driver


def _ask_tools(view: SystemView, driver: AmdDriver) -> AmdDriver:
    """Run the tools where a GPU may be that the kernel does not list: Windows, and its Linux."""
    signs = ("/sys/module/amdgpu", probes.KFD_DEVICE, _DXG)
    if view.system == "Windows":
        sign = "Windows"
    elif view.system == "Linux":
        sign = next((sign for sign in signs if view.exists(sign)), "")
    else:
        sign = ""
    if not sign:
        return driver
    told = probes.ask_tools(view, probes.rocm_folders(view))
    if not told:
        return driver
    # What child processes need is imported only here: most machines never come here.
    from wheelfit_runtime.platforms.probes import child_answers

    failures = {tool.name: child_answers.failure(tool.answer) for tool in told}
    gpus: tuple[AmdGpu, ...] = ()
    evidence = list(driver.evidence)
    for tool in told:  # no other is run once one names a GPU
        gpus = probes.gpus_of_tool(tool)
        names = ", ".join(gpu.name for gpu in gpus) or "no GPU"
        evidence.append(Evidence(tool.name, failures[tool.name] or names))
    driver = driver._replace(gpus=gpus, evidence=tuple(evidence))
    failed = "; ".join(f"{name} {words}" for name, words in failures.items() if words)
    if gpus or not failed:
        return driver
    return driver._replace(problem=failed, broken=child_answers.is_broken(told[-1].answer))


class _Forced(NamedTuple):
    """The values that AMD's variables replace."""

    off: bool = False
    names: tuple[str, ...] = ()
    version: tuple[int, int] | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def is_complete(self) -> bool:
        return bool(self.names) and self.version is not None

    def applied_to(self, driver: AmdDriver) -> AmdDriver:
        """Return the machine as the user wants it to look."""
        if self.names:
            gpus = tuple(AmdGpu(place, name) for place, name in enumerate(self.names))
            driver = driver._replace(gpus=gpus, problem="", broken=False)
        if self.version is not None:
            driver = driver._replace(rocm_version=self.version)
        return driver._replace(evidence=(*self.evidence, *driver.evidence))


def _read_forced(environ: Mapping[str, str]) -> _Forced:
    """Read AMD's variables (P-126)."""
    if text := overrides.value_of(environ, _BOOTSTRAP_OFF):
        if text == "1":
            return _Forced(off=True, evidence=(Evidence(_BOOTSTRAP_OFF, text),))
        if text != "0":
            raise overrides.invalid_override(_BOOTSTRAP_OFF, text, "1 is wanted, or 0")
    forced = _Forced()
    for variable, separators in ((_FORCE_GFX, r"[,;\s]+"), (_BOOTSTRAP_GFX, r"\s*,\s*")):
        text = overrides.value_of(environ, variable)
        if text and not forced.names:
            names = tuple(_forced_names(variable, text, separators))
            forced = _Forced(names=names, evidence=(Evidence(variable, text),))
    if text := overrides.value_of(environ, _FORCE_ROCM):
        match = re.fullmatch(_FORCED_ROCM, text)
        if match is None:
            raise overrides.invalid_override(_FORCE_ROCM, text, "a version as 7.0.0 is wanted")
        seen = Evidence(_FORCE_ROCM, text)
        version = (int(match[1]), int(match[2]))
        forced = forced._replace(version=version, evidence=(*forced.evidence, seen))
    return forced


def _forced_names(variable: str, text: str, separators: str) -> Sequence[str]:
    names = [tables.PACKAGE_OWNERS.get(name, name) for name in re.split(separators, text) if name]
    for name in names:
        if not re.fullmatch(_GFX_VALUE, name):
            raise overrides.invalid_override(variable, text, f"{name!r} is not a name as gfx942")
    if not names:
        raise overrides.invalid_override(variable, text, "names as gfx942 are wanted")
    return list(dict.fromkeys(names))


def _hints(driver: AmdDriver, view: SystemView, spoken: set[str]) -> tuple[str, ...]:
    """Return hints for the user where the detected facts are not enough.

    :param spoken: features that the user has overridden.
    """
    if not any(not gpu.problem for gpu in driver.gpus):
        return ()
    hints = []
    if driver.rocm_version is None and _ROCM not in spoken:
        hints.append(
            f"no installed ROCm was found, so wheels that name a {_ROCM} do not fit; "
            f"set {_OWN_ROCM} to say which one counts"
        )
    if _GFX in spoken:
        return tuple(hints)
    if view.exists(probes.KFD_DEVICE) and not view.may_open(probes.KFD_DEVICE):
        hints.append(
            f"you may not open {probes.KFD_DEVICE}, so no program of yours can use the GPU; become "
            "a member of the group render"
        )
    disguise = overrides.value_of(view.environ, _DISGUISE)
    if disguise:
        hints.append(
            f"{_DISGUISE}={disguise} changes what programs see and not what is chosen here; "
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
    others=lambda view: _read_forced(view.environ).evidence,
)
