"""The detected support of a machine, as values.

Providers return these, and ``wheelfit.core.property_support`` reads them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class FeatureConfig(NamedTuple):
    """One feature and its supported values (P-27)."""

    name: str
    """Name of the feature, such as ``sm_arch``."""
    values: tuple[str, ...]
    """Supported values, most preferred first; empty when nothing is supported."""
    multi_value: bool = False
    """Whether a wheel may list several values of it."""


class Evidence(NamedTuple):
    """One observation that led to a detection (P-75)."""

    source: str
    """A path, a library with its call, or an environment variable."""
    value: str
    """The raw value, or the fault."""


class Status(StrEnum):
    """The outcome of a detection."""

    SUPPORTED = "supported"
    NOTHING = "nothing"
    """Nothing of this namespace is supported."""
    DISABLED = "disabled"
    """Switched off: by the user, by an invalid override, or because it is optional."""
    FAILED = "failed"
    """The detection failed; the evidence has the reason (P-17)."""
    UNKNOWN = "unknown"
    """Not detected: no provider may be used, or a host file has no entry."""


def status_of(features: Iterable[FeatureConfig]) -> Status:
    """Return whether any value is supported, for a namespace that was detected."""
    return Status.SUPPORTED if any(feature.values for feature in features) else Status.NOTHING


class DeviceValues(NamedTuple):
    """The values supported by one of several unlike devices (P-88)."""

    feature: str
    """Name of the feature, such as ``sm_arch``."""
    device: str
    """The device in words, such as ``GPU 1 (Tesla T4, 7.5)``."""
    values: frozenset[str]
    """The values of the feature that work on this device."""


def values_by_device(
    feature: str, devices: Iterable[tuple[object, Iterable[str]]]
) -> tuple[DeviceValues, ...]:
    """Return the values of each of several devices; empty if all support the same."""
    values_of_devices = tuple(
        DeviceValues(feature, str(device), frozenset(values)) for device, values in devices
    )
    return values_of_devices if len({device.values for device in values_of_devices}) > 1 else ()


class PluginOrigin(NamedTuple):
    """The plugin that answered, down to its bytes (P-38)."""

    name: str
    """Normalised name of its distribution."""
    version: str
    files: tuple[tuple[str, str], ...]
    """Every wheel of its environment: file name and SHA-256."""

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "name": self.name,
            "version": self.version,
            "files": [{"filename": name, "sha256": digest} for name, digest in self.files],
        }


class Detection(NamedTuple):
    """The answer for one namespace: the supported values and the evidence (P-21).

    Comparisons ignore ``seconds``.
    """

    namespace: str
    features: tuple[FeatureConfig, ...] = ()
    """Features, most preferred first."""
    status: Status = Status.UNKNOWN
    source: str = ""
    """The deciding one of the six steps in words, as ``built-in nvidia provider`` (P-10 ff.)."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()
    devices: tuple[DeviceValues, ...] = ()
    """The values per device where devices differ: every chosen wheel must run on all of them.
    Empty: `features` apply to all devices."""
    step: str = ""
    """The deciding one of the six steps, for programs; ``docs/reference/json.md`` lists them."""
    version: str = ""
    """Version of the provider's tables, such as ``2026-11``, or of the plugin's package."""
    seconds: float = 0.0
    """The duration of the detection."""
    plugin: PluginOrigin | None = None
    """The plugin that was run (P-15); None: no plugin was."""

    def values_of(self, feature: str) -> tuple[str, ...]:
        """Return the supported values of a feature, most preferred first; empty if it has none."""
        return next((config.values for config in self.features if config.name == feature), ())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Detection):
            return NotImplemented
        return tuple.__eq__(self._replace(seconds=0.0), other._replace(seconds=0.0))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return tuple.__hash__(self._replace(seconds=0.0))
