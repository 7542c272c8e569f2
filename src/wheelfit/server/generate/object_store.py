"""An index on an object store, as S3.

Every change of an object is atomic, so nothing has to be cleaned up here; a lock object keeps two
runs from replacing pages at the same time.
"""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wheelfit.errors import EnvironmentBusy, StorageUnavailable
from wheelfit.server.generate.targets import SIMPLE, PublishedFile
from wheelfit.server.pages import JSON
from wheelfit.server.storage import (
    condition_errors,
    open_storage,
    reporting_storage_failures,
    without_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wheelfit.sources.progress import Progress


_CONCURRENT_REQUESTS = 8
_LOCK = f"{SIMPLE}/.lock"
_STALE = timedelta(minutes=10)
"""The age of a lock of a process that was killed: pages are replaced in seconds."""
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".metadata": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".xml": "application/atom+xml; charset=utf-8",
    ".provenance": "application/vnd.pypi.integrity.v1+json",
    "-variants.json": "application/json",
    "index.json": JSON,
    ".json": "application/json",
}
_UNCHANGING = re.compile(r"(?:files|simple/[^/]+)/[0-9a-f]{16}/[^/]+(?<!\.provenance)")
"""Paths with the digest of a file that decides the content, as it does not for provenance."""
_FOREVER = "public, max-age=31536000, immutable"
_REVALIDATE = "no-cache"


def open_object_store_target(url: str) -> ObjectStoreTarget:
    """Return the target that a URL names, as for `open_storage`."""
    return ObjectStoreTarget(open_storage(url), without_options(url))


class ObjectStoreTarget:
    """An index on an object store: a `Target`.

    :param store: a store of obstore, whose root is the root of the index.
    """

    def __init__(
        self, store: Any, name: str, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._store = store
        self.name = name
        self._now = now

    def lock(self) -> AbstractContextManager[None]:
        """Return a context without effect: files with their digest in the path never conflict."""
        return nullcontext()

    @contextmanager
    def page_lock(self) -> Iterator[None]:
        """Lock the target by an object that exists for the length of the block."""
        token = json.dumps({"since": self._now().isoformat()}).encode()
        if not (self._write_lock(token, "create") or self._replace_stale_lock(token)):
            raise EnvironmentBusy(
                "another process is publishing to this target",
                where=f"{self.name}/{_LOCK}",
                hint="try again when it has finished; the lock of a killed process expires "
                f"after {_STALE.seconds // 60} minutes",
            )
        try:
            yield
        finally:
            with suppress(StorageUnavailable):
                self.remove([_LOCK])

    def _write_lock(self, token: bytes, mode: Any) -> bool:
        """Create the lock, or replace a version of it; return False if another process has it."""
        try:
            with self._reporting_failures(_LOCK):
                self._store.put(_LOCK, token, mode=mode)
        except condition_errors():
            return False
        return True

    def _replace_stale_lock(self, token: bytes) -> bool:
        """Replace an abandoned lock; of several processes only one succeeds.

        It is not removed first: that could remove the new lock of another process.
        """
        try:
            with self._reporting_failures(_LOCK):
                lock = self._store.get(_LOCK)
                locked_at = datetime.fromisoformat(json.loads(bytes(lock.bytes()))["since"])
                version = {key: lock.meta[key] for key in ("e_tag", "version") if lock.meta[key]}
        except FileNotFoundError:
            return self._write_lock(token, "create")  # it was just removed
        except (ValueError, LookupError, TypeError):
            return False
        return self._now() - locked_at > _STALE and self._write_lock(token, version)

    def read(self, path: str) -> bytes | None:
        """Return a small object; None if there is none."""
        try:
            with self._reporting_failures(path):
                return bytes(self._store.get(path).bytes())
        except FileNotFoundError:
            return None

    def fetch(self, path: str, destination: Path) -> bool:
        """Download an object of any size; return False if it does not exist."""
        try:
            with self._reporting_failures(path), destination.open("wb") as file:
                for piece in self._store.get(path).stream():
                    file.write(piece)
        except FileNotFoundError:
            destination.unlink(missing_ok=True)
            return False
        return True

    def missing(
        self, files: Sequence[PublishedFile], written: Iterable[tuple[str, str]]
    ) -> list[PublishedFile]:
        """Return those of the files that no earlier run has written."""
        existing = set(written)
        return [file for file in files if (file.path, file.sha256) not in existing]

    def has_page(self, path: str, sha256: str) -> bool:
        """Return True without a request: to look up each page would take minutes."""
        del path, sha256
        return True

    def put_files(self, files: Sequence[PublishedFile], progress: Progress) -> None:
        """Upload files, some at the same time."""
        progress.start(sum(file.size for file in files))
        stop = threading.Event()

        def put(file: PublishedFile) -> None:
            if stop.is_set():
                return
            source = file.source if isinstance(file.source, Path) else file.source()
            try:
                self._put(file.path, source)
            except BaseException:
                stop.set()
                raise
            progress.advance(file.size)

        with ThreadPoolExecutor(_CONCURRENT_REQUESTS) as pool:
            for _ in pool.map(put, files):
                pass
        progress.done()

    def put_pages(self, pages: Sequence[tuple[str, bytes]]) -> None:
        """Upload pages in this order."""
        for path, data in pages:
            self._put(path, data)

    def _put(self, path: str, source: Path | bytes) -> None:
        types = (media_type for suffix, media_type in _TYPES.items() if path.endswith(suffix))
        attributes = {
            "Content-Type": next(types, "application/octet-stream"),
            "Cache-Control": _FOREVER if _UNCHANGING.fullmatch(path) else _REVALIDATE,
        }
        with self._reporting_failures(path):
            self._store.put(path, source, attributes=attributes)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove objects."""
        for path in paths:
            with suppress(FileNotFoundError), self._reporting_failures(path):
                self._store.delete(path)

    def _reporting_failures(self, path: str) -> AbstractContextManager[None]:
        return reporting_storage_failures(f"{self.name}/{path}", except_for=condition_errors())
