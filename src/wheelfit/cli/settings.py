"""What can be set apart from the command line: one table, and how each kind of value is read.

A key is the name of an option, or says what only a file can say. To make an option settable is
one line in `SETTINGS`.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

from wheelfit.errors import InvalidConfiguration, UserError
from wheelfit.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["LIMITS", "SETTINGS", "Kind", "Place", "ProjectMay", "Setting", "unknown_setting"]


def __dir__() -> list[str]:
    return __all__


LIMITS: Mapping[str, tuple[int, int]] = {
    "size": (2, 1 << 30),
    "depth": (1, 200),
    "labels": (1, 100_000_000),
    "values": (1, 100_000_000),
    "lookups": (0, 100_000),
}
"""What ``--limit`` can set, with the smallest and the largest value."""


class ProjectMay(Enum):
    """Say what a project's own file may do with a setting.

    A project is somebody else's work as often as not: it may choose packages, and never
    weaken what the user decided about trust or about bounds.
    """

    SET_IT = "set it"
    TIGHTEN_IT = "make it stricter"
    NOT_SET_IT = "not set it"
    ALONE_SET_IT = "alone set it"


@dataclass(frozen=True, slots=True)
class Place:
    """Say where a value stands, for errors."""

    where: str
    """File and line, or the variable."""
    lines: Callable[[tuple[str | int, ...]], str] | None = None
    """Returns where a part of a document stands, by the steps that lead to it."""

    def of(self, *steps: str | int) -> str:
        """Return where a part of the value stands."""
        return self.lines(steps) if self.lines is not None else self.where

    def refuse(self, key: str, what: str) -> NoReturn:
        """Raise the error that a value cannot be taken."""
        raise InvalidConfiguration(f"{key[:80]} {what}", where=self.where)


class Kind:
    """Read values of one kind, and say how those of several layers come together."""

    is_list = False
    """Whether layers add to each other."""
    is_text = True
    """Whether a variable can say it."""

    def read(self, key: str, value: object, place: Place) -> Any:
        """Return the value that a file says.

        :raises InvalidConfiguration: it is of another kind.
        """
        raise NotImplementedError

    def parse(self, key: str, text: str, place: Place) -> Any:
        """Return the value that a variable says.

        :raises InvalidConfiguration: it is of another kind.
        """
        return self.read(key, text, place)

    def join(self, above: Any, below: Any) -> Any:  # noqa: ARG002 - a list takes both
        """Return what holds when two layers say something.

        :param above: what the layer says that counts more.
        :param below: what the others say.
        """
        return above

    def tighten(self, value: Any, below: Any) -> Any:
        """Return the stricter of what a project says and what holds without it (or None)."""
        return value if below is None or value < below else below

    def show(self, value: Any) -> object:
        """Return a value as plain data, as a file would say it."""
        return value


class _Flag(Kind):
    """True or false."""

    def read(self, key: str, value: object, place: Place) -> bool:
        if not isinstance(value, bool):
            place.refuse(key, "is neither true nor false")
        return value

    def parse(self, key: str, text: str, place: Place) -> bool:
        word = text.strip().lower()
        if word not in _WORDS:
            place.refuse(key, f"is neither true nor false, but {text[:40]!r}")
        return _WORDS[word]

    def tighten(self, value: Any, below: Any) -> Any:
        return value or bool(below)


_WORDS = {
    **dict.fromkeys(["1", "true", "yes", "on"], True),
    **dict.fromkeys(["0", "false", "no", "off"], False),
}


class _OneOf(Kind):
    """One of some words.

    :param words: the words.
    :param same: other words for some of them.
    """

    def __init__(self, *words: str, same: Mapping[str, str] | None = None) -> None:
        self._words = words
        self._same = dict(same or {})

    def read(self, key: str, value: object, place: Place) -> str:
        word = self._same.get(value, value) if isinstance(value, str) else None
        if word not in self._words:
            place.refuse(key, f"is none of {', '.join((*self._words, *self._same))}")
        return word


class _Parsed(Kind):
    """A text, or a number, that a function reads as it reads the option's value.

    :param parse: raises ``ValueError``, ``ArgumentTypeError`` or an error of the family.
    :param show: the opposite.
    """

    def __init__(
        self, parse: Callable[[str], object], show: Callable[[Any], object] = lambda value: value
    ) -> None:
        self._parse = parse
        self._show = show

    def read(self, key: str, value: object, place: Place) -> object:
        if type(value) not in (str, int, float):
            place.refuse(key, "is neither a text nor a number")
        return self.parse(key, str(value), place)

    def parse(self, key: str, text: str, place: Place) -> object:
        from argparse import ArgumentTypeError

        try:
            return self._parse(text)
        except (ValueError, ArgumentTypeError) as error:
            place.refuse(key, f"cannot be read: {error}")
        except UserError as error:
            error.where = error.where or place.where
            raise

    def show(self, value: Any) -> object:
        return self._show(value)


class _Seconds(Kind):
    """A number of seconds."""

    def read(self, key: str, value: object, place: Place) -> float:
        if type(value) not in (int, float) or not 0 < float(str(value)) < float("inf"):
            place.refuse(key, "is not a number of seconds")
        return float(str(value))

    def parse(self, key: str, text: str, place: Place) -> float:
        try:
            return self.read(key, float(text), place)
        except ValueError:
            place.refuse(key, "is not a number of seconds")


class _Texts(Kind):
    """A list of texts; in a variable one a line. Layers add to each other.

    :param check: raises an error of the family if one of them cannot be read.
    :param name: returns what a text is about; of each name only the layer that counts most
        is heard.
    :param adds: false if a layer takes the place of those below it.
    """

    def __init__(
        self,
        check: Callable[[str], object] | None = None,
        *,
        name: Callable[[str], str] | None = None,
        adds: bool = True,
    ) -> None:
        self._check = check
        self._name = name
        self.is_list = adds

    def read(self, key: str, value: object, place: Place) -> list[Any]:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            place.refuse(key, "is no list of texts")
        return [self._one(text, Place(place.of(key, index))) for index, text in enumerate(value)]

    def parse(self, key: str, text: str, place: Place) -> list[Any]:  # noqa: ARG002
        return [self._one(line.strip(), place) for line in text.splitlines() if line.strip()]

    def join(self, above: Any, below: Any) -> list[Any]:
        if not self.is_list:
            return list(above)
        heard = {self._name_of(item) for item in above}
        return [*above, *(item for item in below if self._name_of(item) not in heard)]

    def _one(self, text: str, place: Place) -> Any:
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
        return list(value)


class _Requirements(_Texts):
    """A list of requirements, which know where they were written."""

    def _one(self, text: str, place: Place) -> Any:
        from wheelfit.resolve.requirements_file import RequirementLine

        super()._one(text, place)
        return RequirementLine(text, place.where)

    def show(self, value: Any) -> list[Any]:
        return [one.text for one in value]


class _Limits(Kind):
    """A table of limits; in a variable ``NAME=N``, one a line."""

    is_list = True

    def read(self, key: str, value: object, place: Place) -> list[tuple[str, int]]:
        if not isinstance(value, dict):
            place.refuse(key, "is no table of limits")
        for name, number in value.items():
            at = Place(place.of(key, name))
            if name not in LIMITS:
                raise unknown_setting(f"{key}.{name}", [f"{key}.{one}" for one in LIMITS], at)
            smallest, largest = LIMITS[name]
            if type(number) is not int or not smallest <= number <= largest:
                at.refuse(f"{key}.{name}", f"is no number from {smallest} to {largest}")
        return list(value.items())

    def parse(self, key: str, text: str, place: Place) -> list[tuple[str, int]]:
        pairs = [line.partition("=") for line in text.splitlines() if line.strip()]
        return self.read(
            key,
            {
                name.strip(): int(number) if number.strip().isdecimal() else number
                for name, _, number in pairs
            },
            place,
        )

    def join(self, above: Any, below: Any) -> list[tuple[str, int]]:
        return list({**dict(below), **dict(above)}.items())

    def tighten(self, value: Any, below: Any) -> list[tuple[str, int]]:
        from wheelfit.core.metadata import DEFAULT_LIMITS
        from wheelfit.resolve.release_metadata import MetadataPolicy

        bounds = {"lookups": MetadataPolicy().most_labels}
        bounds |= {name: getattr(DEFAULT_LIMITS, name) for name in LIMITS if name != "lookups"}
        bounds |= dict(below or ())
        lower = {name: min(number, bounds[name]) for name, number in value}
        return list({**dict(below or ()), **lower}.items())

    def show(self, value: Any) -> dict[str, int]:
        return dict(value)


class _Rows(Kind):
    """Tables of one name, each read by a function; layers add to each other.

    :param read: called with a table and its place; the key is for errors.
    :param show: the opposite.
    """

    is_list = True
    is_text = False

    def __init__(
        self,
        read: Callable[[str, Mapping[str, Any], Place], object],
        show: Callable[[Any], object],
    ) -> None:
        self._row = read
        self._show = show

    def read(self, key: str, value: object, place: Place) -> tuple[Any, ...]:
        if not isinstance(value, list):
            place.refuse(key, f"is no list of tables; write [[{key}]]")
        rows = []
        for index, row in enumerate(value):
            path, at = f"{key}[{index}]", Place(place.of(key, index))
            if not isinstance(row, dict):
                at.refuse(path, "is no table")
            rows.append(self._row(path, row, at))
        return tuple(rows)

    def parse(self, key: str, text: str, place: Place) -> tuple[Any, ...]:  # noqa: ARG002
        place.refuse(key, "can be set in a file only")

    def join(self, above: Any, below: Any) -> tuple[Any, ...]:
        return (*above, *below)

    def show(self, value: Any) -> list[object]:
        return [self._show(row) for row in value]


class _Named(Kind):
    """Tables by name, each read by a function; of one name the layer that counts most is heard.

    :param read: called with the name, a table and its place.
    :param show: the opposite.
    """

    is_list = True
    is_text = False

    def __init__(
        self,
        read: Callable[[str, Mapping[str, Any], Place], Any],
        show: Callable[[Any], object],
    ) -> None:
        self._row = read
        self._show = show

    def read(self, key: str, value: object, place: Place) -> tuple[Any, ...]:
        if not isinstance(value, dict):
            place.refuse(key, f"is no table of tables; write [{key}.NAME]")
        rows = []
        for name, row in value.items():
            at = Place(place.of(key, name))
            if not isinstance(row, dict):
                at.refuse(f"{key}.{name}", "is no table")
            rows.append(self._row(f"{key}.{name}", {**row, "name": name}, at))
        return tuple(rows)

    def parse(self, key: str, text: str, place: Place) -> tuple[Any, ...]:
        del text
        place.refuse(key, "can be set in a file only")

    def join(self, above: Any, below: Any) -> tuple[Any, ...]:
        return tuple(
            {**{row.name: row for row in below}, **{row.name: row for row in above}}.values()
        )

    def show(self, value: Any) -> dict[str, object]:
        return {row.name: self._show(row) for row in value}


class _Elsewhere(Kind):
    """A table that one command reads by itself, strictly; here it only is no unknown key."""

    is_text = False

    def read(self, key: str, value: object, place: Place) -> object:
        if not isinstance(value, dict):
            place.refuse(key, "is no table")
        return value

    def parse(self, key: str, text: str, place: Place) -> object:
        del text
        place.refuse(key, "can be set in a file only")


def unknown_setting(key: str, known: Iterable[str], place: Place) -> InvalidConfiguration:
    """Return the error that something cannot be set, with what may have been meant."""
    from difflib import get_close_matches

    close = get_close_matches(key, list(known), n=1)
    hint = f"did you mean {close[0]!r}?" if close else "wheelfit config show lists what there is"
    return InvalidConfiguration(f"{key[:80]} is no setting", where=place.where, hint=hint)


# --- how some values are read; each imports what it needs when it is there to be read ---------


def _wish(text: str) -> None:
    from wheelfit.core.ordering import parse_preference

    parse_preference(text)


def _connections(text: str) -> int:
    from wheelfit.sources.settings import parse_connections

    return parse_connections(text)


def _size(text: str) -> int:
    from wheelfit.core.sizes import parse_size

    return parse_size(text)


def _label(text: str) -> None:
    from wheelfit.core.labels import parse_label

    name, equals, label = text.partition("=")
    if not name.strip() or not equals:
        raise InvalidConfiguration(
            f"{text[:80]!r} does not say which package is meant", hint="write NAME=LABEL"
        )
    parse_label(label.strip())


def _publisher(text: str) -> None:
    from wheelfit.sources.attestations import identity_parts

    name, equals, publisher = text.partition("=")
    if not equals:
        raise InvalidConfiguration(
            f"{text[:80]!r} does not say which package is meant",
            hint="write NAME=github:OWNER/REPOSITORY",
        )
    _name(name.strip())
    try:
        identity_parts(publisher)
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
        raise InvalidConfiguration(f"{text[:80]!r} is no name of a package") from None


def _buildable(text: str) -> None:
    if text != ":all:":
        _name(text)


def _project_of(text: str) -> str:
    """Return the normal form of the name that a text begins with."""
    name = re.match(r"\s*([A-Za-z0-9._-]+)", text)
    return re.sub(r"[-_.]+", "-", name[1]).lower() if name else text


_ROW = frozenset(["namespace", "package", "plugin-api", "versions"])


def _provider(path: str, row: Mapping[str, Any], place: Place) -> object:
    """Read a further row of the table of plugins (P-64)."""
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion, Version

    from wheelfit.core.properties import is_name
    from wheelfit.core.provider_table import EmulatedPlugin
    from wheelfit.core.providers import parse_endpoint

    for key in row:
        if key not in _ROW:
            raise unknown_setting(f"{path}.{key}", [f"{path}.{known}" for known in _ROW], place)
    for key in sorted(_ROW - row.keys()):
        place.refuse(f"{path}.{key}", "is missing")
    namespace, package = row["namespace"], row["package"]
    if not isinstance(namespace, str) or not is_name(namespace):
        place.refuse(f"{path}.namespace", "is no namespace")
    if not isinstance(package, str) or not package:
        place.refuse(f"{path}.package", "is no name of a package")
    texts = _Texts()
    versions = texts.read(f"{path}.versions", row["versions"], place)
    try:
        for text in versions:
            Version(text)
    except InvalidVersion:
        place.refuse(f"{path}.versions", "has something that is no version")
    endpoints = [
        parse_endpoint(one) for one in texts.read(f"{path}.plugin-api", row["plugin-api"], place)
    ]
    known = tuple(endpoint for endpoint in endpoints if endpoint is not None)
    if len(known) < len(endpoints) or not known or not versions:
        place.refuse(path, "needs versions, and a plugin-api as module:attribute")
    return EmulatedPlugin(namespace, canonicalize_name(package), tuple(versions), known)


def _shown_provider(row: Any) -> object:
    return {
        "namespace": row.namespace,
        "package": row.package,
        "versions": list(row.versions),
        "plugin-api": list(row.endpoints),
    }


_LISTS = ("prefer", "require", "forbid")


def _shorthand(path: str, row: Mapping[str, Any], place: Place) -> object:
    """Read a shorthand of the user's own."""
    from wheelfit.core.ordering import parse_preference
    from wheelfit.core.shorthands import Shorthand, is_built_in

    name = row["name"]
    if is_built_in(name):
        place.refuse(path, "is built in; take another name")
    if re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name) is None:
        place.refuse(path, "is no name: lower-case letters, digits, '.', '_' and '-'")
    for key in row:
        if key not in (*_LISTS, "meaning", "name"):
            known = [f"{path}.{one}" for one in (*_LISTS, "meaning")]
            raise unknown_setting(f"{path}.{key}", known, place)
    meaning = row.get("meaning", "")
    if not isinstance(meaning, str):
        place.refuse(f"{path}.meaning", "is no text")
    wishes = {key: _WISHES.read(f"{path}.{key}", row.get(key, []), place) for key in _LISTS}
    if not any(wishes.values()):
        place.refuse(path, "wishes nothing; it needs prefer, require or forbid")
    read = {key: tuple(parse_preference(text) for text in wishes[key]) for key in _LISTS}
    return Shorthand(name, meaning, read["prefer"], read["require"], read["forbid"])


