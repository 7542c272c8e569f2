"""Facts about GPUs and ROCm from files and AMD's tools (P-124, P-125)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.features import Evidence
from wheelfit_runtime.platforms.providers.amd import tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit_runtime.platforms.system_view import SystemView


# --- AMD's compute driver in the kernel (KFD) -----------------------------------------------------

KFD_FOLDER = "/sys/class/kfd/kfd/topology/nodes"
KFD_DEVICE = "/dev/kfd"
"""The device file of computing programs, which a container needs."""

_MODULE = "/sys/module/amdgpu"
_RENDER = "/dev/dri/renderD"
# Patterns are compiled where they are needed: most machines have nothing to match.
_LINE = r"(?m)^(\w+) ([0-9]{1,19})$"
_SHOWN = ("cpu_cores_count", "simd_count", "gfx_target_version", "drm_render_minor")


class AmdGpu(NamedTuple):
    """A GPU that the kernel or a tool lists."""

    node: int
    """The number of its node in the kernel, or its index in a tool's list."""
    name: str
    """The architecture of its code, such as ``gfx942``; empty if unknown."""
    integrated: bool = False
    problem: str = ""
    """The reason it cannot be used, one clause; empty if it can."""

    def __str__(self) -> str:
        text = f"{self.name}, integrated" if self.integrated else self.name
        return f"GPU at node {self.node} ({text})" if text else f"GPU at node {self.node}"


class KfdTopology(NamedTuple):
    """The report of AMD's compute driver in the kernel (P-124)."""

    is_listed: bool = False
    """Whether there is a list of nodes; processors are nodes too."""
    gpus: tuple[AmdGpu, ...] = ()
    """Usable and unusable ones, in the order of the nodes."""
    evidence: tuple[Evidence, ...] = ()


class AmdDriver(NamedTuple):
    """The GPUs and ROCm that files, or AMD's tools, list."""

    gpus: tuple[AmdGpu, ...] = ()
    """Usable and unusable ones, in the order of the nodes."""
    rocm_version: tuple[int, int] | None = None
    """Major and minor of the installed ROCm; None if there is none."""
    problem: str = ""
    """The failure of the tools, one clause; empty if none was run, or one answered."""
    broken: bool = False
    """Whether the problem is a failure (crash, hang) and not just absence."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()


class KfdFiles(NamedTuple):
    """The content of the kernel's files."""

    properties: Mapping[int, str | None]
    """The text about each node, by its number; None if it cannot be read."""
    module: str | None
    """Version of the kernel module; empty if not stated, None if no module is loaded."""
    devices: frozenset[str]
    """The existing ones of the device nodes that the GPUs need."""


def read_kfd(view: SystemView) -> KfdFiles:
    """Return the texts about all nodes, and the existing device nodes."""
    properties = {
        int(node): view.read_text(f"{KFD_FOLDER}/{node}/properties")
        for node in view.children(KFD_FOLDER)
        if re.fullmatch(r"[0-9]{1,9}", node)
    }
    module = view.read_text(f"{_MODULE}/version")
    if module is None and view.exists(_MODULE):
        module = ""  # the module of the kernel itself has no version
    devices = {KFD_DEVICE} if properties or module is not None else set()
    for text in properties.values():
        if minor := _properties(text or "").get("drm_render_minor"):
            devices.add(f"{_RENDER}{minor}")
    return KfdFiles(properties, module, frozenset(filter(view.exists, sorted(devices))))


def parse_kfd(files: KfdFiles) -> KfdTopology:
    """Return the GPUs of the nodes, without processors."""
    gpus = []
    evidence = []
    if files.module is not None:
        evidence.append(Evidence(_MODULE, files.module or "loaded"))
    for node, text in sorted(files.properties.items()):
        name = f"{KFD_FOLDER}/{node}/properties"
        if text is None:
            # The kernel hides GPUs from containers this way.
            evidence.append(Evidence(name, "cannot be read"))
            continue
        properties = _properties(text)
        shown = ", ".join(f"{key} {properties[key]}" for key in _SHOWN if key in properties)
        evidence.append(Evidence(name, shown or "has no known properties"))
        if properties.get("simd_count", 0) > 0:
            gpus.append(_gpu(node, properties, files.devices))
    if gpus:
        evidence += [Evidence(device, "exists") for device in sorted(files.devices)]
    evidence += [
        Evidence(f"{gpu}", f"cannot be used: {gpu.problem}") for gpu in gpus if gpu.problem
    ]
    return KfdTopology(bool(files.properties), tuple(gpus), tuple(evidence))


