"""What a user should not overlook about what was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core.accelerators import ACCELERATORS, accelerators_of
from wheelfit.core.ordering import Preferences
from wheelfit.core.provider_table import HARDWARE
from wheelfit_runtime.platforms.features import Status
from wheelfit_runtime.platforms.words import PACKAGE_LIST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.core.support import Support
    from wheelfit.resolution.joint_choice import Held
    from wheelfit.resolution.release_choice import ReleaseChoice


def about_choice(
    choice: ReleaseChoice,
    preferences: Preferences = Preferences(),
) -> Iterator[str]:
    """Yield cautions about the choice among the wheels of one release.

    :param choice: with or without a chosen wheel.
    :param preferences: what the user wished; nobody is told of what was wished.
    """
    support = choice.support
    if support is None:
        return
    used = choice.properties.namespaces
    for namespace in sorted(HARDWARE.intersection(used)):
        # P-20: the standard says to believe the package; the user should know.
        if support.holders.get(namespace) == PACKAGE_LIST:
            yield (
                f"{choice.release.name}: the package itself says that {namespace} is supported; "
                "this machine was not asked"
            )
    if choice.selection.chosen is not None and not accelerators_of(choice.properties):
        build = choice.selection.chosen.label or "plain"
        for namespace, wish in ACCELERATORS.items():
            if wish in preferences.forbid or not _is_there(support, namespace):
                continue
            reason = _why_not(choice, namespace)
            if reason is not None:
                yield (
                    f"{choice.release.name}: {namespace} hardware is present, but the chosen "
                    f"build ({build}) does not use it; {reason}"
                )
    for namespace, detection in support.detections.items():
        if detection.status is Status.FAILED:  # P-17
            what = "; ".join(f"{one.source}: {one.value}" for one in detection.evidence)
            yield f"detection of {namespace} failed, so its builds count as unsupported: {what}"


def about_mixture(held: Iterable[Held]) -> Iterator[str]:
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
    """Return why the best build that uses some hardware was not chosen."""
    for verdict in choice.selection.verdicts:
        if verdict.properties is not None and namespace in verdict.properties.namespaces:
            return f"{verdict.filename.label}: {verdict.reason}"
    return None
