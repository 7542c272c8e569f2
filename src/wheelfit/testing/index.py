"""An index that records requests, counts sent bytes, and has faults on request."""

from __future__ import annotations

import base64
import itertools
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

from msgspec import structs

from wheelfit.server.folder import FolderIndex
from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.messages import Application, Disconnect, Request, Response

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from wheelfit.sources.page import File


_V = TypeVar("_V")
_PIECE = 1 << 10
"""Bytes sent at once by a slow response (`Faults.trickle`)."""


@dataclass
class Faults:
    """The faults of an index; may be changed while it runs.

    In the dictionaries, the key is a whole path (``/simple/torch/``), the name of a
    file (``torch-2.9.0-variants.json``), a path that ends in a slash for everything below it
    (``/files/``), or ``*``. The first matching key is used, in this order.
    """

    ranges: bool = True
    """Whether requests for a range of bytes get one; otherwise they get the whole file."""
    metadata: bool = True
    """Whether METADATA is served beside wheels (PEP 658)."""
    hashes: bool = True
    """Whether pages list hashes."""
    sizes: bool = True
    """Whether pages list sizes."""
    html_only: bool = False
    """Whether pages are HTML, even if JSON is requested."""
    status: dict[str, int] = field(default_factory=dict)
    """The status of a response without content."""
    wrong_hash: set[str] = field(default_factory=set)
    """Names of files that pages list with a wrong hash."""
    wrong_metadata_hash: set[str] = field(default_factory=set)
    """The same for the METADATA beside them."""
    yanked: dict[str, str] = field(default_factory=dict)
    """Names of files that are yanked, with the reason."""
    content: dict[str, bytes] = field(default_factory=dict)
    """The bytes that are sent instead of the file."""
    truncate: dict[str, int] = field(default_factory=dict)
    """Bytes of the body after which the connection is closed."""
    stall: dict[str, int] = field(default_factory=dict)
    """Bytes of the body after which nothing more is sent on the open connection."""
    delay: dict[str, float] = field(default_factory=dict)
    """Seconds to wait before answering."""
    trickle: dict[str, float] = field(default_factory=dict)
    """Seconds to wait after every kilobyte of the body."""
    resets: dict[str, int] = field(default_factory=dict)
    """The number of resets of the connection before it works; counted down."""
    redirect: dict[str, str] = field(default_factory=dict)
    """The target of a redirect; for a key that ends in a slash the rest of the path is added."""
    login: tuple[str, str] | None = None
    """User and password without which all requests are refused (401)."""
    changing_etag: bool = False
    """Whether every response has another ETag, as if the file had changed."""


@dataclass
class RecordedRequest:
    """A request as received, and the size of its response."""

    method: str
    path: str
    """Path, percent-decoded."""
    headers: Mapping[str, str]
    """By lower-case name."""
    status: int = 0
    sent: int = 0
    """Bytes of the body that were sent."""


