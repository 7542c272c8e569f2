"""The published content of an index, stored beside its pages.

A later run takes from it the first publication of each file, the releases that stay unchanged, and
the files that are no longer on any page.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct, ValidationError, convert
from msgspec.structs import asdict

from wheelfit.core.filename import parse_index_file_name
from wheelfit.sources.page import File
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Mapping


MANIFEST = "simple/wheelfit.json"
"""The path of the manifest: beside the pages, so that it is removed with them."""
_VERSION = 1
_NAME = r"(?!\.)[^/\\\0]+"
_PAGE = re.compile(rf"simple/(?:{_NAME}/)?index\.(?:html|json)")
_FILE = re.compile(
    rf"files/[0-9a-f]{{16}}/{_NAME}|simple/{_NAME}/[0-9a-f]{{16}}/{_NAME}|(?:{_NAME}/)*{_NAME}\.metadata"
)
"""Paths of files of an index; no other files are ever removed. The last alternative is for files
beside the wheels of an index that is generated in place."""


class _Entry(Struct, forbid_unknown_fields=True):
    """The fields of a `File` that a manifest has."""

    filename: str
    url: str
    hashes: dict[str, str]
    requires_python: str | None = None
    yanked: str | None = None
    size: int | None = None
    upload_time: str | None = None
    metadata_hashes: dict[str, str] | None = None
    provenance: str | None = None


@dataclass(frozen=True, slots=True)
class IndexManifest:
    """The published content of an index."""

    entries: Mapping[str, tuple[File, ...]] = field(default_factory=dict)
    """The entries of each page, by project."""
    pages: Mapping[str, str] = field(default_factory=dict)
    """The digest of each page, by path."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The digest of every other written file, by path, whether a page lists it or not."""
    unreferenced: frozenset[str] = frozenset()
    """The paths of the files that are no longer on any page."""
    removed: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of published files that are no longer on any page, by name."""

    def published_hashes(self) -> dict[str, str]:
        """Return the SHA-256 of every file that was ever published, except index files, by name."""
        listed = {
            file.filename: file.hashes["sha256"]
            for entries in self.entries.values()
            for file in entries
            if "sha256" in file.hashes and parse_index_file_name(file.filename) is None
        }
        return {**self.removed, **listed}


def read_manifest(data: bytes | None, *, where: str) -> IndexManifest:
    """Read a manifest.

    :param data: its bytes; None: nothing was published yet.
    :raises FileProblem: it is not a manifest; then nothing may be published over it.
    """
    if data is None:
        return IndexManifest()
    try:
        document = json.loads(data)
        _check(document)
        projects = convert(document["projects"], dict[str, list[_Entry]])
        return IndexManifest(
            {
                project: tuple(File(**asdict(entry)) for entry in entries)
                for project, entries in projects.items()
            },
            convert(document["pages"], dict[str, str]),
            convert(document["files"], dict[str, str]),
            convert(document["unreferenced"], frozenset[str]),
            convert(document.get("removed", {}), dict[str, str]),
        )
    except (ValueError, LookupError, TypeError, AttributeError, ValidationError) as error:
        raise FileProblem(
            f"the manifest {MANIFEST} cannot be read: {str(error)[:100]}",
            where=where,
            hint="remove that file to publish everything anew",
        ) from None


def _check(document: Mapping[str, Any]) -> None:
    """Raise on an unknown version, or on a path that is not in an index, as it may be removed."""
    if document["version"] != _VERSION:
        raise ValueError(f"it has version {document['version']}, not {_VERSION}")
    for key, pattern in (("pages", _PAGE), ("files", _FILE)):
        for path in document[key]:
            if not pattern.fullmatch(path):
                raise ValueError(f"it names {path!r}, which is not a file of an index")


def write_manifest(manifest: IndexManifest) -> bytes:
    """Return the bytes of a manifest; equal content gives equal bytes."""
    document: dict[str, Any] = {
        "version": _VERSION,
        "projects": {
            project: [_mapping(file) for file in manifest.entries[project]]
            for project in sorted(manifest.entries)
        },
        "pages": dict(sorted(manifest.pages.items())),
        "files": dict(sorted(manifest.files.items())),
        "unreferenced": sorted(manifest.unreferenced),
        "removed": dict(sorted(manifest.removed.items())),
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, default=dict)
    return text.encode()


def _mapping(file: File) -> dict[str, Any]:
    fields = ((name, getattr(file, name)) for name in _Entry.__struct_fields__)
    return {name: value for name, value in fields if value is not None}
