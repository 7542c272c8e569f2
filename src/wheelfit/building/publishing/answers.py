"""The answers of an index to uploads, and the errors that they stand for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from wheelfit.errors import UploadRefused
from wheelfit.sources.response_message import response_message
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import PolicyRefusal, UnexpectedStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_LENGTH = 500
NAME_TAKEN = "name-taken"
"""The code of wheelfit servers and reports for a file that exists with other content."""
_PROJECT_FAULTS = {"over-quota", "closed-project"}
"""Codes of wheelfit servers for faults that another login does not change."""
_CONFLICT_MESSAGES = (
    "already exist", "already been taken", "already been uploaded", "already uploaded",
    "overwrite artifact", "file name has already", "filename has already",
)  # fmt: skip
"""Messages of other indexes for that, in lower case."""


class Answer(NamedTuple):
    """An answer of an index."""

    status: int
    reason: str
    """The reason phrase of the status line."""
    headers: Mapping[str, str]
    """By name in lower case."""
    content: bytes
    """The body, or its beginning."""

    def json(self) -> dict[str, Any]:
        """Return the JSON object in the body; empty if it has none."""
        try:
            content = json.loads(self.content)
        except (ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}


def failure_of(answer: Answer, filename: str, where: str) -> Exception:
    """Return the error for an answer."""
    status = answer.status
    details = _details(answer)
    message = "; ".join(detail["message"] for detail in details) or response_message(
        answer.reason, answer.content
    )
    if not details and is_conflict(status, message):
        details = [{"reference": NAME_TAKEN, "message": message, "where": filename}]
    elif status in (401, 403) and not _PROJECT_FAULTS & {detail["reference"] for detail in details}:
        return PolicyRefusal(
            f"the index does not accept {filename} from you: {message}",
            where=where,
            hint="--verbose shows which credentials are used; see docs/reference/publish.md",
        )
    if 300 <= status < 400:
        return UnexpectedStatus(
            f"the index redirects with {status}, and uploads do not follow redirects",
            status=status,
            where=where,
            note=redact(answer.headers.get("location", "")[:_MAX_LENGTH]) or None,
            hint="name the address for uploads as the index documents it",
        )
    if status in (404, 405):
        return UnexpectedStatus(
            f"this address does not accept uploads: {status} {message}",
            status=status,
            where=where,
            hint="name the address for uploads as the index documents it",
        )
    if status < 500:
        return UploadRefused(
            f"{filename} is refused: {message}",
            where=where,
            details=details or [{"reference": str(status), "message": message, "where": filename}],
        )
    return UnexpectedStatus(
        f"the index answers the upload of {filename} with {status}: {message}",
        status=status,
        where=where,
    )


def is_conflict(status: int, message: str) -> bool:
    """Return whether another index reports a conflict with an existing file.

    >>> is_conflict(409, "Conflict"), is_conflict(400, "File already exists"), is_conflict(400, "")
    (True, True, False)
    """
    if status == 409:
        return True
    return 400 <= status < 500 and any(text in message.lower() for text in _CONFLICT_MESSAGES)


def _details(answer: Answer) -> list[dict[str, str]]:
    """Return the errors in the answer of a wheelfit index; other indexes send none."""
    try:
        return [
            {name: str(error[name] or "") for name in ("reference", "message", "where")}
            for error in answer.json()["errors"]
        ]
    except (LookupError, TypeError):
        return []
