"""A transport that reads an index with the standard library alone, for programs without installer.

Every wheel needs a hash. If the newest version of a metapackage (as ``cuda-toolkit``) requires a
wheel that this machine cannot use, for instance with an old C library, an older version is chosen.
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
    InvalidPage,
    NoCompatibleWheel,
    ProjectNotFound,
    UnexpectedStatus,
)
from wheelfit_runtime.libraries.https_client import HttpsClient, without_login
from wheelfit_runtime.libraries.listings import ACCEPT, read_page
from wheelfit_runtime.libraries.verifying import BROKEN_ARCHIVE
from wheelfit_runtime.libraries.versions import Requirement, parse_requirement
from wheelfit_runtime.libraries.wheels import ListedWheel, best_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit_runtime.libraries.machine import Machine
    from wheelfit_runtime.libraries.progress import Progress

_MAX_PAGE_SIZE = 64 << 20
"""Bytes of the page of a project."""
_MAX_METADATA_SIZE = 1 << 20
"""Bytes of METADATA, and of a wheel that is fetched for it."""
_MAX_VERSIONS = 20
"""Versions of a metapackage that are tried; a major version has about ten."""
_TIMEOUT = 60.0
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
        silence: float = _TIMEOUT,
    ) -> None:
        self._client = HttpsClient(index_url, environ, attempts=attempts, silence=silence)
        self._index = without_login(index_url).rstrip("/") + "/"

    def resolve(
        self, requirements: Sequence[Requirement], machine: Machine, progress: Progress
    ) -> list[ListedWheel]:
        """Return the wheels for some requirements and for the extras in them.

        :raises NetworkError: the index cannot be read, or its answer is not valid.
        :raises NoFit: it has no such project, or no compatible wheel.
        """
        pages: dict[str, list[ListedWheel]] = {}

        def list_wheels(project: str) -> list[ListedWheel]:
            if project not in pages:
                progress.report(f"asking {urlsplit(self._index).hostname} for {project}")
                pages[project] = self._fetch_page(project)
            return pages[project]

        wheels: dict[str, ListedWheel] = {}
        for requirement in requirements:
            for project, wheel in self._resolve_one(requirement, machine, list_wheels).items():
                wheels.setdefault(project, wheel)
        return list(wheels.values())

    def _resolve_one(
        self,
        requirement: Requirement,
        machine: Machine,
        list_wheels: Callable[[str], list[ListedWheel]],
    ) -> dict[str, ListedWheel]:
        """Return the newest wheel whose extras can be met, and the wheels for these, by project."""
        wheels = list_wheels(requirement.project)
        errors: list[NoCompatibleWheel] = []
        for _ in range(_MAX_VERSIONS):
            try:
                newest = best_wheel(wheels, requirement, machine)
            except NoCompatibleWheel as error:
                errors.append(error)
                break
            try:
                return self._with_extras(newest, requirement.extras, machine, list_wheels)
            except NoCompatibleWheel as error:
                errors.append(error)
            wheels = [wheel for wheel in wheels if wheel.version != newest.version]
        raise errors[0]  # of the newest version

    def _with_extras(
        self,
        wheel: ListedWheel,
        extras: Sequence[str],
        machine: Machine,
        list_wheels: Callable[[str], list[ListedWheel]],
    ) -> dict[str, ListedWheel]:
        """Return a wheel and those that its extras require, by project."""
        wheels = {wheel.project: wheel}
        pending = self._requirements_of_extras(wheel, extras, machine)
        while pending:
            requirement = pending.pop(0)
            if requirement.project not in wheels:
                required = best_wheel(list_wheels(requirement.project), requirement, machine)
                wheels[requirement.project] = required
                pending += self._requirements_of_extras(required, requirement.extras, machine)
        return wheels

    def _fetch_page(self, project: str) -> list[ListedWheel]:
        url = urljoin(self._index, f"{project}/")
        try:
            body, content_type, final_url = self._client.get(url, _MAX_PAGE_SIZE, accept=ACCEPT)
        except UnexpectedStatus as error:
            if error.status in _NOT_FOUND:
                raise ProjectNotFound(
                    f"the index has no project {project}", where=self._index
                ) from None
            raise
        return read_page(body, content_type, without_login(final_url))

    def _requirements_of_extras(
        self, wheel: ListedWheel, extras: Sequence[str], machine: Machine
    ) -> list[Requirement]:
        if not extras:
            return []
        headers = HeaderParser().parsestr(self._fetch_metadata(wheel).decode("utf-8", "replace"))
        texts = headers.get_all("Requires-Dist") or ()
        requirements = [parse_requirement(str(text)) for text in texts]
        return [
            requirement
            for extra in extras
            for requirement in requirements
            if requirement.applies({**machine.markers, "extra": extra})
        ]

    def _fetch_metadata(self, wheel: ListedWheel) -> bytes:
        if wheel.metadata_sha256 is not None:
            try:
                body = self._client.get(f"{wheel.url}.metadata", _MAX_METADATA_SIZE)[0]
            except UnexpectedStatus:
                body = b""
            if body:
                if wheel.metadata_sha256:  # empty: the index has METADATA, without a hash
                    _check_hash(body, wheel.metadata_sha256, f"{wheel.filename}.metadata")
                return body
        # The index does not serve METADATA (PEP 658); a metapackage has some kilobytes.
        wheel.require_hash()
        body = self._client.get(wheel.url, _MAX_METADATA_SIZE)[0]
        _check_hash(body, wheel.sha256, wheel.filename)
        try:
            with zipfile.ZipFile(io.BytesIO(body)) as archive:
                name = next(
                    name for name in archive.namelist() if name.endswith(".dist-info/METADATA")
                )
                with archive.open(name) as file:
                    return file.read(_MAX_METADATA_SIZE)
        except (*BROKEN_ARCHIVE, StopIteration) as error:
            raise InvalidPage(f"{wheel.filename} cannot be read: {error}") from None

    def fetch(self, wheel: ListedWheel, folder: str, progress: Progress) -> str:
        """Write a wheel into a folder and return its path; the caller checks its hash.

        :raises NetworkError: it is not available.
        :raises IntegrityError: the index lists no hash of it.
        """
        wheel.require_hash()
        path = os.path.join(folder, "wheel.part")  # noqa: PTH118
        action = f"fetching {wheel.project} {wheel.version}"
        self._client.download(
            wheel.url,
            path,
            wheel.size,
            lambda received, total: progress.report(action, received, total),
        )
        return path


def _check_hash(body: bytes, expected: str, name: str) -> None:
    actual = hashlib.sha256(body).hexdigest()
    if actual != expected:
        raise HashMismatch(algorithm="sha256", expected=[expected], actual=actual, where=name)
