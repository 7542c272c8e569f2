"""An index on which anything may lie, however wrong: an application for `RecordingIndex`."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from urllib.parse import quote, unquote

from msgspec.structs import replace
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.server.messages import Request, Response, content_response
from wheelfit.server.pages import choose_type, write_project
from wheelfit.sources.page import NO_HASHES, File, ProjectPage

_TYPE = "application/octet-stream"


@dataclass
class Shelf:
    """Answer with what was put here; nothing is checked.

    Wheels are listed with size, hash, and METADATA beside them, so that whatever is wrong
    with an archive is met where it is installed.
    """

    files: dict[NormalizedName, list[File]] = field(default_factory=dict)
    """What the page of each project lists."""
    bodies: dict[str, bytes] = field(default_factory=dict)
    """Content by path, percent-decoded."""
    pages: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Whole pages by project: media type and content."""
    answers: dict[str, Response] = field(default_factory=dict)
    """Whole answers by path as it came."""

    def put(
        self,
        content: Path | bytes,
        filename: str | None = None,
        *,
        metadata: bytes | bool = True,
        hashes: bool | Mapping[str, str] = True,
        project: str | None = None,
        url: str | None = None,
        size: bool = True,
    ) -> File:
        """Put a file on the shelf and list it.

        :param content: a file, or its bytes.
        :param filename: under which name; needed for bytes.
        :param metadata: what lies beside it (PEP 658): bytes, True for what is inside, False
            for nothing.
        :param hashes: what the page promises; True for what is true.
        :param project: whose page lists it; default: what the name says.
        :param url: where; default: in ``/files/``.
        :param size: whether the page promises the size.
        """
        if isinstance(content, Path):
            filename = filename or content.name
            content = content.read_bytes()
        assert filename is not None
        place = url or f"/files/{quote(filename, safe='')}"
        path = unquote(place)
        self.bodies[path] = content
        beside = metadata if isinstance(metadata, bytes) else None
        if metadata is True:
            beside = _metadata(content)
        if beside is not None:
            self.bodies[f"{path}.metadata"] = beside
        digests = {"sha256": _sha256(content)} if hashes is True else hashes or NO_HASHES
        file = File(
            filename,
            place,
            digests,
            size=len(content) if size else None,
            metadata_hashes=None if beside is None else {"sha256": _sha256(beside)},
        )
        self.list(file, project)
        return file

    def list(self, file: File, project: str | None = None) -> None:
        """List a file that lies here or anywhere else.

        :param project: on whose page; default: what the name says.
        """
        name = canonicalize_name(project or file.filename.partition("-")[0])
        self.files.setdefault(name, []).append(file)

    def forget(self) -> None:
        """Take everything off the shelf."""
        for kept in (self.files, self.bodies, self.pages, self.answers):
            kept.clear()

    def revise(self, filename: str, **changes: object) -> None:
        """Change what the page says about a file."""
        for files in self.files.values():
            for index, file in enumerate(files):
                if file.filename == filename:
                    files[index] = replace(file, **changes)

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        if (prepared := self.answers.get(request.path)) is not None:
            return prepared
        path = unquote(request.path)
        if (content := self.bodies.get(path)) is not None:
            etag = f'"{_sha256(content)}"'
            return content_response(
                request, content, len(content), etag=etag, headers=_typed(_TYPE)
            )
        _, simple, project, *rest = (*path.split("/"), "", "")
        if simple != "simple" or rest[:1] != [""]:
            return Response.text(404, "nothing here")
        if project in self.pages:
            kind, content = self.pages[project]
            return Response.of(200, content, _typed(kind))
        name = canonicalize_name(project)
        kind = choose_type(request.headers.get("accept")) or "text/html"
        if name not in self.files:
            return Response.text(404, "nobody knows it")
        page = ProjectPage(name, tuple(self.files[name]), source="")
        return Response.of(200, write_project(page, kind), _typed(kind))


@dataclass(frozen=True)
class Endless:
    """A body that never ends; whoever reads it must stop by himself."""

    piece: bytes = b" " * (1 << 16)

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield self.piece


def _typed(kind: str) -> dict[str, str]:
    return {"content-type": kind, "cache-control": "no-cache"}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _metadata(content: bytes) -> bytes | None:
    """Return METADATA as a careless reader would find it; None if even that fails."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            names = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
            return archive.read(names[0]) if names else None
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError):
        return None
