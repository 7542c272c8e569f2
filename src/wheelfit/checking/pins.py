"""Whether what wheels require in exact versions can be had (F-92)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.findings import Place, Severity
from wheelfit.core.requirements import Requirement, parse_requirement
from wheelfit.errors import InvalidRequirement
from wheelfit.resolution.version_set import is_pin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.checking.findings import Finding
    from wheelfit.checking.releases import ReleaseFacts

    Versions = Callable[[NormalizedName], "frozenset[Version] | None"]


def pins_of(releases: Iterable[ReleaseFacts]) -> dict[Requirement, list[str]]:
    """Return every requirement of one exact version, with the wheels that have it.

    Markers and extras are left out: they change who needs it, not whether it is there.
    """
    found: dict[Requirement, list[str]] = {}
    texts: dict[str, Requirement | None] = {}
    for release in releases:
        for wheel in release.wheels:
            for text in () if wheel.core is None else wheel.core.requires_texts:
                if text not in texts:
                    texts[text] = _pin(text)
                pin = texts[text]
                if pin is not None and wheel.where not in found.setdefault(pin, []):
                    found[pin].append(wheel.where)
    return found


def pin_findings(
    pins: dict[Requirement, list[str]], versions: Versions, *, elsewhere: bool
) -> Iterator[Finding]:
    """Yield pins that cannot be met.

    :param versions: returns which versions of a project can be had; None: it is not known.
    :param elsewhere: whether other sources were asked too.
    """
    for pin, wheels in pins.items():
        known = versions(pin.name)
        if known is None:
            message = f"{pin} is required, and no source that was asked has it"
            severity = None if elsewhere else Severity.WARNING
        elif any(pin.specifier.contains(one, prereleases=True) for one in known):
            continue
        else:
            nearest = ", ".join(map(str, sorted(known, reverse=True)[:3])) or "nothing"
            message, severity = f"{pin} is required, and there is only {nearest}", None
            if len(known) > 3:
                message += f" and {len(known) - 3} more"
        for where in wheels:
            yield Place(where, "METADATA").found(checks.UNMET_PIN, message, severity=severity)


def _pin(text: str) -> Requirement | None:
    try:
        requirement = parse_requirement(text, allow_variant_markers=True)
    except InvalidRequirement:
        return None
    if requirement.url or not is_pin(requirement.specifier):
        return None
    return Requirement(requirement.name, specifier=requirement.specifier)
