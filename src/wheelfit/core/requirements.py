"""Requirements: dependency specifiers whose markers may look at the chosen wheel.

The marker is read by `wheelfit.core.markers`, the rest by packaging, which is also the
judge of what is a valid requirement.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from wheelfit.core.marker_grammar import parse_expression
from wheelfit.core.markers import Marker, VariantContext, parse_marker
from wheelfit.core.versions import is_endless
from wheelfit.errors import InvalidMarker, InvalidRequirement
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from packaging.requirements import InvalidRequirement as PackagingInvalidRequirement
    from packaging.utils import NormalizedName


class Requirement(Struct, frozen=True):
    """A requirement on one project; ``str()`` writes it in normal form."""

    name: NormalizedName
    extras: frozenset[NormalizedName] = frozenset()
    specifier: SpecifierSet = SpecifierSet()
    """Versions that fit; empty when any fits or a URL is given."""
    url: str | None = None
    """Where exactly to take it from, as written; may hold credentials."""
    marker: Marker | None = None
    """When it applies; none: always."""

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
        """Return whether the requirement counts; the parameters are those of a marker.

        :raises InvalidMarker: the marker cannot be evaluated.
        """
        return self.marker is None or self.marker.evaluate(environment, extras, variant)


def parse_requirement(
    text: str, *, allow_variant_markers: bool, where: str | None = None
) -> Requirement:
    """Read one requirement.

    :param text: as ``torch[extra] >=2.8 ; python_version < "3.13"``.
    :param allow_variant_markers: true only for the metadata of a wheel; anywhere else
        there is no wheel to scope them to (F-109).
    :raises InvalidRequirement: the text is not a requirement, or has a variant marker
        where none may be.
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
    """Return the index of the semicolon before the marker; none when there is no marker.

    A semicolon may be part of a URL; the one before a marker follows a blank then.
    """
    url = _UP_TO_URL.match(text)
    if url is None:
        return index if (index := text.find(";")) >= 0 else None
    rest = _BLANKS_AND_SEMICOLON.match(text, url.end())
    return rest.end() - 1 if rest else None


# Possessive quantifiers: a text that does not match is given up at once and not tried in every
# possible way. The publisher of a wheel controls the text.
_LONGEST_NAME = 255  # a longer name cannot be a file
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_EXTRAS = rf"\[[ \t]*+({_NAME}(?:[ \t]*+,[ \t]*+{_NAME})*+)[ \t]*+\]"
_CLAUSE = r"(?:==|!=|<=|>=|<|>|~=)[ \t]*+[A-Za-z0-9.*+!_-]++"
_CLAUSES = rf"{_CLAUSE}(?:[ \t]*+,[ \t]*+{_CLAUSE})*+"
# Nearly every requirement looks like this; anything else, and any error, is packaging's.
_USUAL = pattern(
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
    if "variant_" not in own:  # of such a variable it counts where it stands
        with suppress(InvalidMarker):  # the error, too, must name the place
            return parse_marker(own.strip(" \t"))
    return Marker(parse_expression(text, start))


def _parse_head(head: str, text: str, marker: Marker | None = None) -> Requirement:
    """Read a requirement up to its marker; the whole text is for errors."""
    if is_endless(head.partition("@")[0]):
        raise InvalidRequirement("a number in it has too many digits", source=text)
    requirement = _read_head(head, text, marker)
    if len(requirement.name) > _LONGEST_NAME:
        raise InvalidRequirement("the name is too long", source=text)
    return requirement


def _read_head(head: str, text: str, marker: Marker | None) -> Requirement:
    if (usual := _USUAL.fullmatch(head)) is not None:
        name, extras, clauses, enclosed = usual.groups()
        try:
            specifier = _specifiers(clauses or enclosed or "")
        except InvalidSpecifier:
            pass  # packaging reports the fault below
        else:
            asked = (extra.strip() for extra in (extras or "").split(",") if extra.strip())
            return Requirement(
                canonicalize_name(name), frozenset(map(canonicalize_name, asked)), specifier,
                None, marker,
            )  # fmt: skip
    from packaging import requirements  # 7 ms, rarely needed

    try:
        parsed = requirements.Requirement(head)
    except requirements.InvalidRequirement as error:
        raise _explained(error, text) from None
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


def _explained(error: PackagingInvalidRequirement, text: str) -> InvalidRequirement:
    """Turn packaging's error into ours; its cause holds the parts of a syntax error."""
    cause = error.__cause__
    position = min(getattr(cause, "span", (0, 0))[1], len(text))
    message: str = getattr(cause, "message", "") or str(error)
    for token, sign in _SIGNS.items():
        message = message.replace(token, sign)
    hint = None
    if re.match(r"[ \t]*=(?!=)", text[position:]):
        hint = "a version is fixed with =="
    elif not text.strip():
        message = "a requirement is empty"
    return InvalidRequirement(
        f"{message[:1].lower()}{message[1:]}", source=text, position=position, hint=hint
    )


def _refuse_variant_markers(marker: Marker, text: str) -> None:
    variable = marker.first_variant_variable
    if variable is not None:  # F-109
        raise InvalidRequirement(
            f"{variable.name} cannot be used here: there is no wheel it could look at",
            source=text,
            position=variable.position,
            hint="variant markers belong in the dependencies of a wheel (F-109)",
        )
