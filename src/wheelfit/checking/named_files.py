"""Which files are meant by paths that somebody names."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.checking.findings import Unchecked
from wheelfit.checking.listings import sdist_release
from wheelfit.sources.page import VARIANTS_SUFFIX
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from wheelfit.checking.listings import Release

DOCUMENT = "variant.json"
"""What the document of a wheel is called."""
_PROJECT = "pyproject.toml"
_PAGE = "index.html"


@dataclass(slots=True)
class NamedFiles:
    """Hold the files to look at; each once, in the order in which they were named."""

    wheels: dict[Path, None] = field(default_factory=dict)
    index_files: dict[Path, None] = field(default_factory=dict)
    documents: dict[Path, None] = field(default_factory=dict)
    projects: dict[Path, None] = field(default_factory=dict)
    """Files named ``pyproject.toml``; only those that were named themselves."""
    pages: dict[Path, None] = field(default_factory=dict)
    sources: dict[Path, Release] = field(default_factory=dict)
    """Source distributions, which are not looked into."""
    picked: set[Path] = field(default_factory=set)
    """Files that were named themselves, so that others of their release may be missing."""
    unchecked: list[Unchecked] = field(default_factory=list)

    def add(self, path: Path) -> None:
        """Add a file, or everything in a folder."""
        if path.is_dir():
            self._add_folder(path)
        elif not path.exists():
            self._skip(path, "there is no such file or folder")
        elif self._add_file(path):
            self.picked.add(path)
        elif path.suffix == ".json":
            self.documents[path] = None
            self.picked.add(path)
        elif path.name == _PROJECT:
            self.projects[path] = None
        else:
            self._skip(path, "it is neither a wheel nor a variant document")

    def _add_file(self, path: Path) -> bool:
        kinds = (".whl", VARIANTS_SUFFIX, DOCUMENT, _PAGE)
        if path.name.endswith(kinds) and path.exists() and not path.is_file():
            self._skip(path, "it is no ordinary file")  # a pipe may never end
        elif path.suffix == ".whl":
            self.wheels[path] = None
        elif path.name.endswith(VARIANTS_SUFFIX):
            self.index_files[path] = None
        elif path.name == DOCUMENT:
            self.documents[path] = None
        elif path.name == _PAGE:
            self.pages[path] = None
        else:
            return False
        return True

    def _add_folder(self, folder: Path) -> None:
        count = 0
        problems: list[OSError] = []
        for root, folders, names in os.walk(folder, onerror=problems.append):
            # Hidden folders hold environments and the memory of tools.
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                path = Path(root, name)
                if self._add_file(path):
                    count += 1
                elif (release := sdist_release(name)) is not None:
                    self.sources[path] = release
        for error in problems:
            self._skip(Path(error.filename), f"the folder cannot be read: {error.strerror}")
        if not count and not problems:
            self._skip(folder, "there is nothing to check in the folder")

    def _skip(self, path: Path, reason: str) -> None:
        hint = "name wheels, *-variants.json files, folders of them, or project:NAME for an index"
        self.unchecked.append(Unchecked(str(path), FileProblem.reference, reason, hint))
