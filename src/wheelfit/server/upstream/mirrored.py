"""A mirror of another index, which fetches files on request."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wheelfit.core.filename import (
    parse_index_file_name,
    parse_wheel_filename,
    project_of,
    wheel_filename_of,
)
from wheelfit.errors import StorageUnavailable, TooLarge
from wheelfit.server.backing_services import Dependency, upstream_dependency
from wheelfit.server.offering import OfferRules
from wheelfit.server.upstream.counts import Counted, MirrorCounts
from wheelfit.server.upstream.listings import MirrorListing, ProjectPages
from wheelfit.server.upstream.pull_through import Pull, Pulls
from wheelfit.server.upstream.pulled_files import PulledFiles, StoredBytes
from wheelfit.sources.cached_pages import Outcome, SharedPages
from wheelfit.sources.file_readers import ContentFiles
from wheelfit.sources.memory_cache import MemoryCache
from wheelfit.sources.page import ACCEPT, NO_HASHES, File, ProjectPage
from wheelfit.sources.repository import Content, content_of, url_of
from wheelfit.sources.urls import is_loopback, origin, redact, split_userinfo
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.remote import RangeUnsupported, Suffix
from wheelfit_runtime.errors import (
    HashMismatch,
    IntegrityError,
    NetworkError,
    PolicyRefusal,
    UnexpectedStatus,
    Unreachable,
)
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.server.upstream.settings import MirrorSettings
    from wheelfit.sources.client import Answer
    from wheelfit.sources.open import Web
    from wheelfit_runtime.errors import WheelfitError


MAX_THREADS = 12
"""Threads that may use all upstreams of a server together; half of its threads."""
_METADATA = ".metadata"
_PROVENANCE = ".provenance"
_SHA256 = pattern(r"[0-9a-f]{64}")
_KIND = "mirrored"
_PROVENANCE_TYPE = "application/vnd.pypi.integrity.v1+json"
_MAX_PROVENANCE_SIZE = 8 << 20
_MAX_DOCUMENT_SIZE = 1 << 20
_MAX_SMALL_FILES_SIZE = 32 << 20
_MAX_NAMES = 100_000
_MAX_SERVED_PAGES_SIZE = 64 << 20
_MAX_PAGES_SIZE = 64 << 20
_ENTRY_SIZE = 800
"""Bytes of memory that an entry of a page takes, roughly."""
_CACHED_ENTRY_SIZE = 1500
"""The same for a page of the cache, of which all entries were read."""
_MAX_SERVERS = 32
_REWRITE_AGE = 3600.0
"""Seconds after which an unchanged page is written to the disk again."""
_RETEST_INTERVAL = 60.0
"""Seconds after which the support for ranges of a failed server is tested again."""
_MISSING = frozenset({404, 410})
_COUNTED_OUTCOMES: Mapping[Outcome, Counted] = {
    "fetched": "page fetched",
    "revalidated": "page revalidated",
    "missing": "page missing",
    "failed": "page failed",
}


@dataclass(frozen=True, slots=True)
class _RecordedDigest:
    """The digest and size of a file whose page lists no SHA-256."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class _ServedPage:
    """A page as it is served."""

    page: ProjectPage
    originals: Mapping[str, File]
    """The entries of the upstream, by name of the file."""
    withheld: Mapping[str, str]
    """Reasons why files are not offered, by their names."""
    stamp: Hashable


