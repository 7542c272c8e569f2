"""Configuration files of repacking: our own form, and that of variant-repack (B-44)."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from packaging.utils import InvalidName, NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelfit.building.repack.edits import NO_EDITS, Edits, check_dependency
from wheelfit.core import strict_toml
from wheelfit.core.labels import NULL, OLD_NULL, Label, parse_label
from wheelfit.core.properties import Property, PropertySet, parse_property
from wheelfit.core.strict_json import shown
from wheelfit.core.table_reader import FaultList, Table
from wheelfit.core.versions import parse_version
from wheelfit_runtime.errors import Fault, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Mapping


# Suffixes that variant-repack 0.0.1 removes from names, in its order (November 2026).
_SUFFIXES = tuple(
    f"-{word}"
    for word in (
        "cu11", "cu12", "cu13", "cu118", "cu126", "cu128", "cu129",
        "cuda11x", "cuda12x", "cuda13x", "cpu",
    )
)  # fmt: skip
_OWN_TABLES = frozenset({"metadata", "variants", "wheels"})
_VARIANT_REPACK_TABLES = frozenset({"metadata_configs", "variant_configs", "wheels"})


@dataclass(frozen=True, slots=True)
class NamedVariant:
    """A variant of a configuration."""

    label: Label | None = None
    """Its label; None: derived from the properties (F-141)."""
    properties: PropertySet | None = None
    """Its properties; None: those that the project's table or a document has for the label."""
    edits_name: str | None = None
    """The name of its edits; None: without edits."""


@dataclass(frozen=True, slots=True)
class WheelRule:
    """The variant and edits for wheels whose file names match a pattern."""

    match: str
    """A shell pattern for file names, such as ``*+cu126-*``."""
    variant: str | None = None
    """The name of a variant; None: a plain wheel stays plain."""
    edits_name: str | None = None
    """The name of edits; None: those of the variant."""


@dataclass(frozen=True, slots=True)
class RepackConfig:
    """The content of a repack file."""

    metadata: Mapping[str, Edits] = field(default_factory=dict)
    variants: Mapping[str, NamedVariant] = field(default_factory=dict)
    rules: tuple[WheelRule, ...] = ()
    """Rules for wheels; the first that matches is used."""
    where: str = ""

    def edits(self, name: str | None) -> Edits:
        """Return edits by name."""
        return NO_EDITS if name is None else self._lookup(self.metadata, "metadata", name)

    def variant(self, name: str) -> NamedVariant:
        """Return a variant by name."""
        variant: NamedVariant = self._lookup(self.variants, "variants", name)
        return variant

    def rule_for(self, filename: str) -> WheelRule | None:
        """Return the rule for a wheel; None if there is none."""
        return next((rule for rule in self.rules if fnmatchcase(filename, rule.match)), None)

    def _lookup(self, entries: Mapping[str, Any], table: str, name: str) -> Any:
        if name not in entries:
            known = ", ".join(sorted(entries)) or "none"
            raise InvalidDocument(
                [Fault(table, f"has no {name!r}, only: {known}")], where=self.where
            )
        return entries[name]


def read_config(data: bytes, *, where: str) -> RepackConfig:
    """Read a configuration file of repacking.

    :raises InvalidDocument: it has faults; lists all of them with their paths.
    """
    try:
        document = strict_toml.load(data)
    except ValueError as error:
        raise InvalidDocument([Fault("", str(error))], where=where) from None
    faults = FaultList("B-44")
    config = _config(Table(document, faults), where)
    if faults:
        raise InvalidDocument(faults, where=where)
    return config


def _config(document: Table, where: str) -> RepackConfig:
    is_variant_repack = bool(document.content.keys() & (_VARIANT_REPACK_TABLES - {"wheels"}))
    document.only(*sorted(_VARIANT_REPACK_TABLES if is_variant_repack else _OWN_TABLES))
    edits_table, variants_table = (
        ("metadata_configs", "variant_configs") if is_variant_repack else ("metadata", "variants")
    )
    read_edits = _variant_repack_edits if is_variant_repack else _edits
    read_variant = _variant_repack_variant if is_variant_repack else _variant
    metadata = {name: read_edits(table) for name, table in document.named(edits_table).items()}
    variants = {
        name: read_variant(name, table) for name, table in document.named(variants_table).items()
    }
    rules = [_rule(table) for table in document.tables("wheels")]
    for name, variant in variants.items():
        _check_reference(document, variant.edits_name, metadata, variants_table, name, "metadata")
    for index, rule in enumerate(rules):
        _check_reference(document, rule.variant, variants, "wheels", index, "variant")
        _check_reference(document, rule.edits_name, metadata, "wheels", index, "metadata")
    return RepackConfig(metadata, variants, tuple(rules), where)


