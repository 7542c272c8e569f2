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
from wheelfit.sources.cache_locks import Holder, hold_open
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


def key_of(what: str, version: int, *parts: object) -> str:
    """Return the key of an entry; different parts give different keys.

    >>> key_of("size", 1, "a", None)
    '["size",1,"a",null]'

    :param what: the kind of content, unique within one folder.
    :param version: the version of the content's format; a higher one makes older entries absent.
    :param parts: the values that decide the content, as plain data.
    """
    return json.dumps([what, version, *parts], sort_keys=True, separators=(",", ":"))


def page_key(url: str, accept: str, user: str, *, packed: bool) -> str:
    """Return the key of a page of an index, as the server sent it.

    :param accept: the header ``Accept`` of the request.
    :param user: the user name sent to the server; empty: none.
    :param packed: whether the page is kept compressed.
    """
    return key_of("packed page" if packed else "page", 1, user, accept, url)


def parsed_page_key(wheelfit: str, source: str, stamp: str) -> str:
    """Return the key of a page that is parsed already.

    :param wheelfit: the version of wheelfit that parsed it.
    :param source: the name of the repository.
    :param stamp: a stamp of the exact bytes of the page, and of their origin.
    """
    return key_of("parsed", 7, wheelfit, source, stamp)


def member_key(name: str, sha256: str, url: str) -> str:
    """Return the key of a member of a remote wheel.

    The URL is part of it: one server's file must not vouch for another server's file of the same
    promised hash.

    :param name: the path of the member in the wheel.
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
    """Return the key of the SHA-256 of a file on this machine.

    :param status: the file's current status.
    """
    times = status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return key_of("digest", 1, str(path.absolute()), status.st_dev, status.st_ino, *times)


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
    :param settings: the settings of the build backend.
    :param environment: the content of the build environment.
    """
    return key_of("built", 1, source, target, dict(settings), environment)


def built_metadata_key(
    source: object, kind: str, target: object, settings: Mapping[str, object]
) -> str:
    """Return the key of the metadata from a build backend.

    :param source: the identity of the source tree.
    :param kind: ``wheel`` or ``editable``.
    :param target: the machine and the interpreter that it is built for.
    :param settings: the settings of the build backend.
    """
    return key_of("metadata", 1, source, kind, target, dict(settings))


def lock_key(wheelfit: str, request: str, sha256: str) -> str:
    """Return the key of the proof that a lock is up to date.

    :param wheelfit: the version of wheelfit that locked.
    :param request: the digest of the whole request.
    :param sha256: the hash of the lock file.
    """
    return key_of("lock", 3, wheelfit, request, sha256)


def valid_lock_key(wheelfit: str, packaging: str, sha256: str) -> str:
    """Return the key of the fact that a lock is valid.

    :param wheelfit: the version of wheelfit that checked it.
    :param packaging: the version of packaging, which does a part of that.
    :param sha256: the hash of the lock file.
    """
    return key_of("valid lock", 1, wheelfit, packaging, sha256)