class MirroredIndex(ContentFiles):
    """A mirror of another index: an `Index`.

    Pages are revalidated at the operator's interval instead of the upstream's, which does not
    consider the number of clients. A file is fetched on its first request, and stored (see
    `wheelfit.server.upstream.pull_through`). The upstream sees nothing of a client but the
    normalised name of a project, and the name of a file that its page lists.

    :param is_allowed_url: returns whether the upstream's pages may name a URL.
    :param note: called with messages for the operator: about old pages, refused files.
    :param listing: how the upstream lists its files; None: on a page for each project.
    """

    def __init__(
        self,
        settings: MirrorSettings,
        web: Web,
        pulled: PulledFiles,
        *,
        is_allowed_url: Callable[[str], bool],
        note: Callable[[str], None] = lambda _text: None,
        clock: Callable[[], float] = time.time,
        upstream: Dependency | None = None,
        listing: MirrorListing | None = None,
        rules: OfferRules = OfferRules(),
    ) -> None:
        self._rules = rules
        self.name = settings.label
        self.counts = MirrorCounts(settings.label)
        self._settings = settings
        self._web = web
        self._pulled = pulled
        self._is_allowed_url = is_allowed_url
        self._note = note
        self._clock = clock
        self._upstream = upstream or upstream_dependency(settings.url, MAX_THREADS)
        url = split_userinfo(settings.url)[0].rstrip("/")
        self._listing = listing if listing is not None else ProjectPages(url)
        self._pages: SharedPages[ProjectPage] = SharedPages(
            replace(
                web.pages, fresh_seconds=settings.max_age, rewrite_age=_REWRITE_AGE, clock=clock
            ),
            MemoryCache(
                _MAX_PAGES_SIZE, lambda page: _CACHED_ENTRY_SIZE * (len(page[1].files) + 2)
            ),
            missing=settings.not_found_max_age,
            stale=settings.stale_if_error,
            waiting=partial(self._upstream.use, uses_other_hosts=True),
            fetching=self._upstream.recording,
            note_stale=self._note_stale,
            note_request=lambda outcome: self.counts.add(_COUNTED_OUTCOMES[outcome]),
        )
        self._pulls = Pulls(queue_timeout=settings.timeout, note=note)
        self._served_pages: MemoryCache[_ServedPage] = MemoryCache(
            _MAX_SERVED_PAGES_SIZE,
            lambda served_page: _ENTRY_SIZE * (len(served_page.page.files) + 2),
        )
        self._small_files: MemoryCache[bytes] = MemoryCache(
            _MAX_SMALL_FILES_SIZE, lambda data: len(data) + 256
        )
        self._recorded_digests: MemoryCache[_RecordedDigest] = MemoryCache(
            _MAX_NAMES, lambda _entry: 1
        )
        self._generations: dict[NormalizedName, int] = {}
        """By project: the number of times that the mirror itself has changed its page."""
        self._wrong_metadata_hashes: set[str] = set()
        """URLs of wheels whose metadata file does not match its listed hash."""
        self._ranges: dict[str, tuple[bool, float]] = {}
        """By server: whether it supports ranges, and the time until which that is assumed."""
        self._requested: set[NormalizedName] = set()
        self._project_list: tuple[float, tuple[NormalizedName, ...]] | None = None
        """The time when it was fetched, and the names."""

    @property
    def last_error(self) -> NetworkError | None:
        """The error of the last request to the upstream; None if it answered."""
        return self._pages.last_error

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of the requested projects, or of all if the settings list all."""
        if self._settings.list_all:
            return self.listed_projects()
        return tuple(sorted(self._requested))

    def listed_projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of all admitted projects that the upstream lists.

        :raises NetworkError: the list cannot be read, and never was.
        """
        if (listed := self._fresh_list()) is not None:
            return listed
        try:  # in one thread, for which the others wait
            with self._upstream.use(uses_other_hosts=True):
                return self._served_pages.call_locked("", self._fetch_list)
        except Unreachable:
            if self._project_list is None:
                raise
            return self._project_list[1]

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project."""
        served_page = self._served_page(name)
        return None if served_page is None else served_page.page

    def stamp(self, name: NormalizedName) -> Hashable | None:
        """Return a stamp that changes with the page."""
        served_page = self._served_page(name)
        return None if served_page is None else served_page.stamp

    def content(self, filename: str) -> Content | None:
        """Return the bytes of a file, which come from the upstream if they are not stored yet.

        :raises PolicyRefusal: the file is not offered, with the reason.
        """
        suffix = next(filter(filename.endswith, (_METADATA, _PROVENANCE)), "")
        base = filename.removesuffix(suffix)
        name = project_of(base)
        served_page = None if name is None else self._served_page(name)
        if name is None or served_page is None:
            return None
        if base in served_page.withheld:
            raise PolicyRefusal(served_page.withheld[base])
        file = served_page.originals.get(base)
        if file is None:
            return None
        try:
            try:
                return self._content(name, file, suffix)
            except IntegrityError:
                # A file that may change (F-73) may have changed after the page was read.
                self._expire(name)
                current = self._original(name, base)
                if current is None or current == file:
                    raise
            return self._content(name, current, suffix)
        except IntegrityError as error:
            self._note(f"{filename} of {self.name} is not served: {error.message}")
            raise NetworkError(
                f"{filename} differs from its entry on the upstream: {error.message}"
            ) from error

    def is_stored(self, file: File) -> bool:
        """Return whether the mirror has stored a listed file."""
        sha256 = file.hashes.get("sha256")
        return sha256 is not None and self._pulled.size(sha256) is not None

    def fetch_and_store(self, filename: str, on_bytes: Callable[[int], None]) -> int:
        """Fetch a file, and wait until it is verified and stored; return its bytes.

        :param on_bytes: called with the number of bytes received since the last call.
        :raises NetworkError: it cannot be fetched, or does not match its hash.
        :raises StorageUnavailable: it cannot be stored.
        """
        content = self.content(filename)
        if content is None:
            raise NetworkError(f"{filename} is listed by the upstream, but missing there")
        for piece in content.parts(0, content.size):
            on_bytes(len(piece))
        self._pulls.wait_for(filename)
        # The transfer may have failed before, when nothing waited for it.
        name = project_of(filename)
        file = None if name is None else self._original(name, filename)
        sha256 = content.sha256 or (None if file is None else self._digest(file))
        size = None if sha256 is None else self._pulled.size(sha256)
        if size is None:
            raise StorageUnavailable(f"{filename} was fetched, but not stored")
        return size

    def _original(self, name: NormalizedName, filename: str) -> File | None:
        """Return the upstream's entry of a file."""
        served_page = self._served_page(name)
        return None if served_page is None else served_page.originals.get(filename)

    def cancel(self) -> None:
        """Cancel every transfer; nothing more is fetched."""
        self._pulls.close()
        self._web.cancel()

    def close(self) -> None:
        """Cancel every transfer, and close every connection."""
        self.cancel()
        self._web.close()

    # --- pages ----------------------------------------------------------------------

    def _served_page(self, name: NormalizedName) -> _ServedPage | None:
        if not self._settings.admits(name):
            return None
        key_and_page = self._look_up(name)
        if key_and_page is None:
            return None
        page_key, listed = key_and_page
        if len(self._requested) < _MAX_NAMES:
            self._requested.add(name)
        stamp = (*page_key, self._generations.get(name, 0), self._rules.stamp(name))
        served_page = self._served_pages.peek(name)
        if served_page is None or served_page.stamp != stamp:
            served_page = self._make_page(name, page_key[1], listed, stamp)
            self._served_pages.put(name, served_page)
        return served_page

    def _look_up(self, name: NormalizedName) -> tuple[tuple[str, str], ProjectPage] | None:
        """Return digest and URL of the page with a project, and its files."""
        source = redact(self._settings.url)
        url = self._listing.url(name)
        if url is None:
            listed = self._listing.select(name, ProjectPage(name, (), source))
            return None if listed is None else (("", self._settings.url), listed)
        copy_and_page = self._pages.get(url, ACCEPT, partial(self._parsed, name))
        if copy_and_page is None:
            return None
        copy, page = copy_and_page
        listed = self._listing.select(name, page)
        return None if listed is None else ((copy.sha256, copy.url), listed)

    def _parsed(self, name: NormalizedName, answer: Answer) -> ProjectPage:
        return self._listing.read(name, answer, self._web, redact(self._settings.url))

    def _expire(self, name: NormalizedName) -> None:
        """Make the page of a project outdated, so that its next use fetches it."""
        url = self._listing.url(name)
        if url is not None:
            self._pages.expire(url, ACCEPT)

    def _note_stale(self, url: str, age: float, error: NetworkError) -> None:
        name = url.rstrip("/").rpartition("/")[2]
        self._note(
            f"{name} is served as {redact(self._settings.url)} listed it {int(age // 60)} minutes "
            f"ago, because {error.message}"
        )

    def _make_page(
        self, name: NormalizedName, url: str, listed: ProjectPage, stamp: Hashable
    ) -> _ServedPage:
        """Return a page of the upstream as the mirror serves it."""
        notes = list(listed.notes)
        originals: dict[str, File] = {}
        foreign_count = 0
        for file in listed.files:
            if project_of(file.filename) != name:
                foreign_count += 1  # it could not be requested here
            elif file.filename in originals or not self._settings.admits_file(file.filename):
                pass  # the first of two entries is used, as by installers
            elif problem := self._exclusion_reason(file, url):
                notes.append(f"left out {file.filename}: {problem}")
            else:
                originals[file.filename] = file
        offered, withheld = self._rules.split(name, originals.values())
        originals = {file.filename: file for file in offered}
        if foreign_count:
            count = count_of(foreign_count, "file")
            notes.append(f"left out {count} not named after a release of {name}")
        page = ProjectPage(
            name,
            tuple(self._entry(file) for file in originals.values()),
            self.name,
            tuple(dict.fromkeys(notes)),
            status=listed.status,
            withheld=tuple(withheld.items()),
        )
        for sentence in page.notes:
            self._note(f"{name} of {self.name}: {sentence}")
        return _ServedPage(page, MappingProxyType(originals), withheld, stamp)

    def _exclusion_reason(self, file: File, page: str) -> str:
        """Return the reason why a file is left out; empty if it is served."""
        if not self._is_allowed_url(file.url):
            return "its URL has a host or port that the mirror may not request"
        sha256 = file.hashes.get("sha256")
        if sha256 is not None and _SHA256.fullmatch(sha256) is None:
            return "its SHA-256 is malformed"
        where = origin(file.url)
        is_less_safe = where.scheme == "http" and page.startswith("https:")
        if is_less_safe and not file.hashes and not is_loopback(where.host):
            return "it comes over HTTP and has no hash"
        return ""

    def _entry(self, file: File) -> File:
        """Return an entry in its served form."""
        hashes, size = file.hashes, file.size
        if (recorded := self._recorded_digest(file)) is not None:
            hashes = MappingProxyType({"sha256": recorded.sha256, **hashes})
            size = recorded.size
        metadata = self._metadata_hashes(file)
        # Most files without a page may be missing, and their metadata is not listed.
        is_listed = file.filename.endswith(".whl") and self._listing.has_pages
        if metadata is None and is_listed and self._has_readable_metadata(file):
            metadata = NO_HASHES
        url = url_of(file.filename)
        return replace(
            file,
            url=url,
            hashes=hashes,
            size=size,
            metadata_hashes=metadata,
            provenance=None if file.provenance is None else f"{url}{_PROVENANCE}",
            source=self.name,
        )

    def _has_readable_metadata(self, file: File) -> bool:
        """Return whether METADATA can be read by ranges; each server is tested once."""
        if wheel_filename_of(file.filename) is None:
            return False
        server = str(origin(file.url))
        supports_ranges, until = self._ranges.get(server, (False, float("-inf")))
        if self._clock() < until:
            return supports_ranges
        if server not in self._ranges and len(self._ranges) >= _MAX_SERVERS:
            return False  # a page may name any number of them
        try:
            with self._upstream.use(uses_other_hosts=True):
                self._web.client.get_range(file.url, Suffix(1))
            supports_ranges, until = True, float("inf")
        except RangeUnsupported:
            supports_ranges, until = False, float("inf")
        except NetworkError as error:
            is_missing = isinstance(error, UnexpectedStatus) and error.status in _MISSING
            if is_missing and not self._listing.has_pages:
                return False  # the unlisted file may not exist, which is no test of the server
            supports_ranges, until = False, self._clock() + _RETEST_INTERVAL
        self._ranges[server] = (supports_ranges, until)
        return supports_ranges

    def _fresh_list(self) -> tuple[NormalizedName, ...] | None:
        listed = self._project_list
        if listed is not None and 0 <= self._clock() - listed[0] < self._settings.max_age:
            return listed[1]
        return None

    def _fetch_list(self) -> tuple[NormalizedName, ...]:
        if (listed := self._fresh_list()) is not None:  # another thread may have fetched it
            return listed
        try:
            names = tuple(self._listing.names(self._web))
        except NetworkError as error:
            if self._project_list is None:
                raise
            self._note(f"the list of {self.name} is outdated, because {error.message}")
            names = self._project_list[1]
        admitted = tuple(name for name in names if self._settings.admits(name))
        self._project_list = (self._clock(), admitted)
        return admitted

    # --- files ----------------------------------------------------------------------

    def _content(self, name: NormalizedName, file: File, suffix: str) -> Content | None:
        """Return the bytes of a file, or with a suffix those of the file beside it."""
        if suffix == _METADATA:
            return self._metadata(name, file)
        if suffix == _PROVENANCE:
            return self._provenance(file)
        if parse_index_file_name(file.filename) is not None:
            return self._document(file)
        sha256 = self._digest(file)
        if sha256 is not None:
            size = self._pulled.size(sha256)
            if size is not None:
                self.counts.add("file hit")
                parts = partial(self._pulled.parts, sha256)
                return Content(size, sha256, partial(self._counted, parts))
            # Where the upstream lists no hash, the file must be the same as before.
            file = replace(file, hashes={**file.hashes, "sha256": sha256})
        self.counts.add("file miss")

        def make(on_end: Callable[[Pull, WheelfitError | None], None]) -> Pull:
            return Pull(
                self._web.client,
                file,
                self._pulled,
                max_size=self._settings.max_file_size,
                on_bytes=partial(self.counts.add, "bytes fetched"),
                on_verified=partial(self._record_digest, name, file),
                on_end=partial(self._count_failure, on_end),
            )

        try:
            with self._upstream.use(uses_other_hosts=True):
                pull = self._pulls.get((file.url, sha256), make)
                size = pull.wait_for_size()
        except UnexpectedStatus as error:
            if error.status in _MISSING:
                self._expire(name)
                return None
            raise
        return Content(size, sha256 or pull.sha256, partial(self._counted, pull.parts))

    def _counted(
        self, parts: Callable[[int, int], Iterator[bytes]], start: int, stop: int
    ) -> Iterator[bytes]:
        """Yield and count the bytes between two positions."""
        for piece in parts(start, stop):
            self.counts.add("bytes served", len(piece))
            yield piece

    def _count_failure(
        self,
        on_end: Callable[[Pull, WheelfitError | None], None],
        pull: Pull,
        error: WheelfitError | None,
    ) -> None:
        if error is not None:
            self.counts.add("file failed")
        on_end(pull, error)

    def _record_digest(self, name: NormalizedName, file: File, sha256: str, size: int) -> None:
        """Record the digest and size of a file without a listed hash, for its page."""
        if "sha256" in file.hashes:
            return
        key = _digest_key(file)
        self._recorded_digests.put(key, _RecordedDigest(sha256, size))
        self._web.store.write(_KIND, key, {"sha256": sha256, "size": size}, b"")
        self._generations[name] = self._generations.get(name, 0) + 1

    def _digest(self, file: File) -> str | None:
        """Return the digest of a file from its page, or the recorded one."""
        recorded = self._recorded_digest(file)
        return file.hashes.get("sha256") or (recorded.sha256 if recorded else None)

    def _recorded_digest(self, file: File) -> _RecordedDigest | None:
        """Return the recorded digest and size of a file; None if its page lists the digest."""
        if "sha256" in file.hashes:
            return None
        key = _digest_key(file)
        recorded = self._recorded_digests.peek(key)
        if recorded is not None:
            return recorded
        entry = self._web.store.read(_KIND, key)
        if entry is None:
            return None
        sha256, size = entry.head.get("sha256"), entry.head.get("size")
        if not (isinstance(sha256, str) and _SHA256.fullmatch(sha256) and isinstance(size, int)):
            return None
        recorded = _RecordedDigest(sha256, size)
        self._recorded_digests.put(key, recorded)
        return recorded

    # --- files beside them ------------------------------------------------------------

    def _metadata(self, name: NormalizedName, file: File) -> Content | None:
        if not file.filename.endswith(".whl"):
            return None
        hashes = self._metadata_hashes(file)
        key = ("metadata", file.url, file.hashes.get("sha256"), str(sorted((hashes or {}).items())))
        file = replace(file, metadata_hashes=hashes)
        try:
            return self._small_file(key, lambda: self._read_metadata(file))
        except HashMismatch as mismatch:
            if hashes is None:
                raise
            self._note(f"{file.filename}: its metadata is read from the wheel, because {mismatch}")
            self._wrong_metadata_hashes.add(file.url)
            self._generations[name] = self._generations.get(name, 0) + 1
            return self._metadata(name, file)

    def _metadata_hashes(self, file: File) -> Mapping[str, str] | None:
        """Return the listed hashes of a metadata file, unless its content contradicts them."""
        return None if file.url in self._wrong_metadata_hashes else file.metadata_hashes

    def _small_file(self, key: Hashable, make: Callable[[], bytes]) -> Content | None:
        """Return a small file from memory, or make it; an empty one counts as missing."""
        data = self._small_files.peek(key)
        if data is None:
            with self._upstream.use(uses_other_hosts=True):
                data = self._small_files.get(key, make)
        if not data:
            self._small_files.forget(key)
            return None
        return content_of(data)

    def _read_metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel; empty if that would take the whole wheel."""
        renamed = self._listing.with_metadata_version(file)
        if file.metadata_hashes is None:
            sha256 = self._digest(file)
            size = self._pulled.size(sha256) if sha256 is not None else None
            if sha256 is not None and size is not None:
                parsed = parse_wheel_filename(renamed.filename)
                with WheelArchive(StoredBytes(self._pulled, sha256, size), parsed) as wheel:
                    return wheel.metadata()
            if not self._has_readable_metadata(file):
                return b""
        try:
            return self._web.files.metadata(renamed)
        except TooLarge:  # it is listed but missing, and the server lacks ranges
            return b""

    def _document(self, file: File) -> Content:
        """Return the ``-variants.json`` of a release, as the upstream has it (F-128)."""
        with self._upstream.use(uses_other_hosts=True):
            return content_of(self._web.files.read(file, limit=_MAX_DOCUMENT_SIZE))

    def _provenance(self, file: File) -> Content | None:
        url = file.provenance
        if url is None or not self._is_allowed_url(url):
            return None

        key = f"{url}{_PROVENANCE}"

        def fetch() -> bytes:
            headers = {"Accept": _PROVENANCE_TYPE}
            try:
                answer = self._web.client.get(url, headers=headers, limit=_MAX_PROVENANCE_SIZE)
            except Unreachable:
                entry = self._web.store.read(_KIND, key)
                if entry is None:
                    raise
                return entry.body
            if answer.status in _MISSING:
                return b""
            if answer.status != 200:
                raise UnexpectedStatus(
                    f"the provenance of {file.filename} cannot be read",
                    status=answer.status,
                    where=redact(url),
                )
            self._web.store.write(_KIND, key, {}, answer.body)
            return answer.body

        return self._small_file(("provenance", url), fetch)


def _digest_key(file: File) -> str:
    """Return the key of the recorded digest and size of a file."""
    hashes = ",".join(f"{name}={digest}" for name, digest in sorted(file.hashes.items()))
    return f"{file.url}\n{hashes}"
