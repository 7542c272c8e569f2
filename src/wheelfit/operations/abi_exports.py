"""The ABI exports that a library declares in its ``pyproject.toml``."""

from __future__ import annotations

from pathlib import Path

from wheelfit.core import strict_toml
from wheelfit.core.abi_exports import KEY, AbiExports
from wheelfit.core.project_table import read_exports_table
from wheelfit.errors import reporting_os_errors
from wheelfit_runtime.errors import FileProblem


def read_exports_file(file: str) -> AbiExports:
    """Return the ABI exports in ``[variant.abi-exports]`` of a file (B-61).

    :raises FileProblem: it cannot be read, is not TOML, or has no such table.
    :raises InvalidDocument: the table has faults.
    """
    try:
        with reporting_os_errors("the file cannot be read", where=file):
            content = strict_toml.load(Path(file).read_bytes())
    except ValueError as error:
        raise FileProblem(f"the file is not TOML: {error}", where=file) from None
    exports = read_exports_table(content, where=file)
    if exports is None:
        raise FileProblem(
            f"the file has no table [variant.{KEY}]",
            where=file,
            hint="leave --exports out, or add it",
        )
    return exports
