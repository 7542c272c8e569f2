"""Environment variables, the loader's path and tools of a machine, and findings about them.

`read_machine_settings` reads through `SystemView`, so it works for recorded machines too;
`settings_findings` yields the findings.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.checking.findings import Finding, Location, listed_briefly
from wheelfit.doctor import diagnoses
from wheelfit.sources.urls import redact
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.accelerator_libraries import identify
from wheelfit_runtime.platforms.child_processes import Ending
from wheelfit_runtime.platforms.features import Detection, Status
from wheelfit_runtime.platforms.providers.nvidia import kernel as nvidia_kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.doctor.accelerators import OwnedLibrary
    from wheelfit_runtime.platforms.system_view import SystemView

_TOOLS: Mapping[str, str] = {
    **{tool: family.namespace for family in providers.families() for tool in family.tools},
    **{tool: "" for family in providers.families() for tool in family.toolkit_tools},
}
"""Programs to find on PATH, and the namespace of the driver that each belongs to; empty: none."""

_TOOLKIT_PARENT = "/usr/local"
_TOOLKIT = re.compile(r"cuda-[0-9]+(?:\.[0-9]+)?")
_SMI_VERSION = re.compile(r"^NVIDIA-SMI version\s*:\s*([0-9.]+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tool:
    """A program on PATH, or a toolkit."""

    name: str
    path: str
    version: str = ""
    """From a file beside it, or from ``nvidia-smi`` itself; empty when unknown."""


@dataclass(frozen=True, slots=True)
class PathEntry:
    """An entry of a variable that lists folders, such as ``LD_LIBRARY_PATH``."""

    variable: str
    path: str
    exists: bool
    names: tuple[str, ...] = ()
    """The names of the libraries in it."""


@dataclass(frozen=True, slots=True)
class MachineSettings:
    """The settings of a machine: variables, folders, tools."""

    variables: tuple[ExaminedVariable, ...] = ()
    tools: tuple[Tool, ...] = ()
    toolkits: tuple[Tool, ...] = ()
    library_folders: tuple[PathEntry, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    device_counts: Mapping[str, int] = field(default_factory=dict)
    """The number of devices, as far as known, by the variable that hides some of them, such as
    ``CUDA_VISIBLE_DEVICES``.
    """
    kernel_driver: str = ""
    """Release of NVIDIA's kernel module; empty when none is loaded."""


def read_machine_settings(view: SystemView) -> MachineSettings:
    """Read variables, folders and tools; only ``nvidia-smi`` is run, and only with a driver."""
    kernel = nvidia_kernel.release(view.read_text) or ""
    environ = view.environ
    gpus = view.children(nvidia_kernel.GPUS)
    device_counts = {"CUDA_VISIBLE_DEVICES": len(gpus)} if gpus else {}
    return MachineSettings(
        variables_in(environ, device_counts),
        tuple(_tools(view, kernel)),
        tuple(_toolkits(view)),
        tuple(_library_folders(view)),
        environ,
        device_counts,
        kernel,
    )


def _tools(view: SystemView, kernel: str) -> Iterator[Tool]:
    for name in _TOOLS:
        path = view.program(name)
        if path is not None:
            shown = path
            if not view.is_real:  # the path that the tool had on the recorded machine
                below_root = path.removeprefix(os.fspath(view.root))[1:]  # without the separator
                shown = f"/{below_root}"
            version = ""
            if name == "nvcc":
                real_path = os.path.realpath(path) if view.is_real else shown
                version = _toolkit_version(view, real_path.rpartition("/bin/")[0])
            if name == "nvidia-smi" and kernel:
                version = _smi_version(view, path)
            yield Tool(name, shown, version)


def _smi_version(view: SystemView, program: str) -> str:
    # It runs without this variable, which would hide devices from it.
    answer = view.ask("nvidia-smi --version", program, "--version", hidden="CUDA_VISIBLE_DEVICES")
    match = _SMI_VERSION.search(answer.output.decode("utf-8", "replace"))
    return match[1] if match and answer.ending is Ending.EXITED else ""


