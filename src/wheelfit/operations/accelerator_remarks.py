"""Remarks on accelerator builds that cannot be used, and on accelerators left idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core.accelerators import accelerators_of, concerned_extras, owner_of_libraries

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from packaging.utils import NormalizedName

    from wheelfit.operations.context import Reporter
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.resolution.accelerator_use import AcceleratorContext, AcceleratorUse
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.resolution import Resolution


def tell_accelerator_use(
    resolution: Resolution,
    arriving: Collection[NormalizedName],
    candidates: Candidates,
    reporter: Reporter,
    *,
    there: Collection[NormalizedName] = (),
    lock: str = "",
    told: set[str] | None = None,
) -> tuple[AcceleratorUse, ...]:
    """Warn of misused or idle accelerators in a result; return those remarks.

    :param lock: the command that remedies are options of, where the result is of a lock; only the
        lock is read then.
    :param told: lines that were printed already; grows.
    """
    if not _is_concerned(resolution, arriving, candidates):
        return ()
    from wheelfit.resolution.accelerator_use import AcceleratorContext

    chosen_by = candidates.within(resolution.context)
    context = AcceleratorContext(
        chosen_by.support_of,
        candidates.policy,
        chosen_by.bridge,
        candidates.target.environment,
        there,
        None if lock else candidates,
        lock,
    )
    uses = _found(resolution, arriving, context)
    told = set() if told is None else told
    for one in uses:
        if one.line not in told:
            told.add(one.line)
            reporter.warn(one.line)
    return uses


def use_on_platform(
    resolution: Resolution,
    names: Collection[NormalizedName],
    candidates: Candidates,
    machine_of: Callable[[], ChosenMachine],
) -> tuple[AcceleratorUse, ...]:
    """Return the same of a result for every machine of a platform, as one of them would find it.

    :param resolution: the result; it may have several builds of a package.
    :param machine_of: opens the machine, where packages may have to do with accelerators.
    """
    if not _is_concerned(resolution, names, candidates):
        return ()
    from wheelfit.resolution.accelerator_use import AcceleratorContext

    machine = machine_of()
    context = AcceleratorContext(
        lambda document, namespaces: machine.support(
            document, frozenset(namespaces), candidates.known
        ),
        candidates.policy,
        candidates.bridge,
        candidates.target.environment,
    )
    return _found(resolution, names, context)


def _found(
    resolution: Resolution, arriving: Collection[NormalizedName], context: AcceleratorContext
) -> tuple[AcceleratorUse, ...]:
    """Return remarks about a result, at most one of a kind for each accelerator.

    Nothing is detected and no source is queried unless a package concerns an accelerator by its
    name, its requirements or its extras.
    """
    from wheelfit.resolution.accelerator_remedies import Remedies
    from wheelfit.resolution.idle_accelerators import idle_accelerators
    from wheelfit.resolution.unusable_libraries import unusable_libraries

    remedies = Remedies(resolution, context)
    return (*unusable_libraries(arriving, remedies), *idle_accelerators(arriving, remedies))


def _is_concerned(
    resolution: Resolution,
    arriving: Collection[NormalizedName],
    candidates: Candidates,
) -> bool:
    """Return whether a package may concern accelerators; most results have none that does."""
    return any(owner_of_libraries(name) for name in arriving) or any(
        candidates.policy.families(pin.name)
        or (pin.core is not None and concerned_extras(pin.core))
        for pin in resolution.pins
        if pin.name in arriving and not accelerators_of(pin.properties)
    )
