"""The reasons of a choice: warnings, errors, and all of it as plain data."""

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
    """Return warnings: faulty files, and implementations lost despite suitable hardware.

    An image for many machines has implementations for hardware that this one lacks. That is as
    intended, and `wheelfit_runtime.explain` shows it.
    """
    news = [f"{words}; it is left out" for words in evidence.declarations.problems]
    used = chosen.implementation
    lost = [judgement for judgement in evidence.of(used.group) if _is_lost(judgement, chosen)]
    if lost and not chosen.forced:
        words = ", ".join(
            f"{judgement.implementation.title} ({_why(judgement)})" for judgement in lost
        )
        news.append(f"{used.group} uses {used.title}; could not be used: {words}")
    return tuple(news)


def _is_lost(judgement: Judgement, chosen: Judgement) -> bool:
    """Return whether an implementation better than the chosen one could be usable."""
    used = {each.feature.namespace for each in chosen.implementation.properties}
    is_better = judgement.implementation.priority >= chosen.implementation.priority
    return judgement.failed or (is_better and bool(judgement.missed - used))


def nothing_left(group: str, evidence: Evidence) -> NoImplementation:
    """Return the error for a group of which nothing can be chosen.

    :param evidence: the evidence, with known implementations that are not installed.
    """
    own, demanded = evidence.of(group), evidence.demanded(group)
    variable = variable_of(group)
    names = [judgement.implementation.name for judgement in own]
    installable = [known.install for known in _installable(group, evidence)]
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
        own = [judgement for judgement in own if judgement.implementation.name == demanded]
    elif own:
        message = f"no installed implementation of {group} can be used here"
    else:
        message = f"no implementation of {group} is installed"
        every = [known.install for known in evidence.declarations.known.get(group, ())]
        if every and not hint:
            hint = f"there are {', '.join(every)}; none of them suits this machine"
        elif not every:
            hint = f"the documentation of {group} names them; each has a file in a folder {FOLDER}"
    lines = [f"  {judgement.implementation.title}: {_why(judgement)}" for judgement in own]
    lines += [f"  {words}" for words in evidence.declarations.problems]
    error = NoImplementation(
        message,
        note="\n".join(lines) or None,
        hint=hint,
        details=[_facts(judgement, is_chosen=False) for judgement in own],
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
    """Return the choices that would be made, with reasons.

    :param chosen: the implementation of each group, by name; groups without one are missing.
    """
    return {
        "groups": [
            _group(name, evidence, chosen.get(name), is_loaded=name in loaded) for name in groups
        ],
        "agreed": dict(agreed),
        "held": [value._asdict() for value in evidence.held],
        "machine": {
            name: {
                "supported": {feature.name: list(feature.values) for feature in detection.features},
                "warnings": list(detection.warnings),
                "overrides": [
                    f"{seen.source}={evidence.environ[seen.source]}"
                    for seen in detection.evidence
                    if seen.source in evidence.environ
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
    ordered = sorted(
        (judgement for judgement in own if judgement.fits), key=lambda judgement: judgement.order
    )
    ordered += [judgement for judgement in own if not judgement.fits]
    return {
        "group": group,
        "chosen": chosen,
        "loaded": is_loaded,
        "variable": variable_of(group),
        "demanded": evidence.demanded(group) or None,
        "implementations": [
            _facts(judgement, is_chosen=judgement.implementation.name == chosen)
            for judgement in ordered
        ],
        "could_install": [known.install for known in _installable(group, evidence)],
    }


def _facts(judgement: Judgement, *, is_chosen: bool) -> dict[str, Any]:
    implementation = judgement.implementation
    return {
        "implementation": implementation.name,
        "distribution": implementation.distribution or None,
        "module": implementation.module,
        "properties": [str(each) for each in implementation.properties],
        "claims": {dimension: list(values) for dimension, values in judgement.claims.items()},
        "state": "chosen" if is_chosen else "fits" if judgement.fits else "unsupported",
        "reasons": list(judgement.reasons),
        "file": implementation.where,
    }


def _why(judgement: Judgement) -> str:
    return "; ".join(judgement.reasons)


def _installable(group: str, evidence: Evidence) -> list[KnownImplementation]:
    """Return known compatible implementations that are not installed, the best first."""
    installed = {judgement.implementation.name for judgement in evidence.of(group)}
    installable = []
    for known in evidence.declarations.known.get(group, ()):
        if known.name not in installed:
            implementation = Implementation(group, known.name, "", known.properties)
            judged = judge(implementation, evidence.process.detections, evidence.held)
            if judged.fits:
                installable.append((judged.order, known))
    return [known for _, known in sorted(installable, key=lambda pair: pair[0])]
