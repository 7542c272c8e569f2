"""Resolution: the versions and builds that requirements lead to, without installing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.operations.opened import FromRequirements, open_for_choice

if TYPE_CHECKING:
    from wheelfit.operations.context import Context
    from wheelfit.resolution.resolution import Resolution


@dataclass(frozen=True, kw_only=True)
class ResolveRequest(FromRequirements):
    """What is asked for, and for which machine; what is installed has no part in it."""


def resolve(request: ResolveRequest, context: Context) -> Resolution:
    """Choose a version and a wheel of everything that is needed; nothing is installed.

    :param request: what is asked for.
    :param context: the surroundings.
    :raises NoSolution: the requirements contradict each other.
    :raises NoCompatibleWheel: nothing of a project fits the machine.
    """
    from wheelfit.resolution import resolver
    from wheelfit.resolution.request import Request

    with open_for_choice(request, context, changes=False) as opened:
        wanted = opened.wanted
        return resolver.resolve(
            Request(
                requirements=wanted.requirements,
                wheels=opened.wheels(),
                constraints=wanted.constraints,
                overrides=wanted.overrides,
                excluded=wanted.excluded,
                prereleases=opened.prereleases,
                dependencies=not request.no_deps,
                require_hashes=opened.requires_hashes,
            ),
            opened.candidates,
        )
