"""Facts about GPUs and ROCm from files and AMD's tools (P-124, P-125)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms.child_processes import Ending
from wheelfit_runtime.platforms.features import Evidence
from wheelfit_runtime.platforms.providers.amd import tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit_runtime.platforms.child_processes import Answer
    from wheelfit_runtime.platforms.system_view import SystemView


# --- AMD's compute driver in the kernel (KFD) -----------------------------------------------------

KFD_FOLDER = "/sys/class/kfd/kfd/topology/nodes"
KFD_DEVICE = "/dev/kfd"
"""Through which programs compute; a container must be given it."""

_MODULE = "/sys/module/amdgpu"
_RENDER = "/dev/dri/renderD"
# Patterns are compiled where they are needed: most machines have nothing to match.
_LINE = r"(?m)^(\w+) ([0-9]{1,19})$"
_SHOWN = ("cpu_cores_count", "simd_count", "gfx_target_version", "drm_render_minor")


class AmdGpu(NamedTuple):
    """A GPU that the kernel or a tool lists."""

    node: int
    """Number of its node among the kernel's, or its place in a tool's list."""
    name: str
    """The architecture of its code, as ``gfx942``; empty if unknown."""
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
    """The reason no tool could be run, one clause; empty when none had to be, or one answered."""
    broken: bool = False
    """Whether the problem is a failure (crash, hang) and not just absence."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()


class KfdFiles(NamedTuple):
    """The content of the kernel's files."""

    properties: Mapping[int, str | None]
    """Text about each node, by its number; None where it cannot be read."""
    module: str | None
    """Version of the kernel module; empty if not stated, None if no module is loaded."""
    devices: frozenset[str]
    """Which of the device nodes exist that the GPUs need."""


def read_kfd(view: SystemView) -> KfdFiles:
    """Return the texts about all nodes, and the existing device nodes."""
    properties = {
        int(node): view.read_text(f"{KFD_FOLDER}/{node}/properties")
        for node in view.children(KFD_FOLDER)
        if re.fullmatch(r"[0-9]{1,9}", node)
    }
    module = view.read_text(f"{_MODULE}/version")
    if module is None and view.exists(_MODULE):
        module = ""  # the module that comes with the kernel has no version of its own
    wanted = {KFD_DEVICE} if properties or module is not None else set()
    for text in properties.values():
        minor = _properties(text or "").get("drm_render_minor")
        wanted |= {f"{_RENDER}{minor}"} if minor else set()
    return KfdFiles(properties, module, frozenset(filter(view.exists, sorted(wanted))))


def parse_kfd(files: KfdFiles) -> KfdTopology:
    """Return the usable GPUs, without processors and unusable devices."""
    gpus = []
    evidence = []
    if files.module is not None:
        evidence.append(Evidence(_MODULE, files.module or "loaded"))
    for node, text in sorted(files.properties.items()):
        name = f"{KFD_FOLDER}/{node}/properties"
        if text is None:
            # So the kernel hides GPUs that a container was not given.
            evidence.append(Evidence(name, "cannot be read"))
            continue
        properties = _properties(text)
        words = ", ".join(f"{key} {properties[key]}" for key in _SHOWN if key in properties)
        evidence.append(Evidence(name, words or "tells nothing"))
        if properties.get("simd_count", 0) > 0:
            gpus.append(_gpu(node, properties, files.devices))
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


def _gpu(node: int, properties: Mapping[str, int], devices: frozenset[str]) -> AmdGpu:
    version = properties.get("gfx_target_version", 0)
    name = target_name(version) or ""
    minor = properties.get("drm_render_minor", 0)
    problem = ""
    if not name:
        problem = f"the kernel does not say which code it runs (gfx_target_version {version})"
    elif KFD_DEVICE not in devices:
        problem = f"{KFD_DEVICE} does not exist"
    elif not minor:
        problem = "the kernel gave it no render node"
    elif f"{_RENDER}{minor}" not in devices:
        problem = f"{_RENDER}{minor} does not exist"
    # Older kernels show an integrated GPU and its processor as one node.
    integrated = name in tables.INTEGRATED_GFX or properties.get("cpu_cores_count", 0) > 0
    return AmdGpu(node, name, integrated, problem)


# --- which ROCm is installed ----------------------------------------------------------------------

ROCM_FOLDER = "/opt/rocm"
"""The default folder of its installation."""

