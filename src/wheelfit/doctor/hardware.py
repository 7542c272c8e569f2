"""What detection says of the accelerators of a machine, in the few numbers packages depend on.

It is read out of detections and not out of the machine, so a host file does as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms import families
from wheelfit_runtime.platforms.families.nvidia.facts import Capability
from wheelfit_runtime.platforms.features import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit_runtime.platforms.features import Detection

ACCELERATORS: Mapping[str, str] = {
    family.namespace: family.presence for family in families.accelerators() if family.presence
}
"""Namespaces of accelerators, and the feature whose values tell that a device is there."""

_REAL = re.compile(r"([0-9]+)([0-9])_real")
_VERSION = re.compile(r"([0-9]+)\.([0-9]+)")
_LOOKED = (Status.SUPPORTED, Status.NOTHING)


@dataclass(frozen=True, slots=True)
class Hardware:
    """Hold what packages depend on."""

    looked: frozenset[str] = frozenset()
    """Namespaces of which it is known what they support, even if that is nothing."""
    present: frozenset[str] = frozenset()
    """Namespaces with a device that can be used."""
    cuda: Capability | None = None
    """The CUDA version of the driver, as 12.8; None when there is none."""
    capabilities: tuple[Capability, ...] = ()
    """The compute capabilities of the GPUs, the highest first, each once."""
    windows: bool = False
    """Whether the drivers are those for Windows, which are numbered in their own way."""

    @classmethod
    def of(cls, detections: Iterable[Detection], *, windows: bool = False) -> Hardware:
        """Read the numbers out of detections.

        :param windows: whether they are of a machine with Windows.
        """
        found = {detection.namespace: detection for detection in detections}
        looked = {name for name, detection in found.items() if detection.status in _LOOKED}
        present = {
            namespace
            for namespace, feature in ACCELERATORS.items()
            if namespace in looked and _values(found[namespace], feature)
        }
        nvidia = found.get("nvidia")
        if nvidia is None or "nvidia" not in looked:
            return cls(frozenset(looked), frozenset(present), windows=windows)
        return cls(
            frozenset(looked),
            frozenset(present),
            _highest(_values(nvidia, "cuda_version_lower_bound"), _VERSION),
            _capabilities(nvidia),
            windows,
        )


def _values(detection: Detection, feature: str) -> tuple[str, ...]:
    return next((one.values for one in detection.features if one.name == feature), ())


def _capabilities(nvidia: Detection) -> tuple[Capability, ...]:
    devices = [one.values for one in nvidia.devices if one.feature == "sm_arch"]
    groups = devices or [frozenset(_values(nvidia, "sm_arch"))]
    found = {highest for group in groups if (highest := _highest(group, _REAL)) is not None}
    return tuple(sorted(found, reverse=True))


def _highest(values: Iterable[str], pattern: re.Pattern[str]) -> Capability | None:
    numbers = [
        Capability(int(match[1]), int(match[2]))
        for value in values
        if (match := pattern.fullmatch(value))
    ]
    return max(numbers, default=None)
