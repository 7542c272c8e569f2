"""The warnings for the user about a choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core.accelerators import ACCELERATORS, accelerators_of
from wheelfit.core.ordering import Preferences
from wheelfit.core.provider_table import HARDWARE
from wheelfit_runtime.platforms.features import Status
from wheelfit_runtime.platforms.words import PACKAGE_LIST
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wheelfit.core.property_support import Support
    from wheelfit.resolution.joint_choice import AgreementOutcome
    from wheelfit.resolution.release_choice import ReleaseChoice


def about_choices(
    choices: Iterable[ReleaseChoice],
    preferences: Preferences = Preferences(),
) -> Iterator[str]:
    """Yield cautions about choices among the wheels of releases, shared ones in one line.

    :param choices: one for each release, with or without a chosen wheel.
    :param preferences: the user's preferences; explicit ones are not reported.
    """
    unused: dict[str, list[tuple[ReleaseChoice, str]]] = {}
    for choice in choices:
        yield from _about_package_list(choice)
        for namespace, reason in _unused(choice, preferences):
            unused.setdefault(namespace, []).append((choice, reason))
        if choice.support is not None:
            yield from _about_failures(choice.support)
    for namespace, reasons in unused.items():
        yield _not_using(namespace, reasons)


def _about_package_list(choice: ReleaseChoice) -> Iterator[str]:
    """Yield a caution for each package whose own list was trusted (P-20)."""
    if choice.support is None:
        return
    for namespace in sorted(HARDWARE.intersection(choice.properties.namespaces)):
        if choice.support.holders.get(namespace) == PACKAGE_LIST:
            yield (
                f"{choice.release.name}: the package itself says that {namespace} is supported; "
                "this machine was not asked"
            )


def _unused(choice: ReleaseChoice, preferences: Preferences) -> Iterator[tuple[str, str]]:
    """Yield namespaces of hardware that a choice does not use, each with the reason."""
    support = choice.support
    if support is None or choice.selection.chosen is None or accelerators_of(choice.properties):
        return
    for namespace, wish in ACCELERATORS.items():
        if wish not in preferences.forbid and _is_there(support, namespace):
            reason = _why_not(choice, namespace)
            if reason is not None:
                yield namespace, reason


def _about_failures(support: Support) -> Iterator[str]:
    """Yield the failed detections (P-17)."""
    for namespace, detection in support.detections.items():
        if detection.status is Status.FAILED:
            what = "; ".join(f"{one.source}: {one.value}" for one in detection.evidence)
            yield f"detection of {namespace} failed, so its builds count as unsupported: {what}"


_REASONS = 2
"""Reasons that one line names."""


def _not_using(namespace: str, reasons: Sequence[tuple[ReleaseChoice, str]]) -> str:
    """Return the line about all packages whose builds do not use some hardware."""
    names = listed([choice.release.name for choice, _ in reasons])
    chosen = [choice.selection.chosen for choice, _ in reasons]
    builds = ", ".join(dict.fromkeys(one.label or "plain" if one else "" for one in chosen))
    several = "builds" if len(reasons) > 1 else "build"
    verb = "do" if len(reasons) > 1 else "does"
    distinct = list(dict.fromkeys(reason for _, reason in reasons))
    more = [f"{len(distinct) - _REASONS} more reasons"] if len(distinct) > _REASONS else []
    return (
        f"{names}: {namespace} hardware is present, but the chosen {several} ({builds}) {verb} "
        f"not use it; {'; '.join([*distinct[:_REASONS], *more])}"
    )


def about_mixture(held: Iterable[AgreementOutcome]) -> Iterator[str]:
    """Yield cautions about builds that share an environment and do not go with each other.

    :param held: on what everything in the environment agrees, or does not.
    """
    for one in held:
        if not one.values:
            majors = " majors" if one.agreement.part == "major" else ""
            what = f"builds for different {one.agreement.title}{majors}"
            yield f"{what} are mixed ({one.sides})"


def _is_there(support: Support, namespace: str) -> bool:
    detection = support.detections.get(namespace)
    return (
        detection is not None
        and detection.status is Status.SUPPORTED
        and support.holders.get(namespace) != PACKAGE_LIST
        # P-150: of some hardware the absence is an answer too.
        and any(config.values != ("false",) for config in detection.features)
    )


def _why_not(choice: ReleaseChoice, namespace: str) -> str | None:
    """Return the reason the best build for some hardware was not chosen."""
    for verdict in choice.selection.verdicts:
        if verdict.properties is not None and namespace in verdict.properties.namespaces:
            return f"{verdict.filename.label}: {verdict.reason}"
    return None
