"""Stages of a live index: releases that are uploaded out of sight and published at once."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wheelfit.operations.index_files import FilesReport
from wheelfit.operations.live_index import LiveIndexRequest, open_administration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.operations.context import Context


@dataclass(frozen=True, kw_only=True)
class OpenStageRequest(LiveIndexRequest):
    """The stage to open."""

    owner: str = "admin"
    lasts: str = "7d"


@dataclass(frozen=True, kw_only=True)
class StageRequest(LiveIndexRequest):
    """A stage, by its ID."""

    stage: str


@dataclass(frozen=True, slots=True)
class OpenedStage:
    """A stage that was opened."""

    stage: Mapping[str, Any]
    """Its ``id``, ``secret`` and the moment at which it ``expires``."""
    server: str | None
    """The URL of the server, without a slash at its end; None for an index named by its store."""

    @property
    def upload_url(self) -> str:
        """The URL for uploads, where there is a server."""
        return f"{self.server}/stage/{self.stage['id']}/legacy/"

    @property
    def index_url(self) -> str:
        """The URL for installers, with the secret, where there is a server."""
        scheme, _, rest = f"{self.server}/stage/{self.stage['id']}".partition("://")
        return f"{scheme}://__token__:{self.stage['secret']}@{rest}/simple/"

    def to_json(self) -> dict[str, object]:
        """Return the report as plain data."""
        return {"version": 1, **self.stage}


@dataclass(frozen=True, slots=True)
class StagesReport:
    """The open stages of an index."""

    stages: tuple[Mapping[str, Any], ...]

    def to_json(self) -> dict[str, object]:
        """Return the report as plain data."""
        return {"version": 1, "stages": list(self.stages)}


@dataclass(frozen=True, slots=True)
class DroppedStage:
    """A stage that was dropped."""

    count: int
    """The number of its files."""

    def to_json(self) -> dict[str, object]:
        """Return the report as plain data."""
        return {"version": 1, "count": self.count}


def open_stage(request: OpenStageRequest, context: Context) -> OpenedStage:
    """Open a stage.

    :raises UserError: the time that it lasts cannot be understood.
    """
    from wheelfit.server.hosting.administration import seconds_of

    with closing(open_administration(request, context)) as administration:
        stage = administration.open_stage(request.owner, seconds_of(request.lasts))
    return OpenedStage(stage, request.at.rstrip("/") if request.is_server else None)


def list_stages(request: LiveIndexRequest, context: Context) -> StagesReport:
    """Return the open stages."""
    with closing(open_administration(request, context)) as administration:
        return StagesReport(tuple(administration.stages()))


def publish_stage(request: StageRequest, context: Context) -> FilesReport:
    """Publish all files of a stage at once, or none if anything is wrong."""
    with closing(open_administration(request, context)) as administration:
        return FilesReport(tuple(administration.publish(request.stage)))


def drop_stage(request: StageRequest, context: Context) -> DroppedStage:
    """Drop a stage and its files."""
    with closing(open_administration(request, context)) as administration:
        return DroppedStage(administration.drop(request.stage))
