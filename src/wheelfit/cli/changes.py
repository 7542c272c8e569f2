"""Change an environment as was decided: what ``install`` and ``sync`` have in common."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from wheelfit.cli.environments import (
    mend_first,
    tell_interruption,
    tell_unnamed_environment,
)
from wheelfit.cli.pip_rules import check_changes, check_place
from wheelfit.cli.sizes import size_table, sized, sizes_of, unknown_sizes
from wheelfit.errors import (
    EnvironmentBusy,
    NoCompatibleWheel,
    NotRemovable,
    UsageError,
    VariantChangeRefused,
)
from wheelfit.install.breakage import breakages
from wheelfit.install.environment import Kind
from wheelfit.install.fit import judge
from wheelfit.install.variant_change import PLAIN, variant_changes
from wheelfit.resolve.acceleration import unwished_libraries
from wheelfit.wording import count_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.check.installed import Judged
    from wheelfit.cli.machine import ChosenMachine
    from wheelfit.cli.output import Output
    from wheelfit.cli.progress import Bars
    from wheelfit.install.builds.building import Building
    from wheelfit.install.choice import Circumstances
    from wheelfit.install.environment import Environment
    from wheelfit.install.installed import Installed
    from wheelfit.install.plan import Plan
    from wheelfit.install.variant_change import VariantChange
    from wheelfit.resolve.candidates import Candidates
    from wheelfit.resolve.resolution import Resolution
    from wheelfit.sources.pip_configuration import InstallRules
    from wheelfit.sources.remembered import Remembered
    from wheelfit.sources.size import FileSize
    from wheelfit.wheels.unpacked import UnpackedWheel

_LOOKS = 10
"""How often an environment is looked at while others change it."""


class Ground(Protocol):
    """Say what a change is made with."""

    @property
    def environment(self) -> Environment:
        """What is changed."""

    @property
    def machine(self) -> ChosenMachine:
        """What the wheels are chosen for."""

    @property
    def candidates(self) -> Candidates:
        """What chooses and fetches them."""

    @property
    def repository(self) -> Remembered:
        """Where they are found."""

    @property
    def building(self) -> Building | None:
        """What builds those that are not there yet; None where nothing may be built."""


@dataclass(frozen=True, slots=True)
class Present:
    """Hold what is installed, and which of its variants fit."""

    installed: tuple[Installed, ...]
    judged: tuple[Judged, ...]

    @classmethod
    def of(cls, ground: Ground) -> Present:
        """Look at what is there.

        :param ground: where, and for which machine.
        """
        installed = ground.environment.installed()
        return cls(installed, judge(installed, ground.candidates.support_of))

    @property
    def misfits(self) -> Mapping[NormalizedName, str]:
        """Why installed variants do not fit any more, by name."""
        return {one.variant.name: one.reason for one in self.judged if one.fits is False}


@dataclass(frozen=True, slots=True)
class Decided:
    """Hold what to do, and what it was decided by."""

    planned: Plan
    resolution: Resolution
    present: Present
    changes: tuple[VariantChange, ...] = ()
    """Installed variants that give way to another build."""

    misfits: tuple[Judged, ...] = ()
    """Variants that stay though they do not fit any more, or will not once this is done."""


def check_ground(
    arguments: Namespace,
    environ: Mapping[str, str],
    environment: Environment,
    rules: InstallRules,
    output: Output,
) -> None:
    """Refuse, before anything is fetched, what may or can not be changed.

    :param arguments: of the command.
    :param environ: the environment of the process.
    :param environment: what would be changed.
    :param rules: what pip is told about installing.
    :param output: told which environment it is, if nobody has named it.
    :raises PolicyRefusal: it may not be changed.
    :raises EnvironmentReadOnly: it cannot be changed.
    :raises UserError: an option about attestations names nothing.
    """
    check_place(rules, arguments)
    if arguments.require_attestations or arguments.trusted_publisher:
        from wheelfit.cli.attesting import demands

        demands(arguments)
    if arguments.dry_run:
        tell_interruption(environment, output)
    else:
        # Before anything is fetched: a download in vain helps nobody.
        check_changes(rules, environment)
        environment.check_allowed(break_system_packages=arguments.break_system_packages)
        environment.check_writable()
        mend_first(environment, output)
    tell_unnamed_environment(arguments, environ, environment, output)


def decided(
    planned: Plan,
    resolution: Resolution,
    present: Present,
    ground: Ground,
    agreed: Callable[[VariantChange], bool],
) -> Decided:
    """Return what was decided, after making sure that it may be done.

    :param planned: what changes.
    :param resolution: what shall be there.
    :param present: what is there.
    :param ground: where.
    :param agreed: tells of a change of variant whether somebody asked for it.
    :raises NoCompatibleWheel: a property that is required occurs nowhere.
    :raises UsageError: the environment could not use what would be installed.
    :raises NotRemovable: something that must go was installed without a record of its files.
    :raises VariantChangeRefused: nobody asked for a change of variant.
    :raises OwnRequirementRefused: wheelfit itself would not work any more.
    :raises Crossed: it would be refused for what is not so any more; see `in_peace`.
    """
    _check_wishes(resolution, ground)
    _check_platform(planned, ground)
    if planned:
        from wheelfit.cli.own_modules import check_own_requirements

        check_own_requirements(planned, ground.environment)
    agreements = ground.candidates.policy.agreements
    try:
        if planned.remove:
            from wheelfit.install.removal import check_removable

            for entry in planned.remove:
                check_removable(entry, ground.environment)
        changes = variant_changes(planned, present.installed, present.misfits, agreements)
        refused = [one for one in changes if one.needs_consent and not agreed(one)]
        if refused:
            raise _refusal(refused, changes, present.misfits)
    except NotRemovable:
        if _is_as_seen(present, ground.environment):
            # It may have been away for a moment and be back.
            for entry in planned.remove:
                check_removable(entry, ground.environment)
        raise Crossed from None
    except VariantChangeRefused:
        if _is_as_seen(present, ground.environment):
            raise
        raise Crossed from None
    return Decided(planned, resolution, present, changes, _misfits(planned, present, ground))


class Crossed(Exception):  # nothing is wrong
    """Another process has changed the environment since somebody looked at it."""


def in_peace(decide: Callable[[], Decided]) -> Callable[[], Decided]:
    """Return a function that decides anew as long as others cross it.

    :param decide: looks at the environment and decides.
    """

    def decide_anew() -> Decided:
        for _ in range(_LOOKS):
            try:
                return decide()
            except Crossed:
                continue
        raise EnvironmentBusy(
            "other processes keep changing the environment",
            hint="nothing was changed; try again when they have finished",
        )

    return decide_anew


def _is_as_seen(present: Present, environment: Environment) -> bool:
    """Tell whether what was seen is what is there when nobody is at work on it."""
    from wheelfit.install.locking import locked

    library = environment.schemes.purelib
    with locked(library) if library.is_dir() else nullcontext():
        now = environment.installed()
    return [_identity(entry) for entry in now] == [_identity(one) for one in present.installed]


def _identity(entry: Installed) -> tuple[object, ...]:
    return entry.path, entry.version, entry.label


def _misfits(planned: Plan, present: Present, ground: Ground) -> tuple[Judged, ...]:
    judged = present.judged
    if planned and judged:
        staying = [entry for entry in present.installed if entry not in planned.remove]
        coming = {pin.name: pin.version for pin in planned.install}
        judged = judge(staying, ground.candidates.support_of, coming=coming)
    return tuple(one for one in judged if one.fits is False)


def _refusal(
    refused: Sequence[VariantChange],
    changes: Sequence[VariantChange],
    misfits: Mapping[NormalizedName, str],
) -> VariantChangeRefused:
    names = ", ".join(one.old.name for one in refused)
    verb = "build" if len(refused) == 1 else "builds"
    hints = []
    if any(one.old.name in misfits for one in refused):
        hints.append("--refit exchanges variants that do not fit any more")
    if others := [one for one in refused if one.old.name not in misfits]:
        hints.append("--allow-variant-change allows this")
        labels = [f"--label {one.old.name}={one.new.label}" for one in others if one.new.label]
        if labels:
            builds = "that build" if len(labels) == 1 else "those builds"
            hints.append(f"{' '.join(labels)} asks for {builds}")
        wishes = dict.fromkeys(wish for one in others for wish in one.old.wishes)
        if wishes:
            hints.append(f"{' '.join(wishes)}, as when it was installed, keeps it plain")
    return VariantChangeRefused(
        f"{names} would be exchanged for {'another' if len(refused) == 1 else 'other'} {verb}, "
        "which nobody asked for",
        note="\n".join(map(str, refused)),
        hint="; ".join(hints),
        details=[one.to_mapping() for one in changes],
    )


def _check_wishes(resolution: Resolution, ground: Ground) -> None:
    """Refuse a result in which a required property occurs nowhere: the wish was in vain."""
    present = [pin.properties for pin in resolution.pins]
    present += [kept.properties for kept in resolution.kept]
    for wish in ground.candidates.policy.preferences.in_vain(present):
        raise NoCompatibleWheel(
            f"{wish} is required, but no package of the result has a variant with it",
            hint="wheelfit explain shows what each package offers",
        )


def _check_platform(planned: Plan, ground: Ground) -> None:
    """Refuse to put wheels for another Python into an environment that could not use them."""
    environment = ground.environment
    if environment.kind is not Kind.ENVIRONMENT:
        return
    tags = environment.target().tags
    for pin in planned.install:
        if tags.best(pin.filename.tags) is None:
            raise UsageError(
                f"{pin.filename.text} is right for {ground.machine.name}, "
                "but cannot run in this environment",
                where=environment.name,
                hint="--target DIR puts everything into a folder that can be taken there",
            )


def carry_out(
    decision: Decided,
    decide: Callable[[], Decided],
    arguments: Namespace,
    output: Output,
    ground: Ground,
) -> Decided:
    """Download and install; return what was done in the end.

    A wheel that is not what it was chosen for gives way to the next, and a plan that another
    process has crossed gives way to a new one. What is downloaded already is not fetched again,
    unless somebody has removed it from the cache meanwhile.

    :param decision: what to do.
    :param decide: decides anew.
    :param arguments: of the command.
    :param output: told how it goes.
    :param ground: where, and by what.
    """
    if not decision.planned:
        return decision
    from wheelfit.cli.building import build_planned
    from wheelfit.cli.own_modules import settle_modules, touches_us
    from wheelfit.cli.progress import Bars
    from wheelfit.cli.scratch import scratch_folder
    from wheelfit.install.apply import PLANS, PlanOutdated, WheelGone, apply
    from wheelfit.install.startup_files import StartupFiles
    from wheelfit.wheels.linking import Linker, LinkMode

    wheels: dict[str, UnpackedWheel] = {}
    left = PLANS
    with scratch_folder() as folder, Bars(output, ground.repository.cut) as bars:
        while decision.planned:
            if build_planned(decision.planned, ground.building, ground.candidates):
                decision = decide()
                continue
            if not _fetch(decision.planned, wheels, folder, ground, output, bars):
                decision = decide()
                continue
            _attest(decision.planned, wheels, arguments, ground, output)
            left -= 1
            coming = {pin.name: wheels[pin.file.url] for pin in decision.planned.install}
            unsettle = None
            if touches_us(ground.environment, coming.values(), decision.planned.remove):
                unsettle = settle_modules(ground.environment)
            try:
                applied = apply(
                    decision.planned,
                    ground.environment,
                    coming,
                    progress=bars.transfer(
                        count_of(len(decision.planned.install), "wheel"), "unpacked", is_sum=True
                    ),
                    replace=arguments.replace_files,
                    compile_bytecode=arguments.compile,
                    startup_files=StartupFiles(arguments.startup_files),
                    linker=Linker(LinkMode(arguments.link_mode)),
                    break_system_packages=arguments.break_system_packages,
                    circumstances=_circumstances(ground.machine),
                )
            except (PlanOutdated, WheelGone) as error:
                if unsettle is not None:
                    unsettle()
                if not left:
                    raise
                if isinstance(error, WheelGone):
                    output.say(f"note: {error.message}; unpacking again", "dim")
                    wheels.clear()
                    continue
                output.say("note: another process changed the environment; planning anew", "dim")
                decision = decide()
                continue
            for note in applied.notes:
                output.say(f"note: {note}", "dim")
            break
    return decision


def _attest(
    planned: Plan,
    wheels: dict[str, UnpackedWheel],
    arguments: Namespace,
    ground: Ground,
    output: Output,
) -> None:
    """Verify what publishers signed, if the options ask for it."""
    asked = (
        arguments.verify_attestations,
        arguments.require_attestations,
        arguments.trusted_publisher,
    )
    if any(asked):
        from wheelfit.cli.attesting import verify_attestations

        verify_attestations(planned.install, wheels, ground.repository, arguments, output)


def _circumstances(machine: ChosenMachine) -> Circumstances:
    """Say in the record of each distribution what it was chosen by (P-73)."""
    from wheelfit.install.choice import Circumstances

    return Circumstances(None if machine.host is None else machine.host.record, machine.in_effect)


def _fetch(
    planned: Plan,
    wheels: dict[str, UnpackedWheel],
    folder: Path,
    ground: Ground,
    output: Output,
    bars: Bars,
) -> bool:
    """Fetch what is not there yet; return whether every wheel is what it was chosen for.

    :param wheels: the unpacked wheels by the URL in the plan; grows.
    """
    from wheelfit.cli.downloads import unpacked

    missing = [pin for pin in planned.install if pin.file.url not in wheels]
    found, refused = unpacked(missing, ground.candidates, folder, bars)
    wheels |= {pin.file.url: found[pin.name] for pin in missing if pin.name in found}
    for pin, reason in refused:
        # The warning comes with what is taken instead, one line per release (F-136).
        output.detail(f"{pin.filename.text} is not taken: {reason}")
        ground.candidates.reject(pin.filename, reason)
    return not refused


# --- what was done ---------------------------------------------------------------------------


def report(
    decision: Decided, arguments: Namespace, output: Output, ground: Ground, *, otherwise: str
) -> None:
    """Say what was done or would be, for people and for programs.

    :param decision: what.
    :param arguments: of the command.
    :param output: where to say it.
    :param ground: where, and by what.
    :param otherwise: why there was nothing to do, if there was nothing.
    """
    planned, resolution = decision.planned, decision.resolution
    interpreter = ground.environment.interpreter
    unmet = breakages(planned, decision.present.installed, interpreter.environment)
    # What belongs to the result was resolved with it, or locked: whoever did that meant it.
    broken = [
        one
        for one in unmet
        if one.requirement.name not in resolution.replaced and one.needing not in planned.keep
    ]
    meant = [f"{one}, as was decided" for one in unmet if one not in broken]
    sizes: Mapping[NormalizedName, FileSize] = {}
    if arguments.dry_run:
        sizes = sizes_of(planned.install, ground.candidates.repository, unpacked=True)
    output.result_json(
        {
            "version": 1,
            "dry_run": arguments.dry_run,
            **ground.machine.to_mapping(),
            **sized(planned.to_mapping(), sizes, dry_run=arguments.dry_run),
            "keep": [_kept(entry, resolution) for entry in planned.keep],
            "variant_changes": [one.to_mapping() for one in decision.changes],
            "misfits": [_misfit(one) for one in decision.misfits],
            "agreements": [one.to_mapping() for one in resolution.held],
            "breaks": [one.to_mapping() for one in broken],
            "plugins": _plugins(resolution),
            "degradations": [
                {"name": pin.name, "version": str(pin.version), **one.to_mapping()}
                for pin in resolution.pins
                for one in pin.choice.degradations
            ],
        }
    )
    unwished = unwished_libraries(resolution, ground.candidates.policy.preferences)
    for note in (*resolution.notes, *unwished, *broken):
        output.warn(str(note))
    for one in decision.misfits:
        remedy = "wheelfit install --refit exchanges it"
        output.warn(f"{one.variant} does not fit any more: {one.reason} ({remedy})")
    for text in (*resolution.unmet, *meant):
        output.say(f"note: {text}", "dim")
    for held in resolution.held:
        if held.forced.because:
            output.say(f"note: {held}")
    for change in decision.changes:
        output.say(f"note: {change}")
    for pin in resolution.pins:
        if (better := pin.choice.selection.better) is not None:
            output.say(
                f"note: {pin.name} stays {pin.label}, though {better.label or PLAIN} would fit "
                "better (--allow-variant-change takes it)"
            )
    for pin in planned.install:
        for remark in pin.choice.remarks:
            output.say(f"note: {remark}", "dim")
        for remark in pin.choice.metadata.notes:
            output.detail(remark)
    for detail in resolution.details:
        output.detail(detail)
    _tell_plan(planned, output, dry_run=arguments.dry_run)
    if sizes:
        for line in size_table(planned.install, sizes):
            output.result(line)
        for line in unknown_sizes(sizes):
            output.warn(line)
    if not planned:
        output.result(f"nothing to do: {otherwise}")
    _warn_of_idle_labels(decision, ground, output)


def _warn_of_idle_labels(decision: Decided, ground: Ground, output: Output) -> None:
    """Say when a label is asked for of a package that is not there: a slip of the name, likely."""
    names = {pin.name for pin in decision.planned.install}
    names |= {entry.name for entry in decision.planned.keep}
    for name, label in ground.candidates.policy.preferences.labels.items():
        if name not in names:
            output.warn(f"--label {name}={label} changes nothing: {name} is not needed")


def _tell_plan(planned: Plan, output: Output, *, dry_run: bool) -> None:
    old = {entry.name: entry for entry in planned.remove}
    for pin in planned.install:
        gone = old.pop(pin.name, None)
        replaced = ""
        if gone is not None:
            newer = "the newer " if gone.version > pin.version else ""
            replaced = f", replacing {newer}{gone.version}"
        if gone is not None and gone.label != pin.label:
            replaced += f" ({gone.label or PLAIN})"
        # One line for each package that had a choice; for the others there is nothing to say.
        had_choice = pin.label is not None or any(
            verdict.filename.label for verdict in pin.choice.selection.verdicts
        )
        why = f": {pin.reason}" if had_choice else ""
        if pin.file.origin is not None:
            replaced += f", {'to be ' if dry_run else ''}built from {pin.file.origin.name}"
        output.result(f"{'would install' if dry_run else 'installed'} {pin}{replaced}{why}")
    for entry in old.values():
        output.result(f"{'would remove' if dry_run else 'removed'} {entry}")
    for entry in planned.keep:
        if output.verbosity > 0:
            output.result(f"kept {entry}")


def _kept(entry: Installed, resolution: Resolution) -> dict[str, object]:
    pin = resolution.pin(entry.name)
    better = None if pin is None else pin.choice.selection.better
    return {
        "name": entry.name,
        "version": str(entry.version),
        "label": entry.label,
        "better": None if better is None else better.label,
    }


def _misfit(one: Judged) -> dict[str, object]:
    variant = one.variant
    return {
        "name": variant.name,
        "version": str(variant.version),
        "label": variant.label,
        "because": one.reason,
    }


def _plugins(resolution: Resolution) -> list[dict[str, object]]:
    """Return the plugins that were asked about packages of the result, each once (P-21)."""
    asked = {
        detection.namespace: detection.plugin
        for pin in resolution.pins
        if pin.choice.support is not None
        for detection in pin.choice.support.detections.values()
        if detection.plugin is not None
    }
    return [{"namespace": namespace, **plugin.to_mapping()} for namespace, plugin in asked.items()]
