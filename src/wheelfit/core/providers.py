"""Provider metadata as values: the sources of a machine's support (P-1 to P-9).

Some plugins need not be run, because a built-in provider returns the same answer. `recognise`
recognises them (P-60 to P-63).
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from packaging.utils import canonicalize_name

from wheelfit.core.provider_table import EMULATED_PLUGINS, EmulatedPlugin
from wheelfit.core.requirements import Requirement, parse_requirement
from wheelfit.errors import InvalidMarker, InvalidRequirement
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit_runtime.platforms.features import FeatureConfig

ABI_DEPENDENCY = "abi_dependency"
"""The only built-in provider (P-8), and its namespace in old documents (F-54)."""


class StaticProvider(Struct, frozen=True):
    """A provider with a static list, for which no code is run (P-3)."""

    features: tuple[FeatureConfig, ...]
    """Supported features, most preferred first; empty: nothing is supported."""
    optional: bool = False
    """Whether the user must enable it by name (P-2)."""
    enabled_by: str | None = None
    """Legacy ``enable-if``: a marker about the target; false disables (F-51)."""

    def __str__(self) -> str:
        lists = [f"{feature.name} = {', '.join(feature.values)}" for feature in self.features]
        return f"static-properties {'; '.join(lists)}"


class PluginProvider(Struct, frozen=True):
    """A plugin that packages contain (P-6)."""

    requires: tuple[str, ...]
    """Dependency specifiers of the plugin, as written; at least one."""
    plugin_api: str | None = None
    """Object reference of the plugin; None: the default of P-7."""
    optional: bool = False
    """Whether the user must enable it by name (P-2)."""
    enabled_by: str | None = None
    """Legacy ``enable-if``: a marker about the target; false disables (F-51)."""

    def __str__(self) -> str:
        endpoint = f" with {self.plugin_api}" if self.plugin_api else ""
        return f"requires {', '.join(self.requires)}{endpoint}"


class BuiltinProvider(Struct, frozen=True):
    """A provider that is built into every tool (P-8)."""

    name: str
    """Any but `ABI_DEPENDENCY` makes the namespace unsupported."""
    optional: bool = False
    """Whether the user must enable it by name (P-2)."""
    enabled_by: str | None = None
    """Legacy ``enable-if``: a marker about the target; false disables (F-51)."""

    def __str__(self) -> str:
        return f"builtin {self.name}"


class BrokenProvider(Struct, frozen=True):
    """A provider entry that cannot be used (F-130)."""

    reason: str
    """Its first fault, with the place in the document."""

    def __str__(self) -> str:
        return f"unusable ({self.reason})"


Provider: TypeAlias = StaticProvider | PluginProvider | BuiltinProvider | BrokenProvider
"""One entry of ``providers``."""


class Recognition(Struct, frozen=True):
    """The decision whether a built-in provider stands in for a plugin (P-60 to P-63)."""

    builtin: str | None
    """The name of the built-in provider; None if none stands in."""
    reason: str
    """The reason, one sentence without a final full stop."""
    package: str | None = None
    """The normalised name of the first required package; None if there is none."""
    plugin_api: str | None = None
    """Effective endpoint, blanks removed (P-7)."""


class PluginQuestion(Struct, frozen=True):
    """A question to a plugin, as a document names it (P-15)."""

    namespace: str
    requirements: tuple[Requirement, ...]
    """The packages to install in the plugin's environment; at least one."""
    endpoint: str
    """Effective object reference, blanks removed (P-7)."""

    def __str__(self) -> str:
        return ", ".join(
            f"{requirement.name}{requirement.specifier}" for requirement in self.requirements
        )


_ENDPOINT = pattern(
    r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"(?:[ \t]*:[ \t]*(?P<attributes>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*))?",
    re.ASCII,
)


def parse_endpoint(text: str) -> str | None:
    """Parse an object reference ``module(.sub)*(:attr(.attr)*)?`` (P-7).

    :return: the reference without blanks; None if it is invalid.
    """
    match = _ENDPOINT.fullmatch(text.strip(" \t"))
    if match is None:
        return None
    module, attributes = match["module"], match["attributes"]
    return module if attributes is None else f"{module}:{attributes}"


def default_endpoint(package: str) -> str:
    """Return the endpoint of a plugin without ``plugin-api`` (P-7)."""
    return canonicalize_name(package).replace("-", "_")


def required_packages(
    provider: PluginProvider, environment: Mapping[str, str]
) -> tuple[Requirement, ...]:
    """Return the requirements of a plugin in an environment (P-6).

    :return: the requirements whose marker is true, in order.
    """
    requirements: list[Requirement] = []
    for text in provider.requires:
        # Readers refused invalid requirements (F-130); a marker may still use a variable missing
        # from the environment.
        with suppress(InvalidRequirement, InvalidMarker):
            requirement = parse_requirement(text, allow_variant_markers=False)
            if requirement.applies(environment):
                requirements.append(requirement)
    return tuple(requirements)


def effective_endpoint(provider: PluginProvider, environment: Mapping[str, str]) -> str | None:
    """Return the object reference of a plugin (P-7).

    :return: the reference without blanks; None when nothing is required there.
    """
    if provider.plugin_api is not None:
        return parse_endpoint(provider.plugin_api)
    requirements = required_packages(provider, environment)
    return default_endpoint(requirements[0].name) if requirements else None


def recognise(
    namespace: str,
    provider: PluginProvider,
    environment: Mapping[str, str],
    *,
    table: Iterable[EmulatedPlugin] = EMULATED_PLUGINS,
) -> Recognition:
    """Return the decision whether a built-in provider stands in for a plugin (P-60, P-62, P-63)."""
    requirements = required_packages(provider, environment)
    package = requirements[0].name if requirements else None
    endpoint = effective_endpoint(provider, environment)

    def answer(builtin: str | None, reason: str) -> Recognition:
        return Recognition(builtin, reason, package, endpoint)

    if len(requirements) != 1:  # P-62
        count = f"{len(requirements)} packages" if requirements else "no package"
        return answer(None, f"its plugin needs {count} here, not exactly one")
    (requirement,) = requirements
    rows = [row for row in table if (row.namespace, row.package) == (namespace, package)]
    if not rows:  # P-63: a known namespace is not enough
        return answer(None, f"no built-in provider stands in for {package} as {namespace}")
    if requirement.extras or requirement.url:  # P-62
        return answer(None, f"{package} is required with an extra or from a URL")
    rows = [row for row in rows if endpoint in row.endpoints]
    if not rows:
        return answer(None, f"no built-in provider emulates {endpoint} of {package}")
    for row in rows:
        for version in reversed(row.versions):
            if requirement.specifier.contains(version, prereleases=True):
                return answer(row.namespace, f"stands in for {package} {version}")
    versions = ", ".join(version for row in rows for version in row.versions)
    return answer(
        None, f"{package}{requirement.specifier} excludes the emulated versions ({versions})"
    )
