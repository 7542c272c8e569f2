"""Put what was built where the user wants it: all of it, or nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from wheelfit.wheels.durable import give_name
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Sequence


def deliver(files: Sequence[Path], folder: Path) -> tuple[Path, ...]:
    """Copy files into a folder, where those of an earlier build give way, and return the copies.

    Nothing gets its name before all are on the disk.

    :param folder: made if it does not exist.
    :raises FileProblem: something cannot be written; no file has changed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stage = Path(mkdtemp(prefix=".wheelfit-", dir=folder))
        try:
            for path in files:
                _copy(path, stage / path.name)
            for path in files:
                if (folder / path.name).is_dir():
                    raise FileProblem(
                        "there is a folder of that name", where=str(folder / path.name)
                    )
            for number, path in enumerate(files, 1):
                last = number == len(files)
                give_name(stage / path.name, folder / path.name, overwrite=True, sync=last)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    except OSError as error:
        raise FileProblem(
            f"what was built cannot be written: {error.strerror or error}", where=str(folder)
        ) from None
    return tuple(folder / path.name for path in files)


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as given, target.open("xb") as file:
        shutil.copyfileobj(given, file)
        file.flush()
        os.fsync(file.fileno())
