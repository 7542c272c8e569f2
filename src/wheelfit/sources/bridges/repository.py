"""A repository in which families of distributions are projects with variants."""

from __future__ import annotations

import io
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import structs

from wheelfit.core.digests import sha256_of
from wheelfit.core.filename import parse_index_file_name, parse_wheel_filename
from wheelfit.sources.client import REACH_HINT
from wheelfit.sources.concurrency import map_concurrently
from wheelfit.sources.page import BRIDGE, File, ProjectPage
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit.sources.recorded_hashes import RecordedHashes, changed
from wheelfit.sources.repository import READ_LIMIT, Files, FileSize, Repository, stamp_of
from wheelfit.sources.settings import FamilyHosts
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import (
    FileProblem,
    HashMismatch,
    InvalidWheel,
    NetworkError,
    UnexpectedStatus,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packaging.tags import Tag
    from packaging.utils import NormalizedName

    from wheelfit.core.bridges import BridgeFamily, FamilyMember
    from wheelfit.sources.bridges.catalogue import BridgeCatalogue
    from wheelfit.sources.cache import Store
    from wheelfit.wheels.bytes_source import ByteSource
    from wheelfit.wheels.unpacked import UnpackedWheel

_MAX_PAGES_AT_ONCE = 8
_MISSING = (404, 410)


class OpenIndex(Protocol):
    """A function that opens an index of a family."""

    def __call__(self, url: str, *, is_page: bool, hosts: FamilyHosts | None) -> Repository:
        """Return the repository of an index.

        :param url: the URL of an index, or of one page with links to all wheels.
        :param hosts: the only hosts to contact; None: any.
        """


class BridgedRepository:
    """A ``Repository`` that presents the members of families as variants.

    For each wheel of a member with a name of its own, there is a selector, an empty wheel that
    requires the member (`wheelfit.sources.bridges.selectors`), with the same tags, Python
    requirement, yank and upload time. The wheels of a member with the family's name get a label.

    A project with variants of its own is unchanged; so is one whose members are in another index,
    since the owner of a name in one index may not own it in another (F-126). A member is read from
    its owner's index, if there is one.

    A family of indexes replaces the registry: only the files of its own indexes count, and nothing
    is merged. If they cannot be reached, the registry's wheels count, as far as the family
    describes them.

    :param open_index: opens the indexes of families; None: families of indexes are ignored.
    :param store: records hashes of files whose index lists none; None: they are not recorded.
    :param note: called for a project that no index of its family has.
    """

    def __init__(
        self,
        repository: Repository,
        catalogue: BridgeCatalogue,
        open_index: OpenIndex | None = None,
        store: Store | None = None,
        note: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.name = repository.name
        self._repository = repository
        self._catalogue = catalogue
        self._open_index = open_index
        self._recorded = None if store is None else RecordedHashes(store)
        self._note = note
        self._from_record: set[str] = set()  # URLs of files with a recorded hash
        self.unreachable_owners: dict[NormalizedName, str] = {}
        """The projects that the indexes of their owners did not supply, each with the reason."""
        self._indexes: dict[tuple[str, tuple[str, ...]], Repository] = {}
        self._sources: dict[str, Repository] = {}
        self._lock = threading.Lock()
        self.machine_tags: Iterable[Tag] = ()
        """The tags of the machine to choose for; empty: any machine."""

    def restrict_members(self, is_wanted: Callable[[BridgeFamily, FamilyMember], bool]) -> None:
        """Skip the indexes of families whose members the target could not get."""
        self._catalogue.is_wanted = is_wanted

    # --- pages ------------------------------------------------------------------------

    def projects(self) -> Iterable[NormalizedName]:
        """Return the names of all projects."""
        return self._repository.projects()

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project; that of a family has its members as variants."""
        family = self._catalogue.of(name)
        if family is None:
            return self._repository.project(name)
        from wheelfit.sources.bridges.pages import page_of_names

        if family.is_of_indexes:
            return self._page_from_indexes(name, family)
        names = tuple(dict.fromkeys((name, *family.distributions)))

        def read_page(project: NormalizedName) -> ProjectPage | None:
            owner = None if project == name else self._catalogue.of(project)
            if owner is None or not owner.is_of_indexes:
                return self._repository.project(project)
            return self._page_from_indexes(project, owner)

        results = map_concurrently(names, read_page, most=_MAX_PAGES_AT_ONCE)
        pages = dict(zip(names, results, strict=True))
        page = page_of_names(family, pages, {tag.platform for tag in self.machine_tags})
        # Not fresh, as the pages of its members may change at other times.
        return None if page is None else structs.replace(page, fresh_seconds=0.0)

    def owner_of(self, name: NormalizedName, file: File) -> str:
        """Return the index of a project's owner that lists a file; empty: another source does.

        An index that the user named does not count as one of the owner.
        """
        family = self._catalogue.of(name)
        if (
            family is None
            or file.source not in self._sources
            or self._catalogue.is_requested(family)
        ):
            return ""
        return file.source

    def stamp(self, name: NormalizedName) -> str | None:
        """Return the stamp of a project's page; None for a family's."""
        return stamp_of(self._repository, name) if self._catalogue.of(name) is None else None

    def _page_from_indexes(self, name: NormalizedName, family: BridgeFamily) -> ProjectPage | None:
        """Return the page of a project whose wheels are in the indexes of its family."""
        if self._open_index is None:
            return self._repository.project(name)
        from wheelfit.sources.bridges.pages import page_of_indexes

        members = [member for member in family.members if member.covers_project(name)]
        usable = [
            member
            for member in members
            if (family.registry and member.is_of_registry)
            or self._catalogue.is_wanted(family, member)
        ]
        if family.registry and all(member.is_of_registry and not member.when for member in usable):
            registry_page = self._repository.project(name)
            if registry_page is not None and any(
                file.filename.endswith(".whl") for file in registry_page.files
            ):
                return registry_page  # no build in another index is for this machine
        if not all(member.is_of_registry for member in usable):
            members = usable  # otherwise all members are listed, so that they can be explained
        notes: list[str] = []
        by_location = {
            member.locations: member
            for member in members
            if family.registry or not member.is_of_registry
        }

        def read_page(member: FamilyMember) -> ProjectPage | None:
            return self._page_of_member(name, family, member, notes.append)

        try:
            read_pages = map_concurrently(
                list(by_location.values()), read_page, most=_MAX_PAGES_AT_ONCE
            )
        except NetworkError as error:
            if not any(member.is_of_registry for member in members):
                raise
            return self._fallback(name, family, error)
        pages = dict(zip(by_location, read_pages, strict=True))
        owner_pages = [
            pages[location]
            for location, member in by_location.items()
            if not (member.is_of_registry or member.has_own_url)
        ]
        has_files = any(page and page.files for page in owner_pages)
        if owner_pages and not (family.registry or has_files):
            self._note_missing(name, family)
        page = self._with_recorded_hashes(page_of_indexes(family, name, pages, self._hosts(family)))
        return page and structs.replace(page, notes=(*page.notes, *notes))

    def _note_missing(self, name: NormalizedName, family: BridgeFamily) -> None:
        """Report a project that its owner's index lacks; a mirror may have fewer projects."""
        mirror = self._catalogue.bases.get(family.name)
        where = redact(mirror or family.base)
        message = f"no index of the bridge {family.name} has {name} (they are in {where})"
        self._note(message)
        if mirror is None:
            self.unreachable_owners[name] = message

    def _page_of_member(
        self,
        name: NormalizedName,
        family: BridgeFamily,
        member: FamilyMember,
        note: Callable[[str], None],
    ) -> ProjectPage | None:
        """Return the page of a project at the location of a member.

        :param note: called if the index of another owner is unreachable, whose builds are left out.
        """
        if member.is_of_registry:
            return self._repository.project(name)
        base = self._catalogue.bases.get(family.name, family.base)
        is_mirror = family.name in self._catalogue.bases
        if is_mirror and "://" not in base and not Path(base, member.folder).exists():
            return None  # a mirror may lack some members
        if member.files:
            from wheelfit.core.bridges import path_in_mirror
            from wheelfit.sources.bridges.pages import listed_by_rule

            source = self._index(base, family, is_page=False).name
            paths = map(path_in_mirror, member.files) if is_mirror else member.files
            return listed_by_rule(paths, base, name, source, has_metadata=is_mirror)
        is_page = bool(member.page)
        if is_mirror or not member.has_own_url:
            return self._index(f"{base}/{member.folder}", family, is_page=is_page).project(name)
        try:
            return self._index(member.location, family, is_page=is_page).project(name)
        except NetworkError as error:
            note(f"the builds in {member.location} are left out: {error.message}")
            return None

    def _fallback(
        self, name: NormalizedName, family: BridgeFamily, error: NetworkError
    ) -> ProjectPage | None:
        """Return the registry's page of a project whose owner's index is unreachable."""
        from wheelfit.sources.bridges.pages import page_of_indexes

        page = page_of_indexes(family, name, {(): self._repository.project(name)})
        verb = "reached" if isinstance(error, Unreachable) else "read"
        problem = f"the index of {family.name} cannot be {verb}"
        remedy = f"; {error.hint}" if error.hint not in (None, REACH_HINT) else ""
        note = f"{problem}, so the registry's builds are used: {error.message}{remedy}"
        self.unreachable_owners[name] = f"{problem}: {error.message}"
        return page and structs.replace(page, fresh_seconds=0.0, notes=(*page.notes, note))

    def _hosts(self, family: BridgeFamily) -> tuple[str, ...]:
        """Return the only hosts to contact; empty: any, as for a mirror."""
        return () if family.name in self._catalogue.bases else family.only_hosts

    def _index(self, url: str, family: BridgeFamily, *, is_page: bool) -> Repository:
        with self._lock:
            hosts = self._hosts(family)
            index = self._indexes.get((url, hosts))
            if index is None:
                assert self._open_index is not None  # noqa: S101 - else no index is read
                family_hosts = FamilyHosts(family.name, hosts) if hosts else None
                index = self._open_index(url, is_page=is_page, hosts=family_hosts)
                self._indexes[url, hosts] = index
            self._sources[index.name] = index
        return index

    # --- files ------------------------------------------------------------------------

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a small file."""
        if not file.is_selector:
            return self._reader(file).read(file.as_published, limit=limit)
        from wheelfit.sources.bridges.selectors import document_bytes, zip_files

        family = self._family(file)
        release = parse_index_file_name(file.filename)
        if release is None:
            return zip_files(self._selector_files(file))
        name, version = release
        project = name if family.is_of_indexes else family.name
        return document_bytes(family, *family.members_of(version, project))

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel."""
        if file.declared_document is not None:
            return self._with_added_requirements(file, self._declared_metadata(file))
        if not file.is_selector:
            return self._reader(file).metadata(file.as_published)
        return self._selector_member(file, "METADATA")

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` that the family declares for a wheel, or the one in it."""
        if file.declared_document is not None:
            return file.declared_document
        if not file.is_selector:
            return self._reader(file).variant_document(file)
        return self._selector_member(file, "variant.json")

    def size(self, file: File, *, unpacked: bool = False) -> FileSize:
        """Return the size of a wheel."""
        if not file.is_selector:
            return self._reader(file).size(file.as_published, unpacked=unpacked)
        from wheelfit.sources.bridges.selectors import zip_files

        files = self._selector_files(file)
        unpacked_size = sum(map(len, files.values())) if unpacked else None
        return FileSize(len(zip_files(files)), unpacked_size, is_on_disk=True)

    def open(self, file: File) -> ByteSource:
        """Return the bytes of a wheel."""
        if not file.is_selector:
            return self._reader(file).open(file.as_published)
        from wheelfit.wheels.bytes_source import BytesInMemory

        return BytesInMemory(self._selector_archive(file))

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Fetch the whole file into a folder."""
        if not file.is_selector:
            with self._recorded_hash_errors(file):
                path = self._reader(file).download(file.as_published, folder, progress)
            if self._lacks_hash(file):
                from wheelfit.sources.hash_check import check_file

                self._check_recorded(file, check_file(path, {}, None, where=file.display_name))
            return path if path.name == file.filename else path.replace(folder / file.filename)
        path = folder / file.filename
        path.write_bytes(self._selector_archive(file))
        return path

    def unpacked(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> UnpackedWheel:
        """Return a wheel unpacked and verified."""
        if not file.is_selector:
            with self._recorded_hash_errors(file):
                wheel = self._reader(file).unpacked(file.as_published, folder, progress)
            if self._lacks_hash(file):
                self._check_recorded(file, wheel.sha256)
            return wheel
        import tempfile

        from wheelfit.wheels.archive import WheelArchive
        from wheelfit.wheels.unpacking import unpack

        data = self._selector_archive(file)
        digest = sha256_of(data).hex()
        unpacked_folder = Path(tempfile.mkdtemp(prefix="bridge-", dir=folder))
        filename = parse_wheel_filename(file.filename)
        with WheelArchive(io.BytesIO(data), filename, where=file.filename) as archive:
            return unpack(archive, unpacked_folder, sha256=digest, advance=progress.advance)

    # --- files whose index lists no hash ------------------------------------------------

    def _with_recorded_hashes(self, page: ProjectPage | None) -> ProjectPage | None:
        """Return a page with the recorded hashes of files that were used before."""
        recorded = self._recorded
        if page is None or recorded is None or not any(map(self._lacks_hash, page.files)):
            return page
        files = []
        for file in page.files:
            sha256 = recorded.of(file) if self._lacks_hash(file) else None
            if sha256 is not None:
                self._from_record.add(file.url)
            files.append(structs.replace(file, hashes={"sha256": sha256}) if sha256 else file)
        return structs.replace(page, files=tuple(files))

    def _lacks_hash(self, file: File) -> bool:
        """Return whether a file is from an index of a family and has no promised hash."""
        is_declared = file.declared_document is not None
        return is_declared and not file.hashes and file.source in self._sources

    @contextmanager
    def _recorded_hash_errors(self, file: File) -> Iterator[None]:
        """Raise ``file-changed`` for a mismatch with a recorded hash.

        :raises IntegrityError: ``file-changed``; the file differs from the one used before.
        """
        try:
            yield
        except HashMismatch as error:
            if file.url not in self._from_record:
                raise
            raise changed(parse_wheel_filename(file.filename).name, file, error.note) from error

    def _check_recorded(self, file: File, sha256: str) -> None:
        """Record the hash of a file, or compare it with the record."""
        if self._recorded is not None:
            self._recorded.check(parse_wheel_filename(file.filename).name, file, sha256)

    def _declared_metadata(self, file: File) -> bytes:
        """Return the METADATA of a member's own wheel.

        :raises InvalidWheel: the wheel does not exist: a link is broken, or only a rule names it.
        """
        try:
            return self._reader(file).metadata(file.as_published)
        except UnexpectedStatus as error:
            if error.status not in _MISSING:
                raise
            raise InvalidWheel(error.message, where=error.where) from error

    def _with_added_requirements(self, file: File, metadata: bytes) -> bytes:
        if file.added_requirements is not None:
            return file.with_added_requirements(metadata)
        from wheelfit.sources.bridges.selectors import added_requirements_of

        filename = parse_wheel_filename(file.filename)
        family = self._catalogue.of(filename.name)
        member = None if family is None else family.member_of_wheel(filename)
        added = () if member is None else added_requirements_of(member, filename)
        return structs.replace(file, added_requirements=added).with_added_requirements(metadata)

    def _reader(self, file: File) -> Files:
        return self._sources.get(file.source, self._repository)

    def _selector_archive(self, file: File) -> bytes:
        from wheelfit.sources.bridges.selectors import LazyHashes, zip_files
        from wheelfit.sources.hash_check import check_bytes

        data = zip_files(self._selector_files(file))
        if not isinstance(file.hashes, LazyHashes):  # hashes promised elsewhere, as in a lock
            check_bytes(data, file.hashes, file.size, where=file.filename)
        return data

    def _selector_files(self, file: File) -> dict[str, bytes]:
        from wheelfit.sources.bridges.selectors import selector_wheel

        return selector_wheel(self._family(file), parse_wheel_filename(file.filename))

    def _selector_member(self, file: File, name: str) -> bytes:
        files = self._selector_files(file)
        return next(content for path, content in files.items() if path.endswith(f"/{name}"))

    def _family(self, file: File) -> BridgeFamily:
        name = file.url.removeprefix(BRIDGE).partition("/")[0]
        family = self._catalogue.named(name)
        if family is None:
            raise FileProblem(
                f"unknown bridge {name!r}",
                where=file.filename,
                hint="for a family of your own, pass its file with --bridge",
            )
        return family
