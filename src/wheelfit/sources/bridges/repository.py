"""A repository in which families of distributions are projects with variants."""

from __future__ import annotations

import io
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from wheelfit.core.digests import sha256_of
from wheelfit.core.filename import parse_index_file_name, parse_wheel_filename
from wheelfit.sources.concurrency import at_once
from wheelfit.sources.page import BRIDGE
from wheelfit.sources.progress import NO_PROGRESS
from wheelfit.sources.repository import READ_LIMIT, FileSize, stamp_of
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packaging.utils import NormalizedName

    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.sources.bridges.catalogue import BridgeCatalogue
    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.progress import Progress
    from wheelfit.sources.repository import Files, Repository
    from wheelfit.wheels.bytes_source import ByteSource
    from wheelfit.wheels.unpacked import UnpackedWheel

_MOST = 8  # pages at the same time


class BridgedRepository:
    """A ``Repository`` in which families have variants; everything else is as it was.

    A member with a name of its own is presented by wheels that contain nothing and need it
    (`wheelfit.sources.bridges.selectors`), one for each of its wheels, so that tags, Pythons,
    yanks and times are its own. A member with the family's name is presented by its very
    wheels, under a label.

    A project that has variants itself is left alone; so is one whose members are elsewhere than
    it is itself, for who owns a name in one place owns nothing in another (F-126).

    :param repository: what does the work.
    :param shelf: the families that count.
    :param open_index: returns the repository of an index of a family; None: there is none.
    """

    def __init__(
        self,
        repository: Repository,
        shelf: BridgeCatalogue,
        open_index: Callable[[str], Repository] | None = None,
    ) -> None:
        self.name = repository.name
        self._repository = repository
        self._shelf = shelf
        self._open_index = open_index
        self._indexes: dict[str, Repository] = {}
        self._sources: dict[str, Repository] = {}
        self._lock = threading.Lock()

    # --- pages ------------------------------------------------------------------------

    def projects(self) -> Iterable[NormalizedName]:
        """Return the names of all projects."""
        return self._repository.projects()

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, that of a family with its members."""
        family = self._shelf.of(name)
        if family is None:
            return self._repository.project(name)
        from wheelfit.sources.bridges.pages import page_of_names  # noqa: PLC0415 - start-up

        if family.is_of_indexes:
            return self._of_indexes(name, family)
        names = tuple(dict.fromkeys((name, *family.distributions)))
        pages = dict(zip(names, at_once(names, self._repository.project, most=_MOST), strict=True))
        page = page_of_names(family, pages)
        return None if page is None else replace(page, fresh=0.0)  # that of a member may change

    def stamp(self, name: NormalizedName) -> str | None:
        """Return what tells that the page of a project is the same; None of a family's."""
        return stamp_of(self._repository, name) if self._shelf.of(name) is None else None

    def _of_indexes(self, name: NormalizedName, family: BridgeFamily) -> ProjectPage | None:
        if self._open_index is None:
            return self._repository.project(name)
        from wheelfit.sources.bridges.pages import page_of_indexes  # noqa: PLC0415 - start-up

        base = self._shelf.bases.get(family.name, family.base)
        wanted = tuple(dict.fromkeys(member.index for member in family.members))
        opened = [self._index(f"{base}/{index}", self._open_index) for index in wanted]
        pages = at_once(opened, lambda index: index.project(name), most=_MOST)
        return page_of_indexes(family, name, dict(zip(wanted, pages, strict=True)))

    def _index(self, url: str, open_index: Callable[[str], Repository]) -> Repository:
        with self._lock:
            found = self._indexes.get(url)
            if found is None:
                found = self._indexes[url] = open_index(url)
            self._sources[found.name] = found
        return found

    # --- files ------------------------------------------------------------------------

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a small file."""
        if not file.is_selector:
            return self._reader(file).read(_true(file), limit=limit)
        from wheelfit.sources.bridges.selectors import document_bytes, zipped  # noqa: PLC0415

        family = self._family(file)
        release = parse_index_file_name(file.filename)
        if release is None:
            return zipped(self._files(file))
        return document_bytes(family, *family.members_of(release[1]))

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel."""
        if not file.is_selector:
            return self._reader(file).metadata(_true(file))
        return self._member(file, "METADATA")

    def variant_document(self, file: File) -> bytes | None:
        """Return what a family says of a wheel, or the ``variant.json`` in it."""
        if file.declared is not None:
            return file.declared
        if not file.is_selector:
            return self._reader(file).variant_document(file)
        return self._member(file, "variant.json")

    def size(self, file: File, *, unpacked: bool = False) -> FileSize:
        """Return how large a wheel is."""
        if not file.is_selector:
            return self._reader(file).size(_true(file), unpacked=unpacked)
        from wheelfit.sources.bridges.selectors import zipped  # noqa: PLC0415 - start-up

        files = self._files(file)
        inside = sum(map(len, files.values())) if unpacked else None
        return FileSize(len(zipped(files)), inside, is_here=True)

    def open(self, file: File) -> ByteSource:
        """Return the bytes of a wheel."""
        if not file.is_selector:
            return self._reader(file).open(_true(file))
        from wheelfit.wheels.bytes_source import Memory  # noqa: PLC0415 - start-up

        return Memory(self._selector(file))

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Put the whole file into a folder."""
        if not file.is_selector:
            path = self._reader(file).download(_true(file), folder, progress)
            return path if path.name == file.filename else path.replace(folder / file.filename)
        path = folder / file.filename
        path.write_bytes(self._selector(file))
        return path

    def unpacked(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> UnpackedWheel:
        """Return a wheel unpacked and verified."""
        if not file.is_selector:
            return self._reader(file).unpacked(_true(file), folder, progress)
        import tempfile  # noqa: PLC0415 - start-up

        from wheelfit.wheels.archive import WheelArchive  # noqa: PLC0415 - start-up
        from wheelfit.wheels.unpacking import unpack  # noqa: PLC0415 - start-up

        data = self._selector(file)
        digest = sha256_of(data).hex()
        inside = Path(tempfile.mkdtemp(prefix="bridge-", dir=folder))
        filename = parse_wheel_filename(file.filename)
        with WheelArchive(io.BytesIO(data), filename, where=file.filename) as archive:
            return unpack(archive, inside, sha256=digest, advance=progress.advance)

    def _reader(self, file: File) -> Files:
        return self._sources.get(file.source, self._repository)

    def _selector(self, file: File) -> bytes:
        from wheelfit.sources.bridges.selectors import LateHashes, zipped  # noqa: PLC0415
        from wheelfit.sources.hash_check import check_bytes  # noqa: PLC0415 - start-up

        data = zipped(self._files(file))
        if not isinstance(file.hashes, LateHashes):  # what somebody else promises, as a lock
            check_bytes(data, file.hashes, file.size, where=file.filename)
        return data

    def _files(self, file: File) -> dict[str, bytes]:
        from wheelfit.sources.bridges.selectors import selector_wheel  # noqa: PLC0415

        return selector_wheel(self._family(file), parse_wheel_filename(file.filename))

    def _member(self, file: File, name: str) -> bytes:
        files = self._files(file)
        return next(content for path, content in files.items() if path.endswith(f"/{name}"))

    def _family(self, file: File) -> BridgeFamily:
        name = file.url.removeprefix(BRIDGE).partition("/")[0]
        family = self._shelf.named(name)
        if family is None:
            raise FileProblem(
                f"nothing is known of the bridge {name!r}",
                where=file.filename,
                hint="--bridge FILE.toml names the file of a family of your own",
            )
        return family


def _true(file: File) -> File:
    """Return a file as whoever has it calls it."""
    if file.declared is None:
        return file
    return structs.replace(file, filename=parse_wheel_filename(file.filename).plain, declared=None)
