"""The environments that markers can distinguish, for checking rules about all of them.

A rule about every environment (P-6, P-7) is decided on representatives: one environment for each
combination of results of the markers. Variables count as independent of each other, except for the
two that hold the version of Python.
"""

from __future__ import annotations

import re
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion

from wheelfit.core.marker_grammar import Literal, Variable, comparisons
from wheelfit.core.versions import parse_version
from wheelfit.errors import InvalidMarker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wheelfit.core.markers import Marker
    from wheelfit.core.requirements import Requirement

_MOST = 1000
"""Evaluations of markers that one question may cost."""
_OTHER = "?"
"""A value that no marker names."""
_PYTHON = frozenset(["python_version", "python_full_version"])
_VERSIONS = frozenset(["implementation_version", "platform_release"])
_LAST = 9999
"""Stands for the last release of a series."""


def representatives(markers: Sequence[Marker]) -> tuple[dict[str, str], ...] | None:
    """Return environments for every combination of results of the markers.

    >>> from wheelfit.core.markers import parse_marker
    >>> [found["os_name"] for found in representatives([parse_marker("os_name == 'nt'")]) or ()]
    ['nt', '?']

    :param markers: markers without variant variables; extras count as not requested.
    :return: None when there are too many combinations.
    """
    values: dict[str, dict[str, None]] = {}
    for marker in markers:
        for comparison in comparisons(marker.expression):
            for side, other in (
                (comparison.left, comparison.right),
                (comparison.right, comparison.left),
            ):
                if isinstance(side, Variable):
                    name = "python_full_version" if side.name in _PYTHON else side.name
                    points = values.setdefault(name, {})
                    if isinstance(other, Literal):
                        points.update(dict.fromkeys(_points(name, other.value)))
    values.pop("extra", None)
    for name, points in values.items():
        # Of a text also one that has all that is looked for in it, and one that has nothing.
        edges = ("0", f"{_LAST}") if name in _PYTHON else (" ".join(points), _OTHER)
        points.update(dict.fromkeys(edges))
    if prod(len(points) for points in values.values()) * max(1, len(markers)) > _MOST:
        return None
    return tuple(
        _complete(dict(zip(values, chosen, strict=True))) for chosen in product(*values.values())
    )


def first_everywhere(requirements: Sequence[Requirement]) -> frozenset[str | None] | None:
    """Return the projects that come first after marker filtering, over all environments.

    :return: normalised names, and none where no requirement remains in some environment; None when
        that is unknown.
    """
    conditional: list[Requirement] = []
    for requirement in requirements:
        conditional.append(requirement)
        if requirement.marker is None:
            break  # what comes later is never the first
    environments = representatives([item.marker for item in conditional if item.marker])
    if environments is None:
        return None
    return frozenset(_first(conditional, environment) for environment in environments)


def _first(requirements: Iterable[Requirement], environment: dict[str, str]) -> str | None:
    for requirement in requirements:
        try:
            if requirement.applies(environment):
                return requirement.name
        except InvalidMarker:
            continue  # what cannot be evaluated does not apply
    return None


def _points(name: str, text: str) -> Iterator[str]:
    """Yield values that a comparison with a literal distinguishes."""
    if name in _PYTHON or name in _VERSIONS:
        yield from _versions(text)
        if name in _PYTHON:
            return
    yield text
    yield from re.split(r"[\s,|]+", text)  # ``in "linux darwin"``


def _versions(text: str) -> Iterator[str]:
    """Yield a version, its neighbours, and the first of every following series."""
    for word in re.split(r"[\s,|]+", text):
        try:
            release = parse_version(word.removesuffix(".*")).release
        except InvalidVersion:
            continue
        yield _written(release)
        yield _written((*release, *(0,) * (3 - len(release)), 1))
        for length in range(1, len(release) + 1):
            yield _written((*release[: length - 1], release[length - 1] + 1))
        significant = list(release)
        while significant and not significant[-1]:
            significant.pop()
        if significant:
            yield _written((*significant[:-1], significant[-1] - 1, _LAST))


def _written(release: Iterable[int]) -> str:
    return ".".join(map(str, release))


def _complete(environment: dict[str, str]) -> dict[str, str]:
    """Set both variables of Python to consistent values."""
    full = environment.get("python_full_version")
    if full is not None:
        parts = [*full.split("."), "0", "0"]
        environment["python_version"] = ".".join(parts[:2])
        environment["python_full_version"] = ".".join(parts[: max(3, len(parts) - 2)])
    return environment
