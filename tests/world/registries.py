"""Copies on loopback of how registries and vendors' indexes lay out what they have.

Names, versions and needs are the real ones; the wheels are small, whatever size is claimed.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from urllib.parse import quote, unquote

from packaging.utils import canonicalize_name
from projects.writing import write_project, write_sdist

from wheelfit.testing.internet import Document
from wheelfit.testing.wheels import build_wheel

JSON = "application/vnd.pypi.simple.v1+json"
LINUX, ARM, WINDOWS, MAC = (
    "manylinux_2_28_x86_64",
    "manylinux_2_28_aarch64",
    "win_amd64",
    "macosx_14_0_arm64",
)
"""Platform tags of wheels."""
HERE = f"cp{sys.version_info[0]}{sys.version_info[1]}"
"""The Python tag of the running interpreter, which machines without one of their own have."""


@dataclass(frozen=True)
class Distribution:
    """A distribution of the world."""

    name: str
    version: str
    tag: str = "py3-none-any"
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    requires_python: str | None = None
    size: int | None = None
    """Bytes that a page claims; None: as many as it has."""
    yanked: bool = False

    @cached_property
    def metadata(self) -> bytes:
        """Its METADATA."""
        lines = ["Metadata-Version: 2.2", f"Name: {self.name}", f"Version: {self.version}"]
        lines += [f"Requires-Python: {self.requires_python}"] if self.requires_python else []
        lines += [f"Provides-Extra: {extra}" for extra in self.extras]
        lines += [f"Requires-Dist: {text}" for text in self.requires]
        return "".join(f"{line}\n" for line in lines).encode()

    @cached_property
    def filename(self) -> str:
        """Its name."""
        raise NotImplementedError

    @cached_property
    def content(self) -> bytes:
        """Its bytes."""
        raise NotImplementedError

    @cached_property
    def sha256(self) -> str:
        """The digest of its bytes."""
        return hashlib.sha256(self.content).hexdigest()


_METADATA = """
def metadata():
    return {text!r}
