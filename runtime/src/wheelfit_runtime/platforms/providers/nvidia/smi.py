"""Ask NVIDIA's command-line tool, where its libraries could not be found (P-98)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.child_processes import Ending
from wheelfit_runtime.platforms.features import Evidence
from wheelfit_runtime.platforms.providers.nvidia import tables
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability, NvidiaDriver, NvidiaGpu
from wheelfit_runtime.platforms.providers.nvidia.library import MASK

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.system_view import SystemView

_CUDA = re.compile(r"^CUDA (?:UMD )?Version\s*:\s*([0-9]+)\.([0-9]+)\s*$", re.MULTILINE)
_DRIVER = re.compile(r"^Driver Version\s*:\s*(\S+)\s*$", re.MULTILINE)
_GPU = re.compile(r"^\s*([0-9]+)\s*,\s*([0-9]+)\.([0-9]+)\s*,\s*([^,]*?)\s*,\s*(.*?)\s*$")

_QUERY = ("--query-gpu=index,compute_cap,uuid,name", "--format=csv,noheader")


def read(surroundings: SystemView) -> tuple[str, str] | None:
    """Return the long listing and the table of GPUs as text; None without the tool."""
    program = surroundings.program("nvidia-smi")
    if program is None:
        return None
    texts = []
    for arguments in (("-q",), _QUERY):
        answer = surroundings.ask(
            *(f"nvidia-smi {arguments[0]}", program, *arguments),
            hidden=MASK,
            version=tables.DATA_VERSION,
        )
        if answer.ending is Ending.LATE:
            break  # it would only hang again
        texts.append(answer.output.decode("utf-8", "replace") if answer.succeeded else "")
    return (*texts, "", "")[0], (*texts, "", "")[1]


def parse(listing: str, table: str) -> NvidiaDriver | None:
    """Take versions and GPUs out of the tool's texts; None when no version is there.

    :param listing: what ``nvidia-smi -q`` prints.
    :param table: lines of index, capability, identifier and name.
    """
    version = _CUDA.search(listing)
    if version is None:
        return None
    release = _DRIVER.search(listing)
    gpus = [
        NvidiaGpu(int(row[1]), row[5], Capability(int(row[2]), int(row[3])), row[4])
        for line in table.splitlines()
        if (row := _GPU.match(line))
    ]
    evidence = [Evidence("nvidia-smi -q", version[0].strip())]
    evidence += [Evidence("nvidia-smi", line.strip()) for line in table.splitlines()]
    return NvidiaDriver(
        cuda_version=Capability(int(version[1]), int(version[2])),
        driver_version=release[1] if release else None,
        gpus=tuple(gpus),
        evidence=tuple(evidence),
    )
