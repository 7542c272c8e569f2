"""The index that commands change: a folder, the addresses of a store, or a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.typed import given

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

    from wheelfit.cli.output import Output
    from wheelfit.server.hosting.administration import Administration

__all__ = ["TOKEN", "add_place", "add_store", "add_what", "open_administration", "tell_files"]


def __dir__() -> list[str]:
    return __all__


TOKEN = "WHEELFIT_INDEX_TOKEN"  # noqa: S105 - the name of a variable


def add_store(parser: ArgumentParser) -> None:
    """Add the addresses of a store."""
    group = parser.add_argument_group("store")
    group.add_argument(
        "--database",
        type=given,
        metavar="URL",
        help="where records are: sqlite:///FILE or postgresql://USER@HOST/NAME (default: in DIR)",
    )
    group.add_argument(
        "--storage",
        type=given,
        metavar="URL",
        help="where files are: file:///FOLDER or s3://BUCKET/PREFIX (default: in DIR)",
    )


def add_place(parser: ArgumentParser) -> None:
    """Add which index is changed."""
    parser.add_argument(
        "--at",
        type=_place,
        default=".",
        metavar="PLACE",
        help="the index: the URL of its server, which asks for a token in WHEELFIT_INDEX_TOKEN; "
        "or the DIR of its store (default: the current folder)",
    )
    add_store(parser)


def _place(text: str) -> str:
    """Read a place: of a server whose index is named, what stands before ``/simple/``."""
    if given(text).startswith(("http://", "https://")):
        return text.rstrip("/").removesuffix("/simple")
    return text


def open_administration(arguments: Namespace, environ: Mapping[str, str]) -> Administration:
    """Open what changes an index.

    :param arguments: the options of `add_place`.
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


def add_what(parser: ArgumentParser) -> None:
    """Add which files are meant."""
    parser.add_argument(
        "what",
        nargs="+",
        type=given,
        metavar="WHAT",
        help="the name of a file, a release as NAME==VERSION, or a project",
    )


def tell_files(files: Sequence[str], output: Output) -> None:
    """Say which files something was done with."""
    output.result_json({"version": 1, "files": list(files)})
    for name in files:
        output.result(name)
