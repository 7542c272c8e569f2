"""The validation of a lock file.

`packaging.pylock` validates the standard, and stops at the first fault. This module adds checks of
labels in file names, of variant markers, and of the tables that wheelfit adds.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.markers import parse_marker
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.strict_json import path_of, shown
from wheelfit.core.versions import has_too_many_digits, parse_version
from wheelfit.errors import InvalidFilename, InvalidMarker, InvalidRequirement
from wheelfit.sources.urls import last_segment
from wheelfit_runtime.errors import Fault, InvalidLock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VARIANTS = "variants-json"
"""The table of a package that inlines the variant metadata of its release (F-115)."""
TOOL = "wheelfit"
"""The name of wheelfit's tables below ``tool``."""
ROOTS = "roots"
"""wheelfit's array in the lock: the requirements that it was made for (F-121)."""
CONFLICTS = "conflicts"
"""wheelfit's array in the lock: extras and groups, as markers, of which at most one holds."""
VARIANT_DEPENDENCIES = "variant-dependencies"
"""wheelfit's table in a package: label to the requirements of its wheel (F-121)."""
PACKAGES = "packages"
"""wheelfit's array in the lock: entries it reads in place of the standard ones of a release."""

_MAX_FAULTS = 100
_FIRST_VERSION, _NEXT_MAJOR = Version("1"), Version("2")
"""The bounds of the format versions that packaging accepts."""
_EMPTY_LOCK: Mapping[str, Any] = {"lock-version": "1.0", "created-by": "x", "packages": []}
"""The smallest valid lock."""
_VERSION_KEYS = ("requires-python", "version", "lock-version")


def check_lock(table: Mapping[str, Any]) -> None:
    """Check a lock file.

    :raises InvalidLock: the lock is invalid; the error lists the first fault that packaging finds,
        and all that wheelfit finds. The caller checks the tables of variant metadata.
    """
    faults = _faults(table)
    own_packages = tool_table(table).get(PACKAGES)
    if own_packages is not None:
        place = path_of("tool", TOOL, PACKAGES)
        faults += [
            Fault(place + fault.path.removeprefix(PACKAGES), fault.message, fault.rule)
            for fault in _faults({**_EMPTY_LOCK, "packages": own_packages}, joins_builds=True)
        ]
    if faults:
        raise InvalidLock(limited(faults))


def _faults(table: Mapping[str, Any], *, joins_builds: bool = False) -> list[Fault]:
    """Return the faults of a lock.

    :param joins_builds: whether an entry without a local version may list wheels with one, such as
        1.0+cu126 for 1.0.
    """
    faults = list(islice(_own_faults(table), _MAX_FAULTS + 1))
    standard_fault = _first_fault(_without_labels(table, joins_builds=joins_builds))
    if standard_fault is not None and standard_fault.path not in {fault.path for fault in faults}:
        faults.append(standard_fault)
    return faults


def limited(faults: Sequence[Fault]) -> Sequence[Fault]:
    """Return the first faults, with a note if there are more."""
    if len(faults) <= _MAX_FAULTS:
        return faults
    return [*faults[:_MAX_FAULTS], Fault("", "and more faults")]


