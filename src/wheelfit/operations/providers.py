"""The known providers and plugins."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from wheelfit.core.provider_table import EMULATED_PLUGINS, EmulatedPlugin
from wheelfit.core.providers import ABI_DEPENDENCY
from wheelfit.core.static_families import DATA_VERSION as FAMILIES_VERSION
from wheelfit.core.static_families import STATIC_FAMILIES
from wheelfit.core.trust import PluginRules, TrustEntry
from wheelfit.errors import did_you_mean
from wheelfit.installation.plugins.environments import environments_with
from wheelfit.operations.plain_data import plain_fields
from wheelfit.operations.plugins import plugin_folder
from wheelfit.operations.requests import CacheOptions
from wheelfit.operations.trust_store import read_policies, read_trust_file, trust_file
from wheelfit.operations.user_folders import home
from wheelfit_runtime.errors import UserError
from wheelfit_runtime.platforms import providers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from wheelfit.operations.context import Context
    from wheelfit_runtime.platforms.hardware_family import HardwareFamily

VERSIONS_NAMESPACE = ABI_DEPENDENCY
"""The namespace whose features are packages, and whose values are their versions."""
_LIST_HINT = "`wheelfit providers list` names every provider that is known"


class ProvidersRequest(CacheOptions):
    """The settings about providers."""

    enable_provider: tuple[str, ...] = ()
    disable_provider: tuple[str, ...] = ()
    plugin_timeout: float = 10.0
    provider_table: tuple[EmulatedPlugin, ...] = ()


@dataclass(frozen=True, slots=True)
class ProvidersReport:
    """The known providers and plugins, and the rules about them."""

    file: Path
    """The file of trusted plugins."""
    rules: PluginRules
    configured: ProvidersRequest
    """The user's settings about providers."""
    folder: Path
    """The folder in which trusted plugins are installed."""

    def disabled_by(self, namespace: str) -> str | None:
        """Return the file or setting that disables a namespace; None if it is not disabled."""
        if namespace in self.rules.policy.disabled:
            return self.rules.policy.disabled[namespace]
        if namespace in self.rules.trust.disabled:
            return str(self.file)
        if namespace in self.configured.disable_provider:
            return "disable-provider of wheelfit.toml"
        return None

    def enabled(self) -> list[str]:
        """Return the namespaces whose optional provider is enabled."""
        return sorted(self.rules.trust.enabled.union(self.configured.enable_provider))

    def disabled(self) -> dict[str, str]:
        """Return the disabled namespaces, each with the file or setting that disables it."""
        names = {*self.rules.policy.disabled, *self.rules.trust.disabled}
        names |= set(self.configured.disable_provider)
        return {name: self.disabled_by(name) or "" for name in sorted(names)}

    def built_in(self, family: HardwareFamily) -> dict[str, Any]:
        """Return a built-in provider as plain data."""
        namespace = family.namespace
        rows = (*self.configured.provider_table, *EMULATED_PLUGINS)
        return {
            "namespace": namespace,
            "data_version": family.provider.data_version,
            "emulates": [
                plain_fields(row, "package versions", plugin_api=row.endpoints)
                for row in rows
                if row.namespace == namespace
            ],
            "off": self.disabled_by(namespace),
        }

    def trusted(self) -> list[dict[str, Any]]:
        """Return every plugin that is trusted, by the user or by the site."""
        entries = [self._entry(entry, "user") for entry in self.rules.trust.entries]
        for policy in self.rules.policy.files:
            if policy.grants_trust:
                entries += [self._entry(entry, policy.where) for entry in policy.entries]
        return entries

    def _entry(self, entry: TrustEntry, origin: str) -> dict[str, Any]:
        question = entry.question()
        forbidden_by = self.rules.policy.forbids_plugins
        refusal = None
        if question is not None:
            refusal = self.rules.judge(question).refusal
        elif forbidden_by is not None:
            refusal = f'plugins are forbidden by {forbidden_by} (plugins = "never")'
        digests = {file.sha256 for file in entry.files}
        environments = environments_with(self.folder, digests)
        return plain_fields(
            entry,
            "package versions namespace plugin_api",
            files=[plain_fields(file, "filename sha256") for file in entry.files],
            source=entry.source or None,
            added=entry.added or None,
            by=origin,
            refusal=refusal,
            environments=list(environments),
        )

    def policies(self) -> list[dict[str, Any]]:
        """Return the policies in force."""
        return [
            plain_fields(
                policy,
                "plugins",
                file=policy.where,
                disabled=sorted(policy.disabled),
                listed=sorted({entry.package for entry in policy.entries}),
                grants=policy.grants_trust,
            )
            for policy in self.rules.policy.files
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {
            "version": 1,
            "action": "list",
            "file": str(self.file),
            "policies": self.policies(),
            "built_in": [self.built_in(family) for family in providers.families()],
            "static_families": [
                plain_fields(family, "namespace purpose", data_version=FAMILIES_VERSION)
                for family in STATIC_FAMILIES.values()
            ],
            "trusted": self.trusted(),
            "enabled": self.enabled(),
            "disabled": [
                {"namespace": name, "by": origin} for name, origin in self.disabled().items()
            ],
        }

    def about(self, name: str) -> dict[str, Any] | None:
        """Return the facts about a namespace or a package; None if it is unknown."""
        package = canonicalize_name(name)
        everything = self.to_json()
        facts: dict[str, Any] = {
            "built_in": None,
            "vocabulary": [],
            "static_family": None,
            "trusted": [
                plugin
                for plugin in everything["trusted"]
                if name == plugin["namespace"] or package == plugin["package"]
            ],
            "emulated_by": sorted(
                {row.namespace for row in EMULATED_PLUGINS if row.package == package}
            ),
            "off": self.disabled_by(name),
            "policies": everything["policies"],
        }
        if (family := providers.by_namespace(name)) is not None:
            facts["built_in"] = self.built_in(family)
            facts["vocabulary"] = _vocabulary(family)
        if name in STATIC_FAMILIES:
            facts["static_family"] = {
                "purpose": STATIC_FAMILIES[name].purpose,
                "data_version": FAMILIES_VERSION,
                "template": STATIC_FAMILIES[name].template(),
            }
        known = ("built_in", "static_family", "trusted", "emulated_by", "off")
        if name != ABI_DEPENDENCY and not any(facts[key] for key in known):
            return None
        return {"version": 1, "action": "show", "name": name, **facts}


def list_providers(request: ProvidersRequest, context: Context) -> ProvidersReport:
    """Return the known providers and plugins."""
    file = trust_file(context.environ, sys.platform, home())
    trust = read_trust_file(file, context.reporter.warn)
    return ProvidersReport(
        file,
        PluginRules(trust, read_policies(context.environ)),
        request,
        plugin_folder(request, context.environ),
    )


def show_provider(name: str, request: ProvidersRequest, context: Context) -> dict[str, Any]:
    """Return the facts about a namespace or a package, as the object of ``--json``.

    :raises UserError: it is unknown.
    """
    about = list_providers(request, context).about(name)
    if about is None:
        raise UserError(f"{name!r} is not a known provider", hint=_LIST_HINT)
    return about


def check_namespaces(names: Iterable[str], request: ProvidersRequest, context: Context) -> None:
    """Raise on unknown namespaces, which are likely misspelt.

    :raises UserError: a namespace is unknown.
    """
    report = list_providers(request, context)
    if any(entry.namespace is None for entry in report.rules.entries):
        return  # a plugin is trusted for any namespace
    emulated = {row.namespace for row in request.provider_table}
    for name in names:
        if name not in emulated and report.about(name) is None:
            hint = did_you_mean(name, providers.namespaces(), _LIST_HINT)
            raise UserError(f"{name!r} is not a known provider", hint=hint)


def _vocabulary(family: HardwareFamily) -> list[dict[str, Any]]:
    """Return every feature of a built-in provider in its order, with its possible values."""
    return [
        {"feature": config.name, "values": list(config.values), "multi_value": config.multi_value}
        for config in family.provider.get_all_configs()
    ]
