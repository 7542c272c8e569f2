"""Publication by the publishing sessions of an index (PEP 694, draft of August 2026).

A session hides the files of one release until it is published. Files are sent by the mechanism
``http-post-bytes``, which every such index supports.
"""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urljoin

from wheelfit.building.publishing.answers import Answer, failure_of
from wheelfit.building.publishing.completeness import compare_with_index
from wheelfit.building.publishing.publication import PublishResult, refuse_conflicts
from wheelfit.building.publishing.release_files import OutgoingFile, release_groups
from wheelfit.building.publishing.twine_sender import IndexConnection, read_attestations
from wheelfit.core.filename import index_file_name
from wheelfit.errors import UploadRefused
from wheelfit.sources.response_message import response_message
from wheelfit.sources.urls import origin, redact
from wheelfit_runtime.errors import (
    IntegrityError,
    InvalidPage,
    NetworkError,
    PolicyRefusal,
    Unreachable,
    UserError,
    WheelfitError,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wheelfit.core.filename import Release
    from wheelfit.sources.credentials import Login
    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress

_META = {"meta": {"api-version": "2.0"}}
_CONTENT_TYPE = "application/vnd.pypi.upload.v2+json"
_MECHANISM = "http-post-bytes"
_PROCESSING_LIMIT = 900.0
"""Seconds for which an index may process a file or a release."""
_MAX_ANSWER = 4 << 20
_EDITABLE = ("open", "error")
_EXTENSION = "_wheelfit"
"""The key of wheelfit's own extensions in responses."""
_RETRY_HINT = "run the same command again: it resumes the open session"


class SessionIndex:
    """An index that has publishing sessions.

    :param root: the root endpoint; links to other servers are not followed.
    """

    def __init__(
        self,
        root: str,
        login: Login | None,
        context: ssl.SSLContext | None = None,
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.root = root
        self._connection = IndexConnection(root, login, context)
        self._pause = pause

    def open(
        self, release: Release, digests: Mapping[str, str | None]
    ) -> tuple[dict[str, Any], frozenset[str]]:
        """Open the session of a release, or resume an earlier one.

        :param digests: the SHA-256 of the files to send, by name; None: the file is always sent.
        :return: the session, and the names of the files that it already has unchanged, which only a
            wheelfit server lists. All other files are removed from a resumed session.
        :raises UploadRefused: another publisher has files in it.
        """
        name, version = release
        subject = f"{name} {version}"
        request = {**_META, "name": name, "version": str(version)}
        answer = self._request("POST", self.root, subject, request, return_conflicts=True)
        if answer.status != 409:
            session = answer.json()
            if not session.get("links"):
                kind = answer.headers.get("content-type", "").partition(";")[0] or "(none)"
                raise InvalidPage(
                    f"no publishing session was opened: the answer has the type {kind}",
                    where=redact(self.root),
                    hint="--session-url is the root of the index's sessions (PEP 694); without it "
                    "files are uploaded one by one",
                )
            return session, frozenset()
        status = self._request("GET", self._link(answer.headers.get("location")), subject).json()
        files = {name: _object(entry) for name, entry in _object(status.get("files")).items()}
        foreign_files = sorted(files.keys() - digests.keys())
        if foreign_files or status.get("status") not in _EDITABLE:
            description = (
                f"with {', '.join(foreign_files)}"
                if foreign_files
                else f"that is {status.get('status')}"
            )[:300]
            raise UploadRefused(
                f"the index has an open session for {subject} {description}",
                where=redact(self.root),
                hint="publish or cancel that session first",
                details=[{"reference": "session-open", "message": description, "where": subject}],
            )
        sent = frozenset(
            filename
            for filename, entry in files.items()
            if entry.get("status") == "completed"
            and digests[filename] is not None
            and _object(entry.get(_EXTENSION)).get("sha256") == digests[filename]
        )
        for filename in files.keys() - sent:
            self._request("DELETE", self._link(files[filename].get("link")), subject)
        return status, sent

    def send(self, session: Mapping[str, Any], file: OutgoingFile, progress: Progress) -> None:
        """Send a file to a session, with its attestations."""
        with file.path.open("rb") as content:
            body = _Body(content, file.size, progress)
            attestations = read_attestations(file)
            self._send(session, file.filename, file.size, file.sha256, body, attestations)

    def send_index_file(self, session: Mapping[str, Any], filename: str, data: bytes) -> None:
        """Send the ``-variants.json`` of a release."""
        self._send(session, filename, len(data), hashlib.sha256(data).hexdigest(), data, [])

    def _send(
        self,
        session: Mapping[str, Any],
        filename: str,
        size: int,
        sha256: str,
        content: _Body | bytes,
        attestations: Sequence[object],
    ) -> None:
        hashes = {"sha256": sha256}
        request = {"filename": filename, "size": size, "hashes": hashes, "mechanism": _MECHANISM}
        upload_url = self._named_link(session, "upload")
        upload = self._request("POST", upload_url, filename, {**_META, **request}).json()
        mechanism = _object(upload.get("mechanism"))
        file_url = self._link(mechanism.get("file_url"))
        self._request("POST", file_url, filename, content, content_type="application/octet-stream")
        if attestations and mechanism.get("attestations_url"):
            attestations_url = self._link(mechanism["attestations_url"])
            self._request(
                "POST", attestations_url, filename, attestations, content_type="application/json"
            )
        completion = self._request("POST", self._named_link(upload, "complete"), filename, _META)
        if completion.status == 202:
            status = self._named_link(upload, "file-upload-session")
            self._wait(status, filename, done="completed", working=("pending", "processing"))

    def publish(self, session: Mapping[str, Any], subject: str) -> None:
        """Publish all files of a session at once."""
        answer = self._request("POST", self._named_link(session, "publish"), subject, _META)
        if answer.status == 202:
            status = self._named_link(session, "session")
            self._wait(status, subject, done="published", working=("processing",))

    def cancel(self, session: Mapping[str, Any]) -> None:
        """Delete a session, if it exists and can be deleted."""
        with suppress(WheelfitError):
            self._request("DELETE", self._named_link(session, "session"), "the session")

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _wait(self, url: str, subject: str, *, done: str, working: Sequence[str]) -> None:
        """Wait until an index has processed a request."""
        remaining = _PROCESSING_LIMIT
        while True:
            answer = self._request("GET", url, subject)
            content = answer.json()
            status = content.get("status")
            if status == done:
                return
            if status not in working:
                notices = content.get("notices")
                text = "; ".join(map(str, notices))[:500] if isinstance(notices, list) else ""
                reason = text or f"its status is {status!r}"
                raise failure_of(
                    Answer(400, f"it failed: {reason}", {}, b""), subject, redact(self.root)
                )
            if remaining <= 0:
                raise Unreachable(f"the index still processes {subject}", where=redact(self.root))
            seconds = _retry_pause(answer.headers.get("retry-after", ""))
            self._pause(seconds)
            remaining -= seconds

    def _named_link(self, content: Mapping[str, Any], name: str) -> str:
        return self._link(_object(content.get("links")).get(name))

    def _link(self, url: object) -> str:
        """Return the URL of a link, which must be on the server that the login is for."""
        link = urljoin(self.root, url) if isinstance(url, str) and url else ""
        try:
            is_same_server = origin(link) == origin(self.root)
        except ValueError:
            is_same_server = False
        if not is_same_server:
            shown_link = f": {redact(link)[:200]}" if link else ""
            raise InvalidPage(
                f"a link of the index is missing, or of another server{shown_link}",
                where=redact(self.root),
            )
        return link

    def _request(
        self,
        method: str,
        url: str,
        subject: str,
        body: object = None,
        *,
        content_type: str = _CONTENT_TYPE,
        return_conflicts: bool = False,
    ) -> Answer:
        """Send a request.

        :param subject: the file or the release, for messages.
        :param body: bytes, or data to send as JSON; None: no body.
        :param return_conflicts: whether to return a conflict that links to an open session,
            instead of raising it.
        """
        headers = {"Accept": _CONTENT_TYPE, "Content-Type": content_type}
        is_raw = body is None or isinstance(body, bytes | _Body)
        data = body if is_raw else json.dumps(body).encode()
        answer = self._connection.request(
            method, url, f"send {subject}", data=data, headers=headers, max_size=_MAX_ANSWER
        )
        is_conflict = return_conflicts and answer.status == 409 and "location" in answer.headers
        if answer.status < 300 or is_conflict:
            return answer
        content = answer.json()
        message = _problem_text(content) or response_message(answer.reason, answer.content)
        described_answer = answer._replace(
            reason=f"it says: {message}", content=_error_details(content)
        )
        raise failure_of(described_answer, subject, redact(self.root))


def publish_in_sessions(
    files: Sequence[OutgoingFile],
    index_files: Mapping[Release, bytes],
    index: SessionIndex,
    list_index: Callable[[], Mapping[str, File]],
    progress: Progress,
) -> PublishResult:
    """Publish files so that all files of a release become visible at once, or none (PEP 694).

    No release is published before all files of all releases are sent.

    :param index_files: index files, which the index may refuse.
    :raises UploadRefused: a file is refused; nothing is published, unless another release was
        published before the refusal.
    :raises NetworkError: the index cannot be reached; its sessions stay open.
    """
    comparison = compare_with_index(files, list_index())
    refuse_conflicts(comparison)
    progress.start(sum(file.size for file in comparison.new))
    refused: list[str] = []
    sessions: dict[Release, dict[str, Any]] = {}
    try:
        for release, release_files in release_groups(comparison.new).items():
            name = index_file_name(*release)
            digests = {name: None, **{file.filename: file.sha256 for file in release_files}}
            session, sent = index.open(release, digests)
            sessions[release] = session
            for file in release_files:
                if file.filename in sent:
                    progress.advance(file.size)
                else:
                    index.send(session, file, progress)
            if release in index_files:
                refused += _send_index_file(index, session, name, index_files[release])
        for release in list(sessions):
            index.publish(sessions[release], f"{release[0]} {release[1]}")
            del sessions[release]
    except (UserError, PolicyRefusal, IntegrityError, KeyboardInterrupt):
        for session in sessions.values():
            index.cancel(session)
        raise
    except NetworkError as error:
        error.note = error.note or "releases with open sessions are not published"
        error.hint = error.hint or _RETRY_HINT
        raise
    finally:
        index.close()
    progress.done()
    return PublishResult(
        tuple(file.filename for file in comparison.new),
        tuple(file.filename for file in comparison.existing),
        refused_index_files=tuple(refused),
    )


def _send_index_file(
    index: SessionIndex, session: Mapping[str, Any], name: str, data: bytes
) -> Iterator[str]:
    """Send an index file; yield the reason if the index refuses it."""
    try:
        index.send_index_file(session, name, data)
    except UploadRefused as error:
        yield error.message


class _Body:
    """A request body with a length, which reports the progress of reading."""

    def __init__(self, content: BinaryIO, size: int, progress: Progress) -> None:
        self._content = content
        self._size = size
        self._progress = progress

    def __len__(self) -> int:
        return self._size

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        chunk = self._content.read(size)
        self._progress.advance(len(chunk))
        return chunk


def _object(value: object) -> Mapping[str, Any]:
    """Return an object in a response; empty for any other value."""
    return value if isinstance(value, dict) else {}


def _problem_text(content: Mapping[str, Any]) -> str:
    """Return the problem details of a response (RFC 9457) as text."""
    parts = [content.get("title"), content.get("detail"), content.get("details")]
    errors = content.get("errors")
    if isinstance(errors, list):
        parts += [error.get("message") for error in errors if isinstance(error, dict)]
    return " ".join("; ".join(str(word) for word in parts if word).split())[:500]


def _error_details(content: Mapping[str, Any]) -> bytes:
    """Return a wheelfit server's errors as `failure_of` reads them; empty for other servers."""
    try:
        errors = [
            {**error, "where": error["source"]} for error in content["errors"] if error["reference"]
        ]
    except (LookupError, TypeError):  # errors of other servers have no reference
        return b""
    return json.dumps({"errors": errors}).encode()


def _retry_pause(text: str) -> float:
    """Return the pause before the next request in seconds, within limits."""
    return min(max(float(text), 0.5), 30.0) if text.isdecimal() else 2.0
