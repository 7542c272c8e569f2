"""The interface of projects and their files, for installers and servers alike.

An index, a folder, several of them in order, a cache in front of one, an upload store, a mirror:
each is a ``Repository``, and most wrap another. The resolver and the installer read nothing else.
An ``Index`` is a repository that can be served: `wheelfit.server.simple` gives it addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec import Struct

from wheelfit.core.digests import sha256_of
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit_runtime.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.wheels.bytes_source import ByteSource
    from wheelfit.wheels.unpacked import UnpackedWheel


READ_LIMIT = 16 << 20
"""Bytes of the longest file that is read as a whole, unless the caller sets another limit."""


class FileSize(Struct, frozen=True):
    """The size of a wheel, as far as it is known."""

    file: int | None
    """Bytes of the file; None if neither index nor server states it."""
    unpacked: int | None = None
    """Bytes of all files inside; None if not requested or unknown."""
    is_on_disk: bool = False
    """Whether nothing need be fetched: it is in the cache, or in a local folder."""
    why_unknown: str = ""
    """The reason a requested size is unknown, in words; empty if none is."""

    @property
    def download(self) -> int | None:
        """Bytes that an installation would fetch."""
        return 0 if self.is_on_disk else self.file


class TooCostly(NetworkError, code="too-costly"):
    """Raised when reading a member of a remote wheel would mean fetching the whole wheel (F-77).

    The server does not support byte ranges; the wheel itself may be valid.
    """


class Files(Protocol):
    """A reader of listed files.

    Errors that every method may raise: ``Unreachable`` when a server cannot be reached or keeps
    breaking the connection, ``UnexpectedStatus`` when it answers with another status,
    ``FileProblem`` when a local file cannot be read. Where documented, "does not exist" is a result
    and not an error. No message ever contains credentials.
    """

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a small file, such as ``-variants.json``.

        :param limit: bytes of the longest content; no more is read.
        :raises HashMismatch: a promised hash is not met.
        :raises UnexpectedStatus: also when the listed file does not exist, or
            is longer.
        """

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel.

        In this order: the file beside the wheel (PEP 658) when the listing
        promises it, a byte range of the wheel, the whole wheel.

        :raises HashMismatch: a promised hash is not met.
        :raises InvalidWheel: the wheel is not sound, or has no METADATA.
        """

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` inside a variant wheel, or None if it has none.

        A wheel without label is plain, with any content (F-10): always None. Costs at most a few
        byte ranges; never the whole of a remote wheel.

        :raises TooCostly: the server does not support byte ranges (F-77).
        :raises InvalidWheel: the wheel is not valid.
        """

    def size(self, file: File, *, unpacked: bool = False) -> FileSize:
        """Return the size of a wheel, as far as it is known without fetching it.

        Sizes in the listing are not requested again. An unknown size is part of the answer and not
        an error.

        :param unpacked: whether to include the size of the files inside, which costs up to two
            ranges of bytes of a remote wheel.
        """

    def open(self, file: File) -> ByteSource:
        """Return the bytes of a wheel, fetched as they are read.

        No hash is checked, for that takes the whole file. The caller closes it.

        :raises TooCostly: the server does not support byte ranges.
        """

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Fetch the whole file into a folder and return its path there.

        The file appears under its name only when complete and checked, so an
        interrupted call leaves nothing that could be taken for it. It may share
        its bytes with a cache: read it, do not write to it.

        :param folder: an existing folder; an older file of that name is replaced.
        :raises HashMismatch: a promised hash does not match; nothing is left in the folder.
        """

    def unpacked(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> UnpackedWheel:
        """Return a wheel unpacked and verified, from a cache if it is there.

        A variant wheel without a ``variant.json`` is not refused here: the selection handles it
        (F-27).

        :param folder: an existing folder, used where no cache keeps it.
        :raises HashMismatch: a promised hash does not match.
        :raises InvalidWheel: it is not valid, or contradicts its RECORD; nothing of it is cached.
        """


class Repository(Files, Protocol):
    """A source of the files of projects.

    Every method may be called from several threads at once, any number of times. A ``File`` given
    to a method must be from a page of this repository, or equal to a file there.
    """

    @property
    def name(self) -> str:
        """The name in messages: the URL or folder, without credentials."""

    def projects(self) -> Iterable[NormalizedName]:
        """Return the names of all projects, sorted.

        :raises NetworkError: also where an index does not list them.
        """

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, or None if the repository does not have it.

        An index does not have it if it answers 404 or 410, or 403 without a login, as many static
        hosts do for missing files; a folder, if it has no file of it. A page may have no files.

        :raises InvalidPage: the answer is not a page of the Simple API.
        """


@runtime_checkable
class Stamped(Protocol):
    """A repository that detects unchanged pages without reading them."""

    def stamp(self, name: NormalizedName) -> Hashable | None:
        """Return a value that stays equal as long as the page of a project does.

        None: there is no such value that is cheaper than the page.

        :raises NetworkError: an index cannot be read.
        """


def stamp_of(repository: Repository, name: NormalizedName) -> str:
    """Return a text that stays equal as long as the page of a project does.

    :return: empty if that is unknown without reading the page.
    :raises NetworkError: an index cannot be read.
    """
    stamp = repository.stamp(name) if isinstance(repository, Stamped) else None
    return stamp if isinstance(stamp, str) else ""


class Content(Struct, frozen=True):
    """The bytes of a file, which are read in parts."""

    size: int
    """Bytes of the whole."""
    sha256: str | None
    """Digest of the whole, in lower-case hexadecimal digits; the entity tag. None: the file is
    being fetched, and has no promised digest.
    """
    parts: Callable[[int, int], Iterable[bytes]]
    """Returns the bytes between two positions, in pieces that are read while they are sent."""


class Index(Repository, Protocol):
    """A repository that can be served.

    Methods raise ``NetworkError`` when an upstream index and ``StorageUnavailable`` when a storage
    cannot be reached. On its pages, its own files have the URLs of `url_of`, relative to the page;
    files of other servers have absolute URLs.
    """

    def stamp(self, name: NormalizedName) -> Hashable | None:
        """Return a value that stays equal as long as the page of a project does.

        Cheaper than the page, so that a written page can be kept. None: there is no such value, and
        the page must be written each time.
        """

    def content(self, filename: str) -> Content | None:
        """Return the bytes of a listed file; None if there is no such file.

        :param filename: a listed name, or one with ``.metadata`` (PEP 658) or ``.provenance``
            (PEP 740) appended. A client may send anything: the name is compared with known ones and
            never made part of a path.
        """


def url_of(filename: str) -> str:
    """Return the URL of a file of an index, relative to the page of its project.

    >>> url_of("some-1.0-py3-none-any-cu12.whl")
    '../../files/some-1.0-py3-none-any-cu12.whl'
    """
    from urllib.parse import quote

    return f"../../files/{quote(filename, safe='')}"


def content_of(data: bytes) -> Content:
    """Return content that is in memory."""
    return Content(len(data), sha256_of(data).hex(), lambda start, stop: (data[start:stop],))
