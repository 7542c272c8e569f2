"""Read the small files in which implementations and their groups declare themselves.

`declaration_files` finds them. A frozen application has them as data files, or as a module of data.
A faulty file is reported and ignored, so that no import fails.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from wheelfit_runtime.loader.declaration_files import (
    FOLDER,
    MAX_FILE_SIZE,
    MAX_ITEMS,
    MAX_PRIORITY,
    MAX_TEXT_LENGTH,
    TABLE,
    InvalidDeclaration,
    declaration_paths,
    escaped,
    read_file,
)
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

REQUIREMENT = "requirement"
"""The kind of a declared dimension that can have one value only in a process."""

_SCHEMA = 1

_NAME = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_MODULE = pattern(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*){0,20}")
_PROPERTY = pattern(r"([a-z0-9_]{1,100}) *:: *([a-z0-9_]{1,100}) *:: *([a-z0-9_.]{1,100})")
_FEATURE = pattern(r"([a-z0-9_]{1,100}) *:: *([a-z0-9_]{1,100})")
_VALUE = pattern(r"[a-z0-9_.]{1,100}")


class Feature(NamedTuple):
    """A feature of a namespace (F-2)."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace} :: {self.name}"


class Property(NamedTuple):
    """A feature with values; if it is required, any one of them is enough."""

    feature: Feature
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.feature} :: {' or '.join(self.values)}"


class Implementation(NamedTuple):
    """The declaration of an installed implementation."""

    group: str
    """The group it implements, such as ``spam``."""
    name: str
    """Its name for users, such as ``cu12``, unique in the group."""
    module: str
    """The module to import, such as ``spam_cu12``."""
    properties: tuple[Property, ...] = ()
    """The required properties; empty: it runs everywhere."""
    priority: int = 0
    """Higher ones come first, before properties count."""
    distribution: str = ""
    """The installed distribution, such as ``spam-cu12``; empty if not stated."""
    single_valued_features: tuple[Feature, ...] = ()
    """Declared features of which a process can have only one value."""
    ranked_features: tuple[Property, ...] = ()
    """Declared features that every machine supports, with their values, best first."""
    where: str = ""
    """The path of the file."""

    @property
    def title(self) -> str:
        """Its name in messages, such as ``spam-cu12``."""
        return self.distribution or self.name


class KnownImplementation(NamedTuple):
    """An existing implementation of a group, installed or not."""

    name: str
    install: str
    """The requirement that installs it with pip, such as ``spam-avx2``."""
    properties: tuple[Property, ...] = ()


class KnownGroup(NamedTuple):
    """The declaration of the existing implementations of a group."""

    group: str
    implementations: tuple[KnownImplementation, ...]


class Declarations(NamedTuple):
    """The declarations of all files."""

    implementations: tuple[Implementation, ...] = ()
    """Sorted by group and name."""
    known: Mapping[str, tuple[KnownImplementation, ...]] = {}
    """The existing implementations, by group."""
    problems: tuple[str, ...] = ()
    """The faults of files, each beginning with the path."""


def scan(
    paths: Iterable[object],
    table: Mapping[str, object] | None = None,
    folders: Iterable[str] = (),
) -> Declarations:
    """Return the declarations in the folders on a search path, with the faults of files.

    The first one on the path takes precedence, as with modules.

    :param table: declarations by file name, as written by `as_table`; folders take precedence.
    """
    implementations: dict[tuple[str, str], Implementation] = {}
    known: dict[str, tuple[KnownImplementation, ...]] = {}
    problems: list[str] = []

    def add(where: str, document: object) -> None:
        try:
            declared = _parse(document, where)
        except InvalidDeclaration as error:
            problems.append(f"{escaped(where)}: {error}")
            return
        if isinstance(declared, Implementation):
            implementations.setdefault((declared.group, declared.name), declared)
        else:
            known.setdefault(declared.group, declared.implementations)

    for where in declaration_paths(paths, folders, problems):
        try:
            document = _parse_json(read_file(where))
        except InvalidDeclaration as error:
            problems.append(f"{escaped(where)}: {error}")
        else:
            add(where, document)
    for name, document in (table or {}).items():
        add(f"{TABLE}:{name}", document)
    ordered = tuple(implementations[key] for key in sorted(implementations))
    return Declarations(ordered, known, tuple(problems))


def read(data: bytes, where: str) -> Implementation | KnownGroup:
    """Return the declaration in a file.

    :param data: the content; its first `MAX_FILE_SIZE` + 1 bytes are enough.
    """
    return _parse(_parse_json(data), where)


def as_table(paths: Iterable[object], folders: Iterable[str] = ()) -> str:
    """Return the source of a module with the declarations in the folders on a search path."""
    documents: dict[str, object] = {}
    for where in declaration_paths(paths, folders):
        try:
            name = os.path.basename(where)  # noqa: PTH119 - a string, as in `sys.path`
            documents.setdefault(name, _parse_json(read_file(where)))
        except InvalidDeclaration:
            continue
    # As JSON: Python has no literal for NaN, and its parser limits nested brackets to 200.
    lines = "".join(
        f"    {name!r}: json.loads({json.dumps(document)!r}),\n"
        for name, document in sorted(documents.items())
    )
    title = f'"""The declarations in the folders {FOLDER} when this was written."""'
    return f"{title}\n\nimport json\n\nTABLE = {{\n{lines}}}\n"


