"""An index that serves the uploaded files of a store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from wheelfit.core.filename import project_of
from wheelfit.server.store.records import PUBLISHED, ListedDocument, RecentUpload, StoredFile
from wheelfit.sources.file_readers import ContentFiles
from wheelfit.sources.page import VARIANTS_SUFFIX, File, ProjectPage
from wheelfit.sources.repository import Content, content_of, url_of

if TYPE_CHECKING:
    from packaging.utils import NormalizedName

    from wheelfit.server.store.opening import Store


_METADATA = ".metadata"
_PROVENANCE = ".provenance"
_RECENT_FILES = 2_000
"""The number of files from which recent releases are found: some releases have hundreds."""


class StoredIndex(ContentFiles):
    """The uploaded files of a store: an `Index`.

    A page and the ``-variants.json`` that it lists are always consistent (F-74).

    :param stage: the stage whose unpublished files are listed as well.
    """

    name = "this index"

    def __init__(self, store: Store, *, stage: str = PUBLISHED) -> None:
        self._records = store.records
        self._blobs = store.blobs
        self._stage = stage
        # Each with the number of the change up to which it is valid.
        self._cached_names: tuple[int, tuple[NormalizedName, ...]] | None = None
        self._cached_recent: tuple[int, tuple[RecentUpload, ...]] | None = None

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of all projects, sorted."""
        if self._stage != PUBLISHED:
            return self._records.projects(self._stage)
        # Read before the names, so that a change in between makes them newer than their number. If
        # they were older, they would stay until the next change.
        serial = self._records.serial()
        if self._cached_names is None or self._cached_names[0] != serial:
            self._cached_names = (serial, self._records.projects())
        return self._cached_names[1]

    def recent(self) -> tuple[RecentUpload, ...]:
        """Return the releases of the last published files, newest first."""
        serial = self._records.serial()  # read first, as above
        if self._cached_recent is None or self._cached_recent[0] != serial:
            self._cached_recent = (serial, self._records.recent_uploads(_RECENT_FILES))
        return self._cached_recent[1]

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project."""
        listing = self._records.listing(name, self._stage)
        if listing is None:
            return None
        if listing.status.is_quarantined:
            return ProjectPage(name, (), source=self.name, status=listing.status)
        files = [*map(_file, listing.files), *map(_document, listing.documents)]
        files.sort(key=lambda file: file.filename)
        return ProjectPage(name, tuple(files), source=self.name, status=listing.status)

    def stamp(self, name: NormalizedName) -> int | None:
        """Return the number of the last change of a project; None for stages, which have none."""
        return self._records.serial(name) if self._stage == PUBLISHED else None

    def content(self, filename: str) -> Content | None:
        """Return the bytes of a listed file, or of a file beside it."""
        name = project_of(filename.removesuffix(_METADATA).removesuffix(_PROVENANCE))
        if name is not None and self._records.status(name).is_quarantined:
            return None
        data = None  # no wheel or source distribution has one of these endings
        if filename.endswith(_METADATA):
            data = self._records.metadata(filename.removesuffix(_METADATA), self._stage)
        elif filename.endswith(_PROVENANCE):
            data = self._records.provenance(filename.removesuffix(_PROVENANCE), self._stage)
        elif filename.endswith(VARIANTS_SUFFIX):
            document = self._records.release_document(filename, self._stage)
            data = None if document is None else document.content
        elif (file := self._records.file(filename, self._stage)) is not None:
            return Content(file.size, file.sha256, partial(self._blobs.parts, file.sha256))
        return None if data is None else content_of(data)


def _file(stored: StoredFile) -> File:
    url = url_of(stored.filename)
    return File(
        filename=stored.filename,
        url=url,
        hashes={"sha256": stored.sha256},
        requires_python=stored.requires_python,
        yanked=stored.yanked,
        size=stored.size,
        upload_time=stored.uploaded,
        metadata_hashes=None
        if stored.metadata_sha256 is None
        else {"sha256": stored.metadata_sha256},
        provenance=f"{url}{_PROVENANCE}" if stored.has_provenance else None,
    )


def _document(document: ListedDocument) -> File:
    return File(  # an index file has none of the other fields (F-72)
        filename=document.filename,
        url=url_of(document.filename),
        hashes={"sha256": document.sha256},
        size=document.size,
    )
