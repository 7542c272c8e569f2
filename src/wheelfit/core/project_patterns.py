"""Patterns of project names, as operators of indexes write them: ``acme-*``."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import InvalidConfiguration
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.utils import NormalizedName


_PATTERN = pattern(r"[a-z0-9._*?-]+", re.IGNORECASE)


def fits(project: NormalizedName, patterns: Iterable[str]) -> bool:
    """Return whether a name matches one of several patterns, which need not be normalised.

    >>> fits("acme-tools", ["Acme_*"])
    True

    :param patterns: with ``*`` for any characters, ``?`` for one.
    """
    return _expression(tuple(patterns)).match(project) is not None


@lru_cache(1024)  # an index compares each of its names with the same few
def _expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return a regular expression of all patterns; without any, it matches nothing."""
    return re.compile("|".join(translate(normalised(text)) for text in patterns) or "(?!)")


def normalised(text: str) -> str:
    """Return a name or a pattern in normalised form (PEP 503).

    >>> normalised("Acme_*")
    'acme-*'
    """
    return re.sub(r"[-_.]+", "-", text).lower()


def check_patterns(patterns: Iterable[str], *, where: str | None = None) -> None:
    """Check that every pattern can match a project name.

    :raises InvalidConfiguration: one cannot.
    """
    for project_pattern in patterns:
        if _PATTERN.fullmatch(project_pattern) is None:
            raise InvalidConfiguration(
                f"{project_pattern[:60]!r} matches no valid project name",
                where=where,
                hint="as acme-*: letters, digits, dashes, * for any characters and ? for one",
            )