class RecordingIndex(LoopbackServer):
    """A server of the wheels of a folder, which records requests and has the faults of `Faults`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from urllib.request import urlopen
    >>> from wheelfit.testing.wheels import build_wheel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = build_wheel(Path(folder), "some", "1.0")
    ...     with RecordingIndex(Path(folder)) as index:
    ...         body = urlopen(index.file_url(path.name)).read()
    ...     index.bytes_sent(path.name) == len(body)
    True

    :param source: a folder of wheels, or an application.
    :param faults: the initial faults; None: an index without faults.
    """

    def __init__(self, source: Path | Application, *, faults: Faults | None = None) -> None:
        self.faults = faults if faults is not None else Faults()
        """The present faults."""
        self.requests: list[RecordedRequest] = []
        """Every request so far."""
        self._inner = (
            source if callable(source) else FolderIndex(source, edit_entry=self._edit_entry)
        )
        self._numbers = itertools.count()
        self._closing = threading.Event()
        super().__init__(self._respond)

    @property
    def url(self) -> str:
        """The URL to give to an installer."""
        return f"{self.origin}/simple/"

    def file_url(self, filename: str) -> str:
        """Return the URL of a file of the folder."""
        return f"{self.origin}/files/{filename}"

    def url_with_login(self, user: str, password: str) -> str:
        """Return the URL of the index with a login in it."""
        return self.url.replace("://", f"://{user}:{password}@")

    def requests_for(self, key: str) -> list[RecordedRequest]:
        """Return the requests for a path or the name of a file, see `Faults`."""
        return [request for request in self.requests if _matches(key, request.path)]

    def bytes_sent(self, key: str = "*") -> int:
        """Return the number of body bytes sent for a path or the name of a file."""
        return sum(request.sent for request in self.requests_for(key))

    def close(self) -> None:
        """Stop the server, even if responses stall."""
        self._closing.set()
        super().close()

    def clear_requests(self) -> None:
        """Clear the requests so far."""
        self.requests.clear()

    # --- answering ------------------------------------------------------------------

    def _respond(self, request: Request) -> Response:
        faults = self.faults
        recorded = RecordedRequest(request.method, unquote(request.path), request.headers)
        self.requests.append(recorded)
        path = recorded.path
        if (seconds := _find(faults.delay, path)) is not None:
            self._closing.wait(seconds)
        if (key := _key(faults.resets, path)) is not None and faults.resets[key] > 0:
            faults.resets[key] -= 1
            raise Disconnect
        response = self._refusal(request, path) or self._inner(
            self._without_unsupported_headers(request)
        )
        if (content := _find(faults.content, path)) is not None:
            response = Response.of(200, content, {"content-type": response.headers["content-type"]})
        if not faults.ranges:
            headers = {
                key: value for key, value in response.headers.items() if key != "accept-ranges"
            }
            response = replace(response, headers=headers)
        if faults.changing_etag and "etag" in response.headers:
            etag = f'"{next(self._numbers)}"'
            response = replace(response, headers={**response.headers, "etag": etag})
        recorded.status = response.status
        return replace(response, body=self._sent_body(response, path, recorded))

    def _refusal(self, request: Request, path: str) -> Response | None:
        """Return the response that a fault determines alone; None: there is none."""
        faults = self.faults
        if faults.login is not None:
            expected = base64.b64encode(":".join(faults.login).encode()).decode("ascii")
            if request.headers.get("authorization") != f"Basic {expected}":
                challenge = {"www-authenticate": 'Basic realm="index"'}
                return Response.text(401, "a login is needed", challenge)
        if (key := _key(faults.redirect, path)) is not None:
            rest_of_path = (
                request.path.removeprefix(key) if key.endswith("/") and key != path else ""
            )
            return Response.text(302, "moved", {"location": faults.redirect[key] + rest_of_path})
        if (status := _find(faults.status, path)) is not None:
            return Response.text(status, "status set by the test")
        if not faults.metadata and path.endswith(".metadata"):
            return Response.text(404, "there is no such file")
        return None

    def _without_unsupported_headers(self, request: Request) -> Request:
        """Remove headers from a request that the index pretends not to support."""
        headers = dict(request.headers)
        if not self.faults.ranges:
            headers.pop("range", None)
        if self.faults.html_only:
            headers["accept"] = "text/html"
        return replace(request, headers=headers)

    def _sent_body(
        self, response: Response, path: str, recorded: RecordedRequest
    ) -> Iterator[bytes]:
        """Yield the body and count it, slowly or only in part if a fault requires it."""
        stall = _find(self.faults.stall, path)
        remaining = _find(self.faults.truncate, path) if stall is None else stall
        pause = _find(self.faults.trickle, path)
        for chunk in response.body:
            size = _PIECE if pause is not None else max(1, len(chunk))
            for start in range(0, len(chunk), size):
                piece = chunk[start : start + size]
                if remaining is not None:
                    piece = piece[:remaining]
                    remaining -= len(piece)
                # Counted before it is sent, so that the count is right once a client has read all.
                recorded.sent += len(piece)
                yield piece
                if remaining == 0:
                    if stall is not None:
                        self._closing.wait()
                    return
                if pause is not None:
                    self._closing.wait(pause)

    def _edit_entry(self, file: File) -> File:
        faults = self.faults
        if file.filename in faults.wrong_hash:
            file = structs.replace(file, hashes={"sha256": "0" * 64})
        if file.filename in faults.wrong_metadata_hash and file.metadata_hashes is not None:
            file = structs.replace(file, metadata_hashes={"sha256": "0" * 64})
        if not faults.hashes:
            file = structs.replace(file, hashes={})
        if not faults.sizes:
            file = structs.replace(file, size=None)
        if not faults.metadata:
            file = structs.replace(file, metadata_hashes=None)
        if file.filename in faults.yanked:
            file = structs.replace(file, yanked=faults.yanked[file.filename])
        return file


def _matches(key: str, path: str) -> bool:
    return (
        key in ("*", path)
        or path.rpartition("/")[2] == key
        or (key.endswith("/") and path.startswith(key))
    )


def _key(mapping: Mapping[str, _V], path: str) -> str | None:
    for key in (path, path.rpartition("/")[2]):
        if key and key in mapping:
            return key
    folders = [key for key in mapping if key.endswith("/") and path.startswith(key)]
    if folders:
        return max(folders, key=len)
    return "*" if "*" in mapping else None


def _find(mapping: Mapping[str, _V], path: str) -> _V | None:
    key = _key(mapping, path)
    return None if key is None else mapping[key]
