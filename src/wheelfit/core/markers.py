"""Environment markers, with the four variant variables.

Standard variables have the meaning of the specification. The variant variables (F-100) are
evaluated after a wheel was selected, in the context of that wheel (F-101), and do not affect which
wheel is selected.

>>> marker = parse_marker('extra == "gpu" and "nvidia" in variant_namespaces')
>>> marker.resolve_variants(VariantContext.PLAIN)
False
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct
from msgspec.structs import replace
from packaging.specifiers import InvalidSpecifier, Specifier
from packaging.utils import canonicalize_name

from wheelfit.core.marker_grammar import (
    SET_VARIABLES,
    VARIANT_LABEL,
    VARIANT_SETS,
    VARIANT_VARIABLES,
    Comparison,
    Conjunction,
    Literal,
    Variable,
    format_expression,
    operands,
    parse_expression,
    without_outer_parentheses,
)
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.core.versions import has_too_many_digits
from wheelfit.errors import InvalidMarker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from wheelfit.core.marker_grammar import Expression

# Compared as versions when the right side allows it (dependency specifiers, "Environment
# Markers"); ``platform_release`` often is not a version and then compares as text.
_VERSION_VARIABLES = frozenset(
    ["implementation_version", "platform_release", "python_full_version", "python_version"]
)


class VariantContext(Struct, frozen=True):
    """The label and properties of the wheel whose dependencies are read, for markers (F-101)."""

    label: str
    """The label in the file name; empty for a plain wheel (F-102, F-104)."""
    properties: PropertySet
    """The properties of the label, filtered to those the target supports (F-103)."""

    PLAIN: ClassVar[VariantContext]
    """A plain wheel: empty label, no properties (F-104)."""
    NULL: ClassVar[VariantContext]
    """The null variant: label ``null``, no properties (F-104)."""

    def contains(self, variable: str, text: str) -> bool:
        """Return whether a set variable contains an element (F-103, F-106).

        :param text: as in a marker; blanks around ``::`` are ignored. A text with another number of
            parts than the elements is in no set.
        """
        match _parts(text):
            case [namespace] if variable == "variant_namespaces":
                return self.properties.uses(namespace)
            case [namespace, name] if variable == "variant_features":
                return bool(self.properties.values(namespace, name))
            case [namespace, name, value] if variable == "variant_properties":
                return self.properties.has(namespace, name, value)
            case _:
                return False

    def has_choice(self, variable: str, text: str) -> bool:
        """Return whether an element is one of several values of its feature (B-41)."""
        parts = _parts(text)
        return variable == "variant_properties" and len(self.properties.values(*parts[:2])) > 1


VariantContext.PLAIN = VariantContext("", EMPTY)
VariantContext.NULL = VariantContext("null", EMPTY)


class Marker(Struct, frozen=True):
    """A parsed marker; parsing its ``str()`` returns an equal one."""

    expression: Expression

    def __str__(self) -> str:
        return format_expression(self.expression)

    @property
    def uses_variants(self) -> bool:
        """Whether any variable of F-100 occurs."""
        return self.first_variant_variable is not None

    @property
    def first_variant_variable(self) -> Variable | None:
        """The first variable of F-100 in the text; None if there is none."""
        for side in operands(self.expression):
            if isinstance(side, Variable) and side.name in VARIANT_VARIABLES:
                return side
        return None

    @property
    def variables(self) -> frozenset[str]:
        """The names of all variables that occur."""
        sides = operands(self.expression)
        return frozenset(side.name for side in sides if isinstance(side, Variable))

    @property
    def _uses_extra(self) -> bool:
        return any(
            side == Literal("extra") or (isinstance(side, Variable) and side.name == "extra")
            for side in operands(self.expression)
        )

    def evaluate(
        self,
        environment: Mapping[str, str | AbstractSet[str]],
        extras: AbstractSet[str] | str = "",
        variant: VariantContext = VariantContext.PLAIN,
    ) -> bool:
        """Return whether the marker is true.

        :param environment: values of the standard variables; ``extras`` and
            ``dependency_groups`` are sets, and only for lock files.
        :param extras: the requested extra, or all requested ones; the marker is true if it is true
            for any of them. Empty if none is requested.
        :param variant: the wheel whose dependencies are read (F-101).
        :raises InvalidMarker: a variable has no value, or values cannot be compared.
        """
        if isinstance(extras, str):
            requested: AbstractSet[str] = {extras}
        else:
            requested = extras or {""}
        if len(requested) > 1 and not self._uses_extra:
            requested = {""}  # every extra has the same result

        def is_true_with(extra: str) -> bool:
            return _evaluate(
                self.expression, lambda item: _holds(item, environment, extra, variant)
            )

        try:
            return any(is_true_with(canonicalize_name(extra)) for extra in requested)
        except _CannotCompare as error:
            raise InvalidMarker(str(error), source=str(self)) from None

    def resolve_variants(self, context: VariantContext, *, filtered: bool = True) -> Marker | bool:
        """Return a marker that is equivalent in a context, without variant variables (B-40, B-41).

        :param filtered: whether the properties of the context are filtered to those of a target
            (F-103). False: they are all declared ones, and a comparison with one of several values
            of a feature is kept (B-41).
        :return: the remaining marker, or True or False if it has that value in any environment.
        """
        if not self.uses_variants:
            return self
        result = _reduce(self.expression, lambda item: _decide(item, context, filtered=filtered))
        if isinstance(result, bool):
            return result
        return Marker(without_outer_parentheses(result))


@lru_cache(maxsize=4096)
def parse_marker(text: str) -> Marker:
    """Parse an environment marker.

    :raises InvalidMarker: the text breaks the grammar, or uses a variant variable with an operator
        that is not allowed for it (F-105).
    """
    return Marker(parse_expression(text))


def _parts(text: str) -> list[str]:
    return [part.strip(" \t") for part in text.split("::")]


class _CannotCompare(Exception):
    """Raised for a comparison without meaning; becomes an `InvalidMarker`."""


def _evaluate(expression: Expression, holds: Callable[[Comparison], bool]) -> bool:
    if isinstance(expression, Comparison):
        return holds(expression)
    results = [_evaluate(part, holds) for part in expression.parts]
    return all(results) if isinstance(expression, Conjunction) else any(results)


def _holds(
    comparison: Comparison,
    environment: Mapping[str, str | AbstractSet[str]],
    extra: str,
    variant: VariantContext,
) -> bool:
    decided = _decide(comparison, variant, filtered=True)
    if decided is not None:
        return decided
    name = comparison.variable()
    left: str | AbstractSet[str]
    right: str | AbstractSet[str]
    if isinstance(comparison.left, Variable):
        left = _value(name, environment, extra)
        # packaging treats the name of a variable on the right as text, and so must this to install
        # the same as other tools.
        other = comparison.right
        right = other.value if isinstance(other, Literal) else other.name
    else:
        if isinstance(comparison.right, Literal):
            # packaging treats the second of two strings as the name of a variable.
            name = comparison.right.value
            if name != "extra" and name not in environment:
                raise _CannotCompare("a marker cannot compare two strings")
        left, right = comparison.left.value, _value(name, environment, extra)
    if not isinstance(left, str):
        raise _CannotCompare(f'{name} is a set; write "..." in {name}')
    if name in SET_VARIABLES:
        left = canonicalize_name(left)
        right = right if isinstance(right, str) else {canonicalize_name(item) for item in right}
    return _compare(left, comparison.operator, right, as_version=name in _VERSION_VARIABLES)


def _value(
    name: str, environment: Mapping[str, str | AbstractSet[str]], extra: str
) -> str | AbstractSet[str]:
    if name == "extra":
        return extra
    value = environment.get(name)
    if value is None:
        raise _CannotCompare(f"the variable {name} has no value here")
    if name == "python_full_version" and isinstance(value, str) and value.endswith("+"):
        return f"{value}local"  # builds from a checkout have "3.14.0+", which is not a version
    return value


def _compare(left: str, operator: str, right: str | AbstractSet[str], *, as_version: bool) -> bool:
    if as_version and isinstance(right, str):
        specifier = _specifier(f"{operator}{right}")
        if specifier is not None:
            return specifier.contains(left, prereleases=True)
    match operator:
        case "in":
            return left in right
        case "not in":
            return left not in right
        case "==" | "<=" | ">=":
            return left == right  # text has no order, so "<=" means equal
        case "!=":
            return left != right
        case "<" | ">":
            return False
        case _:
            raise _CannotCompare(f"{operator} cannot compare {left!r} with {right!r}")


@lru_cache(maxsize=1024)
def _specifier(text: str) -> Specifier | None:
    if has_too_many_digits(text):
        return None
    try:
        return Specifier(text)
    except InvalidSpecifier:
        return None


def _decide(comparison: Comparison, context: VariantContext, *, filtered: bool) -> bool | None:
    """Return the value of a comparison in the context; None if it cannot be decided yet."""
    name = comparison.variable()
    left, operator, right = comparison.left, comparison.operator, comparison.right
    if name in VARIANT_SETS:
        if not isinstance(left, Literal):  # pragma: no cover - F-105 was checked on reading
            raise _CannotCompare(f'{name} is a set; write "..." in {name}')
        contained = context.contains(name, left.value)
        # B-41: a target may lack this value, but never the only value of a feature (F-103).
        if contained and not filtered and context.has_choice(name, left.value):
            return None
        return contained if operator == "in" else not contained
    if name != VARIANT_LABEL:
        return None
    # F-105: always as text, "1.0" is not "1".
    return _compare(
        left.value if isinstance(left, Literal) else context.label,
        operator,
        right.value if isinstance(right, Literal) else context.label,
        as_version=False,
    )


def _reduce(
    expression: Expression, decide: Callable[[Comparison], bool | None]
) -> Expression | bool:
    """Return an expression with decided comparisons replaced by their values, and simplified."""
    if isinstance(expression, Comparison):
        decided = decide(expression)
        return expression if decided is None else decided
    # A conjunction is false by one false part, a disjunction true by one true part.
    neutral = isinstance(expression, Conjunction)
    kept: list[Expression] = []
    for part in expression.parts:
        reduced = _reduce(part, decide)
        if isinstance(reduced, bool):
            if reduced is not neutral:
                return reduced
        elif reduced is not part and type(reduced) is type(expression):
            kept.extend(reduced.parts)  # "a and (b and c)" after something was dropped
        else:
            kept.append(reduced)
    if not kept:
        return neutral
    if len(kept) == 1:
        return kept[0]
    parts = tuple(kept)
    return expression if parts == expression.parts else replace(expression, parts=parts)
