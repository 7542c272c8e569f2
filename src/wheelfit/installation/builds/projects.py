"""Open projects: inspect a folder, fetch an archive, check out a repository."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.core.filename import NEWER_FORMAT, is_newer_format, sdist_release
from wheelfit.errors import InvalidSource
from wheelfit.projects.archives import unpack_archive
from wheelfit.projects.names import is_archive, is_repository_url
from wheelfit.projects.static_metadata import (
    core_metadata_of,
    is_project,
    read_pyproject_metadata,
    read_sdist_metadata,
)
from wheelfit.projects.version_control import check_out, parse_repository_url
from wheelfit.sources.page import File
from wheelfit.sources.urls import (
    file_path,
    last_segment,
    redact,
    split_userinfo,
    subdirectory_of,
    without_fragment,
)
from wheelfit.wheels.record import sha256_of_file
from wheelfit_runtime.errors import FileProblem, HashMismatch, UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.core_metadata import CoreMetadata
    from wheelfit.projects.backend import DistributionKind
    from wheelfit.resolution.request import DirectSource
    from wheelfit.sources.repository import Files


@dataclass(frozen=True, slots=True)
class OpenProject:
    """A project whose files are on disk."""

    folder: Path
    name: str
    """Its name for users: its archive, folder or URL, without credentials."""
    url: str
    """Its full URL."""
    kind: DistributionKind = "wheel"
    """The kind of wheel built from it."""
    identity: tuple[str, ...] | None = None
    """Its exact identity; None: it may change at any time."""
    direct_url: Mapping[str, object] | None = field(default=None, hash=False)
    """The content of ``direct_url.json`` (PEP 610); None: an index lists it."""
    hashes: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Promised digests that were verified."""
    expected_release: tuple[NormalizedName, Version] | None = None
    """The release in its file name."""
    metadata: bytes | None = field(default=None, repr=False)
    """Its core metadata, if known without its backend."""

    def check(self, metadata: bytes) -> CoreMetadata:
        """Parse its core metadata, and check that they are of the promised release.

        :raises InvalidSource: they are of another release.
        """
        core = core_metadata_of(metadata, self.name)
        if self.expected_release is not None and (core.name, core.version) != self.expected_release:
            name, version = self.expected_release
            raise InvalidSource(
                f"the archive is named {name} {version}, but its metadata is that of "
                f"{core.name} {core.version}",
                where=self.name,
                hint="nothing was built or installed; report it to the publisher",
            )
        return core


def open_named(
    source: DirectSource,
    files: Files,
    folder: Path,
    environ: Mapping[str, str],
    *,
    offline: bool = False,
) -> OpenProject:
    """Open a project that the user named.

    :param folder: an empty folder for fetched or unpacked projects.
    :param offline: fetch no repository; `files` has its own setting.
    :raises FileProblem: there is no such path, or no project in it.
    :raises UserError: the URL cannot be read.
    :raises HashMismatch: an archive has another hash than promised.
    :raises InvalidSource: an archive is not valid.
    :raises NetworkError: it cannot be fetched.
    """
    if is_repository_url(source.url):
        return _open_repository(source, folder, environ, offline=offline)
    bare = without_fragment(source.url)
    if bare.startswith("file:"):
        path = Path(_path_of(bare, source))
        if path.is_dir():
            return _open_folder(source, path, bare)
        if not path.exists():
            raise FileProblem("the path does not exist", where=str(path), note=_origin_note(source))
    if source.editable:
        raise UserError(
            "only a folder can be installed as editable", where=source.where or None,
            note=redact(source.url),
        )  # fmt: skip
    return _fetch_archive(source, files, folder)


def _origin_note(source: DirectSource) -> str | None:
    return f"it is named in {source.where}" if source.where else None


def _path_of(url: str, source: DirectSource) -> str:
    try:
        return file_path(url)
    except ValueError as error:
        raise FileProblem(str(error), where=redact(url), note=_origin_note(source)) from None


def _open_folder(source: DirectSource, path: Path, url: str) -> OpenProject:
    if source.hashes:
        raise UserError(
            "a folder has no hash to compare with the required one",
            where=source.where or None,
            note=str(path),
        )
    _check_project(path, str(path), source)
    return OpenProject(
        path,
        str(path),
        url.rstrip("/"),
        kind="editable" if source.editable else "wheel",
        direct_url={
            "url": url.rstrip("/"),
            "dir_info": {"editable": True} if source.editable else {},
        },
        metadata=read_pyproject_metadata(path),
    )


def _check_project(path: Path, name: str, source: DirectSource) -> None:
    if not is_project(path):
        message = "no project found: pyproject.toml and setup.py are missing"
        raise FileProblem(message, where=name, note=_origin_note(source))


def _open_repository(
    source: DirectSource, folder: Path, environ: Mapping[str, str], *, offline: bool
) -> OpenProject:
    if source.hashes:
        raise UserError(
            "a repository has no hash to compare with the required one",
            where=source.where or None,
            note=redact(source.url),
            hint="name a commit id, which identifies all content",
        )
    if source.editable:
        raise UserError(
            "a repository cannot be installed as editable",
            where=source.where or None,
            note=redact(source.url),
            hint="clone it, and name the folder with -e",
        )
    repository = parse_repository_url(source.url, where=source.where)
    commit = check_out(repository, folder, environ, offline=offline)
    project = _inside(folder, repository.subdirectory, str(repository))
    _check_project(project, str(repository), source)
    return OpenProject(
        project,
        str(repository),
        repository.full_url,
        identity=(repository.system, repository.url, commit, repository.subdirectory),
        direct_url=repository.direct_url(commit),
        metadata=read_pyproject_metadata(project),
    )


