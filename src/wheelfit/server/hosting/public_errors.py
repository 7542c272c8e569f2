"""Errors for clients, without addresses, paths and ports, which are for the operator only.

The message of a storage, a database or another index goes to the log; a client gets a general
message with the same reference.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, TypeVar

from wheelfit.errors import StorageUnavailable
from wheelfit.sources.file_readers import ContentFiles
from wheelfit_runtime.errors import NetworkError, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from packaging.utils import NormalizedName

    from wheelfit.server.hosting.logs import Log
    from wheelfit.sources.page import ProjectPage
    from wheelfit.sources.repository import Content, Index


_Error = TypeVar("_Error", bound="WheelfitError")
UNAVAILABLE = "the database or the storage of the index does not answer, or is full"
_NO_ANSWER = "an index behind this one does not answer correctly"
_PUBLIC = frozenset({UNAVAILABLE, _NO_ANSWER})


def public_error(error: _Error, log: Log) -> _Error:
    """Log an error, and return it without addresses and paths.

    :param error: of a storage or of the network; an error returned by this function is returned
        unchanged.
    """
    if error.message in _PUBLIC:
        return error
    log(
        "unavailable",
        reference=error.reference,
        message=error.message,
        where=error.where,
        hint=error.hint,
    )
    public = copy(error)
    public.message = UNAVAILABLE if isinstance(error, StorageUnavailable) else _NO_ANSWER
    public.where = public.note = None
    public.hint = "the log of the server has the reason"
    public.details = ()
    return public


class PublicErrorsIndex(ContentFiles):
    """An `Index` around another that raises errors as `public_error` returns them."""

    def __init__(self, index: Index, log: Log) -> None:
        self._index = index
        self.name = index.name
        self._log = log

    def projects(self) -> Iterable[NormalizedName]:
        """Return the names of all projects."""
        with self._public_errors():
            return self._index.projects()

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project."""
        with self._public_errors():
            return self._index.project(name)

    def stamp(self, name: NormalizedName) -> Hashable | None:
        """Return a value that stays equal as long as the page of a project does."""
        with self._public_errors():
            return self._index.stamp(name)

    def content(self, filename: str) -> Content | None:
        """Return the bytes of a listed file, or where they are."""
        with self._public_errors():
            return self._index.content(filename)

    @contextmanager
    def _public_errors(self) -> Iterator[None]:
        try:
            yield
        except (StorageUnavailable, NetworkError) as error:
            raise public_error(error, self._log) from error
