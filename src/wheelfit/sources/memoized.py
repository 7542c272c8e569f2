"""Thread-safe caches of results in memory: of any function, and of a repository."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from wheelfit.sources.file_readers import RepositoryWrapper
from wheelfit.sources.repository import READ_LIMIT, Repository, stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from packaging.utils import NormalizedName

    from wheelfit.sources.page import File, ProjectPage

Key = TypeVar("Key", bound="Hashable")
Value = TypeVar("Value")


class Memo(Generic[Key, Value]):
    """Results and errors by key.

    The first caller computes a result in its own thread, and others wait for it. A computation may
    get results for other keys, as long as there is no cycle.
    """

    def __init__(self) -> None:
        self._futures: dict[Key, Future[Value]] = {}
        self._values: dict[Key, Value] = {}
        self._lock = Lock()

    def get(self, key: Key, compute: Callable[[], Value]) -> Value:
        """Return the result for a key, computed on the first call.

        :raises BaseException: the error of the computation, for every caller.
        """
        if key in self._values:
            return self._values[key]
        with self._lock:
            future = self._futures.get(key)
            is_first = future is None
            if future is None:
                future = self._futures[key] = Future()
        if not is_first:
            return future.result()
        try:
            value = compute()
        except BaseException as error:
            if not isinstance(error, Exception):
                del self._futures[key]  # an interruption is not a result
            future.set_exception(error)
            raise
        self._values[key] = value
        future.set_result(value)
        return value


class MemoizedRepository(RepositoryWrapper):
    """A repository that caches the results and errors of another one.

    Equal calls return equal results in all threads, even if the server changes meanwhile. Downloads
    are not cached, since they are files, nor are sizes, which a download changes.

    :param close: called when this is closed, or left as a context manager.
    """

    def __init__(
        self,
        repository: Repository,
        close: Callable[[], None] = lambda: None,
        cancel: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(repository)
        self._close = close
        self._cancel = cancel
        self._results: Memo[Hashable, Any] = Memo()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; later requests open new ones."""
        self._close()

    def cancel(self) -> None:
        """Cancel running requests, from any thread; no more can be sent."""
        self._cancel()

    def projects(self) -> Iterable[NormalizedName]:
        """Return the names of all projects."""
        return self._memoized("projects", self._repository.projects)

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, or None if it is not known."""
        return self._memoized(("project", name), partial(self._repository.project, name))

    def stamp(self, name: NormalizedName) -> str:
        """Return the stamp of a project's page; empty: the page must be read."""
        return self._memoized(("stamp", name), partial(stamp_of, self._repository, name))

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a small file."""
        read = partial(self._repository.read, file, limit=limit)
        return self._memoized(("read", file, limit), read)

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel."""
        return self._memoized(("metadata", file), partial(self._repository.metadata, file))

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` inside a variant wheel."""
        return self._memoized(("document", file), partial(self._repository.variant_document, file))

    def _memoized(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        value: Value = self._results.get(key, compute)
        return value
