"""The reasons of a choice: what was lost, why nothing is left, and all of it as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.errors import NoImplementation
from wheelfit_runtime.loader.declaration_files import FOLDER
from wheelfit_runtime.loader.declarations import Implementation
from wheelfit_runtime.loader.planning import judge
from wheelfit_runtime.loader.quick_choice import variable_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from wheelfit_runtime.loader.declarations import KnownImplementation
    from wheelfit_runtime.loader.evidence import Evidence
    from wheelfit_runtime.loader.planning import Judgement


def passed_over(chosen: Judgement, evidence: Evidence) -> tuple[str, ...]:
    """Return warnings: files that are wrong, and what is lost for no fault of the hardware.

    An image for many machines has implementations for hardware that this one lacks. That is as
    intended, and `wheelfit_runtime.explain` tells of it.
    """
    news = [f"{words}; it is left out" for words in evidence.declarations.problems]
    it = chosen.implementation
    lost = [one for one in evidence.of(it.group) if _is_lost(one, chosen)]
    if lost and not chosen.forced:
        words = ", ".join(f"{one.implementation.title} ({_why(one)})" for one in lost)
        news.append(f"{it.group} uses {it.title}; could not be used: {words}")
    return tuple(news)


def _is_lost(one: Judgement, chosen: Judgement) -> bool:
    """Return whether the user could have something better than what was chosen."""
    used = {each.feature.namespace for each in chosen.implementation.properties}
    is_better = one.implementation.priority >= chosen.implementation.priority
    return one.failed or (is_better and bool(one.missed - used))


def nothing_left(group: str, evidence: Evidence) -> NoImplementation:
    """Return the error for a group of which nothing can be chosen.

    :param evidence: with what is known of the group and not installed.
    """
    own, demanded = evidence.of(group), evidence.demanded(group)
    variable = variable_of(group)
    names = [one.implementation.name for one in own]
    installable = [one.install for one in _installable(group, evidence)]
    hint = f"this machine can use: pip install {installable[0]}" if installable else None
    if len(installable) > 1:
        hint = f"{hint} (or {', '.join(installable[1:])})"
    if demanded and own and demanded not in names:
        message = f"{variable}={demanded} names no installed implementation of {group}"
        hint = f"installed are {', '.join(names)}"
        own = []
    elif demanded and own:
        message = f"{variable}={demanded} was demanded of {group}, and it fails"
        hint = f"without {variable} another one is taken"
        own = [one for one in own if one.implementation.name == demanded]
    elif own:
        message = f"no installed implementation of {group} can be used here"
    else:
        message = f"no implementation of {group} is installed"
        every = [one.install for one in evidence.declarations.known.get(group, ())]
        if every and not hint:
            hint = f"there are {', '.join(every)}; none of them suits this machine"
        elif not every:
            hint = f"the documentation of {group} names them; each has a file in a folder {FOLDER}"
    lines = [f"  {one.implementation.title}: {_why(one)}" for one in own]
    lines += [f"  {words}" for words in evidence.declarations.problems]
    error = NoImplementation(
        message,
        note="\n".join(lines) or None,
        hint=hint,
        details=[_facts(one, is_chosen=False) for one in own],
    )
    error.name = group
    return error


def as_data(
    groups: Iterable[str],
    evidence: Evidence,
    *,
    chosen: Mapping[str, str],
    agreed: Mapping[str, str],
    loaded: Collection[str],
) -> dict[str, Any]:
    """Return what would be chosen and why.

    :param chosen: the implementation that each gets, by name; groups that get nothing are missing.
    """
    return {
        "groups": [
            _group(name, evidence, chosen.get(name), is_loaded=name in loaded) for name in groups
        ],
        "agreed": dict(agreed),
        "held": [one._asdict() for one in evidence.held],
        "machine": {
            name: {
                "supported": {one.name: list(one.values) for one in detection.features},
                "warnings": list(detection.warnings),
                "overrides": [
                    f"{one.source}={evidence.environ[one.source]}"
                    for one in detection.evidence
                    if one.source in evidence.environ
                ],
            }
            for name, detection in evidence.process.detections.items()
        },
        "problems": list(evidence.declarations.problems),
    }


def _group(
    group: str, evidence: Evidence, chosen: str | None, *, is_loaded: bool
) -> dict[str, Any]:
    own = evidence.of(group)
    ordered = sorted((one for one in own if one.fits), key=lambda one: one.order)
    ordered += [one for one in own if not one.fits]
    return {
        "group": group,
        "chosen": chosen,
        "loaded": is_loaded,
        "variable": variable_of(group),
        "demanded": evidence.demanded(group) or None,
        "implementations": [
            _facts(one, is_chosen=one.implementation.name == chosen) for one in ordered
        ],
        "could_install": [one.install for one in _installable(group, evidence)],
    }


def _facts(one: Judgement, *, is_chosen: bool) -> dict[str, Any]:
    it = one.implementation
    return {
        "implementation": it.name,
        "distribution": it.distribution or None,
        "module": it.module,
        "properties": [str(each) for each in it.properties],
        "claims": {dimension: list(values) for dimension, values in one.claims.items()},
        "state": "chosen" if is_chosen else "fits" if one.fits else "unsupported",
        "reasons": list(one.reasons),
        "file": it.where,
    }


def _why(one: Judgement) -> str:
    return "; ".join(one.reasons)


def _installable(group: str, evidence: Evidence) -> list[KnownImplementation]:
    """Return what is known and not installed and would fit, the best first."""
    installed = {one.implementation.name for one in evidence.of(group)}
    found = []
    for one in evidence.declarations.known.get(group, ()):
        if one.name not in installed:
            there = Implementation(group, one.name, "", one.properties)
            judged = judge(there, evidence.process.detections, evidence.held)
            if judged.fits:
                found.append((judged.order, one))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]
