"""The subset of versions, requirements and markers that the metadata of libraries uses.

Versions are numbers with dots. A post-release counts as its release; a version with other letters
(a pre-release) is never chosen. A specifier or marker outside of the subset is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.errors import InvalidPage
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

Version = tuple[int, ...]

_VERSION = pattern(r"v?([0-9]{1,20}(?:\.[0-9]{1,20})*)(?:\.?post[0-9]{1,20})?")
_CLAUSE = pattern(r"\s*(===|==|!=|~=|<=|>=|<|>)\s*([0-9][0-9.]*?)(\.\*)?\s*")
_REQUIREMENT = pattern(
    r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?\s*\(?([^;()]*)\)?\s*(?:;(.*))?", 16
)  # 16: re.DOTALL
_OPERATORS = {
    "Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=",
    "Is": "~=", "IsNot": "===",
}  # fmt: skip
"""By the class of `ast`; those that Python does not have take the place of others."""
_LEXEME = pattern(r"""('[^']*'|"[^"]*")|(===|~=)""")
_MAX_MARKER_LENGTH = 1000
"""Bounds the recursion into nested parts."""
_SEPARATORS = pattern(r"[-_.]+")


def parse_version(text: str) -> Version | None:
    """Return a version as numbers without trailing zeros; None if pre-release or invalid."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        return None
    numbers = [int(part) for part in match[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


@dataclass(frozen=True, slots=True)
class Span:
    """A range of versions: from ``low``, up to but not including ``high``."""

    low: Version
    high: Version

    def __str__(self) -> str:
        return f">={version_text(self.low)},<{version_text(self.high)}"

    def contains(self, version: Version) -> bool:
        """Return whether a version is in the range."""
        return satisfies(version, str(self))  # 13.0 and 13 are one version


def version_text(version: Version) -> str:
    """Return a version with dots."""
    return ".".join(map(str, version))


class Requirement(NamedTuple):
    """A requirement in metadata."""

    project: str
    """The normalised name."""
    extras: tuple[str, ...] = ()
    specifier: str = ""
    marker: str = ""

    def __str__(self) -> str:
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return f"{self.project}{extras}{self.specifier}"

    def applies(self, markers: Mapping[str, str]) -> bool:
        """Return whether its marker is true.

        :param markers: values by variable, ``extra`` included.
        """
        return not self.marker.strip() or _evaluate_marker(self.marker, markers)


def normalized(name: str) -> str:
    """Return the normalised name of a project."""
    return str(_SEPARATORS.sub("-", name)).lower()


def parse_requirement(text: str) -> Requirement:
    """Parse a ``Requires-Dist`` entry."""
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        raise InvalidPage(f"the metadata of a library has an invalid requirement: {text[:100]!r}")
    extras = tuple(part.strip() for part in (match[2] or "").split(",") if part.strip())
    return Requirement(normalized(match[1]), extras, match[3].strip(), match[4] or "")


def satisfies(version: Version, specifier: str) -> bool:
    """Return whether a version satisfies all clauses of a specifier."""
    return all(
        _satisfies_clause(version, clause) for clause in specifier.split(",") if clause.strip()
    )


def _satisfies_clause(version: Version, clause: str) -> bool:
    """Return whether a version satisfies one clause, such as ``>=12.8``."""
    match = _CLAUSE.fullmatch(clause)
    bound = parse_version(match[2]) if match else None
    if match is None or bound is None:
        raise InvalidPage(f"the metadata of a library has an invalid version: {clause[:100]!r}")
    operator = match[1]
    if match[3] or operator == "~=":
        # `==1.0.*` compares as many numbers as the clause has; a version with fewer gets zeros.
        length = len(match[2].split(".")) - (operator == "~=")
        prefix = tuple(int(part) for part in match[2].split("."))[:length]
        padded = (*version, *(0,) * length)
        has_prefix = padded[:length] == prefix
        return not has_prefix if operator == "!=" else has_prefix and version >= bound
    return {
        "===": version == bound,
        "==": version == bound,
        "!=": version != bound,
        "<=": version <= bound,
        ">=": version >= bound,
        "<": version < bound,
        ">": version > bound,
    }[operator]


def _as_python(lexeme: re.Match[str]) -> str:
    """Return a string or an operator of a marker as one of Python."""
    if lexeme[1]:
        return repr(lexeme[1][1:-1])
    return {"~=": " is ", "===": " is not "}[lexeme[2]]


def _evaluate_marker(text: str, values: Mapping[str, str]) -> bool:
    """Return whether a marker is true; Python parses it, with its own operators replaced."""
    import ast

    error = InvalidPage(f"the metadata of a library has an unsupported marker: {text[:100]!r}")

    def is_true(node: ast.expr) -> bool:
        match node:
            case ast.BoolOp(operator, operands):
                parts = [is_true(operand) for operand in operands]  # each, as it may be invalid
                return all(parts) if isinstance(operator, ast.And) else any(parts)
            case ast.Compare(left, [operator], [right]):
                return compare(value_of(left), operator, value_of(right))
        raise error

    def value_of(node: ast.expr) -> str:
        match node:
            case ast.Constant(str(value)):
                return value
            case ast.Name(name) if name in values:
                return values[name]
        raise error

    def compare(left: str, operator: ast.cmpop, right: str) -> bool:
        if isinstance(operator, ast.In | ast.NotIn):
            return (left in right) is isinstance(operator, ast.In)
        symbol = _OPERATORS.get(type(operator).__name__)
        version = parse_version(left)
        if symbol and version is not None and parse_version(right) is not None:
            return _satisfies_clause(version, f"{symbol}{right}")
        if symbol in ("==", "!="):
            return (left == right) is (symbol == "==")
        raise error

    if len(text) > _MAX_MARKER_LENGTH:
        raise error
    try:
        expression = _LEXEME.sub(_as_python, text)
        return is_true(ast.parse(f"({expression})", mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise error from None
