"""Options that distribute the work on many wheels."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.values import PROCESSES, TEXT

_EXECUTOR = Option(
    "--executor URL",
    TEXT,
    "where to run the work: dask://HOST:PORT, with the extra dask; processes: one per processor",
)

WORKERS = OptionGroup(
    "workers",
    Option("-j, --jobs N", PROCESSES, "work in N processes of this machine (default: this one)"),
    _EXECUTOR,
)

WORKERS_WITH_THREADS = OptionGroup(
    "workers",
    Option(
        "-j, --jobs N",
        PROCESSES,
        "work in N processes of this machine (default: this one, with threads for large files)",
    ),
    _EXECUTOR,
)
