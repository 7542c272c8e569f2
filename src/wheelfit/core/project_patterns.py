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
    """Return whether a name fits one of several patterns, however those are spelled.

    >>> fits("acme-tools", ["Acme_*"])
    True

    :param patterns: with ``*`` for any characters, ``?`` for one.
    """
    return _expression(tuple(patterns)).match(project) is not None


@lru_cache(1024)  # an index compares each of its names with the same few
def _expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return a regular expression for any of several patterns; without one it matches nothing."""
    return re.compile("|".join(translate(normalised(one)) for one in patterns) or "(?!)")


def normalised(text: str) -> str:
    """Return a name, or a pattern, as normalised names are compared with it (PEP 503).

    >>> normalised("Acme_*")
    'acme-*'
    """
    return re.sub(r"[-_.]+", "-", text).lower()


def check_patterns(patterns: Iterable[str], *, where: str | None = None) -> None:
    """Raise an error for patterns that match no project name, and so reserve nothing.

    :raises InvalidConfiguration: there is such a one.
    """
    for one in patterns:
        if _PATTERN.fullmatch(one) is None:
            raise InvalidConfiguration(
                f"no name of a project fits {one[:60]!r}",
                where=where,
                hint="as acme-*: letters, digits and dashes, * for any of them and ? for one",
            )
