"""A job for tests of batches, which fails, is killed or waits as its item specifies.

Workers in other processes and on other machines import it, so it is not in a test module.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from errno import EIO
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class BatchItem:
    """An item of a batch, with its planned faults."""

    number: int
    folder: Path
    """The folder for the file that counts its attempts."""
    fault: str = ""
    """``killed``, ``disk``, ``input``, ``bug``, ``memory`` or ``unsendable``; empty: none."""
    times: int = 99
    """The number of failures before it succeeds."""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"item {self.number}"


def run_item(item: BatchItem) -> Mapping[str, object]:
    """Run an item, and return its number and the process that ran it."""
    counter = item.folder / f"{item.number}.begun"
    with counter.open("ab") as file:
        file.write(b".")
    time.sleep(item.seconds)
    fault = item.fault if counter.stat().st_size <= item.times else ""
    if fault == "killed":
        os._exit(9)
    if fault == "disk":
        raise OSError(EIO, "the disk failed", str(counter))
    if fault == "input":
        raise UserError("it is not a label", code="invalid-label", where=str(item))
    if fault == "bug":
        raise ZeroDivisionError("the code is wrong")
    if fault == "memory":
        raise MemoryError
    if fault == "unsendable":
        return {"number": lambda: item.number}
    return MappingProxyType({"number": item.number, "process": os.getpid()})


def write_slowly(path: Path) -> None:
    """Write a file under a temporary name for a minute; it is removed on interruption."""
    part = path.with_suffix(".part")
    try:
        part.touch()
        time.sleep(60)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
