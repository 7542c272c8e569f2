"""Who says what is supported of a namespace: the six steps (P-10 to P-17).

The first that applies decides:

1. disabled: nothing is supported, nobody is asked (P-10);
2. the package's own static list (P-11);
3. a list the user supplied, as a host file (P-12);
4. a provider of wheelfit's own that stands in for the plugin (P-13);
5. the plugin is not trusted: nothing is supported (P-14);
6. the plugin is asked (P-15) - wheelfit does not run plugins, so 5 and 6 end alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from wheelfit.core import phrases
from wheelfit.core.markers import parse_marker
from wheelfit.core.provider_table import EMULATED_PLUGINS
from wheelfit.core.providers import (
    BrokenProvider,
    BuiltinProvider,
    PluginProvider,
    StaticProvider,
    recognise,
)
from wheelfit.errors import InvalidMarker
from wheelfit.platforms.features import Detection, Evidence, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.providers import Provider

__all__ = ["Detector", "DevicePolicy", "OverridingDetector", "ProviderPolicy", "Steps"]


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


class Steps:
    """Walk through the six steps for one document and one target.

    :param document: whose providers count.
    :param detector: who answers step 4; an `OverridingDetector` answers step 3 first.
    :param environment: marker environment of the target, for legacy ``enable-if`` (F-51).
    :param policy: what the user decided.
    :param user_lists: lists of the user for this very machine (P-44).
    """

    def __init__(
        self,
        document: VariantDocument,
        detector: Detector,
        environment: Mapping[str, str],
        policy: ProviderPolicy,
        user_lists: Detector | None,
    ) -> None:
        self.detections: dict[str, Detection] = {}
        """The answers so far, by namespace."""
        self.holders: dict[str, str] = {}
        """Whose answer it is, in words, where it is not this machine's."""
        self.notes: list[str] = []
        """What the user should know, one sentence each."""
        self._document = document
        self._environment = environment
        self._policy = policy
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
        provider = self._document.providers.get(namespace)
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
        if namespace in self._policy.disabled:
            return "switched off by the user"
        if provider is None or isinstance(provider, BrokenProvider):
            return None
        if provider.optional and namespace not in self._policy.enabled:  # P-2
            return "an optional provider that is not enabled"
        if provider.enabled_by is None:
            return None
        try:  # F-51
            enabled = parse_marker(provider.enabled_by).evaluate(self._environment)
        except InvalidMarker:
            reason = f"its marker cannot be used: {provider.enabled_by}"
            self.notes.append(f"{namespace}: disabled, {reason}")
            return reason
        return None if enabled else f"not for this platform: {provider.enabled_by}"

    # Step 2

    def _static(self, namespace: str, provider: StaticProvider) -> Detection:
        if namespace in self._policy.ignore_static:  # P-20
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
        recognition = recognise(namespace, provider, self._environment)
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
