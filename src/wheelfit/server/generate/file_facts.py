"""The facts about files that an index needs, cached so that no file is hashed twice."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wheelfit.checking.findings import Finding, Severity
from wheelfit.wheels.atomic_write import write_file
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import os_reason

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wheelfit.core.document import VariantDocument
    from wheelfit.server.generate.collection import CollectedFile


_VERSION = 2
_CACHED_FIELDS = ("sha256", "requires_python", "metadata_sha256", "metadata_size")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts about a file, and the reasons against publishing it."""

    sha256: str
    requires_python: str | None = None
    metadata_sha256: str | None = None
    """Digest of the METADATA of a wheel; None if there is no METADATA to serve."""
    metadata_size: int = 0
    findings: tuple[Finding, ...] = ()
    """The reasons for which no index should accept the file (F-131)."""
    metadata: bytes | None = field(default=None, repr=False, compare=False)
    """The METADATA; None if it is not in memory, as for facts from the cache."""
    document: VariantDocument | None = field(default=None, repr=False, compare=False)
    """The ``variant.json``; None if it is not in memory, as for facts from the cache."""

    def to_mapping(self) -> dict[str, Any]:
        """Return the cached facts as plain data."""
        facts = {name: getattr(self, name) for name in _CACHED_FIELDS}
        return {**facts, "findings": [finding._asdict() for finding in self.findings]}

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> FileFacts:
        """Return the facts from the result of `to_mapping`.

        :raises LookupError, TypeError, ValueError: the data has another form.
        """
        findings = tuple(
            Finding(**{**values, "severity": Severity(values["severity"]), "correction": None})
            for values in data["findings"]
        )
        return cls(**{name: data[name] for name in _CACHED_FIELDS}, findings=findings)


class FactsCache:
    """A cache of the facts about files, and of the index files of releases.

    Facts that were neither used nor added are not written again.

    :param path: its file; None caches nothing.
    :param check_content: whether to use facts only of files whose whole content was compared with
        RECORD.
    """

    def __init__(self, path: Path | None, *, check_content: bool = False) -> None:
        self._path = path
        self._check_content = check_content
        self._files: dict[str, Any] = {}
        self._combined: dict[str, Any] = {}
        self._used: dict[str, Any] = {}
        self._used_combined: dict[str, Any] = {}
        if path is None:
            return
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            data = json.loads(path.read_bytes())
            # Another version of wheelfit may report other findings.
            if (data["version"], data["wheelfit"]) == (_VERSION, __version__):
                self._files = dict(data["files"])
                self._combined = dict(data["combined"])

    def facts(self, file: CollectedFile) -> FileFacts | None:
        """Return the facts about a file; None if it is new, or has changed."""
        entry = self._files.get(file.name)
        try:
            if entry is None or tuple(entry["signature"]) != file.signature:
                return None
            if self._check_content and not entry["full"]:
                return None
            facts = FileFacts.from_mapping(entry)
        except (LookupError, TypeError, ValueError):
            return None
        self._used[file.name] = entry
        return facts

    def add(self, file: CollectedFile, facts: FileFacts) -> None:
        """Add the facts about a file."""
        entry = {"signature": file.signature, "full": self._check_content}
        self._used[file.name] = entry | facts.to_mapping()

    def combined(self, release: str, key: str) -> bytes | None:
        """Return the index file of a release; None if it is unknown.

        :param key: identifies the wheels that it was combined from.
        """
        key = _digest(key)
        entry = self._combined.get(release)
        try:
            if entry is None or entry[0] != key:
                return None
            data: bytes = entry[1].encode()
        except (LookupError, TypeError, AttributeError):
            return None
        self._used_combined[release] = entry
        return data

    def add_combined(self, release: str, key: str, document: bytes) -> None:
        """Add the index file of a release."""
        self._used_combined[release] = [_digest(key), document.decode()]

    def save(self) -> str | None:
        """Write what was used or added; return the reason if that failed, else None."""
        if self._path is None or (
            self._used == self._files and self._used_combined == self._combined
        ):
            return None
        data = {
            "version": _VERSION,
            "wheelfit": __version__,
            "files": self._used,
            "combined": self._used_combined,
        }
        try:
            write_cache(self._path, data)
        except OSError as error:
            return f"the facts about the files cannot be cached in {self._path}: {os_reason(error)}"
        return None


def write_cache(path: Path, data: object) -> None:
    """Write data as JSON, without waiting for the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps(data, separators=(",", ":")).encode(), sync=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
