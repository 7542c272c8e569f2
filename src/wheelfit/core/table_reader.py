"""The one reader of typed tables in TOML and JSON documents.

Every fault has the same wording, begins with the place in the document, and goes to a reporter: one
that collects all faults of a document (`FaultList`), or one that raises the first (`FirstFault`).
After a fault a method returns an empty value, so reading goes on.

`docs/explanation/dependencies.md` has the reason it is not `msgspec.convert`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, TypeVar

from wheelfit.core.strict_json import path_of, shortened, shown
from wheelfit_runtime.errors import Fault, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from wheelfit_runtime.error_codes import Code

Step: TypeAlias = str | int
"""A key, or the index in a list."""
_Value = TypeVar("_Value")
_MOST_SUGGESTIONS = 20
"""Unknown keys of one table that are compared with the known ones; comparing is slow."""
_LONGEST_KEY = 80
_LONGEST_PATH = 200


class FaultReporter(Protocol):
    """The receiver of faults."""

    def __call__(self, fault: Fault, hint: str | None = None) -> object:
        """Collect a fault, or raise it.

        :param fault: its message is a predicate, such as ``must be a string``.
        """


class FaultList(list[Fault]):
    """The faults of a document, in the order in which they were found.

    :param rule: the rule that faults break which name none.
    """

    def __init__(self, rule: str = "") -> None:
        super().__init__()
        self._rule = rule

    def __call__(self, fault: Fault, hint: str | None = None) -> None:
        """Add a fault, with the hint in its message."""
        message = f"{fault.message} ({hint})" if hint else fault.message
        self.append(Fault(fault.path, message, fault.rule or self._rule))


class FirstFault:
    """A reporter that raises the first fault.

    :param line_of: returns the line of a path of the document; None: lines are not known.
    :param hint: the hint of faults without their own.
    :param code: the code of the error; None for that of its class.
    """

    def __init__(
        self,
        kind: type[WheelfitError],
        where: str,
        line_of: Callable[[str], int | None] | None = None,
        *,
        hint: str | None = None,
        code: Code | None = None,
    ) -> None:
        self._kind = kind
        self._code = code
        self._where = where
        self._line_of = line_of
        self._hint = hint

    def __call__(self, fault: Fault, hint: str | None = None) -> NoReturn:
        """Raise a fault as an error whose message begins with the path."""
        line = None if self._line_of is None else self._line_of(fault.path)
        where = self._where if line is None else f"{self._where}, line {line}"
        message = f"{shortened(fault.path, _LONGEST_PATH)} {fault.message}".strip()
        raise self._kind(message, code=self._code, where=where, hint=hint or self._hint)


class Table:
    """One table of a document."""

    __slots__ = ("content", "report", "steps")

    def __init__(self, content: Mapping[str, Any], report: FaultReporter, *steps: Step) -> None:
        self.content = content
        self.report = report
        self.steps = steps

    def __contains__(self, key: str) -> bool:
        return key in self.content

    def path(self, *steps: Step) -> str:
        """Return the path of a place in this table, such as ``matrix.python[2]``."""
        return path_of(*self.steps, *steps)

    # --- faults ---------------------------------------------------------------

    def fault(self, message: str, *steps: Step, rule: str = "", hint: str | None = None) -> None:
        """Report a fault.

        :param message: a predicate without a full stop; its subject is the path.
        """
        self.report(Fault(self.path(*steps), message, rule), hint)

    def must_be(self, kind: str, value: object, *steps: Step) -> None:
        """Report a value of another kind."""
        self.fault(f"must be {kind}, not {described(value)}", *steps)

    def only(self, *known: str) -> None:
        """Report every key that is not known, with the nearest known key."""
        for key, near in self.unknown(known):
            hint = f'did you mean "{near}"?' if near else f"known keys: {', '.join(known)}"
            self.fault("is an unknown key", key, hint=hint)

    def unknown(
        self, known: Iterable[str], *, cutoff: float = 0.6
    ) -> Iterator[tuple[str, str | None]]:
        """Yield the keys that are not known, each with the nearest known key or None."""
        known = list(known)
        unknown = [key for key in self.content if key not in known]
        if not unknown:
            return
        from difflib import get_close_matches

        for index, key in enumerate(unknown):
            is_compared = index < _MOST_SUGGESTIONS and len(key) <= _LONGEST_KEY
            near = get_close_matches(key, known, n=1, cutoff=cutoff) if is_compared else []
            yield key, next(iter(near), None)

    # --- values ---------------------------------------------------------------

    def string(self, key: str) -> str | None:
        """Return a string; None when the key is missing."""
        if key not in self.content:
            return None
        value = self.content[key]
        if isinstance(value, str):
            return value
        self.must_be("a string", value, key)
        return None

    def required(self, key: str) -> str:
        """Return a string that must be there and not be empty."""
        value = self.string(key)
        if key not in self.content:
            self.fault("is missing", key)
        elif value == "":
            self.fault("must not be empty", key)
        return value or ""

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return a boolean."""
        value = self.content.get(key, default)
        if isinstance(value, bool):
            return value
        self.must_be("true or false", value, key)
        return default

    def integer(self, key: str) -> int:
        """Return a whole number of at least 0 that must be there."""
        value = self.content.get(key)
        if type(value) is int and value >= 0:
            return value
        if key in self.content:
            self.must_be("a whole number of at least 0", value, key)
        else:
            self.fault("is missing", key)
        return 0

    def strings(self, key: str, *, single: bool = False) -> tuple[str, ...]:
        """Return a list of strings; an empty one when the key is missing."""
        return tuple(self.each(key, str, single=single))

    def each(
        self, key: str, parse: Callable[[str], _Value], *, rule: str = "", single: bool = False
    ) -> list[_Value]:
        """Return a list of strings as values; those with faults are left out.

        :param parse: returns the value of a string, as for `parsed`.
        :param rule: the rule that a string breaks which cannot be parsed.
        :param single: whether one string may stand for a list of one.
        """
        given = self.content.get(key, [])
        if single and isinstance(given, str):
            given = [given]
        if not isinstance(given, list):
            self.must_be(f"{'a string or ' if single else ''}a list of strings", given, key)
            return []
        parsed: list[_Value] = []
        for index, item in enumerate(given):
            if isinstance(item, str):
                value = self.parsed(parse, item, key, index, rule=rule)
                parsed += [] if value is None else [value]
            else:
                self.must_be("a string", item, key, index)
        return parsed

    def parsed(
        self, parse: Callable[[str], _Value], text: str, *steps: Step, rule: str = ""
    ) -> _Value | None:
        """Return the value of a string; None after a fault.

        :param parse: returns the value; raises ``ValueError`` or an error of the family.
        """
        try:
            return parse(text)
        except ValueError as error:
            message = error.message if isinstance(error, WheelfitError) else str(error)
            self.fault(message, *steps, rule=rule)
            return None

    # --- tables ---------------------------------------------------------------

    def below(self, value: object, *steps: Step) -> Self:
        """Return a value as a table; an empty one if it is none."""
        if not isinstance(value, Mapping):
            self.must_be("a table", value, *steps)
            value = {}
        return type(self)(value, self.report, *self.steps, *steps)

    def table(self, key: str) -> Self:
        """Return a table; an empty one when the key is missing."""
        return self.below(self.content.get(key, {}), key)

    def tables(self, key: str) -> list[Self]:
        """Return a list of tables; values that are not tables are left out."""
        given = self.content.get(key, [])
        if not isinstance(given, list):
            kind = f"must be a list of tables, not {described(given)}"
            self.fault(kind, key, hint=f"write [[{self.path(key)}]]")
            return []
        tables = [(item, self.below(item, key, index)) for index, item in enumerate(given)]
        return [table for item, table in tables if isinstance(item, Mapping)]

    def named(self, key: str) -> dict[str, Self]:
        """Return a table of tables; values that are not tables are left out."""
        outer = self.table(key)
        tables = [(name, item, outer.below(item, name)) for name, item in outer.content.items()]
        return {name: table for name, item, table in tables if isinstance(item, Mapping)}


def section(document: Mapping[str, Any], report: FaultReporter, *keys: str) -> Table | None:
    """Return a table of a shared document, such as ``[tool.wheelfit.matrix]``; None without it.

    Tables above it that are none are other readers' faults.
    """
    value: object = document
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value is None else Table({}, report).below(value, *keys)


def described(value: object) -> str:
    """Return a value in words for messages: a string itself, the kind of others."""
    if isinstance(value, Mapping):
        return "a table"
    return "an empty list" if value == [] else shown(value)
