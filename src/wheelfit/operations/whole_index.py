"""The source and the target of operations on a whole index."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wheelfit.operations.cache_folder import cache_folder
from wheelfit.operations.indexes import read_settings
from wheelfit.operations.user_folders import home
from wheelfit.server.generate.object_store import open_object_store_target
from wheelfit.server.generate.targets import FolderTarget, Target
from wheelfit.sources.open import open_sources
from wheelfit.sources.urls import file_path, redact
from wheelfit_runtime.errors import FileProblem
from wheelfit_runtime.platforms.cache_folder import usable_cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wheelfit.operations.context import Context
    from wheelfit.operations.requests import SourceOptions
    from wheelfit.sources.memoized import MemoizedRepository


def open_target(text: str) -> tuple[Target, Path | None]:
    """Return a target, and its folder if it is one.

    :param text: a path, or the URL of a folder or of an object store.
    :raises NeedsExtra: it is an object store, and the library for it is not installed.
    :raises InvalidConfiguration: it names no storage.
    :raises FileProblem: the URL of the folder names another host.
    """
    if "://" in text and not text.startswith("file:"):
        return open_object_store_target(text), None
    folder = _folder_of(text)
    return FolderTarget(folder), folder


def _folder_of(text: str) -> Path:
    try:
        return Path(file_path(text) if text.startswith("file:") else text)
    except ValueError as error:
        raise FileProblem(
            str(error), where=redact(text), hint="name a folder by its path"
        ) from None


def is_remote(index: str) -> bool:
    """Return whether an index is named by the URL of a server."""
    return index.startswith(("https://", "http://"))


def existing_folder(index: str) -> Path:
    """Return the folder of a local index.

    :param index: its path, or a ``file:`` URL.
    :raises FileProblem: it does not exist, or the URL names another host.
    """
    folder = _folder_of(index)
    if not folder.is_dir():
        raise FileProblem(
            "the folder does not exist", where=index, hint="name a folder, or a URL with its scheme"
        )
    return folder


@contextmanager
def open_whole_index(
    index: str,
    request: SourceOptions,
    context: Context,
    *,
    note: Callable[[str], None] | None = None,
    refresh: bool = False,
) -> Iterator[MemoizedRepository]:
    """Open one index without any other source.

    :param index: its URL or folder.
    :param note: called with remarks about the index; None: they are reported as warnings.
    :param refresh: whether pages in the cache are ignored.
    """
    settings = replace(
        read_settings(request, context.environ),
        index_url=index,
        extra_index_urls=(),
        find_links=(),
        no_index=False,
        index_strategy="first-index",
        indexes=(),
        pins=(),
        cooldown=None,
    )
    note = note or context.reporter.warn
    folder = cache_folder(request.cache_dir, context.environ) if settings.cache else None
    with open_sources(
        settings,
        cache_folder=usable_cache_folder(folder, note),
        environ=context.environ,
        home=home(),
        offline=request.offline,
        refresh=refresh,
        note=note,
    ) as repository:
        yield repository