_RELEASE_FILE = ".info/version"
_VERSION = r"([0-9]{1,4})\.([0-9]{1,4})(?![0-9])"
_NUMBERED = r"rocm-([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?.*"


def read_release(view: SystemView) -> tuple[tuple[str, str], ...]:
    """Return path and text of the files that state a release, the preferred one first."""
    releases = []
    for folder in rocm_folders(view):
        text = view.read_text(f"{folder}/{_RELEASE_FILE}")
        if text is not None:
            releases.append((f"{folder}/{_RELEASE_FILE}", text))
    return tuple(releases)


def rocm_folders(view: SystemView) -> tuple[str, ...]:
    """Return the folders of ROCm: ``ROCM_PATH``, the default, then numbered ones, newest first."""
    named = view.environ.get("ROCM_PATH", "").replace("\\", "/").rstrip("/")
    numbered = [
        match
        for name in view.children("/opt")
        if name.startswith("rocm-") and (match := re.fullmatch(_NUMBERED, name))
    ]
    newest = sorted(
        numbered, key=lambda match: [int(number or 0) for number in match.groups()], reverse=True
    )
    places = (named, ROCM_FOLDER, *(f"/opt/{match[0]}" for match in newest))
    return tuple(dict.fromkeys(place for place in places if place))


def parse_release(text: str) -> tuple[int, int] | None:
    """Return major and minor of a release, or None when the text has none.

    :param text: as ``6.4.1-83`` or ``7.0.0``; what follows the minor does not matter.

    >>> parse_release("6.4.1-83"), parse_release("7.10"), parse_release("unknown")
    ((6, 4), (7, 10), None)
    """
    match = re.match(_VERSION, text.strip())
    return (int(match[1]), int(match[2])) if match else None


# --- AMD's tools, where the kernel's files lack facts ---------------------------------------------

_LINUX = (("rocm_agent_enumerator", "-name"), ("rocminfo",))
_WINDOWS = (("clinfo",),)

# The machine is described, not the part that a process may see or is shown.
_MASKS = (
    r"CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|HIP_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES"
    r"|HSA_OVERRIDE_GFX_VERSION(?:_[0-9]+)?"
)

# A name of code may carry features (gfx90a:sramecc+:xnack-). "gfx9-generic" names code for
# many GPUs and is no GPU; gfx000 stands for processors.
_TARGET = pattern(r"\b(gfx[1-9][0-9]?[0-9a-f]{2})(?![0-9a-f-])")
_AGENT = pattern(r"Agent [0-9]+")
_DEVICE_LINE = pattern(r"(?:Device )?(Type|Name):?\s+(\S+)")


class ToolAnswer(NamedTuple):
    """The answer of one tool."""

    name: str
    """The tool, with its arguments."""
    answer: Answer


def ask_tools(view: SystemView, folders: Iterable[str]) -> tuple[ToolAnswer, ...]:
    """Run one tool after the other, until one names a GPU or hangs.

    :param folders: the possible folders of ROCm, whose tools are often not on the ``PATH``.
    """
    told: list[ToolAnswer] = []
    for command in _WINDOWS if view.system == "Windows" else _LINUX:
        program = _program(view, command[0], folders)
        if program is None:
            continue
        name = " ".join(command)
        answer = view.ask(name, program, *command[1:], hidden=_MASKS)
        told.append(ToolAnswer(name, answer))
        if answer.ending is Ending.LATE or gpus_of_tool(told[-1]):
            break  # it is known, or another one would only hang again
    return tuple(told)


def _program(view: SystemView, name: str, folders: Iterable[str]) -> str | None:
    program = view.program(name)
    if program is not None or view.system == "Windows":
        return program
    places = (f"{folder}/bin/{name}" for folder in folders)
    return next((view.path(place) for place in places if view.exists(place)), None)


def gpus_of_tool(told: ToolAnswer) -> tuple[AmdGpu, ...]:
    """Read the GPUs from the output of a tool; none if it failed."""
    if not told.answer.succeeded:
        return ()
    text = told.answer.output.decode("utf-8", "replace")
    gpus = {"rocminfo": _of_rocminfo, "clinfo": _of_clinfo}.get(told.name, _of_enumerator)(text)
    return tuple(gpus)


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
    """Read type and name of each device; AMD's tool prints the type first, another the name."""
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
