"""Read an index with the standard library alone, for programs without an installer.

Hashes are compulsory. If the newest version of a table requires a wheel this machine cannot use,
for instance with an old C library, an older version is chosen.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from email.parser import HeaderParser
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from wheelfit_runtime.errors import (
    HashMismatch,
    IntegrityError,
    InvalidPage,
    NoCompatibleWheel,
    ProjectNotFound,
    UnexpectedStatus,
)
from wheelfit_runtime.libraries.https_client import HttpsClient, without_login
from wheelfit_runtime.libraries.listings import ACCEPT, read_page
from wheelfit_runtime.libraries.verifying import BROKEN_ARCHIVE
from wheelfit_runtime.libraries.versions import Requirement, parse_requirement
from wheelfit_runtime.libraries.wheels import best, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit_runtime.libraries.machine import Machine
    from wheelfit_runtime.libraries.progress import Progress
    from wheelfit_runtime.libraries.wheels import ListedWheel

_LARGEST_PAGE = 64 << 20
_LARGEST_TABLE = 1 << 20
_MOST_TABLES = 20
"""Versions of a table that are looked at; a major version has had some ten."""
_SILENCE = 60.0
_ATTEMPTS = 3
_NOT_FOUND = (404, 410)


class HttpTransport:
    """A transport that finds and fetches wheels at one index.

    :param index_url: the URL of its simple API; may have a login.
    :param silence: seconds a server may be silent.
    """

    def __init__(
        self,
        index_url: str,
        environ: Mapping[str, str],
        *,
        attempts: int = _ATTEMPTS,
        silence: float = _SILENCE,
    ) -> None:
        self._client = HttpsClient(index_url, environ, attempts=attempts, silence=silence)
        self._index = without_login(index_url).rstrip("/") + "/"

    def resolve(
        self, requirements: Sequence[Requirement], machine: Machine, progress: Progress
    ) -> list[ListedWheel]:
        """Return the wheels of some requirements and of the extras they name.

        :raises NetworkError: the index cannot be read, or its answer is not valid.
        :raises NoFit: it has no such project, or no compatible wheel.
        """
        pages: dict[str, list[ListedWheel]] = {}

        def page(project: str) -> list[ListedWheel]:
            if project not in pages:
                progress.tell(f"asking {urlsplit(self._index).hostname} for {project}")
                pages[project] = self._page(project)
            return pages[project]

        wheels: dict[str, ListedWheel] = {}
        for requirement in requirements:
            for project, wheel in self._found(requirement, machine, page).items():
                wheels.setdefault(project, wheel)
        return list(wheels.values())

    def _found(
        self, requirement: Requirement, machine: Machine, page: Callable[[str], list[ListedWheel]]
    ) -> dict[str, ListedWheel]:
        """Return the newest wheel with all requirements of its extras available, and these."""
        wheels = page(requirement.project)
        reason: NoCompatibleWheel | None = None
        for _ in range(_MOST_TABLES):
            try:
                wheel = best(wheels, requirement, machine)
            except NoCompatibleWheel as error:
                raise reason or error from None
            try:
                return self._with_extras(wheel, requirement.extras, machine, page)
            except NoCompatibleWheel as error:
                reason = reason or error
            wheels = [one for one in wheels if one.version != wheel.version]
        assert reason is not None  # noqa: S101 - for the type checker
        raise reason

    def _with_extras(
        self,
        wheel: ListedWheel,
        extras: Sequence[str],
        machine: Machine,
        page: Callable[[str], list[ListedWheel]],
    ) -> dict[str, ListedWheel]:
        wheels = {wheel.project: wheel}
        wanted = self._of_extras(wheel, extras, machine)
        while wanted:
            requirement = wanted.pop(0)
            if requirement.project not in wheels:
                needed = best(page(requirement.project), requirement, machine)
                wheels[requirement.project] = needed
                wanted += self._of_extras(needed, requirement.extras, machine)
        return wheels

    def _page(self, project: str) -> list[ListedWheel]:
        url = urljoin(self._index, f"{project}/")
        try:
            body, content_type, final = self._client.get(url, _LARGEST_PAGE, accept=ACCEPT)
        except UnexpectedStatus as error:
            if error.status in _NOT_FOUND:
                raise ProjectNotFound(
                    f"the index has no project {project}", where=self._index
                ) from None
            raise
        return read_page(body, content_type, without_login(final))

    def _of_extras(
        self, wheel: ListedWheel, extras: Sequence[str], machine: Machine
    ) -> list[Requirement]:
        if not extras:
            return []
        headers = HeaderParser().parsestr(self._metadata(wheel).decode("utf-8", "replace"))
        texts = headers.get_all("Requires-Dist") or ()
        requirements = [parse_requirement(str(text)) for text in texts]
        return [
            requirement
            for extra in extras
            for requirement in requirements
            if requirement.applies({**machine.markers, "extra": extra})
        ]

    def _metadata(self, wheel: ListedWheel) -> bytes:
        if wheel.metadata_sha256 is not None:
            try:
                body = self._client.get(f"{wheel.url}.metadata", _LARGEST_TABLE)[0]
            except UnexpectedStatus:
                body = b""
            if body:
                if wheel.metadata_sha256:
                    _check(body, wheel.metadata_sha256, f"{wheel.filename}.metadata")
                return body
        # Some indexes offer no metadata apart; a table is a wheel of some kilobytes.
        body = self._client.get(wheel.url, _LARGEST_TABLE)[0]
        _check(body, _promised(wheel), wheel.filename)
        try:
            with zipfile.ZipFile(io.BytesIO(body)) as archive:
                name = next(
                    one for one in archive.namelist() if one.endswith(".dist-info/METADATA")
                )
                with archive.open(name) as file:
                    return file.read(_LARGEST_TABLE)
        except (*BROKEN_ARCHIVE, StopIteration) as error:
            raise InvalidPage(f"{wheel.filename} cannot be read: {error}") from None

    def fetch(self, wheel: ListedWheel, folder: str, progress: Progress) -> str:
        """Write a wheel into a folder and return its path; the caller checks its hash.

        :raises NetworkError: it is not available.
        :raises IntegrityError: it has no promised hash.
        """
        _promised(wheel)
        path = os.path.join(folder, "wheel.part")  # noqa: PTH118
        what = f"fetching {wheel.project} {wheel.version}"
        self._client.download(
            wheel.url, path, wheel.size, lambda done, total: progress.tell(what, done, total)
        )
        return path


def _check(body: bytes, promised: str, name: str) -> None:
    actual = hashlib.sha256(body).hexdigest()
    if actual != promised:
        raise HashMismatch(algorithm="sha256", expected=[promised], actual=actual, where=name)


def _promised(wheel: ListedWheel) -> str:
    if not wheel.sha256:
        raise IntegrityError(
            f"the index lists no sha256 of {wheel.filename}, so it is not used",
            where=shown(wheel.url),
        )
    return wheel.sha256
