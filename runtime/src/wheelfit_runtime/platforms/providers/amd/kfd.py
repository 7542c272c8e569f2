"""Read what AMD's compute driver in the kernel (KFD) says of GPUs, in files (P-124)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.platforms.features import Evidence
from wheelfit_runtime.platforms.providers.amd import tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.system_view import SystemView

FOLDER = "/sys/class/kfd/kfd/topology/nodes"
DEVICE = "/dev/kfd"
"""Through which programs compute; a container must be given it."""

_MODULE = "/sys/module/amdgpu"
_RENDER = "/dev/dri/renderD"
# Compiled where it is needed: most machines have nothing to match.
_LINE = r"(?m)^(\w+) ([0-9]{1,19})$"
_SHOWN = ("cpu_cores_count", "simd_count", "gfx_target_version", "drm_render_minor")


class AmdGpu(NamedTuple):
    """A GPU that the kernel or a tool lists."""

    node: int
    """Number of its node among the kernel's, or its place in a tool's list."""
    name: str
    """Which code it runs, as ``gfx942``; empty when nobody says."""
    integrated: bool = False
    problem: str = ""
    """Why it cannot be used here, one clause; empty when it can."""

    def __str__(self) -> str:
        words = f"{self.name}, integrated" if self.integrated else self.name
        return f"GPU at node {self.node} ({words})" if words else f"GPU at node {self.node}"


class KfdTopology(NamedTuple):
    """The report of AMD's compute driver in the kernel (P-124)."""

    is_listed: bool = False
    """Whether there is a list of nodes at all; processors are nodes too."""
    gpus: tuple[AmdGpu, ...] = ()
    """Those that can be used and those that cannot, in the order of the nodes."""
    evidence: tuple[Evidence, ...] = ()


class AmdDriver(NamedTuple):
    """GPUs and ROCm as files, or else AMD's tools, list them."""

    gpus: tuple[AmdGpu, ...] = ()
    """Those that can be used and those that cannot, in the order of the nodes."""
    rocm_version: tuple[int, int] | None = None
    """Major and minor of the installed ROCm; None when none was found."""
    problem: str = ""
    """Why no tool could be asked, one clause; empty when none had to be, or one answered."""
    broken: bool = False
    """Whether the problem is a failure (crash, hang) and not just absence."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()


class KfdFiles(NamedTuple):
    """What the files say."""

    properties: Mapping[int, str | None]
    """Text about each node, by its number; None where it cannot be read."""
    module: str | None
    """Version of the kernel module; empty if it does not say one, None if none is loaded."""
    devices: frozenset[str]
    """Which of the device nodes exist that the GPUs need."""


def read(surroundings: SystemView) -> KfdFiles:
    """Return the texts about all nodes, and which device nodes exist."""
    properties = {
        int(node): surroundings.read_text(f"{FOLDER}/{node}/properties")
        for node in surroundings.children(FOLDER)
        if re.fullmatch(r"[0-9]{1,9}", node)
    }
    module = surroundings.read_text(f"{_MODULE}/version")
    if module is None and surroundings.exists(_MODULE):
        module = ""  # the module that comes with the kernel has no version of its own
    wanted = {DEVICE} if properties or module is not None else set()
    for text in properties.values():
        minor = _properties(text or "").get("drm_render_minor")
        wanted |= {f"{_RENDER}{minor}"} if minor else set()
    return KfdFiles(properties, module, frozenset(filter(surroundings.exists, sorted(wanted))))


def parse(files: KfdFiles) -> KfdTopology:
    """Return GPUs apart from processors, and what can be used apart from what cannot."""
    gpus = []
    evidence = []
    if files.module is not None:
        evidence.append(Evidence(_MODULE, files.module or "loaded"))
    for node, text in sorted(files.properties.items()):
        name = f"{FOLDER}/{node}/properties"
        if text is None:
            # So the kernel hides GPUs that a container was not given.
            evidence.append(Evidence(name, "cannot be read"))
            continue
        found = _properties(text)
        words = ", ".join(f"{key} {found[key]}" for key in _SHOWN if key in found)
        evidence.append(Evidence(name, words or "tells nothing"))
        if found.get("simd_count", 0) > 0:
            gpus.append(_gpu(node, found, files.devices))
    if gpus:
        evidence += [Evidence(device, "exists") for device in sorted(files.devices)]
    evidence += [
        Evidence(f"{gpu}", f"cannot be used: {gpu.problem}") for gpu in gpus if gpu.problem
    ]
    return KfdTopology(bool(files.properties), tuple(gpus), tuple(evidence))


def target_name(version: int) -> str | None:
    """Return the name of a target, or None when the number is not a version of one.

    :param version: as 90402 for 9.4.2; stepping 10 is written ``a``.

    >>> target_name(90402), target_name(90010), target_name(110501), target_name(0)
    ('gfx942', 'gfx90a', 'gfx1151', None)
    """
    major, minor, stepping = version // 10000, version // 100 % 100, version % 100
    if not 0 < major < 100 or minor > 15 or stepping > 15:
        return None
    return f"gfx{major}{minor:x}{stepping:x}"


def _properties(text: str) -> dict[str, int]:
    return {key: int(number) for key, number in re.findall(_LINE, text)}


def _gpu(node: int, found: Mapping[str, int], devices: frozenset[str]) -> AmdGpu:
    version = found.get("gfx_target_version", 0)
    name = target_name(version) or ""
    minor = found.get("drm_render_minor", 0)
    problem = ""
    if not name:
        problem = f"the kernel does not say which code it runs (gfx_target_version {version})"
    elif DEVICE not in devices:
        problem = f"{DEVICE} does not exist"
    elif not minor:
        problem = "the kernel gave it no render node"
    elif f"{_RENDER}{minor}" not in devices:
        problem = f"{_RENDER}{minor} does not exist"
    # Older kernels show an integrated GPU and its processor as one node.
    integrated = name in tables.INTEGRATED_GFX or found.get("cpu_cores_count", 0) > 0
    return AmdGpu(node, name, integrated, problem)
