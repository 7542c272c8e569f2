"""A record of finished work, so that the same command resumes after an interruption.

It is a cache: without it everything is done again, with the same result. The file has one line of
JSON for each item. An incomplete line was left by a killed process; its item is done again.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Item = TypeVar("Item")
Value = TypeVar("Value")


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

    :param path: the file, created with the first finished item in a folder that exists. No other
        user may be able to write to the folder.
    :param key: returns a digest of all inputs of an item, with the content of files, as
        `digest_of`. An item whose key cannot be read (OSError) is done again.
    :param to_data: returns a value as plain data, for JSON.
    :param from_data: returns the value of plain data; None if it is outdated, as when its file no
        longer exists.
    """

    def __init__(
        self,
        path: Path,
        *,
        key: Callable[[Item], str],
        to_data: Callable[[Value], Mapping[str, Any]],
        from_data: Callable[[Mapping[str, Any]], Value | None],
    ) -> None:
        self._path = path
        self._key = key
        self._to_data = to_data
        self._from_data = from_data
        self._file: IO[bytes] | None = None
        self._keys: dict[int, str] = {}
        """Keys by the identity of items, so that files are not read twice."""
        self._values = _read(path)

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
        """Record the result of an item, as far as the file can be written."""
        key = self._keys.pop(id(item), None)
        if key is None:
            return
        line = json.dumps({"key": key, "value": self._to_data(value)}, separators=(",", ":"))
        with suppress(OSError):
            if self._file is None:
                # Without a buffer, finished work survives a killed process.
                self._file = self._path.open("ab", buffering=0)
                line = f"\n{line}"  # ends the line that a killed process left incomplete
            self._file.write(f"{line}\n".encode())


def _read(path: Path) -> dict[str, Mapping[str, Any]]:
    """Return the recorded values by key, without those of damaged lines."""
    values = {}
    with suppress(OSError), path.open("rb") as file:
        for line in file:
            with suppress(ValueError, LookupError, TypeError, RecursionError):
                content = json.loads(line)
                values[content["key"]] = content["value"]
    return values
