"""The index that commands change: a folder, the addresses of a store, or a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from wheelfit.cli.output import Output
    from wheelfit.server.hosting.administration import Administration

TOKEN = "WHEELFIT_INDEX_TOKEN"  # noqa: S105 - the name of a variable


def open_administration(arguments: Namespace, environ: Mapping[str, str]) -> Administration:
    """Open what changes an index.

    :param arguments: the options of `indexes.PLACE`.
    :param environ: the environment of the process.
    :raises FileProblem: there is no index in the folder.
    """
    from pathlib import Path

    from wheelfit.errors import FileProblem, UsageError

    if arguments.at.startswith(("http://", "https://")):
        from wheelfit.server.hosting.client import ServerAdministration

        if arguments.database or arguments.storage:
            raise UsageError("a server has its own store: --database and --storage are not for it")
        return ServerAdministration(arguments.at, environ.get(TOKEN, ""))
    from wheelfit.server.hosting.administration import StoreAdministration
    from wheelfit.server.store.opening import DATABASE, open_store

    folder = Path(arguments.at)
    if not arguments.database and not (folder / DATABASE).is_file():
        raise FileProblem(
            "there is no index in this folder",
            where=arguments.at,
            hint="--at says where it is; wheelfit index serve DIR makes one",
        )
    return StoreAdministration(
        open_store(folder, records=arguments.database, blobs=arguments.storage)
    )


def tell_files(files: Sequence[str], output: Output) -> None:
    """Say which files something was done with."""
    output.result_json({"version": 1, "files": list(files)})
    for name in files:
        output.result(name)
