"""Presets: machines described by the names of their parts, without detection.

A name has parts, joined by ``+``: an accelerator (``cuda-12.8-sm90``), a processor
(``cpu-x86_64-v3``), a platform (``linux-aarch64``). The parts become facts for the same providers
that detect a real machine. The default of a part is the least: no accelerator, the lowest level.
Some machines have names for all of their parts (``h100-580``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, cast

from wheelfit_runtime.errors import UnknownHost, UserError
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.child_processes import Answer, Ending, Question
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Detection, Evidence
from wheelfit_runtime.platforms.known_platforms import PLATFORMS, PlatformRow
from wheelfit_runtime.platforms.preset_parts import Accelerator, PresetLine, unknown_preset
from wheelfit_runtime.platforms.system_view import SystemView
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit_runtime.platforms.hardware_family import HardwareFamily
    from wheelfit_runtime.platforms.preset_parts import ProcessorRow


class MachineRow(NamedTuple):
    """A machine with a name of its own."""

    parts: str
    """Its parts, as a preset names them."""
    description: str


# Numbers at the end of a name are branches of NVIDIA's driver. The processor is the least that such
# machines are sold with.
MACHINES: Mapping[str, MachineRow] = {
    "cpu-linux": MachineRow("cpu-x86_64-v3+linux-x86_64", "a Linux server without a GPU"),
    "h100-580": MachineRow("cuda-13.0-sm90+cpu-x86_64-v4+linux-x86_64", "an H100 with driver 580"),
    "v100-535": MachineRow("cuda-12.2-sm70+cpu-x86_64-v3+linux-x86_64", "a V100 with driver 535"),
    "v100-580": MachineRow(
        "cuda-13.0-sm70+cpu-x86_64-v3+linux-x86_64", "a V100 with its last driver, 580"
    ),
    "gh200-580": MachineRow(
        "cuda-13.0-sm90+cpu-aarch64-9.0a+linux-aarch64", "a GH200 with driver 580"
    ),
    "gb200-580": MachineRow(
        "cuda-13.0-sm100+cpu-aarch64-9.0a+linux-aarch64", "a GB200 with driver 580"
    ),
    "jetson-orin": MachineRow(
        "cuda-12.6-sm87+cpu-aarch64-8.2a+linux-aarch64", "a Jetson Orin with JetPack 6"
    ),
    "rtx5090-windows": MachineRow(
        "cuda-13.0-sm120+cpu-x86_64-v3+windows-x86_64", "an RTX 5090 on Windows, driver 580"
    ),
    "mi300x-rocm7": MachineRow(
        "rocm-7.2-gfx942+cpu-x86_64-v4+linux-x86_64", "an MI300X with ROCm 7.2"
    ),
    "mac-m3": MachineRow("cpu-apple-m3+macos-arm64", "a Mac with an M3"),
}


@dataclass(frozen=True, slots=True)
class Preset:
    """A machine that is described by names."""

    name: str
    """The name from which `compose` returns an equal preset, as ``cuda-12.8-sm90+cpu-x86_64-v3``.
    """
    platform: str
    processor: str
    accelerators: tuple[Accelerator, ...] = ()

    @property
    def row(self) -> PlatformRow:
        """The row of its platform."""
        return PLATFORMS[self.platform]

    @property
    def description(self) -> str:
        """The parts of the machine in words."""
        return ", ".join(
            (
                *(accelerator.description for accelerator in self.accelerators),
                processor_rows()[self.processor].description,
                self.row.description,
            )
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on uncertain facts, one sentence each."""
        return tuple(note for accelerator in self.accelerators for note in accelerator.notes)

    def detections(self, *, rocm_same_major: bool = False) -> tuple[Detection, ...]:
        """Return the detection of every provider for such a machine."""
        system, architecture, *_ = self.row
        facts = {
            name: value
            for accelerator in self.accelerators
            for name, value in accelerator.facts.items()
        }
        machine = Machine(
            SystemView(
                os.devnull,  # no folder, so no file of this machine is read
                facts,
                interpreter=None,
                system=system,
                architecture=architecture,
                processes=_NoProcesses(),
                rocm_same_major=rocm_same_major,
            )
        )
        return tuple(
            self._with_preset_evidence(self._detect(name, machine)) for name in machine.namespaces
        )

    def _detect(self, namespace: str, machine: Machine) -> Detection:
        family = providers.by_namespace(namespace)
        if family is None or namespace != self.row.architecture:
            return machine.detect(namespace) or Detection(namespace)
        detection = family.module("presets").detect(
            processor_rows()[self.processor].cpu, self.row.system
        )
        return cast(Detection, detection._replace(version=family.provider.data_version))

    def _with_preset_evidence(self, detection: Detection) -> Detection:
        """Return a detection whose evidence is the preset, not the variables that stand for it."""
        namespace = detection.namespace
        descriptions = [
            accelerator.description
            for accelerator in self.accelerators
            if (family := _family(accelerator.family)) and family.namespace == namespace
        ]
        if namespace == self.row.architecture:
            descriptions.append(processor_rows()[self.processor].description)
        evidence = Evidence(
            f"preset {self.name}", ", ".join(descriptions) or "nothing of this kind"
        )
        return detection._replace(evidence=(evidence,), source=f"preset {self.name}")


