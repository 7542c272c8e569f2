"""Which wheels of a release are listed for a machine, so that any installer takes the right one.

Installers look at tags first and at nothing that a label says, so of wheels with equal tags only
the best variant is listed, and nothing that its tags would put before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.server.proxy.one_metadata import platforms_of_tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packaging.tags import Tag

    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.labels import Label
    from wheelfit.core.target import TagPreference
    from wheelfit.resolution.listing import Wheel
    from wheelfit.server.proxy.one_metadata import Platform


@dataclass(frozen=True, slots=True)
class Offer:
    """Hold the wheels of a release that are listed."""

    variants: tuple[Wheel, ...]
    """At most one for each set of tags, best label first."""
    plain: tuple[Wheel, ...]
    """The plain wheels that no variant has to go before."""
    chosen: Wheel | None = None
    """What the client will take, if its tags are known and anything fits."""


def offer(wheels: Iterable[Wheel], ranks: Mapping[Label, int], tags: TagPreference | None) -> Offer:
    """Return what is listed of a release.

    :param ranks: the labels that may be chosen, the best with the lowest number.
    :param tags: of the client; None: they are not known, and no wheel is chosen for it.
    """
    best: dict[frozenset[Tag], Wheel] = {}
    plain: list[Wheel] = []
    for wheel in wheels:
        filename = wheel.filename
        if filename.label is None:
            plain.append(wheel)
        elif filename.label in ranks:
            other = best.get(filename.tags)
            if other is None or _order(filename, ranks) < _order(other.filename, ranks):
                best[filename.tags] = wheel
    variants = sorted(best.values(), key=lambda one: _order(one.filename, ranks))
    if tags is None:
        return Offer(tuple(variants), tuple(plain))
    return _for_client(variants, plain, ranks, tags)


def _for_client(
    variants: Sequence[Wheel],
    plain: Sequence[Wheel],
    ranks: Mapping[Label, int],
    tags: TagPreference,
) -> Offer:
    fitting = [
        (ranks[one.filename.label], rank, one)
        for one in variants
        if one.rejection is None
        and one.filename.label is not None
        and (rank := tags.best(one.filename.tags)) is not None
    ]
    if not fitting:
        candidates = [
            (rank, one)
            for one in plain
            if one.rejection is None and (rank := tags.best(one.filename.tags)) is not None
        ]
        chosen = min(candidates, key=lambda item: item[0])[1] if candidates else None
        return Offer(tuple(variants), tuple(plain), chosen)
    # F-90: the variant decides before the tags do. For the client the tags would decide.
    _, chosen_rank, chosen = min(fitting, key=lambda item: item[:2])
    label = chosen.filename.label

    def stays(one: Wheel) -> bool:
        rank = tags.best(one.filename.tags)
        if one.filename.label is None:
            return rank is None or rank >= chosen_rank
        return rank is None or one.filename.label == label

    return Offer(tuple(filter(stays, variants)), tuple(filter(stays, plain)), chosen)


def _order(filename: WheelFilename, ranks: Mapping[Label, int]) -> tuple[int, int, str]:
    build = int(filename.build[0]) if filename.build else 0
    return ranks[filename.label], -build, filename.text  # type: ignore[index]  # a variant


def taken(
    offered: Offer, ranks: Mapping[Label, int], here: frozenset[Platform | None]
) -> dict[Platform | None, Wheel]:
    """Return a wheel of the build that is taken on each platform; None: wherever else."""
    found: dict[Platform | None, Wheel] = {}
    worst = len(ranks)

    def rank(wheel: Wheel) -> int:
        label = wheel.filename.label
        return worst if label is None else ranks[label]

    everywhere: list[Wheel] = []
    wheels = (*offered.variants, *offered.plain)
    for wheel in wheels:
        for platform in platforms_of_tags(wheel.filename.tags):
            if platform is None:
                everywhere.append(wheel)
            known = found.get(platform)
            if known is None or rank(wheel) < rank(known):
                found[platform] = wheel
    for wheel in everywhere:
        for platform, known in found.items():
            if rank(wheel) < rank(known):
                found[platform] = wheel
    if offered.chosen is not None:
        for platform in here & found.keys():
            found[platform] = offered.chosen
    return found
