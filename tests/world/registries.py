"""Copies on loopback of how registries and vendors' indexes lay out what they have.

Names, versions and needs are the real ones; the wheels are small, whatever size is claimed.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from urllib.parse import quote, unquote

from packaging.utils import canonicalize_name

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


@dataclass(frozen=True)
class Wheel:
    """A wheel of the world."""

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
    def filename(self) -> str:
        """Its name."""
        stem = canonicalize_name(self.name).replace("-", "_")
        return f"{stem}-{self.version}-{self.tag}.whl"

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

    @cached_property
    def metadata(self) -> bytes:
        """Its METADATA."""
        lines = ["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {self.version}"]
        lines += [f"Requires-Python: {self.requires_python}"] if self.requires_python else []
        lines += [f"Provides-Extra: {extra}" for extra in self.extras]
        lines += [f"Requires-Dist: {text}" for text in self.requires]
        return "".join(f"{line}\n" for line in lines).encode()

    @cached_property
    def sha256(self) -> str:
        """The digest of its bytes."""
        return hashlib.sha256(self.content).hexdigest()


def wheels(
    name: str, version: str, *platforms: str, python: str = "cp311", **fields: object
) -> Iterator[Wheel]:
    """Yield a wheel for each platform.

    :param name: of the project.
    :param version: of the release.
    :param platforms: platform tags.
    :param python: the tag of the interpreter; empty: any Python.
    :param fields: as of `Wheel`.
    """
    for platform in platforms:
        tag = f"{python}-{python}-{platform}" if python else f"py3-none-{platform}"
        yield Wheel(name, version, tag, **fields)  # type: ignore[arg-type]


@dataclass
class Registry:
    """A registry as PyPI is: JSON with sizes, hashes and metadata, one page for each project."""

    host: str = "pypi.org"
    files_host: str = "files.pythonhosted.org"
    _projects: dict[str, list[Wheel]] = field(default_factory=dict)

    def add(self, found: Iterable[Wheel]) -> None:
        """Add wheels."""
        for wheel in found:
            self._projects.setdefault(canonicalize_name(wheel.name), []).append(wheel)

    def pages(self, path: str) -> Document | None:
        """Return what the host of the pages has."""
        steps = path.strip("/").split("/")
        if len(steps) != 2 or steps[0] != "simple" or steps[1] not in self._projects:
            return None
        files = [
            {
                "filename": wheel.filename,
                "url": f"https://{self.files_host}/packages/{quote(wheel.filename)}",
                "hashes": {"sha256": wheel.sha256},
                "size": wheel.size or len(wheel.content),
                "core-metadata": {"sha256": hashlib.sha256(wheel.metadata).hexdigest()},
                "yanked": wheel.yanked,
                **({"requires-python": wheel.requires_python} if wheel.requires_python else {}),
            }
            for wheel in self._projects[steps[1]]
        ]
        page = {"meta": {"api-version": "1.1"}, "name": steps[1], "files": files, "versions": []}
        return Document(json.dumps(page).encode(), JSON)

    def files(self, path: str) -> Document | None:
        """Return what the host of the files has."""
        return _file(path, [one for found in self._projects.values() for one in found])


@dataclass
class StaticIndex:
    """An index as vendors have it: HTML, a folder for each build, perhaps with metadata.

    :param host: its name.
    :param has_hashes: whether links end with a hash.
    :param has_metadata: whether METADATA lies beside each wheel (PEP 658).
    """

    host: str
    has_hashes: bool = True
    has_metadata: bool = True
    files_host: str = ""
    _folders: dict[str, list[Wheel]] = field(default_factory=dict)

    def add(self, folder: str, found: Iterable[Wheel]) -> None:
        """Add wheels to a folder such as ``whl/cu128``, whose projects have a page each."""
        self._folders.setdefault(folder.strip("/"), []).extend(found)

    def __call__(self, path: str) -> Document | None:
        """Return what the host has."""
        folder, _, name = path.strip("/").rpartition("/")
        if path.endswith("/") and folder in self._folders:
            found = [w for w in self._folders[folder] if canonicalize_name(w.name) == name]
            return Document(self._links(folder, found), "text/html") if found else None
        return _file(path, [one for found in self._folders.values() for one in found])

    def page(self, folder: str) -> Document:
        """Return one page with links to all wheels of a folder."""
        return Document(self._links(folder, self._folders[folder.strip("/")]), "text/html")

    def _links(self, folder: str, found: Iterable[Wheel]) -> bytes:
        links = []
        for wheel in found:
            url = f"https://{self.files_host or self.host}/{folder}/{quote(wheel.filename)}"
            url += f"#sha256={wheel.sha256}" if self.has_hashes else ""
            digest = hashlib.sha256(wheel.metadata).hexdigest()
            apart = f' data-core-metadata="sha256={digest}"' if self.has_metadata else ""
            links.append(f'<a href="{escape(url)}"{apart}>{wheel.filename}</a><br>')
        return f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()


def _file(path: str, known: Iterable[Wheel]) -> Document | None:
    name = unquote(path).rpartition("/")[2]
    for wheel in known:
        if name == wheel.filename:
            return Document(wheel.content)
        if name == f"{wheel.filename}.metadata":
            return Document(wheel.metadata)
    return None
