"""Checks of the dependencies in METADATA: variant markers, and declared ABI dependencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.tool_profiles import Profile
from wheelfit.core.abi_dependency import abi_namespaces, not_admitted, project_of
from wheelfit.core.labels import NULL, Label, is_label
from wheelfit.core.marker_grammar import (
    VARIANT_LABEL,
    VARIANT_SETS,
    Comparison,
    Literal,
    Variable,
    comparisons,
)
from wheelfit.core.markers import VariantContext
from wheelfit.core.properties import Feature, PropertySet, is_name, is_value
from wheelfit.core.requirements import Requirement, parse_requirement
from wheelfit.core.strict_json import shortened
from wheelfit.errors import InvalidRequirement
from wheelfit_runtime.wording import count_of, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.checking.findings import Finding, Location
    from wheelfit.core.core_metadata import CoreMetadata
    from wheelfit.core.document import VariantDocument


_MAX_QUOTED = 120
"""Characters of a dependency that a message quotes."""


@dataclass(frozen=True, slots=True)
class DeclaredNames:
    """The labels and properties that the variants of a release declare together."""

    labels: frozenset[str]
    paths: frozenset[tuple[str, ...]]
    """Paths of properties: of a namespace, of a feature and of a value."""

    @classmethod
    def of(cls, documents: Iterable[VariantDocument]) -> DeclaredNames:
        """Return the labels and properties of documents."""
        labels: set[str] = {NULL}
        paths: set[tuple[str, ...]] = set()
        for document in documents:
            labels.update(document.variants, document.unusable)
            for properties in document.variants.values():
                for item in properties:
                    path = (item.namespace, item.feature, item.value)
                    paths.update((path[:1], path[:2], path))
        return cls(frozenset(labels), frozenset(paths))

    def contains(self, variable: str, literal: str) -> bool:
        """Return whether any variant has the label or property of a marker."""
        if variable == VARIANT_LABEL:
            return literal in self.labels
        return tuple(_parts(literal)) in self.paths


def check_dependencies(
    core: CoreMetadata, label: Label | None, location: Location, profiles: frozenset[Profile]
) -> Iterator[Finding]:
    """Check the dependencies of one wheel."""
    with_markers: list[str] = []
    for text in core.requires_texts:
        try:
            requirement = parse_requirement(text, allow_variant_markers=True)
        except InvalidRequirement as error:
            yield location.finding(
                checks.INVALID_REQUIREMENT,
                f"{shortened(text, _MAX_QUOTED)!r}: {error.message}",
                rule="F-105" if "variant_" in text else "PEP 508",
            )
            continue
        if requirement.marker is None or not requirement.marker.uses_variants:
            continue
        quoted = repr(shortened(text, _MAX_QUOTED))
        with_markers.append(quoted)
        for comparison in comparisons(requirement.marker.expression):
            reason = _why_never_matches(comparison)
            if reason is not None:
                yield location.finding(checks.MARKER_NEVER_MATCHES, f"{quoted}: {reason}")
    if with_markers and label is None:
        message = f"a plain wheel has {listed(with_markers, most=2)}"
        yield location.finding(checks.VARIANT_MARKER_IN_PLAIN_WHEEL, message)
    if with_markers and Profile.UV in profiles:
        message = f"METADATA has {listed(with_markers, most=2)}"
        yield location.finding(checks.UV_MARKERS, message)


def undeclared_findings(
    core: CoreMetadata, declared: DeclaredNames, location: Location
) -> Iterator[Finding]:
    """Yield markers for labels and properties that no variant of the release has (F-107)."""
    for requirement, text in _valid_requirements(core):
        if requirement.marker is None:
            continue
        for comparison in comparisons(requirement.marker.expression):
            variable, literal = comparison.variable(), _literal(comparison)
            if literal is None or _why_never_matches(comparison) is not None:
                continue
            if variable == VARIANT_LABEL:
                is_for_plain_wheel = literal == ""
                if is_for_plain_wheel or comparison.operator not in ("==", "!="):
                    continue
            elif variable not in VARIANT_SETS:
                continue
            if not declared.contains(variable, literal):
                yield location.finding(
                    checks.UNDECLARED_IN_MARKER,
                    f"{shortened(text, _MAX_QUOTED)!r}: no variant of the release has {literal}",
                )


def abi_findings(
    core: CoreMetadata, label: Label, document: VariantDocument, location: Location
) -> Iterator[Finding]:
    """Yield dependencies that exclude the versions that the wheel was built for (P-58)."""
    namespaces = abi_namespaces(document.providers)
    properties = document.properties(label)
    if not namespaces or not properties:
        return
    requirements = [requirement for requirement, _ in _valid_requirements(core)]
    for feature, values in properties.features():
        project = project_of(feature.name) if feature.namespace in namespaces else None
        if project is None:
            continue
        on_project = [requirement for requirement in requirements if requirement.name == project]
        if not on_project:
            yield location.finding(
                checks.ABI_NOT_REQUIRED,
                f"{feature} is declared, but the wheel does not require {project}",
            )
        for value in values:
            # The variant as if it had this value only: a marker may exclude a dependency for it
            # (P-53). Its properties are not filtered by those of a machine.
            narrowed = VariantContext(label, _with_single_value(properties, feature, value))
            for requirement in on_project:
                marker = requirement.marker
                is_excluded = marker is not None and (
                    marker.resolve_variants(narrowed, filtered=False) is False
                )
                if is_excluded:
                    continue
                if not_admitted(requirement.specifier, [value]):
                    yield location.finding(
                        checks.ABI_CONTRADICTION,
                        f"{feature} :: {value} is declared, but {requirement} excludes it",
                    )


def _with_single_value(properties: PropertySet, feature: Feature, value: str) -> PropertySet:
    return PropertySet(
        item
        for item in properties
        if (item.namespace, item.feature) != (feature.namespace, feature.name)
        or item.value == value
    )


def _valid_requirements(core: CoreMetadata) -> Iterator[tuple[Requirement, str]]:
    for text in core.requires_texts:
        try:
            yield parse_requirement(text, allow_variant_markers=True), text
        except InvalidRequirement:
            continue


def _why_never_matches(comparison: Comparison) -> str | None:
    """Return the reason why a comparison with a variant variable can never match (F-106)."""
    variable, literal = comparison.variable(), _literal(comparison)
    if literal is None:
        return None
    if variable in VARIANT_SETS:
        expected = VARIANT_SETS[variable]  # the number of parts of an item
        parts = _parts(literal)
        if len(parts) != expected:
            number = count_of(len(parts), "part")
            return f"{literal!r} has {number}; items of {variable} have {expected}"
        *names, last = parts
        valid = all(map(is_name, names)) and (is_value(last) if expected == 3 else is_name(last))
        return None if valid else f"{literal!r} is not an item of {variable}"
    if variable == VARIANT_LABEL and literal and not is_label(literal):
        return f"{literal!r} is not a label"
    return None


def _literal(comparison: Comparison) -> str | None:
    match comparison.left, comparison.right:
        case (Literal(value), Variable()) | (Variable(), Literal(value)):
            return value
    return None


def _parts(literal: str) -> list[str]:
    return [part.strip(" \t") for part in literal.split("::")]
