"""An index on the loopback interface that repeats a real one, and counts.

Everything is fetched from the configured index once and then answered from memory, so that tools
are compared on equal terms: no tool waits for somebody else's server, and what each one asked for
is known. Pages have an ``ETag``, and are called fresh for as long as the benchmark wants.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

import urllib3

from wheelfit.operations.pip_rules import pip_config_locations
from wheelfit.server.messages import Request, Response, content_response
from wheelfit.sources.certificates import verifying_context
from wheelfit.sources.open import open_sources
from wheelfit.sources.page import File
from wheelfit.sources.pip_configuration import read_pip_configuration
from wheelfit.sources.settings import SourceSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PAGE = "application/vnd.pypi.simple.v1+json"
WHEEL = ".whl"
Value = TypeVar("Value")


@dataclass
class Count:
    """What one run of a tool asked for."""

    pages: int = 0
    """Pages of projects that were sent."""
    unchanged: int = 0
    """Pages that the tool had, and asked about."""
    metadata: int = 0
    """Metadata files, and parts of wheels."""
    wheels: int = 0
    """Whole wheels and source distributions."""
    sent: int = 0
    """Bytes of all bodies."""


@dataclass(frozen=True)
class Page:
    """A page in both forms, and its tag."""

    plain: bytes
    packed: bytes
    etag: str


@dataclass
class CountingIndex:
    """Implement the application of a ``LoopbackServer``."""

    fresh: int = 600
    """Seconds for which a page is called fresh."""
    delay: float = 0.0
    """Seconds that pass before each answer, as on a long line."""
    count: Count = field(default_factory=Count)
    has_metadata: bool = False
    """Whether METADATA of every wheel is offered beside it (PEP 658), read out of it by ranges."""

    def __post_init__(self) -> None:
        view = pip_config_locations(os.environ, None)
        settings = read_pip_configuration(view)
        self._upstream = settings.index_url.rstrip("/")
        context = verifying_context(settings.cert, None, environ=os.environ)
        self._pool = urllib3.PoolManager(maxsize=16, ssl_context=context)
        sources = SourceSettings(index_url=settings.index_url, cert=settings.cert)
        self._sources = open_sources(sources, cache_folder=None, environ=os.environ)
        self._places: dict[str, str] = {}
        self._known: dict[str, Future[object]] = {}
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        time.sleep(self.delay)
        _, kind, *rest = request.path.split("/")
        if kind == "simple" and rest and rest[0]:
            return self._page(request, rest[0])
        if kind == "files":
            return self._file(request, "/".join(rest))
        return Response.text(404, "there is nothing here")

    # --- pages ----------------------------------------------------------------------

    def _page(self, request: Request, name: str) -> Response:
        page = self._once(f"page {name}", lambda: self._fetch_page(name, request.origin))
        if page is None:
            return Response.text(404, "there is no such project")
        headers = {
            "content-type": PAGE,
            "cache-control": f"max-age={self.fresh}, public",
            "etag": page.etag,
            "vary": "accept, accept-encoding",
        }
        if request.headers.get("if-none-match") == page.etag:
            self._counted(unchanged=1)
            return Response(304, headers)
        packed = "gzip" in request.headers.get("accept-encoding", "")
        body = page.packed if packed else page.plain
        self._counted(pages=1, sent=len(body))
        return Response.of(200, body, headers | ({"content-encoding": "gzip"} if packed else {}))

    def _fetch_page(self, name: str, origin: str) -> Page | None:
        response = self._pool.request("GET", f"{self._upstream}/{name}/", headers={"accept": PAGE})
        if response.status != 200:
            return None
        page = json.loads(response.data)
        for file in page["files"]:
            place = f"{hashlib.sha256(file['url'].encode()).hexdigest()[:16]}/{file['filename']}"
            self._places[place] = file["url"]
            file["url"] = f"{origin}/files/{place}"
            if self.has_metadata and file["filename"].endswith(WHEEL):
                file["core-metadata"] = True
        plain = json.dumps(page).encode()
        etag = f'"{hashlib.sha256(plain).hexdigest()[:32]}"'
        return Page(plain, gzip.compress(plain, 6), etag)

    # --- files ----------------------------------------------------------------------

    def _file(self, request: Request, place: str) -> Response:
        place = unquote(place)
        url = self._places.get(place.removesuffix(".metadata"))
        if url is None:
            return Response.text(404, "there is no such file")
        if place.endswith(".metadata"):
            data = self._once(f"metadata {url}", lambda: self._metadata(place, url))
        else:
            data = self._once(url, lambda: self._fetch(url))
        if data is None:
            return Response.text(404, "there is no such file")
        headers = {
            "content-type": "application/octet-stream",
            "cache-control": "max-age=365000000, immutable, public",
        }
        etag = f'"{hashlib.sha256(url.encode()).hexdigest()[:32]}"'
        answer = content_response(request, data, len(data), etag=etag, headers=headers)
        if request.method == "HEAD":
            self._counted()
        elif place.endswith(".metadata") or answer.status == 206:
            self._counted(metadata=1, sent=answer.length)
        else:
            self._counted(wheels=1, sent=answer.length)
        return answer

    def _fetch(self, url: str) -> bytes | None:
        response = self._pool.request("GET", url)
        return response.data if response.status == 200 else None

    def _metadata(self, place: str, url: str) -> bytes | None:
        if not self.has_metadata:
            return self._fetch(f"{url}.metadata")
        filename = place.partition("/")[2].removesuffix(".metadata")
        return self._sources.metadata(File(filename, url))

    # --- both -----------------------------------------------------------------------

    def _once(self, key: str, work: Callable[[], Value]) -> Value:
        with self._lock:
            future = self._known.get(key)
            mine = future is None
            if future is None:
                future = self._known[key] = Future()
        if mine:
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)
                raise
        return future.result()  # type: ignore[return-value]

    def _counted(self, **more: int) -> None:
        with self._lock:
            now: Mapping[str, int] = vars(self.count)
            self.count = replace(self.count, **{name: now[name] + n for name, n in more.items()})