def target_name(version: int) -> str | None:
    """Return the name of a target, or None if the number is not a version.

    :param version: as 90402 for 9.4.2; stepping 10 is ``a``.

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
        problem = f"the kernel does not list its architecture (gfx_target_version {version})"
    elif KFD_DEVICE not in devices:
        problem = f"{KFD_DEVICE} does not exist"
    elif not minor:
        problem = "it has no render node"
    elif f"{_RENDER}{minor}" not in devices:
        problem = f"{_RENDER}{minor} does not exist"
    # Older kernels show an integrated GPU and its processor as one node.
    integrated = name in tables.INTEGRATED_GFX or properties.get("cpu_cores_count", 0) > 0
    return AmdGpu(node, name, integrated, problem)


# --- the installed ROCm ---------------------------------------------------------------------------

ROCM_FOLDER = "/opt/rocm"
"""The default folder of its installation."""

_RELEASE_FILE = ".info/version"
_VERSION = r"([0-9]{1,4})\.([0-9]{1,4})(?![0-9])"
_NUMBERED = r"rocm-([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?.*"


def read_release(view: SystemView) -> tuple[tuple[str, str], ...]:
    """Return path and text of the files with a release, the preferred one first."""
    names = (f"{folder}/{_RELEASE_FILE}" for folder in rocm_folders(view))
    return tuple((name, text) for name in names if (text := view.read_text(name)) is not None)


def rocm_folders(view: SystemView) -> tuple[str, ...]:
    """Return the folders of ROCm: ``ROCM_PATH``, the default, then numbered ones, newest first."""
    configured = view.environ.get("ROCM_PATH", "").replace("\\", "/").rstrip("/")
    numbered = [
        match
        for name in view.children("/opt")
        if name.startswith("rocm-") and (match := re.fullmatch(_NUMBERED, name))
    ]
    newest = sorted(
        numbered, key=lambda match: [int(number or 0) for number in match.groups()], reverse=True
    )
    folders = (configured, ROCM_FOLDER, *(f"/opt/{match[0]}" for match in newest))
    return tuple(dict.fromkeys(folder for folder in folders if folder))


def parse_release(text: str) -> tuple[int, int] | None:
    """Return major and minor of a release, or None if the text has none.

    :param text: as ``6.4.1-83`` or ``7.0.0``.

    >>> parse_release("6.4.1-83"), parse_release("7.10"), parse_release("unknown")
    ((6, 4), (7, 10), None)
    """
    match = re.match(_VERSION, text.strip())
    return (int(match[1]), int(match[2])) if match else None


# --- AMD's tools, for machines without the kernel's files -----------------------------------------

_LINUX = (("rocm_agent_enumerator", "-name"), ("rocminfo",))
_WINDOWS = (("clinfo",),)

# The whole machine is detected, not the part that a process may use.
_MASKS = (
    r"CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|HIP_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES"
    r"|HSA_OVERRIDE_GFX_VERSION(?:_[0-9]+)?"
)

# A target may have features (gfx90a:sramecc+:xnack-). "gfx9-generic" is code for many GPUs, and
# gfx000 a processor.
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
    answers: list[ToolAnswer] = []
    for command in _WINDOWS if view.system == "Windows" else _LINUX:
        program = _program(view, command[0], folders)
        if program is None:
            continue
        name = " ".join(command)
        answer = view.ask(name, program, *command[1:], hidden=_MASKS)
        answers.append(ToolAnswer(name, answer))
        if answer.ending is Ending.LATE or gpus_of_tool(answers[-1]):
            break  # the next tool is not needed, or would hang too
    return tuple(answers)


def _program(view: SystemView, name: str, folders: Iterable[str]) -> str | None:
    program = view.program(name)
    if program is not None or view.system == "Windows":
        return program
    paths = (f"{folder}/bin/{name}" for folder in folders)
    return next((view.path(path) for path in paths if view.exists(path)), None)


def gpus_of_tool(tool: ToolAnswer) -> tuple[AmdGpu, ...]:
    """Return the GPUs in the output of a tool; none if it failed."""
    if not tool.answer.succeeded:
        return ()
    text = tool.answer.output.decode("utf-8", "replace")
    parsers = {"rocminfo": _parse_rocminfo, "clinfo": _parse_clinfo}
    parse = parsers.get(tool.name, _parse_enumerator)
    return tuple(parse(text))


def _parse_enumerator(text: str) -> list[AmdGpu]:
    """Return the GPUs in a list with a name in each line."""
    names = [match[1] for line in text.splitlines() if (match := _TARGET.search(line.lower()))]
    return [
        AmdGpu(number, name, name in tables.INTEGRATED_GFX) for number, name in enumerate(names)
    ]


def _parse_rocminfo(text: str) -> list[AmdGpu]:
    """Return the GPUs in blocks of fields; the first of repeated fields is about the GPU itself."""
    agents: list[dict[str, str]] = []
    for line in text.splitlines():
        key, separator, value = line.partition(":")
        if not separator and _AGENT.fullmatch(line.strip()):
            agents.append({})
        elif separator and agents:
            agents[-1].setdefault(key.strip(), value.strip())
    gpus = []
    for index, fields in enumerate(agents):
        name = _TARGET.fullmatch(fields.get("Name", "").lower())
        if name is None or fields.get("Device Type") != "GPU":
            continue
        node = fields.get("Node", "")
        number = int(node) if re.fullmatch(r"[0-9]{1,9}", node) else index
        integrated = name[1] in tables.INTEGRATED_GFX or fields.get("Memory Properties") == "APU"
        gpus.append(AmdGpu(number, name[1], integrated))
    return gpus


def _parse_clinfo(text: str) -> list[AmdGpu]:
    """Return the GPUs by type and name of each device, in any order of these two lines."""
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
    return [
        AmdGpu(number, name, name in tables.INTEGRATED_GFX) for number, name in enumerate(names)
    ]
