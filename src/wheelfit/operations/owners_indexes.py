"""The indexes of the owners of projects, and whether they are in effect for a user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from wheelfit.operations.requests import SourceOptions
from wheelfit.sources.settings import FamilyHosts
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import NetworkError, UnexpectedStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.core.bridges import BridgeFamily, FamilyMember
    from wheelfit.installation.installed import Installed
    from wheelfit.operations.context import Context
    from wheelfit.sources.bridges.catalogue import KnownFamilies
    from wheelfit.sources.settings import SourceSettings

_PATIENCE = 5.0
"""Seconds in which an index must begin to answer."""


class OwnersIndex(Struct, frozen=True):
    """An index of the owner of some projects, which may be in effect by default."""

    family: str
    url: str
    """Without credentials."""
    projects: tuple[str, ...]
    """Projects of the family to which this applies; ``name-*`` is a prefix."""
    reason: str = ""
    """The reason why it is not in effect for them; empty if it is."""

    def to_json(self) -> dict[str, object]:
        """Return the index as plain data."""
        return {
            "family": self.family,
            "url": self.url,
            "projects": list(self.projects),
            "active": not self.reason,
            "reason": self.reason or None,
        }


class OwnersBuild(Struct, frozen=True):
    """An installed package that is a build of its owner's index."""

    name: str
    version: str
    family: str
    build: str
    """As the family calls it."""
    place: str
    """The URL of the index, the page or the folder that it is from, without credentials."""

    def to_json(self) -> dict[str, object]:
        """Return the build as plain data."""
        return {
            "name": self.name,
            "version": self.version,
            "family": self.family,
            "build": self.build,
            "place": self.place,
        }


class OwnersView:
    """The indexes of owners of projects under a user's settings.

    :param request: with the user's options for families.
    :param settings: the sources.
    :param environ: the environment of the process, in which a policy may forbid all of them.
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
        self._known: KnownFamilies = known_families(
            environ, shipped_bridges=request.shipped_bridges
        )
        self._shelf = BridgeCatalogue(request.bridge, families=self._known)
        self._policy = read_policies(environ).forbids_bridges
        named = {one.name: one for one in self._shelf.agreed if one.is_of_indexes}
        self._families = {owner.name: owner for owner in self._known.of_owners()} | named

    def indexes(
        self, off: str = "bridges is set to []; `wheelfit config show --origin` says where"
    ) -> tuple[OwnersIndex, ...]:
        """Return the default and the named ones, and why some are not in effect.

        :param off: the reason where ``bridges`` turns off the defaults.
        """
        indexes = []
        for family in self._families.values():
            by_reason: dict[str, list[str]] = {}
            for project in family.projects:
                by_reason.setdefault(self._reason(family, project, off), []).append(project)
            indexes += [
                OwnersIndex(family.name, redact(self._base(family)), tuple(projects), reason)
                for reason, projects in by_reason.items()
            ]
        return tuple(indexes)

    def builds(self, installed: Iterable[Installed]) -> Iterator[OwnersBuild]:
        """Yield the installed packages from an owner's index, by label or local version.

        :param installed: the installed distributions.
        """
        for entry in installed:
            for family in self._known.standing_for(entry.name):
                member = _member_of(family, entry) if family.is_of_indexes else None
                if member is not None and not member.is_of_registry:
                    yield OwnersBuild(
                        entry.name,
                        str(entry.version),
                        family.name,
                        str(member.label or member.local),
                        redact(self._place(family, member)),
                    )
                    break

    def ask(self, context: Context) -> Mapping[str, str]:
        """Request every index in effect; return the errors of those that fail, by family.

        :param context: its environment has the variables needed to reach them.
        :return: an empty text for one that answers.
        """
        from wheelfit.sources.concurrency import at_once

        counting = {index.family for index in self.indexes() if not index.reason}
        families = [family for name, family in self._families.items() if name in counting]
        problems = at_once(families, lambda family: self._problem(family, context), most=8)
        return {one.name: problem for one, problem in zip(families, problems, strict=True)}

    def _problem(self, family: BridgeFamily, context: Context) -> str:
        """Return the reason why the first index of a family does not answer; empty if it does."""
        from wheelfit.operations.indexes import open_indexes, settings_of_place

        member = next(one for one in family.members if not one.is_of_registry)
        project = (member.projects or family.projects)[0].replace("*", "")
        only = () if family.name in self._shelf.bases else family.only_hosts
        place = settings_of_place(
            replace(self._settings, cache=False, timeout=_PATIENCE, retries=0),
            # Of flat pages, and files that no page lists, any answer is enough.
            self._place(family, member) if member.index else self._base(family),
            is_page=False,
            hosts=FamilyHosts(family.name, only) if only else None,
        )
        try:
            with open_indexes(SourceOptions(no_bridges=True), place, context) as sources:
                sources.project(canonicalize_name(project))
        except UnexpectedStatus as error:
            return error.message if member.index else ""
        except NetworkError as error:
            return error.message
        return ""

    def _base(self, family: BridgeFamily) -> str:
        return self._shelf.bases.get(family.name, family.base)

    def _place(self, family: BridgeFamily, member: FamilyMember) -> str:
        is_whole = member.has_own_url and family.name not in self._shelf.bases
        return member.location if is_whole else f"{self._base(family)}/{member.folder}"

    def _reason(self, family: BridgeFamily, project: str, off: str) -> str:
        """Return the reason why an owner's index is off for a project; empty if it is in effect."""
        if self._policy is not None:
            return f"bridges is set to [] by the policy {self._policy}"
        if family in self._shelf.agreed:
            return ""
        is_off = bool(self._request.bridges_off)
        return off if is_off else self._settings.why_not_of_registry(project)


def _member_of(family: BridgeFamily, entry: Installed) -> FamilyMember | None:
    """Return the member of a family of indexes that an installed package is of."""
    if entry.label is not None:
        return family.member_of(entry.label, entry.version, entry.name)
    if entry.version.local is None:
        return None
    members = family.members_of(entry.version, entry.name)
    return next((member for member in members if member.local == entry.version.local), None)
