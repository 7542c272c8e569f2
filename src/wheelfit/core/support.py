"""What a target supports, namespace by namespace, and which step decided (P-10 to P-17).

Six steps answer for a namespace; the first that applies decides:

1. disabled: nothing is supported, nobody is asked (P-10);
2. the package's own static list (P-11);
3. a list the user supplied, as a host file (P-12);
4. a provider of wheelfit's own that stands in for the plugin (P-13);
5. the plugin is not trusted: nothing is supported (P-14);
6. the plugin is asked (P-15) - wheelfit does not run plugins, so 5 and 6 end alike.

The answers are one `Support`, which then says about a property set whether the target
runs it (F-28), why not, and which of its properties hold there (F-103).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from wheelfit.core import phrases
from wheelfit.core.markers import parse_marker
from wheelfit.core.properties import PropertySet
from wheelfit.core.provider_table import EMULATED_PLUGINS
from wheelfit.core.providers import (
    BrokenProvider,
    BuiltinProvider,
    PluginProvider,
    StaticProvider,
    recognise,
)
from wheelfit.errors import InvalidMarker
from wheelfit.platforms.features import Detection, DeviceValues, Evidence, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.properties import Feature, Property
    from wheelfit.core.providers import Provider

__all__ = [
    "Detector",
    "DevicePolicy",
    "Missing",
    "OverridingDetector",
    "ProviderPolicy",
    "Refusal",
    "Support",
    "namespaces_used",
    "support_for",
]


def __dir__() -> list[str]:
    return __all__


DevicePolicy: TypeAlias = Literal["all", "highest", "any"]
"""On which of several unlike devices a chosen wheel must run (P-88)."""


class Detector(Protocol):
    """Say what a target supports of one namespace.

    The machine, a host file and the fakes of tests are detectors. Asking may be slow
    the first time only. A probe that fails is an answer (``Status.FAILED``), not an
    exception.
    """

    def detect(
        self, namespace: str, *, package: str | None = None, plugin_api: str | None = None
    ) -> Detection | None:
        """Return what is supported, or None when nothing is known of the namespace.

        :param namespace: as ``nvidia``.
        :param package: normalised name of the plugin's package, when the document has one.
        :param plugin_api: effective endpoint of the plugin, when the document has one.
        """
        ...


@runtime_checkable
class OverridingDetector(Detector, Protocol):
    """Answer from lists of the user, and let another detector answer the rest (P-44).

    Its lists are step 3 and answer for any provider; the fallback is step 4 and answers
    only for providers that are recognised (P-60). Immutable, a dataclass.
    """

    @property
    def fallback(self) -> Detector | None:
        """Whom to ask where the lists say nothing; None: nobody, the lists are all."""
        ...


@dataclass(frozen=True, slots=True)
class ProviderPolicy:
    """Hold what the user decided about providers."""

    enabled: frozenset[str] = frozenset()
    """Namespaces whose optional provider may answer (P-2, P-10)."""
    disabled: frozenset[str] = frozenset()
    """Namespaces that are switched off (P-10)."""
    ignore_static: frozenset[str] = frozenset()
    """Namespaces whose static list gives way to what the detector knows (P-20)."""
    device_policy: DevicePolicy = "all"
    """``all``: every device; ``highest``: the best one; ``any``: at least one (P-88)."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Hold one feature of a property set that the target cannot meet."""

    feature: Feature
    wanted: tuple[str, ...]
    """Values of which one would do."""
    supported: tuple[str, ...]
    """Values the target supports, most preferred first; often empty."""
    device: str | None = None
    """The device that is left without a value (P-88); None: the whole target."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Say why a property set does not run on the target."""

    missing: tuple[Missing, ...]
    """At least one."""
    reason: str
    """All of it in words of the user; names the properties."""


