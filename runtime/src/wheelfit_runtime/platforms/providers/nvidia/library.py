"""Query the driver's libraries, or else NVIDIA's tool, and parse the answer (P-71, P-98)."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wheelfit_runtime.platforms.child_processes import Answer, Ending, run_in_thread
from wheelfit_runtime.platforms.features import Evidence
from wheelfit_runtime.platforms.isolated.library_child import Conversation
from wheelfit_runtime.platforms.probes import child_answers
from wheelfit_runtime.platforms.providers.nvidia import child as nvidia_child
from wheelfit_runtime.platforms.providers.nvidia import files as nvidia_files
from wheelfit_runtime.platforms.providers.nvidia import tables
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability, NvidiaDriver, NvidiaGpu

if TYPE_CHECKING:
    from collections.abc import Callable

    from wheelfit_runtime.platforms.providers.nvidia.facts import NvidiaFiles
    from wheelfit_runtime.platforms.system_view import SystemView


_QUERIED = "the NVIDIA driver"
MASK = "CUDA_VISIBLE_DEVICES"

_DRIVER_NOT_LOADED = 9
_NO_PERMISSION = 4
_NO_DEVICE = 100

_NVML_WORDS = {
    3: "not supported",
    4: "no permission",
    9: "driver not loaded",
    12: "libcuda not found",
    15: "GPU is lost",
    18: "driver and library have different versions; restart the machine",
}
_CUDA_WORDS = {
    100: "no device",
    803: "driver and library do not match; restart the machine, or take the compatibility "
    "package out of LD_LIBRARY_PATH",
    804: "this GPU does not work with a compatibility package; take it out of LD_LIBRARY_PATH",
    999: "unknown error",
}


@dataclass(frozen=True, slots=True)
class LibraryCandidates:
    """The libraries to try, in order, as paths or as names for the loader."""

    nvml: tuple[str, ...]
    cuda: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.nvml or self.cuda)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the isolated script."""
        return (*(f"nvml={name}" for name in self.nvml), *(f"cuda={name}" for name in self.cuda))


def candidates(view: SystemView, files: NvidiaFiles) -> LibraryCandidates:
    """Return the possible paths of the driver's libraries.

    Folders given by the caller exclude all others. For a captured machine, libraries of this
    machine are not used.
    """
    system = view.system
    if system not in nvidia_files.NVML_NAMES:
        return LibraryCandidates((), ())
    names = (nvidia_files.NVML_NAMES[system], nvidia_files.CUDA_NAMES[system])
    groups: list[tuple[str, ...]] = []
    for name in names:
        if view.library_folders:
            given = (str(Path(folder, name)) for folder in view.library_folders)
            groups.append(tuple(path for path in given if os.path.exists(path)))  # noqa: PTH110
            continue
        paths = [view.path(path) for path in files.libraries if path.endswith(name)]
        # While answers are replayed, no library is loaded.
        if (view.is_real or view.replayed) and system == "Linux":
            # The loader's own search comes first, for that is what programs will get; on WSL after
            # the library of its driver.
            paths.insert(1 if files.wsl else 0, name)
        groups.append(tuple(dict.fromkeys(paths)))
    return LibraryCandidates(*groups)


def read(view: SystemView, libraries: LibraryCandidates, name: str = "nvidia libraries") -> Answer:
    """Query the libraries, and return the raw answer."""
    answer = child_answers.ask(
        view,
        name,
        nvidia_child,
        libraries.arguments,
        hidden=MASK,
        version=tables.DATA_VERSION,
    )
    if answer is not None:
        return answer

    def ask(trace: Callable[[str], None]) -> bytes:
        # Without initialising CUDA, which would break a later fork (P-72).
        conversation = Conversation(lambda what: trace(f"calling {what}"))
        report = nvidia_child.observe(conversation, libraries.arguments, initialise=False)
        return json.dumps(report).encode()

    return run_in_thread(ask, view.deadline)


def parse(answer: Answer, files: NvidiaFiles, deadline: float = 10.0) -> NvidiaDriver:
    """Parse the raw answer.

    :param files: the facts from files. A libcuda without a device is no problem if they show a
        driver in the kernel.
    """
    report = child_answers.read_report(answer, _report)
    if report is None:
        problem = child_answers.missing_answer_reason(answer, _QUERIED, deadline)
        child_evidence = child_answers.evidence(answer, "nvidia child process")
        return NvidiaDriver(problem=problem, broken=True, evidence=child_evidence)
    problem, broken = _problem(report, files)
    usable = report.cuda_version is not None and not problem
    return NvidiaDriver(
        cuda_version=report.cuda_version if usable else None,
        driver_version=report.driver_version,
        gpus=report.gpus if usable else (),
        problem=problem,
        broken=broken,
        evidence=report.calls,
        warnings=report.warnings if usable else (),
    )


def without_libraries(files: NvidiaFiles) -> NvidiaDriver:
    """Return the facts of a driver without libraries to load."""
    return NvidiaDriver(problem=_missing_libraries(files))


def _missing_libraries(files: NvidiaFiles) -> str:
    """Return the reason no library can be loaded."""
    if files.has_driver:  # P-99
        words = "an NVIDIA driver is loaded, but its libraries are missing; a container needs "
        return words + "the NVIDIA Container Toolkit to see them"
    if files.pci_devices:
        places = (
            f"{address}, driver {driver}" if driver else address
            for address, driver in files.pci_devices.items()
        )
        return f"an NVIDIA GPU is there (PCI {'; '.join(places)}), but not NVIDIA's driver"
    return "NVIDIA's libraries are there, but cannot be loaded"


