"""The packages of an environment with a newer release for this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from wheelfit.core.requirements import Requirement
from wheelfit.errors import NoSolution
from wheelfit.installation.installed import Installed, by_name
from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.selection_session import FromRequirements, SelectionSession, open_session
from wheelfit.resolution.explain import explain_project
from wheelfit.sources.concurrency import map_concurrently
from wheelfit_runtime.errors import NetworkError

if TYPE_CHECKING:
    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.labels import Label
    from wheelfit.operations.context import Context


class OutdatedRequest(FromRequirements):
    """The environment, the machine, and the sources of newer releases."""

    variants: bool = False


@dataclass(frozen=True, slots=True)
class OutdatedPackage:
    """An installed package, and the newest release that this machine can have."""

    installed: Installed
    latest: Version
    label: Label | None
    """The label of its best build; None for a plain wheel."""
    kind: Literal["wheel", "sdist"]
    """Whether there is a wheel of it, or it must be built."""

    def to_json(self) -> dict[str, object]:
        """Return the object of one package in ``--json``."""
        return plain_fields(
            self.installed,
            "name version label",
            latest=str(self.latest),
            latest_label=self.label,
            kind=self.kind,
        )


@dataclass(frozen=True, slots=True)
class OutdatedReport:
    """The packages with a newer release."""

    environment: str
    """The name of the environment."""
    packages: tuple[OutdatedPackage, ...]
    unknown: tuple[NormalizedName, ...]
    """Packages that no index has."""
    unreadable: tuple[tuple[NormalizedName, str], ...]
    """Packages whose page could not be read, and why."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            "environment packages unknown",
            unreadable=[{"name": name, "reason": reason} for name, reason in self.unreadable],
        )


def list_outdated(request: OutdatedRequest, context: Context) -> OutdatedReport:
    """Return the packages with a newer release that fits the machine.

    Pre-releases are considered with ``pre`` only, yanked releases never.

    :param request: the environment and the machine.
    :param context: the environment variables and the reporter.
    :raises NetworkError: no page could be read.
    """
    environment = open_environment_of(request, context.environ)
    installed = [
        entry
        for entry in by_name(environment.installed()).values()
        if entry.label or not request.variants
    ]
    if not installed:
        return OutdatedReport(environment.name, (), (), ())
    all_installed = request.with_options(requirements=tuple(entry.name for entry in installed))
    with open_session(all_installed, context, changes=False) as session:

        def check(entry: Installed) -> OutdatedPackage | NetworkError | Literal["unknown"] | None:
            try:
                return _newest(entry, session)
            except NetworkError as error:
                return error

        results = map_concurrently(installed, check, most=request.connections)
    pairs = list(zip(installed, results, strict=True))
    failed = [(entry.name, result) for entry, result in pairs if isinstance(result, NetworkError)]
    if len(failed) == len(installed):
        raise failed[0][1]
    return OutdatedReport(
        environment.name,
        tuple(result for result in results if isinstance(result, OutdatedPackage)),
        tuple(entry.name for entry, result in pairs if result == "unknown"),
        tuple((name, str(error)) for name, error in failed),
    )


def _newest(
    entry: Installed, session: SelectionSession
) -> OutdatedPackage | Literal["unknown"] | None:
    """Return the newest release of a package if it is newer than the installed one."""
    candidates, pre = session.candidates, session.prereleases
    listing = candidates.listing(entry.name)
    if listing is None:
        return "unknown"
    if not any(_is_newer(version, entry, pre=pre) for version in listing.releases):
        return None
    try:
        explanation = explain_project(candidates, Requirement(entry.name), prereleases=pre)
    except NoSolution:
        return None
    latest, chosen = explanation.version, explanation.chosen
    if latest is None or chosen is None or not _is_newer(latest, entry, pre=pre):
        return None
    wheel = candidates.usable_choice(entry.name, latest).chosen
    is_built = wheel is not None and wheel.file.origin is not None
    return OutdatedPackage(entry, latest, chosen.label, "sdist" if is_built else "wheel")


def _is_newer(version: Version, entry: Installed, *, pre: bool) -> bool:
    is_allowed = not version.is_prerelease or pre or entry.version.is_prerelease
    return version > entry.version and is_allowed
