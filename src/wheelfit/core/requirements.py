"""Requirements: dependency specifiers whose markers may have variables of the chosen wheel.

`wheelfit.core.markers` reads the marker. packaging reads the rest, and decides whether a
requirement is valid.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.marker_grammar import parse_expression
from wheelfit.core.markers import Marker, VariantContext, parse_marker
from wheelfit.core.versions import has_too_many_digits
from wheelfit.errors import InvalidMarker, InvalidRequirement
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from packaging.requirements import InvalidRequirement as PackagingInvalidRequirement


class Requirement(Struct, frozen=True):
    """A requirement on one project; ``str()`` writes it in normal form."""

    name: NormalizedName
    extras: frozenset[NormalizedName] = frozenset()
    specifier: SpecifierSet = SpecifierSet()
    """The allowed versions; empty: any, or those of the URL."""
    url: str | None = None
    """The URL of a direct reference, as written; may contain credentials."""
    marker: Marker | None = None
    """The condition under which it applies; None: always."""

    def __str__(self) -> str:
        extras = f"[{','.join(sorted(self.extras))}]" if self.extras else ""
        if self.url is not None:
            marker = f" ; {self.marker}" if self.marker else ""
            return f"{self.name}{extras} @ {self.url}{marker}"
        marker = f"; {self.marker}" if self.marker else ""
        return f"{self.name}{extras}{self.specifier}{marker}"

    def applies(
        self,
        environment: Mapping[str, str | AbstractSet[str]],
        extras: AbstractSet[str] | str = "",
        variant: VariantContext = VariantContext.PLAIN,
    ) -> bool:
        """Return whether the requirement applies; the parameters are those of `Marker.evaluate`.

        :raises InvalidMarker: the marker cannot be evaluated.
        """
        return self.marker is None or self.marker.evaluate(environment, extras, variant)


def parse_requirement(
    text: str, *, allow_variant_markers: bool, where: str | None = None
) -> Requirement:
    """Read one requirement.

    :param text: as ``torch[extra] >=2.8 ; python_version < "3.13"``.
    :param allow_variant_markers: True only for the metadata of a wheel: elsewhere no wheel has
        been chosen whose variant a marker could test (F-109).
    :raises InvalidRequirement: the text is not a requirement, or has a variant marker that is not
        allowed.
    """
    try:
        requirement = _parse(text)
        if not allow_variant_markers and requirement.marker is not None:
            _refuse_variant_markers(requirement.marker, text)
    except InvalidRequirement as error:
        error.where = where
        raise
    return requirement


def marker_start(text: str) -> int | None:
    """Return the index of the semicolon before the marker; None if there is no marker.

    A semicolon may be part of a URL. So after a URL, the marker's semicolon follows a blank.
    """
    url = _UP_TO_URL.match(text)
    if url is None:
        return index if (index := text.find(";")) >= 0 else None
    rest = _BLANKS_AND_SEMICOLON.match(text, url.end())
    return rest.end() - 1 if rest else None


_LONGEST_NAME = 255  # a longer name cannot be a file
# The publisher of a wheel controls the text: possessive quantifiers prevent backtracking.
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_EXTRAS = rf"\[[ \t]*+({_NAME}(?:[ \t]*+,[ \t]*+{_NAME})*+)[ \t]*+\]"
_CLAUSE = r"(?:==|!=|<=|>=|<|>|~=)[ \t]*+[A-Za-z0-9.*+!_-]++"
_CLAUSES = rf"{_CLAUSE}(?:[ \t]*+,[ \t]*+{_CLAUSE})*+"
# Nearly every requirement has this form; packaging reads all others, and reports all errors.
_COMMON_FORM = pattern(
    rf"[ \t]*+({_NAME})[ \t]*+(?:{_EXTRAS})?+[ \t]*+"
    rf"(?:({_CLAUSES})|\([ \t]*+({_CLAUSES})[ \t]*+\))?+[ \t]*+"
)
_UP_TO_URL = pattern(
    r"[ \t]*+[A-Za-z0-9][A-Za-z0-9._-]*+[ \t]*+(?:\[[^\]]*+\])?+[ \t]*+@[ \t]*+[^ \t]++"
)
_BLANKS_AND_SEMICOLON = pattern(r"[ \t]++;")


@lru_cache(maxsize=8192)
def _parse(text: str) -> Requirement:
    semicolon = marker_start(text)
    head = text if semicolon is None else text[:semicolon]
    marker = None
    if semicolon is not None:
        try:
            marker = _marker(text, semicolon + 1)
        except InvalidMarker as error:
            _parse_head(head, text)  # the first error in the line is the one to report
            raise InvalidRequirement(
                error.message, source=text, position=error.position, hint=error.hint
            ) from None
    return _parse_head(head, text, marker)


def _marker(text: str, start: int) -> Marker:
    """Read the marker in a text; many requirements have the same one."""
    own = text[start:]
    # Positions of variant variables, and of errors, are those in the whole text.
    if "variant_" not in own:
        with suppress(InvalidMarker):
            return parse_marker(own.strip(" \t"))
    return Marker(parse_expression(text, start))


def _parse_head(head: str, text: str, marker: Marker | None = None) -> Requirement:
    """Read a requirement up to its marker; the whole text is for errors."""
    if has_too_many_digits(head.partition("@")[0]):
        raise InvalidRequirement("a number in it has too many digits", source=text)
    requirement = _read_head(head, text, marker)
    if len(requirement.name) > _LONGEST_NAME:
        raise InvalidRequirement("the name is too long", source=text)
    return requirement


def _read_head(head: str, text: str, marker: Marker | None) -> Requirement:
    if (match := _COMMON_FORM.fullmatch(head)) is not None:
        name, extras, clauses, enclosed = match.groups()
        try:
            specifier = _specifiers(clauses or enclosed or "")
        except InvalidSpecifier:
            pass  # packaging reports the fault below
        else:
            requested = (extra.strip() for extra in (extras or "").split(",") if extra.strip())
            names = frozenset(map(canonicalize_name, requested))
            return Requirement(canonicalize_name(name), names, specifier, None, marker)
    from packaging import requirements  # 7 ms, rarely needed

    try:
        parsed = requirements.Requirement(head)
    except requirements.InvalidRequirement as error:
        raise _from_packaging(error, text) from None
    if not parsed.name[-1].isalnum():  # which packaging accepts
        end = text.index(parsed.name) + len(parsed.name) - 1
        message = "a name ends with a letter or a digit"
        raise InvalidRequirement(message, source=text, position=end)
    return Requirement(
        canonicalize_name(parsed.name),
        frozenset(map(canonicalize_name, parsed.extras)),
        parsed.specifier,
        parsed.url,
        marker,
    )


_specifiers = lru_cache(maxsize=4096)(SpecifierSet)

_SIGNS = {
    "LEFT_BRACKET": "'['",
    "RIGHT_BRACKET": "']'",
    "LEFT_PARENTHESIS": "'('",
    "RIGHT_PARENTHESIS": "')'",
}


def _from_packaging(error: PackagingInvalidRequirement, text: str) -> InvalidRequirement:
    """Return an error of packaging as ours; its cause has the parts of a syntax error."""
    cause = error.__cause__
    position = min(getattr(cause, "span", (0, 0))[1], len(text))
    message: str = getattr(cause, "message", "") or str(error)
    for token, sign in _SIGNS.items():
        message = message.replace(token, sign)
    hint = None
    if re.match(r"[ \t]*=(?!=)", text[position:]):
        hint = "write == to require one version"
    elif not text.strip():
        message = "a requirement is empty"
    return InvalidRequirement(
        f"{message[:1].lower()}{message[1:]}", source=text, position=position, hint=hint
    )


def _refuse_variant_markers(marker: Marker, text: str) -> None:
    variable = marker.first_variant_variable
    if variable is not None:  # F-109
        raise InvalidRequirement(
            f"{variable.name} cannot be used here: no wheel has been chosen yet",
            source=text,
            position=variable.position,
            hint="variant markers belong in the dependencies of a wheel (F-109)",
        )