"""
"""The function of a build backend that tells what only it knows."""


@dataclass(frozen=True)
class SourceArchive(Distribution):
    """A source distribution, which nobody should have to build."""

    is_dynamic: bool = False
    """Whether only its backend tells what it needs, as that of ROCm does, which can be built."""

    @cached_property
    def filename(self) -> str:
        """Its name."""
        return f"{canonicalize_name(self.name).replace('-', '_')}-{self.version}.tar.gz"

    @cached_property
    def content(self) -> bytes:
        """Its bytes."""
        if self.is_dynamic:
            with tempfile.TemporaryDirectory() as folder:
                backend = _METADATA.format(text=self.metadata.decode())
                project = Path(folder, "project")
                write_project(project, self.name, self.version, dynamic=True, backend=backend)
                return write_sdist(Path(folder), project, self.name, self.version).read_bytes()
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=0) as archive:
            for name, content in (("PKG-INFO", self.metadata), ("setup.py", b"raise SystemExit\n")):
                entry = tarfile.TarInfo(f"{self.filename.removesuffix('.tar.gz')}/{name}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        return stream.getvalue()


@dataclass(frozen=True)
class Wheel(Distribution):
    """A wheel of the world."""

    file_local: str = ""
    """A local version that only its file name has."""

    @cached_property
    def filename(self) -> str:
        """Its name."""
        stem = canonicalize_name(self.name).replace("-", "_")
        local = f"+{self.file_local}" if self.file_local else ""
        return f"{stem}-{self.version}{local}-{self.tag}.whl"

    @cached_property
    def content(self) -> bytes:
        """Its bytes."""
        with tempfile.TemporaryDirectory() as folder:
            module = canonicalize_name(self.name).replace("-", "_")
            return build_wheel(
                Path(folder),
                self.name,
                self.version,
                requires=self.requires,
                requires_python=self.requires_python,
                provides_extra=self.extras,
                files={f"{module}/__init__.py": f"__version__ = {self.version!r}\n"},
                tag=self.tag,
            ).read_bytes()


def wheels(
    name: str, version: str, *platforms: str, python: str = HERE, **fields: object
) -> Iterator[Wheel]:
    """Yield a wheel for each platform.

    :param name: of the project.
    :param version: of the release.
    :param platforms: platform tags.
    :param python: the tag of the interpreter, with ``-abi3`` behind it that of its ABI; empty: any.
    :param fields: as of `Wheel`.
    """
    for platform in platforms:
        interpreter, _, abi = (python or "py3-none").partition("-")
        tag = f"{interpreter}-{abi or interpreter}-{platform}"
        yield Wheel(name, version, tag, **fields)  # type: ignore[arg-type]


@dataclass
class Registry:
    """A registry as PyPI is: JSON with sizes, hashes and metadata, one page for each project."""

    host: str = "pypi.org"
    files_host: str = "files.pythonhosted.org"
    _projects: dict[str, list[Distribution]] = field(default_factory=dict)

    def add(self, found: Iterable[Distribution]) -> None:
        """Add distributions."""
        for one in found:
            self._projects.setdefault(canonicalize_name(one.name), []).append(one)

    def has_source(self, name: str) -> bool:
        """Return whether a project has a source distribution."""
        found = self._projects.get(canonicalize_name(name), ())
        return any(isinstance(one, SourceArchive) for one in found)

    def pages(self, path: str) -> Document | None:
        """Return what the host of the pages has."""
        steps = path.strip("/").split("/")
        if len(steps) != 2 or steps[0] != "simple" or steps[1] not in self._projects:
            return None
        files = [self._row(one) for one in self._projects[steps[1]]]
        page = {"meta": {"api-version": "1.1"}, "name": steps[1], "files": files, "versions": []}
        return Document(json.dumps(page).encode(), JSON)

    def files(self, path: str) -> Document | None:
        """Return what the host of the files has."""
        name = unquote(path).rpartition("/")[2]
        project = canonicalize_name(name.partition("-")[0])
        return _file(name, self._projects.get(project, ()))

    def _row(self, one: Distribution) -> dict[str, object]:
        row: dict[str, object] = {
            "filename": one.filename,
            "url": f"https://{self.files_host}/packages/{quote(one.filename)}",
            "hashes": {"sha256": one.sha256},
            "size": one.size or len(one.content),
            "yanked": one.yanked,
        }
        if isinstance(one, Wheel):
            row["core-metadata"] = {"sha256": hashlib.sha256(one.metadata).hexdigest()}
        if one.requires_python:
            row["requires-python"] = one.requires_python
        return row


@dataclass
class StaticIndex:
    """An index as vendors have it: HTML, a folder for each build, perhaps with metadata.

    :param host: its name.
    :param has_hashes: whether links end with a hash.
    :param has_metadata: whether METADATA lies beside each wheel (PEP 658).
    :param files_host: the host that links point to; empty: the same.
    """

    host: str
    has_hashes: bool = True
    has_metadata: bool = True
    files_host: str = ""
    _folders: dict[str, list[Distribution]] = field(default_factory=dict)

    def add(self, folder: str, found: Iterable[Distribution]) -> None:
        """Add distributions to a folder.

        :param folder: such as ``whl/cu128``, whose projects have a page each; or one page with
            links to all of them, which ends with ``.html``; files lie in both.
        :param found: the distributions.
        """
        self._folders.setdefault(folder.strip("/"), []).extend(found)

    def __call__(self, path: str) -> Document | None:
        """Return what the host has."""
        text = unquote(path).strip("/")
        if text.endswith(".html") and text in self._folders:
            return Document(self._links(text, self._folders[text]), "text/html")
        folder, _, name = text.rpartition("/")
        here = self._folders.get(folder, [])
        if path.endswith("/"):
            found = [one for one in here if canonicalize_name(one.name) == name]
            return Document(self._links(folder, found), "text/html") if found else None
        return _file(name, here)

    def _links(self, folder: str, found: Iterable[Distribution]) -> bytes:
        links = []
        for one in found:
            place = f"{quote(folder)}/{quote(one.filename)}"
            url = f"https://{self.files_host or self.host}/{place}"
            url += f"#sha256={one.sha256}" if self.has_hashes else ""
            digest = hashlib.sha256(one.metadata).hexdigest()
            apart = f' data-core-metadata="sha256={digest}"' if self.has_metadata else ""
            links.append(f'<a href="{escape(url)}"{apart}>{one.filename}</a><br>')
        return f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()


def _file(name: str, known: Iterable[Distribution]) -> Document | None:
    """Return a distribution or its METADATA by the name of the file."""
    for one in known:
        if name == one.filename:
            return Document(one.content)
        if name == f"{one.filename}.metadata":
            return Document(one.metadata)
    return None
