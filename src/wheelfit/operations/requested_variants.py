"""The variant that a request names, and its document."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.building.provider_answers import ProviderAnswers
from wheelfit.building.provider_guide import plugin_entry
from wheelfit.core import strict_toml
from wheelfit.core.labels import Label, parse_label
from wheelfit.core.metadata import WrittenLayout, read_document, write_document
from wheelfit.core.project_table import ProjectTable, read_project_table, wheel_document
from wheelfit.core.properties import Property, PropertySet, parse_namespace, parse_property
from wheelfit.core.provider_table import EMULATED_PLUGINS
from wheelfit.core.providers import (
    ABI_DEPENDENCY,
    BrokenProvider,
    BuiltinProvider,
    PluginProvider,
    StaticProvider,
)
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.variant_request import VariantRequest, choose_variant
from wheelfit.errors import UsageError, reporting_os_errors
from wheelfit.operations.requests import ValidatedRequest
from wheelfit.operations.user_folders import refuse_pipe
from wheelfit_runtime.errors import Fault, InvalidDocument
from wheelfit_runtime.platforms.features import FeatureConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wheelfit.core.project_table import TableProvider
    from wheelfit.operations.context import Reporter


class VariantRequestOptions(ValidatedRequest):
    """The variant that wheels become, and the origin of its providers and priorities."""

    property: tuple[str, ...] = ()
    label: str | None = None
    null: bool = False
    table: str | None = None
    document: str | None = None
    provider: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    priority: tuple[str, ...] = ()
    layout: WrittenLayout = "850"
    no_validate: bool = False


def requested_variant(
    request: VariantRequestOptions, table: ProjectTable, reporter: Reporter
) -> tuple[Label, bytes] | None:
    """Return the requested variant and its document; None if no variant is requested.

    :raises InvalidDocument: the document breaks rules; names all of them.
    :raises UserError: ``invalid-label``; the label is not valid, does not exist, or has other
        properties.
    :raises UserError: ``invalid-property``; a property is not valid.
    :raises UsageError: options exclude each other.
    """
    properties = PropertySet(map(parse_property, request.property))
    label = None if request.label is None else parse_label(request.label)
    if request.null:
        if properties or label not in (None, "null"):
            raise UsageError("--null excludes --property and --label")
        label = parse_label("null")
    if label is None and not properties:
        return None
    label, properties = choose_variant(VariantRequest(properties, label), table.variants)
    return label, build_document(request, table, label, properties, reporter)


def build_document(
    request: VariantRequestOptions,
    table: ProjectTable,
    label: Label,
    properties: PropertySet,
    reporter: Reporter,
) -> bytes:
    """Return the document of one variant, validated as far as its providers are known (B-25).

    :raises InvalidDocument: the document breaks rules; lists all of them.
    """
    try:
        if request.no_validate:
            return write_document(wheel_document(table, label, properties))
        answers = ProviderAnswers(table)
        document = answers.document(label, properties, reporter.warn)
    except InvalidDocument as error:
        unanswered = {fault.path for fault in error.faults if fault.rule == "B-22"}
        rules = {fault.rule for fault in error.faults}
        if unanswered & {f"providers.{namespace}" for namespace in table.build_time_providers}:
            error.hint = "`wheelfit build` asks such plugins; or give their answer with --static"
        elif rules & {"P-28", "P-30"}:  # unknown values, or too many
            error.hint = "--no-validate writes them anyway"
        elif "B-7" in rules:  # a namespace has no provider
            missing = [name for name in properties.namespaces if name not in table.providers]
            error.hint = " ".join(map(_provider_option, missing))
        elif not table.priorities:
            error.hint = "--project names a project with a [variant] table; or give a --provider"
        raise
    for namespace, validator in answers.validators(properties).items():
        if validator is None:
            reporter.warn(
                f"properties of {namespace} are not validated: its provider is not available"
            )
    return write_document(document)


def open_table(request: VariantRequestOptions) -> ProjectTable:
    """Return providers and priorities, from a file and from options.

    :raises InvalidDocument: the table or the document has faults.
    :raises FileProblem: the file cannot be read.
    :raises UsageError: a provider is unknown.
    """
    table = ProjectTable((), {})
    if request.table is not None:
        table = _project_table(Path(request.table))
    elif request.document is not None:
        table = _document_table(Path(request.document))
    return _with_options(table, request)


def _project_table(path: Path) -> ProjectTable:
    if path.is_dir():
        path /= "pyproject.toml"
    data = read_named_file(path)
    try:
        pyproject = strict_toml.load(data)
    except ValueError as error:
        raise InvalidDocument([Fault("", str(error))], where=str(path)) from None
    try:
        table = read_project_table(pyproject, where=str(path))
    except InvalidDocument as error:
        variant_table = pyproject.get("variant")
        if isinstance(variant_table, dict) and "$schema" not in variant_table:
            error.hint = (
                "if the table is of 2025, add its schema: "
                '"$schema" = "https://variants-schema.wheelnext.dev/v0.0.3.json" (B-4)'
            )
        raise
    if table is None:
        raise InvalidDocument(
            [Fault("variant", "the table does not exist", "B-1")], where=str(path)
        )
    return table


def _document_table(path: Path) -> ProjectTable:
    document = read_document(read_named_file(path), where=str(path), strict=True)
    providers: dict[str, TableProvider] = {
        namespace: provider
        for namespace, provider in document.providers.items()
        if not isinstance(provider, BrokenProvider)  # a document with one is refused above
    }
    return ProjectTable(
        document.priorities,
        providers,
        document.variants,
        document.feature_priorities,
        document.value_priorities,
    )


def read_named_file(path: Path) -> bytes:
    """Return the content of a file; of a larger one than parsers accept, the beginning.

    :raises FileProblem: it cannot be read.
    """
    with reporting_os_errors("the file cannot be read", where=str(path)):
        refuse_pipe(path)
        with path.open("rb") as file:
            return file.read(_MAX_SIZE + 1)


_MAX_SIZE = 64 << 20


def _with_options(table: ProjectTable, request: VariantRequestOptions) -> ProjectTable:
    """Add the providers of options; their namespaces follow those of the file."""
    providers: dict[str, TableProvider] = {}
    for namespace, new in map(parse_provider, request.provider):
        providers[namespace] = _joined_requirements(providers.get(namespace), new)
    providers |= _static_providers(request.static)
    order = [parse_namespace(name) for name in request.priority]
    for namespace in order:
        if namespace not in providers and namespace not in table.providers:
            raise UsageError(
                f"no provider is known for {namespace}, which --priority names",
                hint=f"--provider {namespace}=REQUIREMENT",
            )
    everything = {**table.providers, **providers}
    order += [name for name in (*table.priorities, *everything) if name not in order]
    return replace(
        table,
        priorities=tuple(dict.fromkeys(order)),
        providers={name: everything[name] for name in order if name in everything},
    )


def parse_provider(text: str) -> tuple[str, TableProvider]:
    """Return the namespace and the provider of an option ``NAMESPACE[=REQUIREMENT[::API]]``.

    :raises UserError: ``invalid-property`` or ``invalid-requirement``.
    :raises UsageError: there is no requirement, and the provider is unknown.
    """
    name, equals, requirement = text.partition("=")
    namespace = parse_namespace(name)
    if not equals:
        return namespace, _own_provider(namespace)
    # The separator is ``::``, which no requirement contains. ``@`` may precede a URL in one.
    requirement, _, plugin_api = requirement.partition("::")
    parse_requirement(requirement.strip(), allow_variant_markers=False, where="--provider")
    return namespace, PluginProvider((requirement.strip(),), plugin_api.strip() or None)


def _provider_option(namespace: str) -> str:
    """Return the option that names the provider of a namespace."""
    try:
        _own_provider(namespace)
    except UsageError:
        return f"--provider {namespace}=REQUIREMENT"
    return f"--provider {namespace}"


def _own_provider(namespace: str) -> TableProvider:
    """Return the provider of a namespace from wheelfit's table, in the form for uv (F-153)."""
    if namespace == ABI_DEPENDENCY:
        return BuiltinProvider(ABI_DEPENDENCY)
    if not any(row.namespace == namespace for row in EMULATED_PLUGINS):
        raise UsageError(
            f"wheelfit knows no provider for {namespace}",
            hint=f"--provider {namespace}=REQUIREMENT, or --static '{namespace} :: … :: …'",
        )
    entry = plugin_entry(namespace)
    return PluginProvider(tuple(entry["requires"]), entry.get("plugin-api"))


def _joined_requirements(old: TableProvider | None, new: TableProvider) -> TableProvider:
    """Return a plugin with the requirements of two options."""
    if isinstance(old, PluginProvider) and isinstance(new, PluginProvider):
        return PluginProvider((*old.requires, *new.requires), new.plugin_api or old.plugin_api)
    return new


def _static_providers(texts: Sequence[str]) -> dict[str, TableProvider]:
    features: dict[str, list[FeatureConfig]] = {}
    for text in texts:
        parts = [part.strip() for part in text.split("::")]
        values = [value.strip() for value in parts[-1].split(",")]
        if len(parts) != 3 or not all(values):
            raise UsageError(
                f"--static {text!r} has no namespace, feature and values",
                hint="as --static 'blas :: library :: openblas, mkl'",
            )
        for value in values:
            Property(parts[0], parts[1], value)  # F-2
        features.setdefault(parts[0], []).append(FeatureConfig(parts[1], tuple(values)))
    return {namespace: StaticProvider(tuple(configs)) for namespace, configs in features.items()}
