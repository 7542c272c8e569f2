"""The cache on disk: a store of verified entries, whose failures are never errors.

Any number of processes may use one folder at once. An entry appears complete or not at all
(temporary file, then rename), and carries its own checksum, so that one damaged by a crash or a
full disk reads as absent. No error is raised: a store that cannot be read or written acts as empty,
with a note to the user. So does a store that another user could have changed
(`wheelfit_runtime.platforms.cache_folder`).

The keys come first: one function for each kind of entry, with all values that decide its content. A
new kind is a function here; raise its version whenever the format of the content changes. A new
folder also needs a row in `wheelfit.sources.cache_inventory`. Results of drivers are cached
separately, by `wheelfit_runtime.platforms.cache`.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from wheelfit.core.digests import sha256_of
from wheelfit.sources.cache_locks import EntryLocks, lock_open_file
from wheelfit.sources.hash_check import check_file
from wheelfit_runtime.errors import IntegrityError, os_reason
from wheelfit_runtime.platforms.cache_folder import (
    is_own,
    make_folders,
    unsafe_folder,
    usable_cache_folder,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_T = TypeVar("_T")


def key_of(kind: str, version: int, *parts: object) -> str:
    """Return the key of an entry; different parts give different keys.

    >>> key_of("size", 1, "a", None)
    '["size",1,"a",null]'

    :param kind: the kind of content, unique within one folder.
    :param version: the version of the content's format; a higher one makes older entries absent.
    :param parts: the values that decide the content, as plain data.
    """
    return json.dumps([kind, version, *parts], sort_keys=True, separators=(",", ":"))


def page_key(url: str, accept: str, user: str, *, packed: bool) -> str:
    """Return the key of a page of an index, as the server sent it.

    :param accept: the header ``Accept`` of the request.
    :param user: the user name sent to the server; empty: none.
    :param packed: whether the page is kept compressed.
    """
    return key_of("packed page" if packed else "page", 1, user, accept, url)


def missing_page_key(url: str, user: str) -> str:
    """Return the key of the record that a server lacks a page.

    :param user: as in `page_key`.
    """
    return key_of("missing page", 1, user, url)


def parsed_page_key(wheelfit_version: str, source: str, project: str, stamp: str) -> str:
    """Return the key of a page that is parsed already.

    :param project: normalised; its releases are sorted, even if other projects share the page.
    :param stamp: a stamp of the exact bytes of the page, and of their origin.
    """
    return key_of("parsed", 9, wheelfit_version, source, project, stamp)


def member_key(name: str, sha256: str, url: str) -> str:
    """Return the key of a member of a remote wheel.

    The URL is part of it: one server's file must not vouch for another server's file of the same
    promised hash.

    :param sha256: the promised hash of the wheel.
    """
    return key_of("member", 1, name, sha256, url)


def wheel_size_key(sha256: str | None, url: str) -> str:
    """Return the key of the sizes of a remote wheel, packed and unpacked.

    :param sha256: the promised hash of the wheel.
    """
    return key_of("size", 1, sha256, url)


def recorded_hash_key(url: str) -> str:
    """Return the key of the SHA-256 that a file had on first use.

    :param url: without credentials.
    """
    return key_of("hash", 1, url)


def local_digest_key(path: Path, status: os.stat_result) -> str:
    """Return the key of the SHA-256 of a file on this machine."""
    size_and_times = status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return key_of("digest", 1, str(path.absolute()), status.st_dev, status.st_ino, *size_and_times)


def interpreter_key(path: str) -> str:
    """Return the key of an interpreter's description of itself.

    :param path: the absolute path by which it is started.
    """
    return key_of("interpreters", 1, path)


def built_wheel_key(
    source: object, target: object, settings: Mapping[str, object], environment: object
) -> str:
    """Return the key of a wheel that was built from source.

    :param source: the identity of the source tree.
    :param target: the machine and the interpreter that it is built for.
    """
    return key_of("built", 1, source, target, dict(settings), environment)


def built_metadata_key(
    source: object, kind: str, target: object, settings: Mapping[str, object]
) -> str:
    """Return the key of the metadata from a build backend.

    :param kind: ``wheel`` or ``editable``.
    """
    return key_of("metadata", 1, source, kind, target, dict(settings))


def declared_metadata_key(filename: str, sha256: str) -> str:
    """Return the key of the metadata that a source distribution declares.

    :param filename: of the wheel it stands for; metadata are checked for one release.
    """
    return key_of("declared metadata", 1, filename, sha256)


def lock_key(wheelfit_version: str, request: str, sha256: str) -> str:
    """Return the key of the record that a lock is up to date.

    :param request: the digest of the whole request.
    """
    return key_of("lock", 3, wheelfit_version, request, sha256)


def valid_lock_key(wheelfit_version: str, packaging_version: str, sha256: str) -> str:
    """Return the key of the record that a lock is valid; packaging does a part of the check."""
    return key_of("valid lock", 1, wheelfit_version, packaging_version, sha256)


_DAY = 24 * 3600.0
_MAGIC = b"wheelfit cache 2\n"
_DIGEST_SIZE = 32
_PREFIX_SIZE = len(_MAGIC) + _DIGEST_SIZE + 4
"""Bytes before the head of an entry: the magic text, the digest of the head, its length."""
_FIRST_READ_SIZE = 1 << 16
"""Bytes that are read first of an entry whose body may not be needed."""
_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait for a writer
)
_CACHEDIR_TAG = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This folder is a cache of wheelfit; it may be deleted at any time.\n"
)


class CacheEntry(Struct, frozen=True):
    """A small entry of the cache."""

    head: Mapping[str, object]
    """Facts about the content, as JSON values."""
    body: bytes
    """The content; empty where only the head was read."""
    sha256: str = ""
    """SHA-256 of the content, hexadecimal."""


class Store:
    """The cache on disk: small entries by key, and wheels by hash.

    Each kind of entries, such as ``pages``, has a folder of its own. Keys are any text, and hashes
    hexadecimal.

    :param folder: the folder; created on the first write. Without one, and with one that another
        user could have changed, nothing is cached.
    :param note: called, once, when the cache cannot be written or may not be used.
    """

    def __init__(
        self, folder: Path | None, *, note: Callable[[str], None] = lambda _text: None
    ) -> None:
        self._folder = usable_cache_folder(folder, note)
        self._note = note
        self._folders: dict[str, str | None] = {}
        self.locks = EntryLocks()
        """The locks on entries in use, which no clean-up removes."""
        self._has_warned = False

    @property
    def is_enabled(self) -> bool:
        """Whether anything is cached."""
        return self._folder is not None

    @property
    def folder(self) -> Path | None:
        """The folder; None if nothing is cached."""
        return self._folder

    def prepare(self, folder: Path) -> None:
        """Create a folder of the store, and the folder of the store itself if it is missing.

        :raises OSError: it cannot be created.
        """
        assert self._folder is not None  # noqa: S101 - for the type checker
        if not self._folder.exists():
            make_folders(str(self._folder))
            with suppress(OSError):
                (self._folder / "CACHEDIR.TAG").write_text(_CACHEDIR_TAG, encoding="ascii")
        make_folders(str(folder))

    def kind_folder(self, kind: str) -> str | None:
        """Return the folder of one kind of entries; None if nothing of that kind is cached."""
        if self._folder is None:
            return None
        if kind not in self._folders:
            folder = os.path.join(self._folder, f"{kind}-1")  # noqa: PTH118 - hundreds in one run
            unsafe = unsafe_folder(folder)
            if unsafe is not None:
                self._note(f"the cache {unsafe}")
            self._folders[kind] = None if unsafe is not None else folder
        return self._folders[kind]

    def path_of(self, kind: str, sha256: str) -> Path | None:
        """Return the path, existing or not, of an entry that is cached by its hash.

        :return: None if nothing of that kind is cached, or another user could replace it there.
        """
        folder = self.kind_folder(kind)
        if folder is None or len(sha256) != 64 or not sha256.isalnum():
            return None
        parent = os.path.join(folder, sha256[:2])  # noqa: PTH118 - for every wheel
        return None if unsafe_folder(parent) else Path(parent, sha256[2:])

    def close(self) -> None:
        """Release the locks, so that a clean-up may remove the entries."""
        self.locks.close()

    # --- small entries ------------------------------------------------------------

    def read(self, kind: str, key: str) -> CacheEntry | None:
        """Return an entry; None if there is no intact one."""
        data = self._from_file(kind, key, FileIO.readall)
        return None if data is None else _with_key(unpacked_entry(data), key)

    def read_head(self, kind: str, key: str) -> CacheEntry | None:
        """Return an entry without its content, unless that is short; None: none is intact."""

        def read(file: FileIO) -> CacheEntry | None:
            data = file.read(_FIRST_READ_SIZE)
            if len(data) < _FIRST_READ_SIZE:
                return unpacked_entry(data)
            missing = min(_end_of_head(data), os.fstat(file.fileno()).st_size) - len(data)
            return _head_of(data + file.read(missing) if missing > 0 else data)

        return _with_key(self._from_file(kind, key, read), key)

    def read_part(self, kind: str, key: str, start: int, length: int) -> bytes | None:
        """Return unchecked bytes of the content of an entry; None: it cannot be read.

        :param start: their offset in the content.
        """

        def read(file: FileIO) -> bytes:
            offset = _end_of_head(file.read(_PREFIX_SIZE)) + start
            file.seek(offset)
            return file.read(max(0, min(length, os.fstat(file.fileno()).st_size - offset)))

        return self._from_file(kind, key, read)

    def _from_file(self, kind: str, key: str, read: Callable[[FileIO], _T]) -> _T | None:
        """Return the result of reading the file of an entry; None if it cannot be read."""
        path = self._entry_path(kind, key)
        if path is None:
            return None
        try:
            with FileIO(os.open(path, _OPEN_FLAGS)) as file:
                if not is_own(os.fstat(file.fileno())):
                    return None
                mark_used(file.fileno())
                return read(file)
        except OSError:
            return None

    def write(self, kind: str, key: str, head: Mapping[str, object], body: bytes) -> None:
        """Write an entry, in place of an older one of the same key."""
        path = self._entry_path(kind, key)
        if path is None:
            return
        try:
            with self._temporary(Path(path).parent) as (file, temporary):
                file.write(_pack({**head, "key": key}, body))
                file.close()
                temporary.replace(path)
        except OSError as error:
            self.warn_once(error)

    def _entry_path(self, kind: str, key: str) -> str | None:
        folder = self.kind_folder(kind)
        if folder is None:
            return None
        name = sha256_of(key.encode(errors="surrogateescape")).hex()
        return os.path.join(folder, name[:2], name[2:])  # noqa: PTH118

    # --- wheels --------------------------------------------------------------------

    def wheel(self, sha256: str) -> Path | None:
        """Return the path of a cached wheel, without checking its bytes; None if there is none."""
        path = self.path_of("wheels", sha256)
        if path is None:
            return None
        try:
            status = path.lstat()
        except OSError:
            return None
        if not (stat.S_ISREG(status.st_mode) and is_own(status) and self.locks.lock(path)):
            return None
        mark_used(path)
        return path

    def intact_wheel(self, sha256: str, hashes: Mapping[str, str] | None = None) -> Path | None:
        """Return the path of a cached wheel after checking its bytes; remove a damaged one.

        :param hashes: further promised hashes.
        """
        path = self.wheel(sha256)
        if path is None:
            return None
        try:
            check_file(path, {**(hashes or {}), "sha256": sha256}, None, where=str(path))
        except (OSError, IntegrityError):
            self.forget_wheel(sha256)
            return None
        return path

    def wheels(self, min_size: int) -> Iterator[tuple[str, Path]]:
        """Yield digest and path of the cached wheels of at least so many bytes, newest first."""
        wheels = []
        for subfolder in _entries(self.kind_folder("wheels")):
            if len(subfolder.name) != 2 or unsafe_folder(subfolder.path):
                continue
            for entry in _entries(subfolder.path):
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    is_wheel = stat.S_ISREG(status.st_mode) and is_own(status)
                    if is_wheel and len(entry.name) == 62 and status.st_size >= min_size:
                        wheels.append((status.st_mtime, subfolder.name + entry.name, entry.path))
        for _, sha256, path in sorted(wheels, reverse=True):
            yield sha256, Path(path)

    def forget_wheel(self, sha256: str) -> None:
        """Remove a wheel that turned out to be damaged."""
        path = self.path_of("wheels", sha256)
        if path is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    @contextmanager
    def new_wheel(self) -> Iterator[tuple[BinaryIO, Path] | None]:
        """Yield a temporary file for a wheel, with its path; None if the folder cannot be written.

        The file is removed, unless `keep_wheel` has renamed it.
        """
        temporary = None
        with ExitStack() as stack:
            folder = self.kind_folder("wheels")
            if folder is not None:
                try:
                    temporary = stack.enter_context(self._temporary(Path(folder)))
                except OSError as error:
                    self.warn_once(error)
            yield temporary

    def keep_wheel(self, temporary: Path, sha256: str) -> Path | None:
        """Cache a wheel that was written and checked, and return its path there.

        :param temporary: from `new_wheel`, synchronised and closed.
        """
        path = self.path_of("wheels", sha256)
        if path is None:
            return None
        try:
            self.prepare(path.parent)
            self.locks.lock(temporary)  # the lock belongs to the file, and survives its renaming
            temporary.replace(path)
        except OSError as error:
            self.warn_once(error)
            return None
        return path

    def warn_once(self, error: OSError) -> None:
        """Warn that nothing can be cached; only once, since a missing cache only costs time."""
        if not self._has_warned:
            self._has_warned = True
            from wheelfit.wheels.disk_space import FULL, no_space_message

            reason = os_reason(error)
            if error.errno in FULL and self._folder is not None:
                reason = no_space_message(self._folder, error=error)
            self._note(
                f"the cache {self._folder} cannot be written, so nothing is cached: {reason}"
            )

    # --- files ----------------------------------------------------------------------

    @contextmanager
    def _temporary(self, folder: Path) -> Iterator[tuple[BinaryIO, Path]]:
        """Yield a new, locked file in a folder, with its path; remove it in the end.

        :raises OSError: it cannot be created, or another user could replace it.
        """
        import tempfile

        if (unsafe := unsafe_folder(str(folder))) is not None:
            raise PermissionError(errno.EPERM, unsafe.reason, str(folder))
        make_file = partial(tempfile.mkstemp, prefix=".", suffix=".part", dir=folder)
        try:
            descriptor, name = make_file()
        except FileNotFoundError:
            self.prepare(folder)
            descriptor, name = make_file()
        lock_open_file(descriptor)  # so that no clean-up removes it while this process runs
        file, path = os.fdopen(descriptor, "w+b"), Path(name)
        try:
            yield file, path
        finally:
            with suppress(OSError):  # closing reports a full disk again
                file.close()
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _pack(head: Mapping[str, object], body: bytes) -> bytes:
    """Return the bytes of an entry.

    The checksum of the head covers the digest of the body, so a head can be verified without it.
    """
    text = json.dumps(head, separators=(",", ":")).encode()
    checked = len(text).to_bytes(4, "big") + text + sha256_of(body)
    return b"".join((_MAGIC, sha256_of(checked), checked, body))


def mark_used(file: Path | int) -> None:
    """Mark an entry as used, so that it is removed last; once a day is enough.

    :param file: a path, or a file descriptor.
    """
    with suppress(OSError):
        now = time.time()
        if now - os.stat(file).st_mtime > _DAY:  # noqa: PTH116 - a descriptor has no path
            os.utime(file)


def unpacked_entry(data: bytes) -> CacheEntry | None:
    """Return an entry without checking its key; None if it is damaged."""
    entry = _head_of(data)
    if entry is None:
        return None
    body = data[_end_of_head(data) :]
    return replace(entry, body=body) if sha256_of(body).hex() == entry.sha256 else None


def _head_of(data: bytes) -> CacheEntry | None:
    """Return an entry without its content; None if the head is damaged."""
    end = _end_of_head(data)
    # The head ends with the digest of the content.
    is_whole = _PREFIX_SIZE + _DIGEST_SIZE <= end <= len(data)
    if not data.startswith(_MAGIC) or not is_whole:
        return None
    checked = memoryview(data)[len(_MAGIC) + _DIGEST_SIZE : end]
    if sha256_of(checked) != data[len(_MAGIC) : len(_MAGIC) + _DIGEST_SIZE]:
        return None
    head = json.loads(data[_PREFIX_SIZE : end - _DIGEST_SIZE])
    digest = data[end - _DIGEST_SIZE : end].hex()
    return CacheEntry(head, b"", digest) if isinstance(head, dict) else None


def _end_of_head(data: bytes) -> int:
    """Return the offset of the content in an entry; 0 if the entry is too short for a head."""
    length = data[_PREFIX_SIZE - 4 : _PREFIX_SIZE]
    return _PREFIX_SIZE + int.from_bytes(length, "big") + _DIGEST_SIZE if len(length) == 4 else 0


def _with_key(entry: CacheEntry | None, key: str) -> CacheEntry | None:
    """Return an entry if it has this key; it has another one if the hashes of two keys collide."""
    return entry if entry is not None and entry.head.get("key") == key else None


def _entries(folder: str | Path | None) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; none if it is missing or cannot be read."""
    if folder is None:
        return []
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
