"""The source of the support of a namespace, by the six steps (P-10 to P-17).

The first that applies decides:

1. disabled: nothing is supported or detected (P-10);
2. the package's own static list (P-11);
3. a list the user supplied, as a host file (P-12);
4. a built-in provider that stands in for the plugin (P-13);
5. the plugin is not trusted: nothing is supported (P-14);
6. the plugin is installed and run (P-15), by `Plugins`.

A built-in provider takes the place of steps 2 to 6 (P-16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeGuard

from msgspec import Struct, field

from wheelfit.core import abi_dependency
from wheelfit.core.abi_dependency import KnownVersion, KnownVersions
from wheelfit.core.markers import parse_marker
from wheelfit.core.provider_table import EMULATED_PLUGINS, EmulatedPlugin
from wheelfit.core.providers import (
    ABI_DEPENDENCY,
    BrokenProvider,
    BuiltinProvider,
    PluginProvider,
    PluginQuestion,
    StaticProvider,
    recognise,
    required_packages,
)
from wheelfit.errors import InvalidMarker
from wheelfit_runtime.platforms.features import Detection, Evidence, Status, status_of
from wheelfit_runtime.platforms.words import PACKAGE_LIST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.providers import Provider, Recognition

DevicePolicy: TypeAlias = Literal["all", "highest", "lowest", "any"]
"""The devices on which a chosen wheel must run, if they differ (P-88)."""


class Detector(Protocol):
    """A source of a target's support of one namespace.

    The machine, a host file and the fakes of tests are detectors. Only the first call may be slow.
    A probe that fails is an answer (``Status.FAILED``), not an exception.
    """

    def detect(
        self, namespace: str, *, package: str | None = None, plugin_api: str | None = None
    ) -> Detection | None:
        """Return the detected features, or None for an unknown namespace.

        :param package: normalised name of the plugin's package, when the document has one.
        :param plugin_api: effective endpoint of the plugin, when the document has one.
        """
        ...


class Plugins(Protocol):
    """The plugins that steps 5 and 6 run for one target.

    Only the first call may be slow. A plugin that fails is an answer (``Status.FAILED``), not an
    exception.
    """

    def refusal(self, question: PluginQuestion) -> str | None:
        """Return the reason a plugin may not be run, one clause; None when it may (P-14).

        No index is read, and the plugin is not run.
        """
        ...

    def ask(self, question: PluginQuestion) -> Detection:
        """Return the support reported by a plugin that may be run (P-15)."""
        ...


class NoPlugins(Struct, frozen=True):
    """Plugins of which none is run, even if trusted."""

    reason: str = "no plugin is asked here"
    """The reason, one clause."""

    def refusal(self, question: PluginQuestion) -> str | None:
        """Return the reason no plugin is run."""
        del question
        return self.reason

    def ask(self, question: PluginQuestion) -> Detection:
        """Return the answer for a plugin that was not run."""
        return _unknown(question.namespace, self.reason, "not-trusted")


class ProviderPolicy(Struct, frozen=True):
    """The user's decisions about providers."""

    enabled: frozenset[str] = frozenset()
    """Namespaces whose optional provider may answer (P-2, P-10)."""
    disabled: frozenset[str] = frozenset()
    """Namespaces that are switched off (P-10)."""
    forbidden: Mapping[str, str] = field(default_factory=dict)
    """Namespaces that a site's policy switches off, with the policy file (P-10)."""
    ignore_static: frozenset[str] = frozenset()
    """Namespaces in which the detector takes precedence over static lists (P-20)."""
    table: tuple[EmulatedPlugin, ...] = EMULATED_PLUGINS
    """The plugins that built-in providers replace (P-60, P-64)."""
    device_policy: DevicePolicy = "all"
    """``all``: every device; ``highest``: the most capable one; ``lowest``: the least capable
    one, as conda decides; ``any``: at least one (P-88)."""
    abi_dependency: bool = True
    """Whether builds made for a version of another package may be chosen (P-50)."""
    abi_versions: Mapping[NormalizedName, KnownVersion] = field(default_factory=dict)
    """Versions of such packages that the user declares; they replace installed ones (P-57)."""


