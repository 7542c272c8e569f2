"""What there is to know about providers, as plain data and in words."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wheelfit.cli.columns import columns
from wheelfit.core.provider_table import EMULATED_PLUGINS
from wheelfit.core.providers import ABI_DEPENDENCY
from wheelfit.core.static_families import DATA_VERSION as FAMILIES_VERSION
from wheelfit.core.static_families import STATIC_FAMILIES
from wheelfit.core.trust import PluginRules
from wheelfit.install.environment import open_environment
from wheelfit.install.plugins.environments import environments_holding
from wheelfit.install.plugins.listed import listed_plugins
from wheelfit.operations.plugins import plugin_folder
from wheelfit.operations.trust_store import read_policies, read_trust_file, trust_file
from wheelfit.operations.user_folders import home
from wheelfit.platforms import families
from wheelfit.wording import count_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from wheelfit.cli.output import Output
    from wheelfit.core.trust import TrustEntry
    from wheelfit.install.plugins.listed import ListedPlugin
    from wheelfit.platforms.family import Family


@dataclass(frozen=True, slots=True)
class KnownProviders:
    """Hold everything that decides about providers here."""

    file: Path
    """Where it is written what the user trusts."""
    rules: PluginRules
    configured: Namespace
    """The user's own settings, as far as they concern providers."""
    installed: tuple[ListedPlugin, ...] = ()
    """Plugins in the environment that is looked at; nobody asks them there (P-32)."""
    folder: Path | None = None
    """Where plugins are installed that wheelfit asks."""

    @classmethod
    def read(
        cls, arguments: Namespace, environ: Mapping[str, str], output: Output
    ) -> KnownProviders:
        """Read the files that decide, and what is installed.

        :param arguments: of ``wheelfit providers``.
        :param environ: the environment of the process.
        :param output: told when the user's file does not count.
        """
        file = trust_file(environ, sys.platform, home())
        rules = PluginRules(read_trust_file(file, output.warn), read_policies(environ))
        environment = open_environment(arguments.python, environ=environ)
        installed = tuple(listed_plugins(environment.installed()))
        return cls(file, rules, arguments, installed, plugin_folder(arguments, environ))

    def why_off(self, namespace: str) -> str | None:
        """Return who switched a namespace off; None when nobody did."""
        if namespace in self.rules.policy.disabled:
            return self.rules.policy.disabled[namespace]
        if namespace in self.rules.trust.disabled:
            return str(self.file)
        if namespace in self.configured.disable_provider:
            return "disable-provider of wheelfit.toml"
        return None

    def enabled(self) -> list[str]:
        """Return the namespaces whose optional provider may answer."""
        return sorted(self.rules.trust.enabled.union(self.configured.enable_provider))

    def disabled(self) -> dict[str, str]:
        """Return the namespaces that are switched off, and who did it."""
        names = {*self.rules.policy.disabled, *self.rules.trust.disabled}
        names |= set(self.configured.disable_provider)
        return {name: self.why_off(name) or "" for name in sorted(names)}

    def built_in(self, family: Family) -> dict[str, Any]:
        """Return what is known about a built-in provider."""
        namespace = family.namespace
        rows = (*self.configured.provider_table, *EMULATED_PLUGINS)
        return {
            "namespace": namespace,
            "data_version": family.provider.DATA_VERSION,
            "stands_in_for": [
                {
                    "package": row.package,
                    "versions": list(row.versions),
                    "plugin_api": list(row.endpoints),
                }
                for row in rows
                if row.namespace == namespace
            ],
            "off": self.why_off(namespace),
        }

    def trusted(self) -> list[dict[str, Any]]:
        """Return every plugin that is trusted, by the user or by the site."""
        found = [self._entry(entry, "user") for entry in self.rules.trust.entries]
        for policy in self.rules.policy.files:
            if policy.grants:
                found += [self._entry(entry, policy.where) for entry in policy.entries]
        return found

    def _entry(self, entry: TrustEntry, by: str) -> dict[str, Any]:
        question = entry.question()
        never = self.rules.policy.forbids_plugins
        refusal = f'plugins are forbidden by {never} (plugins = "never")' if never else None
        if question is not None:
            refusal = self.rules.judge(question).refusal
        digests = {file.sha256 for file in entry.files}
        places = () if self.folder is None else environments_holding(self.folder, digests)
        return {
            "package": entry.package,
            "versions": str(entry.versions),
            "namespace": entry.namespace,
            "plugin_api": entry.plugin_api,
            "files": [{"filename": one.filename, "sha256": one.sha256} for one in entry.files],
            "source": entry.source or None,
            "added": entry.added or None,
            "by": by,
            "refusal": refusal,
            "environments": [str(place) for place in places],
        }

    def policies(self) -> list[dict[str, Any]]:
        """Return the policies in force."""
        return [
            {
                "file": policy.where,
                "plugins": policy.plugins,
                "disabled": sorted(policy.disabled),
                "listed": sorted({entry.package for entry in policy.entries}),
                "grants": policy.grants,
            }
            for policy in self.rules.policy.files
        ]

    def to_mapping(self) -> dict[str, Any]:
        """Return all of it as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "version": 1,
            "action": "list",
            "file": str(self.file),
            "policies": self.policies(),
            "built_in": [self.built_in(family) for family in families.every()],
            "static_families": [
                {
                    "namespace": one.namespace,
                    "purpose": one.purpose,
                    "data_version": FAMILIES_VERSION,
                }
                for one in STATIC_FAMILIES.values()
            ],
            "trusted": self.trusted(),
            "enabled": self.enabled(),
            "disabled": [{"namespace": name, "by": by} for name, by in self.disabled().items()],
            "installed": [
                {
                    "package": one.entry.name,
                    "version": str(one.entry.version),
                    "name": one.name,
                    "plugin_api": one.plugin_api,
                    "location": str(one.entry.location),
                }
                for one in self.installed
            ],
        }

    def about(self, name: str) -> dict[str, Any] | None:
        """Return everything about a namespace or a package; None when nothing is known.

        :param name: as the user wrote it.
        """
        from packaging.utils import canonicalize_name

        package = canonicalize_name(name)
        everything = self.to_mapping()
        found: dict[str, Any] = {
            "built_in": None,
            "vocabulary": [],
            "static_family": None,
            "trusted": [
                one
                for one in everything["trusted"]
                if name == one["namespace"] or package == one["package"]
            ],
            "installed": [one for one in everything["installed"] if package == one["package"]],
            "stood_in_for_by": sorted(
                {row.namespace for row in EMULATED_PLUGINS if row.package == package}
            ),
            "off": self.why_off(name),
            "policies": everything["policies"],
        }
        if (family := families.by_namespace(name)) is not None:
            found["built_in"] = self.built_in(family)
            found["vocabulary"] = _vocabulary(family)
        if name in STATIC_FAMILIES:
            found["static_family"] = {
                "purpose": STATIC_FAMILIES[name].purpose,
                "data_version": FAMILIES_VERSION,
                "template": STATIC_FAMILIES[name].template(),
            }
        known = ("built_in", "static_family", "trusted", "installed", "stood_in_for_by", "off")
        if name == ABI_DEPENDENCY:
            found["static_family"] = None
        elif not any(found[key] for key in known):
            return None
        return {"version": 1, "action": "show", "name": name, **found}


def _vocabulary(family: Family) -> list[dict[str, Any]]:
    """Return every feature of a built-in provider in its order, with what can be a value."""
    return [
        {"feature": one.name, "values": list(one.values), "multi_value": one.multi_value}
        for one in family.provider.get_all_configs()
    ]


def print_list(known: KnownProviders, output: Output) -> None:
    """Print every provider that is known.

    :param known: what decides.
    :param output: where to.
    """
    rows = []
    for hardware in families.every():
        one = known.built_in(hardware)
        packages = dict.fromkeys(row["package"] for row in one["stands_in_for"])
        state = f"off: {one['off']}" if one["off"] else f"built in, data of {one['data_version']}"
        rows.append((hardware.namespace, state, ", ".join(packages)))
    for family in STATIC_FAMILIES.values():
        state = f"static, data of {FAMILIES_VERSION}"
        rows.append((family.namespace, state, "a template for pyproject.toml"))
    rows.append((ABI_DEPENDENCY, "built in", "versions of other packages"))
    listed = {row[0] for row in rows}
    rows += [
        (name, f"off: {by}", "") for name, by in known.disabled().items() if name not in listed
    ]
    rows += [(name, "optional, enabled", "") for name in known.enabled() if name not in listed]
    _table(("Namespace", "Provider", "Stands in for"), rows, output)
    trusted = known.trusted()
    output.result()
    if not trusted:
        output.result("No plugin is trusted, so none is installed or run.")
    else:
        output.result("Trusted plugins")
        lines = [
            (
                f"  {one['package']}{one['versions']}",
                one["namespace"] or "any namespace",
                f"{len(one['files'])} files" if len(one["files"]) != 1 else "1 file",
                f"by {one['by']}" if one["by"] != "user" else "",
                f"not used: {one['refusal']}" if one["refusal"] else "",
            )
            for one in trusted
        ]
        for line in columns(("", "", "", "", ""), lines)[2:]:
            output.result(line)
    if known.installed:
        output.result()
        output.result("Installed in this environment (never asked there)")
        for plugin in known.installed:
            name, version = plugin.entry.name, plugin.entry.version
            output.result(f"  {name} {version}  {plugin.plugin_api}")
    _print_policies(known, output)


def _print_policies(known: KnownProviders, output: Output) -> None:
    for one in known.policies():
        output.result()
        words = [f'plugins = "{one["plugins"]}"']
        words += [f"off: {', '.join(one['disabled'])}"] if one["disabled"] else []
        words += [f"lists {', '.join(one['listed'])}"] if one["listed"] else []
        output.result(f"Policy {one['file']}: {'; '.join(words)}")


def print_one(about: Mapping[str, Any], known: KnownProviders, output: Output) -> None:
    """Print everything about one namespace or package.

    :param about: what `KnownProviders.about` returned.
    :param known: what decides.
    :param output: where to.
    """
    output.result(str(about["name"]), "strong")
    if about["off"]:
        output.result(f"  switched off by {about['off']}")
    if (built_in := about["built_in"]) is not None:
        output.result(f"  built in, data of {built_in['data_version']}")
        for row in built_in["stands_in_for"]:
            output.result(f"  stands in for {row['package']} {', '.join(row['versions'])}")
        _print_vocabulary(about["vocabulary"], output)
    if (family := about["static_family"]) is not None:
        output.result(f"  static, data of {family['data_version']}; for pyproject.toml:")
        for line in family["template"].rstrip().splitlines():
            output.result(f"    {line}".rstrip())
    if about["name"] == ABI_DEPENDENCY:
        output.result("  built in; features are names of packages, values their versions")
    for namespace in about["stood_in_for_by"]:
        output.result(
            f"  wheelfit's own {namespace} provider answers instead, where versions agree"
        )
    for one in about["trusted"]:
        by = "" if one["by"] == "user" else f" by {one['by']}"
        output.result(f"  trusted{by}: {one['package']}{one['versions']}")
        for title, value in (
            ("namespace", one["namespace"] or "any"),
            ("plugin-api", one["plugin_api"] or "any"),
            ("source", one["source"]),
            ("since", one["added"]),
            ("not used", one["refusal"]),
        ):
            if value:
                output.result(f"    {title:<11}{value}")
        for file in one["files"]:
            output.result(f"    sha256 {file['sha256']}  {file['filename']}")
        for place in one["environments"]:
            output.result(f"    installed  {place}")
    for one in about["installed"]:
        output.result(f"  installed in {one['location']}: {one['version']}, {one['plugin_api']}")
    _print_policies(known, output)


def _print_vocabulary(vocabulary: Sequence[Mapping[str, Any]], output: Output) -> None:
    flags = [one["feature"] for one in vocabulary if one["values"] == ["on"]]
    for one in vocabulary:
        if one["feature"] not in flags:
            count = len(one["values"])
            many = ", several of them per wheel" if one["multi_value"] else ""
            values = _shortened(one["values"], output)
            output.result(f"  {one['feature']}: {count_of(count, 'value')}{many}: {values}")
    if flags:
        output.result(f"  {len(flags)} features with value on: {_shortened(flags, output)}")


def _shortened(values: Sequence[str], output: Output) -> str:
    if len(values) <= 8 or output.verbosity > 0:
        return ", ".join(values)
    return f"{', '.join(values[:5])}, … {values[-1]}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], output: Output) -> None:
    for line in columns(head, rows):
        output.result(line)
