"""The wheels that a build command requests.

They are variants by label or by properties, the null variant, and the plain wheel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.core.labels import NULL, Label
from wheelfit.core.properties import EMPTY, Property, PropertySet
from wheelfit.core.variant_request import VariantRequest, choose_variant
from wheelfit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class WheelToBuild:
    """A wheel to build."""

    label: Label | None = None
    """The label of the variant; None: it is a plain wheel (B-10)."""
    properties: PropertySet = EMPTY

    def __str__(self) -> str:
        return "a plain wheel" if self.label is None else f"variant {self.label}"


PLAIN = WheelToBuild()


def requested_variants(
    labels: Iterable[Label], properties: Iterable[Property], *, null: bool
) -> list[VariantRequest]:
    """Combine the variants that the options of a command name (B-16, B-33).

    :param labels: labels of the table; if there are properties, at most one, which is their label.
    :raises UsageError: properties have several labels.
    :raises UserError: ``invalid-label``; the label of properties is null.
    """
    labels, chosen = tuple(dict.fromkeys(labels)), PropertySet(properties)
    requests = [VariantRequest(label=NULL)] if null else []
    if chosen:
        if len(labels) > 1:
            raise UsageError(
                f"{len(labels)} labels are given for one set of properties",
                hint="give one --variant with --property; labels of the table need no --property",
            )
        requests.append(VariantRequest(chosen, labels[0] if labels else None))
    else:
        requests += [VariantRequest(label=label) for label in labels]
    return requests


def choose_wheels(
    requests: Iterable[VariantRequest],
    variants: Mapping[Label, PropertySet] | None,
    *,
    has_all: bool,
    plain: bool | None,
) -> tuple[WheelToBuild, ...]:
    """Return the wheels to build: the plain one first, then in the requested order.

    :param variants: the table of the project.
    :param has_all: whether every label of the table is requested.
    :param plain: whether a plain wheel is requested; None: only with all labels, or with no other
        request.
    :raises UserError: ``invalid-label``; a label does not exist, or has other properties.
    :raises UsageError: nothing is requested, or all labels of a project that lists none.
    """
    choices = [WheelToBuild(*choose_variant(request, variants or {})) for request in requests]
    if has_all:
        if not variants:
            raise UsageError(
                "--all needs variants, and the project lists none",
                hint="`wheelfit init` lists them under [variant.variants] of its pyproject.toml",
            )
        choices += [WheelToBuild(label, properties) for label, properties in variants.items()]
    if plain is None:
        plain = has_all or not choices
    if not (plain or choices):
        raise UsageError("nothing to build", hint="name a --variant, or leave out --no-plain")
    return tuple(dict.fromkeys([PLAIN, *choices] if plain else choices))