@dataclass(frozen=True, slots=True)
class Support:
    """Hold what a target supports of the namespaces that were asked for."""

    detections: Mapping[str, Detection] = field(default_factory=dict)
    """The answer per namespace (P-21)."""
    notes: tuple[str, ...] = ()
    """What the user should know about how the answers came about, one sentence each."""
    device_policy: DevicePolicy = "all"
    holders: Mapping[str, str] = field(default_factory=dict)
    """Whose answer it is, by namespace, in words; this machine's when not listed."""
    _values: Mapping[str, Mapping[str, frozenset[str]]] = field(
        init=False, repr=False, compare=False
    )
    _devices: Mapping[str, Mapping[str, tuple[DeviceValues, ...]]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "detections", MappingProxyType(dict(self.detections)))
        object.__setattr__(self, "holders", MappingProxyType(dict(self.holders)))
        values: dict[str, dict[str, frozenset[str]]] = {}
        devices: dict[str, dict[str, tuple[DeviceValues, ...]]] = {}
        for namespace, detection in self.detections.items():
            for config in detection.features:
                known = values.setdefault(namespace, {})
                known[config.name] = known.get(config.name, frozenset()).union(config.values)
            narrowing = self._narrowing(detection)
            if narrowing:
                devices[namespace] = narrowing
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_devices", devices)

    def _narrowing(self, detection: Detection) -> dict[str, tuple[DeviceValues, ...]]:
        """Return the devices every wheel must run on, by feature (P-88)."""
        by_feature: dict[str, tuple[DeviceValues, ...]] = {}
        if self.device_policy != "any":
            for device in detection.devices:
                by_feature[device.feature] = (*by_feature.get(device.feature, ()), device)
        if self.device_policy == "highest":  # the highest device is listed first
            by_feature = {feature: listed[:1] for feature, listed in by_feature.items()}
        return by_feature

    def values(self, namespace: str, feature: str) -> frozenset[str]:
        """Return the supported values of a feature; empty when there are none."""
        return self._values.get(namespace, {}).get(feature, frozenset())

    def devices(self, namespace: str, feature: str) -> tuple[DeviceValues, ...]:
        """Return the devices on each of which a value of the feature must work (P-88)."""
        return self._devices.get(namespace, {}).get(feature, ())

    def supports(self, item: Property) -> bool:
        """Say whether the target supports a property."""
        return item.value in self.values(item.namespace, item.feature)

    def accepts(self, properties: PropertySet) -> bool:
        """Say whether the target runs a variant with these properties (F-28, P-88)."""
        return next(self._unmet(properties), None) is None

    def refusal(self, properties: PropertySet) -> Refusal | None:
        """Return why the target does not run these properties, or None when it does (F-28).

        :param properties: all properties of the variant.
        """
        missing = tuple(
            Missing(feature, wanted, self._listed(feature), device.device if device else None)
            for feature, wanted, device in self._unmet(properties)
        )
        return Refusal(missing, "; ".join(self._reasons(missing))) if missing else None

    def filter(self, properties: PropertySet) -> PropertySet:
        """Return the properties the target supports, as markers see them (F-103).

        What the user forbids does not matter here, so options cannot make
        dependencies vanish (F-110).
        """
        return PropertySet(item for item in properties if self.supports(item))

    def _unmet(
        self, properties: PropertySet
    ) -> Iterator[tuple[Feature, tuple[str, ...], DeviceValues | None]]:
        # F-28: OR over the values of a feature, AND over features and namespaces.
        for feature, wanted in properties.features():
            known = self._values.get(feature.namespace, {}).get(feature.name)
            if known is None or known.isdisjoint(wanted):
                yield feature, wanted, None
                continue
            for device in self.devices(feature.namespace, feature.name):  # P-88
                if device.values.isdisjoint(wanted):
                    yield feature, wanted, device

    def _listed(self, feature: Feature) -> tuple[str, ...]:
        detection = self.detections.get(feature.namespace)
        configs = detection.features if detection is not None else ()
        return next((config.values for config in configs if config.name == feature.name), ())

    def _reasons(self, missing: tuple[Missing, ...]) -> Iterator[str]:
        for namespace, group in groupby(missing, lambda item: item.feature.namespace):
            items = tuple(group)
            detection = self.detections.get(namespace) or _unknown(namespace, "nobody was asked")
            wanted = [(item.feature, item.wanted) for item in items if item.device is None]
            if wanted:
                holder = self.holders.get(namespace, phrases.THIS_MACHINE)
                yield phrases.missing(wanted, detection, holder=holder)
            for item in items:
                if item.device is not None:
                    yield phrases.missing_on_device(item.feature, item.wanted, item.device)


