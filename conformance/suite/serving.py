"""The adapter's side of the protocol; for adapters written in Python."""

from __future__ import annotations

import base64
import json
import sys
from typing import TYPE_CHECKING, Any

from suite.cases import FORMAT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = [
    "Answer",
    "Request",
    "document_bytes",
    "error",
    "invalid",
    "result",
    "serve",
    "unsupported",
]

Request = dict[str, Any]
"""One case as it arrives: ``id``, ``area``, ``question`` and ``input``."""
Answer = dict[str, Any]
"""One answer without its ``id``."""


def result(*, partial: bool = False, **values: Any) -> Answer:
    """Answer with a result.

    :param partial: whether the tool shows only these parts; the others are not compared.
    :param values: the parts.
    """
    return {"result": values, "partial": True} if partial else {"result": values}


def invalid(reason: object) -> Answer:
    """Answer that the tool refuses what it was given."""
    return {"invalid": str(reason)}


def unsupported(reason: str) -> Answer:
    """Answer that the tool does not show what is asked."""
    return {"unsupported": reason}


def error(reason: object) -> Answer:
    """Answer that the tool fails where it should have an answer."""
    return {"error": str(reason)}


def serve(
    tool: str,
    version: str,
    areas: Iterable[str],
    answers: Callable[[list[Request]], Iterator[tuple[Request, Answer]]],
) -> None:
    """Announce a tool, read all cases and write what is answered.

    :param tool: its name.
    :param version: its version.
    :param areas: those in which it can be observed.
    :param answers: called once with all cases; yields each with its answer, in any order.
    """
    _write({"tool": tool, "version": version, "format": FORMAT, "areas": sorted(areas)})
    requests = [json.loads(line) for line in sys.stdin.buffer]
    for request, answer in answers(requests):
        _write({"id": request["id"], **answer})


def _write(content: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def document_bytes(given: Mapping[str, Any]) -> bytes:
    """Return the bytes of a document that a question holds.

    :param given: has one of ``document`` (JSON), ``text`` and ``base64``.
    """
    if "base64" in given:
        return base64.b64decode(given["base64"])
    text = given["text"] if "text" in given else json.dumps(given["document"])
    return str(text).encode()
