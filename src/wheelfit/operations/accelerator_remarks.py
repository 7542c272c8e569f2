"""Remarks on accelerator builds that cannot be used, and on accelerators left idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core.accelerators import accelerator_extras, accelerators_of, owner_of_libraries

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from packaging.utils import NormalizedName

    from wheelfit.operations.context import Reporter
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.resolution.accelerator_use import AcceleratorContext, AcceleratorRemark
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.resolution import Resolution


def report_accelerator_remarks(
    resolution: Resolution,
    changed: Collection[NormalizedName],
    candidates: Candidates,
    reporter: Reporter,
    *,
    installed: Collection[NormalizedName] = (),
    lock: str = "",
    reported: set[str] | None = None,
) -> tuple[AcceleratorRemark, ...]:
    """Warn of unusable or idle accelerator builds in a resolution; return those remarks.

    :param changed: the packages that are added or replaced.
    :param lock: the command that remedies name, if the resolution is from a lock; then no index is
        queried. Empty: the resolution is not from a lock.
    :param reported: warnings that are not repeated; new warnings are added.
    """
    if not _is_concerned(resolution, changed, candidates):
        return ()
    from wheelfit.resolution.accelerator_use import AcceleratorContext

    chosen_candidates = candidates.within(resolution.context)
    context = AcceleratorContext(
        chosen_candidates.support_of,
        candidates.policy,
        chosen_candidates.bridge,
        candidates.target.environment,
        installed,
        None if lock else candidates,
        lock,
    )
    remarks = _remarks(resolution, changed, context)
    reported = set() if reported is None else reported
    for remark in remarks:
        if remark.message not in reported:
            reported.add(remark.message)
            reporter.warn(remark.message)
    return remarks


def remarks_on_platform(
    resolution: Resolution,
    names: Collection[NormalizedName],
    candidates: Candidates,
    machine_of: Callable[[], ChosenMachine],
) -> tuple[AcceleratorRemark, ...]:
    """Return the remarks on a resolution for all machines of a platform, for one such machine.

    :param resolution: it may have several builds of a package.
    :param machine_of: opens that machine; called only if a package may use accelerators.
    """
    if not _is_concerned(resolution, names, candidates):
        return ()
    from wheelfit.resolution.accelerator_use import AcceleratorContext

    machine = machine_of()
    context = AcceleratorContext(
        lambda document, namespaces: machine.support(
            document, frozenset(namespaces), candidates.known_versions
        ),
        candidates.policy,
        candidates.bridge,
        candidates.target.environment,
    )
    return _remarks(resolution, names, context)


def _remarks(
    resolution: Resolution, changed: Collection[NormalizedName], context: AcceleratorContext
) -> tuple[AcceleratorRemark, ...]:
    """Return remarks on a resolution, at most one of a kind for each accelerator.

    Nothing is detected and no source is queried unless a package concerns an accelerator by its
    name, its requirements or its extras.
    """
    from wheelfit.resolution.accelerator_remedies import Remedies
    from wheelfit.resolution.idle_accelerators import IdleAccelerators
    from wheelfit.resolution.unusable_libraries import UnusableLibraries

    remedies = Remedies(resolution, context)
    return (
        *UnusableLibraries(changed, remedies).remarks(),
        *IdleAccelerators(changed, remedies).remarks(),
    )


def _is_concerned(
    resolution: Resolution,
    changed: Collection[NormalizedName],
    candidates: Candidates,
) -> bool:
    """Return whether a package may use accelerators; most resolutions have no such package."""
    return any(owner_of_libraries(name) for name in changed) or any(
        candidates.policy.families(pin.name)
        or (pin.core is not None and accelerator_extras(pin.core))
        for pin in resolution.pins
        if pin.name in changed and not accelerators_of(pin.properties)
    )
