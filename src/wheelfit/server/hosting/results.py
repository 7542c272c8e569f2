"""The results of the administration of an index, which its API returns as JSON."""

from __future__ import annotations

from typing import TypedDict


class StagedFile(TypedDict):
    """A file of a stage."""

    filename: str
    sha256: str


class ListedStage(TypedDict):
    """An open stage."""

    id: str
    owner: str
    created: str
    expires: str
    files: list[StagedFile]


class ListedToken(TypedDict):
    """A token, without its secret."""

    id: str
    owner: str
    scopes: list[str]
    created: str
    projects: list[str] | None
    expires: str | None
    note: str
