"""The ``[variant]`` table of pyproject.toml: the defaults of a project's wheels (B-1).

It has the structure of the document in a wheel, and one addition: a provider may name a plugin that
is run when a wheel is built and fills in a static list (B-20). No plugin is run here; the caller
passes its answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from wheelfit.core import abi_exports, strict_json
from wheelfit.core.document import VariantDocument
from wheelfit.core.labels import Label, writer_warnings
from wheelfit.core.metadata import writing_faults
from wheelfit.core.plugin_answer import PluginAnswer, vocabulary_faults
from wheelfit.core.properties import Feature, PropertySet
from wheelfit.core.providers import PluginProvider, Provider, StaticProvider
from wheelfit.core.strict_json import path_of, shown
from wheelfit.core.variant_json_layouts import detect, entries, priorities, schema, variants
from wheelfit.core.variant_json_layouts.findings import Findings
from wheelfit.core.variant_json_layouts.priorities import order_static
from wheelfit_runtime.errors import Fault, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit.core.abi_exports import AbiExports
    from wheelfit_runtime.platforms.features import FeatureConfig

TABLE = "variant"
"""The name of the table in pyproject.toml."""
_PLACEHOLDER = {"static-properties": {"x": ["1"]}}
"""A valid entry in place of one with ``build-requires``, which readers of documents refuse."""
# Rules for documents only: their writer sorts values (F-23) and drops empty objects (F-25), and a
# table has providers whatever its $schema (F-42).
_RULES_OF_DOCUMENTS = frozenset(["F-23", "F-25", "F-42"])
_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BuildTimeProvider:
    """A plugin that fills in a static list when a wheel is built (B-20)."""

    requires: tuple[str, ...]
    """Dependency specifiers of the plugin, as written; at least one."""
    plugin_api: str | None = None
    """Object reference of the plugin; None: derived from the requirement (P-7)."""
    optional: bool = False
    """Whether users of the wheel must enable the provider; a build always runs the plugin."""

    @property
    def plugin(self) -> PluginProvider:
        """The plugin to run, as a provider of a document."""
        return PluginProvider(self.requires, self.plugin_api)


TableProvider: TypeAlias = Provider | BuildTimeProvider
"""An entry of ``[variant.providers]``."""


@dataclass(frozen=True, slots=True)
class ProjectTable:
    """A valid ``[variant]`` table.

    The mappings are copied and cannot be changed; use `dataclasses.replace`.
    """

    priorities: tuple[str, ...]
    """Namespaces, most important first (F-21)."""
    providers: Mapping[str, TableProvider]
    """By namespace, in the order of the priorities."""
    variants: Mapping[Label, PropertySet] = field(default_factory=dict)
    """The variants that the table lists; a build may have others (B-3)."""
    feature_priorities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The features that come first, by namespace; only in old tables (F-49)."""
    value_priorities: Mapping[Feature, tuple[str, ...]] = field(default_factory=dict)
    """The values that come first, by feature; only in old tables (F-49)."""
    notes: tuple[str, ...] = ()
    """Notes on outdated or unusual parts of the table, one sentence each."""
    abi_exports: AbiExports | None = None
    """The ABI exports of the project, which are in no document (B-61)."""

    def __post_init__(self) -> None:
        for name in ("providers", "variants", "feature_priorities", "value_priorities"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def build_time_providers(self) -> Mapping[str, BuildTimeProvider]:
        """The providers whose plugin a build runs, including optional ones (B-20)."""
        return {
            namespace: provider
            for namespace, provider in self.providers.items()
            if isinstance(provider, BuildTimeProvider)
        }

    def without(self, namespace: str) -> ProjectTable | None:
        """Return the table without a namespace and its provider (B-8).

        :return: None if no namespace is left.
        :raises InvalidDocument: labels of the table use the namespace.
        """
        faults = [
            Fault(path_of(TABLE, "variants", label, namespace), "it is still in use", "F-21")
            for label, properties in self.variants.items()
            if namespace in properties.namespaces
        ]
        if faults:
            raise InvalidDocument(faults)
        remaining = tuple(name for name in self.priorities if name != namespace)
        if not remaining:
            return None
        return replace(
            self,
            priorities=remaining,
            providers={name: self.providers[name] for name in remaining if name in self.providers},
            feature_priorities={
                name: features
                for name, features in self.feature_priorities.items()
                if name != namespace
            },
            value_priorities={
                feature: values
                for feature, values in self.value_priorities.items()
                if feature.namespace != namespace
            },
        )


def read_project_table(
    pyproject: Mapping[str, Any], *, where: str = "pyproject.toml"
) -> ProjectTable | None:
    """Read the ``[variant]`` table of a project (B-1 to B-5, B-7, B-20).

    :return: None if there is no such table, or it has only ABI exports.
    :raises InvalidDocument: it has faults; each with its path, as
        ``variant.providers.x86_64.requires[0]``.
    """
    if TABLE not in pyproject:
        return None
    table = pyproject[TABLE]
    try:
        if not isinstance(table, Mapping):
            problem = f"expected a table, found {shown(table)}"
            raise InvalidDocument([Fault("", problem, "F-32")])  # noqa: TRY301 - gets its path
        strict_json.check_limits(table)
        if set(table) == {abi_exports.KEY}:  # a library may have no variants of its own
            abi_exports.require_abi_exports(table[abi_exports.KEY])
            return None
        return _read(table)
    except InvalidDocument as error:
        faults = [fault._replace(path=_below_table(fault.path)) for fault in error.faults]
        raise InvalidDocument(faults, where=where, hint=error.hint) from None


def read_exports_table(
    pyproject: Mapping[str, Any], *, where: str = "pyproject.toml"
) -> AbiExports | None:
    """Read only ``[variant.abi-exports]`` (B-61); return None if there is none.

    :raises InvalidDocument: it has faults.
    """
    table = pyproject.get(TABLE)
    if not isinstance(table, Mapping) or abi_exports.KEY not in table:
        return None
    try:
        return abi_exports.require_abi_exports(table[abi_exports.KEY])
    except InvalidDocument as error:
        faults = [fault._replace(path=_below_table(fault.path)) for fault in error.faults]
        raise InvalidDocument(faults, where=where) from None


def wheel_document(
    table: ProjectTable,
    label: Label,
    properties: PropertySet,
    *,
    answers: Mapping[str, PluginAnswer] = _EMPTY,
    vocabulary: Mapping[str, Iterable[FeatureConfig]] = _EMPTY,
) -> VariantDocument:
    """Return the document of one wheel of the project (B-2, B-6, B-22).

    It has all priorities and providers of the table, even if the wheel does not use them. The
    answer of a plugin that the build runs becomes a static list.

    :param answers: the answers of the plugins that the build runs, by namespace (B-20).
    :param vocabulary: the valid values of other namespaces, if known (P-28).
    :raises InvalidDocument: the document would not be valid; has all faults.
    """
    faults: list[Fault] = []
    providers: dict[str, Provider] = {}
    known = dict(vocabulary)
    old_priorities = priorities.OldPriorities(
        dict(table.feature_priorities), _by_namespace(table.value_priorities)
    )
    for namespace, provider in table.providers.items():
        if not isinstance(provider, BuildTimeProvider):
            providers[namespace] = provider
            continue
        path = path_of("providers", namespace)
        answer = answers.get(namespace)
        problem, rule = _answer_fault(answer)
        if answer is None or problem is not None:
            faults.append(Fault(path, problem or "", rule))
            continue
        # P-27: a feature without values is unsupported, so a list leaves it out.
        features = tuple(config for config in answer.features if config.values)
        static = StaticProvider(features, provider.optional)
        ignored = Findings(pedantic=False)  # only notes about the order are possible
        providers[namespace] = order_static(namespace, static, old_priorities, ignored)
        known[namespace] = answer.features
    faults += [
        Fault(path_of("variants", label, namespace), "the namespace has no provider", "B-7")
        for namespace in properties.namespaces
        if namespace not in table.providers
    ]
    build_time = table.build_time_providers
    faults += vocabulary_faults(label, properties, known, queried=build_time)
    document = VariantDocument(
        table.priorities,
        providers,
        {label: properties},
        # `order_static` has applied the priorities of the other namespaces to their static lists.
        {
            namespace: names
            for namespace, names in table.feature_priorities.items()
            if namespace not in build_time
        },
        {
            feature: values
            for feature, values in table.value_priorities.items()
            if feature.namespace not in build_time
        },
        notes=(*table.notes, *writer_warnings(label)),
    )
    reported = {fault.path for fault in faults}
    faults += [fault for fault in writing_faults(document) if fault.path not in reported]
    if faults:
        raise InvalidDocument(faults)
    return document


def _answer_fault(answer: PluginAnswer | None) -> tuple[str | None, str]:
    """Return the reason an answer cannot be written as a static list, with the rule."""
    if answer is None:
        return "its plugin was not run", "B-22"
    if answer.failure is not None:
        return answer.failure, "P-34"
    if not answer.all_compatible:
        problem = "its plugin describes one machine only, so it cannot be run at build time"
        return problem, "B-21"
    return None, ""


def _read(table: Mapping[str, Any]) -> ProjectTable:
    findings = _TableFindings(pedantic=True)
    # B-4: a table without $schema has the current layout, whatever its keys.
    document = {schema.KEY: schema.PEP_850, variants.KEY: {}, **table}
    exports = None
    if abi_exports.KEY in table:
        exports, faults = abi_exports.read_abi_exports(document.pop(abi_exports.KEY))
        findings.faults += faults
    build_time: dict[str, BuildTimeProvider] = {}
    table_entries = table.get(entries.KEY)
    if isinstance(table_entries, Mapping):
        document[entries.KEY] = dict(table_entries)
        for namespace, entry in table_entries.items():
            if isinstance(entry, Mapping) and entries.BUILD_REQUIRES in entry:
                build_time[namespace] = _build_time(namespace, entry, findings)
                document[entries.KEY][namespace] = _PLACEHOLDER
    detected = detect(document)
    parts = detected.layout.read(document, findings, tolerant=detected.tolerant)
    notes = [*detected.notes, *findings.notes]
    providers: dict[str, TableProvider] = {}
    for namespace, provider in parts.providers.items():
        old_provider = _old_build_time(namespace, provider, table_entries, findings)
        providers[namespace] = build_time.get(namespace) or old_provider or provider
        if old_provider is not None:
            # The layout noted that the list is missing.
            notes = [note for note in notes if not note.startswith(f"{namespace}: no static")]
            notes.append(f"{namespace}: its plugin is run at build time (F-47, B-20)")
        if getattr(provider, "enabled_by", None) is not None:
            notes.append(f"{namespace}: enable-if is not written (F-56)")
    if findings.faults:
        raise InvalidDocument(findings.faults)
    # `parts` lacks the priorities of namespaces whose list a build fills in: read them here.
    old_priorities = priorities.read_old_priorities(document, Findings(pedantic=False))
    at_build = {name for name, item in providers.items() if isinstance(item, BuildTimeProvider)}
    return ProjectTable(
        parts.priorities,
        providers,
        parts.variants,
        {
            **parts.feature_priorities,
            **{name: first for name, first in old_priorities.features.items() if name in at_build},
        },
        {
            **parts.value_priorities,
            **{
                Feature(namespace, name): first
                for namespace, by_feature in old_priorities.values.items()
                if namespace in at_build
                for name, first in by_feature.items()
            },
        },
        tuple(dict.fromkeys(notes)),
        exports,
    )


class _TableFindings(Findings):
    """The faults of a table that a person writes."""

    __slots__ = ()

    def add_minor_fault(self, steps: tuple[str | int, ...], message: str, rule: str) -> None:
        if rule not in _RULES_OF_DOCUMENTS:
            super().add_minor_fault(steps, message, rule)


def _build_time(namespace: str, values: Mapping[str, Any], findings: Findings) -> BuildTimeProvider:
    """Read a provider with ``build-requires`` (B-20)."""
    key = entries.BUILD_REQUIRES
    entry = entries.Entry((entries.KEY, namespace), values, findings)
    for other in ("requires", "static-properties"):
        if other in values:
            entry.fault(f"{key} excludes it", "B-20", other)
    if "builtin" in values:
        entry.fault(f"{key} excludes it", "P-1", "builtin")
    if "feature-order" in values:
        entry.fault("only together with static-properties", "P-4", "feature-order")
    for other in values:
        if other not in entries.KNOWN_KEYS and other != key:
            entry.fault("unknown key", "F-130", other)
    requires = entry.requires(key)
    if not requires and entry.unusable_reason is None:
        entry.fault("at least one requirement is needed", "P-6", key)
    optional = entry.flag("optional", default=False)
    return BuildTimeProvider(requires, entry.plugin_api(requires), optional)


def _old_build_time(
    namespace: str, provider: Provider, table_entries: object, findings: Findings
) -> BuildTimeProvider | None:
    """Return the build-time provider that an entry of an old table means; else None (F-47)."""
    # Readers of old layouts return a static provider for a plugin that is not run on installation;
    # without static values it has no features.
    if not isinstance(provider, StaticProvider) or provider.features:
        return None
    values = table_entries.get(namespace) if isinstance(table_entries, Mapping) else None
    if not isinstance(values, Mapping) or not values.get("requires"):
        return None
    is_never_run = values.get("plugin-use") == "none"
    if is_never_run or "static-properties" in values:
        return None
    entry = entries.Entry((entries.KEY, namespace), values, findings)
    requires = entry.requires()
    return BuildTimeProvider(requires, entry.plugin_api(requires), provider.optional)


def _below_table(path: str) -> str:
    if not path:
        return TABLE
    return f"{TABLE}{path}" if path.startswith("[") else f"{TABLE}.{path}"


def _by_namespace(
    values: Mapping[Feature, tuple[str, ...]],
) -> dict[str, dict[str, tuple[str, ...]]]:
    by_namespace: dict[str, dict[str, tuple[str, ...]]] = {}
    for feature, items in values.items():
        by_namespace.setdefault(feature.namespace, {})[feature.name] = items
    return by_namespace