def _shown_shorthand(row: Any) -> object:
    meaning = {"meaning": row.meaning} if row.meaning else {}
    wishes = {key: [str(wish) for wish in getattr(row, key)] for key in _LISTS}
    return {**meaning, **{key: shown for key, shown in wishes.items() if shown}}


_AGREEMENT = ("bound", "features", "name", "part", "title")


def _agreement(path: str, row: Mapping[str, Any], place: Place) -> object:
    """Read something more that packages must agree on."""
    from wheelfit.core.agreements import Agreement
    from wheelfit.core.properties import is_name, parse_feature

    for key in row:
        if key not in _AGREEMENT:
            raise unknown_setting(f"{path}.{key}", [f"{path}.{one}" for one in _AGREEMENT], place)
    name, part, bound = row.get("name"), row.get("part", "whole"), row.get("bound", False)
    title = row.get("title", name)
    if not isinstance(name, str) or not is_name(name):
        place.refuse(f"{path}.name", "is no name: lower-case letters, digits and '_'")
    if not isinstance(title, str) or not title:
        place.refuse(f"{path}.title", "is no text")
    if part not in ("major", "whole"):
        place.refuse(f"{path}.part", "is none of major, whole")
    if not isinstance(bound, bool):
        place.refuse(f"{path}.bound", "is neither true nor false")
    features = _Texts(parse_feature).read(f"{path}.features", row.get("features", []), place)
    if not features:
        place.refuse(f"{path}.features", "names no feature")
    return Agreement(name, title, tuple(map(parse_feature, features)), part, is_bound=bound)


