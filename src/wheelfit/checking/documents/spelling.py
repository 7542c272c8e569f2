"""Distinction of typing errors and look-alikes from different but similar names.

``v3`` and ``v4`` differ by one character, and so do ``cu126`` and ``cu128``: a changed digit
is never taken for a typing error, nor is a letter behind a digit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.core.properties import PropertySet

_SHORTEST = 5
"""Characters below which a typing error is not distinguishable from another word."""
_WORDS = re.compile(r"[a-z0-9.]+")
_SAME_SHAPE = str.maketrans({"0": "o", "1": "l", "i": "l", "5": "s", "8": "b"})


def is_slip(text: str, meant: str) -> bool:
    """Return whether a word is another one with one slip of the fingers.

    A letter too many, a letter too few, two letters swapped, or one letter for another.

    >>> is_slip("x8664vv4", "x8664v4"), is_slip("openbals", "openblas")
    (True, True)
    >>> is_slip("cu126", "cu128"), is_slip("gfx90a", "gfx90c"), is_slip("v3", "v4")
    (False, False, False)
    """
    if text == meant or min(len(text), len(meant)) < _SHORTEST:
        return False
    start = 0
    while start < min(len(text), len(meant)) and text[start] == meant[start]:
        start += 1
    if start and not text[start - 1].isalpha():
        return False  # a letter behind a digit is part of a number, as in gfx90a and gfx90c
    here, there = text[start:], meant[start:]
    if len(here) == len(there) + 1:
        return here[1:] == there and here[0].isalpha()
    if len(here) + 1 == len(there):
        return here == there[1:] and there[0].isalpha()
    if len(here) != len(there):
        return False
    if here[1:] == there[1:]:
        return here[0].isalpha() and there[0].isalpha()
    return here[:2].isalpha() and here[:2] == there[1::-1] and here[2:] == there[2:]


def meant_by(text: str, known: Iterable[str]) -> str | None:
    """Return the known text that a text means; None without exactly one such text.

    >>> meant_by("sm_arhc", ["sm_arch", "cuda_version_lower_bound"])
    'sm_arch'
    >>> meant_by("license :: osi  approved", ["License :: OSI Approved"])
    'License :: OSI Approved'
    """
    known = list(known)
    similar = [one for one in known if _folded(one) == _folded(text)]
    similar = similar or [one for one in known if is_slip(text, one)]
    return similar[0] if len(similar) == 1 else None


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def words_of(label: str) -> tuple[str, ...]:
    """Return the parts of a label.

    >>> words_of("x8664v4_mkl")
    ('x8664v4', 'mkl')
    """
    return tuple(_WORDS.findall(label))


def spellings_of(properties: PropertySet) -> Iterator[str]:
    """Yield spellings of properties in labels, as ``x8664v4`` for ``x86_64 :: level :: v4``."""
    for feature, values in properties.features():
        namespace = feature.namespace.replace("_", "")
        yield namespace
        for value in values:
            plain = value.replace("_", "")
            yield from (plain, namespace + plain, feature.name.replace("_", "") + plain)


def looks_like(name: str, known: str) -> bool:
    """Return whether a namespace could be mistaken for another one.

    >>> looks_like("nvidla", "nvidia"), looks_like("x8664", "x86_64"), looks_like("blas", "amd")
    (True, True, False)
    """
    if name == known:
        return False
    return _shape(name) == _shape(known) or is_slip(name, known)


def resembling(name: str, known: Iterable[str]) -> str | None:
    """Return the first name that could be mistaken for a namespace."""
    return next((other for other in sorted(known) if looks_like(name, other)), None)


def _shape(name: str) -> str:
    """Return a name reduced to its appearance at a glance."""
    bare = name.replace("_", "").translate(_SAME_SHAPE)
    return bare.replace("rn", "m").replace("vv", "w")
