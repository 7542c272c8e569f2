"""A record of finished work, so that the same command resumes after an interruption.

It is a cache: without it everything is done again, with the same result. It has one line for each
item, each with its own signature. An incomplete last line was left by a killed process; its item is
done again. Any other damage invalidates the whole file. So does another user's signature: the file
may have come with a clone or an archive, beside wheels that were built elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

from wheelfit.errors import LinkRefused, reporting_os_errors
from wheelfit.wheels.rooted_folder import RootedFolder
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import os_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Item = TypeVar("Item")
Value = TypeVar("Value")

_FORMAT = 1
_SEPARATOR = " "
_MAX_SIZE = 256 << 20


def digest_of(*parts: str | bytes | Path) -> str:
    """Return a digest of some texts and files.

    >>> digest_of("a", "bc") == digest_of("ab", "c")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str | bytes):
            data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
            digest.update(hashlib.sha256(data).digest())
        else:
            with part.open("rb", buffering=0) as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


class WorkRecord(Generic[Item, Value]):
    """The record of work done in earlier runs and in this one.

    :param path: the file, created with the first finished item.
    :param purpose: the purpose of the work, with all inputs beside the item: records of another
        purpose, or another wheelfit, are ignored.
    :param key: returns a digest of an item's inputs, with the content of files, as `digest_of`. An
        item whose key cannot be read (OSError) is done again.
    :param to_data: returns a value as plain data, for JSON.
    :param from_data: returns the value of plain data; None if it is outdated, as when its file no
        longer exists.
    :param sign: returns the signature of a text; with a secret of the user it proves that the user
        wrote the record. By default only damage is detected.
    :param note: called with the reason why a record is ignored.
    """

    def __init__(
        self,
        path: Path,
        *,
        purpose: str,
        key: Callable[[Item], str],
        to_data: Callable[[Value], Mapping[str, Any]],
        from_data: Callable[[Mapping[str, Any]], Value | None],
        sign: Callable[[str], str] = lambda text: hashlib.sha256(text.encode()).hexdigest(),
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._path = path
        self._sign = sign
        self._head = self._line({"format": _FORMAT, "wheelfit": __version__, "purpose": purpose})
        self._key = key
        self._to_data = to_data
        self._from_data = from_data
        self._file: IO[bytes] | None = None
        self._keys: dict[int, str] = {}
        """Keys by the identity of items, so that files are not read twice."""
        self._values: dict[str, Mapping[str, Any]] = {}
        self._valid_size = 0
        """Valid bytes at the start of the file."""
        self._read(note)

    def __enter__(self) -> WorkRecord[Item, Value]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; finished work is in it already."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def value(self, item: Item) -> Value | None:
        """Return the result of an item in an earlier run; None if it must be done."""
        try:
            key = self._key(item)
        except OSError:
            return None
        self._keys[id(item)] = key
        data = self._values.get(key)
        if data is None:
            return None
        with suppress(OSError, LookupError, TypeError, ValueError, AttributeError):
            return self._from_data(data)
        return None

    def add(self, item: Item, value: Value) -> None:
        """Record the result of an item."""
        key = self._keys.pop(id(item), None)
        if key is None:
            return
        with reporting_os_errors(
            "the record of finished work cannot be written", where=str(self._path)
        ):
            if self._file is None:
                self._file = self._open()
            self._file.write(self._line({"key": key, "value": self._to_data(value)}))
            self._file.flush()  # finished work must survive a killed process

    def _open(self) -> IO[bytes]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with RootedFolder(self._path.parent) as folder:  # a link here would lead to another file
            descriptor = folder.open(self._path.name, os.O_RDWR | os.O_CREAT)
        file = open(descriptor, "r+b")  # noqa: PTH123, SIM115 - by its descriptor
        try:
            file.truncate(self._valid_size)
            file.seek(self._valid_size)
            if not self._valid_size:
                file.write(self._head)
        except BaseException:
            file.close()
            raise
        return file

    def _read(self, note: Callable[[str], None]) -> None:
        try:
            with RootedFolder(self._path.parent) as folder:
                data = folder.read(self._path.name, _MAX_SIZE)
        except FileNotFoundError:
            return
        except LinkRefused as error:
            note(f"{error.where} is a link, so finished work is done again")
            return
        except OSError as error:
            note(
                f"the record of finished work cannot be read: {os_reason(error)}; it is done again"
            )
            return
        head, *lines = data.splitlines(keepends=True) or [b""]
        if head != self._head:
            if self._content(head) is None:
                note(f"{self._path} is damaged, or not yours; everything is done again")
            else:
                note(f"{self._path} is of other work; everything is done again")
            return
        valid_size = len(head)
        values: dict[str, Mapping[str, Any]] = {}
        for number, line in enumerate(lines, 1):
            content = self._content(line)
            if content is None or not isinstance(content.get("key"), str):
                if number == len(lines) and not line.endswith(b"\n"):
                    break  # the process was killed while it wrote that
                note(f"{self._path} is damaged, or not yours; everything is done again")
                return
            values[content["key"]] = content.get("value", {})
            valid_size += len(line)
        self._values, self._valid_size = values, valid_size

    def _line(self, content: Mapping[str, object]) -> bytes:
        text = json.dumps(content, separators=(",", ":"), sort_keys=True)
        return f"{self._sign(text)}{_SEPARATOR}{text}\n".encode()

    def _content(self, line: bytes) -> Mapping[str, Any] | None:
        """Return the content of a line; None if it is damaged, or has another signature."""
        signature, _, text = line.rstrip(b"\n").partition(_SEPARATOR.encode())
        try:
            if signature.decode() != self._sign(text.decode()):
                return None
        except UnicodeDecodeError:
            return None
        content = json.loads(text)
        return content if isinstance(content, dict) else None
