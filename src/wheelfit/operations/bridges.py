"""The operation of ``wheelfit bridges``: families of distributions presented as variants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.requests import ValidatedRequest
from wheelfit.sources.bridges.catalogue import KnownFamilies, known_families

if TYPE_CHECKING:
    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.operations.context import Context


class BridgesRequest(ValidatedRequest):
    """The families to show."""

    names: tuple[str, ...] = ()
    """Names of families, or paths of their files; empty for all families."""
    shipped_bridges: bool = False


@dataclass(frozen=True, slots=True)
class BridgesReport:
    """The families that were requested."""

    families: tuple[BridgeFamily, ...]
    available: KnownFamilies
    """All available families."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        families = list(map(_to_json, self.families))
        return plain_report(self, data=self.available.origin_data(), families=families)


def show_bridges(request: BridgesRequest, context: Context) -> BridgesReport:
    """Return the requested families, or all of them.

    :raises InvalidDocument: ``invalid-bridge``; a file does not describe a family.
    """
    available = known_families(context.environ, shipped_bridges=request.shipped_bridges)
    names = request.names or available.names()
    return BridgesReport(tuple(available.find(name) for name in names), available)


def _to_json(family: BridgeFamily) -> dict[str, object]:
    return plain_fields(
        family,
        "name projects by_default exclusive extras no_fit says source",
        members=[
            plain_fields(
                member,
                "distribution label versions",
                properties=[str(item) for item in member.when],
                index=member.index or None,
            )
            for member in family.members
        ],
        checked=family.checked.isoformat(),
    )
