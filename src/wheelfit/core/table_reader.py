"""Reading of typed tables in TOML and JSON documents, with consistent faults.

A fault has the path in the document, and goes to a reporter: one that collects all faults of a
document (`FaultList`), or one that raises the first (`FirstFault`). After a fault a method returns
an empty value, so that reading continues.

`docs/explanation/dependencies.md` has the reason not to use `msgspec.convert`.
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
_MAX_COMPARED_KEYS = 20
"""The limit on unknown keys of a table that are compared with the known ones, which is slow."""
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

    :param rule: the rule of faults without one.
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

    :param kind: the class of the error.
    :param where: the document, for the error.
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
        """Report a value of the wrong kind."""
        self.fault(f"must be {kind}, not {describe_value(value)}", *steps)

    def only(self, *known: str) -> None:
        """Report every key that is not known, with the nearest known key."""
        for key, suggestion in self.unknown(known):
            hint = (
                f'did you mean "{suggestion}"?' if suggestion else f"known keys: {', '.join(known)}"
            )
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
            is_compared = index < _MAX_COMPARED_KEYS and len(key) <= _LONGEST_KEY
            matches = get_close_matches(key, known, n=1, cutoff=cutoff) if is_compared else []
            yield key, next(iter(matches), None)

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
        """Return a required string, which must not be empty."""
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
        """Return a required whole number of at least 0."""
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
        """Return the parsed strings of a list; those with faults are left out.

        :param parse: returns the value of a string, as for `parsed`.
        :param rule: the rule of strings that cannot be parsed.
        :param single: whether one string may stand for a list of one.
        """
        items = self.content.get(key, [])
        if single and isinstance(items, str):
            items = [items]
        if not isinstance(items, list):
            self.must_be(f"{'a string or ' if single else ''}a list of strings", items, key)
            return []
        parsed: list[_Value] = []
        for index, item in enumerate(items):
            if isinstance(item, str):
                value = self.parsed(parse, item, key, index, rule=rule)
                if value is not None:
                    parsed.append(value)
            else:
                self.must_be("a string", item, key, index)
        return parsed

    def parsed(
        self, parse: Callable[[str], _Value], text: str, *steps: Step, rule: str = ""
    ) -> _Value | None:
        """Return the value of a string; None after a fault.

        :param parse: returns the value; raises ``ValueError`` or a `WheelfitError`.
        """
        try:
            return parse(text)
        except ValueError as error:
            message = error.message if isinstance(error, WheelfitError) else str(error)
            self.fault(message, *steps, rule=rule)
            return None

    # --- tables ---------------------------------------------------------------

    def subtable(self, value: object, *steps: Step) -> Self:
        """Return a value as a table; an empty one if it is none."""
        if not isinstance(value, Mapping):
            self.must_be("a table", value, *steps)
            value = {}
        return type(self)(value, self.report, *self.steps, *steps)

    def table(self, key: str) -> Self:
        """Return a table; an empty one when the key is missing."""
        return self.subtable(self.content.get(key, {}), key)

    def tables(self, key: str) -> list[Self]:
        """Return a list of tables; values that are not tables are left out."""
        rows = self.content.get(key, [])
        if not isinstance(rows, list):
            message = f"must be a list of tables, not {describe_value(rows)}"
            self.fault(message, key, hint=f"write [[{self.path(key)}]]")
            return []
        tables = [(item, self.subtable(item, key, index)) for index, item in enumerate(rows)]
        return [table for item, table in tables if isinstance(item, Mapping)]

    def named(self, key: str) -> dict[str, Self]:
        """Return a table of tables; values that are not tables are left out."""
        outer = self.table(key)
        tables = [(name, item, outer.subtable(item, name)) for name, item in outer.content.items()]
        return {name: table for name, item, table in tables if isinstance(item, Mapping)}


def section(document: Mapping[str, Any], report: FaultReporter, *keys: str) -> Table | None:
    """Return a table of a shared document, such as ``[tool.wheelfit.matrix]``; None without it.

    Other readers report faults of the tables above it.
    """
    value: object = document
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value is None else Table({}, report).subtable(value, *keys)


def describe_value(value: object) -> str:
    """Return a value for messages: a string itself, or the kind of other values."""
    if isinstance(value, Mapping):
        return "a table"
    return "an empty list" if value == [] else shown(value)
