"""The state of a project's folder, to detect changes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_FILES = 20_000
"""Files of a folder; with more, its state is not read."""
_BUILD_FOLDERS = frozenset(("__pycache__", "build", "dist", "node_modules"))
_GIT_FILES = ("HEAD", "logs/HEAD", "packed-refs", "refs/tags")
"""The files that change with commits and tags, from which some backends derive versions."""


def state_of(folder: Path) -> tuple[str, ...] | None:
    """Return the state of a folder, for comparison: its files with sizes and times.

    Hidden files, environments and build products are ignored, but the commit and tags of its
    repository count.

    :return: None if there are too many files, or they cannot be read.
    """
    digest = hashlib.sha256()
    try:
        for count, path in enumerate((*_files(folder), *_git_files(folder))):
            if count == _MAX_FILES:
                return None
            status = path.stat()
            digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    except (OSError, UnicodeError):
        return None
    return ("folder", str(folder), digest.hexdigest())


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder, onerror=_raise):
        if "pyvenv.cfg" in names:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if _is_relevant(name))
        yield from (Path(parent, name) for name in sorted(names) if not name.startswith("."))


def _is_relevant(folder: str) -> bool:
    is_product = folder in _BUILD_FOLDERS or folder.endswith(".egg-info")
    return not (is_product or folder.startswith("."))


def _git_files(folder: Path) -> Iterator[Path]:
    """Yield the files with the commit and the tags of the repository around a folder."""
    root = next((path for path in (folder, *folder.parents) if (path / ".git").exists()), None)
    if root is None:
        return
    if not (root / ".git").is_dir():
        # A worktree or submodule, whose repository is elsewhere.
        raise FileNotFoundError(root / ".git")
    for name in _GIT_FILES:
        path = root / ".git" / name
        if path.is_dir():
            yield from sorted(path for path in path.rglob("*") if path.is_file())
        elif path.exists():
            yield path


def _raise(error: OSError) -> None:
    raise error
