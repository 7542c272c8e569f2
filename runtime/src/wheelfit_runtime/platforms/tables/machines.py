"""Machines that presets name whole, by what people call them."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple


class MachineRow(NamedTuple):
    """A machine with a name of its own."""

    parts: str
    """Its parts, as a preset names them."""
    words: str


# Numbers at the end of a name are branches of NVIDIA's driver. Where machines of a kind differ in
# their processors, the least of those that are sold counts.
MACHINES: MappingProxyType[str, MachineRow] = MappingProxyType(
    {
        "cpu-linux": MachineRow("cpu-x86_64-v3+linux-x86_64", "a Linux server without a GPU"),
        "h100-580": MachineRow(
            "cuda-13.0-sm90+cpu-x86_64-v4+linux-x86_64", "an H100 with driver 580"
        ),
        "v100-535": MachineRow(
            "cuda-12.2-sm70+cpu-x86_64-v3+linux-x86_64", "a V100 with driver 535"
        ),
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
)
