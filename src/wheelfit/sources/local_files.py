"""The reader of wheels and other files on this machine."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.cache import Store
from wheelfit.sources.hash_check import check_bytes, check_file
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit.sources.repository import READ_LIMIT, FileSize
from wheelfit.sources.urls import file_path, redact
from wheelfit.sources.wheel_store import WheelStore
from wheelfit_runtime.errors import FileProblem, InvalidWheel, os_reason

if TYPE_CHECKING:
    from wheelfit.core.filename import WheelFilename
    from wheelfit.sources.page import File
    from wheelfit.wheels.bytes_source import ByteSource
    from wheelfit.wheels.unpacked import UnpackedWheel


METADATA = "METADATA"
VARIANT_DOCUMENT = "variant.json"


class LocalFiles:
    """A reader of ``file:`` files; the methods are those of ``Repository``.

    :param wheels: the store of unpacked wheels; None: nothing is stored.
    """

    def __init__(self, wheels: WheelStore | None = None) -> None:
        self._wheels = wheels or WheelStore(Store(None))

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a small file."""
        path = path_of(file)
        data = read_bytes(path, limit)
        check_bytes(data, file.hashes, file.size, where=str(path))
        return data

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel."""
        path = path_of(file)
        metadata_path = path.with_name(path.name + ".metadata")  # PEP 658
        if file.metadata_hashes is not None and metadata_path.is_file():
            data = read_bytes(metadata_path)
            check_bytes(data, file.metadata_hashes, None, where=str(metadata_path))
            return data
        members = read_local_members(path, [METADATA], file.as_published.filename)
        return file.with_added_requirements(metadata_of(members, str(path)))

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` inside a variant wheel, or None if it has none."""
        if file.declared_document is not None:
            return file.declared_document
        if not parse_wheel_filename(file.filename).is_variant:  # F-10
            return None
        members = read_local_members(path_of(file), [VARIANT_DOCUMENT], file.filename)
        return members.get(VARIANT_DOCUMENT)

    def size(self, file: File, *, unpacked: bool = False) -> FileSize:
        """Return the size of a wheel."""
        return size_of_local(path_of(file), unpacked=unpacked)

    def open(self, file: File) -> ByteSource:
        """Return the bytes of a wheel."""
        from wheelfit.wheels.bytes_source import open_local

        path = path_of(file)
        try:
            return open_local(path)
        except OSError as error:
            raise read_problem(path, error) from error

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Put the file into a folder, as a hard link if possible, else as a copy."""
        path = path_of(file)
        try:
            if file.hashes or file.size is not None:
                check_file(path, file.hashes, file.size, where=str(path))
            size = path.stat().st_size
            progress.copying()
            progress.start(size)
            target = link_or_copy(path, folder, file.filename)
        except OSError as error:
            raise read_problem(path, error) from error
        progress.advance(size)
        progress.done()
        return target

    def unpacked(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> UnpackedWheel:
        """Return a wheel unpacked and verified."""
        path = path_of(file)
        filename = parse_wheel_filename(file.as_published.filename)
        where = redact(file.url)
        try:
            before = path.stat()
            wheel = self._stored_wheel(file, filename, path, before)
            if wheel is not None:
                return wheel
            progress.start(before.st_size)
            sha256 = check_file(
                path, file.hashes, file.size, where=str(path), advance=progress.advance
            )
            progress.done()

            def check_unchanged() -> None:
                if _identity(path.stat()) != _identity(before):
                    raise FileProblem("the file was changed while it was read", where=where)

            find = partial(self._wheels.find, sha256, filename, where=where, archive=path)
            wheel = find()
            if wheel is None:
                with self._wheels.exclusive(sha256, progress):
                    # Another process may have unpacked it meanwhile.
                    wheel = find() or self._wheels.unpacked(
                        path,
                        filename,
                        sha256,
                        folder,
                        where=where,
                        check=check_unchanged,
                        progress=progress,
                    )
            self._wheels.remember_digest(path, before, sha256)
        except OSError as error:
            raise read_problem(path, error) from error
        return wheel

    def _stored_wheel(
        self, file: File, filename: WheelFilename, path: Path, status: os.stat_result
    ) -> UnpackedWheel | None:
        """Return the stored wheel of a file that was read before and has not changed since."""
        if not file.hashes.keys() <= {"sha256"} or file.size not in (None, status.st_size):
            return None  # another hash needs the content, and a wrong size is an error
        sha256 = self._wheels.digest_of(path, status)
        if sha256 is None or file.hashes.get("sha256", sha256) != sha256:
            return None
        return self._wheels.find(sha256, filename, where=redact(file.url))


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def path_of(file: File) -> Path:
    """Return the path of a local file.

    :raises FileProblem: its URL names another host.
    """
    try:
        return Path(file_path(file.url))
    except ValueError as error:
        raise FileProblem(str(error), where=file.url) from error


def read_local_members(path: Path, names: list[str], filename: str) -> dict[str, bytes]:
    """Read files of the dist-info folder of a wheel on this machine.

    :param names: their names in that folder.
    :param filename: the name of the wheel, which the file itself need not have.
    :return: content by name; files that the wheel does not have are missing.
    :raises FileProblem: the file cannot be read.
    :raises InvalidFilename: it is not the name of a wheel.
    :raises InvalidWheel: the wheel is not valid.
    """
    from wheelfit.wheels.bytes_source import open_local
    from wheelfit.wheels.partial_archive import read_members

    parsed = parse_wheel_filename(filename)
    try:
        with closing(open_local(path)) as source:
            return read_members(source, names, filename=parsed, where=str(path))
    except OSError as error:
        raise read_problem(path, error) from error


def size_of_local(path: Path, *, unpacked: bool) -> FileSize:
    """Return the size of a wheel on this machine; errors are reported in the result.

    :param unpacked: whether to include the total size of its members.
    """
    from wheelfit.wheels.bytes_source import open_local

    try:
        with closing(open_local(path)) as source:
            total = source.size
            if not unpacked:
                return FileSize(total, is_on_disk=True)
            from wheelfit.wheels.partial_archive import read_sizes

            return FileSize(*read_sizes(source, where=str(path)), is_on_disk=True)
    except OSError as error:
        return FileSize(None, is_on_disk=True, why_unknown=read_problem(path, error).message)
    except InvalidWheel as error:
        return FileSize(total, is_on_disk=True, why_unknown=error.message)


def metadata_of(members: dict[str, bytes], where: str) -> bytes:
    """Return METADATA from the result of `read_local_members`.

    :raises InvalidWheel: the wheel has no METADATA.
    """
    if METADATA not in members:
        raise InvalidWheel("the wheel has no METADATA", where=where)
    return members[METADATA]


def link_or_copy(source: Path, folder: Path, name: str) -> Path:
    """Put a file into a folder atomically, as a hard link if possible, else as a copy.

    :param name: the file name in the folder; an existing file is replaced.
    :raises OSError: neither works.
    """
    import shutil
    import tempfile

    target = folder / name
    with tempfile.TemporaryDirectory(prefix=".", suffix=".part", dir=folder) as temporary_folder:
        temporary = Path(temporary_folder, "file")
        try:
            temporary.hardlink_to(source.resolve())
        except OSError:
            shutil.copyfile(source, temporary)
        with suppress(FileNotFoundError):
            # A rename onto a link to the same file does nothing and leaves both.
            target.unlink()
        temporary.replace(target)
    return target


def read_problem(
    path: Path, error: OSError, kind: Literal["file", "folder"] = "file"
) -> FileProblem:
    """Return the error for a file or folder that cannot be read."""
    return FileProblem(f"the {kind} cannot be read: {os_reason(error)}", where=str(path))


def read_bytes(path: Path, limit: int = READ_LIMIT) -> bytes:
    """Return the content of a file of at most so many bytes.

    :raises FileProblem: it cannot be read, or is longer.
    """
    try:
        with path.open("rb") as file:
            is_too_long = os.fstat(file.fileno()).st_size > limit
            data = b"" if is_too_long else file.read(limit + 1)
    except OSError as error:
        raise read_problem(path, error) from error
    if is_too_long or len(data) > limit:
        raise FileProblem(f"the file is longer than {limit} bytes", where=str(path))
    return data