def _edits(table: Table) -> Edits:
    table.only("name", "rename", "version", "strip-local-version", "remove", "add")
    renames = table.table("rename")
    return Edits(
        name=_name(table, "name"),
        renames=tuple(
            (canonicalize_name(old), new)
            for old in renames.content
            if (new := _name(renames, old)) is not None
        ),
        version=_version(table, "version"),
        strip_local=table.flag("strip-local-version"),
        remove=_names_to_remove(table, "remove"),
        add=_dependencies_to_add(table, "add"),
    )


def _variant_repack_edits(table: Table) -> Edits:
    table.only(
        "normalize_package_name", "rename_package_to", "normalize_version",
        "deps_remove_list", "deps_add_list",
    )  # fmt: skip
    is_renamed = table.content.get("rename_package_to")  # empty or false: the name stays
    name = _name(table, "rename_package_to") if is_renamed else None
    normalised = table.flag("normalize_package_name")
    return Edits(
        name=name,
        suffixes=_SUFFIXES if normalised and not is_renamed else (),
        strip_local=table.flag("normalize_version"),
        remove=_names_to_remove(table, "deps_remove_list"),
        add=_dependencies_to_add(table, "deps_add_list"),
    )


def _variant(name: str, table: Table) -> NamedVariant:
    table.only("label", "properties", "metadata")
    label = table.string("label") if "label" in table else name
    return NamedVariant(
        None if label is None else table.parsed(parse_label, label, "label"),
        PropertySet(table.each("properties", parse_property)) if "properties" in table else None,
        table.string("metadata"),
    )


def _variant_repack_variant(name: str, table: Table) -> NamedVariant:
    del name  # in variant-repack the name of an entry is not a label
    table.only("variant_label", "properties")
    text = table.string("variant_label")
    label = None if text is None else table.parsed(parse_label, text, "variant_label")
    items: list[Property] = []
    for row in table.tables("properties"):
        row.only("namespace", "feature", "value")
        parts = [row.required(key) for key in ("namespace", "feature", "value")]
        item = row.parsed(parse_property, " :: ".join(parts)) if all(parts) else None
        if item is not None:
            items.append(item)
    # The null label and no properties imply each other.
    is_null = label in (NULL, OLD_NULL)
    if items and is_null:
        table.fault("must not be null: it has properties", "variant_label", rule="F-6")
    if not items and label is not None and not is_null:
        table.fault("must have at least one property", "properties", rule="F-7")
    if is_null or not items:
        label = NULL
    return NamedVariant(label, PropertySet(items))


def _rule(table: Table) -> WheelRule:
    table.only("match", "variant", "metadata")
    return WheelRule(table.required("match"), table.string("variant"), table.string("metadata"))


def _names_to_remove(table: Table, key: str) -> frozenset[NormalizedName]:
    return frozenset(map(canonicalize_name, table.each(key, _parse_name)))


def _dependencies_to_add(table: Table, key: str) -> tuple[str, ...]:
    return tuple(table.each(key, check_dependency))


def _name(table: Table, key: str) -> str | None:
    text = table.string(key)
    return None if text is None else table.parsed(_parse_name, text, key)


def _version(table: Table, key: str) -> Version | None:
    text = table.string(key)
    return None if text is None else table.parsed(_parse_version, text, key)


def _parse_name(text: str) -> str:
    try:
        canonicalize_name(text, validate=True)
    except InvalidName:
        raise ValueError(f"is not a valid project name: {shown(text)}") from None
    return text


def _parse_version(text: str) -> Version:
    try:
        return parse_version(text)
    except InvalidVersion:
        raise ValueError(f"is not a valid version: {shown(text)}") from None


def _check_reference(
    document: Table, name: str | None, entries: Mapping[str, object], *steps: str | int
) -> None:
    if name is not None and name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        document.fault(f"names {shown(name)}, which is not defined; defined: {known}", *steps)
