"""Detect Intel's GPUs (P-130 to P-135)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.features import Detection, Evidence, FeatureConfig, values_by_device
from wheelfit_runtime.platforms.provider import BuiltInProvider, answer
from wheelfit_runtime.platforms.providers.intel import files as intel_files
from wheelfit_runtime.platforms.providers.intel import tables
from wheelfit_runtime.platforms.providers.intel.files import IntelDriver, IntelGpu
from wheelfit_runtime.platforms.providers.intel.tables import DeviceIp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit_runtime.platforms.system_view import SystemView

NAMESPACE = "intel"

_DEVICE_IP = "device_ip"

_FORCE = "INTEL_VARIANT_PROVIDER_FORCE_DEVICE_IP"

_MAX_IP = DeviceIp(1023, 255, 63)  # the largest numbers in the bits of Level Zero


def _find(view: SystemView, overridden: Mapping[str, tuple[str, ...]]) -> Detection:
    override = _read_override(view.environ)
    if overridden:  # detection has nothing to add
        return answer(NAMESPACE)
    if override is not None:
        return _overridden(override, reference=view.reference)
    return supported(read(view), reference=view.reference)


def supported(driver: IntelDriver, *, reference: bool = False) -> Detection:
    """Return the values of each device, and of its base architecture (P-131).

    :param reference: whether to answer exactly as the reference plugin: only devices of its list,
        and no values of single devices (P-43).
    """
    values = dict.fromkeys(value for gpu in driver.gpus for value in _values(gpu.ip))
    listed_values = tuple(value for value in values if value in tables.VALUES)
    if not reference:  # P-132, after all that the reference lists (P-41)
        listed_values += tuple(value for value in values if value not in tables.VALUES)
    # P-88: the best first; a card is better than an integrated GPU, even a newer one.
    ordered = sorted(driver.gpus, key=lambda gpu: (not gpu.integrated, gpu.ip), reverse=True)
    if any(gpu.ip >= tables.FIRST_ARC for gpu in ordered):
        # Older integrated GPUs have no builds, and programs use the card.
        ordered = [gpu for gpu in ordered if gpu.ip >= tables.FIRST_ARC or not gpu.integrated]
    devices = values_by_device(_DEVICE_IP, ((gpu, _values(gpu.ip)) for gpu in ordered))
    warnings: tuple[str, ...] = (driver.problem,) if driver.problem else ()
    if not reference:
        warnings += _limiting_gpu_warnings(ordered)
    return answer(
        NAMESPACE,
        (FeatureConfig(_DEVICE_IP, listed_values, multi_value=True),),
        broken=driver.broken,
        evidence=driver.evidence,
        warnings=(*driver.warnings, *warnings),
        devices=() if reference else devices,
    )


def _values(ip: DeviceIp) -> tuple[str, ...]:
    base = tables.BASES.get(ip)
    return (str(ip),) if base is None else (str(ip), str(base))


def _limiting_gpu_warnings(gpus: Sequence[IntelGpu]) -> tuple[str, ...]:
    """Return a warning if an integrated GPU limits a card (P-88)."""
    cards = [gpu for gpu in gpus if not gpu.integrated]
    limiting = [gpu for gpu in gpus if gpu.integrated and cards and gpu.ip != cards[0].ip]
    if not limiting:
        return ()
    start = f"the machine has {limiting[0]} and {cards[0]}: a wheel must run on both, unless "
    return (f"{start}--devices highest chooses for {cards[0].ip} alone",)


def read(view: SystemView) -> IntelDriver:
    """Read files, and query Level Zero if they have signs of a GPU (P-133, P-135)."""
    if view.system not in intel_files.LOADER_NAMES:
        return IntelDriver(evidence=(Evidence("system", view.system),))
    files = intel_files.parse(intel_files.read(view), view.system)
    if not files.evidence:
        return IntelDriver(evidence=(Evidence("files", "no sign of an Intel GPU"),))
    libraries = intel_files.candidates(view, files) if files.has_signs else ()
    if not libraries:
        return IntelDriver(problem=intel_files.no_driver_reason(files), evidence=files.evidence)
    # Imported only for machines with signs of a GPU.
    from wheelfit_runtime.platforms.providers.intel import level_zero

    answer = level_zero.read(view, libraries)
    driver = level_zero.parse(answer, files, view.deadline)
    return driver._replace(evidence=(*files.evidence, *driver.evidence))


def _read_override(environ: Mapping[str, str]) -> DeviceIp | None:
    """Read Intel's variable (P-134)."""
    text = overrides.value_of(environ, _FORCE)
    if text is None:
        return None
    ip = _parse(text)
    if ip is None:
        raise overrides.invalid_override(_FORCE, text, "it must be one value as 20.1.0")
    return ip


def _override_evidence(view: SystemView) -> tuple[Evidence, ...]:
    ip = _read_override(view.environ)
    return () if ip is None else (Evidence(_FORCE, str(ip)),)


def _overridden(ip: DeviceIp, *, reference: bool) -> Detection:
    values = _values(ip)
    if reference:  # without unknown values, and without the base architecture
        values = tuple(value for value in values[:1] if value in tables.VALUES)
    return answer(
        NAMESPACE,
        (FeatureConfig(_DEVICE_IP, values, multi_value=True),),
        evidence=(Evidence(_FORCE, str(ip)),),
    )


def _parse(text: str) -> DeviceIp | None:
    parts = text.split(".")
    if len(parts) != len(_MAX_IP) or not all(len(p) < 5 and p.isdecimal() for p in parts):
        return None
    ip = DeviceIp(*map(int, parts))
    is_in_range = all(number <= largest for number, largest in zip(ip, _MAX_IP, strict=True))
    return ip if is_in_range and str(ip) == text else None


PROVIDER = BuiltInProvider(
    NAMESPACE,
    tables.DATA_VERSION,
    _find,
    {_DEVICE_IP: _parse},
    multi_value=(_DEVICE_IP,),
    overrides=_override_evidence,
)
