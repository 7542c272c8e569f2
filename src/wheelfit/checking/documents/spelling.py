"""Detection of typing errors and look-alikes of names.

``v3`` and ``v4`` differ by one character, and so do ``cu126`` and ``cu128``: a changed digit is
never treated as a typing error, nor is a letter after a digit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.core.properties import PropertySet

_MIN_LENGTH = 5
"""Characters; shorter words with one difference are treated as different words."""
_WORDS = re.compile(r"[a-z0-9.]+")
_SIMILAR_CHARACTERS = str.maketrans({"0": "o", "1": "l", "i": "l", "5": "s", "8": "b"})


def is_typo(text: str, intended: str) -> bool:
    """Return whether a word is another word with one typing error.

    That is a letter too many or too few, two letters swapped, or one letter in place of another.

    >>> is_typo("x8664vv4", "x8664v4"), is_typo("openbals", "openblas")
    (True, True)
    >>> is_typo("cu126", "cu128"), is_typo("gfx90a", "gfx90c"), is_typo("v3", "v4")
    (False, False, False)
    """
    if text == intended or min(len(text), len(intended)) < _MIN_LENGTH:
        return False
    start = 0  # the index of the first difference
    while start < min(len(text), len(intended)) and text[start] == intended[start]:
        start += 1
    if start and not text[start - 1].isalpha():
        return False  # a letter after a digit is part of a number, as in gfx90a and gfx90c
    rest, intended_rest = text[start:], intended[start:]
    if len(rest) == len(intended_rest) + 1:
        return rest[1:] == intended_rest and rest[0].isalpha()
    if len(rest) + 1 == len(intended_rest):
        return rest == intended_rest[1:] and intended_rest[0].isalpha()
    if len(rest) != len(intended_rest):
        return False
    if rest[1:] == intended_rest[1:]:
        return rest[0].isalpha() and intended_rest[0].isalpha()
    swapped = intended_rest[1] + intended_rest[0] + intended_rest[2:]
    return rest[:2].isalpha() and rest == swapped


def likely_meant(text: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that a text likely means; None if there is none, or several.

    >>> likely_meant("sm_arhc", ["sm_arch", "cuda_version_lower_bound"])
    'sm_arch'
    >>> likely_meant("license :: osi  approved", ["License :: OSI Approved"])
    'License :: OSI Approved'
    """
    candidates = list(candidates)
    similar = [candidate for candidate in candidates if _normalised(candidate) == _normalised(text)]
    similar = similar or [candidate for candidate in candidates if is_typo(text, candidate)]
    return similar[0] if len(similar) == 1 else None


def _normalised(text: str) -> str:
    return " ".join(text.casefold().split())


def label_words(label: str) -> tuple[str, ...]:
    """Return the parts of a label.

    >>> label_words("x8664v4_mkl")
    ('x8664v4', 'mkl')
    """
    return tuple(_WORDS.findall(label))


def spellings_of(properties: PropertySet) -> Iterator[str]:
    """Yield the usual words for properties in labels: ``x8664v4`` for ``x86_64 :: level :: v4``."""
    for feature, values in properties.features():
        namespace = feature.namespace.replace("_", "")
        yield namespace
        for value in values:
            plain = value.replace("_", "")
            yield from (plain, namespace + plain, feature.name.replace("_", "") + plain)


def looks_like(name: str, other: str) -> bool:
    """Return whether a namespace could be mistaken for another one.

    >>> looks_like("nvidla", "nvidia"), looks_like("x8664", "x86_64"), looks_like("blas", "amd")
    (True, True, False)
    """
    if name == other:
        return False
    return _shape(name) == _shape(other) or is_typo(name, other)


def lookalike_of(name: str, others: Iterable[str]) -> str | None:
    """Return the first of several names that could be mistaken for a namespace, or None."""
    return next((other for other in sorted(others) if looks_like(name, other)), None)


def _shape(name: str) -> str:
    """Return a name in which similar characters are replaced by the same one."""
    bare = name.replace("_", "").translate(_SIMILAR_CHARACTERS)
    return bare.replace("rn", "m").replace("vv", "w")
