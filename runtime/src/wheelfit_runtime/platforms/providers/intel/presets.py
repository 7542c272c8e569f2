"""The parts of presets for Intel's GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.preset_parts import Accelerator, PresetLine, unknown_preset
from wheelfit_runtime.platforms.providers.intel import tables
from wheelfit_runtime.platforms.providers.intel.record import PRESETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DEVICE_NAMES: Mapping[str, str] = {
    "arc-a770": "acm-g10",
    "arc-a750": "acm-g10",
    "arc-a380": "acm-g11",
    "arc-b580": "bmg-g21",
    "arc-b570": "bmg-g21",
    "arc-140v": "lnl-m",
    "max-1100": "pvc",
    "max-1550": "pvc",
    "flex-140": "ats-m75",
    "flex-170": "ats-m150",
}
"""Names of devices, by product."""
_IP_VERSIONS = {name: str(ip) for ip, names in tables.DEVICES.items() for name in names}
"""IP versions, by the name of a device."""
DEVICE_IPS: Mapping[str, str] = {
    **{product: _IP_VERSIONS[name] for product, name in _DEVICE_NAMES.items()},
    **_IP_VERSIONS,
    **{value: value for value in tables.VALUES},
}
"""The IP versions, by product, name of a device, or the version itself."""


def read(part: str, rest: str) -> Accelerator:
    """Return the accelerator of a part of a preset's name.

    :param part: as ``intel-arc-a770``.
    :param rest: the part without ``intel-``.
    :raises UnknownHost: it describes no accelerator.
    """
    value = DEVICE_IPS.get(rest)
    if value is None:
        raise unknown_preset(part)
    facts = {"INTEL_VARIANT_PROVIDER_FORCE_DEVICE_IP": value}
    description = f"Intel GPU {value}" + (f" ({rest})" if rest != value else "")
    return Accelerator(part, PRESETS.name, facts, description, PRESETS.platforms)


def lines() -> Iterator[PresetLine]:
    """Yield a line for each known device."""
    for name, value in DEVICE_IPS.items():
        if name != value:
            yield PresetLine(f"intel-{name}", f"intel-{name}", f"Intel GPU {value}")
