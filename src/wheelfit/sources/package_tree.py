"""A folder of packages with all folders below it, as other servers keep them."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from wheelfit.sources.find_links import FlatListing, local_file
from wheelfit.sources.local_files import problem
from wheelfit.sources.urls import file_url
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import NoReturn

    from wheelfit.sources.page import File
    from wheelfit.sources.repository import Files


_DEVPI = "dataindex.json"
_MISREAD = (
    ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip
"""Errors of reading a file that is something else."""


class TreeIndex(FlatListing):
    """The packages in a folder and in all folders below it, but for hidden ones.

    In an export of devpi (``devpi-server --export``), or the folder of one of its indexes, hashes
    and times of upload come from its ``dataindex.json``.

    :param path: the folder.
    :param files: reads the files.
    """

    def __init__(self, path: Path, files: Files) -> None:
        super().__init__(str(path), files)
        self._path = path.absolute()

    def _list(self) -> tuple[Iterable[File], tuple[str, ...]]:
        entries = self._entries_of_devpi()
        files: list[File] = []
        for folder, folders, names in os.walk(self._path, onerror=_raise):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            base = file_url(Path(folder))
            for name in sorted(names):
                path = Path(folder, name)
                try:
                    if not path.is_file():  # a link that leads nowhere, or a pipe
                        continue
                    size = path.stat().st_size
                except OSError as error:
                    raise problem(path, error) from error
                file = replace(local_file(name, base, self.name), size=size)
                files.append(replace(file, **entries.get(path, {})))
        return files, ()

    def _entries_of_devpi(self) -> Mapping[Path, Mapping[str, Any]]:
        """Return the entries of an export of devpi by the paths of their files."""
        for top in (self._path, self._path.parent.parent):
            if (top / _DEVPI).is_file():
                try:
                    content = json.loads((top / _DEVPI).read_bytes())
                    return {
                        top / entry["relpath"]: _promised(entry)
                        for index in content["indexes"].values()
                        for entry in index.get("files", ())
                        if entry["type"] == "releasefile"
                    }
                except OSError as error:
                    raise problem(top / _DEVPI, error) from error
                except _MISREAD as error:
                    raise FileProblem(
                        f"this is not an export of devpi: {error}", where=str(top / _DEVPI)
                    ) from None
        return {}


def _promised(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return hashes and time of upload of a file from its entry in an export of devpi."""
    mapping = entry["entrymapping"]
    name, _, digest = mapping["hash_spec"].partition("=")
    hashes = {str(kind): str(value) for kind, value in mapping.get("hashes", {}).items()}
    times = [one["when"] for one in entry.get("log", ()) if one.get("what") == "upload"]
    uploaded = None
    if times:
        year, month, day, hour, minute, second = times[0]
        uploaded = datetime(year, month, day, hour, minute, second, tzinfo=UTC).isoformat()
    hashes.setdefault(name, digest)
    return {"hashes": MappingProxyType(hashes), "upload_time": uploaded}


def _raise(error: OSError) -> NoReturn:
    raise problem(Path(error.filename), error) from error
