"""The valid values in a project's namespaces, as providers in its build environment say (B-23).

Plugins are installed with the build requirements, and run in the environment of the backend before
the build, confined like any plugin. Built-in namespaces need no plugin.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wheelfit.checking.documents.document import check_variant_document, has_builtin_vocabulary
from wheelfit.checking.findings import Location, Severity
from wheelfit.core.metadata import write_document
from wheelfit.core.plugin_answer import PluginAnswer, read_report
from wheelfit.core.project_table import BuildTimeProvider, ProjectTable, wheel_document
from wheelfit.core.providers import (
    BuiltinProvider,
    PluginProvider,
    StaticProvider,
    effective_endpoint,
    required_packages,
)
from wheelfit_runtime.errors import Fault, InvalidDocument
from wheelfit_runtime.platforms.plugin_process import Method, ask

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label
    from wheelfit.core.properties import PropertySet

_REFUSED_CODES = frozenset(["unknown-feature", "unknown-value", "several-values"])
"""Codes of findings that are warnings of `check`, and refused by a build (B-25)."""


@dataclass(frozen=True, slots=True)
class ProviderAnswers:
    """The answers of providers, for the wheels of one project."""

    table: ProjectTable
    build_time: Mapping[str, PluginAnswer] = field(default_factory=dict, hash=False)
    """The answers of plugins that every build requires, by namespace (B-20)."""
    valid: Mapping[str, PluginAnswer] = field(default_factory=dict, hash=False)
    """The valid values that other installed plugins report, by namespace (B-25)."""
    plugins: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Name and version of the plugin that answered, by namespace (B-24)."""

    def document(
        self, label: Label, properties: PropertySet, note: Callable[[str], None]
    ) -> VariantDocument:
        """Return the document of one wheel, validated as far as possible.

        :raises InvalidDocument: it breaks a rule, or has values unknown to a provider; lists all
            faults.
        """
        valid = {
            namespace: answer.features
            for namespace, answer in self.valid.items()
            if answer.failure is None
        }
        document = wheel_document(
            self.table, label, properties, answers=self.build_time, vocabulary=valid
        )
        findings, _ = check_variant_document(write_document(document), Location(""), label=label)
        faults = []
        for finding in findings:
            if finding.severity is Severity.ERROR or finding.code in _REFUSED_CODES:
                faults.append(Fault(finding.path, finding.message, finding.rule))
            else:
                note(f"{finding.path or 'the document'}: {finding.message}")
        if faults:
            raise InvalidDocument(faults)
        return document

    def validators(self, properties: PropertySet) -> Mapping[str, str | None]:
        """Return the validator of the properties of each namespace; None if there was none."""
        return {namespace: self._validator(namespace) for namespace in properties.namespaces}

    def _validator(self, namespace: str) -> str | None:
        match self.table.providers.get(namespace):
            case BuildTimeProvider():
                return f"plugin {self.plugins[namespace]}, asked at build time"
            case StaticProvider():
                return "static list"
            case BuiltinProvider():
                return "built-in provider"
            case PluginProvider() if self._has_answer(namespace):
                return f"plugin {self.plugins[namespace]}"
            case PluginProvider() as provider if has_builtin_vocabulary(namespace, provider):
                return "built-in provider"
            case _:
                return None

    def _has_answer(self, namespace: str) -> bool:
        return namespace in self.valid and self.valid[namespace].failure is None


def plugin_requirements(
    table: ProjectTable, used: Collection[str], *, validate: bool
) -> tuple[str, ...]:
    """Return the plugins to add to the build requirements (B-12, B-23)."""
    requirements: list[str] = []
    for namespace, provider in table.providers.items():
        if isinstance(provider, BuildTimeProvider) or (
            validate and isinstance(provider, PluginProvider) and namespace in used
        ):
            requirements += provider.requires
    return tuple(dict.fromkeys(requirements))


def plugin_names(table: ProjectTable) -> tuple[str, ...]:
    """Return the names of all packages that providers require, whatever their markers."""
    names: list[str] = []
    for provider in table.providers.values():
        if isinstance(provider, BuildTimeProvider | PluginProvider):
            plugin = PluginProvider(tuple(text.partition(";")[0] for text in provider.requires))
            names += [package.name for package in required_packages(plugin, {})]
    return tuple(dict.fromkeys(names))


def ask_providers(
    table: ProjectTable,
    used: Iterable[str],
    *,
    validate: bool,
    python: Path,
    machine: Mapping[str, str],
    packages: Mapping[str, str | None],
    environ: Mapping[str, str],
    deadline: float,
    note: Callable[[str], None],
) -> ProviderAnswers:
    """Run the plugins that are in a build environment, and return their answers.

    :param validate: whether plugins with a built-in vocabulary are asked, too. Those without one
        are asked whenever they are installed.
    :param environ: the environment variables of the caller; a plugin sees few of them (P-35).
    """
    used_namespaces = set(used)
    build_time: dict[str, PluginAnswer] = {}
    valid: dict[str, PluginAnswer] = {}
    plugins: dict[str, str] = {}

    def answer_of(namespace: str, plugin: PluginProvider, method: Method) -> PluginAnswer | None:
        required = required_packages(plugin, machine)
        endpoint = effective_endpoint(plugin, machine)
        if not required or endpoint is None:
            return PluginAnswer(failure="its plugin has no package for this environment")
        name = required[0].name
        version = packages.get(name)
        if version is None or not required[0].specifier.contains(version, prereleases=True):
            return None
        plugins[namespace] = f"{name} {version}"
        note(f"asking plugin {name} {version} about {namespace}")
        report = ask(str(python), endpoint, method=method, environ=environ, deadline=deadline)
        if report.failure is not None or report.configs is None:
            return PluginAnswer(failure=f"its plugin failed: {report.failure or 'no answer'}")
        answer = read_report(report.configs, report.flags)
        for remark in (*report.notes, *answer.warnings):
            note(f"plugin {name} {version}: {remark}")
        return answer

    for namespace, provider in table.providers.items():
        if isinstance(provider, BuildTimeProvider):
            answer = answer_of(namespace, provider.plugin, "get_supported_configs")
            missing = f"its plugin is not installed: {', '.join(provider.requires)}"
            build_time[namespace] = answer or PluginAnswer(failure=missing)
        elif isinstance(provider, PluginProvider) and namespace in used_namespaces:
            if has_builtin_vocabulary(namespace, provider) and not validate:
                continue
            configs = answer_of(namespace, provider, "get_all_configs")
            if configs is not None:
                valid[namespace] = configs
                if configs.failure is not None:
                    note(f"{namespace}: {configs.failure}")
    return ProviderAnswers(table, build_time, valid, plugins)
