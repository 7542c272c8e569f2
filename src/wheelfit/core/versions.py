"""Parsing of untrusted versions and specifiers.

The grammar allows numbers of any length, but Python cannot convert thousands of digits to an
integer, and packaging converts those of specifiers only on use. Here such numbers are invalid from
the start.
"""

from __future__ import annotations

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from wheelfit_runtime.patterns import pattern

# Python's own limit is 4300 digits, and can be set as low as 640.
_TOO_MANY_DIGITS = pattern(r"(?<!\d)\d{500}")  # tried at the first digit of a number only
_MAX_SPECIFIERS_LENGTH = 10_000
"""In characters. In memory a specifier takes a hundred times the size of its text, and METADATA of
a small archive may have millions of them.
"""


def has_too_many_digits(text: str) -> bool:
    """Return whether a text has a number with too many digits for a version.

    >>> has_too_many_digits("2026.11.30"), has_too_many_digits("9" * 5000)
    (False, True)
    """
    return _TOO_MANY_DIGITS.search(text) is not None


def parse_version(text: str) -> Version:
    """Read a version.

    :raises packaging.version.InvalidVersion: the text is not a version.
    """
    if has_too_many_digits(text):
        raise InvalidVersion("a number in it has too many digits")
    return Version(text)


def version_of(text: str) -> Version | None:
    """Return the version that a text is; None: it is not a version."""
    try:
        return parse_version(text)
    except InvalidVersion:
        return None


def parse_specifiers(text: str) -> SpecifierSet:
    """Read a set of specifiers, which are then safe to use.

    :raises packaging.specifiers.InvalidSpecifier: the text is not a set of specifiers.
    """
    if has_too_many_digits(text):
        raise InvalidSpecifier("a number in it has too many digits")
    if len(text) > _MAX_SPECIFIERS_LENGTH:
        raise InvalidSpecifier(f"it has more than {_MAX_SPECIFIERS_LENGTH} characters")
    return SpecifierSet(text)


def admits_python(specifiers: SpecifierSet, python: Version) -> bool:
    """Return whether ``requires-python`` admits a Python; a pre-release counts as its release.

    So ``>=3.15`` admits 3.15.0rc1, as in pip and uv.
    """
    return specifiers.contains(python.base_version, prereleases=True)


def without_build(version: Version) -> Version:
    """Return a version without its local part, such as ``+cu132``.

    >>> str(without_build(Version("2.15.0+cu132")))
    '2.15.0'
    """
    return version if version.local is None else Version(version.public)
