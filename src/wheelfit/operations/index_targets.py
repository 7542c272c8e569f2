"""The target of an index, by its path or URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.server.generate.targets import FolderTarget
from wheelfit.sources.urls import file_path

if TYPE_CHECKING:
    from wheelfit.server.generate.targets import Target


def open_target(text: str) -> tuple[Target, Path | None]:
    """Return a target, and its folder if it is one.

    :param text: a path, or the URL of a folder or of an object store.
    :raises NeedsExtra: it is an object store, and the library for it is not installed.
    :raises InvalidConfiguration: it names no storage.
    """
    if text.startswith("file:"):
        text = file_path(text)
    if "://" in text:
        from wheelfit.server.generate.object_store import open_store

        return open_store(text), None
    return FolderTarget(Path(text)), Path(text)
