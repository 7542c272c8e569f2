"""Index-level metadata: one document for a release, combined from its wheels (F-60 to F-65).

Result and error do not depend on the order of the input (F-63). `disagreement` compares a wheel's
own metadata with the index's (F-93).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from wheelfit.core.document import WITHOUT_PROVIDERS, VariantDocument
from wheelfit.core.metadata import read_document
from wheelfit.core.providers import PluginProvider, Provider, default_endpoint
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.strict_json import DEFAULT_LIMITS, JsonLimits, path_of
from wheelfit.core.variant_json_layouts.schema import PEP_825, PEP_850
from wheelfit.errors import InconsistentDocuments, InvalidRequirement
from wheelfit_runtime.errors import InvalidDocument, InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wheelfit.core.labels import Label
    from wheelfit.core.properties import Property

    Documents = Sequence[tuple[str, VariantDocument]]

Key = TypeVar("Key", bound=object)
Value = TypeVar("Value")


def combine(documents: Iterable[tuple[str, VariantDocument]]) -> VariantDocument:
    """Combine the documents of one release.

    If all documents have one layout, the result has it too; else it has L7 (F-64).

    :param documents: each with the wheel or file it is from, for messages; at least
        one. One wheel per label is enough.
    :raises InconsistentDocuments: two contradict each other; names both and the key.
    :raises ValueError: there is no document.
    """
    combined, conflicts = _combined(documents)
    if conflicts:
        raise conflicts[0].error
    return combined


class Contradiction(NamedTuple):
    """A contradiction between two documents of a release (F-65)."""

    first: str
    """One of the two files."""
    second: str
    """The other one."""
    steps: tuple[str, ...]
    """The keys of the contradicting value, such as ``("providers", "nvidia")``."""
    values: tuple[str, str]
    """The value in each of them."""

    @property
    def path(self) -> str:
        """The path of the value, such as ``providers.nvidia``."""
        return path_of(*self.steps)

    @property
    def error(self) -> InconsistentDocuments:
        """The contradiction as an error."""
        pairs = zip((self.first, self.second), self.values, strict=True)
        return InconsistentDocuments(
            f"{self.first} and {self.second} contradict each other about {self.path}",
            note="\n".join(f"{where}: {value}" for where, value in pairs),
            hint="the wheels of one release must describe their variants consistently",
        )


def contradictions(
    documents: Iterable[tuple[str, VariantDocument]],
) -> tuple[Contradiction, ...]:
    """Return all contradictions between the documents of a release (F-131)."""
    return tuple(_combined(documents)[1])


def _combined(
    documents: Iterable[tuple[str, VariantDocument]],
) -> tuple[VariantDocument, list[Contradiction]]:
    """Return the union and the contradictions; if there are any, ignore the union."""
    ordered = sorted(documents, key=lambda pair: pair[0])
    if not ordered:
        raise ValueError("nothing to combine")
    conflicts: list[Contradiction] = []
    if len(ordered) == 1:
        return ordered[0][1], conflicts
    priorities = _priorities(ordered, conflicts)
    providers = _merge(
        ordered,
        lambda item: item.providers,
        lambda name: ("providers", name),
        conflicts,
        _comparable,
    )
    variants = _merge(
        ordered, lambda item: item.variants, lambda label: ("variants", label), conflicts
    )
    features = _merge(
        ordered,
        lambda item: item.feature_priorities,
        lambda name: ("default-priorities", "feature", name),
        conflicts,
    )
    values = _merge(
        ordered,
        lambda item: item.value_priorities,
        lambda feature: ("default-priorities", "property", feature.namespace, feature.name),
        conflicts,
    )
    _check_providers(ordered, priorities, providers, conflicts)
    layout, schema = _layout(ordered)
    combined = VariantDocument(
        priorities=priorities,
        providers={name: providers[name] for name in priorities if name in providers},
        variants={label: variants[label] for label in sorted(variants)},
        feature_priorities={name: features[name] for name in sorted(features)},
        value_priorities={feature: values[feature] for feature in sorted(values)},
        layout=layout,
        schema=schema,
        unusable=_unusable(ordered, conflicts),
        notes=tuple(sorted({note for _, document in ordered for note in document.notes})),
        lost_namespaces=tuple(
            sorted({lost for _, document in ordered for lost in document.lost_namespaces}, key=str)
        ),
    )
    return combined, conflicts


def read_wheel_document(
    data: bytes | None,
    label: Label,
    *,
    where: str,
    limits: JsonLimits = DEFAULT_LIMITS,
    accept_unknown_drafts: bool = False,
) -> VariantDocument:
    """Read the metadata of a variant wheel about itself (F-24, F-27).

    :param data: its ``variant.json``; None: it has none.
    :raises InvalidWheel: it has no usable data about its label.
    """
    if data is None:  # F-27
        raise InvalidWheel("the wheel has no variant.json", where=where)
    try:
        document = read_document(
            data, where=where, limits=limits, accept_unknown_drafts=accept_unknown_drafts
        )
    except InvalidDocument as error:
        raise InvalidWheel(
            f"variant.json of the wheel cannot be used: {error.message}",
            where=where,
            note=error.note,
        ) from None
    fault = label_fault(document, label)
    if fault is not None:
        raise InvalidWheel(fault, where=where)
    return document


def disagreement(
    wheel_document: VariantDocument, index_document: VariantDocument, label: Label
) -> str | None:
    """Compare a wheel's own document with the one used for the selection (F-93).

    :return: the difference, one sentence without a final full stop; None if they agree about the
        label.
    """
    fault = label_fault(wheel_document, label)
    if fault is not None:
        return fault
    indexed = index_document.properties(label)
    if indexed is None:
        return f"the index does not describe the label {label}"
    in_wheel, in_index = set(wheel_document.properties(label) or ()), set(indexed)
    if in_wheel == in_index:
        return None
    parts = []
    if in_wheel - in_index:
        parts.append(f"only the wheel has {_listed(in_wheel - in_index)}")
    if in_index - in_wheel:
        parts.append(f"only the index has {_listed(in_index - in_wheel)}")
    return f"the properties of {label} differ: {'; '.join(parts)}"


def label_fault(document: VariantDocument, label: Label) -> str | None:
    """Return the fault of a document inside a wheel, which has only its own label (F-24).

    :return: a sentence without a final full stop; None if there is none.
    """
    others = sorted({*document.variants, *document.unusable} - {label})
    if others:
        return f"the wheel of {label} describes {', '.join(others)}"
    if label in document.unusable:
        return f"the wheel's entry is unusable: {document.unusable[label]}"
    if document.properties(label) is None:
        return f"the wheel does not describe its label {label}"
    return None


def _listed(properties: Iterable[Property]) -> str:
    return ", ".join(str(item) for item in sorted(properties))


def _layout(documents: Documents) -> tuple[str, str]:
    """Return layout and schema of the result (F-64)."""
    layouts = {document.layout for _, document in documents}
    if len(layouts) == 1:
        return layouts.pop(), min(document.schema for _, document in documents)
    if layouts <= WITHOUT_PROVIDERS:
        return "L5", PEP_825
    return "L7", PEP_850


def _priorities(documents: Documents, conflicts: list[Contradiction]) -> tuple[str, ...]:
    """Return the longest list, of which every other must be a prefix (F-60)."""
    longest_where, longest = min(
        ((where, document.priorities) for where, document in documents),
        key=lambda pair: (-len(pair[1]), pair[1], pair[0]),
    )
    for where, document in documents:
        own = document.priorities
        if longest[: len(own)] != own:
            steps = ("default-priorities", "namespace")
            values = (", ".join(longest), ", ".join(own))
            conflicts.append(Contradiction(longest_where, where, steps, values))
    return longest


def _merge(
    documents: Documents,
    part: Callable[[VariantDocument], Mapping[Key, Value]],
    steps: Callable[[Key], tuple[str, ...]],
    conflicts: list[Contradiction],
    comparable: Callable[[Value], object] = lambda value: value,
) -> dict[Key, Value]:
    """Return the union; a repeated key must have equivalent values (F-61, F-62)."""
    merged: dict[Key, tuple[str, Value]] = {}
    for where, document in documents:
        for key, value in part(document).items():
            first_where, first = merged.setdefault(key, (where, value))
            if first is value or first == value:
                continue
            if comparable(first) != comparable(value):
                shown = (str(first), str(value))
                conflicts.append(Contradiction(first_where, where, steps(key), shown))
                continue
            # Equivalent values: keep the same one in any order of the input (F-63).
            merged[key] = (first_where, min(first, value, key=repr))
    return {key: value for key, (_, value) in merged.items()}


def _comparable(provider: Provider) -> object:
    """Return the parts of a provider that must be equal, without defaults (F-62)."""
    if not isinstance(provider, PluginProvider):
        return provider
    requires = tuple(_normalised(text)[1] for text in provider.requires)
    endpoint = provider.plugin_api
    if endpoint is None and provider.requires:
        endpoint = default_endpoint(_normalised(provider.requires[0])[0])
    return (requires, endpoint, provider.optional, provider.enabled_by)


@lru_cache(maxsize=1024)
def _normalised(text: str) -> tuple[str, str]:
    """Return the name in a requirement, and all of it in one spelling."""
    try:
        requirement = parse_requirement(text, allow_variant_markers=False)
    except InvalidRequirement:
        return text, text
    return requirement.name, str(requirement)


def _check_providers(
    documents: Documents,
    priorities: tuple[str, ...],
    providers: Mapping[str, Provider],
    conflicts: list[Contradiction],
) -> None:
    """Check that documents without providers use no namespace that the others lack (F-64)."""
    without = [pair for pair in documents if pair[1].lacks_providers]
    with_providers = [pair for pair in documents if not pair[1].lacks_providers]
    if not without or not with_providers:
        return
    known = {*providers, *(name for _, document in with_providers for name in document.priorities)}
    first_user: dict[str, str] = {}
    for where, document in without:
        for namespace in document.priorities:
            first_user.setdefault(namespace, where)
    for namespace in priorities:
        if namespace not in known:
            steps, values = (
                ("providers", namespace),
                (f"it uses {namespace}", "it does not describe it"),
            )
            files = (first_user[namespace], with_providers[0][0])
            conflicts.append(Contradiction(*files, steps, values))


def _unusable(documents: Documents, conflicts: list[Contradiction]) -> dict[str, str]:
    """Return broken labels; a label valid elsewhere is a contradiction (F-61)."""
    usable_in: dict[str, str] = {}
    for where, document in documents:
        for usable_label in document.variants:
            usable_in.setdefault(usable_label, where)
    reasons: dict[str, str] = {}
    for where, document in documents:
        for label, reason in document.unusable.items():
            if label in usable_in:
                steps, values = ("variants", label), ("it is usable", reason)
                conflicts.append(Contradiction(usable_in[label], where, steps, values))
            reasons[label] = min(reason, reasons.get(label, reason))
    return dict(sorted(reasons.items()))
