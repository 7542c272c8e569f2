"""The static metadata of a project, read without its backend (PEP 621, PEP 643).

Core metadata counts only if the fields that decide an installation are promised not to change in a
build: name, version, required Python, requirements and extras.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelfit.core import strict_toml
from wheelfit.core.core_metadata import read_metadata
from wheelfit.errors import InvalidSource
from wheelfit_runtime.errors import InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.core.core_metadata import CoreMetadata

_MAX_SIZE = 16 << 20
_DECISIVE = frozenset({"name", "version", "requires-python", "requires-dist", "provides-extra"})
_DYNAMIC = frozenset({"version", "requires-python", "dependencies", "optional-dependencies"})
_RELIABLE = (2, 2)
"""The first version of core metadata in which fields not marked as dynamic are fixed."""


def is_project(folder: Path) -> bool:
    """Return whether a folder holds a project that can be built."""
    return (folder / "pyproject.toml").is_file() or (folder / "setup.py").is_file()


def core_metadata_of(data: bytes, where: str) -> CoreMetadata:
    """Read core metadata of a project."""
    try:
        return read_metadata(data, where)
    except InvalidWheel as error:
        raise InvalidSource(error.message, where=where) from None


def of_archive(folder: Path) -> tuple[bytes | None, bool]:
    """Return ``PKG-INFO`` of an unpacked source distribution, and whether it can be relied on.

    :returns: None where there is none.
    """
    data = _read(folder / "PKG-INFO")
    return data, data is not None and is_reliable(data)


def is_reliable(data: bytes) -> bool:
    """Return whether the fields that decide an installation cannot change in a build (PEP 643)."""
    raw, _ = parse_email(data)
    try:
        version = tuple(int(part) for part in raw.get("metadata_version", "").split("."))
    except ValueError:
        return False
    dynamic = {field.lower() for field in raw.get("dynamic", ())}
    return version >= _RELIABLE and not dynamic & _DECISIVE and {"name", "version"} <= raw.keys()


def of_project_file(folder: Path) -> bytes | None:
    """Return the core metadata in the ``pyproject.toml`` of a project.

    :returns: None where only its backend has it.
    """
    data = _read(folder / "pyproject.toml")
    return None if data is None else metadata_in_file(data)


def name_of(folder: Path) -> NormalizedName | None:
    """Return the name that ``pyproject.toml`` of a project has, which is never dynamic (PEP 621).

    :returns: None where only its backend has it.
    """
    try:
        project = strict_toml.load(_read(folder / "pyproject.toml") or b"")["project"]
        return canonicalize_name(project["name"], validate=True)
    except (ValueError, TypeError, KeyError, InvalidName):
        return None


def metadata_in_file(data: bytes) -> bytes | None:
    """Return the metadata in a ``pyproject.toml``; None where only the backend has it."""
    try:
        project = strict_toml.load(data).get("project")
        if not isinstance(project, dict) or _DYNAMIC & set(project.get("dynamic", ())):
            return None
        return "".join(f"{name}: {value}\n" for name, value in _headers(project)).encode()
    except (ValueError, TypeError, KeyError, AttributeError, InvalidRequirement, InvalidVersion):
        return None  # its backend reports the fault better


def _headers(project: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Metadata-Version", "2.2"
    yield "Name", canonicalize_name(project["name"], validate=True)
    yield "Version", str(Version(project["version"]))
    if "requires-python" in project:
        yield "Requires-Python", _line(project["requires-python"])
    for text in project.get("dependencies", []):
        yield "Requires-Dist", str(Requirement(text))
    for extra, texts in project.get("optional-dependencies", {}).items():
        name = canonicalize_name(extra, validate=True)
        yield "Provides-Extra", name
        for text in texts:
            requirement = Requirement(text)
            marker = f'extra == "{name}"'
            if requirement.marker is not None:
                marker = f"({requirement.marker}) and {marker}"
            requirement.marker = None
            space = " " if requirement.url else ""
            yield "Requires-Dist", f"{requirement}{space}; {marker}"


def _line(text: str) -> str:
    """Return a text; raise if it has several lines."""
    if "\n" in text or "\r" in text:
        raise ValueError(text)
    return text


def _read(path: Path) -> bytes | None:
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            data = file.read(_MAX_SIZE + 1)
    except OSError:
        return None
    return data if len(data) <= _MAX_SIZE else None