def _inside(folder: Path, subdirectory: str, name: str) -> Path:
    """Return a folder within a project, refusing links that lead out of it."""
    project = folder / subdirectory if subdirectory else folder
    if not project.resolve().is_relative_to(folder.resolve()) or not project.is_dir():
        raise FileProblem(f"the project has no folder {subdirectory}", where=name)
    return project


def _fetch_archive(source: DirectSource, files: Files, folder: Path) -> OpenProject:
    bare, _ = split_userinfo(without_fragment(source.url))
    filename = last_segment(bare)
    redacted_url = redact(bare)
    if is_newer_format(filename):
        raise UserError(NEWER_FORMAT, where=source.where or redacted_url)
    if not is_archive(filename):
        raise UserError(
            f"{filename or redacted_url!r} is neither a wheel nor an archive of a project",
            where=source.where or None,
            note=redacted_url,
            hint="archives end in .tar.gz or .zip; a repository is named git+https://…",
        )
    path, digest = _download(File(filename, bare, source="the request"), files, folder)
    verified = _check_hashes(path, source.hashes, redacted_url)
    subdirectory = subdirectory_of(source.url)
    return _open_archive(
        path,
        folder,
        filename,
        redacted_url,
        url=bare + (f"#subdirectory={subdirectory}" if subdirectory else ""),
        digest=digest,
        subdirectory=subdirectory,
        direct_url={
            "url": bare,
            "archive_info": {"hash": f"sha256={digest}", "hashes": {**verified, "sha256": digest}},
            **({"subdirectory": subdirectory} if subdirectory else {}),
        },
        hashes=verified,
    )


def open_listed(file: File, files: Files, folder: Path) -> OpenProject:
    """Open a source distribution that an index lists.

    :raises HashMismatch: it has another hash than promised.
    :raises InvalidSource: it is not valid.
    :raises NetworkError: it cannot be fetched.
    """
    path, digest = _download(file, files, folder)
    return _open_archive(
        path,
        folder,
        file.filename,
        redact(file.url),
        url=file.url,
        digest=digest,
        hashes=file.hashes,
    )


def _download(file: File, files: Files, folder: Path) -> tuple[Path, str]:
    path = files.download(file, Path(tempfile.mkdtemp(prefix="archive-", dir=folder)))
    return path, sha256_of_file(path)


def _check_hashes(path: Path, allowed: frozenset[tuple[str, str]], where: str) -> Mapping[str, str]:
    """Return the verified digests; of each algorithm one allowed digest must match."""
    verified = {}
    for algorithm in sorted({algorithm for algorithm, _ in allowed}):
        with path.open("rb") as stream:
            actual = hashlib.file_digest(
                stream,
                lambda: hashlib.new(algorithm, usedforsecurity=False),  # noqa: B023
            ).hexdigest()
        expected = sorted(digest for name, digest in allowed if name == algorithm)
        if actual not in expected:
            raise HashMismatch(algorithm=algorithm, expected=expected, actual=actual, where=where)
        verified[algorithm] = actual
    return verified


def _open_archive(
    path: Path,
    folder: Path,
    filename: str,
    redacted_url: str,
    *,
    url: str,
    digest: str,
    hashes: Mapping[str, str],
    subdirectory: str = "",
    direct_url: Mapping[str, object] | None = None,
) -> OpenProject:
    is_listed = direct_url is None
    inside = Path(tempfile.mkdtemp(prefix="project-", dir=folder))
    top = unpack_archive(path, inside, filename, where=redacted_url)
    project = _inside(top, subdirectory, redacted_url)
    data, is_reliable = read_sdist_metadata(project)
    # The name of a source distribution states its release. Other archives, such as those that a
    # repository offers for download, may have any name; they have no PKG-INFO.
    expected_release = sdist_release(filename) if is_listed or data is not None else None
    if not is_project(project):
        raise InvalidSource(
            "no project found: pyproject.toml and setup.py are missing", where=redacted_url
        )
    return OpenProject(
        project,
        filename if is_listed else redacted_url,
        url,
        identity=("archive", digest, subdirectory),
        direct_url=direct_url,
        hashes=hashes,
        expected_release=expected_release,
        metadata=data if is_reliable else read_pyproject_metadata(project),
    )


# --- changes of a folder ----------------------------------------------------------------------

_MAX_FILES = 20_000
"""Files of a folder; with more, its state is not read."""
_BUILD_FOLDERS = frozenset(("build", "dist"))
"""The folders of build products beside ``pyproject.toml``; elsewhere they may be packages."""
_GENERATED_FOLDERS = frozenset(("__pycache__", "node_modules"))
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
        for count, path in enumerate(chain(_source_files(folder), _git_files(folder))):
            if count == _MAX_FILES:
                return None
            status = path.stat()
            digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    except (OSError, UnicodeError):
        return None
    return ("folder", str(folder), digest.hexdigest())


def _source_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder, onerror=_raise):
        if "pyvenv.cfg" in names:
            folders.clear()
            continue
        ignored = _GENERATED_FOLDERS | (_BUILD_FOLDERS if Path(parent) == folder else set())
        folders[:] = sorted(
            name
            for name in folders
            if name not in ignored and not name.startswith(".") and not name.endswith(".egg-info")
        )
        yield from (Path(parent, name) for name in sorted(names) if not name.startswith("."))


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
