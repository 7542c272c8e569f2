"""Versions and specifiers read from texts that a stranger wrote.

The grammar allows numbers of any length, and the library reads specifiers only when they are used.
Python refuses to read numbers of thousands of digits, at any time; here they are no versions from
the beginning.
"""

from __future__ import annotations

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from wheelfit_runtime.patterns import pattern

# Python's own limit is 4300 digits, and can be set as low as 640.
_ENDLESS = pattern(r"(?<!\d)\d{500}")  # looked for from the first digit of a number only
_LONGEST = 10_000
"""Characters of a set of specifiers. Each of its parts costs a hundred times its text in memory,
and a wheel of kilobytes unpacks to millions of them."""


def is_endless(text: str) -> bool:
    """Return whether a text has a number that no version has.

    >>> is_endless("2026.11.30"), is_endless("9" * 5000)
    (False, True)
    """
    return _ENDLESS.search(text) is not None


def parse_version(text: str) -> Version:
    """Read a version.

    :raises packaging.version.InvalidVersion: it is none.
    """
    if is_endless(text):
        raise InvalidVersion("a number in it has too many digits")
    return Version(text)


def parse_specifiers(text: str) -> SpecifierSet:
    """Read a set of specifiers, which are then safe to use.

    :raises packaging.specifiers.InvalidSpecifier: it is none.
    """
    if is_endless(text):
        raise InvalidSpecifier("a number in it has too many digits")
    if len(text) > _LONGEST:
        raise InvalidSpecifier(f"it has more than {_LONGEST} characters")
    return SpecifierSet(text)


def without_build(version: Version) -> Version:
    """Return a version without its local part, in which builds of one release may differ.

    >>> str(without_build(Version("2.15.0+cu132")))
    '2.15.0'
    """
    return version if version.local is None else Version(version.public)