def namespaces_used(properties: Iterable[PropertySet]) -> frozenset[str]:
    """Return the namespaces that property sets name; only those are asked for (P-22).

    :param properties: the sets of the labels that may still be chosen.
    """
    return frozenset(namespace for item in properties for namespace in item.namespaces)


def support_for(
    document: VariantDocument,
    detector: Detector,
    *,
    environment: Mapping[str, str],
    policy: ProviderPolicy = ProviderPolicy(),
    namespaces: Iterable[str] | None = None,
    user_lists: Detector | None = None,
) -> Support:
    """Ask the six steps about every namespace and return the answers.

    A namespace that cannot be answered is unsupported with its reason; it never
    affects another one (P-17).

    :param document: the combined metadata of the release.
    :param detector: who answers step 4; an `OverridingDetector` answers step 3 first.
    :param environment: marker environment of the target, for legacy ``enable-if`` (F-51).
    :param policy: what the user decided.
    :param namespaces: whom to ask about; None: every namespace that a label uses.
    :param user_lists: lists of the user for this very machine; where they know nothing,
        the detector is asked as usual (P-44).
    """
    wanted = namespaces_used(document.variants.values()) if namespaces is None else namespaces
    steps = _Steps(document, detector, environment, policy, user_lists)
    # Priority order, so that what is printed and probed does not depend on hashing.
    order = {namespace: index for index, namespace in enumerate(document.priorities)}
    for namespace in sorted(set(wanted), key=lambda item: (order.get(item, len(order)), item)):
        steps.ask(namespace)
    return Support(
        steps.detections, tuple(dict.fromkeys(steps.notes)), policy.device_policy, steps.holders
    )


