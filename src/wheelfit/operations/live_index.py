"""The live index that an operation changes: its server, or its store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.operations.requests import Checked

if TYPE_CHECKING:
    from wheelfit.operations.context import Context
    from wheelfit.server.hosting.administration import Administration

TOKEN = "WHEELFIT_INDEX_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable with the token for a server."""


@dataclass(frozen=True, kw_only=True)
class LiveIndexRequest(Checked):
    """A live index."""

    at: str = "."
    database: str | None = None
    storage: str | None = None

    @property
    def is_server(self) -> bool:
        """Whether the index is named by the URL of its server."""
        return self.at.startswith(("http://", "https://"))


def open_administration(request: LiveIndexRequest, context: Context) -> Administration:
    """Open the administration of an index.

    :param request: the index.
    :param context: the surroundings; its environment has the token for a server.
    :raises FileProblem: there is no index in the folder.
    :raises UsageError: a server is named, and a store as well.
    """
    from pathlib import Path

    from wheelfit.errors import UsageError
    from wheelfit_runtime.errors import FileProblem

    if request.is_server:
        from wheelfit.server.hosting.client import ServerAdministration

        if request.database or request.storage:
            raise UsageError("a server has its own store: --database and --storage are not for it")
        return ServerAdministration(request.at, context.environ.get(TOKEN, ""))
    from wheelfit.server.hosting.administration import StoreAdministration
    from wheelfit.server.store.opening import DATABASE, open_store

    folder = Path(request.at)
    if not request.database and not (folder / DATABASE).is_file():
        raise FileProblem(
            "there is no index in this folder",
            where=request.at,
            hint="--at says where it is; wheelfit index serve DIR makes one",
        )
    return StoreAdministration(open_store(folder, records=request.database, blobs=request.storage))
