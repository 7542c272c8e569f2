"""Local folders and single pages as sources: ``--find-links``, and indexes at ``file:`` URLs."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes

from packaging.utils import InvalidName, NormalizedName, canonicalize_name

from wheelfit.core.filename import parse_newer_wheel_filename, project_of
from wheelfit.errors import InvalidFilename
from wheelfit.sources.client import PAGE_LIMIT, unexpected
from wheelfit.sources.file_readers import DelegatedFiles
from wheelfit.sources.local_files import read_bytes, read_problem
from wheelfit.sources.page import ACCEPT, LABELS_SUFFIX, VARIANTS_SUFFIX, File, ProjectPage
from wheelfit.sources.urls import file_url, last_segment, redact, split_userinfo
from wheelfit_runtime.errors import FileProblem, NetworkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wheelfit.sources.cached_pages import CachedPages
    from wheelfit.sources.repository import Files


_HTML = (".html", ".htm")


class FlatListing(DelegatedFiles):
    """A flat list of files of any projects, read on first use.

    :param max_age: seconds after which it is read again.
    """

    def __init__(self, name: str, files: Files, max_age: float = float("inf")) -> None:
        super().__init__(files)
        self.name = name
        self._max_age = max_age
        self._lock = threading.Lock()
        self._outdated_at = float("-inf")
        self._projects: Mapping[NormalizedName, ProjectPage] = {}

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of the projects of which there is a wheel or source distribution."""
        return tuple(sorted(self._pages_by_name()))

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, or None if it has no files."""
        return self._pages_by_name().get(name)

    def _pages_by_name(self) -> Mapping[NormalizedName, ProjectPage]:
        with self._lock:
            if time.monotonic() >= self._outdated_at:
                listed = self._list()
                if listed is not None:
                    self._projects = _by_project(listed[0], self.name, listed[1])
                self._outdated_at = time.monotonic() + self._max_age
            return self._projects

    def _list(self) -> tuple[Iterable[File], tuple[str, ...]] | None:
        """Return the files, and notes on ignored entries; None to keep those read before."""
        raise NotImplementedError


class DirectoryIndex(FlatListing):
    """A folder of wheels and index files; subfolders are ignored.

    HTML files in it are read as lists of links, as pip does.
    """

    def __init__(self, path: Path, files: Files) -> None:
        super().__init__(str(path), files)
        self._path = path

    def _list(self) -> tuple[Iterable[File], tuple[str, ...]]:
        files: list[File] = []
        notes: list[str] = []
        base = file_url(self._path)
        try:
            with os.scandir(self._path) as listed:
                names = sorted(each.name for each in listed if _is_file(each))
        except OSError as error:
            raise read_problem(self._path, error, "folder") from error
        # Wheels with a file beside them that lists the labels they are published for.
        labelled = {
            name.removesuffix(LABELS_SUFFIX) for name in names if name.endswith(LABELS_SUFFIX)
        }
        for name in names:
            if name in labelled:
                files += self._labelled(name, base)
            elif name.lower().endswith(_HTML):
                path = self._path / name
                links, link_notes = _links(
                    read_bytes(path, PAGE_LIMIT), "text/html", file_url(path), self.name
                )
                files.extend(links)
                notes.extend(link_notes)
            else:
                files.append(local_file(name, base, self.name))
        return files, tuple(notes)

    def _labelled(self, name: str, base: str) -> Sequence[File]:
        """Return an entry for each build that the labels file of a wheel lists.

        :raises FileProblem: it cannot be read, so the machines for the wheel are unknown.
        """
        path = self._path / f"{name}{LABELS_SUFFIX}"
        from wheelfit.sources.wheel_labels import parse_labels_file, with_labels

        try:
            builds = parse_labels_file(read_bytes(path, PAGE_LIMIT))
            return with_labels(local_file(name, base, self.name), builds)
        except (ValueError, InvalidFilename) as error:
            raise FileProblem(
                f"the labels of {name} cannot be read: {error}",
                where=str(path),
                hint="download the wheel again; without this file it would be used on any machine",
            ) from None


class LinkPage(FlatListing):
    """The links of one page, or one file by its URL or path.

    A page that cannot be fetched is ignored with a note, as in pip: ``--find-links`` adds sources
    that may be missing.

    :param location: URL (``http:``, ``https:``) or path of a page or a file.
    :param max_age: as in `FlatListing`.
    """

    def __init__(
        self,
        location: str | Path,
        files: Files,
        *,
        pages: CachedPages | None = None,
        note: Callable[[str], None] = lambda _text: None,
        max_age: float = float("inf"),
    ) -> None:
        super().__init__(redact(str(location)), files, max_age)
        self._location = location
        self._pages = pages
        self._note = note

    def _list(self) -> tuple[Iterable[File], tuple[str, ...]] | None:
        if isinstance(self._location, Path):
            return self._list_local(self._location)
        url = split_userinfo(self._location)[0]
        name = last_segment(url)
        if _project_of(name) is not None:  # the file itself
            from html import escape  # takes 1 ms, and is seldom needed

            page = f'<a href="{escape(url)}">{escape(name)}</a>'.encode()
            return _links(page, "text/html", url, self.name)
        try:
            return self._fetch(url)
        except NetworkError as error:
            self._note(f"{self.name} is left out: {error.message}")
            return None

    def _list_local(self, path: Path) -> tuple[Iterable[File], tuple[str, ...]]:
        if path.suffix.lower() not in _HTML:
            return [local_file(path.name, file_url(path.parent), self.name)], ()
        return _links(read_bytes(path, PAGE_LIMIT), "text/html", file_url(path), self.name)

    def _fetch(self, url: str) -> tuple[Iterable[File], tuple[str, ...]]:
        if self._pages is None:
            return (), ()
        answer = self._pages.get(url, accept=ACCEPT)
        if answer.status != 200:
            raise unexpected(answer.status, answer.url)
        content_type = answer.headers.get("content-type", "")
        return _links(answer.body, content_type, answer.url, self.name)


class FileIndex(DelegatedFiles):
    """An index on this machine: a folder for each project.

    In a project's folder, ``index.html`` is its page; without one, the files
    themselves are the list.
    """

    def __init__(self, path: Path, files: Files) -> None:
        super().__init__(files)
        self._path = path
        self.name = file_url(path)

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of the projects that have a folder."""
        names = []
        try:
            for folder in filter(Path.is_dir, self._path.iterdir()):
                with suppress(InvalidName):
                    names.append(canonicalize_name(folder.name, validate=True))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise read_problem(self._path, error, "folder") from error
        return tuple(sorted(names))

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, or None if it has no folder."""
        # A name with a separator is not that of a project, and must not be part of a path.
        if "/" in name or "\\" in name:
            return None
        folder = self._path / name
        page = folder / "index.html"
        try:
            if page.is_file():
                from wheelfit.sources.simple_api import parse_page

                return parse_page(
                    read_bytes(page, PAGE_LIMIT),
                    "text/html",
                    file_url(page),
                    name,
                    source=self.name,
                )
            if not folder.is_dir():
                return None
            base = file_url(folder)
            files = tuple(
                local_file(path.name, base, self.name)
                for path in sorted(folder.iterdir())
                if path.is_file()
            )
        except OSError as error:
            raise read_problem(folder, error, "folder") from error
        return ProjectPage(name, files, self.name)


def _links(
    body: bytes, content_type: str, url: str, source: str
) -> tuple[Iterable[File], tuple[str, ...]]:
    """Read a list of links; the parser of pages is imported on first use."""
    from wheelfit.sources.simple_api import parse_links

    return parse_links(body, content_type, url, source=source)


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a broken link, or one into an unreadable folder
        return False


def local_file(name: str, base: str, source: str) -> File:
    """Return the entry of a file of a folder.

    :param base: the URL of the folder, without a slash at its end.
    """
    return File(filename=name, url=f"{base}/{quote_from_bytes(os.fsencode(name))}", source=source)


def _project_of(filename: str) -> NormalizedName | None:
    """Return the project of a file; None if its name does not show it."""
    if (project := project_of(filename)) is not None:
        return project
    if (newer := parse_newer_wheel_filename(filename)) is not None:
        return newer.name
    # A wheel with an invalid name is kept, so that users get the reason why it is not used.
    if filename.endswith(".whl") and "-" in filename:
        return canonicalize_name(filename.partition("-")[0])
    return None


def _by_project(
    files: Iterable[File], source: str, notes: tuple[str, ...]
) -> Mapping[NormalizedName, ProjectPage]:
    grouped: dict[NormalizedName, list[File]] = {}
    for file in files:
        project = _project_of(file.filename)
        if project is not None:
            grouped.setdefault(project, []).append(file)
    # A project with documents but no files is not listed.
    return MappingProxyType(
        {
            name: ProjectPage(name, tuple(files_of_project), source, notes)
            for name, files_of_project in grouped.items()
            if not all(file.filename.endswith(VARIANTS_SUFFIX) for file in files_of_project)
        }
    )