class ProviderSteps(Struct, eq=False):
    """The six steps for one document and one target."""

    document: VariantDocument
    machine: Detector | None
    host_detector: Detector | None
    environment: Mapping[str, str]
    policy: ProviderPolicy
    known: KnownVersions = KnownVersions()
    plugins: Plugins = NoPlugins()
    detections: dict[str, Detection] = field(default_factory=dict)
    """The detections so far, by namespace."""
    examined: dict[str, str] = field(default_factory=dict)
    """The machine or list that was detected, in words, if it is not this machine."""
    missing_entries: dict[str, list[str]] = field(default_factory=dict)
    """The namespaces without an entry in the user's lists, by reason."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on missing entries in the user's lists (P-44)."""
        return tuple(
            f"{', '.join(namespaces)}: {reason}, so unsupported"
            for reason, namespaces in self.missing_entries.items()
        )

    def detect(self, namespace: str) -> None:
        """Detect one namespace, and store the result in ``detections``."""
        self.detections[namespace] = self._detect(namespace)

    def _detect(self, namespace: str) -> Detection:
        provider = self.document.providers.get(namespace)
        disabled = self._disabled(namespace, provider)
        if disabled is not None:  # P-10
            return disabled._replace(step="disabled")
        match provider:
            case BrokenProvider(reason):  # F-130
                return _unknown(namespace, f"its provider entry is broken: {reason}", "broken")
            case BuiltinProvider():  # P-16
                return self._from_builtin(namespace, provider)._replace(step="named-built-in")
            case StaticProvider():
                return self._from_static_list(namespace, provider)
            case _:
                return self._plugin_or_builtin(namespace, provider)

    # Step 1

    def _disabled(self, namespace: str, provider: Provider | None) -> Detection | None:
        def disabled(reason: str, *warnings: str) -> Detection:
            return Detection(namespace, status=Status.DISABLED, source=reason, warnings=warnings)

        if namespace in self.policy.forbidden:
            return disabled(f"switched off by {self.policy.forbidden[namespace]}")
        if namespace in self.policy.disabled:
            return disabled("switched off by the user")
        if provider is None or isinstance(provider, BrokenProvider):
            return None
        if provider.optional and namespace not in self.policy.enabled:  # P-2
            return disabled("an optional provider that is not enabled")
        if provider.enabled_by is None:
            return None
        try:  # F-51
            if parse_marker(provider.enabled_by).evaluate(self.environment):
                return None
        except InvalidMarker:
            reason = f"its marker cannot be used: {provider.enabled_by}"
            return disabled(reason, reason)
        return disabled(f"not for this platform: {provider.enabled_by}")

    # In place of steps 2 to 6

    def _from_builtin(self, namespace: str, provider: BuiltinProvider) -> Detection:
        if provider.name != ABI_DEPENDENCY:  # P-8
            return _unknown(namespace, f"there is no built-in provider {provider.name!r}")
        if not self.policy.abi_dependency:  # P-50
            source = "builds for a version of another package are switched off"
            return Detection(namespace, status=Status.DISABLED, source=source, warnings=(source,))
        return abi_dependency.detect(namespace, self.document, self.known)

    # Step 2

    def _from_static_list(self, namespace: str, provider: StaticProvider) -> Detection:
        if namespace in self.policy.ignore_static:  # P-20
            for detected in (self._from_user_list(namespace), self._from_machine(namespace)):
                if _is_known(detected):
                    source = f"{detected.source}, instead of the static list of the package"
                    return detected._replace(source=source)
        # P-11: exclusively, even for a namespace wheelfit could detect itself.
        self.examined[namespace] = PACKAGE_LIST
        return Detection(
            namespace,
            provider.features,
            status_of(provider.features),
            source="static list of the package",
            step="static-list",
        )

    # Steps 3 to 6

    def _plugin_or_builtin(self, namespace: str, provider: PluginProvider | None) -> Detection:
        plugin = None
        if provider is not None:
            plugin = recognise(namespace, provider, self.environment, table=self.policy.table)
        user_entry = self._from_user_list(namespace, plugin)
        if _is_known(user_entry):  # P-12
            return user_entry
        if self.machine is None:  # P-44: only the lists count
            answer = user_entry or _unknown(namespace, "no provider answered")
            self.missing_entries.setdefault(answer.source, []).append(namespace)
            return answer
        if plugin is None or provider is None:
            return _unknown(namespace, "the metadata names no provider for it", "missing")
        if plugin.builtin is None:  # P-63
            return self._from_plugin(namespace, provider, plugin, plugin.reason)
        detected = self._from_machine(plugin.builtin, plugin)  # P-13
        if detected is None:
            reason = f"wheelfit does not stand in for {plugin.package} yet"
            return self._from_plugin(namespace, provider, plugin, reason)
        source = detected.source
        if (
            self.policy.table != EMULATED_PLUGINS
            and recognise(namespace, provider, self.environment).builtin is None
        ):
            source += f", which {plugin.reason} by the configured table"  # P-64
        return detected._replace(namespace=namespace, source=source)

    def _from_plugin(
        self, namespace: str, provider: PluginProvider, plugin: Recognition, reason: str
    ) -> Detection:
        """Return the plugin's own answer, if it may be run, or the reason it is unsupported."""
        required = required_packages(provider, self.environment)
        if not required or plugin.plugin_api is None:
            fault = "" if not required else ", and its plugin-api is not an object reference"
            return _unknown(namespace, f"{reason}{fault}", "not-trusted")
        question = PluginQuestion(namespace, required, plugin.plugin_api)
        refusal = self.plugins.refusal(question)  # P-14, P-18: neither installed nor run
        if refusal is not None:
            return _unknown(namespace, f"{reason}, and {refusal}", "not-trusted")
        try:
            answer = self.plugins.ask(question)  # P-15
        except Exception as error:  # noqa: BLE001 - P-17: any error is an answer
            return _failed(namespace, f"plugin {question}", error, "plugin")
        return answer._replace(namespace=namespace)

    def _from_user_list(
        self, namespace: str, plugin: Recognition | None = None
    ) -> Detection | None:
        if self.host_detector is None:
            return None
        listed = _detect(self.host_detector, namespace, plugin)
        if _is_known(listed):
            self.examined[namespace] = listed.source or "the user's list"
            return listed._replace(step="user-list")
        return listed

    def _from_machine(self, builtin: str, plugin: Recognition | None = None) -> Detection | None:
        if self.machine is None:
            return None
        detected = _detect(self.machine, builtin, plugin)
        return None if detected is None else detected._replace(step="built-in")


def _is_known(detection: Detection | None) -> TypeGuard[Detection]:
    return detection is not None and detection.status is not Status.UNKNOWN


def _detect(detector: Detector, namespace: str, plugin: Recognition | None) -> Detection | None:
    package = plugin.package if plugin else None
    plugin_api = plugin.plugin_api if plugin else None
    try:
        return detector.detect(namespace, package=package, plugin_api=plugin_api)
    except Exception as error:  # noqa: BLE001 - P-17: any error is an answer
        return _failed(namespace, f"detection of {namespace}", error)


def _failed(namespace: str, source: str, error: Exception, step: str = "") -> Detection:
    return Detection(
        namespace,
        status=Status.FAILED,
        source=source,
        evidence=(Evidence(type(error).__name__, str(error)),),
        step=step,
    )


def _unknown(namespace: str, source: str, step: str = "") -> Detection:
    return Detection(namespace, status=Status.UNKNOWN, source=source, step=step)
