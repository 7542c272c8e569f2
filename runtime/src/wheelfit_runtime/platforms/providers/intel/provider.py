"""Detect for which of Intel's GPUs this machine runs code (P-130 to P-135).

Reachable as a PEP 850 plugin: ``wheelfit_runtime.platforms.providers.intel.provider:PROVIDER``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.features import Evidence, FeatureConfig, values_by_device
from wheelfit_runtime.platforms.provider import BuiltInProvider, answer
from wheelfit_runtime.platforms.providers.intel import files as intel_files
from wheelfit_runtime.platforms.providers.intel import tables
from wheelfit_runtime.platforms.providers.intel.files import IntelDriver
from wheelfit_runtime.platforms.providers.intel.tables import DeviceIp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit_runtime.platforms.features import Detection
    from wheelfit_runtime.platforms.providers.intel.files import IntelGpu
    from wheelfit_runtime.platforms.system_view import SystemView

NAMESPACE = "intel"

_DEVICE_IP = "device_ip"

_FORCE = "INTEL_VARIANT_PROVIDER_FORCE_DEVICE_IP"

_LARGEST = DeviceIp(1023, 255, 63)  # what Level Zero has bits for


def _find(view: SystemView, own: Mapping[str, tuple[str, ...]]) -> Detection:
    forced = _read_forced(view.environ)
    if own:  # nothing that could be found out would count
        return answer(NAMESPACE)
    if forced is not None:
        return _forced(forced, reference=view.reference)
    return supported(read(view), reference=view.reference)


def supported(driver: IntelDriver, *, reference: bool = False) -> Detection:
    """Return the values of each device, and of its base architecture (P-131).

    :param reference: answer exactly as the reference plugin does: only devices it
        knows, and no narrowing (P-43).
    """
    values = dict.fromkeys(value for gpu in driver.gpus for value in _values(gpu.ip))
    kept = tuple(value for value in values if value in tables.VALUES)
    if not reference:  # P-132, after all that the reference lists (P-41)
        kept += tuple(value for value in values if value not in tables.VALUES)
    # P-88: the best first. A part of the processor may be newer than the card beside it, and is
    # still the lesser.
    ordered = sorted(driver.gpus, key=lambda gpu: (not gpu.integrated, gpu.ip), reverse=True)
    if any(gpu.ip >= tables.FIRST_ARC for gpu in ordered):
        # No build is made for older graphics, and programs find the card beside them.
        ordered = [gpu for gpu in ordered if gpu.ip >= tables.FIRST_ARC or not gpu.integrated]
    devices = values_by_device(_DEVICE_IP, ((gpu, _values(gpu.ip)) for gpu in ordered))
    told: tuple[str, ...] = (driver.problem,) if driver.problem else ()
    if not reference:
        told += _side_by_side(ordered)
    return answer(
        NAMESPACE,
        (FeatureConfig(_DEVICE_IP, kept, multi_value=True),),
        broken=driver.broken,
        evidence=driver.evidence,
        warnings=(*driver.warnings, *told),
        devices=() if reference else devices,
    )


def _values(ip: DeviceIp) -> tuple[str, ...]:
    base = tables.BASES.get(ip)
    return (str(ip),) if base is None else (str(ip), str(base))


def _side_by_side(gpus: Sequence[IntelGpu]) -> tuple[str, ...]:
    """Warn of a part of the processor that limits the card beside it (P-88)."""
    cards = [gpu for gpu in gpus if not gpu.integrated]
    limiting = [gpu for gpu in gpus if gpu.integrated and cards and gpu.ip != cards[0].ip]
    if not limiting:
        return ()
    words = f"{limiting[0]} stands beside {cards[0]}: a wheel must run on both, unless "
    return (f"{words}--devices highest chooses for {cards[0].ip} alone",)


def read(view: SystemView) -> IntelDriver:
    """Read files, and query Level Zero only if they give reason to (P-133, P-135)."""
    if view.system not in intel_files.LOADER_NAMES:
        return IntelDriver(evidence=(Evidence("system", view.system),))
    files = intel_files.parse(intel_files.read(view), view.system)
    if not files.evidence:
        return IntelDriver(evidence=(Evidence("files", "no sign of an Intel GPU"),))
    libraries = intel_files.candidates(view, files) if files.has_signs else ()
    if not libraries:
        return IntelDriver(problem=intel_files.missing(files), evidence=files.evidence)
    # What child processes need takes longer to import than the rest of the provider,
    # and most machines never come here.
    from wheelfit_runtime.platforms.providers.intel import level_zero

    answer = level_zero.read(view, libraries)
    driver = level_zero.parse(answer, files, view.deadline)
    return driver._replace(evidence=(*files.evidence, *driver.evidence))


def _read_forced(environ: Mapping[str, str]) -> DeviceIp | None:
    """Read Intel's variable (P-134)."""
    text = overrides.value_of(environ, _FORCE)
    if text is None:
        return None
    ip = _parse(text)
    if ip is None:
        raise overrides.invalid_override(_FORCE, text, "one value as 20.1.0 is wanted")
    return ip


def _forced_by(view: SystemView) -> tuple[Evidence, ...]:
    ip = _read_forced(view.environ)
    return () if ip is None else (Evidence(_FORCE, str(ip)),)


def _forced(ip: DeviceIp, *, reference: bool) -> Detection:
    values = _values(ip)
    if reference:  # it drops what it does not know, and expands nothing
        values = tuple(value for value in values[:1] if value in tables.VALUES)
    return answer(
        NAMESPACE,
        (FeatureConfig(_DEVICE_IP, values, multi_value=True),),
        evidence=(Evidence(_FORCE, str(ip)),),
    )


def _parse(text: str) -> DeviceIp | None:
    parts = text.split(".")
    if len(parts) != len(_LARGEST) or not all(len(p) < 5 and p.isdecimal() for p in parts):
        return None
    ip = DeviceIp(*map(int, parts))
    fits = all(number <= largest for number, largest in zip(ip, _LARGEST, strict=True))
    return ip if fits and str(ip) == text else None


PROVIDER = BuiltInProvider(
    NAMESPACE,
    tables.DATA_VERSION,
    _find,
    {_DEVICE_IP: _parse},
    multi_value=(_DEVICE_IP,),
    others=_forced_by,
)
