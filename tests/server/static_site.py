"""A folder of prepared pages, with generated wheels for their links."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote

from wheelfit.core.filename import WheelFilename, index_file_name, parse_wheel_filename
from wheelfit.errors import InvalidFilename
from wheelfit.server.messages import Request, Response, content_response
from wheelfit.testing.wheels import stub_wheels_for

_TYPES = {".html": "text/html; charset=utf-8", ".json": "application/json"}
_ELSEWHERE = re.compile(rb'href="https?://[^"#?]*/([^"/#?]+\.whl)[^"]*"')


class StaticSite:
    """A tree of pages served under ``/simple/``: an `Application`.

    ``index.html`` stands for its folder, as with any static host.

    :param stubs: a folder for wheels that are made up. Links to wheels on other hosts
        are then turned into links to this one, without their hashes. A wheel that is
        asked for and not there is made: a tiny one, with the properties that the index
        file beside its page gives to its label.
    :param requires: dependencies of the wheels made up, by normalised project name.
    """

    def __init__(
        self,
        tree: Path,
        *,
        stubs: Path | None = None,
        requires: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        self._tree = tree
        self._stubs = stubs
        self._requires = {name: tuple(texts) for name, texts in (requires or {}).items()}
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        first, *segments = (unquote(part) for part in request.path.split("/")[1:])
        if first != "simple" or not segments:
            return _missing()
        *folders, last = segments
        path = self._tree.joinpath(*folders, last or "index.html")
        if path.is_dir():
            return Response.text(301, "see there", {"location": f"{request.path}/"})
        if not path.is_file():
            stub = self._stub(path)
            return _missing() if stub is None else _answer(request, stub, stub.read_bytes())
        content = path.read_bytes()
        if self._stubs is not None and path.suffix == ".html":
            content = _ELSEWHERE.sub(rb'href="\1"', content)
        return _answer(request, path, content)

    def _stub(self, wanted: Path) -> Path | None:
        """Make up a wheel that is not there."""
        if self._stubs is None:
            return None
        try:
            filename = parse_wheel_filename(wanted.name)
        except InvalidFilename:
            return None
        stub = self._stubs / wanted.name
        with self._lock:
            if not stub.exists():
                stub_wheels_for(
                    self._stubs,
                    [wanted.name],
                    self._document(wanted.parent, filename),
                    requires=self._requires.get(filename.name, ()),
                )
        return stub

    def _document(self, folder: Path, filename: WheelFilename) -> dict[str, object] | None:
        path = folder / index_file_name(filename.name, filename.version)
        if not filename.is_variant or not path.is_file():
            return None
        document: dict[str, object] = json.loads(path.read_bytes())
        return document


def _answer(request: Request, path: Path, content: bytes) -> Response:
    etag = f'"{hashlib.sha256(content).hexdigest()}"'
    headers = {"content-type": _TYPES.get(path.suffix, "application/octet-stream")}
    return content_response(request, content, len(content), etag=etag, headers=headers)


def _missing() -> Response:
    return Response.text(404, "there is no such page or file")
