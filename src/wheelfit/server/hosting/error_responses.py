"""Error responses for clients: text, JSON, or problem details (RFC 9457)."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from wheelfit.server.messages import Request, Response

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit.server.store.records import Violation
    from wheelfit_runtime.errors import WheelfitError

API_METADATA = {"meta": {"api-version": "2.0"}}
"""The metadata in every response of publishing sessions (PEP 694)."""


def refusal_response(request: Request, violations: Sequence[Violation]) -> Response:
    """Return a response with every reason to refuse a file, as publishing tools show it."""
    first, *others = violations
    rest = f" (and {len(others)} more)" if others else ""
    status = status_of(violations)
    if wants_json(request):
        response = json_response(
            status, {"errors": [asdict(violation) for violation in violations]}
        )
    else:
        response = Response.text(status, "\n".join(map(str, violations)))
    return replace(response, reason=f"{first}{rest}")


def status_of(violations: Sequence[Violation]) -> int:
    """Return the status of a response with violations."""
    references = {violation.reference for violation in violations}
    if "too-large" in references:
        return 413
    if references <= {"name-taken", "name-deleted", "upload-unfinished", "session-ended"}:
        return 409
    return 403 if references <= {"not-an-owner", "over-quota", "closed-project"} else 400


def error_response(request: Request, status: int, error: WheelfitError) -> Response:
    """Return the response to an error, with its hint; the reason phrase is the message alone."""
    message = f"{error.where}: {error.message}" if error.where else error.message
    if wants_json(request):
        details = {"reference": error.reference, "message": error.message, "where": error.where}
        if error.hint:
            details["hint"] = error.hint
        response = json_response(status, {"errors": [details]})
    else:
        response = Response.text(status, f"{message}\n{error.hint}" if error.hint else message)
    return replace(response, reason=message)


def wants_json(request: Request) -> bool:
    """Return whether a client accepts JSON."""
    return "application/json" in request.headers.get("accept", "")


def json_response(
    status: int,
    value: object,
    media_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a response in JSON, which no cache keeps."""
    own_headers = {"content-type": media_type, "cache-control": "no-store"}
    return Response.of(status, json.dumps(value).encode(), {**own_headers, **(headers or {})})


def problem_response(
    status: int,
    title: str,
    errors: Sequence[Violation] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return problem details as publishing sessions have them (PEP 694, RFC 9457).

    :param title: the fault, one sentence.
    :param errors: all faults, if there are several.
    """
    problems = [
        {"source": error.where, "message": error.message, "reference": error.reference}
        for error in errors
    ]
    value = {
        **API_METADATA,
        "type": "about:blank",
        "status": status,
        "title": title,
        "errors": problems,
    }
    return json_response(status, value, "application/problem+json", headers)
