"""Ask AMD's command-line tools for GPUs, where the kernel's files tell nothing (P-125)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.platforms.child_processes import Ending
from wheelfit_runtime.platforms.providers.amd import tables
from wheelfit_runtime.platforms.providers.amd.kfd import AmdGpu

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit_runtime.platforms.child_processes import Answer
    from wheelfit_runtime.platforms.system_view import SystemView

_LINUX = (("rocm_agent_enumerator", "-name"), ("rocminfo",))
_WINDOWS = (("clinfo",),)

# The machine is asked about, not what a process may see of it, or is made to believe.
_MASKS = (
    r"CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|HIP_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES"
    r"|HSA_OVERRIDE_GFX_VERSION(?:_[0-9]+)?"
)

# A name of code may carry features (gfx90a:sramecc+:xnack-). "gfx9-generic" names code for
# many GPUs and is no GPU; gfx000 stands for processors.
_TARGET = re.compile(r"\b(gfx[1-9][0-9]?[0-9a-f]{2})(?![0-9a-f-])")
_AGENT = re.compile(r"Agent [0-9]+")
_DEVICE_LINE = re.compile(r"(?:Device )?(Type|Name):?\s+(\S+)")


class ToolAnswer(NamedTuple):
    """What one tool answered."""

    name: str
    """The tool, with its arguments."""
    answer: Answer


def read(surroundings: SystemView, folders: Iterable[str]) -> tuple[ToolAnswer, ...]:
    """Ask one tool after the other, until one names a GPU or hangs.

    :param folders: where ROCm may be, whose tools are often not on the ``PATH``.
    """
    told: list[ToolAnswer] = []
    for command in _WINDOWS if surroundings.system == "Windows" else _LINUX:
        program = _program(surroundings, command[0], folders)
        if program is None:
            continue
        name = " ".join(command)
        answer = surroundings.ask(name, program, *command[1:], hidden=_MASKS)
        told.append(ToolAnswer(name, answer))
        if answer.ending is Ending.LATE or parse(told[-1]):
            break  # it is known, or another one would only hang again
    return tuple(told)


def _program(surroundings: SystemView, name: str, folders: Iterable[str]) -> str | None:
    found = surroundings.program(name)
    if found is not None or surroundings.system == "Windows":
        return found
    places = (f"{folder}/bin/{name}" for folder in folders)
    return next((surroundings.path(place) for place in places if surroundings.exists(place)), None)


def parse(told: ToolAnswer) -> tuple[AmdGpu, ...]:
    """Take the GPUs out of what a tool said; none if it failed."""
    if not told.answer.succeeded:
        return ()
    text = told.answer.output.decode("utf-8", "replace")
    found = {"rocminfo": _of_rocminfo, "clinfo": _of_clinfo}.get(told.name, _of_enumerator)(text)
    return tuple(found)


def _of_enumerator(text: str) -> list[AmdGpu]:
    """Read a list with a name in each line."""
    names = [match[1] for line in text.splitlines() if (match := _TARGET.search(line.lower()))]
    return [AmdGpu(place, name, name in tables.INTEGRATED_GFX) for place, name in enumerate(names)]


def _of_rocminfo(text: str) -> list[AmdGpu]:
    """Read a block for each agent; below the fields of a GPU are those of its memory and code."""
    agents: list[dict[str, str]] = []
    for line in text.splitlines():
        key, separator, value = line.partition(":")
        if not separator and _AGENT.fullmatch(line.strip()):
            agents.append({})
        elif separator and agents:
            agents[-1].setdefault(key.strip(), value.strip())
    gpus = []
    for place, fields in enumerate(agents):
        name = _TARGET.fullmatch(fields.get("Name", "").lower())
        if name is None or fields.get("Device Type") != "GPU":
            continue
        node = fields.get("Node", "")
        number = int(node) if re.fullmatch(r"[0-9]{1,9}", node) else place
        integrated = name[1] in tables.INTEGRATED_GFX or fields.get("Memory Properties") == "APU"
        gpus.append(AmdGpu(number, name[1], integrated))
    return gpus


def _of_clinfo(text: str) -> list[AmdGpu]:
    """Read type and name of each device; AMD's tool says the type first, another the name."""
    devices: list[dict[str, str]] = [{}]
    for line in text.splitlines():
        match = _DEVICE_LINE.fullmatch(line.strip())
        if match is None:
            continue
        if match[1] in devices[-1]:
            devices.append({})
        devices[-1][match[1]] = match[2]
    names = [
        match[1]
        for device in devices
        if device.get("Type", "").endswith("GPU")
        and (match := _TARGET.match(device.get("Name", "").lower()))
    ]
    return [AmdGpu(place, name, name in tables.INTEGRATED_GFX) for place, name in enumerate(names)]
