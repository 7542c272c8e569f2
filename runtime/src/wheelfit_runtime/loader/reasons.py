"""The reasons of a choice as warnings, errors and plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.errors import NoImplementation
from wheelfit_runtime.loader.declaration_files import FOLDER
from wheelfit_runtime.loader.declarations import Implementation, KnownImplementation
from wheelfit_runtime.loader.planning import Judgement, judge
from wheelfit_runtime.loader.quick_choice import variable_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from wheelfit_runtime.loader.evidence import Evidence


def choice_warnings(chosen: Judgement, evidence: Evidence) -> tuple[str, ...]:
    """Return warnings of faulty files, and of better implementations that could not be used.

    Implementations for other hardware are usual in images for many machines, so only
    `wheelfit_runtime.explain` shows them.
    """
    warnings = [f"{text}; it is left out" for text in evidence.declarations.problems]
    implementation = chosen.implementation
    unusable = [
        judgement
        for judgement in evidence.judgements_of(implementation.group)
        if _is_worth_a_warning(judgement, chosen)
    ]
    if unusable and not chosen.is_forced:
        text = ", ".join(
            f"{judgement.implementation.title} ({_why(judgement)})" for judgement in unusable
        )
        warnings.append(
            f"{implementation.group} uses {implementation.title}; could not be used: {text}"
        )
    return tuple(warnings)


def _is_worth_a_warning(judgement: Judgement, chosen: Judgement) -> bool:
    """Return whether an implementation failed, or could be better than the chosen one here."""
    used_namespaces = {
        property_.feature.namespace for property_ in chosen.implementation.properties
    }
    # As for a GPU that the chosen one does not use, and whose driver is too old.
    has_unused_hardware = bool(judgement.suitable_hardware - used_namespaces)
    is_preferred = judgement.implementation.priority >= chosen.implementation.priority
    return judgement.has_failed or (is_preferred and has_unused_hardware)


def no_implementation_error(group: str, evidence: Evidence) -> NoImplementation:
    """Return the error for a group without a compatible implementation.

    :param evidence: must include known implementations that are not installed.
    """
    judgements, forced = evidence.judgements_of(group), evidence.forced_name(group)
    variable = variable_of(group)
    names = [judgement.implementation.name for judgement in judgements]
    installable = [known.install for known in _installable(group, evidence)]
    hint = f"this machine can use: pip install {installable[0]}" if installable else None
    if len(installable) > 1:
        hint = f"{hint} (or {', '.join(installable[1:])})"
    if forced and judgements and forced not in names:
        message = f"{variable}={forced} names no installed implementation of {group}"
        hint = f"installed are {', '.join(names)}"
        judgements = []
    elif forced and judgements:
        message = f"{variable} forces {forced} of {group}, which cannot be used"
        hint = f"unset {variable} to choose another implementation"
        judgements = [
            judgement for judgement in judgements if judgement.implementation.name == forced
        ]
    elif judgements:
        message = f"no installed implementation of {group} can be used here"
    else:
        message = f"no implementation of {group} is installed"
        known_packages = [known.install for known in evidence.declarations.known.get(group, ())]
        if known_packages and not hint:
            hint = f"there are {', '.join(known_packages)}; none of them suits this machine"
        elif not known_packages:
            hint = f"the documentation of {group} names them; each has a file in a folder {FOLDER}"
    lines = [f"  {judgement.implementation.title}: {_why(judgement)}" for judgement in judgements]
    lines += [f"  {problem}" for problem in evidence.declarations.problems]
    error = NoImplementation(
        message,
        note="\n".join(lines) or None,
        hint=hint,
        details=[_facts(judgement, is_chosen=False) for judgement in judgements],
    )
    error.name = group
    return error


def explanation_data(
    groups: Iterable[str],
    evidence: Evidence,
    *,
    chosen: Mapping[str, str],
    agreed: Mapping[str, str],
    loaded: Collection[str],
) -> dict[str, Any]:
    """Return the choices that would be made, with reasons.

    :param chosen: the implementation of each group, by name; groups without one are missing.
    :param agreed: the values that the choices agree on, by dimension, such as the CUDA major.
    :param loaded: the groups whose implementation is already imported.
    """
    return {
        "groups": [
            _group(name, evidence, chosen.get(name), is_loaded=name in loaded) for name in groups
        ],
        "agreed": dict(agreed),
        "loaded_values": [value._asdict() for value in evidence.loaded_values],
        "machine": {
            name: {
                "supported": {feature.name: list(feature.values) for feature in detection.features},
                "warnings": list(detection.warnings),
                "overrides": [
                    f"{observation.source}={evidence.environ[observation.source]}"
                    for observation in detection.evidence
                    if observation.source in evidence.environ
                ],
            }
            for name, detection in evidence.process.detections.items()
        },
        "problems": list(evidence.declarations.problems),
    }


def _group(
    group: str, evidence: Evidence, chosen: str | None, *, is_loaded: bool
) -> dict[str, Any]:
    judgements = evidence.judgements_of(group)
    ordered = sorted(
        (judgement for judgement in judgements if judgement.fits),
        key=lambda judgement: judgement.sort_key,
    )
    ordered += [judgement for judgement in judgements if not judgement.fits]
    return {
        "group": group,
        "chosen": chosen,
        "loaded": is_loaded,
        "variable": variable_of(group),
        "forced": evidence.forced_name(group) or None,
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
        "properties": [str(property_) for property_ in implementation.properties],
        "claims": {dimension: list(values) for dimension, values in judgement.claims.items()},
        "state": "chosen" if is_chosen else "fits" if judgement.fits else "unsupported",
        "reasons": list(judgement.reasons),
        "file": implementation.where,
    }


def _why(judgement: Judgement) -> str:
    return "; ".join(judgement.reasons)


def _installable(group: str, evidence: Evidence) -> list[KnownImplementation]:
    """Return known compatible implementations that are not installed, the best first."""
    installed = {judgement.implementation.name for judgement in evidence.judgements_of(group)}
    installable = []
    for known in evidence.declarations.known.get(group, ()):
        if known.name not in installed:
            implementation = Implementation(group, known.name, "", known.properties)
            judged = judge(implementation, evidence.process.detections, evidence.loaded_values)
            if judged.fits:
                installable.append((judged.sort_key, known))
    return [known for _, known in sorted(installable, key=lambda pair: pair[0])]
