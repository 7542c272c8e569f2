"""Several repositories as one: the first that knows a project supplies it, or all of them do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.sources.page import ProjectPage
from wheelfit.sources.reading import ReadsFiles
from wheelfit_runtime.errors import NetworkError, ProjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packaging.utils import NormalizedName

    from wheelfit.sources.page import File
    from wheelfit.sources.repository import Files, Repository


class FirstMatch(ReadsFiles):
    """Search repositories in order of priority (F-126).

    Files of two repositories never meet on one page: equal labels need not have
    equal meaning there, and a stranger who publishes a private project's name
    with a higher version gets nothing.

    If a server cannot be read, the search does not go on to other servers,
    which would make an outage a way to be asked in its place. Folders of this
    machine are the exception: they belong to the user.

    :param repositories: the most important first.
    :param others: reads files that none of them listed, such as a wheel that the
        user named; None leaves them to the first repository.
    :param local: names of those that need no network.
    :param note: told when a folder stands in for a server.
    """

    def __init__(
        self,
        repositories: Iterable[Repository],
        *,
        others: Files | None = None,
        local: Iterable[str] = (),
        note: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._repositories = tuple(repositories)
        self._others = others
        self._local = frozenset(local)
        self._note = note
        self.name = ", ".join(each.name for each in self._repositories) or "no source"

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of all projects of all repositories."""
        return tuple(sorted({name for each in self._repositories for name in each.projects()}))

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of the first repository that knows the project."""
        failure: NetworkError | None = None
        for repository in self._repositories:
            if failure is not None and repository.name not in self._local:
                continue
            try:
                page = repository.project(name)
            except NetworkError as error:
                failure = error
                continue
            if page is not None:
                if failure is not None:
                    self._note(f"{name} comes from {page.source}, because {failure.message}")
                return page
        if failure is not None:
            raise failure
        return None

    def _reader(self, file: File) -> Files:
        """Return the repository that listed a file, if one of them did."""
        for repository in self._repositories:
            if repository.name == file.source:
                return repository
        if self._others is not None:
            return self._others
        if not self._repositories:
            raise ProjectNotFound("there is no source to read files from")
        return self._repositories[0]


class EveryMatch(FirstMatch):
    """Put the files of all repositories on one page, so that their versions compete (F-127).

    Each file says in ``source`` where it is from; whoever reads variant metadata keeps that
    of different sources apart. Of two wheels of one name the one of the more important
    repository counts. A repository that cannot be read is an error: what it has might be
    better.
    """

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the pages of all repositories that know the project as one."""
        pages = [each.project(name) for each in self._repositories]
        known = [page for page in pages if page is not None]
        if not known:
            return None
        wheels: set[str] = set()
        files: list[File] = []
        for page in known:
            fresh = [file for file in page.files if file.filename not in wheels]
            files += fresh
            wheels.update(file.filename for file in fresh if file.filename.endswith(".whl"))
        notes = tuple(note for page in known for note in page.notes)
        return ProjectPage(name, tuple(files), ", ".join(page.source for page in known), notes)
