"""Types of the values of options: one for the command line, variables and files alike.

A type reads a word of the command line or of a variable with `ValueType.parse_word`, a value of a
file with `ValueType.read`, and joins the values of several layers. A wrong word is a ``ValueError``
whose message is a sentence about the word, wherever it was written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from wheelfit.errors import did_you_mean
from wheelfit.operations.number_ranges import LIMIT_RANGES, RANGES
from wheelfit_runtime.errors import InvalidConfiguration, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class ValuePlace(NamedTuple):
    """The position of a value, for errors."""

    where: str
    """File and line, or the variable."""
    lines: Callable[[tuple[str | int, ...]], str] | None = None
    """Returns the position of a part of a document, by the keys and indexes that lead to it."""

    def part(self, *steps: str | int) -> ValuePlace:
        """Return the position of a part of the value."""
        return ValuePlace(self.lines(steps)) if self.lines is not None else ValuePlace(self.where)

    def refuse(self, key: str, what: str) -> NoReturn:
        """Raise the error that a value cannot be used.

        :param what: the end of a sentence whose subject is the key.
        """
        raise InvalidConfiguration(f"{key[:80]} {what}", where=self.where)


class ValueType:
    """A type of values."""

    is_joined = False
    """Whether the values of several layers are joined."""
    is_text = True
    """Whether a variable can set it."""
    is_repeated = False
    """Whether the option may be given several times; each adds a value."""
    choices: tuple[str, ...] = ()
    """Every valid word, if they are few."""
    completes = ""
    """``files`` or ``folders`` if words are paths."""
    title = "a text"
    """The type in words, for the reference."""

    def default_value(self) -> Any:
        """Return the value without the option."""
        return None

    def parse_word(self, text: str) -> Any:
        """Return the value of a word of the command line.

        :raises ValueError: it is of another type.
        """
        return text

    def parse_variable(self, key: str, text: str, place: ValuePlace) -> Any:
        """Return the value of a variable.

        :raises InvalidConfiguration: it has another type, or a type that only files can have.
        """
        if not self.is_text:
            place.refuse(key, "can be set in a file only")
        try:
            return self.parse_word(text)
        except ValueError as error:
            raise InvalidConfiguration(f"{key[:80]}: {error}", where=place.where) from None
        except UserError as error:
            error.where = error.where or place.where
            raise

    def read(self, key: str, value: object, place: ValuePlace) -> Any:
        """Return the value in a file.

        :raises InvalidConfiguration: it is of another type.
        """
        if type(value) not in (str, int, float):
            place.refuse(key, "is neither a text nor a number")
        return self.parse_variable(key, str(value), place)

    def join(self, above: Any, below: Any) -> Any:  # noqa: ARG002 - for lists
        """Return the value of two layers together.

        :param above: the value of the higher layer.
        :param below: the value of those below it.
        """
        return above

    def tighten(self, value: Any, below: Any) -> Any:
        """Return the stricter value.

        :param value: that of the project.
        :param below: that of the layers below the project's; None: they have none.
        """
        return value if below is None or value < below else below

    def show(self, value: Any) -> object:
        """Return a value as plain data, in the form of a file."""
        return value


class Flag(ValueType):
    """True or false; a switch on the command line.

    :param stores: the value that the switch sets.
    """

    title = "true or false"

    def __init__(self, *, stores: bool = True) -> None:
        self.stores = stores

    def default_value(self) -> bool:
        """Return the value without the switch."""
        return not self.stores

    def parse_word(self, text: str) -> bool:
        """Return the value of a word of the command line."""
        word = text.strip().lower()
        if word not in _FLAG_WORDS:
            raise ValueError(f"{text[:40]!r} is neither true nor false")
        return _FLAG_WORDS[word]

    def read(self, key: str, value: object, place: ValuePlace) -> bool:
        """Return the value in a file."""
        if not isinstance(value, bool):
            place.refuse(key, "is neither true nor false")
        return value

    def tighten(self, value: Any, below: Any) -> Any:
        """Return the stricter of two values."""
        return value or bool(below)


_FLAG_WORDS = {
    **dict.fromkeys(["1", "true", "yes", "on"], True),
    **dict.fromkeys(["0", "false", "no", "off"], False),
}


class OneOf(ValueType):
    """A choice of some words.

    :param aliases: further words, with the choice that each stands for.
    """

    def __init__(self, *words: str, aliases: Mapping[str, str] | None = None) -> None:
        self.choices = words
        self.title = " / ".join(f"`{word}`" for word in words)
        self._aliases = dict(aliases or {})

    def parse_word(self, text: str) -> str:
        """Return the value of a word of the command line."""
        word = self._aliases.get(text, text)
        if word not in self.choices:
            raise ValueError(
                f"{text[:40]!r} is none of {', '.join((*self.choices, *self._aliases))}"
            )
        return word

    def read(self, key: str, value: object, place: ValuePlace) -> str:
        """Return the value in a file."""
        return str(
            self.parse_variable(key, value if isinstance(value, str) else repr(value), place)
        )


class _Text(ValueType):
    """A text, whose meaning the command determines.

    :param completes: ``files`` or ``folders`` for a path.
    :param may_be_empty: whether the text may be empty. By default that is an error: usually a
        script passed a variable that was never set.
    """

    def __init__(self, completes: str = "", *, may_be_empty: bool = False) -> None:
        self.completes = completes
        self._may_be_empty = may_be_empty

    def parse_word(self, text: str) -> str:
        if not text and not self._may_be_empty:
            raise ValueError("the value is empty")
        return text


class _Parsed(ValueType):
    """A text, or a number, that a function parses.

    :param parse: raises ``ValueError`` or a `UserError`.
    :param is_number: whether it must be a number in files.
    """

    def __init__(
        self,
        title: str,
        parse: Callable[[str], object],
        show: Callable[[Any], object] = lambda value: value,
        *,
        is_number: bool = False,
    ) -> None:
        self.title = title
        self._is_number = is_number
        self._parse = parse
        self._show = show

    def parse_word(self, text: str) -> object:
        return self._parse(text)

    def read(self, key: str, value: object, place: ValuePlace) -> object:
        if self._is_number and type(value) not in (int, float):
            place.refuse(key, f"is not {self.title}")
        return super().read(key, value, place)

    def show(self, value: Any) -> object:
        return self._show(value)


class ListOf(ValueType):
    """A list of values; in a variable one per line.

    :param element: the type of each on the command line.
    :param check: raises a `UserError` for an invalid text in a variable or file; texts of the
        command line are checked by the command.
    :param name: returns the name that a text is about; of each name only the highest layer is used.
    :param is_joined: false if a layer replaces those below it.
    """

    is_repeated = True
    title = "a list of texts"

    def __init__(
        self,
        element: ValueType,
        check: Callable[[str], object] | None = None,
        *,
        name: Callable[[str], str] | None = None,
        is_joined: bool = True,
    ) -> None:
        self._element = element
        self._check = check
        self._name = name
        self.is_joined = is_joined
        self.choices = element.choices
        self.completes = element.completes

    def default_value(self) -> Any:
        """Return a new list, for argparse adds to it."""
        return []

    def parse_word(self, text: str) -> Any:
        """Return the value of a word of the command line."""
        return self._element.parse_word(text)

    def read(self, key: str, value: object, place: ValuePlace) -> list[Any]:
        """Return the value in a file."""
        if not isinstance(value, list) or not all(isinstance(element, str) for element in value):
            place.refuse(key, "must be a list of strings")
        return [self._checked(text, place.part(key, index)) for index, text in enumerate(value)]

    def parse_variable(self, key: str, text: str, place: ValuePlace) -> list[Any]:  # noqa: ARG002
        """Return the value of a variable, one element per line."""
        return [self._checked(line.strip(), place) for line in text.splitlines() if line.strip()]

    def join(self, above: Any, below: Any) -> list[Any]:
        """Return the value of two layers together."""
        if not self.is_joined:
            return list(above)
        names = {self._name_of(item) for item in above}
        return [*above, *(item for item in below if self._name_of(item) not in names)]

    def _checked(self, text: str, place: ValuePlace) -> Any:
        if self._check is not None:
            try:
                self._check(text)
            except UserError as error:
                error.where = error.where or place.where
                raise
        return text

    def _name_of(self, item: Any) -> str:
        text = str(self.show([item])[0])
        return self._name(text) if self._name is not None else text

    def show(self, value: Any) -> list[Any]:
        """Return the value in the form of a file."""
        return list(value)


class _Consent(ListOf):
    """Names of projects, and one of the words for all others."""

    title = "`ask` / `never` / `always` / a list of names"

    def read(self, key: str, value: object, place: ValuePlace) -> list[Any]:
        return super().read(key, [value] if isinstance(value, str) else value, place)

    def join(self, above: Any, below: Any) -> list[Any]:
        """Return the value of two layers together; ``never`` cancels the lower one."""
        return list(above) if "never" in above else super().join(above, below)


class _Families(ListOf):
    """Families of distributions, where a later one overrides an earlier one."""

    title = "a list of texts; `[]` is no family"

    def read(self, key: str, value: object, place: ValuePlace) -> list[Any]:
        return super().read(key, value, place) or ["none"]

    def join(self, above: Any, below: Any) -> list[Any]:
        """Return the value of two layers together; ``none`` cancels the lower one."""
        rest = [] if "none" in above else [family for family in below if family not in above]
        return [*rest, *above]

    def show(self, value: Any) -> list[Any]:
        # The value of an empty variable. Shown as `[]` it would mean that all families are off.
        if not value:
            return ["default"]
        return [] if list(value) == ["none"] else list(value)


class _Requirements(ListOf):
    """A list of requirements, each with its place."""

    title = "a list of requirements"

    def default_value(self) -> Any:
        return ()

    def _checked(self, text: str, place: ValuePlace) -> Any:
        from wheelfit.resolution.requirements_file import RequirementLine

        super()._checked(text, place)
        return RequirementLine(text, place.where)

    def show(self, value: Any) -> list[Any]:
        return [requirement.text for requirement in value]


class _Limits(ValueType):
    """Limits by name: ``NAME=N`` on the command line and, one per line, in a variable."""

    is_joined = True
    is_repeated = True
    title = "a table of numbers"

    def default_value(self) -> Any:
        """Return a new list, for argparse adds to it."""
        return []

    def parse_word(self, text: str) -> tuple[str, int]:
        name, _, number = text.partition("=")
        if name not in LIMIT_RANGES:
            raise ValueError(f"{name!r} is none of {', '.join(LIMIT_RANGES)}")
        smallest, largest = LIMIT_RANGES[name]
        if not _is_number(number) or not smallest <= int(number) <= largest:
            raise ValueError(f"{name} must be a number from {smallest} to {largest}")
        return name, int(number)

    def read(self, key: str, value: object, place: ValuePlace) -> list[tuple[str, int]]:
        if not isinstance(value, dict):
            place.refuse(key, "is not a table of limits")
        for name, number in value.items():
            part = place.part(key, name)
            if name not in LIMIT_RANGES:
                raise unknown_setting(f"{key}.{name}", [f"{key}.{n}" for n in LIMIT_RANGES], part)
            smallest, largest = LIMIT_RANGES[name]
            if type(number) is not int or not smallest <= number <= largest:
                part.refuse(f"{key}.{name}", f"must be a number from {smallest} to {largest}")
        return list(value.items())

    def parse_variable(self, key: str, text: str, place: ValuePlace) -> list[tuple[str, int]]:
        limits: dict[str, object] = {}
        for line in filter(str.strip, text.splitlines()):
            name, _, number = map(str.strip, line.partition("="))
            limits[name] = int(number) if _is_number(number) else number
        return self.read(key, limits, place)

    def join(self, above: Any, below: Any) -> list[tuple[str, int]]:
        return list({**dict(below), **dict(above)}.items())

    def tighten(self, value: Any, below: Any) -> list[tuple[str, int]]:
        from wheelfit.core.strict_json import DEFAULT_LIMITS
        from wheelfit.resolution.release_metadata import MetadataPolicy

        bounds = {"lookups": MetadataPolicy().max_labels}
        bounds |= {
            name: getattr(DEFAULT_LIMITS, name) for name in LIMIT_RANGES if name != "lookups"
        }
        bounds |= dict(below or ())
        lower = {name: min(number, bounds[name]) for name, number in value}
        return list({**dict(below or ()), **lower}.items())

    def show(self, value: Any) -> dict[str, int]:
        return dict(value)


def _is_number(text: str) -> bool:
    """Return whether a text is a whole number, of less than 20 digits."""
    return text.isascii() and text.isdecimal() and len(text) < 20


def unknown_setting(key: str, known: Iterable[str], place: ValuePlace) -> InvalidConfiguration:
    """Return the error for an unknown key, with the most similar key as its hint."""
    hint = did_you_mean(key, known, "`wheelfit config show` lists the settings")
    return InvalidConfiguration(f"{key[:80]} is not a setting", where=place.where, hint=hint)


# --- parsers and checks of values; each imports its modules when called -------------------------


def _whole_number(field: str, aliases: Mapping[str, int] | None = None) -> Callable[[str], int]:
    """Return a function that parses a whole number in the range of a field of requests.

    :param aliases: words for numbers.
    """
    smallest, largest = RANGES[field]

    def read(text: str) -> int:
        if aliases and text in aliases:
            return aliases[text]
        is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(largest))
        if not is_number or not smallest <= int(text) <= largest:
            words = "".join(f", or {word}" for word in aliases or ())
            raise ValueError(f"{text[:40]!r} is not a number from {smallest} to {largest}{words}")
        return int(text)

    return read


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{text[:40]!r} is not a number of seconds")
    return seconds


def _seconds_or_none(text: str) -> float:
    return 0.0 if text.strip() == "0" else _seconds(text)


def _age(text: str) -> float:
    from wheelfit.core.durations import parse_duration

    return parse_duration(text)


def _bytes(text: str) -> int:
    from wheelfit.core.sizes import parse_size

    return parse_size(text)


def _bytes_or_letter(text: str) -> int:
    # ``20G`` as in other tools, where a letter alone is enough.
    is_letter = re.search(r"[kmgt]i?$", text.strip(), re.IGNORECASE)
    return _bytes(f"{text}B" if is_letter else text)


def _address_of_index(text: str) -> str:
    """Return a folder or URL; of the URL of an index on a server, the part before ``/simple/``."""
    if TEXT.parse_word(text).startswith(("http://", "https://")):
        return text.rstrip("/").removesuffix("/simple")
    return text


def _host(text: str) -> str:
    from wheelfit.server.rebinding_guard import parse_host_name

    return parse_host_name(text)


def _preference(text: str) -> None:
    from wheelfit.core.ordering import parse_preference

    parse_preference(text)


def _label(text: str) -> None:
    from wheelfit.core.labels import parse_label

    name, equals, label = text.partition("=")
    if not name.strip() or not equals:
        raise InvalidConfiguration(f"{text[:80]!r} names no package", hint="write NAME=LABEL")
    parse_label(label.strip())


def _publisher(text: str) -> None:
    from wheelfit.sources.attestations import parse_publisher

    name, equals, publisher = text.partition("=")
    if not equals:
        raise InvalidConfiguration(
            f"{text[:80]!r} names no package",
            hint="write NAME=github:OWNER/REPOSITORY",
        )
    _name(name.strip())
    try:
        parse_publisher(publisher)
    except ValueError as error:
        raise InvalidConfiguration(str(error)) from None


def _requirement(text: str) -> None:
    from wheelfit.core.requirements import parse_requirement

    parse_requirement(text, allow_variant_markers=False)


def _name(text: str) -> None:
    from packaging.utils import InvalidName, canonicalize_name

    try:
        canonicalize_name(text, validate=True)
    except InvalidName:
        raise InvalidConfiguration(f"{text[:80]!r} is not a valid package name") from None


def _name_or_all(text: str) -> None:
    if text != ":all:":
        _name(text)


def _consent(text: str) -> None:
    if text == ":all:":
        raise InvalidConfiguration("':all:' is not a valid package name", hint="write always")
    _name(text)


def _project_of(text: str) -> str:
    """Return the normal form of the name at the start of a text."""
    name = re.match(r"\s*([A-Za-z0-9._-]+)", text)
    return re.sub(r"[-_.]+", "-", name[1]).lower() if name else text


FLAG, OFF_FLAG = Flag(), Flag(stores=False)
TEXT, ANY_TEXT = _Text(), _Text(may_be_empty=True)
FILE, ANY_FILE, FOLDER = _Text("files"), _Text("files", may_be_empty=True), _Text("folders")
TEXTS, ANY_TEXTS, FILES = ListOf(TEXT), ListOf(ANY_TEXT), ListOf(FILE)
COUNT = _Parsed("a number", _whole_number("retries"))
STEPS = _Parsed("a number", _whole_number("depth"))
RELEASES = _Parsed("a number", _whole_number("newest"))
PROCESSES = _Parsed("a number", _whole_number("jobs"))
PROCESS_ID = _Parsed("a number", _whole_number("runtime", {"self": 0}))
PORT = _Parsed("a number", _whole_number("port"))
CONNECTIONS = _Parsed("a number", _whole_number("connections"))
SECONDS = _Parsed("a number of seconds", _seconds, is_number=True)
PATIENCE = _Parsed("a number of seconds", _seconds_or_none, is_number=True)
AGE = _Parsed("a time", _age)
BYTES, BYTES_OR_LETTER = _Parsed("a size", _bytes, str), _Parsed("a size", _bytes_or_letter, str)
ADDRESS_OF_INDEX = _Parsed("a folder or URL", _address_of_index)
HOSTS = ListOf(_Parsed("a host", _host))
LIMITS = _Limits()
# Lists that files and variables may set, too.
PREFERENCES = ListOf(ANY_TEXT, _preference)
LABELS = ListOf(ANY_TEXT, _label, name=_project_of)
NAMES = ListOf(TEXT, _name)
EXCLUDES = ListOf(TEXT, _name, name=_project_of)
FAMILIES = _Families(ANY_FILE)
CONSENT = _Consent(TEXT, _consent)
NAMES_OR_ALL = ListOf(TEXT, _name_or_all)
PUBLISHERS = ListOf(ANY_TEXT, _publisher)
CONSTRAINTS = _Requirements(TEXT, _requirement)
OVERRIDES = _Requirements(TEXT, _requirement, name=_project_of)
REPLACED_TEXTS = ListOf(ANY_TEXT, is_joined=False)
