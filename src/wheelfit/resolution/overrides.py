"""The user's replacements of requirements: overrides and excluded projects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from wheelfit.resolution.request import RequestedRequirement
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from packaging.utils import NormalizedName


class Replacements:
    """The overrides and exclusions by which the user replaces requirements.

    :param overrides: the requirements that replace all others on their projects; if no marker of
        an override matches, the others are only removed.
    :raises UserError: an override has a URL.
    """

    def __init__(
        self,
        overrides: Iterable[RequestedRequirement],
        excluded: AbstractSet[NormalizedName],
        environment: Mapping[str, str | AbstractSet[str]],
    ) -> None:
        self._overrides: dict[NormalizedName, list[RequestedRequirement]] = {}
        for override in overrides:
            requirement = override.requirement
            if requirement.url is not None:
                raise UserError(
                    f"an override of {requirement.name} cannot be a URL",
                    where=override.where or None,
                    hint="request the URL itself, and override with the version that it has",
                )
            project_overrides = self._overrides.setdefault(requirement.name, [])
            if requirement.applies(environment):
                project_overrides.append(override)
        self._excluded = excluded

    @property
    def names(self) -> frozenset[NormalizedName]:
        """The projects with replaced requirements."""
        return frozenset(self._excluded) | self._overrides.keys()

    def concerns(self, name: NormalizedName) -> bool:
        """Return whether the requirements on a project are overridden or excluded."""
        return name in self._excluded or name in self._overrides

    def apply_to(self, requested: RequestedRequirement) -> Iterator[RequestedRequirement]:
        """Yield the overrides of a requirement, or the requirement itself.

        :param requested: a requirement of the user or of a package, whose marker matches.
        """
        requirement = requested.requirement
        if requirement.name in self._excluded:
            return
        overrides = self._overrides.get(requirement.name)
        if overrides is None:
            yield requested
            return
        for override in overrides:
            extras = requirement.extras | override.requirement.extras
            where = f"overridden by {override.where or 'the command line'}"
            yield RequestedRequirement(replace(override.requirement, extras=extras), where)
