"""Remarks on accelerator builds that cannot be used, and on accelerators left idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core.accelerators import accelerator_extras, accelerators_of, owner_of_libraries

if TYPE_CHECKING:
    from collections.abc import Collection

    from packaging.utils import NormalizedName

    from wheelfit.operations.context import Reporter
    from wheelfit.resolution.accelerator_use import AcceleratorRemark
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

    There is at most one remark of a kind for each accelerator. Nothing is detected and no source is
    queried unless a package concerns an accelerator by its name, its requirements or its extras.

    :param changed: the packages that are added or replaced.
    :param lock: the command that remedies name, if the resolution is from a lock; then no index is
        queried. Empty: the resolution is not from a lock.
    :param reported: warnings that are not repeated; new warnings are added.
    """
    if not _is_concerned(resolution, changed, candidates):
        return ()
    from wheelfit.resolution.accelerator_remedies import Remedies
    from wheelfit.resolution.accelerator_use import AcceleratorContext
    from wheelfit.resolution.idle_accelerators import IdleAccelerators
    from wheelfit.resolution.unusable_libraries import UnusableLibraries

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
    remedies = Remedies(resolution, context)
    remarks = (
        *UnusableLibraries(changed, remedies).remarks(),
        *IdleAccelerators(changed, remedies).remarks(),
    )
    reported = set() if reported is None else reported
    for remark in remarks:
        if remark.message not in reported:
            reported.add(remark.message)
            reporter.warn(remark.message)
    return remarks


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
