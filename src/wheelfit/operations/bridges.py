"""Families of distributions that are presented as variants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.operations.requests import ValidatedRequest, frozen_request
from wheelfit.sources.bridges.catalogue import known_families

if TYPE_CHECKING:
    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.operations.context import Context
    from wheelfit.sources.bridges.catalogue import KnownFamilies


@frozen_request
class BridgesRequest(ValidatedRequest):
    """Families to show."""

    names: tuple[str, ...] = ()
    """Names, or paths of files; none: every family."""
    shipped_bridges: bool = False


@dataclass(frozen=True, slots=True)
class BridgesReport:
    """Families of distributions."""

    families: tuple[BridgeFamily, ...]
    known: KnownFamilies
    """The families that there are."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        families = [_to_json(one) for one in self.families]
        return {"version": 1, "data": self.known.edition(), "families": families}


def show_bridges(request: BridgesRequest, context: Context) -> BridgesReport:
    """Return families as they are where a user names them.

    :raises InvalidDocument: ``invalid-bridge``; a file does not describe a family.
    :raises WheelfitError: there is no such family, or its file cannot be read.
    """
    known = known_families(context.environ, shipped_bridges=request.shipped_bridges)
    names = request.names or known.names()
    return BridgesReport(tuple(known.find(name) for name in names), known)


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
