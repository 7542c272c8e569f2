"""The grammar of environment markers: parsing of text to an expression, and formatting.

The grammar is that of dependency specifiers, plus the four variables of PEP 825 (F-100).
`wheelfit.core.markers` evaluates expressions.

An expression preserves parentheses: a conjunction or disjunction in parentheses is ``grouped``, so
that formatting returns the parentheses of the text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from wheelfit.core.strict_json import shortened
from wheelfit.errors import InvalidMarker
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIANT_LABEL: Final = "variant_label"
"""The label of the wheel whose dependencies are read; a string (F-102)."""
VARIANT_SETS: Final = {"variant_namespaces": 1, "variant_features": 2, "variant_properties": 3}
"""The set-valued variables of F-100, with the number of parts of one element."""
VARIANT_VARIABLES: Final = frozenset([VARIANT_LABEL, *VARIANT_SETS])
"""The four variables of F-100."""
SET_VARIABLES: Final = frozenset(["extras", "dependency_groups"])
"""The set-valued variables of lock files (PEP 751)."""
VARIABLES: Final = (
    frozenset(
        [
            "extra",
            "implementation_name",
            "implementation_version",
            "os_name",
            "platform_machine",
            "platform_python_implementation",
            "platform_release",
            "platform_system",
            "platform_version",
            "python_full_version",
            "python_version",
            "sys_platform",
        ]
    )
    | SET_VARIABLES
    | VARIANT_VARIABLES
)
"""All variables of markers."""
# PEP 345 had dots in names, and one name was changed later; old metadata may have both.
_ALIASES: Final = {
    "os.name": "os_name",
    "platform.machine": "platform_machine",
    "platform.python_implementation": "platform_python_implementation",
    "platform.version": "platform_version",
    "python_implementation": "platform_python_implementation",
    "sys.platform": "sys_platform",
}

_BLANKS = pattern(r"[ \t]*")
_WORD = pattern(r"\w[\w.]*")
_QUOTED = pattern(r"""'[^']*'|"[^"]*\"""")
_OPERATOR = pattern(r"===|==|~=|!=|<=|>=|<|>|in\b|not[ \t]+in\b")
_AND = pattern(r"and\b")
_OR = pattern(r"or\b")
# Characters that a quoted string can have only as escapes; a lone surrogate cannot be encoded.
_ESCAPED = r"[\\\n\r\0\ud800-\udfff]"
_MAX_DEPTH = 100
"""Nested parentheses; many more would exhaust Python's stack."""


