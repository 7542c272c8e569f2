"""The support of a target for the properties of variants.

`support_for` detects the namespaces of a document by the six steps
(`wheelfit.core.provider_lookup`). The answers are one `Support`, which decides whether the target
runs a property set (F-28), with the reason, and which properties it supports (F-103).
"""

from __future__ import annotations

from functools import cached_property
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from wheelfit.core import abi_dependency, phrases
from wheelfit.core.abi_dependency import KnownVersion, KnownVersions
from wheelfit.core.properties import Feature, Property, PropertySet
from wheelfit.core.provider_lookup import (
    Detector,
    DevicePolicy,
    NoPlugins,
    Plugins,
    ProviderPolicy,
    ProviderSteps,
)
from wheelfit_runtime.platforms.features import Detection, DeviceValues, Status
from wheelfit_runtime.platforms.words import THIS_MACHINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.document import VariantDocument

_Unmet: TypeAlias = tuple[Feature, tuple[str, ...], str | None]
"""An unmet feature, its values (one of them is needed), and the device that has none of them. The
device is None if the whole target has none."""

_DETECTED = (Status.SUPPORTED, Status.NOTHING)

_NO_VALUES: Mapping[str, frozenset[str]] = MappingProxyType({})


class Support(Struct, frozen=True, dict=True):
    """The support of a target for the detected namespaces."""

    detections: Mapping[str, Detection] = field(default_factory=dict)
    """The answer per namespace (P-21)."""
    notes: tuple[str, ...] = ()
    """Notes on missing entries in the user's lists, one sentence each (P-44)."""
    device_policy: DevicePolicy = "all"
    examined: Mapping[str, str] = field(default_factory=dict)
    """The name of the machine or list that was examined, by namespace; default: this machine."""
    abi_namespaces: frozenset[str] = frozenset()
    """The namespaces with versions of other packages (P-45)."""
    known: KnownVersions = KnownVersions()
    """The known versions of those packages (P-51)."""

    @cached_property
    def _values(self) -> Mapping[str, Mapping[str, frozenset[str]]]:
        """Values by namespace and feature; of a repeated feature the first entry is used (P-34)."""
        return {
            namespace: {
                config.name: frozenset(config.values) for config in reversed(detection.features)
            }
            for namespace, detection in self.detections.items()
        }

    @cached_property
    def _devices(self) -> Mapping[str, Mapping[str, tuple[DeviceValues, ...]]]:
        """The devices that every wheel must run on, by namespace and feature (P-88)."""
        binding = (
            (namespace, self._binding_devices(detection))
            for namespace, detection in self.detections.items()
        )
        return {namespace: devices for namespace, devices in binding if devices}

    @cached_property
    def _refusals(self) -> dict[tuple[_Unmet, ...], str]:
        return {}  # a cache: the labels of a release lack the same few properties

    def _binding_devices(self, detection: Detection) -> dict[str, tuple[DeviceValues, ...]]:
        """Return the devices of one namespace that every wheel must run on, by feature (P-88)."""
        by_feature: dict[str, tuple[DeviceValues, ...]] = {}
        if self.device_policy != "any":
            for device in detection.devices:
                by_feature[device.feature] = (*by_feature.get(device.feature, ()), device)
        # The highest device is listed first.
        if self.device_policy == "highest":
            return {feature: listed[:1] for feature, listed in by_feature.items()}
        if self.device_policy == "lowest":
            return {feature: listed[-1:] for feature, listed in by_feature.items()}
        return by_feature

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all answers, each with its namespace (P-21)."""
        return tuple(
            f"{namespace}: {warning}"
            for namespace, detection in self.detections.items()
            for warning in detection.warnings
        )

    def values(self, namespace: str, feature: str) -> frozenset[str]:
        """Return the supported values of a feature; empty when there are none."""
        return self._values.get(namespace, {}).get(feature, frozenset())

    def devices(self, namespace: str, feature: str) -> tuple[DeviceValues, ...]:
        """Return the devices on each of which a value of the feature must work (P-88)."""
        return self._devices.get(namespace, {}).get(feature, ())

    def supports(self, item: Property) -> bool:
        """Return whether the target supports a property."""
        return item.value in self.values(item.namespace, item.feature)

    def refusal(self, properties: PropertySet) -> str | None:
        """Return the reason the target does not run a variant, or None when it does (F-28, P-88).

        :return: in plain words, without a final full stop; names the properties.
        """
        unmet = tuple(self._unmet(properties))
        if not unmet:
            return None
        reason = self._refusals.get(unmet)
        if reason is None:
            reason = self._refusals[unmet] = "; ".join(self._reasons(unmet))
        return reason

    def conflicting_installed(self, properties: PropertySet) -> Iterator[str]:
        """Yield the installed packages that a variant was not built for (P-56)."""
        for project, values in self._abi_values(properties):
            known = self.known.versions.get(project)
            if known is None or not known.is_installed:
                continue
            if not any(abi_dependency.matches(value, known.version) for value in values):
                yield project

    def built_for(self, properties: PropertySet) -> Iterator[tuple[str, str, KnownVersion | None]]:
        """Yield the packages that a variant was built for: project, best value, known version."""
        for project, values in self._abi_values(properties):
            known = self.known.versions.get(project)
            for value in abi_dependency.recent_first(values):
                if known is None or abi_dependency.matches(value, known.version):
                    yield project, value, known
                    break

    def _abi_values(
        self, properties: PropertySet
    ) -> Iterator[tuple[NormalizedName, tuple[str, ...]]]:
        for feature, values in properties.features():
            project = abi_dependency.project_of(feature.name)
            if feature.namespace in self.abi_namespaces and project is not None:
                yield project, values

    def filter(self, properties: PropertySet) -> PropertySet:
        """Return the properties the target supports, as markers see them (F-103).

        Those that the user forbids are among them: otherwise options could remove dependencies
        (F-110).
        """
        return PropertySet(item for item in properties if self.supports(item))

    def _unmet(self, properties: PropertySet) -> Iterator[_Unmet]:
        # F-28: OR over the values of a feature, AND over features and namespaces.
        for feature, values_needed in properties.features():
            namespace, name = feature.namespace, feature.name
            known = self._values.get(namespace, _NO_VALUES).get(name)
            if known is None or known.isdisjoint(values_needed):
                yield feature, values_needed, None
            elif namespace in self._devices:  # few namespaces have devices
                for device in self.devices(namespace, name):  # P-88
                    if device.values.isdisjoint(values_needed):
                        yield feature, values_needed, device.device

    def _reasons(self, unmet: tuple[_Unmet, ...]) -> Iterator[str]:
        for namespace, group in groupby(unmet, lambda item: item[0].namespace):
            items = tuple(group)
            detection = self.detections.get(namespace) or Detection(namespace)
            missing = [(feature, values) for feature, values, device in items if device is None]
            if missing and namespace in self.abi_namespaces and detection.status in _DETECTED:
                for feature, values in missing:
                    yield abi_dependency.refusal(feature, values, self.known)
            elif missing:
                machine = self.examined.get(namespace, THIS_MACHINE)
                yield phrases.describe_unmet(missing, detection, machine=machine)
            for feature, values, device in items:
                if device is not None:
                    yield phrases.describe_unmet_on_device(feature, values, device)


def namespaces_used(properties: Iterable[PropertySet]) -> frozenset[str]:
    """Return the namespaces that property sets name; only those are detected (P-22)."""
    return frozenset(namespace for item in properties for namespace in item.namespaces)


def support_for(
    document: VariantDocument,
    machine: Detector | None,
    *,
    environment: Mapping[str, str],
    host_detector: Detector | None = None,
    policy: ProviderPolicy = ProviderPolicy(),
    namespaces: Iterable[str] | None = None,
    known: KnownVersions = KnownVersions(),
    plugins: Plugins = NoPlugins(),
) -> Support:
    """Return the support of a target, each namespace detected by the six steps.

    A namespace whose detection fails is unsupported, with the reason; others are not affected
    (P-17).

    :param machine: the detector of step 4, for recognised plugins (P-60); None: only the user's
        lists are used, and missing entries are unsupported (P-44).
    :param environment: marker environment of the target, for legacy ``enable-if`` (F-51).
    :param host_detector: the detector of step 3, as that of a host file; None: there is none.
    :param namespaces: the namespaces to detect; None: every namespace that a label uses.
    :param known: the versions of packages that builds may be made for (P-51).
    :param plugins: the plugins of steps 5 and 6; default: none is run.
    """
    used = namespaces_used(document.variants.values()) if namespaces is None else namespaces
    steps = ProviderSteps(document, machine, host_detector, environment, policy, known, plugins)
    # In order of priority, so that probes and messages do not depend on hashing.
    order = {namespace: index for index, namespace in enumerate(document.priorities)}
    for namespace in sorted(set(used), key=lambda item: (order.get(item, len(order)), item)):
        steps.detect(namespace)
    return Support(
        steps.detections,
        steps.notes,
        policy.device_policy,
        steps.examined,
        abi_dependency.abi_namespaces(document.providers),
        known,
    )
