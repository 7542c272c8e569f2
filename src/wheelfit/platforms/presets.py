"""Machines that need no looking at: described by the name of what they have.

A name has parts, joined by ``+``: an accelerator (``cuda-12.8-sm90``), a processor
(``cpu-x86_64-v3``), a platform (``linux-aarch64``). The parts become facts, and the same
providers that look at a real machine say what follows from them. What a name leaves out
is the least there can be: no other accelerator, the lowest level.
"""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from wheelfit.errors import InvalidPreset, UnknownHost
from wheelfit.platforms.children import Answer, Ending
from wheelfit.platforms.discovery import BUILT_IN, Machine
from wheelfit.platforms.families.aarch64 import provider as aarch64
from wheelfit.platforms.families.nvidia import tables as nvidia_tables
from wheelfit.platforms.families.nvidia.facts import Capability
from wheelfit.platforms.families.x86_64 import provider as x86_64
from wheelfit.platforms.features import Detection, Evidence
from wheelfit.platforms.tables import presets as tables
from wheelfit.values import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from wheelfit.platforms.children import Question
    from wheelfit.platforms.tables.presets import PlatformRow

__all__ = ["Accelerator", "Preset", "PresetLine", "compose", "is_preset", "preset_lines"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Hold one accelerator of a preset."""

    name: str
    """The part of the preset's name, as ``cuda-12.8-sm90``."""
    family: str
    """Its maker's row, as ``cuda``."""
    facts: Mapping[str, str] = field(hash=False)
    """What its provider is told, by the variables that state it."""
    words: str
    """What it is."""
    platforms: tuple[str, ...]
    """Where there can be one; the first is meant when none is named."""
    notes: tuple[str, ...] = ()
    """What is uncertain about it."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Hold a machine that is described by names."""

    name: str
    """What was stated, as ``cuda-12.8-sm90+cpu-x86_64-v3``; reading it gives an equal preset."""
    platform: str
    """Name of its platform."""
    processor: str
    """Row of its processor."""
    accelerators: tuple[Accelerator, ...] = ()

    @property
    def row(self) -> PlatformRow:
        """Return the row of its platform."""
        return tables.PLATFORMS[self.platform]

    @property
    def words(self) -> str:
        """Say what the machine is."""
        return ", ".join(
            (
                *(one.words for one in self.accelerators),
                tables.PROCESSORS[self.processor].words,
                self.row.words,
            )
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is uncertain, one sentence each."""
        return tuple(note for one in self.accelerators for note in one.notes)

    def detections(self, *, rocm_same_major: bool = False) -> tuple[Detection, ...]:
        """Return what every provider says of such a machine.

        :param rocm_same_major: whether older minors of the ROCm's major count (P-123).
        """
        system, architecture, *_ = self.row
        stated = {name: value for one in self.accelerators for name, value in one.facts.items()}
        machine = Machine(
            os.devnull,  # nothing lies below it, so nothing of this machine is seen
            stated,
            interpreter=None,
            system=system,
            architecture=architecture,
            processes=_Nobody(),
            rocm_same_major=rocm_same_major,
        )
        return tuple(self._evident(self._detect(name, machine)) for name in machine.namespaces)

    def _detect(self, namespace: str, machine: Machine) -> Detection:
        cpu = tables.PROCESSORS[self.processor].cpu
        if namespace == self.row.architecture == "x86_64":
            return replace(x86_64.supported(cpu), version=x86_64.DATA_VERSION)
        if namespace == self.row.architecture == "aarch64":
            found = aarch64.supported(cpu, bits_decide=self.row.system == "Linux")
            return replace(found, version=aarch64.DATA_VERSION)
        return machine.detect(namespace) or Detection(namespace)

    def _evident(self, detection: Detection) -> Detection:
        """Say that a name said so: a variable or a file that was not found would mislead."""
        namespace = detection.namespace
        words = [
            one.words
            for one in self.accelerators
            if tables.FAMILIES[one.family].namespace == namespace
        ]
        if namespace == self.row.architecture:
            words.append(tables.PROCESSORS[self.processor].words)
        seen = Evidence(f"preset {self.name}", ", ".join(words) or "nothing of it")
        return replace(detection, evidence=(seen,), source=f"preset {self.name}")


class _Nobody:
    """Answer no question."""

    def ask(self, question: Question) -> Answer:
        del question
        return Answer(Ending.NOT_STARTED, errors=b"a preset runs nothing")


# --- names -----------------------------------------------------------------------------


def is_preset(text: str) -> bool:
    """Say whether a text is made like the name of a preset, whether there is such a one or not.

    :param text: what somebody typed.
    """
    return all(
        part in tables.PLATFORMS or part.partition("-")[0] in (*_FAMILIES, "cpu")
        for part in text.split("+")
    )


def compose(texts: Iterable[str]) -> Preset:
    """Return the machine that has all parts of some names.

    :param texts: at least one name, each with one or more parts.
    :raises UnknownHost: a part is none.
    :raises InvalidPreset: parts contradict each other.
    """
    parts = tuple(dict.fromkeys(part for text in texts for part in text.split("+")))
    name = "+".join(parts)
    platforms = [part for part in parts if part in tables.PLATFORMS]
    processors = [part for part in parts if part.startswith("cpu-")]
    accelerators = tuple(
        _accelerator(part) for part in parts if part not in platforms and part not in processors
    )
    for part in processors:
        if part.removeprefix("cpu-") not in _processors():
            raise _unknown(part)
    for several in (platforms, processors):
        if len(several) > 1:
            raise InvalidPreset(
                f"a machine is not {several[0]} and {several[1]} at once", where=name
            )
    _check_families(accelerators, name)
    platform = _platform(platforms, processors, accelerators, name)
    row = tables.PLATFORMS[platform]
    processor = processors[0].removeprefix("cpu-") if processors else row.processor
    if tables.PROCESSORS[processor].architecture != row.architecture:
        raise InvalidPreset(
            f"{processors[0]} is no processor of {platform}, which is {row.architecture}",
            where=name,
        )
    if processors and row.architecture == "aarch64" and row.system != "Linux":
        raise InvalidPreset(
            f"of {platform} detection knows {tables.PROCESSORS[row.processor].words}, nothing else",
            where=name,
            hint=f"leave {processors[0]} out",
        )
    for one in accelerators:
        if platform not in one.platforms:
            raise InvalidPreset(
                f"there is no {one.name} on {platform}",
                where=name,
                hint=f"it exists on {', '.join(one.platforms)}",
            )
    return Preset(
        "+".join((*(one.name for one in accelerators), *processors, *platforms)),
        platform,
        processor,
        accelerators,
    )


def _check_families(accelerators: tuple[Accelerator, ...], name: str) -> None:
    seen: dict[str, str] = {}
    for one in accelerators:
        other = seen.setdefault(one.family, one.name)
        if other != one.name:
            raise InvalidPreset(
                f"a preset has one {one.family} part: {other} or {one.name}",
                where=name,
                hint="where GPUs differ, write a host file there: wheelfit probe -o FILE",
            )


def _platform(
    platforms: list[str],
    processors: list[str],
    accelerators: tuple[Accelerator, ...],
    name: str,
) -> str:
    """Return the platform that is named, or the first that suits all other parts."""
    if platforms:
        return platforms[0]
    wanted = [one.platforms for one in accelerators]
    choices = wanted[0] if wanted else tuple(tables.PLATFORMS)
    if processors:
        architecture = tables.PROCESSORS[processors[0].removeprefix("cpu-")].architecture
        suiting = [p for p in choices if tables.PLATFORMS[p].architecture == architecture]
        if not suiting:
            raise InvalidPreset(
                f"there is no {accelerators[0].name} beside {processors[0]}",
                where=name,
                hint=f"it exists on {', '.join(choices)}",
            )
    else:
        suiting = list(choices)
    for platform in suiting:
        if all(platform in one for one in wanted):
            return platform
    raise InvalidPreset(
        f"no platform has {' and '.join(one.name for one in accelerators)} together", where=name
    )


def _processors() -> tuple[str, ...]:
    return tuple(name for name in tables.PROCESSORS if name.startswith(("x86_64", "aarch64")))


def _unknown(part: str, note: str | None = None) -> UnknownHost:
    names = [one.example for one in preset_lines()]
    close = get_close_matches(part.lower(), names, n=3, cutoff=0.6)
    start = f"did you mean {' or '.join(close)}? " if close else ""
    return UnknownHost(
        f"{part[:80]!r} is no preset, and no part of one",
        note=note,
        hint=f"{start}wheelfit host list shows them all",
    )


# --- accelerators ------------------------------------------------------------------------

_VERSION = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})")
_SM = re.compile(r"sm([0-9]{1,2})([0-9])")


def _accelerator(part: str) -> Accelerator:
    family, _, rest = part.partition("-")
    read = _FAMILIES.get(family)
    if read is None or tables.FAMILIES[family].namespace not in BUILT_IN:
        raise _unknown(part)
    return read(part, rest)


def _cuda(part: str, rest: str) -> Accelerator:
    version, _, device = rest.partition("-")
    driver = _cuda_version(part, version)
    family = tables.FAMILIES["cuda"]
    facts = {"NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": version}
    notes = []
    newest = max(tables.CUDA_NEWEST)
    if driver > (newest, tables.CUDA_NEWEST[newest]):
        notes.append(_newer(f"CUDA {version}"))
    words = f"NVIDIA driver for CUDA {version}"
    if not device:  # P-85: a driver alone has its bounds
        return Accelerator(part, "cuda", _frozen(facts), words, family.platforms, tuple(notes))
    match = _SM.fullmatch(device)
    if match is None:
        raise _unknown(part)
    capability = Capability(int(match[1]), int(match[2]))
    row = tables.NVIDIA.get(capability)
    if row is None and capability not in nvidia_tables.SM_FAMILIES:
        if capability < max(tables.NVIDIA):
            raise _unknown(part, f"no GPU has compute capability {capability}")
        notes.append(_newer(f"compute capability {capability}"))
    if row is not None and driver < row.first:
        raise InvalidPreset(
            f"a driver for CUDA {version} does not know {device} ({row.words})",
            where=part,
            hint=f"the first that does is {row.first}: cuda-{row.first}-{device}",
        )
    if row is not None and row.last is not None and driver > row.last:
        oldest = Capability(min(tables.CUDA_NEWEST), 0)
        way = f": cuda-{row.last}-{device}" if row.last >= oldest else f", and {oldest} is needed"
        raise InvalidPreset(
            f"no driver for CUDA {version} knows {device} any more ({row.words})",
            where=part,
            hint=f"the last that does is {row.last}{way}",
        )
    facts["NV_VARIANT_PROVIDER_FORCE_SM_ARCH"] = str(capability)
    words += f", compute capability {capability}" + (f" ({row.words})" if row else "")
    platforms = family.platforms
    if row is not None and row.arm_only:
        platforms = tuple(p for p in platforms if tables.PLATFORMS[p].architecture == "aarch64")
    return Accelerator(part, "cuda", _frozen(facts), words, platforms, tuple(notes))


def _cuda_version(part: str, text: str) -> Capability:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise _unknown(part, "a CUDA version is written as 12.8")
    version = Capability(int(match[1]), int(match[2]))
    oldest, newest = min(tables.CUDA_NEWEST), max(tables.CUDA_NEWEST)
    last = tables.CUDA_NEWEST.get(version.major)
    if text != str(version) or version.major < oldest or version.major > newest + 2:
        raise _unknown(part, f"CUDA {oldest}.0 to {newest}.{tables.CUDA_NEWEST[newest]} are known")
    if last is not None and version.major < newest and version.minor > last:
        raise _unknown(part, f"the last CUDA {version.major} is {version.major}.{last}")
    return version


def _release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _rocm(part: str, rest: str) -> Accelerator:
    version, _, device = rest.partition("-")
    match = _VERSION.fullmatch(version)
    if match is None or f"{int(match[1])}.{int(match[2])}" != version:
        raise _unknown(part, "a ROCm version is written as 6.4")
    notes = []
    if version not in tables.ROCM:
        if _release(version) < max(map(_release, tables.ROCM)):
            raise _unknown(part, f"there is no ROCm {version}")
        notes.append(_newer(f"ROCm {version}"))
    facts = {"AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION": version}
    words = f"ROCm {version}"
    if device:
        if device not in tables.GFX:
            raise _unknown(part)
        facts["AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH"] = device
        products = tables.GFX[device]
        words += f" with {device}" + (f" ({products})" if products else "")
        first = tables.FIRST_ROCM.get(device)
        if first is not None and _release(version) < _release(first):
            notes.append(f"the first ROCm that supports {device} is {first}")
    platforms = tables.FAMILIES["rocm"].platforms
    return Accelerator(part, "rocm", _frozen(facts), words, platforms, tuple(notes))


def _intel(part: str, rest: str) -> Accelerator:
    value = tables.INTEL.get(rest)
    if value is None:
        raise _unknown(part)
    facts = _frozen({"INTEL_VARIANT_PROVIDER_FORCE_DEVICE_IP": value})
    words = f"Intel GPU {value}" + (f" ({rest})" if rest != value else "")
    return Accelerator(part, "intel", facts, words, tables.FAMILIES["intel"].platforms)


def _ascend(part: str, rest: str) -> Accelerator:
    kind, _, cann = rest.partition("-cann")
    if kind not in tables.NPUS or ("-cann" in rest and not _CANN.fullmatch(cann)):
        raise _unknown(part)
    facts = {"ASCEND_VARIANT_PROVIDER_FORCE_NPU_TYPE": kind}
    words = f"Ascend {kind}"
    if cann:
        facts["ASCEND_VARIANT_PROVIDER_FORCE_CANN_VERSION"] = cann
        words += f" with CANN {cann}"
    platforms = tables.FAMILIES["ascend"].platforms
    return Accelerator(part, "ascend", _frozen(facts), words, platforms)


_CANN = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,3})?(?:\.rc[0-9]{1,2})?")


def _tpu(part: str, rest: str) -> Accelerator:
    if rest not in tables.TPUS:
        raise _unknown(part)
    facts = _frozen({"TPU_VARIANT_PROVIDER_FORCE_PRESENT": "true"})
    return Accelerator(part, "tpu", facts, f"TPU {rest}", tables.FAMILIES["tpu"].platforms)


_FAMILIES: Final[Mapping[str, Callable[[str, str], Accelerator]]] = MappingProxyType(
    {"cuda": _cuda, "rocm": _rocm, "intel": _intel, "ascend": _ascend, "tpu": _tpu}
)


def _newer(what: str) -> str:
    return f"{what} is newer than the tables of {tables.DATA_VERSION}"


def _frozen(facts: dict[str, str]) -> Mapping[str, str]:
    return MappingProxyType(facts)


# --- what there is -------------------------------------------------------------------------


class PresetLine(NamedTuple):
    """Hold one line of the list of presets."""

    pattern: str
    """Its name, with ``M.m`` where any version may stand."""
    example: str
    """A name that can be used as it is."""
    words: str


def preset_lines() -> tuple[PresetLine, ...]:
    """Return every part that a preset can have, as far as there is a provider for it."""
    return tuple(_lines())


def _lines() -> Iterator[PresetLine]:
    for name, platform in tables.PLATFORMS.items():
        yield PresetLine(name, name, platform.words)
    for row in _processors():
        yield PresetLine(f"cpu-{row}", f"cpu-{row}", tables.PROCESSORS[row].words)
    for family, lines in _DEVICES.items():
        if tables.FAMILIES[family].namespace in BUILT_IN:
            yield from lines()


def _cuda_lines() -> Iterator[PresetLine]:
    newest = max(tables.CUDA_NEWEST)
    newest_version = Capability(newest, tables.CUDA_NEWEST[newest])
    for capability, row in tables.NVIDIA.items():
        last = newest_version if row.last is None else row.last
        if last < row.first:
            continue  # what its last driver supports is too old
        sm = f"sm{capability.major}{capability.minor}"
        usual = min(max(row.first, _USUAL_CUDA), last)
        yield PresetLine(
            f"cuda-M.m-{sm}", f"cuda-{usual}-{sm}", f"{row.words}; CUDA {row.first} to {last}"
        )


_USUAL_CUDA = Capability(12, 8)
_USUAL_ROCM = "6.4"


def _rocm_lines() -> Iterator[PresetLine]:
    for name, products in tables.GFX.items():
        first = tables.FIRST_ROCM.get(name)
        usual = max(_USUAL_ROCM, first or _USUAL_ROCM, key=_release)
        releases = f"ROCm {first} to {tables.ROCM[0]}" if first else ""
        words = "; ".join(filter(None, (products, releases))) or "AMD GPU"
        yield PresetLine(f"rocm-M.m-{name}", f"rocm-{usual}-{name}", words)


def _intel_lines() -> Iterator[PresetLine]:
    for name, value in tables.INTEL.items():
        if name != value:
            yield PresetLine(f"intel-{name}", f"intel-{name}", f"Intel GPU {value}")


def _ascend_lines() -> Iterator[PresetLine]:
    for name in tables.NPUS:
        yield PresetLine(f"ascend-{name}", f"ascend-{name}", f"Ascend {name}; -cannM.m may follow")


def _tpu_lines() -> Iterator[PresetLine]:
    for name in tables.TPUS:
        yield PresetLine(f"tpu-{name}", f"tpu-{name}", f"TPU {name}")


_DEVICES: Final[Mapping[str, Callable[[], Iterator[PresetLine]]]] = MappingProxyType(
    {
        "cuda": _cuda_lines,
        "rocm": _rocm_lines,
        "intel": _intel_lines,
        "ascend": _ascend_lines,
        "tpu": _tpu_lines,
    }
)
