"""Upload requests like those of publishing tools, without a tool or a socket."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wheelfit.server.store.blobs import Blob, Blobs
from wheelfit.server.store.opening import Store
from wheelfit.server.store.records import Violation
from wheelfit.server.uploads.accepting import AcceptedUpload, accept_upload
from wheelfit.server.uploads.form import read_form
from wheelfit.testing.wheels import release_document

BOUNDARY = "a-boundary-that-is-not-in-the-file"
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
DOCUMENT = release_document(
    {
        "null": {},
        "mkl": {"blas": {"library": ["mkl"]}},
        "open": {"blas": {"library": ["openblas"]}},
    },
    static={"blas": {"library": ["mkl", "openblas"]}},
)
"""Of a release with three variants."""


def store_bytes(blobs: Blobs, pieces: Iterable[bytes]) -> Blob:
    """Store bytes from pieces."""
    with blobs.draft() as draft:
        for piece in pieces:
            draft.write(piece)
        blobs.save(draft)
        return Blob(draft.sha256, draft.size, draft.path.stat().st_mtime)


def fields_of(filename: str, content: bytes) -> dict[str, str]:
    """Return the form fields for a file."""
    name, version = filename.removesuffix(".tar.gz").removesuffix(".zip").split("-")[:2]
    return {
        ":action": "file_upload",
        "protocol_version": "1",
        "metadata_version": "2.1",
        "name": name,
        "version": version,
        "filetype": "bdist_wheel" if filename.endswith(".whl") else "sdist",
        "sha256_digest": hashlib.sha256(content).hexdigest(),
        "blake2_256_digest": hashlib.blake2b(content, digest_size=32).hexdigest(),
    }


def form(filename: str, content: bytes, fields: Mapping[str, str]) -> bytes:
    """Write a form."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    header = f'name="content"; filename="{filename}"\r\nContent-Type: application/octet-stream'
    parts.append(f"--{BOUNDARY}\r\nContent-Disposition: form-data; {header}\r\n\r\n".encode())
    return b"".join([*parts, content, f"\r\n--{BOUNDARY}--\r\n".encode()])


def upload(
    store: Store,
    path: Path,
    *,
    filename: str | None = None,
    changes: Mapping[str, str] | None = None,
    **options: Any,
) -> AcceptedUpload | tuple[Violation, ...]:
    """Upload a file.

    :param filename: how it shall be called; by default as it is.
    :param changes: fields that are other ones.
    :param options: for `accept_upload`.
    """
    content, filename = path.read_bytes(), filename or path.name
    fields = {**fields_of(path.name, content), **(changes or {})}
    body = io.BytesIO(form(filename, content, fields))
    with read_form(body, CONTENT_TYPE, store.blobs.draft()) as came:
        return accept_upload(came, store, **{"now": NOW, **options})


def refused(answer: AcceptedUpload | tuple[Violation, ...]) -> set[str]:
    """Return the references of a refusal."""
    assert isinstance(answer, tuple), answer
    assert answer
    assert all(one.where and one.message and not one.message.endswith(".") for one in answer)
    return {one.reference for one in answer}