class _Steps:
    """Walk through the six steps for one document and one target."""

    def __init__(
        self,
        document: VariantDocument,
        detector: Detector,
        environment: Mapping[str, str],
        policy: ProviderPolicy,
        user_lists: Detector | None,
    ) -> None:
        self.document = document
        self.environment = environment
        self.policy = policy
        self.detections: dict[str, Detection] = {}
        self.holders: dict[str, str] = {}
        self.notes: list[str] = []
        self._machine: Detector | None = detector
        self._lists = [] if user_lists is None else [user_lists]
        self._closed = False
        """Whether the lists describe another machine, so that silence is an answer."""
        if isinstance(detector, OverridingDetector):
            self._machine = detector.fallback
            self._closed = detector.fallback is None
            self._lists.append(_alone(detector))

    def ask(self, namespace: str) -> None:
        """Answer one namespace."""
        detection = self._decide(namespace)
        self.detections[namespace] = detection
        self.notes += [f"{namespace}: {warning}" for warning in detection.warnings]

    def _decide(self, namespace: str) -> Detection:
        provider = self.document.providers.get(namespace)
        disabled = self._disabled(namespace, provider)
        if disabled is not None:  # P-10
            return Detection(namespace, status=Status.DISABLED, source=disabled)
        match provider:
            case BrokenProvider(reason):  # F-130
                return _unknown(namespace, f"its provider entry is broken: {reason}")
            case BuiltinProvider():  # P-16
                return _builtin(namespace, provider)
            case StaticProvider():
                return self._static(namespace, provider)
            case _:
                return self._asked(namespace, provider)

    # Step 1

    def _disabled(self, namespace: str, provider: Provider | None) -> str | None:
        if namespace in self.policy.disabled:
            return "switched off by the user"
        if provider is None or isinstance(provider, BrokenProvider):
            return None
        if provider.optional and namespace not in self.policy.enabled:  # P-2
            return "an optional provider that is not enabled"
        if provider.enabled_by is None:
            return None
        try:  # F-51
            enabled = parse_marker(provider.enabled_by).evaluate(self.environment)
        except InvalidMarker:
            reason = f"its marker cannot be used: {provider.enabled_by}"
            self.notes.append(f"{namespace}: disabled, {reason}")
            return reason
        return None if enabled else f"not for this platform: {provider.enabled_by}"

    # Step 2

    def _static(self, namespace: str, provider: StaticProvider) -> Detection:
        if namespace in self.policy.ignore_static:  # P-20
            detected = self._listed(namespace, None, None) or self._detected(namespace, None, None)
            if detected is not None and detected.status is not Status.UNKNOWN:
                return detected
        # P-11: exclusively, even for a namespace wheelfit could detect itself.
        warnings: tuple[str, ...] = ()
        if namespace in _VENDORS:  # P-20
            warnings = ("the package brings its own list, the machine was not asked",)
        supported = any(config.values for config in provider.features)
        self.holders[namespace] = phrases.PACKAGE_LIST
        return Detection(
            namespace,
            provider.features,
            Status.SUPPORTED if supported else Status.NOTHING,
            source="static list of the package",
            warnings=warnings,
        )

    # Steps 3 to 6

    def _asked(self, namespace: str, provider: PluginProvider | None) -> Detection:
        if provider is None:
            listed = self._listed(namespace, None, None)
            return listed or _unknown(namespace, "the metadata names no provider for it")
        recognition = recognise(namespace, provider, self.environment)
        package, plugin_api = recognition.package, recognition.plugin_api
        listed = self._listed(namespace, package, plugin_api)
        if listed is not None:  # P-12
            return listed
        name = package or " and ".join(provider.requires)
        if recognition.builtin is None:
            # P-14, P-18, P-63: nothing is trusted, installed or run.
            needs = f"its plugin {name} would have to run, which wheelfit does not do"
            return _unknown(namespace, f"{needs}: {recognition.reason}")
        detected = self._detected(recognition.builtin, package, plugin_api)  # P-13
        if detected is None:
            return _unknown(namespace, f"wheelfit does not stand in for {name} yet")
        return replace(detected, namespace=namespace)

    def _listed(
        self, namespace: str, package: str | None, plugin_api: str | None
    ) -> Detection | None:
        """Ask step 3; lists that describe another machine have the last word (P-44)."""
        last: Detection | None = None
        for lists in self._lists:
            last = _detect(lists, namespace, package, plugin_api)
            if last is not None and last.status is not Status.UNKNOWN:
                self.holders[namespace] = last.source or "the user's list"
                return last
        return last if self._closed else None

    def _detected(
        self, builtin: str, package: str | None, plugin_api: str | None
    ) -> Detection | None:
        if self._machine is None:
            return None
        return _detect(self._machine, builtin, package, plugin_api)


_VENDORS = frozenset(plugin.namespace for plugin in EMULATED_PLUGINS)
"""Namespaces of hardware, of which a package cannot know what a machine has (P-20)."""


def _alone(detector: OverridingDetector) -> Detector:
    """Return the lists of a detector without its fallback."""
    if detector.fallback is None:
        return detector
    alone: Detector = replace(detector, fallback=None)  # type: ignore[type-var]
    return alone


def _detect(
    detector: Detector, namespace: str, package: str | None, plugin_api: str | None
) -> Detection | None:
    try:
        return detector.detect(namespace, package=package, plugin_api=plugin_api)
    except Exception as error:  # noqa: BLE001 - P-17: whatever it is, it is an answer
        return Detection(
            namespace,
            status=Status.FAILED,
            source=f"detection of {namespace}",
            evidence=(Evidence(type(error).__name__, str(error)),),
        )


def _unknown(namespace: str, source: str) -> Detection:
    return Detection(namespace, status=Status.UNKNOWN, source=source)


def _builtin(namespace: str, provider: BuiltinProvider) -> Detection:
    if provider.name != "abi_dependency":  # P-8
        return _unknown(namespace, f"there is no built-in provider {provider.name!r}")
    # P-50: whoever does not implement it says so.
    source = "builds for a version of another package are not supported yet"
    return Detection(namespace, status=Status.UNKNOWN, source=source, warnings=(source,))
