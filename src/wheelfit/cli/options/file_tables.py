"""Tables that only files can set: their types, and how each is read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from wheelfit.cli.options.values import (
    ANY_TEXT,
    ANY_TEXTS,
    PREFERENCES,
    ListOf,
    ValuePlace,
    ValueType,
    unknown_setting,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wheelfit.sources.settings import PinnedProject


class _TableList(ValueType):
    """Tables of one name, each read by a function; those of all layers are joined.

    :param read: called with the key, for errors, a table and its place.
    """

    is_joined = True
    is_text = False
    title = "tables"

    def __init__(
        self,
        read: Callable[[str, Mapping[str, Any], ValuePlace], object],
        show: Callable[[Any], object],
    ) -> None:
        self._parse = read
        self._show = show

    def default_value(self) -> tuple[Any, ...]:
        return ()

    def read(self, key: str, value: object, place: ValuePlace) -> tuple[Any, ...]:
        if not isinstance(value, list):
            place.refuse(key, f"is not a list of tables; write [[{key}]]")
        rows = []
        for index, row in enumerate(value):
            path, part = f"{key}[{index}]", place.part(key, index)
            if not isinstance(row, dict):
                part.refuse(path, "is not a table")
            rows.append(self._parse(path, row, part))
        return tuple(rows)

    def join(self, above: Any, below: Any) -> tuple[Any, ...]:
        return (*above, *below)

    def show(self, value: Any) -> object:
        return [self._show(row) for row in value]


class _NamedTables(_TableList):
    """Tables by name, each read by a function; of each name the highest layer is used."""

    title = "tables by name"

    def read(self, key: str, value: object, place: ValuePlace) -> tuple[Any, ...]:
        if not isinstance(value, dict):
            place.refuse(key, f"is not a table of tables; write [{key}.NAME]")
        rows = []
        for name, row in value.items():
            path, part = f"{key}.{name}", place.part(key, name)
            if not isinstance(row, dict):
                part.refuse(path, "is not a table")
            if "name" in row:
                part.refuse(f"{path}.name", "is not a setting")
            rows.append(self._parse(path, {**row, "name": name}, part))
        return tuple(rows)

    def join(self, above: Any, below: Any) -> tuple[Any, ...]:
        return tuple({row.name: row for row in (*below, *above)}.values())

    def show(self, value: Any) -> object:
        return {row.name: self._show(row) for row in value}


class _CommandTable(ValueType):
    """A table that one command parses by itself; here only its key is known."""

    is_text = False
    title = "a table"

    def read(self, key: str, value: object, place: ValuePlace) -> object:
        if not isinstance(value, dict):
            place.refuse(key, "is not a table")
        return value


def _check_keys(path: str, row: Iterable[str], keys: Iterable[str], place: ValuePlace) -> None:
    """Raise if a table has an unknown key."""
    for key in row:
        if key not in keys:
            raise unknown_setting(f"{path}.{key}", [f"{path}.{known}" for known in keys], place)


def _package_name(value: object, key: str, place: ValuePlace) -> str:
    """Return the normal form of a name."""
    from packaging.utils import InvalidName, canonicalize_name

    try:
        name = canonicalize_name(value, validate=True) if isinstance(value, str) else None
    except InvalidName:
        name = None
    if name is None:
        place.refuse(key, "is not a valid package name")
    return name


_PROVIDER_KEYS = frozenset(["namespace", "package", "plugin-api", "versions"])


def _provider(path: str, row: Mapping[str, Any], place: ValuePlace) -> object:
    """Read a further row of the table of plugins (P-64)."""
    from packaging.version import InvalidVersion

    from wheelfit.core.properties import is_name
    from wheelfit.core.provider_table import EmulatedPlugin
    from wheelfit.core.providers import parse_endpoint
    from wheelfit.core.versions import parse_version

    _check_keys(path, row, _PROVIDER_KEYS, place)
    for key in sorted(_PROVIDER_KEYS - row.keys()):
        place.refuse(f"{path}.{key}", "is missing")
    namespace = row["namespace"]
    if not isinstance(namespace, str) or not is_name(namespace):
        place.refuse(f"{path}.namespace", "is not a namespace")
    package = _package_name(row["package"], f"{path}.package", place)
    versions = ANY_TEXTS.read(f"{path}.versions", row["versions"], place)
    try:
        for text in versions:
            parse_version(text)
    except InvalidVersion:
        place.refuse(f"{path}.versions", "has an invalid version")
    endpoints = [
        parse_endpoint(text)
        for text in ANY_TEXTS.read(f"{path}.plugin-api", row["plugin-api"], place)
    ]
    valid_endpoints = tuple(endpoint for endpoint in endpoints if endpoint is not None)
    if len(valid_endpoints) < len(endpoints) or not valid_endpoints or not versions:
        place.refuse(path, "needs versions, and a plugin-api as module:attribute")
    return EmulatedPlugin(namespace, package, tuple(versions), valid_endpoints)


def _provider_data(row: Any) -> object:
    return {
        "namespace": row.namespace,
        "package": row.package,
        "versions": list(row.versions),
        "plugin-api": list(row.endpoints),
    }


_PREFERENCE_KEYS = ("prefer", "require", "forbid")


def _shorthand(path: str, row: Mapping[str, Any], place: ValuePlace) -> object:
    """Read a shorthand that the user defines."""
    from wheelfit.core.ordering import parse_preference
    from wheelfit.core.shorthands import Shorthand, is_built_in

    name = row["name"]
    if is_built_in(name):
        place.refuse(path, "is built in; take another name")
    if re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name) is None:
        place.refuse(path, "is not a name: lower-case letters, digits, '.', '_' and '-'")
    own_keys = [key for key in row if key != "name"]  # `read` adds the name of the table
    _check_keys(path, own_keys, (*_PREFERENCE_KEYS, "meaning"), place)
    meaning = row.get("meaning", "")
    if not isinstance(meaning, str):
        place.refuse(f"{path}.meaning", "must be a string")
    texts = {
        key: PREFERENCES.read(f"{path}.{key}", row.get(key, []), place) for key in _PREFERENCE_KEYS
    }
    if not any(texts.values()):
        place.refuse(path, "has no effect; it needs prefer, require or forbid")
    preferences = {
        key: tuple(parse_preference(text) for text in texts[key]) for key in _PREFERENCE_KEYS
    }
    return Shorthand(
        name, meaning, preferences["prefer"], preferences["require"], preferences["forbid"]
    )


def _shorthand_data(row: Any) -> object:
    meaning = {"meaning": row.meaning} if row.meaning else {}
    preferences = {
        key: [str(preference) for preference in getattr(row, key)] for key in _PREFERENCE_KEYS
    }
    return {**meaning, **{key: texts for key, texts in preferences.items() if texts}}


_AGREEMENT_KEYS = ("bound", "features", "name", "part", "title")


def _agreement(path: str, row: Mapping[str, Any], place: ValuePlace) -> object:
    """Read an agreement that the user defines."""
    from wheelfit.core.agreements import Agreement
    from wheelfit.core.properties import is_name, parse_feature

    _check_keys(path, row, _AGREEMENT_KEYS, place)
    name, part, bound = row.get("name"), row.get("part", "whole"), row.get("bound", False)
    title = row.get("title", name)
    if not isinstance(name, str) or not is_name(name):
        place.refuse(f"{path}.name", "is not a name: lower-case letters, digits and '_'")
    if not isinstance(title, str) or not title:
        place.refuse(f"{path}.title", "must be a string")
    if part not in ("major", "whole"):
        place.refuse(f"{path}.part", "is none of major, whole")
    if not isinstance(bound, bool):
        place.refuse(f"{path}.bound", "is neither true nor false")
    features = ListOf(ANY_TEXT, parse_feature).read(
        f"{path}.features", row.get("features", []), place
    )
    if not features:
        place.refuse(f"{path}.features", "names no feature")
    return Agreement(name, title, tuple(map(parse_feature, features)), part, is_bound=bound)


def _agreement_data(row: Any) -> object:
    return {
        "name": row.name,
        "title": row.title,
        "features": [str(feature) for feature in row.features],
        "part": row.part,
        "bound": row.is_bound,
    }


_INDEX_KEYS = ("default", "explicit", "name", "url")


def _index(path: str, row: Mapping[str, Any], place: ValuePlace) -> object:
    """Read an index with a name."""
    from wheelfit.sources.settings import NamedIndex

    _check_keys(path, row, _INDEX_KEYS, place)
    for key in ("name", "url"):
        if not isinstance(row.get(key), str) or not row[key]:
            place.refuse(f"{path}.{key}", "must be a string")
    for key in ("default", "explicit"):
        if not isinstance(row.get(key, False), bool):
            place.refuse(f"{path}.{key}", "is neither true nor false")
    return NamedIndex(
        row["name"],
        row["url"],
        row.get("explicit", False),
        row.get("default", False),
        place.where,
    )


def _index_data(row: Any) -> object:
    from wheelfit.sources.urls import redact

    flags = {key: True for key in ("explicit", "default") if getattr(row, key)}
    return {"name": row.name, "url": redact(row.url), **flags}


class _Indexes(_TableList):
    """Indexes; of one name the highest layer is used."""

    def read(self, key: str, value: object, place: ValuePlace) -> tuple[Any, ...]:
        rows = super().read(key, value, place)
        for number, row in enumerate(rows):
            if row.name in {other.name for other in rows[:number]}:
                message = f"has the name of another index: {row.name}"
                place.part(key, number).refuse(f"{key}[{number}]", message)
        return rows

    def join(self, above: Any, below: Any) -> tuple[Any, ...]:
        names = {row.name for row in above}
        return (*above, *(row for row in below if row.name not in names))


_PIN_KEYS = ({"index"}, {"index", "marker"})


def read_pin(key: str, project: str, row: object, place: ValuePlace) -> PinnedProject:
    """Return one of the indexes that a project is pinned to."""
    from wheelfit.core.markers import parse_marker
    from wheelfit.errors import InvalidMarker
    from wheelfit.sources.settings import PinnedProject

    if (
        not isinstance(row, dict)
        or row.keys() not in _PIN_KEYS
        or not isinstance(row["index"], str)
    ):
        place.refuse(key, "must be a table with the name of an index, and optionally a marker")
    marker = row.get("marker", "")
    try:
        if not isinstance(marker, str) or (marker and parse_marker(marker).uses_variants):
            place.refuse(key, "has a marker that is no environment marker")
    except InvalidMarker as error:
        place.refuse(key, f"has an invalid marker: {error.message}")
    return PinnedProject(_package_name(project, key, place), row["index"], marker)


class _Pins(ValueType):
    """Projects, each with the names of its indexes; of each project the highest layer is used."""

    is_joined = True
    is_text = False
    title = "tables by name"

    def default_value(self) -> tuple[Any, ...]:
        return ()

    def read(self, key: str, value: object, place: ValuePlace) -> tuple[Any, ...]:
        if not isinstance(value, dict):
            place.refuse(key, f"is not a table; write [{key}] with NAME = {{ index = INDEX }}")
        return tuple(
            read_pin(f"{key}.{name}", name, row, place.part(key, name))
            for name, rows in value.items()
            for row in (rows if isinstance(rows, list) else [rows])
        )

    def join(self, above: Any, below: Any) -> tuple[Any, ...]:
        projects = {pin.project for pin in above}
        return (*above, *(pin for pin in below if pin.project not in projects))

    def show(self, value: Any) -> object:
        shown: dict[str, list[object]] = {}
        for pin in value:
            marker = {"marker": pin.marker} if pin.marker else {}
            shown.setdefault(pin.project, []).append({"index": pin.index, **marker})
        return {name: rows[0] if len(rows) == 1 else rows for name, rows in shown.items()}


AGREEMENTS = _TableList(_agreement, _agreement_data)
INDEXES = _Indexes(_index, _index_data)
PINS = _Pins()
PROVIDERS = _TableList(_provider, _provider_data)
SHORTHANDS = _NamedTables(_shorthand, _shorthand_data)
TABLE = _CommandTable()
