"""Install packages, each in the build that fits the machine.

What is installed already and will do is kept. Everything is checked before the environment is
touched; if anything fails, it is as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import ATTESTATIONS, BOUNDS, CONSENT, ENVIRONMENT
from wheelfit.cli.options.table.installing import INSTALLATION, PIP_HABITS
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.requirements import DEPENDENCY_GROUPS, REQUIREMENTS, SOURCE_BUILDS
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.cli.changes import Decided, Present
    from wheelfit.cli.opened import Opened
    from wheelfit.cli.output import Output
    from wheelfit.core.labels import Label
    from wheelfit.core.properties import PropertySet
    from wheelfit.install.variant_change import VariantChange
    from wheelfit.resolve.request import Request
    from wheelfit.resolve.resolution import Resolution


OPTIONS = (
    REQUIREMENTS,
    DEPENDENCY_GROUPS,
    INSTALLATION,
    BOUNDS,
    SOURCE_BUILDS,
    CONSENT,
    ATTESTATIONS,
    ENVIRONMENT,
    SOURCES,
    MACHINE,
    VARIANTS,
    PIP_HABITS,
)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Resolve, download, check and install."""
    from wheelfit.cli.bounds import check_bounds
    from wheelfit.cli.changes import carry_out, check_ground, in_peace, report
    from wheelfit.cli.opened import open_for_choice

    opened = open_for_choice(arguments, environ, output, changes=not arguments.dry_run)
    with opened:
        check_ground(arguments, environ, opened.environment, opened.rules, output)

        def decide_once() -> Decided:
            found = _decide(arguments, opened)
            check_bounds(arguments, found, opened.candidates, output)
            return found

        decide = in_peace(decide_once)
        decision = decide()
        if not arguments.dry_run:
            decision = carry_out(decision, decide, arguments, output, opened)
        report(decision, arguments, output, opened, otherwise=_why_nothing(arguments, decision))
    return 0


def _why_nothing(arguments: Namespace, decision: Decided) -> str:
    if decision.resolution.pins or decision.planned.keep:
        return "what is installed meets every requirement"
    if arguments.refit:
        return "every installed variant that could be judged fits"
    return "the files ask for nothing"


def _decide(arguments: Namespace, opened: Opened) -> Decided:
    """Resolve, and see that the result is what was wished and can be where it shall be."""
    from wheelfit.cli.changes import Present, decided
    from wheelfit.install.plan import plan
    from wheelfit.resolve.resolver import resolve

    present = Present.of(opened)
    opened.candidates.hold_on_to(_held(arguments, opened, present))
    resolution = resolve(_request(arguments, opened, present), opened.candidates)
    resolution = _as_requested_before(arguments, opened, present, resolution)
    planned = plan(resolution, present.installed, reinstall=arguments.force_reinstall)
    return decided(planned, resolution, present, opened, _agreed(arguments, opened, present))


def _request(arguments: Namespace, opened: Opened, present: Present) -> Request:
    from packaging.utils import canonicalize_name

    from wheelfit.core.requirements import Requirement
    from wheelfit.install.installed import by_name
    from wheelfit.resolve.request import Asked, Request

    wanted = opened.wanted
    there = by_name(present.installed)
    staying = {} if arguments.force_reinstall else there
    upgrade_only = frozenset(canonicalize_name(name) for name in arguments.upgrade_package)
    again = upgrade_only | (_named(opened) if arguments.upgrade else frozenset())
    requirements = wanted.requirements
    if _is_only_refit(arguments, opened):
        requirements = tuple(Asked(Requirement(name)) for name in present.misfits)
    return Request(
        requirements=requirements,
        wheels=opened.wheels(),
        constraints=wanted.constraints,
        overrides=wanted.overrides,
        excluded=wanted.excluded,
        # Where another build is needed, of the same version if there is one.
        preferred={
            name: entry.version
            for name, entry in staying.items()
            if entry.label is not None and name not in again
        },
        installed={name: entry.present() for name, entry in staying.items()},
        around={name: entry.present() for name, entry in there.items()},
        there={name: entry.version for name, entry in there.items()},
        upgrade=arguments.upgrade,
        upgrade_only=upgrade_only,
        prereleases=opened.prereleases,
        dependencies=not arguments.no_deps,
        require_hashes=opened.requires_hashes,
        hashes_required_by=opened.rules.said_by("require-hashes")
        if opened.rules.require_hashes
        else "",
    )


# --- variants that are installed -------------------------------------------------------------


def _named(opened: Opened) -> frozenset[NormalizedName]:
    """Return the projects that the user named."""
    return frozenset(asked.requirement.name for asked in opened.wanted.requirements)


def _is_only_refit(arguments: Namespace, opened: Opened) -> bool:
    wanted = opened.wanted
    return bool(arguments.refit) and not (wanted.requirements or wanted.wheels or wanted.sources)


def _as_requested_before(
    arguments: Namespace, opened: Opened, present: Present, resolution: Resolution
) -> Resolution:
    """Let what is only exchanged be as much asked for as it was (PEP 376)."""
    from dataclasses import replace

    from wheelfit.install.installed import by_name

    if not _is_only_refit(arguments, opened):
        return resolution
    there = by_name(present.installed)
    pins = [
        replace(pin, requested=pin.name in there and there[pin.name].requested)
        for pin in resolution.pins
    ]
    return replace(resolution, pins=tuple(pins))


def _held(
    arguments: Namespace, opened: Opened, present: Present
) -> Mapping[NormalizedName, tuple[Label, PropertySet]]:
    """Return the builds that newer releases shall have too, where they have them and it fits.

    Not of builds for versions of other packages: those follow the other package.
    """
    from wheelfit.install.installed import by_name
    from wheelfit.resolve.builds import is_bound

    if arguments.allow_variant_change:
        return {}
    free = _named(opened) if arguments.force_reinstall else frozenset()
    return {
        name: (entry.label, entry.properties)
        for name, entry in by_name(present.installed).items()
        if entry.label is not None
        and name not in free
        and not is_bound(entry.document, entry.properties)
    }


def _agreed(
    arguments: Namespace, opened: Opened, present: Present
) -> Callable[[VariantChange], bool]:
    """Return what tells whether the user asked for a change of variant.

    In general, for the very package, or by naming it together with a wish that the installed
    build does not meet.
    """
    misfits = present.misfits if arguments.refit else {}
    named = _named(opened)
    labels = opened.candidates.policy.preferences.labels

    def agreed(change: VariantChange) -> bool:
        name = change.old.name
        return (
            arguments.allow_variant_change
            or change.new.is_given
            or name in misfits
            or name in labels
            or (name in named and (arguments.force_reinstall or _is_unwanted(change, opened)))
        )

    return agreed


def _is_unwanted(change: VariantChange, opened: Opened) -> bool:
    """Tell whether the wishes of the user rule out the installed build."""
    from wheelfit.core.support import Support, namespaces_used

    old, candidates = change.old, opened.candidates
    preferences = candidates.policy.preferences
    if old.label is None:
        support = Support()
    elif not preferences.variants or old.document is None:
        return not preferences.variants
    else:
        support = candidates.support_of(old.document, namespaces_used([old.properties]))
    wishes = candidates.applying(old.name, old.document)
    return wishes.objection(old.properties, support) is not None