def _toolkits(view: SystemView) -> Iterator[Tool]:
    folders = [
        f"{_TOOLKIT_PARENT}/{name}"
        for name in view.children(_TOOLKIT_PARENT)
        if _TOOLKIT.fullmatch(name)
    ]
    folders += [view.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    for folder in dict.fromkeys(folder.rstrip("/") for folder in folders):
        if not folder:
            continue
        version = _toolkit_version(view, folder)
        # Distributions and conda leave out the file with the version.
        compilers = (f"{folder}/bin/nvcc", f"{folder}/bin/nvcc.exe")
        if version or any(map(view.exists, compilers)):
            yield Tool("CUDA toolkit", folder, version)


def _toolkit_version(view: SystemView, folder: str) -> str:
    data = view.read_bytes(f"{folder}/version.json")
    try:
        version = json.loads(data or b"{}")["cuda"]["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return version if isinstance(version, str) else ""


def _library_folders(view: SystemView) -> Iterator[PathEntry]:
    for variable in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        text, separator = view.environ.get(variable, ""), ":"
        if view.system == "Windows":
            text, separator = text.replace("\\", "/"), ";"
        for path in dict.fromkeys(filter(None, text.split(separator))):
            if not path.startswith("/") and view.system != "Windows":
                continue  # relative to the working folder of each program
            names = tuple(name for name in view.children(path) if name.startswith("lib"))
            yield PathEntry(variable, path, view.exists(path), names)


# --- findings --------------------------------------------------------------------------------


def settings_findings(
    settings: MachineSettings,
    detections: Iterable[Detection],
    libraries: Iterable[OwnedLibrary],
) -> Iterator[Finding]:
    """Yield findings about variables, tools and the loader's path."""
    yield from _mask_findings(settings)
    yield from _tool_findings(
        settings, {detection.namespace: detection for detection in detections}
    )
    yield from _library_path_findings(settings, libraries)


def _mask_findings(settings: MachineSettings) -> Iterator[Finding]:
    for name in MASKS:
        text = settings.environ.get(name)
        if text is None:
            continue
        count = settings.device_counts.get(name)
        mask = read_mask(text, count)
        if not mask.visible:
            shown = f"{name}={text}" if text else f"{name} is set and empty"
            yield Location(name).finding(
                diagnoses.MASK_HIDES_ALL, f"{shown}: programs see no {MASKS[name]}"
            )
        elif mask.stopped_at is not None:
            numbering = f"; there are {count}, numbered from 0" if count is not None else ""
            yield Location(name).finding(
                diagnoses.MASK_STOPS_EARLY,
                f"{name}={text}: {mask.stopped_at!r} is not a device, so programs see "
                f"{', '.join(mask.visible)} and nothing after it{numbering}",
            )


def _tool_findings(
    settings: MachineSettings, detections: Mapping[str, Detection]
) -> Iterator[Finding]:
    kernel = settings.kernel_driver
    for tool in settings.tools:
        detection = detections.get(_TOOLS[tool.name])
        # Warnings of a detection name the missing files already.
        if detection and detection.status is Status.NOTHING and not detection.warnings:
            yield Location(tool.path).finding(
                diagnoses.STRAY_TOOL,
                f"{tool.name} is on PATH, but no {detection.namespace} hardware or driver exists",
            )
        if tool.name == "nvidia-smi" and tool.version and kernel and tool.version != kernel:
            yield Location(tool.path).finding(
                diagnoses.FOREIGN_TOOL,
                f"nvidia-smi belongs to driver {tool.version}, but driver {kernel} is loaded",
            )
    nvcc = next((tool for tool in settings.tools if tool.name == "nvcc" and tool.version), None)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        folder = settings.environ.get(variable, "").rstrip("/")
        toolkit = next((entry for entry in settings.toolkits if entry.path == folder), None)
        if folder and toolkit is None:
            yield Location(variable).finding(
                diagnoses.PATH_ENTRY_MISSING, f"{variable}={folder}: it contains no CUDA toolkit"
            )
        elif toolkit and nvcc and toolkit.version not in ("", nvcc.version):
            yield Location(variable).finding(
                diagnoses.SEVERAL_TOOLKITS,
                f"{variable} names CUDA {toolkit.version}, but nvcc on PATH is {nvcc.version} "
                f"({nvcc.path})",
            )


def _library_path_findings(
    settings: MachineSettings, libraries: Iterable[OwnedLibrary]
) -> Iterator[Finding]:
    owned = {library.file.name: library for library in libraries}
    for folder in settings.library_folders:
        location = Location(folder.variable)
        accelerator_libraries = {name for name in folder.names if identify(name) is not None}
        if not folder.exists:
            message = f"{folder.variable}: {folder.path} does not exist"
            yield location.finding(diagnoses.PATH_ENTRY_MISSING, message)
        elif folder.path.rstrip("/").endswith("/stubs") and accelerator_libraries:
            yield location.finding(
                diagnoses.STUB_LIBRARY,
                f"{folder.variable} has {folder.path} with "
                f"{listed_briefly(sorted(accelerator_libraries))}",
            )
        elif installed := sorted(accelerator_libraries & owned.keys()):
            package = owned[installed[0]].package
            yield location.finding(
                diagnoses.LIBRARY_PATH_HIDES,
                f"{folder.variable} has {folder.path} with {listed_briefly(installed)}, "
                f"which {package} contains too",
            )


MASKS: Mapping[str, str] = MappingProxyType(
    {mask: family.devices for family in providers.accelerators() for mask in family.masks}
)
"""The kind of devices, by the variable that lists those that programs may see."""

_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        **{
            name: meaning
            for family in providers.families()
            for name, meaning in (*family.homes.items(), *family.variables.items())
        },
        "LD_LIBRARY_PATH": "folders that are searched first for libraries",
        "LD_PRELOAD": "libraries loaded into every program",
        "DYLD_LIBRARY_PATH": "folders that are searched first for libraries",
        "DYLD_INSERT_LIBRARIES": "libraries loaded into every program",
        "PYTHONPATH": "folders that are searched first for modules",
        "PYTHONHOME": "the folder from which every Python takes its standard library",
        "PYTHONNOUSERSITE": "packages in the user's own folder are ignored",
        "PYTHONUSERBASE": "the folder of the user's own packages",
        "VIRTUAL_ENV": "the active virtual environment",
        "CONDA_PREFIX": "the active conda environment",
        "KMP_DUPLICATE_LIB_OK": "silences the check for several OpenMP runtimes",
        "VARIANT_ABI_DEPENDENCY": "versions of packages that builds must fit",
        "UV_TORCH_BACKEND": "the PyTorch index that uv uses",
    }
)
_PREFIXES: Mapping[str, str] = MappingProxyType(
    {
        "WHEELFIT_OVERRIDE_": "meant to replace a detected value",
        **{
            prefix: meaning
            for family in providers.families()
            for prefix, meaning in family.override_prefixes.items()
        },
        "WHEELFIT_FAKE_": "a setting of simulated drivers",
        "WHEELFIT_LIBRARY_": "a setting of the library store",
        "WHEELFIT_SERVER_": "a setting of an index server",
        "WHEELFIT_": "a setting of wheelfit, unless `wheelfit config show` reports it",
        "PIP_": "a setting of pip",
        "UV_": "a setting of uv",
        "CONDA_OVERRIDE_": "replaces a detected value, as for conda",
    }
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH|USERNAME", re.IGNORECASE)
_DEVICE = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]*")
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class ExaminedVariable:
    """An environment variable as it may be shown."""

    name: str
    value: str
    """Without credentials."""
    meaning: str


