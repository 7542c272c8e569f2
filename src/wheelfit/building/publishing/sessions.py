"""Publish releases by the publishing sessions of an index (PEP 694, draft of August 2026).

A session keeps the files of one release hidden until it is published. Its mechanism is
``http-post-bytes``, which every such index has.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urljoin

from wheelfit.building.publishing.answers import Answer, failure_of
from wheelfit.building.publishing.completeness import compare
from wheelfit.building.publishing.publication import PublishResult, refuse_conflicts
from wheelfit.building.publishing.release_files import release_groups
from wheelfit.building.publishing.twine_sender import IndexConnection, read_attestations
from wheelfit.errors import UploadRefused
from wheelfit.sources.server_words import words_of
from wheelfit.sources.urls import origin, redact
from wheelfit_runtime.errors import (
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

    from wheelfit.building.publishing.release_files import OutgoingFile, Release
    from wheelfit.sources.credentials import Login
    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress

_META = {"meta": {"api-version": "2.0"}}
_TYPE = "application/vnd.pypi.upload.v2+json"
_MECHANISM = "http-post-bytes"
_LONGEST_WORK = 900.0
"""Seconds for which an index may work on a file or a release."""
_MOST = 4 << 20
_EDITABLE = ("open", "error")
_OURS = "_wheelfit"
"""The key of wheelfit's own extensions in answers."""
_AGAIN = "run the same command again: a session that is left is taken up"


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
        self, release: Release, wanted: Mapping[str, str | None]
    ) -> tuple[dict[str, Any], frozenset[str]]:
        """Open the session of a release, or resume an earlier one.

        :param wanted: the files to send, each with its SHA-256 if it may be there already.
        :return: the session, and the files that need not be sent, as a server of wheelfit lists
            them. All others are removed from a resumed session.
        :raises UploadRefused: another publisher has files in it.
        """
        name, version = release
        what = f"{name} {version}"
        said = {**_META, "name": name, "version": str(version)}
        answer = self._ask("POST", self.root, what, said, conflicts=True)
        if answer.status != 409:
            session = answer.json()
            if not session.get("links"):
                kind = answer.headers.get("content-type", "").partition(";")[0] or "of no type"
                raise InvalidPage(
                    f"no publishing session was opened: the answer is {kind}",
                    where=redact(self.root),
                    hint="--session-url is the root of the index's sessions (PEP 694); without it "
                    "files are uploaded one by one",
                )
            return session, frozenset()
        status = self._ask("GET", self._link(answer.headers.get("location")), what).json()
        there = status.get("files") or {}
        strange = sorted(there.keys() - wanted.keys())
        if strange or status.get("status") not in _EDITABLE:
            words = f"with {', '.join(strange)}" if strange else f"that is {status.get('status')}"
            raise UploadRefused(
                f"the index has an open session for {what} {words[:300]}",
                where=redact(self.root),
                hint="publish or cancel that session first",
                details=[{"reference": "session-open", "message": words[:300], "where": what}],
            )
        kept = frozenset(
            filename
            for filename, one in there.items()
            if one.get("status") == "completed"
            and wanted[filename] is not None
            and (one.get(_OURS) or {}).get("sha256") == wanted[filename]
        )
        for filename in there.keys() - kept:
            self._ask("DELETE", self._link(there[filename].get("link")), what)
        return status, kept

    def send(self, session: Mapping[str, Any], file: OutgoingFile, progress: Progress) -> None:
        """Send a file to a session, with its attestations."""
        with file.path.open("rb") as content:
            self._send(session, file.filename, file.size, file.sha256,
                       _Body(content, file.size, progress), read_attestations(file))  # fmt: skip

    def send_index_file(self, session: Mapping[str, Any], filename: str, data: bytes) -> None:
        """Send the ``-variants.json`` of a release."""
        import hashlib

        digest = hashlib.sha256(data).hexdigest()
        self._send(session, filename, len(data), digest, data, [])

    def _send(
        self,
        session: Mapping[str, Any],
        filename: str,
        size: int,
        sha256: str,
        content: _Body | bytes,
        attestations: Sequence[object],
    ) -> None:
        said = {**_META, "filename": filename, "size": size, "hashes": {"sha256": sha256},
                "mechanism": _MECHANISM}  # fmt: skip
        upload = self._ask("POST", self._link_of(session, "upload"), filename, said).json()
        mechanism = upload.get("mechanism") or {}
        address = self._link(mechanism.get("file_url"))
        self._ask("POST", address, filename, content, kind="application/octet-stream")
        if attestations and mechanism.get("attestations_url"):
            where = self._link(mechanism["attestations_url"])
            self._ask("POST", where, filename, attestations, kind="application/json")
        done = self._ask("POST", self._link_of(upload, "complete"), filename, _META)
        if done.status == 202:
            status = self._link_of(upload, "file-upload-session")
            self._wait(status, filename, done="completed", working=("pending", "processing"))

    def publish(self, session: Mapping[str, Any], what: str) -> None:
        """Publish all files of a session at once."""
        done = self._ask("POST", self._link_of(session, "publish"), what, _META)
        if done.status == 202:
            status = self._link_of(session, "session")
            self._wait(status, what, done="published", working=("processing",))

    def cancel(self, session: Mapping[str, Any]) -> None:
        """Delete a session, if it exists and can be deleted."""
        with suppress(WheelfitError):
            self._ask("DELETE", self._link_of(session, "session"), "the session")

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _wait(self, url: str, what: str, *, done: str, working: Sequence[str]) -> None:
        """Wait until an index has processed a request."""
        left = _LONGEST_WORK
        while True:
            answer = self._ask("GET", url, what)
            said = answer.json()
            status = said.get("status")
            if status == done:
                return
            if status not in working:
                notices = "; ".join(map(str, said.get("notices") or ()))[:500]
                words = notices or f"the index says {status!r}"
                raise failure_of(
                    Answer(400, f"it failed: {words}", {}, b""), what, redact(self.root)
                )
            if left <= 0:
                raise Unreachable(f"the index still works on {what}", where=redact(self.root))
            seconds = _seconds(answer.headers.get("retry-after", ""))
            self._pause(seconds)
            left -= seconds

    def _link_of(self, said: Mapping[str, Any], name: str) -> str:
        return self._link((said.get("links") or {}).get(name))

    def _link(self, url: object) -> str:
        """Return a link, if it leads to the requested server: the login is for that server only."""
        link = urljoin(self.root, url) if isinstance(url, str) and url else ""
        try:
            is_here = origin(link) == origin(self.root)
        except ValueError:
            is_here = False
        if not is_here:
            raise InvalidPage(
                f"a link of the index leads elsewhere: {redact(link)[:200] or 'there is none'}",
                where=redact(self.root),
            )
        return link

    def _ask(
        self,
        method: str,
        url: str,
        what: str,
        said: object = None,
        *,
        kind: str = _TYPE,
        conflicts: bool = False,
    ) -> Answer:
        """Send a request; errors are about `what`, a file or a release."""
        headers = {"Accept": _TYPE, "Content-Type": kind}
        is_raw = said is None or isinstance(said, bytes | _Body)
        data = said if is_raw else json.dumps(said).encode()
        answer = self._connection.ask(
            method, url, f"send {what}", data=data, headers=headers, most=_MOST
        )
        is_conflict = conflicts and answer.status == 409 and "location" in answer.headers
        if answer.status < 300 or is_conflict:
            return answer
        said = answer.json()
        words = _problem(said) or words_of(answer.reason, answer.content)
        told = answer._replace(reason=f"it says: {words}", content=_references(said))
        raise failure_of(told, what, redact(self.root))


