"""The warnings for the user about a choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core.accelerators import ACCELERATORS, accelerators_of
from wheelfit.core.ordering import Preferences
from wheelfit.core.provider_table import HARDWARE
from wheelfit_runtime.platforms.features import Status
from wheelfit_runtime.platforms.words import PACKAGE_LIST
from wheelfit_runtime.wording import count_of, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wheelfit.core.property_support import Support
    from wheelfit.resolution.joint_choice import AgreementOutcome
    from wheelfit.resolution.release_choice import ReleaseChoice


def warnings_about_choices(
    choices: Iterable[ReleaseChoice],
    preferences: Preferences = Preferences(),
) -> Iterator[str]:
    """Yield warnings about choices among the wheels of releases, one line for the same reason.

    :param preferences: the user's preferences; explicit ones are not reported.
    """
    unused: dict[str, list[tuple[ReleaseChoice, str]]] = {}
    for choice in choices:
        yield from _package_list_warnings(choice)
        for namespace, reason in _unused_accelerators(choice, preferences):
            unused.setdefault(namespace, []).append((choice, reason))
        if choice.support is not None:
            yield from _failure_warnings(choice.support)
    for namespace, reasons in unused.items():
        yield _unused_warning(namespace, reasons)


def _package_list_warnings(choice: ReleaseChoice) -> Iterator[str]:
    """Yield a warning for each package whose own list was trusted (P-20)."""
    if choice.support is None:
        return
    for namespace in sorted(HARDWARE.intersection(choice.properties.namespaces)):
        if choice.support.examined.get(namespace) == PACKAGE_LIST:
            yield (
                f"{choice.release.name}: its own list states that {namespace} is supported; "
                "this machine was not examined"
            )


def _unused_accelerators(
    choice: ReleaseChoice, preferences: Preferences
) -> Iterator[tuple[str, str]]:
    """Yield the namespaces of present accelerators that a choice does not use, with the reason."""
    support = choice.support
    if support is None or choice.selection.chosen is None or accelerators_of(choice.properties):
        return
    for namespace, preference in ACCELERATORS.items():
        if preference not in preferences.forbid and _is_present(support, namespace):
            reason = _reason_against_best(choice, namespace)
            if reason is not None:
                yield namespace, reason


def _failure_warnings(support: Support) -> Iterator[str]:
    for namespace, detection in support.detections.items():
        if detection.status is Status.FAILED:
            evidence = "; ".join(f"{item.source}: {item.value}" for item in detection.evidence)
            yield f"detection of {namespace} failed, so its builds count as unsupported: {evidence}"


_MAX_REASONS = 2
"""Reasons that one line names."""


def _unused_warning(namespace: str, reasons: Sequence[tuple[ReleaseChoice, str]]) -> str:
    """Return the warning about packages whose builds do not use an accelerator."""
    names = listed([choice.release.name for choice, _ in reasons])
    chosen = [choice.selection.chosen for choice, _ in reasons]
    builds = ", ".join(
        dict.fromkeys((filename.label or "plain") if filename else "" for filename in chosen)
    )
    noun = "builds" if len(reasons) > 1 else "build"
    verb = "do" if len(reasons) > 1 else "does"
    distinct = list(dict.fromkeys(reason for _, reason in reasons))
    hidden = len(distinct) - _MAX_REASONS
    more = [count_of(hidden, "more reason")] if hidden > 0 else []
    return (
        f"{names}: {namespace} hardware is present, but the chosen {noun} ({builds}) {verb} "
        f"not use it; {'; '.join([*distinct[:_MAX_REASONS], *more])}"
    )


def warnings_about_mixture(outcomes: Iterable[AgreementOutcome]) -> Iterator[str]:
    """Yield warnings about builds in an environment that disagree."""
    for outcome in outcomes:
        if not outcome.values:
            majors = " majors" if outcome.agreement.part == "major" else ""
            builds = f"builds for different {outcome.agreement.title}{majors}"
            yield f"{builds} are mixed ({outcome.packages_in_words})"


def _is_present(support: Support, namespace: str) -> bool:
    detection = support.detections.get(namespace)
    return (
        detection is not None
        and detection.status is Status.SUPPORTED
        and support.examined.get(namespace) != PACKAGE_LIST
        # P-150: some providers report absent hardware as a value.
        and any(config.values != ("false",) for config in detection.features)
    )


def _reason_against_best(choice: ReleaseChoice, namespace: str) -> str | None:
    """Return the reason the best build for an accelerator was not chosen."""
    for verdict in choice.selection.verdicts:
        if verdict.properties is not None and namespace in verdict.properties.namespaces:
            return f"{verdict.filename.label}: {verdict.reason}"
    return None
