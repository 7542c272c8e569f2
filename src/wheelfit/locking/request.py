"""The request for a lock, independent of its origin."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from wheelfit.core.markers import parse_marker
from wheelfit.resolution.overrides import Replacements
from wheelfit.resolution.request import DirectWheel, RequestedRequirement
from wheelfit.sources.urls import split_userinfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.specifiers import SpecifierSet
    from packaging.utils import NormalizedName

    from wheelfit.core.requirements import Requirement
    from wheelfit.core.target import Target
    from wheelfit.resolution.listing import AllowedHashes


def in_extras(name: str) -> str:
    """Return the marker of a lock for a requested extra."""
    return f"'{name}' in extras"


def in_groups(name: str) -> str:
    """Return the marker of a lock for a requested dependency group."""
    return f"'{name}' in dependency_groups"


class Root(Struct, frozen=True):
    """A requirement that a lock is made for."""

    requirement: Requirement
    where: str = ""
    """File and line; empty: the command line."""
    extra: NormalizedName | None = None
    """The extra of the project that requires it; None: none does."""
    group: NormalizedName | None = None
    """The dependency group that requires it; None: none does."""
    wheel: DirectWheel | None = None
    """The only wheel allowed for its project; None: any that meets it."""

    @property
    def request_marker(self) -> str | None:
        """The marker of a lock file under which it applies; None: always."""
        if self.extra is not None:
            return in_extras(self.extra)
        if self.group is not None:
            return in_groups(self.group)
        return None

    def to_requested(self) -> RequestedRequirement:
        """Return it as a requirement for the resolver, without its extra or group."""
        return RequestedRequirement(self.requirement, self.where)

    def __str__(self) -> str:
        """Return it as a lock records it, with the marker under which it applies.

        A login in its URL is removed, since many people read a lock.
        """
        requirement, marker = self.requirement, self.requirement.marker
        if requirement.url is not None:
            requirement = replace(requirement, url=split_userinfo(requirement.url)[0])
        if self.request_marker is not None:
            text = self.request_marker
            if marker is not None:
                text = f"({marker}) and {text}"
            requirement = replace(requirement, marker=parse_marker(text))
        return str(requirement)


class LockNeeds(Struct, frozen=True):
    """The requirements and environments that a lock is made for."""

    roots: tuple[Root, ...] = ()
    constraints: tuple[RequestedRequirement, ...] = ()
    """Limits on the versions of projects that are required anyway."""
    overrides: tuple[RequestedRequirement, ...] = ()
    """Requirements that replace all others on their projects."""
    excluded: frozenset[NormalizedName] = frozenset()
    """Projects that are left out, even where a package requires them."""
    hashes: Mapping[NormalizedName, AllowedHashes] = field(default_factory=dict)
    """The allowed digests of a project's files; projects not listed may have any."""
    requires_python: SpecifierSet | None = None
    """The Pythons the project is for; None: not stated."""
    extras: tuple[NormalizedName, ...] = ()
    """Extras that may be requested, also those without requirements."""
    groups: tuple[NormalizedName, ...] = ()
    """Dependency groups that may be requested, likewise."""
    default_groups: tuple[NormalizedName, ...] = ()
    """The groups that apply when none is requested."""
    conflicts: tuple[tuple[str, ...], ...] = ()
    """Extras and groups of which at most one may be requested, as the markers of a lock."""
    prereleases: bool = False
    """Whether pre-releases count like final releases."""
    dependencies: bool = True
    """Whether the dependencies of the roots are locked too."""

    @property
    def wheels(self) -> tuple[DirectWheel, ...]:
        """The only wheels allowed for some projects."""
        return tuple(dict.fromkeys(root.wheel for root in self.roots if root.wheel is not None))

    @property
    def projects_with_requested_build(self) -> frozenset[NormalizedName]:
        """Projects of which one build is requested by its version, such as ``==2.14.1+cu126``."""
        requirements = [root.requirement for root in self.roots]
        requirements += [limit.requirement for limit in (*self.constraints, *self.overrides)]
        return frozenset(
            requirement.name
            for requirement in requirements
            if any("+" in specifier.version for specifier in requirement.specifier)
        )

    def effective_requirements(
        self, requirement: Requirement, target: Target
    ) -> Iterator[Requirement]:
        """Yield the overrides of a requirement, or the requirement itself.

        :param requirement: a requirement of the user or of a package, whose marker holds.
        """
        replaced = self.excluded | {override.requirement.name for override in self.overrides}
        if requirement.name not in replaced:
            yield requirement
            return
        replacements = Replacements(self.overrides, self.excluded, target.environment)
        for override in replacements.apply_to(RequestedRequirement(requirement)):
            yield override.requirement

    def __post_init__(self) -> None:
        force_setattr(self, "hashes", MappingProxyType(dict(self.hashes)))


class Fork(Struct, frozen=True):
    """A choice of one member of each conflict."""

    left_out: frozenset[str] = frozenset()
    """The members that are not chosen."""
    condition: tuple[str, ...] = ()
    """Markers that must all hold for it to apply; empty: it is the only fork."""

    def roots(self, request: LockNeeds) -> tuple[Root, ...]:
        """Return the roots of a request, without those of members that are not chosen."""
        return tuple(root for root in request.roots if root.request_marker not in self.left_out)


NO_FORK = Fork()
"""The only fork of a request without conflicts."""
