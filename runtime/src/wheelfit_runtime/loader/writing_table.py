"""Write what is declared as a module, for a frozen app: ``python -m wheelfit_runtime table``."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import TYPE_CHECKING

from wheelfit_runtime.loader.declaration_files import linked_folders
from wheelfit_runtime.loader.declarations import as_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO


def run(
    arguments: Sequence[str],
    environ: Mapping[str, str],  # noqa: ARG001 - nothing depends on it
    out: TextIO,
    err: TextIO,  # noqa: ARG001 - nothing goes wrong
) -> int:
    """Write the text of the module, and return 0."""
    ArgumentParser("python -m wheelfit_runtime table", description=__doc__).parse_args(arguments)
    out.write(as_table(sys.path, linked_folders()))
    return 0
