"""The reach of variants: the machines for which they would be chosen (F-28, F-66)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wheelfit.checking import checks
from wheelfit.checking.findings import Finding, Location, Severity
from wheelfit.core.abi_dependency import KnownVersions
from wheelfit.core.labels import NULL, Label
from wheelfit.core.ordering import order_labels
from wheelfit.core.property_support import namespaces_used, support_for
from wheelfit.core.providers import BuiltinProvider, StaticProvider
from wheelfit_runtime.platforms.providers import by_namespace
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packaging.tags import Tag

    from wheelfit.checking.releases import ReleaseFacts
    from wheelfit.core.document import VariantDocument
    from wheelfit.resolution.overview import OverviewHost

    FindMachines = Callable[[VariantDocument], Iterable[OverviewHost]]

_MAX_NAMED = 5
"""Labels that a message lists."""


def reach_findings(
    release: ReleaseFacts, document: VariantDocument, find_machines: FindMachines
) -> Iterator[Finding]:
    """Yield findings about variants that fit no machine, and those that are never the best."""
    tags: dict[Label, set[Tag]] = {}
    where: dict[Label, str] = {}
    for wheel in release.variants:
        if wheel.filename.label is not None:
            tags.setdefault(wheel.filename.label, set()).update(wheel.filename.tags)
            where.setdefault(wheel.filename.label, wheel.where)
    checked_labels = [
        label
        for label in sorted(tags)
        if document.properties(label) is not None and _has_known_providers(document, label)
    ]
    if not checked_labels:
        return
    reach = _find_reach(document, tags, find_machines)
    static_labels: list[Label] = []
    for label in checked_labels:
        location = Location(where[label])
        subject = f"{release.name} {release.version}: {label}"
        if label not in reach.fitting:
            yield location.finding(
                checks.NO_KNOWN_MACHINE, f"{subject} fits no machine among the presets"
            )
        elif label in reach.chosen or label == NULL:  # null is for users who disable namespaces
            continue
        elif _differ_statically(document, [label, *reach.fitting[label]]):
            static_labels.append(label)
        else:
            others = ", ".join(list(reach.fitting[label])[:_MAX_NAMED])
            yield location.finding(
                checks.SHADOWED_VARIANT,
                f"{subject} ranks below {others} on every machine that it fits",
            )
    if static_labels:
        yield Location(release.where).finding(
            checks.SHADOWED_VARIANT,
            f"{release.name} {release.version}: {listed(static_labels, most=_MAX_NAMED)} must be "
            "requested by the user",
            remedy="nothing, if that is intended: the user chooses, not the machine",
            severity=Severity.NOTE,
        )


class _Reach(NamedTuple):
    """The labels of a release that fit machines."""

    fitting: dict[Label, dict[Label, None]]
    """Labels that fit some machine, each with the best labels above it there."""
    chosen: set[Label]
    """Labels that are the best for some machine."""


def _find_reach(
    document: VariantDocument, tags: dict[Label, set[Tag]], find_machines: FindMachines
) -> _Reach:
    """Return the labels that fit some machine, and the chosen ones."""
    reach = _Reach({}, set())
    for machine in find_machines(document):
        # The best label with a wheel, by kind of interpreter.
        best_labels: dict[str, Label] = {}
        for label in _ranked_labels(document, machine, tags):
            interpreters = _interpreters(tags[label], machine)
            if not interpreters:
                continue
            higher_labels = dict.fromkeys(
                best_labels[interpreter]
                for interpreter in interpreters
                if interpreter in best_labels
            )
            is_best_for_some = not interpreters <= best_labels.keys()
            if is_best_for_some:
                reach.chosen.add(label)
            reach.fitting.setdefault(label, {}).update(higher_labels)
            for interpreter in interpreters:
                best_labels.setdefault(interpreter, label)
    return reach


def _ranked_labels(
    document: VariantDocument, machine: OverviewHost, tags: dict[Label, set[Tag]]
) -> Iterator[Label]:
    support = support_for(
        document,
        None,
        environment=machine.target.environment,
        host_detector=machine.detector,
        namespaces=namespaces_used(document.variants.values()),
        known=KnownVersions(is_open=True),
    )
    for ranked in order_labels(document, support):
        if ranked.label in tags:
            yield ranked.label


def _interpreters(tags: set[Tag], machine: OverviewHost) -> frozenset[str]:
    """Return the kinds of interpreters of a machine that tags are for."""
    platforms = {tag.platform for tag in machine.target.tags} | {"any"}
    return frozenset(f"{tag.interpreter}-{tag.abi}" for tag in tags if tag.platform in platforms)


def _has_known_providers(document: VariantDocument, label: Label) -> bool:
    """Return whether the providers of all of a label's properties are known."""
    properties = document.properties(label)
    for namespace in () if properties is None else properties.namespaces:
        provider = document.providers.get(namespace)
        if not isinstance(provider, StaticProvider | BuiltinProvider) and not by_namespace(
            namespace
        ):
            return False
    return True


def _differ_statically(document: VariantDocument, labels: Iterable[Label]) -> bool:
    """Return whether labels differ in static lists only, so that no detection decides."""
    detected_properties = {
        tuple(
            property_
            for property_ in document.properties(label) or ()
            if not isinstance(document.providers.get(property_.namespace), StaticProvider)
        )
        for label in labels
    }
    return len(detected_properties) == 1
