"""Record the work that is done, so that the same command resumes where it was ended.

It is a cache: without it everything is done again, and the same comes out. What is written is
one line for each item, with a sum of its own. A line that was not written to its end is what a
process leaves that was killed; the item is done again. Anything else that is wrong means that
nobody knows what happened to the file, and it is begun anew. So is one that somebody else signed:
it may have come with a clone or an archive, beside wheels that nobody built here.
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
    """Return what stays equal as long as all of some texts and files do.

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

    :param path: where it stands; made with the first item that is done.
    :param purpose: what the work is, with all that decides the result beside the item: what was
        done for another purpose, or by another wheelfit, does not count.
    :param key: what stays equal as long as the same would come of an item; it has the content of
        files, as `digest_of`. An item whose key cannot be told (OSError) is done again.
    :param to_data: a value as plain data.
    :param of_data: the value again, or None if it does not hold any more, as when its file is gone.
    :param sign: returns the signature of a text; a secret of the user makes sure that a record is
        the user's own. By default only damage is noticed.
    :param note: told why a record does not count.
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
        """Bytes at the start of the file that count."""
        self._read(note)

    def __enter__(self) -> WorkRecord[Item, Value]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was done is in it already."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def value(self, item: Item) -> Value | None:
        """Return what came of an item in an earlier run; None if it must be done."""
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
            self._file.flush()  # who kills the process shall not undo what is done
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
        """Return what a line says; None if it is damaged, or signed by somebody else."""
        signature, _, text = line.rstrip(b"\n").partition(_SEPARATOR.encode())
        try:
            if signature.decode() != self._sign(text.decode()):
                return None
        except UnicodeDecodeError:
            return None
        content = json.loads(text)
        return content if isinstance(content, dict) else None
