"""The reach of variants: the machines that would take them (F-28, F-66)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wheelfit.checking import checks
from wheelfit.checking.findings import CheckedFile, Severity
from wheelfit.core.abi_dependency import KnownVersions
from wheelfit.core.labels import NULL
from wheelfit.core.ordering import order_labels
from wheelfit.core.property_support import namespaces_used, support_for
from wheelfit.core.providers import BuiltinProvider, StaticProvider
from wheelfit_runtime.platforms.providers import by_namespace
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packaging.tags import Tag

    from wheelfit.checking.findings import Finding
    from wheelfit.checking.releases import ReleaseFacts
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label
    from wheelfit.resolution.overview import OverviewHost

    Machines = Callable[[VariantDocument], Iterable[OverviewHost]]


_NAMED = 5


def reach_findings(
    release: ReleaseFacts, document: VariantDocument, machines: Machines
) -> Iterator[Finding]:
    """Yield variants that no machine takes, and those that are never the best."""
    tags: dict[Label, set[Tag]] = {}
    where: dict[Label, str] = {}
    for wheel in release.variants:
        if wheel.filename.label is not None:
            tags.setdefault(wheel.filename.label, set()).update(wheel.filename.tags)
            where.setdefault(wheel.filename.label, wheel.where)
    judged = {
        label: of
        for label, of in tags.items()
        if document.properties(label) is not None and _is_known(document, label)
    }
    if not judged:
        return
    reached = _reach(document, tags, machines)
    asked_for: list[Label] = []
    for label in sorted(judged):
        place = CheckedFile(where[label])
        what = f"{release.name} {release.version}: {label}"
        if label not in reached.fitting:
            yield place.found(checks.NO_KNOWN_MACHINE, f"{what} fits none of the presets")
        elif label in reached.chosen or label == NULL:  # null is for users who disable variants
            continue
        elif _is_static(document, [label, *reached.fitting[label]]):
            asked_for.append(label)
        else:
            others = ", ".join(list(reached.fitting[label])[:_NAMED])
            yield place.found(checks.SHADOWED_VARIANT, f"{what} is below {others} wherever it fits")
    if asked_for:
        yield CheckedFile(release.where).found(
            checks.SHADOWED_VARIANT,
            f"{release.name} {release.version}: only who asks for "
            f"{listed(asked_for, most=_NAMED)} gets that",
            remedy="nothing has to be done if that is meant: a wish decides, and no machine",
            severity=Severity.NOTE,
        )


class _Reached(NamedTuple):
    """The labels of a release that machines get."""

    fitting: dict[Label, dict[Label, None]]
    """Labels that fit some machine, with those that stand above wherever they do."""
    chosen: set[Label]
    """Labels that are the best somewhere."""


def _reach(document: VariantDocument, tags: dict[Label, set[Tag]], machines: Machines) -> _Reached:
    """Return the labels that fit every machine, and the chosen ones."""
    reached = _Reached({}, set())
    for machine in machines(document):
        covered: dict[str, Label] = {}
        """By kind of interpreter: the best label that has a wheel for it."""
        for label in _in_order(document, machine, tags):
            places = _places(tags[label], machine)
            if not places:
                continue
            above = dict.fromkeys(covered[place] for place in places if place in covered)
            if len(places) > sum(place in covered for place in places):
                reached.chosen.add(label)
            reached.fitting.setdefault(label, {}).update(above)
            for place in places:
                covered.setdefault(place, label)
    return reached


def _in_order(
    document: VariantDocument, machine: OverviewHost, tags: dict[Label, set[Tag]]
) -> Iterator[Label]:
    support = support_for(
        document,
        None,
        environment=machine.target.environment,
        user_lists=machine.detector,
        namespaces=namespaces_used(document.variants.values()),
        known=KnownVersions(is_open=True),
    )
    for ranked in order_labels(document, support):
        if ranked.label in tags:
            yield ranked.label


def _places(tags: set[Tag], machine: OverviewHost) -> frozenset[str]:
    """Return the kinds of interpreters of a machine that tags are for."""
    platforms = {tag.platform for tag in machine.target.tags} | {"any"}
    return frozenset(f"{tag.interpreter}-{tag.abi}" for tag in tags if tag.platform in platforms)


def _is_known(document: VariantDocument, label: Label) -> bool:
    """Return whether the providers of all of a label's properties are known."""
    properties = document.properties(label)
    for namespace in () if properties is None else properties.namespaces:
        provider = document.providers.get(namespace)
        if not isinstance(provider, StaticProvider | BuiltinProvider) and not by_namespace(
            namespace
        ):
            return False
    return True


def _is_static(document: VariantDocument, labels: Iterable[Label]) -> bool:
    """Return whether no machine decides between labels: they differ in static lists only."""
    decided = {
        tuple(
            item
            for item in document.properties(label) or ()
            if not isinstance(document.providers.get(item.namespace), StaticProvider)
        )
        for label in labels
    }
    return len(decided) == 1
