"""Work for tests of many items: it fails, dies or waits as its item specifies.

Workers import it, in other processes and on other machines, so it is no part of a test.
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
    """A piece of work, with its planned faults."""

    number: int
    folder: Path
    """The folder that counts its attempts."""
    fault: str = ""
    """``killed``, ``disk``, ``input``, ``bug``, ``memory`` or ``unsendable``; empty: none."""
    times: int = 99
    """The number of failures before it succeeds."""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"errand {self.number}"


def carry_out(errand: BatchItem) -> Mapping[str, object]:
    """Run an errand, and return its number with the process that ran it."""
    counter = errand.folder / f"{errand.number}.begun"
    with counter.open("ab") as file:
        file.write(b".")
    time.sleep(errand.seconds)
    fault = errand.fault if counter.stat().st_size <= errand.times else ""
    if fault == "killed":
        os._exit(9)
    if fault == "disk":
        raise OSError(EIO, "the disk failed", str(counter))
    if fault == "input":
        raise UserError("it is not a label", code="invalid-label", where=str(errand))
    if fault == "bug":
        raise ZeroDivisionError("the code is wrong")
    if fault == "memory":
        raise MemoryError
    if fault == "unsendable":
        return {"number": lambda: errand.number}
    return MappingProxyType({"number": errand.number, "process": os.getpid()})


def write_slowly(path: Path) -> None:
    """Write a file that takes its name late, and is removed if that is interrupted."""
    part = path.with_suffix(".part")
    try:
        part.touch()
        time.sleep(60)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