class _NoProcesses:
    """Processes that cannot be started."""

    def ask(self, question: Question) -> Answer:
        del question
        return Answer(Ending.NOT_STARTED, errors=b"a preset runs nothing")


def is_preset(text: str) -> bool:
    """Return whether a text looks like the name of a preset, existing or not."""
    prefixes = {
        family.presets.name for family in providers.accelerators() if family.presets is not None
    }
    return all(
        part in PLATFORMS or part in MACHINES or part.partition("-")[0] in prefixes | {"cpu"}
        for part in text.split("+")
    )


def compose(texts: Iterable[str]) -> Preset:
    """Return the machine that has all parts of some names.

    :param texts: at least one name, each with one or more parts.
    :raises UnknownHost: a part is unknown.
    :raises UserError: ``invalid-preset``; parts contradict each other.
    """
    names = tuple(dict.fromkeys(part for text in texts for part in text.split("+")))
    if len(names) == 1 and names[0] in MACHINES:
        return replace(compose([MACHINES[names[0]].parts]), name=names[0])
    expanded = (MACHINES[part].parts if part in MACHINES else part for part in names)
    parts = tuple(dict.fromkeys(part for text in expanded for part in text.split("+")))
    name = "+".join(parts)
    platforms = [part for part in parts if part in PLATFORMS]
    processors = [part for part in parts if part.startswith("cpu-")]
    accelerators = tuple(
        _accelerator(part) for part in parts if part not in platforms and part not in processors
    )
    for part in processors:
        if part.removeprefix("cpu-") not in processor_rows():
            raise _unknown(part)
    for alternatives in (platforms, processors):
        if len(alternatives) > 1:
            raise _contradiction(
                f"a machine is not {alternatives[0]} and {alternatives[1]} at once", name
            )
    _check_families(accelerators, name)
    platform = _platform(platforms, processors, accelerators, name)
    processor = processors[0].removeprefix("cpu-") if processors else PLATFORMS[platform].processor
    return Preset(
        "+".join((*(accelerator.name for accelerator in accelerators), *processors, *platforms)),
        platform,
        processor,
        accelerators,
    )


def _contradiction(message: str, name: str, hint: str | None = None) -> UserError:
    return UserError(message, code="invalid-preset", where=name, hint=hint)


def _can_have(platform: PlatformRow, processor: ProcessorRow) -> bool:
    return (
        processor.architecture == platform.architecture
        and (processor.system or platform.system) == platform.system
    )


def _check_families(accelerators: tuple[Accelerator, ...], name: str) -> None:
    parts_by_family: dict[str, str] = {}
    for accelerator in accelerators:
        other = parts_by_family.setdefault(accelerator.family, accelerator.name)
        if other != accelerator.name:
            raise _contradiction(
                f"a preset has one {accelerator.family} part: {other} or {accelerator.name}",
                name,
                "where GPUs differ, write a host file there: `wheelfit probe -o FILE`",
            )


def _platform(
    platforms: list[str],
    processors: list[str],
    accelerators: tuple[Accelerator, ...],
    name: str,
) -> str:
    """Return the named platform, or the first one, if it can have all other parts."""
    allowed = {accelerator.name: accelerator.platforms for accelerator in accelerators}
    for part in processors:
        processor = processor_rows()[part.removeprefix("cpu-")]
        allowed[part] = tuple(name for name, row in PLATFORMS.items() if _can_have(row, processor))
    for platform in tuple(platforms) or next(iter(allowed.values()), tuple(PLATFORMS)):
        if all(platform in others for others in allowed.values()):
            return platform
    parts = listed([*allowed, *platforms])
    places = [f"{part} exists on {', '.join(others)}" for part, others in allowed.items()]
    raise _contradiction(f"no machine has {parts} together", name, "; ".join(places))


@lru_cache(maxsize=1)
def processor_rows() -> Mapping[str, ProcessorRow]:
    """Return the processors that machines of presets can have, by name."""
    return {
        name: row
        for family in providers.processors()
        for name, row in family.module("presets").PROCESSORS.items()
    }


def _unknown(part: str, note: str | None = None) -> UnknownHost:
    names = [line.example for line in preset_lines()]
    close = get_close_matches(part.lower(), names, n=3, cutoff=0.6)
    start = f"did you mean {' or '.join(close)}? " if close else ""
    error = unknown_preset(part, note)
    error.hint = f"{start}`wheelfit host list` shows them all"
    return error


def _accelerator(part: str) -> Accelerator:
    name, _, rest = part.partition("-")
    family = _family(name)
    if family is None:
        raise _unknown(part)
    try:
        return cast(Accelerator, family.module("presets").read(part, rest))
    except UnknownHost as error:
        raise _unknown(part, error.note) from None


def _family(name: str) -> HardwareFamily | None:
    for family in providers.accelerators():
        if family.presets is not None and family.presets.name == name:
            return family
    return None


def preset_lines() -> Iterator[PresetLine]:
    """Yield every known part of presets."""
    for name, platform in PLATFORMS.items():
        yield PresetLine(name, name, platform.description)
    for row in processor_rows():
        yield PresetLine(f"cpu-{row}", f"cpu-{row}", processor_rows()[row].description)
    for family in providers.accelerators():
        if family.presets is not None:
            yield from family.module("presets").lines()
    for name, machine in MACHINES.items():
        yield PresetLine(name, name, f"{machine.description}: {machine.parts}")
