"""Families of distributions that are presented as variants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.sources.bridges.catalogue import find_family, shipped, shipped_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit.core.bridges import BridgeFamily


@dataclass(frozen=True, slots=True)
class BridgesReport:
    """Families of distributions."""

    families: tuple[BridgeFamily, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {"version": 1, "families": [_to_json(one) for one in self.families]}


def list_bridges() -> BridgesReport:
    """Return every family that wheelfit ships."""
    return BridgesReport(
        tuple(one for name in shipped_names() if (one := shipped(name)) is not None)
    )


def show_bridges(names: Iterable[str]) -> BridgesReport:
    """Return some families.

    :param names: names of families, or paths of files that describe one.
    :raises InvalidDocument: ``invalid-bridge``; a file does not describe a family.
    :raises WheelfitError: there is no such family, or its file cannot be read.
    """
    return BridgesReport(tuple(find_family(name) for name in names))


def _to_json(family: BridgeFamily) -> dict[str, object]:
    return {
        "name": family.name,
        "projects": list(family.projects),
        "by_default": family.by_default,
        "exclusive": family.exclusive,
        "members": [
            {
                "distribution": member.distribution,
                "label": member.label,
                "properties": [str(item) for item in member.when],
                "versions": str(member.versions),
                "index": member.index or None,
            }
            for member in family.members
        ],
        "extras": list(family.extras),
        "no_fit": family.no_fit,
        "says": family.says,
        "source": family.source,
        "checked": family.checked.isoformat(),
    }