def publish_in_sessions(
    files: Sequence[OutgoingFile],
    index_files: Mapping[Release, bytes],
    index: SessionIndex,
    listed: Callable[[], Mapping[str, File]],
    progress: Progress,
) -> PublishResult:
    """Publish files so that all of a release are seen in one moment, or none (PEP 694).

    Of several releases none is published before all files of all of them have come.

    :param index_files: sent where the index takes them.
    :raises UploadRefused: a file may not come in; nothing is published, unless that is found out
        when another release is published already.
    :raises NetworkError: the index cannot be reached; its sessions wait.
    """
    from wheelfit.core.filename import index_file_name

    compared = compare(files, listed())
    refuse_conflicts(compared)
    progress.start(sum(one.size for one in compared.new))
    refused: list[str] = []
    filled: dict[Release, dict[str, Any]] = {}
    try:
        for release, some in release_groups(compared.new).items():
            name = index_file_name(*release)
            wanted = {name: None, **{one.filename: one.sha256 for one in some}}
            session, kept = index.open(release, wanted)
            filled[release] = session
            for one in some:
                if one.filename in kept:
                    progress.advance(one.size)
                else:
                    index.send(session, one, progress)
            if release in index_files:
                refused += _sent_if_taken(index, session, name, index_files[release])
        for release in list(filled):
            index.publish(filled[release], f"{release[0]} {release[1]}")
            del filled[release]
    except (UserError, PolicyRefusal, KeyboardInterrupt):
        for session in filled.values():
            index.cancel(session)
        raise
    except NetworkError as error:
        error.note = error.note or "a release whose session was not published is not seen"
        error.hint = error.hint or _AGAIN
        raise
    finally:
        index.close()
    progress.done()
    return PublishResult(
        tuple(one.filename for one in compared.new),
        tuple(one.filename for one in compared.there),
        refused_index_files=tuple(refused),
    )


def _sent_if_taken(
    index: SessionIndex, session: Mapping[str, Any], name: str, data: bytes
) -> Iterator[str]:
    """Send an index file; yield why the index does not take it."""
    try:
        index.send_index_file(session, name, data)
    except UploadRefused as error:
        yield error.message


class _Body:
    """The content of a file on its way, with its length."""

    def __init__(self, content: BinaryIO, size: int, progress: Progress) -> None:
        self._content = content
        self._size = size
        self._progress = progress

    def __len__(self) -> int:
        return self._size

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        piece = self._content.read(size)
        self._progress.advance(len(piece))
        return piece


def _problem(said: Mapping[str, Any]) -> str:
    """Return the problem in an answer, as RFC 9457 describes it."""
    errors = said.get("errors")
    more = [error.get("message") for error in errors if isinstance(error, dict)] if isinstance(
        errors, list) else []  # fmt: skip
    words = [said.get("title"), said.get("detail"), said.get("details"), *more]
    return " ".join("; ".join(str(word) for word in words if word).split())[:500]


def _references(said: Mapping[str, Any]) -> bytes:
    """Return the errors of a server of wheelfit in its usual form; empty: it is another server."""
    try:
        errors = [{**one, "where": one["source"]} for one in said["errors"] if one["reference"]]
    except (LookupError, TypeError):
        return b""
    return json.dumps({"errors": errors}).encode()


def _seconds(text: str) -> float:
    """Return the pause before the next request in seconds, within limits."""
    return min(max(float(text), 0.5), 30.0) if text.isdecimal() else 2.0