def _shown_agreement(row: Any) -> object:
    return {
        "name": row.name,
        "title": row.title,
        "features": [str(feature) for feature in row.features],
        "part": row.part,
        "bound": row.is_bound,
    }


# --- the table ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    """Say of one key what it holds, and who may set it."""

    kind: Kind
    project: ProjectMay = ProjectMay.NOT_SET_IT
    destination: str = ""
    """Where the command looks for it; default: as the key, with underscores."""
    why: str = "it decides what is trusted or done on this machine"
    """Why a project may not set it."""

    def destination_of(self, key: str) -> str:
        """Return the name of the argument that holds it."""
        return self.destination or key.replace("-", "_")


_FLAG, _SECONDS, _TEXTS = _Flag(), _Seconds(), _Texts()
_WISHES = _Texts(_wish)

SETTINGS: Mapping[str, Setting] = {
    "accept-unknown-drafts": Setting(_FLAG),
    "agreement": Setting(
        _Rows(_agreement, _shown_agreement), ProjectMay.SET_IT, destination="agreement_table"
    ),
    "allow-mixed": Setting(_TEXTS, ProjectMay.SET_IT),
    "allow-source": Setting(_Texts(_buildable), why="building from source runs code"),
    "allow-variant-change": Setting(_FLAG, why="to agree is up to whoever runs the command"),
    "bridge": Setting(_TEXTS, why="a bridge decides which packages stand for a name"),
    "build": Setting(_Elsewhere(), ProjectMay.ALONE_SET_IT, destination="build_table"),
    "compare-sources": Setting(_FLAG),
    "connections": Setting(_Parsed(_connections)),
    "constraints": Setting(_Requirements(_requirement), ProjectMay.SET_IT),
    "default-groups": Setting(_Texts(_name), ProjectMay.ALONE_SET_IT),
    "devices": Setting(
        _OneOf("all", "highest", "lowest", "any", same={"min": "lowest"}), ProjectMay.SET_IT
    ),
    "disable-provider": Setting(_TEXTS),
    "enable-provider": Setting(_TEXTS),
    "excludes": Setting(_Texts(_name, name=_project_of), ProjectMay.SET_IT),
    "forbid": Setting(_WISHES, ProjectMay.SET_IT),
    "ignore-static": Setting(_TEXTS),
    "label": Setting(_Texts(_label, name=_project_of), ProjectMay.SET_IT),
    "limit": Setting(_Limits(), ProjectMay.TIGHTEN_IT),
    "link-mode": Setting(_OneOf("auto", "reflink", "hardlink", "copy")),
    "matrix": Setting(_Elsewhere(), ProjectMay.ALONE_SET_IT, destination="matrix_table"),
    "max-download": Setting(_Parsed(_size, str), ProjectMay.TIGHTEN_IT),
    "no-abi-dependency": Setting(_FLAG, ProjectMay.TIGHTEN_IT),
    "no-bridges": Setting(_FLAG, ProjectMay.TIGHTEN_IT),
    "no-env-override": Setting(_FLAG),
    "no-plugins": Setting(_FLAG, ProjectMay.TIGHTEN_IT),
    "no-variants": Setting(_FLAG, ProjectMay.TIGHTEN_IT),
    "overrides": Setting(_Requirements(_requirement, name=_project_of), ProjectMay.SET_IT),
    "platform": Setting(_Texts(adds=False), ProjectMay.ALONE_SET_IT),
    "plugin-deadline": Setting(_SECONDS),
    "pre": Setting(_FLAG, ProjectMay.SET_IT),
    "prefer": Setting(_WISHES, ProjectMay.SET_IT),
    "provider": Setting(_Rows(_provider, _shown_provider), destination="provider_table"),
    "python-version": Setting(_Texts(adds=False), ProjectMay.ALONE_SET_IT),
    "read-unlisted": Setting(_FLAG),
    "require": Setting(_WISHES, ProjectMay.SET_IT),
    "require-accelerator": Setting(_FLAG, ProjectMay.TIGHTEN_IT),
    "require-attestations": Setting(_Texts(_buildable), ProjectMay.SET_IT),
    "rocm-compat": Setting(_OneOf("exact", "same-major")),
    "shorthand": Setting(
        _Named(_shorthand, _shown_shorthand), ProjectMay.SET_IT, destination="shorthands"
    ),
    "startup-files": Setting(_OneOf("warn", "allow", "deny")),
    "strict": Setting(_FLAG, ProjectMay.TIGHTEN_IT),
    "tpu-generation": Setting(_FLAG),
    "trusted-publisher": Setting(_Texts(_publisher), ProjectMay.SET_IT),
    "variant": Setting(_Texts(adds=False), ProjectMay.SET_IT),
    "verify-attestations": Setting(_FLAG, ProjectMay.TIGHTEN_IT),
}
"""Every key, in the order of the alphabet.

A switch of the command line is ``Setting(_FLAG)``; a list of texts ``Setting(_TEXTS)``; what the
option's own ``type`` reads ``Setting(_Parsed(that_function))``. The second argument lets a project
set it; only what chooses packages should have one. Add the key to
``docs/reference/configuration.md``, which a test compares.
"""
