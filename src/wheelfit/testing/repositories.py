"""A repository in memory, without a network."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.cache import Store
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit.sources.repository import READ_LIMIT, FileSize, TooCostly
from wheelfit.sources.wheel_store import WheelStore
from wheelfit.wheels.bytes_source import BytesInMemory, ByteSource
from wheelfit_runtime.errors import UnexpectedStatus, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from wheelfit.wheels.unpacked import UnpackedWheel


@dataclass(slots=True)
class _Content:
    """The content of one file, or the error of reading it."""

    metadata: bytes = b""
    document: bytes | None = None
    data: bytes = b""
    failure: WheelfitError | None = None


@dataclass
class FakeRepository:
    """A ``Repository`` in memory that records its calls.

    >>> repository = FakeRepository()
    >>> repository.add_wheel("foo-1.0-py3-none-any.whl", requires=["bar"]).filename
    'foo-1.0-py3-none-any.whl'
    """

    name: str = "fake"
    base: str = "https://fake.invalid/"
    """The prefix of every URL; ``file:///…`` makes it a local folder."""
    ranges: bool = True
    """Whether parts of wheels can be read; otherwise that is refused as too costly."""
    requests: list[str] = field(default_factory=list)
    """The requests, in order: ``project foo``, ``read …``, ``metadata …``, ``document …``."""
    _files: dict[NormalizedName, list[File]] = field(default_factory=dict)
    _notes: dict[NormalizedName, tuple[str, ...]] = field(default_factory=dict)
    _contents: dict[str, _Content] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    # --- its contents ---------------------------------------------------------------

    def add_project(self, name: str, *, notes: Iterable[str] = ()) -> None:
        """Add a project without files."""
        self._files.setdefault(canonicalize_name(name), [])
        self._notes[canonicalize_name(name)] = tuple(notes)

    def add_wheel(
        self,
        filename: str,
        *,
        requires: Iterable[str] = (),
        extras: Iterable[str] = (),
        requires_python: str | None = None,
        metadata_requires_python: str | None = None,
        yanked: str | None = None,
        document: Mapping[str, object] | bytes | None = None,
        metadata: bytes | None = None,
        project: str | None = None,
        hashes: Mapping[str, str] | None = None,
        data: bytes | None = None,
    ) -> File:
        """Add a wheel.

        :param yanked: the reason for yanking; None: it is not yanked.
        :param metadata: METADATA; default: made from the other arguments.
        :param project: the project of its page; default: that of its name.
        :param data: the content of the file; default: a few invalid bytes.
        """
        parts = filename.removesuffix(".whl").split("-")
        name = parts[0]
        version = parts[1] if len(parts) > 1 else "0"  # an invalid name may have no version
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        if metadata_requires_python is not None:
            lines.append(f"Requires-Python: {metadata_requires_python}")
        lines += [f"Provides-Extra: {extra}" for extra in extras]
        lines += [f"Requires-Dist: {requirement}" for requirement in requires]
        content = _Content(
            metadata="\n".join([*lines, "", ""]).encode() if metadata is None else metadata,
            document=_encoded(document),
            data=filename.encode() if data is None else data,
        )
        file = File(
            filename,
            self.base + filename,
            hashes=hashes or {"sha256": hashlib.sha256(content.data).hexdigest()},
            requires_python=requires_python,
            yanked=yanked,
            source=self.name,
        )
        self._add(project or name, file, content)
        return file

    def add_file(
        self, filename: str, data: Mapping[str, object] | bytes = b"", *, project: str | None = None
    ) -> File:
        """Add any other file, such as a ``-variants.json`` or a source distribution."""
        content = _Content(data=_encoded(data) or b"")
        file = File(filename, self.base + filename, source=self.name)
        self._add(project or filename.split("-", maxsplit=1)[0], file, content)
        return file

    def break_file(self, file: File, failure: WheelfitError | None = None) -> None:
        """Make every access to a file fail; by default as if it were missing."""
        self._contents[file.filename].failure = failure or UnexpectedStatus(
            "the server answered 404", status=404, where=file.url
        )

    def _add(self, project: str, file: File, content: _Content) -> None:
        self._files.setdefault(canonicalize_name(project), []).append(file)
        self._contents[file.filename] = content

    # --- Repository --------------------------------------------------------------------

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the projects that were added."""
        self._record("projects")
        return tuple(sorted(self._files))

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project that was added."""
        self._record(f"project {name}")
        files = self._files.get(name)
        if files is None:
            return None
        return ProjectPage(name, tuple(files), self.name, self._notes.get(name, ()))

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a file."""
        data = self._content("read", file).data
        if len(data) > limit:
            raise UnexpectedStatus("the file is too long", status=200, where=file.url)
        return data

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel."""
        return self._content("metadata", file).metadata

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` of a wheel."""
        content = self._content("document", file)
        if not self.ranges:
            raise TooCostly("the server cannot give parts of files", where=file.url)
        return content.document

    def size(self, file: File, *, unpacked: bool = False) -> FileSize:
        """Return the size of an added file; its unpacked size is unknown."""
        return FileSize(file.size, None, why_unknown="it is a fake" if unpacked else "")

    def open(self, file: File) -> ByteSource:
        """Return the bytes of an added file."""
        content = self._content("open", file)
        if not self.ranges:
            raise TooCostly("the server cannot give parts of files", where=file.url)
        return BytesInMemory(content.data)

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Write the content of a file into a folder."""
        data = self._content("download", file).data
        progress.start(len(data))
        path = folder / file.filename
        path.write_bytes(data)
        progress.advance(len(data))
        progress.done()
        return path

    def unpacked(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> UnpackedWheel:
        """Unpack the content of a file into a folder."""
        path = self.download(file, folder, progress)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        filename = parse_wheel_filename(file.filename)
        return WheelStore(Store(None)).unpacked(path, filename, digest, folder, where=file.url)

    def _content(self, request: str, file: File) -> _Content:
        self._record(f"{request} {file.filename}")
        content = self._contents[file.filename]
        if content.failure is not None:
            raise content.failure
        return content

    def _record(self, text: str) -> None:
        with self._lock:
            self.requests.append(text)


def _encoded(data: Mapping[str, object] | bytes | None) -> bytes | None:
    return data if data is None or isinstance(data, bytes) else json.dumps(data).encode()
