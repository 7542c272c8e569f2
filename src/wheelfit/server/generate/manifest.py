"""The published content of an index, stored beside its pages.

From it a later run reads when a file was first published, which releases to leave unchanged, and
which files are no longer on any page.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wheelfit.core.filename import parse_index_file_name
from wheelfit.sources.page import File, OtherPages
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Mapping


MANIFEST = "simple/wheelfit.json"
"""Its path: with the pages, so that it is removed with them."""
_VERSION = 1
_NAME = r"(?!\.)[^/\\\0]+"
_PAGE = re.compile(rf"simple/(?:{_NAME}/)?index\.(?:html|json)")
_PART = re.compile(
    rf"files/[0-9a-f]{{16}}/{_NAME}|simple/{_NAME}/[0-9a-f]{{16}}/{_NAME}|(?:{_NAME}/)*{_NAME}\.metadata"
)
"""Paths of files of an index: no others are ever removed. The last are beside wheels of an index
that is generated in place."""


@dataclass(frozen=True, slots=True)
class IndexManifest:
    """The published content of an index."""

    files: Mapping[str, tuple[File, ...]] = field(default_factory=dict)
    """By project: the entries of its page."""
    pages: Mapping[str, str] = field(default_factory=dict)
    """By path: the digest of each page."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """By path: the digest of every other file that was put there, named by a page or not."""
    unreferenced: frozenset[str] = frozenset()
    """Those of the parts that no page names any more."""
    removed: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 by name of files that were published once and are on no page any more."""
    elsewhere: Mapping[str, OtherPages] = field(default_factory=dict)
    """The other locations on each project's page, for projects that have some."""

    def published_hashes(self) -> dict[str, str]:
        """Return the SHA-256 of every file that was ever published, except index files, by name."""
        listed = {
            file.filename: file.hashes["sha256"]
            for files in self.files.values()
            for file in files
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
        return IndexManifest(
            {
                project: tuple(File(**{**file, "hashes": dict(file["hashes"])}) for file in files)
                for project, files in document["projects"].items()
            },
            dict(document["pages"]),
            dict(document["parts"]),
            frozenset(document["left"]),
            dict(document.get("gone", {})),
            {
                project: OtherPages(tuple(pages["tracks"]), tuple(pages["alternates"]))
                for project, pages in document.get("elsewhere", {}).items()
            },
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise FileProblem(
            f"the manifest {MANIFEST} cannot be read: {str(error)[:100]}",
            where=where,
            hint="remove that file to publish everything anew",
        ) from None


def _check(document: Mapping[str, Any]) -> None:
    """Raise on an unknown version, and on paths outside an index: a forger could remove files."""
    if document["version"] != _VERSION:
        raise ValueError(f"it has version {document['version']}, not {_VERSION}")
    for key, pattern in (("pages", _PAGE), ("parts", _PART)):
        for path in document[key]:
            if not pattern.fullmatch(path):
                raise ValueError(f"it names {path!r}, which is not a file of an index")


def write_manifest(manifest: IndexManifest) -> bytes:
    """Return the bytes of a manifest: equal ones for equal content."""
    document: dict[str, Any] = {
        "version": _VERSION,
        "projects": {
            project: [_mapping(file) for file in manifest.files[project]]
            for project in sorted(manifest.files)
        },
        "pages": dict(sorted(manifest.pages.items())),
        "parts": dict(sorted(manifest.parts.items())),
        "left": sorted(manifest.unreferenced),
        "gone": dict(sorted(manifest.removed.items())),
    }
    if manifest.elsewhere:
        document["elsewhere"] = {
            project: {"tracks": pages.tracks, "alternates": pages.alternates}
            for project, pages in sorted(manifest.elsewhere.items())
        }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, default=dict)
    return text.encode()


_FIELDS = (
    *("filename", "url", "hashes", "requires_python", "yanked", "size", "upload_time"),
    *("metadata_hashes", "provenance"),
)


def _mapping(file: File) -> dict[str, Any]:
    return {name: value for name in _FIELDS if (value := getattr(file, name)) is not None}
