"""An index over the files of one folder.

The folder is looked at with every request, so that a new file is listed at
once; what was learnt of a file is kept until the file changes.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from wheelfit.core.filename import parse_wheel_filename, project_of
from wheelfit.server.messages import Answer, FilePart
from wheelfit.server.simple import SimpleIndex
from wheelfit.sources.file_readers import ReadsContent
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.repository import Content, content_of, url_of
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.dist_info import header_value
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.server.messages import Request


_METADATA_SUFFIX = ".metadata"
_Signature = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Known:
    """The facts of one file."""

    signature: _Signature
    path: Path
    file: File
    metadata: bytes | None


class FolderIndex(ReadsContent):
    """The files of a folder: an `Index`, and an `Application` that answers for it.

    ``/simple/``, ``/simple/{project}/``, ``/files/{file}``, and beside each wheel
    ``/files/{file}.metadata`` (PEP 658). A wheel that cannot be opened is
    listed without metadata.

    :param folder: its wheels, source distributions and ``-variants.json`` are
        served; whatever lies in folders inside it is not.
    """

    def __init__(self, folder: Path, *, revise: Callable[[File], File] = lambda file: file) -> None:
        self._answer = SimpleIndex(self)
        self._folder = folder
        self.name = str(folder)
        self._revise = revise
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Answer:
        """Answer a request."""
        try:
            return self._answer(request)
        except FileNotFoundError:  # it went away meanwhile
            return Answer.text(404, "there is no such page or file")

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of all projects there are files of."""
        names = {project_of(path.name) for path in self._paths()}
        return tuple(sorted(name for name in names if name is not None))

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project; None if there is no file of it."""
        paths = [path for path in self._paths() if project_of(path.name) == name]
        if not paths:
            return None
        files = tuple(self._revise(self._look(path).file) for path in paths)
        return ProjectPage(name, files, source=self.name)

    def stamp(self, name: NormalizedName) -> None:  # noqa: ARG002 - of the interface
        """Return that pages are to be made anew: the folder may change at any time."""
        return

    def content(self, filename: str) -> Content | None:
        """Return the bytes of a file, or of the METADATA of a wheel."""
        wheel = filename.removesuffix(_METADATA_SUFFIX)
        for path in self._paths():
            if path.name == filename:
                known = self._look(path)
                parts = partial(FilePart, path)
                return Content(known.signature[2], known.file.hashes["sha256"], parts)
            if path.name == wheel:
                metadata = self._look(path).metadata
                return None if metadata is None else content_of(metadata)
        return None

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` inside a variant wheel, which is at hand."""
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

    def _look(self, path: Path) -> _Known:
        """Return what is known of a file, and look at it if it is new or has changed."""
        status = path.stat()
        signature = (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        known = self._known.get(path.name)
        if known is None or known.signature != signature:
            with self._lock:
                known = _describe(path, signature)
                self._known[path.name] = known
        return known


def _describe(path: Path, signature: _Signature) -> _Known:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    metadata = _metadata(path)
    entry = File(
        filename=path.name,
        url=url_of(path.name),
        hashes={"sha256": digest},
        requires_python=None if metadata is None else header_value(metadata, "Requires-Python"),
        size=signature[2],
        metadata_hashes=None if metadata is None else {"sha256": _sha256(metadata)},
    )
    return _Known(signature, path, entry, metadata)


def _metadata(path: Path) -> bytes | None:
    if path.suffix != ".whl":
        return None
    try:
        with WheelArchive(path) as wheel:
            return wheel.metadata()
    except WheelfitError:
        return None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