_DAY = 24 * 3600.0
_MAGIC = b"wheelfit cache 2\n"
_DIGEST_SIZE = 32
_PREFIX_SIZE = len(_MAGIC) + _DIGEST_SIZE + 4
"""Bytes before the head of an entry: the mark, the digest of the head, the length of the head."""
_FIRST_READ = 1 << 16
"""Bytes that are read first of an entry whose body may not be needed."""
_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a pipe in the place of an entry would wait for a writer
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
    """Small entries by key, and wheels by hash.

    :param folder: the folder; created on the first write. None keeps nothing, and neither does a
        folder that another user could have changed.
    :param note: called, once, when the cache cannot be written or may not be used.
    """

    def __init__(
        self, folder: Path | None, *, note: Callable[[str], None] = lambda _text: None
    ) -> None:
        self._folder = usable_cache_folder(folder, note)
        self._note = note
        self._folders: dict[str, str | None] = {}
        self.holder = Holder()
        """Locks the entries in use, so that no clean-up removes them."""
        self._has_complained = False

    @property
    def keeps(self) -> bool:
        """Whether anything is kept at all."""
        return self._folder is not None

    @property
    def folder(self) -> Path | None:
        """The folder; None if nothing is kept."""
        return self._folder

    def prepare(self, folder: Path) -> None:
        """Make a folder of the store, and the store itself if it is not there yet.

        :raises OSError: that is not possible.
        """
        assert self._folder is not None  # noqa: S101 - for the type checker
        if not self._folder.exists():
            make_folders(str(self._folder))
            with suppress(OSError):
                (self._folder / "CACHEDIR.TAG").write_text(_CACHEDIR_TAG, encoding="ascii")
        make_folders(str(folder))

    def kind_folder(self, kind: str) -> str | None:
        """Return the folder of one kind of entries; None if nothing of that kind is kept.

        :param kind: the kind, as ``pages``.
        """
        if self._folder is None:
            return None
        if kind not in self._folders:
            folder = os.path.join(self._folder, f"{kind}-1")  # noqa: PTH118 - hundreds in one run
            unsafe = unsafe_folder(folder)
            if unsafe is not None:
                self._note(f"the cache {unsafe}")
            self._folders[kind] = None if unsafe is not None else folder
        return self._folders[kind]

    def place(self, kind: str, sha256: str) -> Path | None:
        """Return the path, existing or not, of an entry kept by its hash.

        :param kind: the kind, as ``wheels``.
        :param sha256: the hash, hexadecimal.
        :return: None if nothing of that kind is kept, or another user could replace it there.
        """
        folder = self.kind_folder(kind)
        if folder is None or len(sha256) != 64 or not sha256.isalnum():
            return None
        parent = os.path.join(folder, sha256[:2])  # noqa: PTH118 - for every wheel
        return None if unsafe_folder(parent) else Path(parent, sha256[2:])

    def close(self) -> None:
        """Release the entries: a clean-up may remove them from now on."""
        self.holder.close()

    # --- small entries ------------------------------------------------------------

    def read(self, kind: str, key: str) -> CacheEntry | None:
        """Return an entry, or None if there is no intact one.

        :param kind: the kind, as ``pages``; it has a folder of its own.
        :param key: any text.
        """
        data = self._from_file(kind, key, FileIO.readall)
        return None if data is None else _with_key(unpacked_entry(data), key)

    def read_head(self, kind: str, key: str) -> CacheEntry | None:
        """Return an entry without its content, unless that is short; None: none is intact.

        :param kind: the kind, as ``pages``.
        :param key: any text.
        """

        def read(file: FileIO) -> CacheEntry | None:
            data = file.read(_FIRST_READ)
            if len(data) < _FIRST_READ:
                return unpacked_entry(data)
            missing = min(_end_of_head(data), os.fstat(file.fileno()).st_size) - len(data)
            return _head_of(data + file.read(missing) if missing > 0 else data)

        return _with_key(self._from_file(kind, key, read), key)

    def read_part(self, kind: str, key: str, start: int, length: int) -> bytes | None:
        """Return a part of the content of an entry, not checked; None: it cannot be read.

        :param kind: the kind, as ``pages``.
        :param key: any text.
        :param start: bytes before it.
        :param length: bytes of it.
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
        """Keep an entry; it replaces an older one of the same key."""
        path = self._entry_path(kind, key)
        if path is None:
            return
        try:
            with self._temporary(Path(path).parent) as (file, temporary):
                file.write(_pack({**head, "key": key}, body))
                file.close()
                temporary.replace(path)
        except OSError as error:
            self.complain(error)

    def _entry_path(self, kind: str, key: str) -> str | None:
        folder = self.kind_folder(kind)
        if folder is None:
            return None
        name = sha256_of(key.encode(errors="surrogateescape")).hex()
        return os.path.join(folder, name[:2], name[2:])  # noqa: PTH118

    # --- wheels --------------------------------------------------------------------

    def wheel(self, sha256: str) -> Path | None:
        """Return the path of a kept wheel; its bytes are not checked here.

        :param sha256: its digest, hexadecimal.
        """
        path = self.place("wheels", sha256)
        if path is None:
            return None
        try:
            status = path.lstat()
        except OSError:
            return None
        if not (stat.S_ISREG(status.st_mode) and is_own(status) and self.holder.hold(path)):
            return None
        mark_used(path)
        return path

    def sound_wheel(self, sha256: str, hashes: Mapping[str, str] | None = None) -> Path | None:
        """Return the path of an intact kept wheel; remove a damaged one.

        :param sha256: its digest, hexadecimal.
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

    def wheels(self, least: int) -> Iterator[tuple[str, Path]]:
        """Yield digest and path of the kept wheels, the newest first.

        :param least: bytes of the smallest one.
        """
        wheels = []
        folder = self.kind_folder("wheels")
        for part in os.scandir(folder) if folder is not None and os.path.isdir(folder) else ():  # noqa: PTH112
            if len(part.name) == 2 and part.is_dir() and not unsafe_folder(part.path):
                for entry in os.scandir(part):
                    with suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        is_wheel = stat.S_ISREG(status.st_mode) and is_own(status)
                        if is_wheel and len(entry.name) == 62 and status.st_size >= least:
                            wheels.append((status.st_mtime, part.name + entry.name, entry.path))
        for _, sha256, path in sorted(wheels, reverse=True):
            yield sha256, Path(path)

    def forget_wheel(self, sha256: str) -> None:
        """Remove a wheel that turned out to be damaged."""
        path = self.place("wheels", sha256)
        if path is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    @contextmanager
    def new_wheel(self) -> Iterator[tuple[BinaryIO, Path] | None]:
        """Yield a temporary file beside the kept wheels; removed unless kept.

        None if the folder cannot be written.
        """
        temporary = None
        with ExitStack() as stack:
            folder = self.kind_folder("wheels")
            if folder is not None:
                try:
                    temporary = stack.enter_context(self._temporary(Path(folder)))
                except OSError as error:
                    self.complain(error)
            yield temporary

    def keep_wheel(self, temporary: Path, sha256: str) -> Path | None:
        """Keep a wheel that was written and checked; return its lasting path.

        :param temporary: from `new_wheel`, synchronised and closed.
        """
        path = self.place("wheels", sha256)
        if path is None:
            return None
        try:
            self.prepare(path.parent)
            self.holder.hold(temporary)  # the lock belongs to the file, and survives its renaming
            temporary.replace(path)
        except OSError as error:
            self.complain(error)
            return None
        return path

    def complain(self, error: OSError) -> None:
        """Warn that nothing can be cached; once, since this costs time only."""
        if not self._has_complained:
            self._has_complained = True
            from wheelfit.wheels.disk_space import FULL, no_space_message

            why = os_reason(error)
            if error.errno in FULL and self._folder is not None:
                why = no_space_message(self._folder, error=error)
            self._note(f"nothing is kept in the cache {self._folder}: {why}")

    # --- files ----------------------------------------------------------------------

    def _open_temporary(self, folder: Path) -> tuple[BinaryIO, Path]:
        import tempfile

        if (unsafe := unsafe_folder(str(folder))) is not None:
            raise PermissionError(errno.EPERM, unsafe.reason, str(folder))
        make = partial(tempfile.mkstemp, prefix=".", suffix=".part", dir=folder)
        try:
            descriptor, name = make()
        except FileNotFoundError:
            self.prepare(folder)
            descriptor, name = make()
        hold_open(descriptor)  # so that no clean-up removes it while this process runs
        return os.fdopen(descriptor, "w+b"), Path(name)

    @contextmanager
    def _temporary(self, folder: Path) -> Iterator[tuple[BinaryIO, Path]]:
        file, path = self._open_temporary(folder)
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


def mark_used(thing: Path | int) -> None:
    """Mark an entry as used, so that it is removed last; once a day is enough.

    :param thing: a path, or a file descriptor.
    """
    with suppress(OSError):
        now = time.time()
        if now - os.stat(thing).st_mtime > _DAY:  # noqa: PTH116 - a descriptor has no path
            os.utime(thing)


def is_sound(data: bytes) -> bool:
    """Return whether an entry is intact.

    :param data: the whole file.
    """
    return unpacked_entry(data) is not None


def unpacked_entry(data: bytes) -> CacheEntry | None:
    """Return an entry without checking its key; None if it is damaged.

    :param data: the whole file.
    """
    entry = _head_of(data)
    if entry is None:
        return None
    body = data[_end_of_head(data) :]
    return replace(entry, body=body) if sha256_of(body).hex() == entry.sha256 else None


def _head_of(data: bytes) -> CacheEntry | None:
    """Return an entry without its content; None if the head is damaged."""
    end = _end_of_head(data)
    if not data.startswith(_MAGIC) or not _PREFIX_SIZE + _DIGEST_SIZE <= end <= len(data):
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
    return entry if entry is not None and entry.head.get("key") == key else None
