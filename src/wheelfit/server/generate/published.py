"""What a target has published, as an index."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from packaging.utils import NormalizedName

from wheelfit.core.filename import parse_index_file_name
from wheelfit.server.generate.manifest import MANIFEST, read_manifest
from wheelfit.server.generate.targets import SIMPLE
from wheelfit.sources.page import ProjectPage
from wheelfit.sources.reading import ReadsContent
from wheelfit.sources.repository import Content, content_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from wheelfit.server.generate.targets import Target


_METADATA = ".metadata"
_ABOVE = "../../"


class PublishedIndex(ReadsContent):
    """Have what the pages of a target list: an `Index`.

    Of files it has those that are small: METADATA of wheels, and what variants need.

    :param target: where it was published; it is read once, and must not change meanwhile.
    :raises FileProblem: it cannot be read.
    """

    name = "this index"

    def __init__(self, target: Target) -> None:
        self._target = target
        self._files = read_manifest(target.read(MANIFEST), where=target.name).files
        self._paths: dict[str, str] = {}
        for project, files in self._files.items():
            for file in files:
                path = path_of_entry(project, file.url)
                if parse_index_file_name(file.filename) is not None:
                    self._paths[file.filename] = path
                elif file.metadata_hashes is not None:
                    self._paths[file.filename + _METADATA] = path + _METADATA

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of all projects, sorted."""
        return tuple(NormalizedName(name) for name in sorted(self._files))

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project."""
        files = self._files.get(name)
        return None if files is None else ProjectPage(name, files, source=self.name)

    def stamp(self, name: NormalizedName) -> Hashable:
        """Return that nothing changes."""
        return name

    def content(self, filename: str) -> Content | None:
        """Return the bytes of a small file."""
        path = self._paths.get(filename)
        data = None if path is None else self._target.read(path)
        return None if data is None else content_of(data)


def path_of_entry(project: str, url: str) -> str:
    """Return where a file of a page lies, below the target."""
    if url.startswith(_ABOVE):
        return unquote(url.removeprefix(_ABOVE))
    return f"{SIMPLE}/{project}/{unquote(url)}"
