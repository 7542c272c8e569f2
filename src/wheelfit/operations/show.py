"""Details of installed packages: metadata, location, variant, dependencies and dependents."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from packaging.metadata import parse_email
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.phrases import describe_condition
from wheelfit.installation.choice_record import CHOICE_FILE, RecordedChoice, parse_choice
from wheelfit.installation.dependencies import InstalledRequirement, InstalledRequirements
from wheelfit.installation.variant_fit import FitVerdict, judge
from wheelfit.locking.export.license import license_of
from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.list import project_folder
from wheelfit.operations.machine import choose_machine
from wheelfit.operations.plain_data import PlainReport, plain_fields
from wheelfit.operations.requests import EnvironmentOptions, MachineOptions
from wheelfit.wheels.record import parse_record
from wheelfit_runtime.errors import UserError, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit.installation.environment import Environment
    from wheelfit.installation.installed import Installed
    from wheelfit.operations.context import Context


class ShowRequest(EnvironmentOptions, MachineOptions):
    """The packages, the environment, and the machine for the verdicts on variants."""

    names: tuple[str, ...] = ()
    files: bool = False


@dataclass(frozen=True, slots=True)
class PackageVariant:
    """The variant of an installed package, and the reasons for its choice."""

    label: str
    properties: tuple[str, ...]
    condition: str
    """The requirements of the properties on a machine, in words."""
    choice: RecordedChoice | None
    """The record of the choice; None: another tool installed it."""
    fits: bool | None
    """Whether it fits the machine now; None if unknown."""
    reason: str
    """The reason why it does not fit, or why that is unknown; empty if it fits."""

    def to_json(self) -> dict[str, object]:
        """Return the object of the variant in ``--json``."""
        choice = self.choice
        return plain_fields(
            self,
            "label properties condition fits",
            filename=None if choice is None else choice.filename,
            host=None if choice is None else choice.host_and_overrides.host,
            overrides=() if choice is None else choice.host_and_overrides.overrides,
            reason=self.reason or None,
        )


@dataclass(frozen=True, slots=True)
class PackageDetails:
    """Details of an installed package."""

    installed: Installed
    summary: str
    home_page: str
    license: str
    requires: tuple[InstalledRequirement, ...]
    """Its dependencies in this environment."""
    required_by: tuple[Installed, ...]
    """Packages that depend on it, by name."""
    variant: PackageVariant | None
    """None: it is a plain wheel."""
    files: tuple[str, ...] | None = None
    """Paths of its files, relative to its folder; None: not requested, or not recorded."""

    def to_json(self) -> dict[str, object]:
        """Return the object of one package in ``--json``."""
        entry = self.installed
        return {
            **plain_fields(entry, "name version location requested"),
            **plain_fields(self, "summary license variant files"),
            "home_page": self.home_page or None,
            "project": project_folder(entry),
            "installer": entry.installer or None,
            "requires": [
                plain_fields(
                    need,
                    "requirement extra",
                    name=need.requirement.name,
                    installed=None if need.installed is None else need.installed.version,
                    met=need.is_met,
                )
                for need in self.requires
            ],
            "required_by": [dependent.name for dependent in self.required_by],
        }


@dataclass(frozen=True, slots=True)
class ShowReport(PlainReport):
    """Details of some installed packages."""

    environment: str
    packages: tuple[PackageDetails, ...]
    missing: tuple[str, ...]
    """Names that are not installed."""


def show(request: ShowRequest, context: Context) -> ShowReport:
    """Return details of installed packages.

    :param request: the packages, and their environment.
    :param context: the environment variables and the reporter.
    :raises UserError: ``not-installed``; none of them is.
    """
    environment = open_environment_of(request, context.environ)
    needs = InstalledRequirements.of(environment.installed(), environment.interpreter.environment)
    names = list(dict.fromkeys(map(canonicalize_name, request.names)))
    entries = [needs.packages[name] for name in names if name in needs.packages]
    if not entries:
        raise not_installed_error(names, needs.packages, environment)
    verdicts = _fit_verdicts(entries, needs, environment, request, context)
    return ShowReport(
        environment.name,
        tuple(
            _details(entry, needs, verdicts.get(entry.name), files=request.files)
            for entry in entries
        ),
        tuple(name for name in names if name not in needs.packages),
    )


def not_installed_error(
    names: Iterable[str], installed: Iterable[str], environment: Environment
) -> UserError:
    """Return the error that nothing of some names is installed."""
    missing = list(names)
    matches = [match for name in missing for match in get_close_matches(name, list(installed), n=1)]
    return UserError(
        f"{', '.join(missing)[:200]} {'is' if len(missing) == 1 else 'are'} not installed",
        code="not-installed",
        where=environment.name,
        note="\n".join(f"{broken.path}: {broken.reason}" for broken in environment.scan().broken)
        or None,  # it may be one of these
        hint=f"did you mean {' or '.join(map(repr, matches))}?"
        if matches
        else "`wheelfit list` shows the installed packages",
    )


def _fit_verdicts(
    entries: Iterable[Installed],
    needs: InstalledRequirements,
    environment: Environment,
    request: ShowRequest,
    context: Context,
) -> dict[NormalizedName, FitVerdict]:
    """Return verdicts on variants; the machine is detected only if there are some."""
    names = {entry.name for entry in entries if entry.label is not None}
    if not names:
        return {}
    machine = choose_machine(request, environment.target, context)
    verdicts = judge(needs.packages.values(), machine.support)
    return {verdict.variant.name: verdict for verdict in verdicts if verdict.variant.name in names}


def _details(
    entry: Installed, needs: InstalledRequirements, verdict: FitVerdict | None, *, files: bool
) -> PackageDetails:
    metadata = entry.metadata()
    summary, home_page = _summary_and_home_page(entry)
    dependents = {
        need.dependent.name: need.dependent for need in needs.on(entry.name) if need.is_required
    }
    return PackageDetails(
        entry,
        summary,
        home_page,
        license_of(metadata.license).text,
        needs.of_package(entry.name),
        tuple(dependents[name] for name in sorted(dependents)),
        None if verdict is None else _variant(entry, verdict),
        _files(entry) if files else None,
    )


def _variant(entry: Installed, verdict: FitVerdict) -> PackageVariant:
    record = entry.record(CHOICE_FILE)
    providers = {} if entry.document is None else entry.document.providers
    return PackageVariant(
        str(entry.label),
        tuple(map(str, entry.properties)),
        describe_condition(entry.properties, providers),
        None if record is None else parse_choice(record),
        verdict.fits,
        verdict.reason,
    )


def _summary_and_home_page(entry: Installed) -> tuple[str, str]:
    """Return the summary and the home page that the metadata names."""
    data = entry.record("METADATA") or entry.record("PKG-INFO") or b""
    fields, _ = parse_email(data)
    pages = {
        "".join(letter for letter in label.lower() if letter.isalpha()): url
        for label, url in fields.get("project_urls", {}).items()
    }
    return fields.get("summary", ""), fields.get("home_page") or pages.get("homepage", "")


def _files(entry: Installed) -> tuple[str, ...] | None:
    record = entry.record("RECORD")
    if record is None:
        return None
    try:
        rows = parse_record(record, where=str(entry.path)).rows
    except WheelfitError:
        return None
    return tuple(sorted(row.path for row in rows))
