"""The static metadata of a project, read without its backend (PEP 621, PEP 643).

Metadata is used only if none of the fields that an installer needs can change in a build: name,
version, required Python, requirements and extras.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from wheelfit.core import strict_toml
from wheelfit.core.core_metadata import CoreMetadata, read_metadata
from wheelfit.errors import InvalidSource
from wheelfit_runtime.errors import InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


_MAX_SIZE = 16 << 20
_RELEVANT_FIELDS = frozenset(
    {"name", "version", "requires-python", "requires-dist", "provides-extra"}
)
"""The fields of core metadata that an installer needs."""
_RELEVANT_KEYS = frozenset({"version", "requires-python", "dependencies", "optional-dependencies"})
"""The keys of ``[project]`` for these fields, except the name, which is never dynamic."""
_FIRST_RELIABLE_VERSION = (2, 2)
"""The first version of core metadata in which fields not marked as dynamic are fixed."""


def is_project(folder: Path) -> bool:
    """Return whether a folder is a project that can be built."""
    return (folder / "pyproject.toml").is_file() or (folder / "setup.py").is_file()


def core_metadata_of(data: bytes, where: str) -> CoreMetadata:
    """Read core metadata of a project."""
    try:
        return read_metadata(data, where)
    except InvalidWheel as error:
        raise InvalidSource(error.message, where=where) from None


def read_sdist_metadata(folder: Path) -> tuple[bytes | None, bool]:
    """Read ``PKG-INFO`` of an unpacked source distribution.

    :return: its bytes, None if it is missing; and whether it `is_reliable`.
    """
    data = _read(folder / "PKG-INFO")
    return data, data is not None and is_reliable(data)


def is_reliable(data: bytes) -> bool:
    """Return whether no field that an installer needs can change in a build (PEP 643)."""
    raw, _ = parse_email(data)
    try:
        version = tuple(int(part) for part in raw.get("metadata_version", "").split("."))
    except ValueError:
        return False
    dynamic = {field.lower() for field in raw.get("dynamic", ())}
    return (
        version >= _FIRST_RELIABLE_VERSION
        and not dynamic & _RELEVANT_FIELDS
        and {"name", "version"} <= raw.keys()
    )


def read_pyproject_name(folder: Path) -> NormalizedName | None:
    """Read the name of a project in its ``pyproject.toml``, where it is never dynamic (PEP 621).

    :return: None if the file lacks a valid name.
    """
    try:
        project = strict_toml.load(_read(folder / "pyproject.toml") or b"")["project"]
        return canonicalize_name(project["name"], validate=True)
    except (ValueError, TypeError, KeyError):
        return None


def read_pyproject_metadata(folder: Path) -> bytes | None:
    """Read the metadata of a project in its ``pyproject.toml``, as core metadata.

    :return: None if the file lacks it, or leaves a part of it to the build backend.
    """
    try:
        project = strict_toml.load(_read(folder / "pyproject.toml") or b"").get("project")
        if not isinstance(project, dict) or _RELEVANT_KEYS & set(_list(project.get("dynamic", []))):
            return None
        return "".join(f"{name}: {value}\n" for name, value in _headers(project)).encode()
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # its backend reports the fault better


def _headers(project: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Metadata-Version", "2.2"
    yield "Name", canonicalize_name(project["name"], validate=True)
    yield "Version", str(Version(project["version"]))
    if "requires-python" in project:
        yield "Requires-Python", _single_line(project["requires-python"])
    for text in _list(project.get("dependencies", [])):
        yield "Requires-Dist", str(_requirement(text))
    for extra, texts in project.get("optional-dependencies", {}).items():
        name = canonicalize_name(extra, validate=True)
        yield "Provides-Extra", name
        for text in _list(texts):
            requirement = _requirement(text)
            marker = f'extra == "{name}"'
            if requirement.marker is not None:
                marker = f"({requirement.marker}) and {marker}"
            requirement.marker = None
            space = " " if requirement.url else ""
            yield "Requires-Dist", f"{requirement}{space}; {marker}"


def _requirement(text: str) -> Requirement:
    """Return a requirement; raise if only its backend, such as Hatchling, knows its URL."""
    requirement = Requirement(text)
    if "{" in (requirement.url or ""):  # such as {root:uri}
        raise ValueError(text)
    return requirement


def _list(value: Any) -> list[Any]:
    """Return a list; raise if it is another value, such as a string, which has elements as well."""
    if not isinstance(value, list):
        raise TypeError(value)
    return value


def _single_line(text: str) -> str:
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
