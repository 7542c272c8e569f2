"""Representative environments, for checks of rules about all environments (P-6, P-7).

There is one environment for each combination of results of the markers. Variables are treated as
independent of each other, except for the two with the version of Python.
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

_MAX_EVALUATIONS = 1000
"""The limit on evaluations of markers for one set of representatives."""
_UNNAMED_VALUE = "?"
"""A value that no marker names."""
_PYTHON = frozenset(["python_version", "python_full_version"])
_VERSION_VARIABLES = frozenset(["implementation_version", "platform_release"])
_LAST_RELEASE = 9999
"""Stands for the last release of a series."""


def representatives(markers: Sequence[Marker]) -> tuple[dict[str, str], ...] | None:
    """Return environments for every combination of results of the markers.

    >>> from wheelfit.core.markers import parse_marker
    >>> [values["os_name"] for values in representatives([parse_marker("os_name == 'nt'")]) or ()]
    ['nt', '?']

    :param markers: markers without variant variables; no extra is requested.
    :return: None if there are too many combinations.
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
                    candidates = values.setdefault(name, {})
                    if isinstance(other, Literal):
                        candidates.update(dict.fromkeys(_boundary_values(name, other.value)))
    values.pop("extra", None)
    for name, candidates in values.items():
        # For ``in``: a text that contains every literal, and one that contains none.
        edges = (
            ("0", f"{_LAST_RELEASE}") if name in _PYTHON else (" ".join(candidates), _UNNAMED_VALUE)
        )
        candidates.update(dict.fromkeys(edges))
    if (
        prod(len(candidates) for candidates in values.values()) * max(1, len(markers))
        > _MAX_EVALUATIONS
    ):
        return None
    return tuple(
        _with_both_python_versions(dict(zip(values, combination, strict=True)))
        for combination in product(*values.values())
    )


def first_everywhere(requirements: Sequence[Requirement]) -> frozenset[str | None] | None:
    """Return the project of the first requirement that applies, for every environment.

    :return: a set of normalised names, in which None stands for environments where no requirement
        applies. None in place of the set if there are too many environments.
    """
    conditional: list[Requirement] = []
    for requirement in requirements:
        conditional.append(requirement)
        if requirement.marker is None:
            break  # it applies everywhere
    environments = representatives([item.marker for item in conditional if item.marker])
    if environments is None:
        return None
    return frozenset(_first_applying(conditional, environment) for environment in environments)


def _first_applying(requirements: Iterable[Requirement], environment: dict[str, str]) -> str | None:
    for requirement in requirements:
        try:
            if requirement.applies(environment):
                return requirement.name
        except InvalidMarker:
            continue
    return None


def _boundary_values(name: str, text: str) -> Iterator[str]:
    """Yield values that a comparison with a literal distinguishes."""
    if name in _PYTHON or name in _VERSION_VARIABLES:
        yield from _boundary_versions(text)
        if name in _PYTHON:
            return
    yield text
    yield from re.split(r"[\s,|]+", text)  # ``in "linux darwin"``


def _boundary_versions(text: str) -> Iterator[str]:
    """Yield a version, the versions just before and after it, and the next of each series.

    For 3.11 these are 3.11, 3.11.0.1, 4, 3.12 and 3.10.9999.
    """
    for word in re.split(r"[\s,|]+", text):
        try:
            release = parse_version(word.removesuffix(".*")).release
        except InvalidVersion:
            continue
        yield _version_text(release)
        yield _version_text((*release, *(0,) * (3 - len(release)), 1))
        for length in range(1, len(release) + 1):
            yield _version_text((*release[: length - 1], release[length - 1] + 1))
        significant = list(release)
        while significant and not significant[-1]:
            significant.pop()
        if significant:
            yield _version_text((*significant[:-1], significant[-1] - 1, _LAST_RELEASE))


def _version_text(release: Iterable[int]) -> str:
    return ".".join(map(str, release))


def _with_both_python_versions(environment: dict[str, str]) -> dict[str, str]:
    full = environment.get("python_full_version")
    if full is not None:
        parts = [*full.split("."), "0", "0"]  # padded to three parts, or cut off again
        environment["python_version"] = ".".join(parts[:2])
        environment["python_full_version"] = ".".join(parts[: max(3, len(parts) - 2)])
    return environment
