"""Read the small files in which implementations and their groups declare themselves.

`declaration_files` finds them. A frozen application has them as data files, or as a module of data.
A faulty file is reported and ignored, so that no import fails.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from wheelfit_runtime.loader.declaration_checks import REQUIREMENT, checked, split_property
from wheelfit_runtime.loader.declaration_files import (
    FOLDER,
    MAX_FILE_SIZE,
    TABLE,
    InvalidDeclaration,
    declaration_paths,
    escaped,
    read_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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


def _parse(content: object, where: str) -> Implementation | KnownGroup:
    document = checked(content)
    if "implementation" not in document:
        known = (
            KnownImplementation(item["implementation"], item["install"], _properties(item))
            for item in document.get("known", ())
        )
        return KnownGroup(document["group"], tuple(known))
    dimensions = {
        Feature(*split_property(text)): kind
        for text, kind in document.get("dimensions", {}).items()
    }
    return Implementation(
        document["group"],
        document["implementation"],
        document["module"],
        _properties(document),
        document.get("priority", 0),
        document.get("distribution", ""),
        tuple(feature for feature, kind in dimensions.items() if kind == REQUIREMENT),
        tuple(
            Property(feature, tuple(kind))
            for feature, kind in dimensions.items()
            if kind != REQUIREMENT
        ),
        where,
    )


def _properties(document: dict[str, Any]) -> tuple[Property, ...]:
    values: dict[Feature, list[str]] = {}
    for text in document.get("properties", ()):
        namespace, feature, value = split_property(text)
        values.setdefault(Feature(namespace, feature), []).append(value)
    return tuple(
        Property(feature, tuple(dict.fromkeys(values[feature]))) for feature in sorted(values)
    )
