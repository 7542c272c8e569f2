"""The packages of a lock that are older than the newest allowed release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.locking.environments import LockEnvironment, describe_environments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wheelfit.locking.listed_wheels import ListedEnvironment
    from wheelfit.resolution.resolution import HeldBack


@dataclass(frozen=True, slots=True)
class LockHeldBack:
    """A release that was locked although a newer one was allowed."""

    release: HeldBack
    environments: tuple[LockEnvironment, ...]
    """The environments in which it is locked, in the order of their resolution."""
    is_everywhere: bool
    """Whether no environment has another release of the package."""

    def __str__(self) -> str:
        old = self.release
        where = "" if self.is_everywhere else f" for {describe_environments(self.environments)}"
        return f"{old.name} {old.version}{where} (latest {old.latest} {old.reason})"

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        names = [environment.name for environment in self.environments]
        return {**self.release.to_mapping(), "for": list(dict.fromkeys(names))}


def held_back(listed_environments: Sequence[ListedEnvironment]) -> Iterator[LockHeldBack]:
    """Yield each release that was held back, once for all environments that have it.

    Its reason is that of the first environment; later ones prefer the version of the first. If the
    newest release is locked for another Python of the same platform, the requested Pythons are the
    reason, and it is not reported.

    :param listed_environments: the solutions of one lock, in the order of their resolution.
    """
    releases: dict[HeldBack, None] = {}
    for listed in listed_environments:
        releases |= dict.fromkeys(listed.solution.resolution.held_back)
    for release in releases:
        locked_versions = [
            (listed.environment, listed.projects[release.name].version)
            for listed in listed_environments
            if release.name in listed.projects
        ]
        platforms_with_latest = {
            environment.platform
            for environment, version in locked_versions
            if version == release.latest
        }
        with_release = [
            environment for environment, version in locked_versions if version == release.version
        ]
        reported = tuple(
            dict.fromkeys(
                environment
                for environment in with_release
                if environment.platform not in platforms_with_latest
            )
        )
        if reported:
            yield LockHeldBack(release, reported, len(with_release) == len(locked_versions))
