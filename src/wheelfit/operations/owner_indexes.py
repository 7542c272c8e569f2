"""The indexes of the owners of projects, and whether they are in effect for a user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.operations.plain_data import PlainFields, plain_fields
from wheelfit.sources.urls import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.core.bridges import BridgeFamily, FamilyMember
    from wheelfit.installation.installed import Installed
    from wheelfit.operations.requests import SourceOptions
    from wheelfit.sources.bridges.catalogue import KnownFamilies
    from wheelfit.sources.settings import SourceSettings


class OwnerIndex(Struct, frozen=True):
    """An index of the owner of some projects, which may be in effect by default."""

    family: str
    url: str
    """Without credentials."""
    projects: tuple[str, ...]
    """Projects of the family; ``name-*`` is a prefix."""
    reason: str = ""
    """The reason why it is not in effect for them; empty if it is."""

    def to_json(self) -> dict[str, object]:
        """Return the index as plain data."""
        return plain_fields(
            self, "family url projects", active=not self.reason, reason=self.reason or None
        )


@dataclass(frozen=True, slots=True)
class OwnerBuild(PlainFields):
    """An installed package that is a build of its owner's index."""

    name: str
    version: str
    family: str
    build: str
    """The label or local version of the build."""
    place: str
    """The URL of the index, the page or the folder of the build, without credentials."""


class OwnerIndexes:
    """The indexes of owners of projects under a user's settings.

    :param environ: the environment variables; one may name a policy that forbids all of them.
    :raises UserError: a named family does not exist.
    :raises FileProblem: a file of families cannot be read.
    :raises InvalidDocument: ``invalid-bridge``; a file breaks its rules.
    :raises PolicyRefusal: a policy cannot be read.
    """

    def __init__(
        self, request: SourceOptions, settings: SourceSettings, environ: Mapping[str, str]
    ) -> None:
        from wheelfit.operations.trust_store import read_policies
        from wheelfit.sources.bridges.catalogue import BridgeCatalogue, known_families

        self._request = request
        self._settings = settings
        self._all_families: KnownFamilies = known_families(
            environ, shipped_bridges=request.shipped_bridges
        )
        self._catalogue = BridgeCatalogue(request.bridge, families=self._all_families)
        self._policy = read_policies(environ).forbids_bridges
        requested = (family for family in self._catalogue.requested if family.is_of_indexes)
        families = (*self._all_families.default_index_families(), *requested)
        self._families = {family.name: family for family in families}

    def indexes(
        self,
        reason_if_off: str = "bridges is set to []; `wheelfit config show --origin` shows where",
    ) -> tuple[OwnerIndex, ...]:
        """Return the default and the named indexes, with the reasons why some are not in effect.

        :param reason_if_off: the reason if ``bridges`` turns off the defaults.
        """
        indexes = []
        for family in self._families.values():
            by_reason: dict[str, list[str]] = {}
            for project in family.projects:
                by_reason.setdefault(self._reason(family, project, reason_if_off), []).append(
                    project
                )
            indexes += [
                OwnerIndex(family.name, redact(self._base(family)), tuple(projects), reason)
                for reason, projects in by_reason.items()
            ]
        return tuple(indexes)

    def builds(self, installed: Iterable[Installed]) -> Iterator[OwnerBuild]:
        """Yield the installed packages from an owner's index, by label or local version."""
        for entry in installed:
            for family in self._all_families.standing_for(entry.name):
                member = _member_of(family, entry) if family.is_of_indexes else None
                if member is not None and not member.is_of_registry:
                    yield OwnerBuild(
                        entry.name,
                        str(entry.version),
                        family.name,
                        str(member.label or member.local),
                        redact(self._place(family, member)),
                    )
                    break

    def _base(self, family: BridgeFamily) -> str:
        """Return the URL above the folders of a family: the user's mirror, or its own."""
        return self._catalogue.bases.get(family.name, family.base)

    def _place(self, family: BridgeFamily, member: FamilyMember) -> str:
        """Return the URL of the index, the page or the folder of a member."""
        if member.has_own_url and family.name not in self._catalogue.bases:
            return member.location
        return f"{self._base(family)}/{member.folder}"

    def _reason(self, family: BridgeFamily, project: str, reason_if_off: str) -> str:
        """Return the reason why an owner's index is off for a project; empty if it is in effect."""
        if self._policy is not None:
            return f"bridges is set to [] by the policy {self._policy}"
        if family in self._catalogue.requested:
            return ""
        if self._request.bridges_off_by:
            return reason_if_off
        return self._settings.why_not_of_registry(project)


def _member_of(family: BridgeFamily, entry: Installed) -> FamilyMember | None:
    """Return the member of a family of indexes that an installed package belongs to."""
    if entry.label is not None:
        return family.member_of(entry.label, entry.version, entry.name)
    if entry.version.local is None:
        return None
    members = family.members_of(entry.version, entry.name)
    return next((member for member in members if member.local == entry.version.local), None)