def tool_table(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return wheelfit's table below ``tool``; empty if there is none.

    :param table: the file, or one of its packages.
    """
    tool = table.get("tool")
    own = tool.get(TOOL) if isinstance(tool, Mapping) else None
    return own if isinstance(own, Mapping) else {}


def file_name_of(entry: Mapping[str, Any]) -> str | None:
    """Return the name of a locked file, which may be the end of its path or URL (PEP 751).

    :param entry: one of ``packages.wheels``, or ``packages.archive``.
    """
    for key in ("name", "path", "url"):
        value = entry.get(key)
        if isinstance(value, str) and value:
            if key == "url":
                return last_segment(value)
            return value if key == "name" else re.split(r"[/\\]", value)[-1]
    return None


# --- own checks ------------------------------------------------------------------------


def _own_faults(table: Mapping[str, Any]) -> Iterator[Fault]:
    environments = table.get("environments")
    for index, text in enumerate(environments if isinstance(environments, list) else ()):
        yield from _marker_faults(("environments", index), text)
    yield from _number_faults((), table)
    yield from _tool_faults((), table)
    roots = tool_table(table).get(ROOTS)
    if roots is not None:
        yield from _requirement_faults(("tool", TOOL, ROOTS), roots)
    yield from _conflict_faults(tool_table(table).get(CONFLICTS, []))
    packages = table.get("packages")
    for index, package in enumerate(packages if isinstance(packages, list) else ()):
        if isinstance(package, Mapping):
            yield from _package_faults(("packages", index), package)
        else:
            yield Fault(path_of("packages", index), f"expected a table, found {shown(package)}")


def _conflict_faults(value: object) -> Iterator[Fault]:
    steps = ("tool", TOOL, CONFLICTS)
    if not isinstance(value, list):
        yield Fault(path_of(*steps), f"expected an array, found {shown(value)}")
        return
    for index, members in enumerate(value):
        if not isinstance(members, list) or not all(isinstance(member, str) for member in members):
            yield Fault(path_of(*steps, index), "expected an array of markers")
            continue
        for marker_index, text in enumerate(members):
            yield from _marker_faults((*steps, index, marker_index), text)


def _package_faults(steps: tuple[str | int, ...], package: Mapping[str, Any]) -> Iterator[Fault]:
    if "marker" in package:
        yield from _marker_faults((*steps, "marker"), package["marker"])
    yield from _number_faults(steps, package)
    yield from _tool_faults(steps, package)
    versions = set()
    wheels = package.get("wheels")
    for index, wheel in enumerate(wheels if isinstance(wheels, list) else ()):
        text = file_name_of(wheel) if isinstance(wheel, Mapping) else None
        if text is None:
            continue
        try:
            versions.add(parse_wheel_filename(text).version.public)
        except InvalidFilename as error:
            yield Fault(path_of(*steps, "wheels", index), error.message, "F-12")
    if len(versions) > 1 and "version" not in package:
        problem = "is missing, although the versions of the wheels differ"
        yield Fault(path_of(*steps, "version"), problem)
    dependencies = tool_table(package).get(VARIANT_DEPENDENCIES)
    if dependencies is None:
        return
    steps = (*steps, "tool", TOOL, VARIANT_DEPENDENCIES)
    if not isinstance(dependencies, Mapping):
        yield Fault(path_of(*steps), f"expected a table, found {shown(dependencies)}", "F-121")
        return
    for label, texts in dependencies.items():
        yield from _requirement_faults((*steps, label), texts)


def _marker_faults(steps: tuple[str | int, ...], text: object) -> Iterator[Fault]:
    if not isinstance(text, str):
        return  # packaging reports it
    try:
        marker = parse_marker(text)
    except InvalidMarker as error:
        yield Fault(path_of(*steps), f"{shown(text)} is not a marker: {error.message}")
        return
    variable = marker.first_variant_variable
    if variable is not None:
        problem = f"{variable.name} cannot be used here, as there is no wheel to apply it to"
        yield Fault(path_of(*steps), problem, "F-109")


def _number_faults(steps: tuple[str | int, ...], table: Mapping[str, Any]) -> Iterator[Fault]:
    for key in _VERSION_KEYS:
        text = table.get(key)
        if isinstance(text, str) and has_too_many_digits(text):
            yield Fault(path_of(*steps, key), "a number in it has too many digits")


def _tool_faults(steps: tuple[str | int, ...], table: Mapping[str, Any]) -> Iterator[Fault]:
    tool = table.get("tool")
    if isinstance(tool, Mapping) and not isinstance(tool.get(TOOL, {}), Mapping):
        value = shown(tool[TOOL])
        yield Fault(path_of(*steps, "tool", TOOL), f"expected a table, found {value}")


def _requirement_faults(steps: tuple[str | int, ...], texts: object) -> Iterator[Fault]:
    if not isinstance(texts, list):
        yield Fault(path_of(*steps), f"expected an array, found {shown(texts)}", "F-121")
        return
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            yield Fault(path_of(*steps, index), f"expected a string, found {shown(text)}", "F-121")
            continue
        try:
            parse_requirement(text, allow_variant_markers=False)
        except InvalidRequirement as error:
            problem = f"{shown(text)} is not a requirement: {error.message}"
            yield Fault(path_of(*steps, index), problem, "F-109")


# --- checks by packaging -----------------------------------------------------------------


def _without_labels(table: Mapping[str, Any], *, joins_builds: bool) -> dict[str, Any]:
    """Return a lock for packaging, whose wheels have no labels in their names.

    :param joins_builds: whether local versions are removed from the names too.
    """
    plain = dict(table)
    version = table.get("lock-version")
    if isinstance(version, str) and _is_supported_version(version):
        plain["lock-version"] = "1.0"  # packaging warns about newer minor versions
    packages = table.get("packages")
    if isinstance(packages, list):
        plain["packages"] = [
            _plain_package(package, joins_builds=joins_builds)
            if isinstance(package, Mapping)
            else package
            for package in packages
        ]
    return plain


def _is_supported_version(version: str) -> bool:
    try:
        return _FIRST_VERSION <= parse_version(version) < _NEXT_MAJOR
    except InvalidVersion:
        return False


def _plain_package(package: Mapping[str, Any], *, joins_builds: bool) -> dict[str, Any]:
    plain = {key: value for key, value in package.items() if key != VARIANTS}
    wheels = package.get("wheels")
    is_joined = joins_builds and "version" in package and "+" not in str(package["version"])
    if isinstance(wheels, list):
        plain["wheels"] = [
            _plain_wheel(wheel, is_joined=is_joined) if isinstance(wheel, Mapping) else wheel
            for wheel in wheels
        ]
    return plain


def _plain_wheel(wheel: Mapping[str, Any], *, is_joined: bool) -> Mapping[str, Any]:
    text = file_name_of(wheel)
    if text is None:
        return wheel
    try:
        filename = parse_wheel_filename(text)
    except InvalidFilename:
        return wheel
    if is_joined and filename.version.local:
        name, _, rest = filename.plain.split("-", 2)
        return {**wheel, "name": f"{name}-{filename.version.public}-{rest}"}
    return {**wheel, "name": filename.plain} if filename.is_variant else wheel


def _first_fault(table: Mapping[str, Any]) -> Fault | None:
    """Return the fault at which packaging stops; None if it reads the whole lock."""
    # Imported only here: locks that are known to be valid save its 20 ms.
    from packaging.pylock import Pylock, PylockValidationError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unknown escapes in markers
            Pylock.from_dict(table)
    except PylockValidationError as error:
        message = error.message.partition("\n")[0]  # further lines point at the position
        return Fault(error.context or "", f"{message[:1].lower()}{message[1:]}")
    return None
