"""Preferences about variants, and the policy by which wheels are chosen."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec.structs import replace
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.agreements import agreements_named, with_user_agreements
from wheelfit.core.labels import Label, parse_label
from wheelfit.core.ordering import Choice, Preferences, parse_preference
from wheelfit.core.strict_json import DEFAULT_LIMITS
from wheelfit.errors import UsageError
from wheelfit.resolution.candidates import ChoicePolicy
from wheelfit.resolution.release_metadata import MetadataPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit.core.provider_lookup import ProviderPolicy
    from wheelfit.operations.requests import VariantOptions
    from wheelfit.resolution.listing import AllowedHashes


def read_preferences(
    request: VariantOptions, file_labels: Mapping[NormalizedName, Label] = MappingProxyType({})
) -> Preferences:
    """Read the preferences about variants.

    :param file_labels: labels that requirements files name; those of the options take precedence.
    :raises UserError: ``invalid-property``; a preference is not a property, feature or namespace.
    :raises UserError: ``invalid-label``; the text after ``=`` is not a label.
    :raises UsageError: a label is given without a name, or two for one project.
    :raises UnknownShorthand: a shorthand is not defined.
    """
    labels: dict[str, Label] = {}
    for text in request.label:
        name, equals, label_text = text.partition("=")
        if not name.strip() or not equals:
            raise UsageError(
                f"--label {text!r} names no package",
                hint="write NAME=LABEL, as in --label torch=cu126",
            )
        project, label = canonicalize_name(name.strip()), parse_label(label_text.strip())
        if labels.setdefault(project, label) != label:
            raise UsageError(f"--label requests both {labels[project]} and {label} of {project}")
    for project, label in file_labels.items():
        labels.setdefault(project, label)
    preferences = Preferences(
        prefer=_parse_preferences(request.prefer),
        require=_parse_preferences(request.require),
        forbid=_parse_preferences(request.forbid),
        labels=labels,
        variants=not request.no_variants,
    )
    if not request.variant:
        return preferences
    from wheelfit.core.shorthands import combine_preferences, find_shorthand  # few need its table

    shorthands = request.shorthands
    return combine_preferences(
        [find_shorthand(name, shorthands) for name in request.variant], preferences
    )


def _parse_preferences(texts: Iterable[str]) -> tuple[Choice, ...]:
    return tuple(parse_preference(text) for text in texts)


def choice_policy(
    request: VariantOptions,
    providers: ProviderPolicy,
    hashes: Mapping[NormalizedName, AllowedHashes] = MappingProxyType({}),
    labels: Mapping[NormalizedName, Label] = MappingProxyType({}),
) -> ChoicePolicy:
    """Return the policy by which wheels are chosen.

    :raises UserError: ``invalid-property``; ``--allow-mixed`` names no feature on which builds must
        agree.
    """
    agreements = with_user_agreements(request.agreement_table)
    mixed = [agreements_named(text, agreements) for text in request.allow_mixed]
    return ChoicePolicy(
        providers=providers,
        preferences=read_preferences(request, labels),
        metadata=_metadata_policy(request),
        hashes=hashes,
        agreements=agreements,
        mixed=frozenset().union(*mixed),
    )


def _metadata_policy(request: VariantOptions) -> MetadataPolicy:
    """Return the policy by which metadata of variants is judged."""
    bounds = dict(request.limit)
    lookups = bounds.pop("lookups", None)
    policy = MetadataPolicy(
        strict=request.strict,
        read_unlisted=request.read_unlisted,
        limits=replace(DEFAULT_LIMITS, **bounds),
        accept_unknown_drafts=request.accept_unknown_drafts,
    )
    return policy if lookups is None else replace(policy, max_labels=lookups)
