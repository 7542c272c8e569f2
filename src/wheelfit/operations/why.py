"""Reasons for a package: the chains of requirements that lead to it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfit.installation.dependencies import InstalledRequirement, InstalledRequirements
from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.plain_data import PlainFields, plain_report
from wheelfit.operations.requests import EnvironmentOptions
from wheelfit.operations.show import not_installed_error

if TYPE_CHECKING:
    from packaging.utils import NormalizedName

    from wheelfit.operations.context import Context

_MAX_CHAINS = 100
"""Chains that are returned at most, the shortest first."""
_MAX_STEPS = 100_000
"""Chains that are examined at most."""


class WhyRequest(EnvironmentOptions):
    """The package, and the environment that has it."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class RequirementLink(PlainFields):
    """A package in a chain, and the requirement that links it to its predecessor."""

    name: NormalizedName
    version: str
    requirement: str | None
    """With extras and marker; None: it starts the chain."""
    extra: str | None = None
    """The extra of the package before it that has the requirement; None: it applies always."""


@dataclass(frozen=True, slots=True)
class WhyReport:
    """The reasons for which a package is installed."""

    name: NormalizedName
    environment: str
    version: str
    chains: tuple[tuple[RequirementLink, ...], ...]
    """Chains from the requested packages to this one, shortest first; none: it was not requested.
    """
    has_more: bool
    """Whether there are further chains."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self, "name environment chains", installed=self.version, truncated=self.has_more
        )


def why(request: WhyRequest, context: Context) -> WhyReport:
    """Return the chains of requirements that lead to an installed package.

    Extras that may not have been requested are considered only if nothing else leads to it.

    :param request: the package, and where it is.
    :param context: the environment variables and the reporter.
    :raises UserError: ``not-installed``; it is not installed.
    """
    name = canonicalize_name(request.name)
    environment = open_environment_of(request, context.environ)
    needs = InstalledRequirements.of(environment.installed(), environment.interpreter.environment)
    if name not in needs.packages:
        raise not_installed_error([name], needs.packages, environment)
    package = needs.packages[name]
    chains, has_more = _chains(needs, name, guess=False)
    if not chains and not package.requested:
        chains, has_more = _chains(needs, name, guess=True)
    return WhyReport(name, environment.name, str(package.version), tuple(chains), has_more)


def _chains(
    needs: InstalledRequirements, name: NormalizedName, *, guess: bool
) -> tuple[list[tuple[RequirementLink, ...]], bool]:
    """Return the chains to a package, the shortest first, and whether there are more.

    :param guess: whether extras are considered that may not have been requested.
    """
    chains: list[tuple[RequirementLink, ...]] = []
    pending: deque[tuple[InstalledRequirement, ...]] = deque([()])
    steps = 0
    while pending and len(chains) < _MAX_CHAINS and steps < _MAX_STEPS:
        requirements = pending.popleft()
        steps += 1
        first = requirements[0].dependent.name if requirements else name
        dependents = [need for need in needs.on(first) if need.is_required or guess]
        if needs.packages[first].requested or (requirements and not dependents):
            chains.append(_links(needs, first, requirements))
            if requirements:  # a requested package may be required by others, too
                continue
        names = {name, *(need.dependent.name for need in requirements)}
        pending += [
            (need, *requirements) for need in dependents if need.dependent.name not in names
        ]
    return chains, bool(pending)


def _links(
    needs: InstalledRequirements,
    first: NormalizedName,
    requirements: tuple[InstalledRequirement, ...],
) -> tuple[RequirementLink, ...]:
    links = [RequirementLink(first, str(needs.packages[first].version), None)]
    for need in requirements:
        name = need.requirement.name
        version = str(needs.packages[name].version)
        links.append(RequirementLink(name, version, str(need.requirement), need.extra))
    return tuple(links)
