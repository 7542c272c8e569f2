"""A mirror of a local index, called without a socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wheelfit.server.messages import Request, Response
from wheelfit.server.simple import SimpleIndex
from wheelfit.server.store.folder import FolderBlobs
from wheelfit.server.upstream.mirrored import MirroredIndex
from wheelfit.server.upstream.opening import open_mirror
from wheelfit.server.upstream.pulled_files import PulledFiles
from wheelfit.server.upstream.settings import MirrorSettings
from wheelfit.sources.advisories import Advisories
from wheelfit_runtime.errors import NetworkError

JSON = "application/vnd.pypi.simple.v1+json"


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Mirroring:
    """A mirror and its notes."""

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        cache: bool = True,
        denied: Advisories | None = None,
        **settings: Any,
    ) -> None:
        self.notes: list[str] = []
        self.clock = Clock()
        self.blobs = FolderBlobs(folder / "blobs")
        defaults: dict[str, Any] = {"timeout": 5.0}
        self.settings = MirrorSettings(url, **{**defaults, **settings})
        self.index: MirroredIndex = open_mirror(
            self.settings,
            PulledFiles(self.blobs, self.settings.max_size, clock=self.clock),
            folder / "cache" if cache else None,
            environ={},
            note=self.notes.append,
            clock=self.clock,
            advisories=denied,
        )
        self.application = SimpleIndex(self.index)

    def ask(
        self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> Response:
        """Request a path; a failing upstream becomes 502, as in a server."""
        try:
            return self.application(Request(method, path, headers or {"accept": JSON}))
        except NetworkError as error:
            return Response.text(502, error.message)

    def page(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the entries of a page by name."""
        answer = self.ask(f"/simple/{name}/")
        assert answer.status == 200, b"".join(answer.body)
        return {file["filename"]: file for file in json.loads(b"".join(answer.body))["files"]}

    def file(self, filename: str) -> bytes:
        """Return all bytes of a file."""
        answer = self.ask(f"/files/{filename}")
        assert answer.status == 200, b"".join(answer.body)
        data = read(answer)
        assert len(data) == answer.length
        return data

    def kept(self) -> dict[str, int]:
        """Return the sizes of the stored files by digest, once all downloads ended."""
        join_pulls()
        return {one.sha256: one.size for one in self.blobs.all_blobs()}

    def close(self) -> None:
        """Close the mirror."""
        self.index.close()


def join_pulls() -> None:
    """Wait until all downloads ended."""
    for thread in threading.enumerate():
        if thread.name == "pull":
            thread.join()


def read(answer: Response) -> bytes:
    """Return the bytes that a client gets, which may be incomplete."""
    pieces: list[bytes] = []
    try:
        pieces.extend(answer.body)
    except Exception as error:  # noqa: BLE001 - a server cuts the connection, whatever it is
        del error
    return b"".join(pieces)
