"""Changes of an environment: the common part of ``install`` and ``sync``."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from wheelfit.errors import EnvironmentBusy, NotRemovable, UsageError, VariantChangeRefused
from wheelfit.installation.choice_record import HostAndOverrides
from wheelfit.installation.environment import DestinationKind, Environment
from wheelfit.installation.variant_change import VariantChange, variant_changes
from wheelfit.installation.variant_fit import FitVerdict, judge
from wheelfit.operations.attestations import required_attestations, verify_attestations
from wheelfit.operations.environments import (
    note_default_environment,
    recover_first,
    warn_of_interruption,
)
from wheelfit.operations.pip_rules import check_changes, check_place
from wheelfit.operations.requests import (
    AttestationOptions,
    BoundOptions,
    ChangeOptions,
    ConsentOptions,
    EnvironmentOptions,
    MachineOptions,
    SourceOptions,
    VariantOptions,
)
from wheelfit_runtime.errors import NoCompatibleWheel, WheelfitError
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.installation.installed import Installed
    from wheelfit.installation.plan import Plan
    from wheelfit.operations.context import Context, Reporter, Transfers
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.operations.source_builds import Builds
    from wheelfit.operations.step_durations import StepDurations
    from wheelfit.resolution.accelerator_use import AcceleratorRemark
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.resolution import Pin, Resolution
    from wheelfit.sources.memoized import MemoizedRepository
    from wheelfit.sources.pip_configuration import InstallRules
    from wheelfit.wheels.unpacked import UnpackedWheel


class ChangeRequest(
    ChangeOptions,
    ConsentOptions,
    BoundOptions,
    AttestationOptions,
    EnvironmentOptions,
    SourceOptions,
    MachineOptions,
    VariantOptions,
):
    """A request that changes an environment."""


_MAX_READS = 10
"""Attempts to read an environment while other processes change it."""


class ChangeContext(Protocol):
    """The environment, machine and sources of a change."""

    @property
    def environment(self) -> Environment:
        """The environment to change."""

    @property
    def machine(self) -> ChosenMachine:
        """The machine that wheels are chosen for."""

    @property
    def candidates(self) -> Candidates:
        """The candidates to choose from and to fetch."""

    @property
    def repository(self) -> MemoizedRepository:
        """The repository of the wheels."""

    @property
    def building(self) -> Builds:
        """The builds from source."""


class InstalledState(Struct, frozen=True):
    """The installed distributions, and which of their variants fit."""

    installed: tuple[Installed, ...]
    verdicts: tuple[FitVerdict, ...]

    @classmethod
    def of(cls, change_context: ChangeContext) -> InstalledState:
        """Read the installed distributions."""
        installed = change_context.environment.installed()
        return cls(installed, judge(installed, change_context.candidates.support_of))

    @property
    def misfits(self) -> Mapping[NormalizedName, str]:
        """Reasons why installed variants no longer fit, by name."""
        return {
            verdict.variant.name: verdict.reason
            for verdict in self.verdicts
            if verdict.fits is False
        }


class ChangeDecision(Struct, frozen=True):
    """The plan of a change, and its basis."""

    planned: Plan
    resolution: Resolution
    state: InstalledState
    changes: tuple[VariantChange, ...] = ()
    """Installed variants that are replaced by another build."""
    misfits: tuple[FitVerdict, ...] = ()
    """Variants that stay, but no longer fit, or will not fit after the change."""


def prepare_environment(
    request: ChangeRequest,
    environment: Environment,
    rules: InstallRules,
    context: Context,
) -> None:
    """Check that an environment can be changed, and recover it from an interrupted change.

    Nothing is fetched.

    :param context: gets a note with the environment, if the user named none.
    :raises PolicyRefusal: it may not be changed.
    :raises EnvironmentUnavailable: ``environment-read-only``; files cannot be written.
    :raises UserError: an option about attestations has an invalid name.
    """
    check_place(rules, request)
    required_attestations(request)
    # Before anything is fetched, to save a needless download.
    check_changes(rules, environment)
    environment.check_allowed(break_system_packages=request.break_system_packages)
    environment.check_writable()
    if request.dry_run:
        warn_of_interruption(environment, context.reporter)
    else:
        recover_first(environment, context.reporter)
    note_default_environment(request, environment, context)


def make_decision(
    planned: Plan,
    resolution: Resolution,
    state: InstalledState,
    change_context: ChangeContext,
    is_requested: Callable[[VariantChange], bool],
) -> ChangeDecision:
    """Return the decision on a plan, after verifying that it may be applied.

    :param is_requested: returns whether the user requested a change of variant.
    :raises NoCompatibleWheel: no package has a required property.
    :raises UsageError: the environment could not use the wheels to install.
    :raises NotRemovable: a distribution to remove was installed without a record of its files.
    :raises VariantChangeRefused: the user did not request a change of variant.
    :raises PolicyRefusal: ``own-requirement``; wheelfit itself would not work any more.
    :raises ConcurrentChange: the reason to refuse is outdated; see `retry_on_concurrent_change`.
    """
    _check_required_properties(resolution, change_context)
    _check_platform(planned, change_context)
    if planned:
        from wheelfit.operations.self_change import check_own_requirements

        check_own_requirements(planned, change_context.environment)
    agreements = change_context.candidates.policy.agreements
    try:
        if planned.remove:
            from wheelfit.installation.removal import check_removable

            for entry in planned.remove:
                check_removable(entry, change_context.environment)
        changes = variant_changes(planned, state.installed, state.misfits, agreements)
        refused = [
            change for change in changes if change.needs_consent and not is_requested(change)
        ]
        if refused:
            raise _refusal(refused, changes, state.misfits)
    except NotRemovable:
        if _is_unchanged(state, change_context.environment):
            # Its record may have been missing only while another process replaced it. If it still
            # is, this raises again.
            for entry in planned.remove:
                check_removable(entry, change_context.environment)
        raise ConcurrentChange from None
    except VariantChangeRefused:
        if _is_unchanged(state, change_context.environment):
            raise
        raise ConcurrentChange from None
    return ChangeDecision(
        planned,
        resolution,
        state,
        changes,
        _misfits(planned, state, change_context),
    )


class ConcurrentChange(Exception):  # not an error: the caller decides again
    """Raised when another process has changed the environment since it was read."""


def retry_on_concurrent_change(
    decide: Callable[[], ChangeDecision],
) -> Callable[[], ChangeDecision]:
    """Return a function that decides again if another process changes the environment meanwhile."""

    def decide_with_retries() -> ChangeDecision:
        for _ in range(_MAX_READS):
            try:
                return decide()
            except ConcurrentChange:
                continue
        raise EnvironmentBusy(
            "other processes keep changing the environment",
            hint="nothing was changed; try again when they have finished",
        )

    return decide_with_retries


def _is_unchanged(state: InstalledState, environment: Environment) -> bool:
    """Return whether the environment is as it was read, compared under its lock."""
    from wheelfit.installation.locking import locked

    library = environment.schemes.purelib
    with locked(library) if library.is_dir() else nullcontext():
        now = environment.installed()
    return [_identity(entry) for entry in now] == [_identity(entry) for entry in state.installed]


def _identity(entry: Installed) -> tuple[object, ...]:
    return entry.path, entry.version, entry.label


def _misfits(
    planned: Plan, state: InstalledState, change_context: ChangeContext
) -> tuple[FitVerdict, ...]:
    verdicts = state.verdicts
    if planned and verdicts:
        staying = [entry for entry in state.installed if entry not in planned.remove]
        new_versions = {pin.name: pin.version for pin in planned.install}
        verdicts = judge(staying, change_context.candidates.support_of, new_versions=new_versions)
    return tuple(verdict for verdict in verdicts if verdict.fits is False)


def _refusal(
    refused: Sequence[VariantChange],
    changes: Sequence[VariantChange],
    misfits: Mapping[NormalizedName, str],
) -> VariantChangeRefused:
    names = ", ".join(change.old.name for change in refused)
    noun = "build" if len(refused) == 1 else "builds"
    hints = []
    if any(change.old.name in misfits for change in refused):
        hints.append("--refit exchanges variants that do not fit any more")
    if others := [change for change in refused if change.old.name not in misfits]:
        hints.append("--allow-variant-change allows this")
        labels = [
            f"--label {change.old.name}={change.new.label}" for change in others if change.new.label
        ]
        if labels:
            builds = "that build" if len(labels) == 1 else "those builds"
            hints.append(f"{' '.join(labels)} asks for {builds}")
        options = dict.fromkeys(
            option for change in others for option in change.old.excluding_options
        )
        if options:
            hints.append(f"{' '.join(options)} keeps the plain wheel, as when it was installed")
    return VariantChangeRefused(
        f"{names} would be replaced by {'another' if len(refused) == 1 else 'other'} "
        f"{noun}, which you did not request",
        note="\n".join(map(str, refused)),
        hint="; ".join(hints),
        details=[change.to_mapping() for change in changes],
    )


def _check_required_properties(resolution: Resolution, change_context: ChangeContext) -> None:
    """Raise if no package of the result has a required property."""
    properties = [pin.properties for pin in resolution.pins]
    properties += [kept.properties for kept in resolution.kept]
    for required in change_context.candidates.policy.preferences.unmet_user_requirements(
        properties
    ):
        raise NoCompatibleWheel(
            f"{required} is required, but no resolved package has a variant with it",
            hint="`wheelfit explain` shows what each package offers",
        )


def _check_platform(planned: Plan, change_context: ChangeContext) -> None:
    """Raise if wheels for another Python go into an environment that cannot use them."""
    environment = change_context.environment
    if environment.kind is not DestinationKind.ENVIRONMENT:
        return
    tags = environment.target.tags
    for pin in planned.install:
        if tags.best(pin.filename.tags) is None:
            raise UsageError(
                f"{pin.filename.text} fits {change_context.machine.name}, but not this environment",
                where=environment.name,
                hint="--target DIR installs into a folder that you can copy there",
            )


def apply_decision(
    decision: ChangeDecision,
    decide: Callable[[], ChangeDecision],
    request: ChangeRequest,
    reporter: Reporter,
    change_context: ChangeContext,
    durations: StepDurations,
) -> ChangeDecision:
    """Download and install; return the decision that was applied.

    If a wheel contradicts the data it was chosen by, the next one is chosen. If another process
    made the plan outdated, a new plan is made. Downloaded wheels are not fetched again, unless they
    were removed from the cache meanwhile.

    :param durations: gets those of the download and the installation.
    """
    if not decision.planned:
        return decision
    from wheelfit.installation.apply import MAX_PLANS, PlanOutdated, UnpackedWheelChanged, apply
    from wheelfit.installation.startup_files import StartupFiles
    from wheelfit.operations.self_change import affects_wheelfit, preload_modules
    from wheelfit.operations.source_builds import build_planned
    from wheelfit.operations.temporary_folders import scratch_folder
    from wheelfit.wheels.linking import Linker, LinkMode

    environment = change_context.environment
    wheels: dict[str, UnpackedWheel] = {}
    attempts = MAX_PLANS
    with (
        scratch_folder() as folder,
        reporter.transfers(change_context.repository.cancel) as transfers,
    ):
        while planned := decision.planned:
            has_built = build_planned(planned, change_context.building, change_context.candidates)
            if has_built:  # their metadata may be other than assumed
                decision = decide()
                continue
            pins = planned.install
            with durations.measure("download"):
                all_accepted = fetch_wheels(
                    pins, wheels, folder, change_context, reporter, transfers
                )
            if not all_accepted:
                decision = decide()
                continue
            verify_attestations(pins, wheels, change_context.repository, request, reporter)
            attempts -= 1
            new_wheels = {pin.name: wheels[pin.file.url] for pin in pins}
            allow_imports = None  # a function, once imports are refused
            if affects_wheelfit(environment, new_wheels.values(), planned.remove):
                allow_imports = preload_modules(environment)
            try:
                with durations.measure("install"):
                    applied = apply(
                        planned,
                        environment,
                        new_wheels,
                        progress=transfers.transfer(count_of(len(pins), "wheel"), ""),
                        replace=request.replace_files,
                        compile_bytecode=request.compile,
                        startup_files=StartupFiles(request.startup_files),
                        linker=Linker(LinkMode(request.link_mode)),
                        break_system_packages=request.break_system_packages,
                        host_and_overrides=_host_and_overrides(change_context.machine),
                    )
            except WheelfitError as error:
                if allow_imports is not None:
                    allow_imports()
                if not (attempts and isinstance(error, (PlanOutdated, UnpackedWheelChanged))):
                    raise
                if isinstance(error, UnpackedWheelChanged):
                    reporter.note(f"note: {error.message}; unpacking again")
                    wheels.clear()
                    continue
                reporter.note("note: another process changed the environment; planning again")
                decision = decide()
                continue
            for note in applied.notes:
                reporter.note(f"note: {note}")
            break
    if decision.planned:
        durations.report(_summary(decision.planned), "install", reporter)
    return decision


def resolution_summary(decision: ChangeDecision) -> str:
    """Return the number of resolved packages, such as ``Resolved 3 packages``."""
    resolution = decision.resolution
    names = {pin.name for pin in resolution.pins} | {entry.name for entry in resolution.kept}
    return f"Resolved {count_of(len(names), 'package')}"


def _summary(planned: Plan) -> str:
    """Return a summary of a plan, such as ``Installed 3 packages, uninstalled 1 package``."""
    new_names = {pin.name for pin in planned.install}
    removed_count = sum(entry.name not in new_names for entry in planned.remove)
    parts = [f"installed {count_of(len(new_names), 'package')}"] if new_names else []
    parts += [f"uninstalled {count_of(removed_count, 'package')}"] if removed_count else []
    words = ", ".join(parts)
    return f"{words[0].upper()}{words[1:]}"


def report_remarks_on_change(
    decision: ChangeDecision,
    change_context: ChangeContext,
    reporter: Reporter,
    *,
    lock: str = "",
) -> tuple[AcceleratorRemark, ...]:
    """Warn of accelerator builds that cannot be used, and of idle accelerators; return them.

    :param lock: the command that writes the lock to install from; empty: there is none.
    """
    new_names = [pin.name for pin in decision.planned.install]
    if not new_names:
        return ()
    from wheelfit.operations.accelerator_remarks import report_accelerator_remarks

    return report_accelerator_remarks(
        decision.resolution,
        new_names,
        change_context.candidates,
        reporter,
        installed={entry.name for entry in decision.state.installed},
        lock=lock,
    )


def _host_and_overrides(machine: ChosenMachine) -> HostAndOverrides:
    """Return the host and the overrides for the record of each distribution (P-73)."""
    return HostAndOverrides(
        None if machine.host is None else machine.host.public_name, machine.all_overrides
    )


def fetch_wheels(
    pins: Sequence[Pin],
    wheels: dict[str, UnpackedWheel],
    folder: Path,
    change_context: ChangeContext,
    reporter: Reporter,
    transfers: Transfers,
) -> bool:
    """Fetch missing wheels; return whether each agrees with the data it was chosen by.

    :param wheels: the unpacked wheels by the URL in the plan; fetched ones are added.
    """
    from wheelfit.operations.downloads import fetch_unpacked

    missing = [pin for pin in pins if pin.file.url not in wheels]
    arrived, refused = fetch_unpacked(missing, change_context.candidates, folder, transfers)
    wheels |= {pin.file.url: arrived[pin.name] for pin in missing if pin.name in arrived}
    for pin, reason in refused:
        # The warning comes with the wheel taken instead, one line per release (F-136).
        reporter.detail(f"{pin.filename.text} is not used: {reason}")
        change_context.candidates.reject(pin.filename, reason)
    return not refused
