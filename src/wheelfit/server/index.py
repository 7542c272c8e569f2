"""The one interface of what is served: projects, their pages, and the bytes of their files.

A folder of wheels, a store with uploads, a mirror of another index, several of these as one:
each is an ``Index``, and most are wrappers of another. `wheelfit.server.simple` gives any of
them an address.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from packaging.utils import NormalizedName

    from wheelfit.sources.page import ProjectPage


@dataclass(frozen=True, slots=True)
class Content:
    """Hold what is known of a file's bytes, and how to get at them."""

    size: int
    """Bytes of the whole."""
    sha256: str | None
    """Digest of the whole, in lower-case hexadecimal digits; the entity tag. None: the bytes are
    on their way here, and nobody has promised what they are."""
    parts: Callable[[int, int], Iterable[bytes]]
    """Gives the pieces of what lies between two positions, while they are sent."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Say where a file is, when it is not here."""

    url: str
    """Absolute ``https:`` or ``http:`` URL, without credentials."""


class Index(Protocol):
    """Have projects and files.

    Every method may be called from several threads at once, any number of times. Errors that
    each may raise: ``NetworkError`` when an upstream index, ``StorageUnavailable`` when a
    storage cannot be reached. "There is no such thing" is a result and not an error.
    """

    def projects(self) -> Iterable[NormalizedName]:
        """Return the names of all projects, sorted."""

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, or None if it is not known here.

        URLs of files that this index has itself are what `url_of` gives, relative to the
        page; those of others are absolute.

        :param name: the normalised name.
        """

    def stamp(self, name: NormalizedName) -> Hashable | None:
        """Return a value that stays equal as long as the page of a project does.

        Cheaper than the page, so that a written page can be kept. None: there is no such
        value, and the page is to be made anew.

        :param name: the normalised name.
        """

    def content(self, filename: str) -> Content | Elsewhere | None:
        """Return the bytes of a listed file, or where they are; None if there is no such file.

        :param filename: a listed name, or one with ``.metadata`` (PEP 658) or ``.provenance``
            (PEP 740) behind it. Comes from strangers: it is compared with names that are
            known and never made part of a path.
        """


def url_of(filename: str) -> str:
    """Return the URL of a file of an index, relative to the page of its project.

    >>> url_of("some-1.0-py3-none-any-cu12.whl")
    '../../files/some-1.0-py3-none-any-cu12.whl'

    :param filename: as it is listed.
    """
    from urllib.parse import quote  # noqa: PLC0415 - start-up

    return f"../../files/{quote(filename, safe='')}"


def content_of(data: bytes) -> Content:
    """Return content that is at hand.

    :param data: the whole of it.
    """
    digest = hashlib.sha256(data).hexdigest()
    return Content(len(data), digest, lambda start, stop: (data[start:stop],))
