"""The values supported by a driver version and a compute capability (P-80 to P-90)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.providers.nvidia import tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit_runtime.platforms.providers.nvidia.facts import Capability


def bound_count(version: Capability) -> int:
    """Return the number of all lower and upper bounds together (P-86)."""
    return (_last_major(version) - tables.OLDEST_CUDA + 1) * (_last_minor(version) + 2)


def is_known_to_reference(version: Capability) -> bool:
    """Return whether the reference plugin has values for a driver version (P-84)."""
    return (
        tables.OLDEST_CUDA <= version.major <= tables.NEWEST_CUDA.major
        and version.minor <= tables.NEWEST_CUDA.minor
    )


def lower_bounds(version: Capability) -> tuple[str, ...]:
    """Return the lower bounds that a driver meets: its own version, then older ones (P-80)."""
    values = [f"{version.major}.{minor}" for minor in range(version.minor, -1, -1)]
    values.append(str(version.major))
    for major in range(version.major - 1, tables.OLDEST_CUDA - 1, -1):
        values += _whole_major(major, _last_minor(version))
    return tuple(values)


def upper_bounds(version: Capability) -> tuple[str, ...]:
    """Return the upper bounds above a driver's version, the highest first (P-81)."""
    last_minor = _last_minor(version)
    values = []
    for major in range(_last_major(version), version.major, -1):
        values += _whole_major(major, last_minor)
    values += [f"{version.major}.{minor}" for minor in range(last_minor, version.minor, -1)]
    return tuple(values)


def every_bound() -> tuple[str, ...]:
    """Return every bound of the reference's vocabulary, newest first."""
    majors = range(tables.NEWEST_CUDA.major, tables.OLDEST_CUDA - 1, -1)
    return tuple(
        value for major in majors for value in _whole_major(major, tables.NEWEST_CUDA.minor)
    )


def _whole_major(major: int, last_minor: int) -> list[str]:
    return [*(f"{major}.{minor}" for minor in range(last_minor, -1, -1)), str(major)]


def _last_major(version: Capability) -> int:
    return max(tables.NEWEST_CUDA.major, version.major)


def _last_minor(version: Capability) -> int:
    return max(tables.NEWEST_CUDA.minor, version.minor)


def reference_sm_values(capability: Capability) -> tuple[str, ...]:
    """Return the values for machine code and PTX of the reference plugin for a device (P-82)."""
    if capability < tables.OLDEST_CAPABILITY:
        return ()
    major = capability.major
    real = [f"{major}{minor}_real" for minor in range(capability.minor, -1, -1)]
    return (*real, f"{major}0_virtual")


def appended_sm_values(capability: Capability) -> tuple[str, ...]:
    """Return further supported values that the reference plugin omits (P-83)."""
    if capability < tables.OLDEST_CAPABILITY:
        return ()
    major, minor = capability
    values = []
    specific = f"{major}{minor}a"
    if capability >= tables.FIRST_SPECIFIC:
        values.append(f"{specific}_real")
    values += [f"{family.major}{family.minor}f_real" for family in _families(capability)]
    values += [f"{major}{older}_virtual" for older in range(minor, 0, -1)]
    for older_major in range(major - 1, tables.OLDEST_CAPABILITY.major - 1, -1):
        values += [f"{older_major}{older}_virtual" for older in _minors()]
    if capability >= tables.FIRST_SPECIFIC:
        values.append(f"{specific}_virtual")
    return tuple(values)


def _families(capability: Capability) -> Iterator[Capability]:
    """Yield the families of a device, the newest first."""
    for family in sorted(tables.SM_FAMILIES, reverse=True):
        if capability in tables.SM_FAMILIES[family]:
            yield family


def _minors() -> range:
    """Return the minors of each older major, newest first."""
    return range(tables.NEWEST_CAPABILITY.minor, -1, -1)


def every_sm_value() -> tuple[str, ...]:
    """Return the whole vocabulary: the values of the reference plugin, then those of wheelfit."""
    majors = range(tables.OLDEST_CAPABILITY.major, tables.NEWEST_CAPABILITY.major + 1)
    capabilities = [(major, minor) for major in majors for minor in reversed(_minors())]
    names = [f"{major}{minor}" for major, minor in capabilities]
    specific = [
        f"{major}{minor}a_{kind}"
        for major, minor in capabilities
        if (major, minor) >= tables.FIRST_SPECIFIC
        for kind in ("real", "virtual")
    ]
    families = [f"{major}{minor}f_real" for major, minor in tables.SM_FAMILIES]
    plain = [f"{name}_{kind}" for name in names for kind in ("real", "virtual")]
    return (*plain, *specific, *families)
