"""The projects that the client of a request may read; others are treated as missing."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.core.filename import project_of
from wheelfit.core.project_patterns import fits
from wheelfit.server.hosting.access import TOKEN_NEEDED, PermissionDenied
from wheelfit.server.hosting.public_errors import public_errors
from wheelfit.sources.file_readers import ContentFiles

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator

    from packaging.utils import NormalizedName

    from wheelfit.server.hosting.logs import Log
    from wheelfit.sources.page import ProjectPage
    from wheelfit.sources.repository import Content, Index


_SUFFIXES = (".metadata", ".provenance")


class Reader(NamedTuple):
    """The rights of a reader."""

    private: Collection[str]
    """Patterns of the private projects."""
    allowed: Collection[str] | None
    """Patterns of the private projects that this reader may read; None: all."""
    is_anonymous: bool = False
    """Whether the request has no token, so that it can be repeated with one."""

    @property
    def sees_all(self) -> bool:
        """Whether there is nothing that this reader may not read."""
        return not self.private or self.allowed is None

    def may_read(self, project: NormalizedName) -> bool:
        """Return whether this reader may see a project."""
        return (
            self.allowed is None or fits(project, self.allowed) or not fits(project, self.private)
        )


_READER: ContextVar[Reader] = ContextVar("reader")
_DEFAULT_READER = Reader(("*",), ())
"""The default reader, which sees nothing."""


@contextmanager
def as_reader(reader: Reader) -> Iterator[None]:
    """Filter each `ReadableIndex` for a reader, in this thread, for the length of a block."""
    reset_token = _READER.set(reader)
    try:
        yield
    finally:
        _READER.reset(reset_token)


def is_shared(project: str) -> bool:
    """Return whether a page is the same for all permitted readers, the current one included.

    :param project: the normalised name; empty: the list of projects.
    """
    reader = _READER.get(_DEFAULT_READER)
    return reader.sees_all or (project != "" and reader.may_read(project))  # type: ignore[arg-type]


class ReadableIndex(ContentFiles):
    """An `Index` around another, as its clients may see it.

    It has the projects that the reader may read. For a private project, whether it exists or not,
    the methods raise `PermissionDenied` (401) if the reader is anonymous. Errors have no addresses
    and paths (`public_errors`).
    """

    def __init__(self, index: Index, log: Log) -> None:
        self._index = index
        self._log = log
        self.name = index.name

    def projects(self) -> Iterable[NormalizedName]:
        """Return the names of the projects that the reader may read."""
        reader = _READER.get(_DEFAULT_READER)
        with public_errors(self._log):
            names = self._index.projects()
            return names if reader.sees_all else tuple(filter(reader.may_read, names))

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project."""
        with public_errors(self._log):
            return self._index.project(name) if _may_read(name) else None

    def stamp(self, name: NormalizedName) -> Hashable | None:
        """Return a value that stays equal as long as the page of a project does."""
        with public_errors(self._log):
            return self._index.stamp(name) if _may_read(name) else None

    def content(self, filename: str) -> Content | None:
        """Return the bytes of a listed file."""
        base = filename
        for suffix in _SUFFIXES:
            base = base.removesuffix(suffix)
        with public_errors(self._log):
            return self._index.content(filename) if _may_read(project_of(base)) else None


def _may_read(project: NormalizedName | None) -> bool:
    """Return whether the current reader may read a project.

    :param project: None: the project is unknown.
    """
    reader = _READER.get(_DEFAULT_READER)
    if reader.sees_all or (project is not None and reader.may_read(project)):
        return True
    if reader.is_anonymous and project is not None:
        raise PermissionDenied(401, TOKEN_NEEDED)
    return False
