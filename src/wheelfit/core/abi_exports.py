"""The promises of a library about its binary interface: ``[variant.abi-exports]`` (B-61, P-47).

The table states how many numbers of a version the users of the library must be built for, and the
files they link with. It is for those users, not a requirement of the library itself: it never gets
into ``variant.json``. Wheels carry it to them in a file of its own, `FILE`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from wheelfit.core import strict_json
from wheelfit.core.table_reader import FaultList, Table
from wheelfit_runtime.errors import Fault, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.version import Version

KEY = "abi-exports"
"""Name of the table inside ``[variant]``."""
FILE = "abi-exports.json"
"""Name of the file inside dist-info by which a wheel carries the table."""
_SCHEMA = 1


class AbiLevel(StrEnum):
    """The level of releases that have the same binary interface."""

    MAJOR = "major"
    """All that have the same first number."""
    MINOR = "minor"
    """All that have the same first two numbers."""
    PATCH = "patch"
    """None but those that have the same three numbers."""

    @property
    def numbers(self) -> int:
        """The count of release numbers that must be equal."""
        return list(AbiLevel).index(self) + 1


@dataclass(frozen=True, slots=True)
class AbiExports:
    """The promises of a library to its users."""

    level: AbiLevel = AbiLevel.MINOR
    libraries: tuple[str, ...] = ()
    """Patterns of file names, as ``libfast*.so*``; none: every library of the wheel counts."""

    def has(self, name: str) -> bool:
        """Return whether users link with a library."""
        from fnmatch import fnmatchcase

        return not self.libraries or any(fnmatchcase(name, library) for library in self.libraries)


_LIBRARIES, _LEVEL = "libraries", "level"


def read_abi_exports(table: object) -> tuple[AbiExports | None, list[Fault]]:
    """Read the table; return it, and all its faults.

    >>> read_abi_exports({"level": "minor"})[0].level
    <AbiLevel.MINOR: 'minor'>
    """
    faults = FaultList("B-61")
    reader = Table({}, faults).below(table, KEY)
    if faults:
        return None, faults
    reader.only(_LEVEL, _LIBRARIES)
    levels = [level.value for level in AbiLevel]
    level = reader.required(_LEVEL)
    if level and level not in levels:
        reader.must_be(f"one of {', '.join(levels)}", level, _LEVEL)
    libraries = reader.strings(_LIBRARIES)
    return (None if faults else AbiExports(AbiLevel(level), libraries)), faults


def require_abi_exports(table: object) -> AbiExports:
    """Read the table.

    :raises InvalidDocument: it has faults; names all of them.
    """
    exports, faults = read_abi_exports(table)
    if exports is None:
        raise InvalidDocument(faults)
    return exports


def parse_abi_exports(data: bytes, *, where: str) -> AbiExports:
    """Read the file of a wheel."""
    document = strict_json.load(data)
    schema = document.pop("schema", None)
    if schema != _SCHEMA or isinstance(schema, bool):
        fault = Fault("schema", f"must be {_SCHEMA}, not {strict_json.shown(schema)}", "B-61")
        raise InvalidDocument([fault], where=where)
    exports, faults = read_abi_exports(document)
    if exports is None:
        inside = [one._replace(path=one.path.removeprefix(f"{KEY}.")) for one in faults]
        raise InvalidDocument(inside, where=where)
    return exports


def write_abi_exports(exports: AbiExports) -> bytes:
    r"""Return the file that carries the table in a wheel.

    >>> write_abi_exports(AbiExports(AbiLevel.MAJOR, ("libfast*",)))
    b'{"level": "major", "libraries": ["libfast*"], "schema": 1}\n'
    """
    document: dict[str, object] = {"schema": _SCHEMA, "level": exports.level.value}
    if exports.libraries:
        document["libraries"] = list(exports.libraries)
    return f"{json.dumps(document, sort_keys=True)}\n".encode()


def exported_value(version: Version, exports: AbiExports) -> str:
    """Return the value of ``abi_dependency`` for a build against a version (P-47, P-48).

    >>> from packaging.version import Version
    >>> exported_value(Version("2.8.1+cu128"), AbiExports(AbiLevel.MINOR))
    '2.8'

    :param version: the version of the library, without an epoch.
    """
    return ".".join(map(str, (*version.release, 0, 0)[: exports.level.numbers]))


def values_for(compatible: Mapping[Version, bool], exports: AbiExports) -> tuple[str, ...]:
    """Return the fewest values that admit exactly the compatible releases (P-48).

    A value stands for as much as the library promises, and never for more; in a group with
    incompatible releases, compatible ones are named by three numbers.

    >>> from packaging.version import Version
    >>> found = {Version("1.9"): False, Version("2.0"): True, Version("2.0.1"): True}
    >>> values_for({**found, Version("2.1.0"): True, Version("2.1.1"): False}, AbiExports())
    ('2.0', '2.1.0')
    """
    groups: dict[str, list[Version]] = {}
    for version in sorted(compatible):
        if not version.epoch:  # P-48: a value never admits one
            groups.setdefault(exported_value(version, exports), []).append(version)
    patch = AbiExports(AbiLevel.PATCH)
    values: dict[str, None] = {}
    for value, versions in groups.items():
        if all(compatible[one] for one in versions):
            values[value] = None
            continue
        refused = {exported_value(one, patch) for one in versions if not compatible[one]}
        for one in versions:
            exact = exported_value(one, patch)
            if compatible[one] and exact not in refused:
                values[exact] = None
    return tuple(values)
