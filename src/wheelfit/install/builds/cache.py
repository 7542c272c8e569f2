"""Wheels that were built, kept for the next time.

A key says everything that decides about a build: the exact source, the interpreter, what the user
told the backend, and what was in the environment. Each wheel lies in a folder of its own with its
hash; a folder gets its name when all of it is written.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wheelfit.wheels.file_system import NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["FOLDER", "BuiltWheels", "key_of"]


def __dir__() -> list[str]:
    return __all__


FOLDER = "built-1"
"""Name of the folder within the cache."""
_RECORD = "built.json"
_LARGEST = 1 << 20


def key_of(parts: object) -> str:
    """Return the name under which a wheel is kept.

    :param parts: all that decides about the build, as plain data.
    """
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


class BuiltWheels:
    """Keep wheels in a folder.

    :param folder: it need not exist; None keeps nothing.
    :param note: told why something is not kept.
    """

    def __init__(
        self, folder: Path | None, note: Callable[[str], None] = lambda _text: None
    ) -> None:
        self._folder = folder
        self._note = note

    def find(self, key: str) -> Path | None:
        """Return a wheel that is kept, if it still is what it was; one that is not goes.

        :param key: as `key_of` gives it.
        """
        if self._folder is None:
            return None
        entry = self._folder / key
        try:
            with (entry / _RECORD).open("rb") as file:
                record: dict[str, Any] = json.loads(file.read(_LARGEST))
            wheel = entry / Path(record["filename"]).name
            with wheel.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == record["sha256"]:
                    return wheel
        except FileNotFoundError:
            if not entry.exists():
                return None
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self._note(f"the wheel kept in {entry} is damaged; it is built anew")
        shutil.rmtree(entry, ignore_errors=True)
        return None

    def keep(self, key: str, wheel: Path, about: Mapping[str, object]) -> Path:
        """Keep a wheel and return where it lies; where that is not possible, as before.

        :param key: as `key_of` gives it.
        :param wheel: the file; it was checked.
        :param about: what people may want to know of it.
        """
        if self._folder is None:
            return wheel
        stage = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            stage = Path(tempfile.mkdtemp(prefix=".new-", dir=self._folder))
            copy = stage / wheel.name
            shutil.copyfile(wheel, copy)
            with copy.open("rb+") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                os.fsync(file.fileno())
            record = {"filename": wheel.name, "sha256": digest, **about}
            with (stage / _RECORD).open("w", encoding="utf-8") as text:
                json.dump(record, text, indent=1)
                text.flush()
                os.fsync(text.fileno())
            NATIVE.sync_folder(stage)
            stage.rename(self._folder / key)
            NATIVE.sync_folder(self._folder)
        except OSError as error:
            if stage is not None:
                shutil.rmtree(stage, ignore_errors=True)
            found = self.find(key)  # another process may have been faster
            if found is None:
                self._note(f"the built {wheel.name} is not kept: {error.strerror or error}")
            return found or wheel
        with suppress(OSError):
            wheel.unlink()
        return self._folder / key / wheel.name
