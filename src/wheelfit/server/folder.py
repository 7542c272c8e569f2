"""An index over the files of one folder.

The folder is looked at with every request, so that a new file is listed at
once; what was learnt of a file is kept until the file changes.
"""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from packaging.utils import (
    NormalizedName,
    canonicalize_name,
    parse_sdist_filename,
)

from wheelfit.core.filename import parse_index_file_name, parse_wheel_filename
from wheelfit.errors import InvalidFilename, WheelfitError
from wheelfit.server.messages import Answer, Request, as_asked
from wheelfit.server.pages import choose_type, write_project, write_projects
from wheelfit.sources.page import File, ProjectPage
from wheelfit.values import dataclass
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.dist_info import header_value

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


__all__ = ["FolderIndex", "project_of"]


def __dir__() -> list[str]:
    return __all__


_METADATA_SUFFIX = ".metadata"
_TYPES = {".json": "application/json", ".metadata": "text/plain; charset=utf-8"}
_Signature = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Known:
    """Hold what was learnt of one file."""

    signature: _Signature
    path: Path
    file: File
    metadata: bytes | None


class FolderIndex:
    """Answer requests for pages and files: an `Application`.

    ``/simple/``, ``/simple/{project}/``, ``/files/{file}``, and beside each wheel
    ``/files/{file}.metadata`` (PEP 658). A wheel that cannot be opened is
    listed without metadata.

    :param folder: its wheels, source distributions and ``-variants.json`` are
        served; whatever lies in folders inside it is not.
    :param revise: has the last word about every entry of a page.
    """

    def __init__(self, folder: Path, *, revise: Callable[[File], File] = lambda file: file) -> None:
        self._folder = folder
        self._revise = revise
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Answer:
        """Answer a request."""
        try:
            return self._route(request)
        except FileNotFoundError:
            return _missing()  # it went away meanwhile

    def _route(self, request: Request) -> Answer:
        segments = [unquote(part, errors="replace") for part in request.path.split("/")[1:]]
        match segments:
            case [""] | ["simple"]:
                return _redirect("/simple/")
            case ["simple", ""]:
                return self._projects(request)
            case ["simple", project]:
                return _redirect(f"/simple/{quote(canonicalize_name(project), safe='')}/")
            case ["simple", project, ""]:
                return self._project(request, project)
            case ["files", name]:
                return self._file(request, name)
        return _missing()

    # --- pages ----------------------------------------------------------------------

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of all projects there are files of."""
        names = {project_of(path.name) for path in self._paths()}
        return tuple(sorted(name for name in names if name is not None))

    def project(self, name: NormalizedName, origin: str) -> ProjectPage | None:
        """Return the page of a project; None if there is no file of it.

        :param name: the normalised name.
        :param origin: what the URLs of the files begin with.
        """
        paths = [path for path in self._paths() if project_of(path.name) == name]
        if not paths:
            return None
        files = tuple(self._revise(self._look(path, origin).file) for path in paths)
        return ProjectPage(name, files, source=origin)

    def _projects(self, request: Request) -> Answer:
        media_type = choose_type(request.headers.get("accept"))
        if media_type is None:
            return _unacceptable()
        return _page(request, media_type, write_projects(self.projects(), media_type))

    def _project(self, request: Request, name: str) -> Answer:
        normalised = canonicalize_name(name)
        if name != normalised:
            return _redirect(f"/simple/{quote(normalised, safe='')}/")
        media_type = choose_type(request.headers.get("accept"))
        if media_type is None:
            return _unacceptable()
        page = self.project(normalised, request.origin)
        if page is None:
            return _missing()
        return _page(request, media_type, write_project(page, media_type))

    # --- files ------------------------------------------------------------------------

    def _file(self, request: Request, name: str) -> Answer:
        # Names are only compared with those that are there, so none leads elsewhere.
        wheel = name.removesuffix(_METADATA_SUFFIX)
        for path in self._paths():
            if path.name == name:
                known = self._look(path, request.origin)
                kind = _TYPES.get(path.suffix, "application/octet-stream")
                size = known.signature[2]
                digest = known.file.hashes["sha256"]
                return as_asked(request, path, size, etag=f'"{digest}"', headers=_headers(kind))
            if path.name == wheel:
                metadata = self._look(path, request.origin).metadata
                if metadata is None:
                    break
                etag = f'"{_sha256(metadata)}"'
                headers = _headers(_TYPES[_METADATA_SUFFIX])
                return as_asked(request, metadata, len(metadata), etag=etag, headers=headers)
        return _missing()

    def _paths(self) -> list[Path]:
        """List the files that are served."""
        return sorted(
            path
            for path in self._folder.iterdir()
            if project_of(path.name) is not None and path.is_file()
        )

    def _look(self, path: Path, origin: str) -> _Known:
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
                known = _describe(path, signature, origin)
                self._known[path.name] = known
        return known


def project_of(filename: str) -> NormalizedName | None:
    """Return whose file this is by its name; None for files that no index lists."""
    if (release := parse_index_file_name(filename)) is not None:
        return release[0]
    try:
        if filename.endswith(".whl"):
            return parse_wheel_filename(filename).name
        return parse_sdist_filename(filename)[0]
    except (InvalidFilename, ValueError):  # the latter also for endless numbers
        return None


def _describe(path: Path, signature: _Signature, origin: str) -> _Known:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    metadata = _metadata(path)
    entry = File(
        filename=path.name,
        url=f"{origin}/files/{quote(path.name, safe='')}",
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


def _headers(media_type: str) -> dict[str, str]:
    return {"content-type": media_type, "cache-control": "no-cache"}


def _page(request: Request, media_type: str, content: bytes) -> Answer:
    charset = "" if media_type.endswith("json") else "; charset=utf-8"
    headers = {**_headers(media_type + charset), "vary": "Accept"}
    etag = f'"{_sha256(content)}"'
    return as_asked(request, content, len(content), etag=etag, headers=headers)


def _redirect(path: str) -> Answer:
    return Answer.text(301, "see there", {"location": path})


def _missing() -> Answer:
    return Answer.text(404, "there is no such page or file")


def _unacceptable() -> Answer:
    return Answer.text(406, "pages can be had as JSON and HTML of the Simple API")
