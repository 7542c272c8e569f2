"""An index with the legacy upload API, which lists each file at once without checks."""

from __future__ import annotations

import base64
import shutil
import threading
from pathlib import Path

from packaging.utils import canonicalize_name
from web_servers import AnsweringServer

from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import Disconnect, Request, Response
from wheelfit.server.store.folder import FolderBlobs
from wheelfit.server.uploads.form import read_form
from wheelfit.sources.page import File


def listed_files(folder: Path, project: str) -> dict[str, File]:
    """Return the files of a project that an index of a folder lists, by name."""
    page = FolderIndex(folder).project(canonicalize_name(project))
    return {file.filename: file for file in page.files} if page else {}


class LegacyIndex(AnsweringServer):
    """Serve a folder at ``/simple/``, and take what is posted to ``/``; a context manager.

    :param folder: where files go.
    :param certificate: of the server, which speaks TLS then.
    """

    def __init__(self, folder: Path, certificate: Path | None = None) -> None:
        super().__init__(certificate)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.uploads: list[str] = []
        """Names in the order in which they came, refused ones included."""
        self.fields: dict[str, dict[str, tuple[str, ...]]] = {}
        """By name: what came with a file."""
        self.answers: dict[str, list[Response]] = {}
        """By name: what is answered instead of taking a file, one after the other."""
        self.swallows: frozenset[str] = frozenset()
        """Names of files that are taken with a 200, and not kept."""
        self.after_uploads: dict[str, Response] = {}
        """By path: what is answered instead of a page as soon as somebody has uploaded."""
        self.pages: dict[str, Response] = {}
        """By path, or method and path: what is answered instead of a page."""
        self.dropped: dict[str, int] = {}
        """By name: how often the connection is cut instead."""
        self.login: tuple[str, str] | None = None
        """Who may upload; None: everybody."""
        self.reached = threading.Event()
        """Set as soon as somebody uploads."""
        self._blobs = FolderBlobs(folder / ".blobs")
        self._pages = FolderIndex(folder)

    @property
    def url(self) -> str:
        """The address for uploads."""
        return f"{self.origin}/"

    @property
    def simple(self) -> str:
        """The URL of the index."""
        return f"{self.url}simple/"

    @property
    def names(self) -> set[str]:
        """The names of its files."""
        return {path.name for path in self.folder.iterdir() if path.is_file()}

    def answer(self, request: Request) -> Response:
        """Answer a request."""
        if f"{request.method} {request.path}" in self.pages:
            return self.pages[f"{request.method} {request.path}"]
        if request.method != "POST":
            if self.uploads and request.path in self.after_uploads:
                return self.after_uploads[request.path]
            return self.pages.get(request.path) or self._pages(request)
        if self.login is not None:
            pair = base64.b64encode(":".join(self.login).encode()).decode()
            if request.headers.get("authorization") != f"Basic {pair}":
                return Response.text(403, "wrong user", {})
        with read_form(
            request.body, request.headers["content-type"], self._blobs.draft()
        ) as upload:
            name = upload.filename
            self.uploads.append(name)
            self.reached.set()
            self.fields[name] = dict(upload.fields)
            if self.dropped.get(name, 0):
                self.dropped[name] -= 1
                raise Disconnect
            if self.answers.get(name):
                return self.answers[name].pop(0)
            if name not in self.swallows:
                shutil.copyfile(upload.draft.path, self.folder / name)
        return Response.text(200, "taken")
