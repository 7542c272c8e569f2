"""The promises of a library about its binary interface: ``[variant.abi-exports]`` (B-61, P-47).

The table states how many numbers of the library's version matter to packages that link with it, and
the files that they link with. It is no requirement of the library: wheels carry it in a file of its
own, `FILE`, and not in ``variant.json``.
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
    """Those with the same first number."""
    MINOR = "minor"
    """Those with the same first two numbers."""
    PATCH = "patch"
    """Those with the same first three numbers."""

    @property
    def numbers(self) -> int:
        """The count of release numbers that must be equal."""
        return list(AbiLevel).index(self) + 1


@dataclass(frozen=True, slots=True)
class AbiExports:
    """The promises of a library to its users."""

    level: AbiLevel = AbiLevel.MINOR
    libraries: tuple[str, ...] = ()
    """Patterns of file names, such as ``libfast*.so*``; empty: every library of the wheel."""

    def covers(self, name: str) -> bool:
        """Return whether the promises are about a library."""
        from fnmatch import fnmatchcase

        return not self.libraries or any(fnmatchcase(name, library) for library in self.libraries)


_LIBRARIES, _LEVEL = "libraries", "level"


def read_abi_exports(table: object) -> tuple[AbiExports | None, list[Fault]]:
    """Read the table, and return it with all its faults.

    >>> read_abi_exports({"level": "minor"})[0].level
    <AbiLevel.MINOR: 'minor'>
    """
    faults = FaultList("B-61")
    reader = Table({}, faults).subtable(table, KEY)
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

    :raises InvalidDocument: it has faults; lists all of them.
    """
    exports, faults = read_abi_exports(table)
    if exports is None:
        raise InvalidDocument(faults)
    return exports


def parse_abi_exports(data: bytes, *, where: str) -> AbiExports:
    """Read the file of a wheel.

    :raises InvalidDocument: it has faults.
    """
    document = strict_json.load(data)
    schema = document.pop("schema", None)
    if schema != _SCHEMA or isinstance(schema, bool):
        fault = Fault("schema", f"must be {_SCHEMA}, not {strict_json.shown(schema)}", "B-61")
        raise InvalidDocument([fault], where=where)
    exports, faults = read_abi_exports(document)
    if exports is None:
        raise InvalidDocument(
            [fault._replace(path=fault.path.removeprefix(f"{KEY}.")) for fault in faults],
            where=where,
        )
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

    A value covers what the library promises, and never more: in a group with incompatible releases,
    compatible ones are named by three numbers.

    >>> from packaging.version import Version
    >>> tested = {Version("1.9"): False, Version("2.0"): True, Version("2.0.1"): True}
    >>> values_for({**tested, Version("2.1.0"): True, Version("2.1.1"): False}, AbiExports())
    ('2.0', '2.1.0')
    """
    groups: dict[str, list[Version]] = {}
    for version in sorted(compatible):
        if not version.epoch:  # P-48: a value never admits one
            groups.setdefault(exported_value(version, exports), []).append(version)
    patch = AbiExports(AbiLevel.PATCH)
    values: dict[str, None] = {}
    for value, versions in groups.items():
        if all(compatible[version] for version in versions):
            values[value] = None
            continue
        refused = {
            exported_value(version, patch) for version in versions if not compatible[version]
        }
        for version in versions:
            exact = exported_value(version, patch)
            if compatible[version] and exact not in refused:
                values[exact] = None
    return tuple(values)
