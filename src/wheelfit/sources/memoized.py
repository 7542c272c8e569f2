"""A repository that answers the same question once, for any number of threads."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from wheelfit.sources.file_readers import Around
from wheelfit.sources.repository import READ_LIMIT, stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from packaging.utils import NormalizedName

    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.repository import Repository


_T = TypeVar("_T")


class MemoizedRepository(Around):
    """A repository that remembers every result of another one, errors too.

    Equal calls give equal results however many threads ask, even if the server
    changes meanwhile; whoever asks second waits for the first. Downloads are not
    remembered, since they are files, nor sizes, which a download changes.

    :param repository: what does the work.
    :param close: called when this is closed, or left as a context manager.
    :param cut: breaks off what is under way.
    """

    def __init__(
        self,
        repository: Repository,
        close: Callable[[], None] = lambda: None,
        cut: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(repository)
        self._close = close
        self._cut = cut
        self._results: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; what is asked for later opens new ones."""
        self._close()

    def cut(self) -> None:
        """Break off what is under way, from any thread; nothing can be asked for any more."""
        self._cut()

    def projects(self) -> Iterable[NormalizedName]:
        """Return the names of all projects."""
        return self._once("projects", self._repository.projects)

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, or None if it is not known."""
        return self._once(("project", name), partial(self._repository.project, name))

    def stamp(self, name: NormalizedName) -> str:
        """Return what tells that the page of a project is the same; empty: it is to be read."""
        return self._once(("stamp", name), partial(stamp_of, self._repository, name))

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a small file."""
        read = partial(self._repository.read, file, limit=limit)
        return self._once(("read", file, limit), read)

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel."""
        return self._once(("metadata", file), partial(self._repository.metadata, file))

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` inside a variant wheel."""
        return self._once(("document", file), partial(self._repository.variant_document, file))

    def _once(self, key: Hashable, work: Callable[[], _T]) -> _T:
        with self._lock:
            known = self._results.get(key)
            future: Future[_T] = known if known is not None else Future()
            self._results[key] = future
        if known is None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - belongs to everybody who asked
                future.set_exception(error)
        return future.result()
