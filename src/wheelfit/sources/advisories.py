"""The known vulnerabilities of projects, from OSV records in a folder or a ZIP archive."""

from __future__ import annotations

import os
import threading
import time
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.core.osv import LARGEST_RECORD, Affected, Vulnerability, read_record
from wheelfit.sources.memory_cache import MemoryCache
from wheelfit_runtime.errors import FileProblem, WheelfitError, os_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from packaging.utils import NormalizedName
    from packaging.version import Version


_CHECK_INTERVAL = 60.0
"""Seconds after which the files are checked for changes; they are often replaced every night."""
_MAX_RECORDS = 1_000_000
_MAX_SIZE = 4 << 30
"""Bytes of all records, unpacked."""
_MAX_CACHED = 1_000_000
"""Releases and their vulnerabilities in memory."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The compression methods of osv.dev's archives; `zipfile` raises other errors for others."""
_SHOWN_FAULTS = 3
_SOURCE_HINT = "use a folder or a ZIP archive of OSV records, as osv.dev exports them for PyPI"


class Advisories:
    """The known vulnerabilities of projects, for several threads at once.

    Changed records are read within a minute. If they cannot be read, the old ones stay in use.

    :param path: a folder with records (``*.json``, in subfolders too), or a ZIP archive of them.
    :param note: called with messages for the operator about records that cannot be read.
    :raises FileProblem: there is no such folder or archive, or no record of a project in it.
    """

    def __init__(
        self,
        path: Path,
        note: Callable[[str], None] = lambda _text: None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._note = note
        self._clock = clock
        self._lock = threading.Lock()
        self._last_check = clock()
        self._stamp = _stamp(path)
        self._records = self._read()
        self.generation = 0
        """Grows each time the records are replaced."""

    def may_affect(self, name: NormalizedName) -> bool:
        """Return whether a release of a project may have vulnerabilities."""
        self._start_reload()
        return name in self._records.by_project

    def affecting(self, name: NormalizedName, version: Version) -> tuple[Vulnerability, ...]:
        """Return the vulnerabilities of a release, withdrawn ones included, sorted by ID."""
        self._start_reload()
        records = self._records
        if name not in records.by_project:
            return ()
        return records.affecting.get((name, version), lambda: records.find(name, version))

    def _start_reload(self) -> None:
        """Start to read changed records in a thread; until it ends, the old ones stay in use."""
        if self._clock() - self._last_check < _CHECK_INTERVAL or not self._lock.acquire(
            blocking=False
        ):
            return
        self._last_check = self._clock()
        threading.Thread(target=self._reload, name="vulnerabilities", daemon=True).start()

    def _reload(self) -> None:
        try:
            stamp = _stamp(self._path)
            if stamp != self._stamp:
                self._records, self._stamp = self._read(), stamp
                self.generation += 1
        except WheelfitError as error:
            self._note(f"the new OSV records are ignored, the old ones stay in use: {error}")
        finally:
            self._lock.release()

    def _read(self) -> _Records:
        by_project: dict[NormalizedName, dict[str, Vulnerability]] = {}
        faults: list[str] = []
        size = 0
        for count, (name, data) in enumerate(_records(self._path)):
            size += len(data)
            if count >= _MAX_RECORDS or size > _MAX_SIZE:
                raise FileProblem("there are too many OSV records", where=str(self._path))
            try:
                for vulnerability in read_record(data):
                    by_project.setdefault(vulnerability.project, {})[vulnerability.id] = (
                        vulnerability
                    )
            except ValueError as error:
                faults.append(f"{name}: {error}")
        if faults:
            self._note(
                f"OSV records that cannot be read are ignored ({len(faults)}): "
                + "; ".join(faults[:_SHOWN_FAULTS])
            )
        if not by_project:
            raise FileProblem(
                "there is no OSV record of a project on PyPI",
                where=str(self._path),
                hint=_SOURCE_HINT,
            )
        return _Records(
            {
                name: tuple(vulnerability for _, vulnerability in sorted(by_id.items()))
                for name, by_id in by_project.items()
            }
        )


@dataclass(frozen=True, slots=True)
class _Records:
    """Records that were read together."""

    by_project: Mapping[NormalizedName, tuple[Vulnerability, ...]]
    affected: dict[tuple[str, NormalizedName], Affected] = field(default_factory=dict)
    """The affected versions of requested advisories, by ID and project."""
    affecting: MemoryCache[tuple[Vulnerability, ...]] = field(
        default_factory=lambda: MemoryCache(
            _MAX_CACHED, lambda vulnerabilities: len(vulnerabilities) + 1
        )
    )
    """The vulnerabilities of releases; cached, since a page may list hundreds of releases."""

    def find(self, name: NormalizedName, version: Version) -> tuple[Vulnerability, ...]:
        """Return the vulnerabilities whose affected versions include a release."""
        vulnerabilities = []
        for vulnerability in self.by_project.get(name, ()):
            affected = self.affected.get((vulnerability.id, name))
            if affected is None:
                affected = self.affected[(vulnerability.id, name)] = vulnerability.affected()
            if version in affected:
                vulnerabilities.append(vulnerability)
        return tuple(vulnerabilities)


def _records(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the records; a record that is too large is truncated."""
    try:
        if path.is_dir():
            for file in _files(path):
                with Path(file).open("rb") as stream:
                    yield str(file), stream.read(LARGEST_RECORD + 1)
            return
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.filename.endswith(".json"):
                    if member.compress_type not in _METHODS:
                        raise NotImplementedError(f"method {member.compress_type} of packing")
                    with archive.open(member) as stream:
                        yield member.filename, stream.read(LARGEST_RECORD + 1)
    except OSError as error:
        raise FileProblem(
            f"OSV records cannot be read: {os_reason(error)}", where=str(path)
        ) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        raise FileProblem(
            f"it is not an archive of OSV records: {error}",
            where=str(path),
            hint=_SOURCE_HINT,
        ) from None


def _files(folder: Path) -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        yield from (os.path.join(parent, name) for name in sorted(names) if name.endswith(".json"))  # noqa: PTH118 - of many


def _stamp(path: Path) -> Hashable:
    """Return a stamp that changes with the records.

    :raises FileProblem: there is no such folder or archive.
    """
    try:
        status = path.stat()
        if not path.is_dir():
            return status.st_mtime_ns, status.st_size, status.st_ino
        statuses = [os.stat(file) for file in _files(path)]  # noqa: PTH116 - of many
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise FileProblem(
            f"OSV records cannot be read: {os_reason(error)}", where=str(path)
        ) from None
    newest = max((status.st_mtime_ns for status in statuses), default=0)
    return len(statuses), sum(status.st_size for status in statuses), newest
