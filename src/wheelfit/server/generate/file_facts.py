"""The facts of files that an index needs, cached so that nothing is hashed twice."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wheelfit.checking.findings import Finding, Severity
from wheelfit.wheels.atomic_write import write_file
from wheelfit_runtime import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wheelfit.core.document import VariantDocument
    from wheelfit.server.generate.collection import CollectedFile


_VERSION = 2


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts of a file, and the reasons against publishing it."""

    sha256: str
    requires_python: str | None = None
    metadata_sha256: str | None = None
    """Digest of the METADATA of a wheel; None where there is none to be served."""
    metadata_size: int = 0
    findings: tuple[Finding, ...] = ()
    """Every reason why no index should take it (F-131)."""
    metadata: bytes | None = field(default=None, repr=False, compare=False)
    """The METADATA itself, of a file that was just read; not cached."""
    document: VariantDocument | None = field(default=None, repr=False, compare=False)
    """Its ``variant.json``, likewise."""

    def to_mapping(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        facts = {name: getattr(self, name) for name in _CACHED}
        return {**facts, "findings": [finding._asdict() for finding in self.findings]}

    @classmethod
    def of_mapping(cls, data: Mapping[str, Any]) -> FileFacts:
        """Return the facts that `to_mapping` wrote.

        :raises LookupError, TypeError, ValueError: the data has another form.
        """
        findings = (
            Finding(**{**one, "severity": Severity(one["severity"]), "correction": None})
            for one in data["findings"]
        )
        return cls(**{name: data[name] for name in _CACHED}, findings=tuple(findings))


_CACHED = ("sha256", "requires_python", "metadata_sha256", "metadata_size")


class Memory:
    """A cache of the facts of files, and of combined documents of releases.

    :param path: its file; None: nothing is cached.
    :param full: whether facts are used only if all content was compared with RECORD.
    """

    def __init__(self, path: Path | None, *, full: bool = False) -> None:
        self._path = path
        self._full = full
        self._files: dict[str, Any] = {}
        self._combined: dict[str, Any] = {}
        self._used: dict[str, Any] = {}
        self._used_combined: dict[str, Any] = {}
        if path is None:
            return
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            data = json.loads(path.read_bytes())
            # Faults differ between versions.
            if (data["version"], data["wheelfit"]) == (_VERSION, __version__):
                self._files = dict(data["files"])
                self._combined = dict(data["combined"])

    def facts(self, file: CollectedFile) -> FileFacts | None:
        """Return the facts of a file; None if it is new, or has changed."""
        entry = self._files.get(file.name)
        try:
            if entry is None or tuple(entry["signature"]) != file.signature:
                return None
            if self._full and not entry["full"]:
                return None
            facts = FileFacts.of_mapping(entry)
        except (LookupError, TypeError, ValueError):
            return None
        self._used[file.name] = entry
        return facts

    def learn(self, file: CollectedFile, facts: FileFacts) -> None:
        """Add the facts of a file."""
        about = {"signature": file.signature, "full": self._full}
        self._used[file.name] = about | facts.to_mapping()

    def combined(self, release: str, key: str) -> bytes | None:
        """Return the document of a release; None if the key of its wheels is another."""
        key = _digest(key)
        entry = self._combined.get(release)
        try:
            if entry is None or entry[0] != key:
                return None
            data = bytes(entry[1].encode())
        except (LookupError, TypeError, AttributeError):
            return None
        self._used_combined[release] = entry
        return data

    def learn_combined(self, release: str, key: str, document: bytes) -> None:
        """Add the document of a release."""
        self._used_combined[release] = [_digest(key), document.decode()]

    def keep(self) -> str | None:
        """Write the facts that were used or added; return why that failed, if it did."""
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
            keep_data(self._path, data)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            return f"what was learnt of the files cannot be kept: {reason}"
        return None


def keep_data(path: Path, data: object) -> None:
    """Write a cache, without waiting for the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps(data, separators=(",", ":")).encode(), sync=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
