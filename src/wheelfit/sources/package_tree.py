"""A folder of packages with all folders below it, as other index servers store them."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from wheelfit.sources.find_links import FlatListing, local_file
from wheelfit.sources.local_files import read_problem
from wheelfit.sources.urls import file_url
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import NoReturn

    from wheelfit.sources.page import File
    from wheelfit.sources.repository import Files


_DEVPI_INDEX = "dataindex.json"
_WRONG_CONTENT = (
    ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip
"""Errors of reading a file with other content than expected."""


class TreeIndex(FlatListing):
    """The packages in a folder and in all folders below it, except hidden ones.

    In an export of devpi (``devpi-server --export``), or the folder of one of its indexes, hashes
    and times of upload come from its ``dataindex.json``.
    """

    def __init__(self, path: Path, files: Files) -> None:
        super().__init__(str(path), files)
        self._path = path.absolute()

    def _list(self) -> tuple[Iterable[File], tuple[str, ...]]:
        devpi_values = self._read_devpi_index()
        files: list[File] = []
        for folder, folders, names in os.walk(self._path, onerror=_raise):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            base = file_url(Path(folder))
            for name in sorted(names):
                path = Path(folder, name)
                try:
                    if not path.is_file():  # a broken link, or a pipe
                        continue
                    size = path.stat().st_size
                except OSError as error:
                    raise read_problem(path, error) from error
                file = replace(local_file(name, base, self.name), size=size)
                files.append(replace(file, **devpi_values.get(path, {})))
        return files, ()

    def _read_devpi_index(self) -> Mapping[Path, Mapping[str, Any]]:
        """Return the values of `File` that an export of devpi has, by path of the file."""
        # The folder is the export, or the folder EXPORT/USER/INDEX of one of its indexes.
        for top in (self._path, self._path.parent.parent):
            path = top / _DEVPI_INDEX
            if not path.is_file():
                continue
            try:
                content = json.loads(path.read_bytes())
                return {
                    top / entry["relpath"]: _devpi_values(entry)
                    for index in content["indexes"].values()
                    for entry in index.get("files", ())
                    if entry["type"] == "releasefile"
                }
            except OSError as error:
                raise read_problem(path, error) from error
            except _WRONG_CONTENT as error:
                raise FileProblem(
                    f"this is not an export of devpi: {error}", where=str(path)
                ) from None
        return {}


def _devpi_values(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the hashes and upload time of a file from its entry in an export of devpi."""
    mapping = entry["entrymapping"]
    hashes = {str(name): str(digest) for name, digest in mapping.get("hashes", {}).items()}
    name, _, digest = mapping["hash_spec"].partition("=")
    hashes.setdefault(name, digest)
    times = [event["when"] for event in entry.get("log", ()) if event.get("what") == "upload"]
    upload_time = None
    if times:
        year, month, day, hour, minute, second = times[0]
        upload_time = datetime(year, month, day, hour, minute, second, tzinfo=UTC).isoformat()
    return {"hashes": MappingProxyType(hashes), "upload_time": upload_time}


def _raise(error: OSError) -> NoReturn:
    raise read_problem(Path(error.filename), error) from error
