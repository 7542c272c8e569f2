"""A record of finished work, so that the same command resumes after an interruption.

It is a cache: without it everything is done again, with the same result. It has one line for each
item, each with its own signature. An incomplete last line was left by a killed process; its item is
done again. After any other damage the file is started again. So is a file with another user's
signature: it may have come with a clone or an archive, beside wheels that were built elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

from wheelfit.errors import LinkInTheWay
from wheelfit.wheels.rooted_folder import RootedFolder
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Item = TypeVar("Item")
Value = TypeVar("Value")

_FORMAT = 1
_SEPARATOR = " "
_LARGEST = 256 << 20


def digest_of(*parts: str | bytes | Path) -> str:
    """Return a digest of some texts and files.

    >>> digest_of("a", "bc") == digest_of("ab", "c")
    False
    """
    whole = hashlib.sha256()
    for part in parts:
        if isinstance(part, str | bytes):
            data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
            whole.update(hashlib.sha256(data).digest())
        else:
            with part.open("rb", buffering=0) as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


class WorkRecord(Generic[Item, Value]):
    """The record of work done in earlier runs and in this one.

    :param path: of the file; created with the first finished item.
    :param purpose: the purpose of the work, with all inputs beside the item: records of another
        purpose, or another wheelfit, are ignored.
    :param key: returns a digest of an item's inputs, with the content of files, as `digest_of`. An
        item whose key cannot be read (OSError) is done again.
    :param to_data: a value as plain data.
    :param of_data: the value again, or None if it is outdated, as when its file is gone.
    :param sign: returns the signature of a text; with a secret of the user it proves that a record
        is the user's own. By default only damage is noticed.
    :param note: called with the reason why a record is ignored.
    """

    def __init__(
        self,
        path: Path,
        *,
        purpose: str,
        key: Callable[[Item], str],
        to_data: Callable[[Value], Mapping[str, Any]],
        of_data: Callable[[Mapping[str, Any]], Value | None],
        sign: Callable[[str], str] = lambda text: hashlib.sha256(text.encode()).hexdigest(),
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._path = path
        self._sign = sign
        self._head = self._line({"format": _FORMAT, "wheelfit": __version__, "purpose": purpose})
        self._key = key
        self._to_data = to_data
        self._of_data = of_data
        self._file: IO[bytes] | None = None
        self._keys: dict[int, str] = {}
        """By identity of the item, so that it is not read twice."""
        self._done: dict[str, Mapping[str, Any]] = {}
        self._sound = 0
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
        data = self._done.get(key)
        if data is None:
            return None
        with suppress(OSError, LookupError, TypeError, ValueError, AttributeError):
            return self._of_data(data)
        return None

    def add(self, item: Item, value: Value) -> None:
        """Record the result of an item."""
        key = self._keys.pop(id(item), None)
        if key is None:
            return
        try:
            if self._file is None:
                self._file = self._open()
            self._file.write(self._line({"key": key, "value": self._to_data(value)}))
            self._file.flush()  # finished work must survive a killed process
        except OSError as error:
            words = f"the record of finished work cannot be written: {error.strerror}"
            raise FileProblem(words, where=str(self._path)) from error

    def _open(self) -> IO[bytes]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with RootedFolder(self._path.parent) as folder:  # a link here would lead to another file
            number = folder.open(self._path.name, os.O_RDWR | os.O_CREAT)
        file = open(number, "r+b")  # noqa: PTH123, SIM115 - by its handle
        try:
            file.truncate(self._sound)
            file.seek(self._sound)
            if not self._sound:
                file.write(self._head)
        except BaseException:
            file.close()
            raise
        return file

    def _read(self, note: Callable[[str], None]) -> None:
        try:
            with RootedFolder(self._path.parent) as folder:
                data = folder.read(self._path.name, _LARGEST)
        except FileNotFoundError:
            return
        except LinkInTheWay as error:
            note(f"{error.where} is a link, so what was done earlier is done again")
            return
        except OSError as error:
            note(f"what was done earlier cannot be read, and is done again: {error.strerror}")
            return
        head, *lines = data.splitlines(keepends=True) or [b""]
        if head != self._head:
            if self._content(head) is None:
                note(f"{self._path}: it is damaged, or not yours; everything is done again")
            else:
                note(f"{self._path}: it is of other work; everything is done again")
            return
        sound = len(head)
        done: dict[str, Mapping[str, Any]] = {}
        for number, line in enumerate(lines, 1):
            content = self._content(line)
            if content is None or not isinstance(content.get("key"), str):
                if number == len(lines) and not line.endswith(b"\n"):
                    break  # the process was killed while it wrote that
                note(f"{self._path}: it is damaged, or not yours; everything is done again")
                return
            done[content["key"]] = content.get("value", {})
            sound += len(line)
        self._done, self._sound = done, sound

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