def _parse_json(data: bytes) -> object:
    """Return the parsed content of a JSON file, of any type."""
    if len(data) > MAX_FILE_SIZE:
        raise InvalidDeclaration(f"is larger than {MAX_FILE_SIZE} bytes")
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidDeclaration(f"is not JSON ({str(error)[:200]})") from None


def _parse(document: object, where: str) -> Implementation | KnownGroup:
    if not isinstance(document, dict):
        raise InvalidDeclaration("is not a JSON object")
    schema = _number(document, "schema", 1, 1 << 30)
    if schema > _SCHEMA:
        raise InvalidDeclaration(f"has schema {schema}, written for a newer wheelfit")
    group = _name(document, "group")
    if "implementation" not in document:
        return KnownGroup(group, _known_implementations(document))
    single_valued_features, ranked_features = _dimensions(document)
    return Implementation(
        group,
        _name(document, "implementation"),
        _matching(document, "module", _MODULE),
        _properties(document),
        _number(document, "priority", -MAX_PRIORITY, MAX_PRIORITY, default=0),
        _text(document, "distribution") if "distribution" in document else "",
        single_valued_features,
        ranked_features,
        where,
    )


def _known_implementations(document: dict[str, Any]) -> tuple[KnownImplementation, ...]:
    items = _items(document, "known")
    if not all(isinstance(item, dict) for item in items):
        raise InvalidDeclaration("known has an entry that is not an object")
    return tuple(
        KnownImplementation(
            _name(item, "implementation"), _text(item, "install"), _properties(item)
        )
        for item in items
    )


def _items(document: dict[str, Any], key: str) -> list[Any]:
    items = document.get(key, [])
    if not isinstance(items, list):
        raise InvalidDeclaration(f"{key} is not a list")
    if len(items) > MAX_ITEMS:
        raise InvalidDeclaration(f"{key} has more than {MAX_ITEMS} entries")
    return items


def _properties(document: dict[str, Any]) -> tuple[Property, ...]:
    values: dict[Feature, list[str]] = {}
    for text in _items(document, "properties"):
        match = _PROPERTY.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InvalidDeclaration(
                f"properties: {_quoted(text)} is not a property, as x86_64 :: level :: v3"
            )
        values.setdefault(Feature(match[1], match[2]), []).append(match[3])
    return tuple(
        Property(feature, tuple(dict.fromkeys(values[feature]))) for feature in sorted(values)
    )


def _dimensions(document: dict[str, Any]) -> tuple[tuple[Feature, ...], tuple[Property, ...]]:
    """Return the declared dimensions: features without a built-in meaning."""
    dimensions = document.get("dimensions", {})
    if not isinstance(dimensions, dict) or len(dimensions) > MAX_ITEMS:
        raise InvalidDeclaration("dimensions is not an object, or too large")
    single_valued, ranked = [], []
    for text, kind in dimensions.items():
        match = _FEATURE.fullmatch(text)
        if match is None:
            raise InvalidDeclaration(
                f"dimensions: {_quoted(text)} is not a feature, as acme :: protocol"
            )
        feature = Feature(match[1], match[2])
        if kind == REQUIREMENT:
            single_valued.append(feature)
        elif isinstance(kind, list) and 0 < len(kind) <= MAX_ITEMS and all(map(_is_value, kind)):
            ranked.append(Property(feature, tuple(kind)))
        else:
            raise InvalidDeclaration(
                f"dimensions: {text} is neither {REQUIREMENT!r} nor a list of values"
            )
    return tuple(single_valued), tuple(ranked)


def _is_value(value: object) -> bool:
    return isinstance(value, str) and _VALUE.fullmatch(value) is not None


def _number(
    document: dict[str, Any], key: str, low: int, high: int, *, default: int | None = None
) -> int:
    value = document.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidDeclaration(f"{key} is missing, or not a number from {low} to {high}")
    return value


def _name(document: dict[str, Any], key: str) -> str:
    return _matching(document, key, _NAME)


def _text(document: dict[str, Any], key: str) -> str:
    value = document.get(key)
    if (
        not isinstance(value, str)
        or not value.isprintable()
        or not 0 < len(value) <= MAX_TEXT_LENGTH
    ):
        raise InvalidDeclaration(f"{key} is missing or not a valid name: {_quoted(value)}")
    return value


def _matching(document: dict[str, Any], key: str, form: Any) -> str:
    value = document.get(key)
    if not isinstance(value, str) or form.fullmatch(value) is None:
        raise InvalidDeclaration(f"{key} is missing or not a valid name: {_quoted(value)}")
    return value


def _quoted(value: object) -> str:
    text = value if isinstance(value, str) else type(value).__name__
    return repr(text[:80])
