"""The parts of presets for NVIDIA's GPUs and drivers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.errors import UserError
from wheelfit_runtime.platforms.known_platforms import PLATFORMS
from wheelfit_runtime.platforms.preset_parts import (
    VERSION,
    Accelerator,
    PresetLine,
    newer_than_tables,
    unknown_preset,
)
from wheelfit_runtime.platforms.providers.nvidia import tables
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability
from wheelfit_runtime.platforms.providers.nvidia.record import PRESETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CUDA_NEWEST: Mapping[int, int] = {
    # Of each major, the last row stays.
    toolkit.major: toolkit.minor
    for toolkit in sorted(tables.PTX_OF_TOOLKIT)
}
"""The newest minor of each CUDA major; the last major may get newer ones."""


class GpuRow(NamedTuple):
    """A kind of NVIDIA GPU."""

    first: Capability
    """CUDA version of the first driver that supports it, or 11.0 for older GPUs."""
    last: Capability | None
    """CUDA version of the last driver that supports it; None: new ones do."""
    description: str
    is_arm_only: bool
    """Whether it shares a chip or a board with an Arm processor."""


# Drivers of release 580, for CUDA 13.0, are the last for GPUs before Turing.
_GPUS: tuple[tuple[str, str, str, str], ...] = (
    ("5.0", "11.0", "13.0", "GTX 750"),
    ("5.2", "11.0", "13.0", "GTX 980, Tesla M40"),
    ("5.3", "11.0", "10.2", "Jetson Nano"),
    ("6.0", "11.0", "13.0", "P100"),
    ("6.1", "11.0", "13.0", "GTX 1080, P4, P40"),
    ("6.2", "11.0", "10.2", "Jetson TX2"),
    ("7.0", "11.0", "13.0", "V100"),
    ("7.2", "11.4", "12.2", "Jetson Xavier"),
    ("7.5", "11.0", "", "T4, RTX 20"),
    ("8.0", "11.0", "", "A100, A30"),
    ("8.6", "11.1", "", "A10, A40, RTX 30"),
    ("8.7", "11.4", "", "Jetson Orin"),
    ("8.9", "11.8", "", "L4, L40, RTX 40"),
    ("9.0", "11.8", "", "H100, H200, GH200"),
    ("10.0", "12.8", "", "B200, GB200"),
    ("10.1", "12.8", "12.9", "Jetson Thor, as CUDA 12 calls it"),
    ("10.3", "12.9", "", "B300, GB300"),
    ("10.7", "13.4", "", "Rubin"),
    ("11.0", "13.0", "", "Jetson Thor"),
    ("12.0", "12.8", "", "RTX 50, RTX PRO 6000"),
    ("12.1", "12.9", "", "DGX Spark (GB10)"),
)
_SPARK = Capability(12, 1)


def _capability(text: str) -> Capability:
    major, minor = map(int, text.split("."))
    return Capability(major, minor)


GPUS: Mapping[Capability, GpuRow] = {
    _capability(capability): GpuRow(
        _capability(first),
        _capability(last) if last else None,
        description,
        _capability(capability) in {*tables.TEGRA, _SPARK},
    )
    for capability, first, last, description in _GPUS
}


_EXAMPLE_CUDA = Capability(12, 8)
_SM = re.compile(r"sm([0-9]{1,2})([0-9])")


def read(part: str, rest: str) -> Accelerator:
    """Return the accelerator of a part of a preset's name.

    :raises UnknownHost: the part is unknown.
    :raises UserError: ``invalid-preset``; no driver of that version supports the GPU.
    """
    version, _, device = rest.partition("-")
    driver = _cuda_version(part, version)
    facts = {"NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": version}
    notes = []
    newest = max(CUDA_NEWEST)
    if driver > (newest, CUDA_NEWEST[newest]):
        notes.append(newer_than_tables(f"CUDA {version}", tables.DATA_VERSION))
    description = f"NVIDIA driver for CUDA {version}"
    if not device:  # P-85: a driver alone has its bounds
        return Accelerator(part, PRESETS.name, facts, description, PRESETS.platforms, tuple(notes))
    match = _SM.fullmatch(device)
    if match is None:
        raise unknown_preset(part)
    capability = Capability(int(match[1]), int(match[2]))
    row = GPUS.get(capability)
    if row is None and capability not in tables.SM_FAMILIES:
        if capability < max(GPUS):
            raise unknown_preset(part, f"no GPU has compute capability {capability}")
        notes.append(newer_than_tables(f"compute capability {capability}", tables.DATA_VERSION))
    if row is not None and driver < row.first:
        raise UserError(
            f"a driver for CUDA {version} does not support {device} ({row.description})",
            code="invalid-preset",
            where=part,
            hint=f"the first that does is {row.first}: cuda-{row.first}-{device}",
        )
    if row is not None and row.last is not None and driver > row.last:
        oldest = Capability(min(CUDA_NEWEST), 0)
        advice = (
            f": cuda-{row.last}-{device}" if row.last >= oldest else f", and {oldest} is needed"
        )
        raise UserError(
            f"drivers for CUDA {version} no longer support {device} ({row.description})",
            code="invalid-preset",
            where=part,
            hint=f"the last that does is {row.last}{advice}",
        )
    facts["NV_VARIANT_PROVIDER_FORCE_SM_ARCH"] = str(capability)
    description += f", compute capability {capability}" + (f" ({row.description})" if row else "")
    platforms = PRESETS.platforms
    if row is not None and row.is_arm_only:
        platforms = tuple(p for p in platforms if PLATFORMS[p].architecture == "aarch64")
    return Accelerator(part, PRESETS.name, facts, description, platforms, tuple(notes))


def _cuda_version(part: str, text: str) -> Capability:
    match = VERSION.fullmatch(text)
    if match is None:
        raise unknown_preset(part, "a CUDA version is written as 12.8")
    version = Capability(int(match[1]), int(match[2]))
    oldest, newest = min(CUDA_NEWEST), max(CUDA_NEWEST)
    last = CUDA_NEWEST.get(version.major)
    has_leading_zeros = text != str(version)
    is_possible = oldest <= version.major <= newest + 2  # two majors ahead of the tables
    if has_leading_zeros or not is_possible:
        raise unknown_preset(part, f"CUDA {oldest}.0 to {newest}.{CUDA_NEWEST[newest]} are known")
    if last is not None and version.major < newest and version.minor > last:
        raise unknown_preset(part, f"the last CUDA {version.major} is {version.major}.{last}")
    return version


def lines() -> Iterator[PresetLine]:
    """Yield a line for each known device."""
    newest = max(CUDA_NEWEST)
    newest_version = Capability(newest, CUDA_NEWEST[newest])
    for capability, row in GPUS.items():
        last = newest_version if row.last is None else row.last
        if last < row.first:
            continue  # its last driver is too old
        sm = f"sm{capability.major}{capability.minor}"
        example_version = min(max(row.first, _EXAMPLE_CUDA), last)
        yield PresetLine(
            f"cuda-M.m-{sm}",
            f"cuda-{example_version}-{sm}",
            f"{row.description}; CUDA {row.first} to {last}",
        )
