"""The wheels of a plugin: its own and its dependencies', plain wheels only (P-33, P-38)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import structs

from wheelfit.core.filename import wheel_filename_of
from wheelfit.core.ordering import Preferences
from wheelfit.errors import SourceBuildNotAllowed
from wheelfit.resolution.candidates import Candidates, ChoicePolicy
from wheelfit.resolution.request import RequestedRequirement, ResolutionRequest
from wheelfit.resolution.resolver import resolve
from wheelfit.sources.file_readers import RepositoryWrapper

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.requirements import Requirement
    from wheelfit.core.target import Target
    from wheelfit.resolution.resolution import Pin
    from wheelfit.sources.page import ProjectPage
    from wheelfit.sources.repository import Repository


class TrustedFiles(RepositoryWrapper):
    """A repository reduced to the files that are trusted, with their trusted hashes.

    :param files: file name to SHA-256.
    """

    def __init__(self, repository: Repository, files: Mapping[str, str]) -> None:
        super().__init__(repository)
        self._digests = files
        self.changed: dict[str, str] = {}
        """The promised SHA-256 of files with a trusted name but another hash, by file name."""

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project with its trusted files; None if there are none."""
        page = self._repository.project(name)
        if page is None:
            return None
        trusted = []
        for file in page.files:
            filename = wheel_filename_of(file.filename)
            digest = None if filename is None else self._digests.get(filename.text)
            if digest is None:
                continue
            promised = file.hashes.get("sha256", digest)
            if promised != digest:
                self.changed[file.filename] = promised
                continue
            hashes = MappingProxyType({**file.hashes, "sha256": digest})
            trusted.append(structs.replace(file, hashes=hashes))
        return structs.replace(page, files=tuple(trusted)) if trusted else None


def resolve_plugin(
    requirements: Iterable[Requirement], repository: Repository, target: Target
) -> tuple[Pin, ...]:
    """Return the wheels of a plugin, dependencies first.

    Source distributions and variant wheels do not count, even if they are requested.

    :raises NoFit: there is no set of plain wheels.
    :raises NetworkError: a source cannot be read.
    """
    policy = ChoicePolicy(preferences=Preferences(variants=False))
    candidates = Candidates(repository, target, None, policy)
    try:
        return resolve(
            ResolutionRequest(
                tuple(RequestedRequirement(requirement) for requirement in requirements)
            ),
            candidates,
        ).pins
    except SourceBuildNotAllowed as error:
        error.hint = "plugins are never built from source; ask its publisher for a wheel"  # P-33
        raise