def _problem(report: _Report, files: NvidiaFiles) -> tuple[str, bool]:
    """Return the reason the driver is unusable, and whether that is a failure."""
    if report.nvml_init == _DRIVER_NOT_LOADED:
        return "NVIDIA libraries are installed, but no NVIDIA driver is loaded", False
    if report.nvml_init == 0:
        if report.cuda_version is not None:
            return "", False
        words = "an NVIDIA driver is there, but libcuda is missing; for a container, "
        return words + "NVIDIA_DRIVER_CAPABILITIES must include compute", False
    if report.cuda_loaded and report.cuda_version is not None:
        if report.cuda_init == 0:
            return "", False
        if report.cuda_init is None and report.nvml_init is None:
            return "", False  # queried in a thread, without cuInit: only the version is known
        if report.cuda_init == _NO_DEVICE:
            return ("", False) if files.has_driver else ("libcuda sees no NVIDIA device", False)
        if report.cuda_init is not None:
            words = _CUDA_WORDS.get(report.cuda_init, "error")
            return f"the NVIDIA driver does not start: {words} (cuInit {report.cuda_init})", True
    # NVML failed, and CUDA was not initialized or is missing.
    if report.nvml_init is not None:
        words = _NVML_WORDS.get(report.nvml_init, "error")
        return f"the NVIDIA driver does not start: {words} (NVML {report.nvml_init})", True
    if report.nvml_loaded or report.cuda_loaded:
        return "the NVIDIA libraries lack the functions that were asked for", True
    return _missing_libraries(files), False


@dataclass(frozen=True, slots=True)
class _Report:
    """The child's answer after every part was checked."""

    calls: tuple[Evidence, ...]
    nvml_loaded: bool
    nvml_init: int | None
    cuda_loaded: bool
    cuda_init: int | None
    driver_version: str | None
    cuda_version: Capability | None
    gpus: tuple[NvidiaGpu, ...]
    warnings: tuple[str, ...]


def _report(raw: Any) -> _Report:
    gpus, warnings = _devices(raw["devices"])
    version = raw["cuda_version"]
    return _Report(
        calls=child_answers.calls_of(raw),
        nvml_loaded=raw["nvml"]["loaded"] is not None,
        nvml_init=_code(raw["nvml"]["init"]),
        cuda_loaded=raw["cuda"]["loaded"] is not None,
        cuda_init=_code(raw["cuda"]["init"]),
        driver_version=None if raw["driver_version"] is None else str(raw["driver_version"]),
        # 1000 * major + 10 * minor; 0 from libcuda means that no driver is there
        cuda_version=Capability(version // 1000, version % 1000 // 10) if version else None,
        gpus=gpus,
        warnings=warnings,
    )


def _devices(raw: Any) -> tuple[tuple[NvidiaGpu, ...], tuple[str, ...]]:
    gpus: list[NvidiaGpu] = []
    warnings: list[str] = []
    for device in raw:
        index = int(device["index"])
        if "capability" in device:
            major, minor = (int(number) for number in device["capability"])
            name, uuid = str(device["name"]), str(device["uuid"])
            is_split = device.get("mig") is True
            gpus.append(NvidiaGpu(index, name, Capability(major, minor), uuid, is_split))
        elif device["code"] != _NO_PERMISSION:  # which is how a container hides a device
            words = _NVML_WORDS.get(device["code"], "error")
            warnings.append(
                f"GPU {index} is left out: {device['call']} says {words} ({device['code']})"
            )
    return tuple(gpus), tuple(warnings)


def _code(raw: Any) -> int | None:
    return None if raw is None else int(raw)


# --- nvidia-smi, where the libraries could not be found -------------------------------------------

_CUDA = re.compile(r"^CUDA (?:UMD )?Version\s*:\s*([0-9]+)\.([0-9]+)\s*$", re.MULTILINE)
_DRIVER = re.compile(r"^Driver Version\s*:\s*(\S+)\s*$", re.MULTILINE)
_GPU = re.compile(r"^\s*([0-9]+)\s*,\s*([0-9]+)\.([0-9]+)\s*,\s*([^,]*?)\s*,\s*(.*?)\s*$")

_QUERY = ("--query-gpu=index,compute_cap,uuid,name", "--format=csv,noheader")


def ask_smi(view: SystemView) -> tuple[str, str] | None:
    """Return the long listing and the table of GPUs as text; None without the tool."""
    program = view.program("nvidia-smi")
    if program is None:
        return None
    texts = ["", ""]
    for number, arguments in enumerate((("-q",), _QUERY)):
        answer = view.ask(
            *(f"nvidia-smi {arguments[0]}", program, *arguments),
            hidden=MASK,
            version=tables.DATA_VERSION,
        )
        if answer.ending is Ending.LATE:
            break  # it would only hang again
        if answer.succeeded:
            texts[number] = answer.output.decode("utf-8", "replace")
    return texts[0], texts[1]


def parse_smi(listing: str, table: str) -> NvidiaDriver | None:
    """Read versions and GPUs from the tool's output; None without a version.

    :param listing: the output of ``nvidia-smi -q``.
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