class Variable(Struct, frozen=True):
    """A marker variable; equal at any position."""

    name: str
    """The current name, also for aliases."""
    position: int = 0
    """The position in the text, for errors."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Variable) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class Literal(Struct, frozen=True):
    """A quoted string."""

    value: str
    """The text within the quotes, with escapes resolved."""


Operand: TypeAlias = Variable | Literal


class Comparison(Struct, frozen=True):
    """One comparison, such as ``python_version >= "3.11"``."""

    left: Operand
    operator: str
    """``==``, ``~=``, ``in`` …; ``not in`` has one blank."""
    right: Operand

    def variable(self) -> str:
        """Return the name of the variable, of two the left one; empty for two literals.

        It determines how the values are compared.
        """
        if isinstance(self.left, Variable):
            return self.left.name
        return self.right.name if isinstance(self.right, Variable) else ""


class Conjunction(Struct, frozen=True):
    """Expressions joined by ``and``."""

    parts: tuple[Expression, ...]
    """At least two."""
    grouped: bool = False
    """Whether it stands in parentheses."""


class Disjunction(Struct, frozen=True):
    """Expressions joined by ``or``."""

    parts: tuple[Expression, ...]
    """At least two."""
    grouped: bool = False
    """Whether it stands in parentheses."""


Expression: TypeAlias = Comparison | Conjunction | Disjunction


def parse_expression(source: str, start: int = 0) -> Expression:
    """Parse a marker that is the end of a text.

    :param source: the text; the part before ``start`` is used for errors only.
    :raises InvalidMarker: the text breaks the grammar, or F-105.
    """
    return _Parser(source, start).marker()


def format_expression(expression: Expression) -> str:
    """Return the text of an expression; parsing it returns an equal one."""
    if isinstance(expression, Comparison):
        left, right = _format_operand(expression.left), _format_operand(expression.right)
        return f"{left} {expression.operator} {right}"
    word = " and " if isinstance(expression, Conjunction) else " or "
    text = word.join(format_expression(part) for part in expression.parts)
    return f"({text})" if expression.grouped else text


def without_outer_parentheses(expression: Expression) -> Expression:
    """Return the expression without parentheses around all of it."""
    if isinstance(expression, Comparison) or not expression.grouped:
        return expression
    return replace(expression, grouped=False)


def comparisons(expression: Expression) -> Iterator[Comparison]:
    """Yield every comparison, from left to right."""
    if isinstance(expression, Comparison):
        yield expression
    else:
        for part in expression.parts:
            yield from comparisons(part)


def operands(expression: Expression) -> Iterator[Operand]:
    """Yield both sides of every comparison, from left to right."""
    for comparison in comparisons(expression):
        yield comparison.left
        yield comparison.right


def _format_operand(operand: Operand) -> str:
    if isinstance(operand, Variable):
        return operand.name
    value = operand.value
    if not re.search(_ESCAPED, value):
        if '"' not in value:
            return f'"{value}"'
        if "'" not in value:
            return f"'{value}'"
    # The quote cannot be escaped as in Python: the grammar ends a string at the first one.
    value = re.sub(_ESCAPED, _escape, value).replace('"', "\\x22")
    return f'"{value}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    # Not \0 for NUL: with a digit behind it, that is another character.
    return {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\0": "\\x00"}.get(
        character, f"\\u{ord(character):04x}"
    )


class _Parser:
    """A recursive-descent parser of one marker; ``position`` is that of the next character."""

    __slots__ = ("depth", "position", "source")

    def __init__(self, source: str, start: int) -> None:
        self.source = source
        self.position = start
        self.depth = 0

    def marker(self) -> Expression:
        """``marker = disjunction END``."""
        expression = self.disjunction()
        if self.position != len(self.source):
            raise self.error("expected 'and', 'or' or the end of the marker")
        return without_outer_parentheses(expression)

    def disjunction(self) -> Expression:
        """``disjunction = conjunction ("or" conjunction)*``."""
        parts = [self.conjunction()]
        while self.take(_OR):
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else Disjunction(tuple(parts))

    def conjunction(self) -> Expression:
        """``conjunction = atom ("and" atom)*``."""
        parts = [self.atom()]
        while self.take(_AND):
            parts.append(self.atom())
        return parts[0] if len(parts) == 1 else Conjunction(tuple(parts))

    def atom(self) -> Expression:
        """``atom = "(" disjunction ")" | comparison``; blanks around it are skipped."""
        self.blanks()
        opened = self.position
        if self.source.startswith("(", opened):
            self.position += 1
            self.depth += 1
            if self.depth > _MAX_DEPTH:
                raise self.error(f"more than {_MAX_DEPTH} nested parentheses", opened)
            expression = self.disjunction()
            self.depth -= 1
            if not self.source.startswith(")", self.position):
                raise self.error("this parenthesis is not closed", opened)
            self.position += 1
            if not isinstance(expression, Comparison):
                expression = replace(expression, grouped=True)
        else:
            expression = self.comparison()
        self.blanks()
        return expression

    def comparison(self) -> Comparison:
        """``comparison = operand operator operand``."""
        left = self.operand()
        self.blanks()
        operator_position = self.position
        operator = self.take(_OPERATOR)
        if not operator:
            raise self.error("expected an operator: <=, <, !=, ==, >=, >, ~=, ===, in, not in")
        self.blanks()
        right = self.operand()
        comparison = Comparison(left, " ".join(operator.split()), right)
        self.check_variant_operator(comparison, operator_position)
        return _with_normal_names(comparison)

    def operand(self) -> Operand:
        """``operand = VARIABLE | QUOTED``."""
        position = self.position
        if quoted := self.take(_QUOTED):
            return Literal(self.unquoted(quoted, position))
        word = self.take(_WORD)
        name = _ALIASES.get(word, word)
        if name in VARIABLES:
            return Variable(name, position)
        if not word:
            if self.source.startswith(('"', "'"), position):
                raise self.error("this quote is not closed", position)
            raise self.error("expected a marker variable or a quoted string", position)
        from difflib import get_close_matches

        near = get_close_matches(word, VARIABLES, n=1)
        hint = f"did you mean {near[0]}?" if near else "put a plain string in quotes"
        raise self.error(f"{shortened(word)!r} is not a marker variable", position, hint=hint)

    def check_variant_operator(self, comparison: Comparison, position: int) -> None:
        """Raise an error for an operator that variant variables do not allow (F-105)."""
        left, operator, right = comparison.left, comparison.operator, comparison.right
        names = {side.name for side in (left, right) if isinstance(side, Variable)}
        if used_set := next((name for name in VARIANT_SETS if name in names), None):
            if not (isinstance(left, Literal) and operator in {"in", "not in"}):
                raise self.error(
                    f"{used_set} is a set, of which only the content can be tested",
                    position,
                    hint=f'write "..." in {used_set}, or "..." not in {used_set} (F-105)',
                )
        elif VARIANT_LABEL in names:
            if operator not in {"==", "!=", "in", "not in"}:
                raise self.error(
                    f"{VARIANT_LABEL} is text, not a version: {operator} cannot be used",
                    position,
                    hint="use ==, !=, in or not in (F-105)",
                )
            if isinstance(left, Variable) and isinstance(right, Variable):
                raise self.error(
                    f"{VARIANT_LABEL} can only be compared with a quoted string", position
                )

    def unquoted(self, quoted: str, position: int) -> str:
        """Return the value of a quoted string; escapes are those of Python."""
        inner = quoted[1:-1]
        if not re.search(_ESCAPED, inner):
            return inner
        # Each escape is replaced by an equal one for which Python does not warn.
        text = re.sub(r"\\([4-7][0-7]{2}|.)", _without_warning, quoted, flags=re.DOTALL)
        try:
            from ast import literal_eval

            return str(literal_eval(text))
        except (SyntaxError, ValueError):
            raise self.error("this is not a valid quoted string", position) from None

    def blanks(self) -> None:
        """Skip blanks and tabs, the only separators."""
        match = _BLANKS.match(self.source, self.position)
        self.position = match.end() if match else self.position

    def take(self, pattern: re.Pattern[str]) -> str:
        """Move past a pattern and return its text; empty if the text does not match."""
        match = pattern.match(self.source, self.position)
        if match is None:
            return ""
        self.position = match.end()
        return match[0]

    def error(
        self, message: str, position: int | None = None, *, hint: str | None = None
    ) -> InvalidMarker:
        """Return an error that points at a position, by default the current one."""
        if position is None:
            position = self.position
        return InvalidMarker(message, source=self.source, position=position, hint=hint)


def _without_warning(match: re.Match[str]) -> str:
    """Return an escape with the same meaning, for which Python does not warn."""
    if len(match[1]) > 1:  # an octal number beyond one byte
        return f"\\u{int(match[1], 8):04x}"
    # An unknown escape means itself; with a second backslash, Python does not warn.
    return match[0] if match[1] in "\n\r\\'\"abfnrtvxuUN01234567" else f"\\{match[0]}"


def _with_normal_names(comparison: Comparison) -> Comparison:
    """Normalise names of extras and groups, which compare in normal form (PEP 685)."""
    left, right = comparison.left, comparison.right
    if isinstance(right, Literal) and left == Variable("extra"):
        return replace(comparison, right=Literal(canonicalize_name(right.value)))
    if (
        isinstance(left, Literal)
        and isinstance(right, Variable)
        and (right.name == "extra" or right.name in SET_VARIABLES)
    ):
        return replace(comparison, left=Literal(canonicalize_name(left.value)))
    return comparison
