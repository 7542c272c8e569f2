"""Make an environment equal to a lock, each package in the build that fits the machine.

Nothing is resolved and no index is asked: only the files that the lock names are fetched, and
each must have the hash that it promises. Of each package the best build that is listed is taken
for this machine, or for that of --for; an installed build that is listed and fits stays. What the
lock does not name is removed, except pip, setuptools, wheel, wheelfit with what it needs, and what
points to a source tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wheelfit.cli.options.table.environment import ATTESTATIONS, BOUNDS, CONSENT, ENVIRONMENT
from wheelfit.cli.options.table.installing import SYNC
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.requirements import LOCK_FILE
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from packaging.utils import NormalizedName

    from wheelfit.cli.changes import Decided, Present
    from wheelfit.cli.machine import ChosenMachine
    from wheelfit.cli.output import Output
    from wheelfit.core.labels import Label
    from wheelfit.core.properties import PropertySet
    from wheelfit.install.builds.building import Building
    from wheelfit.install.environment import Environment
    from wheelfit.install.variant_change import VariantChange
    from wheelfit.lock.selection import LockCandidates
    from wheelfit.resolve.candidates import Candidates
    from wheelfit.sources.remembered import Remembered


OPTIONS = (LOCK_FILE, SYNC, BOUNDS, CONSENT, ATTESTATIONS, ENVIRONMENT, SOURCES, MACHINE, VARIANTS)


class _Ground(NamedTuple):
    """Hold what the change is made with."""

    environment: Environment
    machine: ChosenMachine
    candidates: Candidates
    repository: Remembered
    building: Building | None = None


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Choose from the lock, download, check, install and remove."""
    from wheelfit.cli.bounds import check_bounds
    from wheelfit.cli.changes import carry_out, check_ground, in_peace, report
    from wheelfit.cli.locks import open_lock
    from wheelfit.cli.pip_rules import read_rules

    opened = open_lock(arguments, environ, output)
    with opened.repository:
        rules = read_rules(environ, opened.environment.interpreter.prefix)
        check_ground(arguments, environ, opened.environment, rules, output)
        machine = opened.machine(arguments.host)
        choosing = opened.candidates(machine)
        environment = opened.environment.to_be_taken_to(machine.target)
        ground = _Ground(environment, machine, choosing.candidates, opened.repository)

        def decide_once() -> Decided:
            found = _decide(arguments, ground, choosing)
            check_bounds(arguments, found, choosing.candidates, output)
            return found

        decide = in_peace(decide_once)
        decision = decide()
        if arguments.refit:
            _tell_unlisted(decision, choosing, output)
        if not arguments.dry_run:
            decision = carry_out(decision, decide, arguments, output, ground)
        otherwise = "the environment is as the lock wants it"
        if arguments.refit:
            otherwise = "every installed variant of the lock that could be judged fits"
        report(decision, arguments, output, ground, otherwise=otherwise)
    return 0


def _decide(arguments: Namespace, ground: _Ground, choosing: LockCandidates) -> Decided:
    """Choose, and see that the result may be and can be where it shall be."""
    from wheelfit.cli.changes import Present, decided
    from wheelfit.install.installed import by_name
    from wheelfit.install.plan import plan_sync
    from wheelfit.install.spared import spared

    present = Present.of(ground)
    held = _held(arguments, present)
    choosing.candidates.hold_on_to(held)
    staying = None
    if not (arguments.refit or arguments.inexact):
        staying = spared(present.installed, ground.environment.interpreter.environment)
    only = present.misfits.keys() & choosing.packages if arguments.refit else None

    def takes_part(name: NormalizedName) -> bool:
        # What keeps its build, or stays beside the lock, has a say in what all agree on.
        if only is not None:
            return name not in only
        if name in choosing.packages:
            return name in held
        return staying is None or name in staying

    there = by_name(present.installed)
    taking_part = {name: one.present() for name, one in there.items() if takes_part(name)}
    resolution = choosing.select(installed=taking_part, only=only).resolution()
    planned = plan_sync(resolution, present.installed, spared=staying)
    labels = choosing.candidates.policy.preferences.labels
    misfits = present.misfits if arguments.refit else {}

    def agreed(change: VariantChange) -> bool:
        name = change.old.name
        return arguments.allow_variant_change or name in misfits or name in labels

    return decided(planned, resolution, present, ground, agreed)


def _held(
    arguments: Namespace, present: Present
) -> Mapping[NormalizedName, tuple[Label, PropertySet]]:
    """Return the installed builds; each stays where the lock lists it and it fits."""
    from wheelfit.install.installed import by_name

    if arguments.allow_variant_change:
        return {}
    return {
        name: (entry.label, entry.properties)
        for name, entry in by_name(present.installed).items()
        if entry.label is not None
    }


def _tell_unlisted(decision: Decided, choosing: LockCandidates, output: Output) -> None:
    """Warn of variants that do not fit and that the lock cannot exchange."""
    for name in decision.present.misfits:
        if name not in choosing.packages:
            output.warn(f"{name} is not in the lock; wheelfit install --refit exchanges it")
