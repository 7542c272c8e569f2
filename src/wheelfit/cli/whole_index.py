"""One index that a command goes through from end to end."""

from __future__ import annotations

from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.sources.remembered import Remembered


def is_remote(index: str) -> bool:
    """Tell whether an index is asked by HTTP, and is no folder."""
    return index.startswith(("https://", "http://"))


def existing_folder(index: str) -> Path:
    """Return the folder that an index is.

    :param index: a path, or a URL of a folder.
    :raises FileProblem: there is none.
    """
    from wheelfit.errors import FileProblem
    from wheelfit.sources.urls import file_path

    folder = Path(file_path(index) if index.startswith("file:") else index)
    if not folder.is_dir():
        raise FileProblem("there is no such folder", where=index)
    return folder


@contextmanager
def open_whole_index(
    index: str,
    arguments: Namespace,
    environ: Mapping[str, str],
    *,
    note: Callable[[str], None],
    refresh: bool = False,
) -> Iterator[tuple[Remembered, Callable[[], tuple[NormalizedName, ...]]]]:
    """Open an index and no other; give it, and what asks it for the names of its projects.

    :param index: its URL or folder.
    :param arguments: the options of `options.table.sources.SOURCES`.
    :param environ: the environment of the process.
    :param note: told what people should know.
    :param refresh: whether nothing that is kept counts.
    """
    from dataclasses import replace

    from wheelfit.operations.cache_folder import cache_folder
    from wheelfit.operations.indexes import read_settings
    from wheelfit.operations.user_folders import home
    from wheelfit.platforms.cache_folder import usable_cache_folder
    from wheelfit.sources.open import open_sources, open_web
    from wheelfit.sources.project_list import fetch_project_list

    settings = replace(
        read_settings(arguments, environ),
        index_url=index,
        extra_index_urls=(),
        find_links=(),
        no_index=False,
        compare_sources=False,
    )
    how: dict[str, Any] = {
        "cache_folder": usable_cache_folder(
            cache_folder(arguments.cache_dir, environ) if settings.cache else None, note
        ),
        "environ": environ,
        "home": home(),
        "offline": arguments.offline,
        "refresh": refresh,
        "note": note,
    }

    def names() -> tuple[NormalizedName, ...]:
        with closing(open_web(settings, **how)) as web:
            return fetch_project_list(web.pages, index)

    with open_sources(settings, **how) as repository:
        yield repository, names
