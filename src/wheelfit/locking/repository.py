"""A lock as the only source of files (F-123).

So the code that chooses, explains, downloads and checks wheels of an index also works for a lock.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wheelfit.core.filename import index_file_name
from wheelfit.sources.file_readers import DelegatedFiles
from wheelfit.sources.page import BRIDGE, File, ProjectPage
from wheelfit.sources.repository import READ_LIMIT, Files
from wheelfit.sources.urls import (
    file_url,
    join,
    last_segment,
    origin,
    redact,
    split_userinfo,
    without_fragment,
)
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packaging.utils import NormalizedName

    from wheelfit.locking.document import LockedPackage, LockedSource, LockedWheel


class LockedRepository(DelegatedFiles):
    """A ``Repository`` with the packages of a lock.

    :param packages: the packages that apply, one for each name.
    :param files: reads the wheels; None: only the metadata in the lock is used, and reading a wheel
        raises ``FileProblem``.
    :param folder: the folder of the lock file, for its relative paths; None: the lock is not a file
        of this machine, and may not name files of it.
    :param built: returns the wheel to be built from the source of a package; default: sources are
        left out.
    """

    def __init__(
        self,
        packages: Iterable[LockedPackage],
        *,
        name: str,
        files: Files | None = None,
        folder: Path | None = None,
        built: Callable[[LockedPackage], File] | None = None,
    ) -> None:
        self.name = name
        self._reader_of_wheels = files
        self._built = built
        self._packages = {package.name: package for package in packages}
        self._folder = folder
        self._documents: dict[str, LockedPackage] = {}

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of the packages."""
        return tuple(sorted(self._packages))

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the wheels of a package, and its variant metadata as an index file.

        :raises FileProblem: the lock names a file that must not or cannot be read.
        """
        package = self._packages.get(name)
        if package is None:
            return None
        files = [self._file(package, wheel) for wheel in package.wheels]
        if package.source is not None and self._built is not None:
            files.append(self._built(package))
        if package.table is not None and package.version is not None:
            index_file = index_file_name(name, package.version)
            self._documents[index_file] = package
            files.append(File(index_file, f"lock:{index_file}", source=self.name))
        # A release with joined builds is locked without a local version.
        is_joined = package.version is not None and package.version.local is None
        return ProjectPage(name, tuple(files), self.name, has_joined_builds=is_joined)

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the variant metadata that the lock inlines, as JSON."""
        package = self._documents.get(file.filename)
        if package is None:
            return super().read(file, limit=limit)
        return json.dumps(_json(dict(package.table or {}))).encode()

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` in a wheel that is on this machine (F-122).

        A remote wheel is read too if the package is a single archive (F-124).

        :raises FileProblem: the wheel is elsewhere, or no reader of wheels was given.
        """
        if not file.is_local and not self._is_archive(file):
            raise FileProblem(
                "the lock has no variant metadata of this wheel, which is not on this machine",
                where=file.filename,
            )
        return super().variant_document(file)

    def _reader(self, file: File) -> Files:
        if self._reader_of_wheels is None:
            raise FileProblem(
                f"{file.filename} would have to be read, but only the lock may be read",
                where=self.name,
            )
        return self._reader_of_wheels

    def _is_archive(self, file: File) -> bool:
        return any(
            package.kind == "archive" and wheel.filename.text == file.filename
            for package in self._packages.values()
            for wheel in package.wheels
        )

    def _file(self, package: LockedPackage, wheel: LockedWheel) -> File:
        url = url_of_entry(wheel, wheel.filename.text, where=self.name, folder=self._folder)
        return File(
            wheel.filename.text,
            url,
            wheel.hashes,
            size=wheel.size,
            upload_time=None if wheel.upload_time is None else wheel.upload_time.isoformat(),
            source=self.name,
            declared_document=self._declared(package, wheel, wheel.url or url),
        )

    @staticmethod
    def _declared(package: LockedPackage, wheel: LockedWheel, url: str) -> bytes | None:
        """Return the document of a wheel that a bridge gave a label; None for others."""
        label = wheel.filename.label
        # Without a document, the table is invalid, and no variant is used.
        if label is None or package.table is None or package.document is None:
            return None
        if url.startswith(BRIDGE):
            return None
        if last_segment(url) != wheel.filename.plain:
            return None
        table = _json(dict(package.table))
        return json.dumps({**table, "variants": {label: table["variants"].get(label, {})}}).encode()


def url_of_entry(
    entry: LockedWheel | LockedSource, name: str, *, where: str, folder: Path | None
) -> str:
    """Return the URL of a file, directory or repository that a lock names.

    :param folder: the folder of the lock file; None: it came from elsewhere.
    :raises FileProblem: the location must not or cannot be read.
    """
    if entry.path is not None and (folder is not None or entry.url is None):
        if folder is None or "\0" in entry.path:
            raise _location_error(name, f"the path {entry.path!r}", where, folder)
        path = folder / Path(entry.path)
        plain = os.path.normpath(path)  # as installers record it; symlinks may change its meaning
        return file_url(Path(plain) if os.path.realpath(plain) == os.path.realpath(path) else path)
    # Many people read a lock, so credentials in it are not used.
    written = entry.url or ""
    try:
        url = split_userinfo(without_fragment(join("", written)))[0]
        scheme = url.partition(":")[0].lower()
        if scheme == "file" and folder is not None:
            return url
        if scheme in {"http", "https"}:
            origin(url)  # raises if there is no host
            return url
        if url.startswith(BRIDGE):
            return url
    except ValueError:
        pass
    raise _location_error(name, redact(written), where, folder)


def _location_error(name: str, location: str, where: str, folder: Path | None) -> FileProblem:
    hint = None
    if folder is None:
        hint = "only a lock file on this machine may name files on it"
    return FileProblem(
        f"the location of {name} in the lock cannot be used: {location}", where=where, hint=hint
    )


def _json(value: Any) -> Any:
    """Return a value for JSON; a date or an infinite number becomes None."""
    match value:
        case dict():
            return {key: _json(item) for key, item in value.items()}
        case list():
            return [_json(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case str() | int() | float():
            return value
        case _:
            return None
