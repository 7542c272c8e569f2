"""An index over the files of one folder.

The folder is listed with every request, so that a new file appears at once; the facts of a file
are cached until it changes.
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wheelfit.core.filename import parse_wheel_filename, project_of
from wheelfit.server.messages import FilePart, Request, Response, not_found
from wheelfit.server.simple import SimpleIndex
from wheelfit.sources.file_readers import ContentFiles
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.repository import Content, content_of, url_of
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.dist_info import header_value
from wheelfit.wheels.record import sha256_of_file
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packaging.utils import NormalizedName


_METADATA_SUFFIX = ".metadata"
_Signature = tuple[int, int, int, int, int]
"""Device, inode, size, and the times of the last changes of content and status."""


@dataclass(frozen=True, slots=True)
class _FileFacts:
    """The facts of one file."""

    signature: _Signature
    path: Path
    file: File
    metadata: bytes | None


class FolderIndex(ContentFiles):
    """An index of the files of a folder: an `Index`, and an `Application` that serves it.

    It serves ``/simple/``, ``/simple/{project}/``, ``/files/{file}``, and beside each wheel
    ``/files/{file}.metadata`` (PEP 658). A wheel that cannot be opened is listed without metadata.

    :param folder: its wheels, source distributions and ``-variants.json`` are served; subfolders
        are not.
    :param edit_entry: returns the entry of a file on a page from the original one.
    """

    def __init__(
        self, folder: Path, *, edit_entry: Callable[[File], File] = lambda file: file
    ) -> None:
        self._simple_index = SimpleIndex(self)
        self._folder = folder
        self.name = str(folder)
        self._edit_entry = edit_entry
        self._facts: dict[str, _FileFacts] = {}
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        try:
            return self._simple_index(request)
        except FileNotFoundError:  # the file was removed after it was listed
            return not_found()

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of all projects with files."""
        names = {project_of(path.name) for path in self._paths()}
        return tuple(sorted(name for name in names if name is not None))

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project; None if it has no file."""
        paths = [path for path in self._paths() if project_of(path.name) == name]
        if not paths:
            return None
        files = tuple(self._edit_entry(self._facts_of(path).file) for path in paths)
        return ProjectPage(name, files, source=self.name)

    def stamp(self, name: NormalizedName) -> None:  # noqa: ARG002 - of the interface
        """Return None: the folder may change at any time."""
        return

    def content(self, filename: str) -> Content | None:
        """Return the bytes of a file, or of the METADATA of a wheel."""
        wheel = filename.removesuffix(_METADATA_SUFFIX)
        for path in self._paths():
            if path.name == filename:
                facts = self._facts_of(path)
                parts = partial(FilePart, path)
                return Content(facts.signature[2], facts.file.hashes["sha256"], parts)
            if path.name == wheel:
                metadata = self._facts_of(path).metadata
                return None if metadata is None else content_of(metadata)
        return None

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` inside a local variant wheel."""
        if not parse_wheel_filename(file.filename).is_variant:  # F-10
            return None
        with WheelArchive(self._folder / file.filename) as wheel:
            return wheel.variant_document()

    def _paths(self) -> list[Path]:
        """List the files that are served."""
        return sorted(
            path
            for path in self._folder.iterdir()
            if project_of(path.name) is not None and path.is_file()
        )

    def _facts_of(self, path: Path) -> _FileFacts:
        """Return the facts of a file, which is read if it is new or has changed."""
        status = path.stat()
        signature = (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        facts = self._facts.get(path.name)
        if facts is None or facts.signature != signature:
            with self._lock:
                facts = self._facts[path.name] = _FileFacts(signature, path, *describe_file(path))
        return facts


def describe_file(path: Path, *, lenient: bool = False) -> tuple[File, bytes | None]:
    """Return the entry of a file in an index, and the METADATA of a wheel that can be read.

    :param lenient: whether METADATA of damaged wheels is used, too.
    """
    digest = sha256_of_file(path)
    metadata = None
    if path.suffix == ".whl":
        with suppress(WheelfitError), WheelArchive(path, lenient=lenient) as wheel:
            metadata = wheel.metadata()
    entry = File(path.name, url_of(path.name), {"sha256": digest}, size=path.stat().st_size)
    if metadata is None:
        return entry, None
    hashes = {"sha256": hashlib.sha256(metadata).hexdigest()}
    python = header_value(metadata, "Requires-Python")
    return replace(entry, requires_python=python, metadata_hashes=hashes), metadata
