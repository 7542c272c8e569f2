"""The requested variant of a build: properties, a label, or the null variant (B-33).

A build backend gets it as config settings (B-15). A label names the requested properties; without
properties it selects a variant of the ``[variant]`` table (B-16).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wheelfit.core.labels import NULL, Label, derive_label, parse_label
from wheelfit.core.properties import EMPTY, PropertySet, parse_property
from wheelfit_runtime.errors import InvalidConfiguration, UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PROPERTY_SETTINGS: Final = ("variant", "variant-name")
"""The settings with properties; backends pass the first to their build system."""
LABEL_SETTING: Final = "variant-label"
NULL_SETTING: Final = "null-variant"
_SETTINGS = frozenset([*PROPERTY_SETTINGS, LABEL_SETTING, NULL_SETTING])


@dataclass(frozen=True, slots=True)
class VariantRequest:
    """The requested variant of a build, by properties, label, or both.

    :raises UserError: ``invalid-label``; there are properties with the label ``null`` (F-6, B-33).
    :raises InvalidConfiguration: nothing is requested.
    """

    properties: PropertySet = EMPTY
    """The properties of the variant; empty: those of the label."""
    label: Label | None = None
    """The label of the variant; ``null`` without properties is the null variant."""

    def __post_init__(self) -> None:
        if self.label == NULL and self.properties:
            raise UserError(
                "the label null may not have properties",
                code="invalid-label",
                hint="choose another label (F-6)",
            )
        if self.label is None and not self.properties:
            raise InvalidConfiguration(
                "a variant needs at least one property, or the label null (B-33)"
            )


def read_settings(settings: Mapping[str, str | Sequence[str]]) -> VariantRequest | None:
    """Read the config settings of a build about variants (B-15).

    >>> read_settings({"variant-label": "null"})
    VariantRequest(properties=PropertySet.from_mapping({}), label='null')

    :param settings: a string or a list of strings each; settings with other names are ignored.
    :return: None if no variant is requested, so that a plain wheel is built.
    :raises InvalidConfiguration: an unknown setting about variants, or several that
        exclude each other.
    :raises UserError: ``invalid-label``; the label is not valid.
    :raises UserError: ``invalid-property``; a property is not valid.
    """
    unknown = sorted(name for name in settings if "variant" in name and name not in _SETTINGS)
    if unknown:
        raise InvalidConfiguration(
            f"unknown config setting {unknown[0]}",
            hint=f"known settings: {', '.join(sorted(_SETTINGS))}",
        )
    requested = [
        name for name in (*PROPERTY_SETTINGS, LABEL_SETTING, NULL_SETTING) if name in settings
    ]
    if not requested:
        return None
    if NULL_SETTING in requested:
        if len(requested) > 1:
            raise InvalidConfiguration(f"{NULL_SETTING} excludes {requested[0]} (B-15)")
        return VariantRequest(label=NULL)
    properties = PropertySet(
        parse_property(text)
        for name in PROPERTY_SETTINGS
        for text in _texts(settings.get(name, ()))
    )
    labels = list(_texts(settings.get(LABEL_SETTING, ())))
    if len(labels) > 1:
        raise InvalidConfiguration(f"{LABEL_SETTING} is set {len(labels)} times")
    return VariantRequest(properties, parse_label(labels[0]) if labels else None)


def choose_variant(
    request: VariantRequest, variants: Mapping[Label, PropertySet]
) -> tuple[Label, PropertySet]:
    """Return label and properties of the requested variant (B-16, B-33).

    :param variants: the known variants of the release: those in the table of the project, and those
        of existing wheels.
    :raises UserError: ``invalid-label``; the label is unknown, or names other properties (F-143).
    """
    label, properties = request.label, request.properties
    if label is None:
        label = derive_label(properties)  # F-140
        if variants.get(label, properties) != properties:
            raise UserError(
                f"the label {label}, derived from the properties, already has other properties: "
                f"{variants[label]}",
                code="invalid-label",
                hint="choose a label (F-143)",
            )
        return label, properties
    if not properties:
        return label, _selected(label, variants)
    if variants.get(label, properties) != properties:
        raise UserError(
            f"the label {label} has other properties: {variants[label]}",
            code="invalid-label",
            hint="leave the properties out, or choose another label (B-16)",
        )
    return label, properties


def _selected(label: Label, variants: Mapping[Label, PropertySet]) -> PropertySet:
    if label == NULL:
        return EMPTY  # F-26: it needs no entry
    if label not in variants:
        known = ", ".join(sorted(variants)) or "none"
        raise UserError(
            f"there is no label {label} to build; there are: {known}",
            code="invalid-label",
            hint="add properties, or list the label in [variant.variants] (B-16)",
        )
    return variants[label]


def _texts(setting: str | Iterable[str]) -> Iterable[str]:
    return (setting,) if isinstance(setting, str) else setting
