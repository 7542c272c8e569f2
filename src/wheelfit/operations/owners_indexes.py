"""The indexes of the owners of projects, and whether they count where somebody is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.sources.urls import redact

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.operations.requests import SourceOptions
    from wheelfit.sources.settings import SourceSettings


class OwnersIndex(Struct, frozen=True):
    """An index of the owner of some projects, which may count without anybody having named it."""

    family: str
    url: str
    """Without credentials."""
    projects: tuple[str, ...]
    """Those of the family to which this applies; ``name-*`` are all that begin so."""
    reason: str = ""
    """Why it does not count for them; empty: it counts."""

    def to_json(self) -> dict[str, object]:
        """Return the index as plain data."""
        return {
            "family": self.family,
            "url": self.url,
            "projects": list(self.projects),
            "counts": not self.reason,
            "reason": self.reason or None,
        }


def owners_indexes(
    request: SourceOptions,
    settings: SourceSettings,
    environ: Mapping[str, str],
    off: str = "bridges is set to []; `wheelfit config show --origin` says where",
) -> tuple[OwnersIndex, ...]:
    """Return the indexes of owners that count by default or are named, and why some do not count.

    :param request: with what the user says of families.
    :param settings: the sources.
    :param environ: the environment of the process, in which a policy may forbid all of them.
    :param off: the reason where ``bridges`` turns off those that count by default.
    :raises UserError: a family is named that there is not.
    :raises FileProblem: a file of families cannot be read.
    :raises InvalidDocument: ``invalid-bridge``; a file breaks its rules.
    :raises PolicyRefusal: a policy cannot be read.
    """
    from wheelfit.operations.trust_store import read_policies
    from wheelfit.sources.bridges.catalogue import BridgeCatalogue, known_families

    known = known_families(environ, shipped_bridges=request.shipped_bridges)
    shelf = BridgeCatalogue(request.bridge, families=known)
    policy = read_policies(environ).forbids_bridges
    turned_off = off if request.bridges_off else ""

    def reason(family: BridgeFamily, project: str) -> str:
        if policy is not None:
            return f"bridges is set to [] by the policy {policy}"
        if family in shelf.agreed:
            return ""
        return turned_off or settings.why_not_of_registry(project)

    def rows() -> Iterator[OwnersIndex]:
        named = {one.name: one for one in shelf.agreed if one.is_of_indexes}
        for family in ({one.name: one for one in known.of_owners()} | named).values():
            by_reason: dict[str, list[str]] = {}
            for project in family.projects:
                by_reason.setdefault(reason(family, project), []).append(project)
            url = redact(shelf.bases.get(family.name, family.base))
            for why, projects in by_reason.items():
                yield OwnersIndex(family.name, url, tuple(projects), why)

    return tuple(rows())