def variables_in(
    environ: Mapping[str, str], device_counts: Mapping[str, int] | None = None
) -> tuple[ExaminedVariable, ...]:
    """Return the relevant variables, sorted by name, without credentials.

    :param device_counts: the number of devices, by mask, as far as known.
    """
    variables = []
    for name in sorted(environ):
        value = environ[name]
        meaning = _MEANINGS.get(name) or next(
            (text for prefix, text in _PREFIXES.items() if name.startswith(prefix)), None
        )
        if name in MASKS:
            mask = read_mask(value, (device_counts or {}).get(name))
            meaning = f"programs see {mask.in_words(name)}"
        if meaning is not None:
            is_secret = value and _SECRET.search(name)
            shown = "(not shown)" if is_secret else redact(value)
            variables.append(ExaminedVariable(name, shown, meaning))
    return tuple(variables)


@dataclass(frozen=True, slots=True)
class Mask:
    """The devices that a variable such as ``CUDA_VISIBLE_DEVICES`` makes visible (P-89)."""

    visible: tuple[str, ...]
    """The devices that programs see, which number them from 0 in this order."""
    stopped_at: str | None = None
    """The first entry that names no device; neither it nor those after it are visible."""

    def in_words(self, name: str) -> str:
        """Return the devices that programs see, in words."""
        if not self.visible:
            return f"no {MASKS[name]}"
        return f"{MASKS[name]} {', '.join(self.visible)} only"


def read_mask(text: str, count: int | None = None) -> Mask:
    """Read a mask: it ends at the first entry that names no device, and empty means none (P-89).

    >>> read_mask("0,2,-1,1")
    Mask(visible=('0', '2'), stopped_at='-1')

    :param count: how many devices there are; None: unknown.
    """
    visible: list[str] = []
    for entry in map(str.strip, text.split(",") if text.strip() else ()):
        if not _is_device(entry, count):
            return Mask(tuple(visible), entry)
        visible.append(entry)
    return Mask(tuple(visible))


def _is_device(entry: str, count: int | None) -> bool:
    if _DEVICE.fullmatch(entry):
        return True
    if not _NUMBER.fullmatch(entry):
        return False
    return int(entry) >= 0 and (count is None or int(entry) < count)
