"""Query Level Zero in a child process, and parse the answer (P-71, P-133)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.probes import child_answers
from wheelfit_runtime.platforms.providers.intel import level_zero_child, tables
from wheelfit_runtime.platforms.providers.intel.files import IntelDriver, IntelFiles, IntelGpu
from wheelfit_runtime.platforms.providers.intel.record import FAMILY
from wheelfit_runtime.platforms.providers.intel.tables import DeviceIp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wheelfit_runtime.platforms.features import Evidence
    from wheelfit_runtime.platforms.system_view import SystemView

QUESTION = "level zero"
"""The name of the question in recordings."""

_QUERIED = "Level Zero"
_GPU = 1  # ZE_DEVICE_TYPE_GPU
_INTEGRATED = 1  # ZE_DEVICE_PROPERTY_FLAG_INTEGRATED
_UNINITIALIZED = 0x78000001
_NO_PERMISSION = 0x70010000

_WORDS = {
    0x70000001: "the device is lost; restart the machine",
    0x70000002: "no memory left",
    0x70000006: "the device needs a reset",
    _NO_PERMISSION: "no permission",
    0x70020000: "a library that the driver needs is missing",
    _UNINITIALIZED: "no driver",
    0x78000002: "unsupported version",
    0x78000003: "not supported",
}


def read(view: SystemView, libraries: Sequence[str]) -> Answer:
    """Query Level Zero in a child process, and return the raw answer.

    Level Zero cannot list devices without initialising, which must not happen in this process,
    not even in a thread (P-72).
    """
    answer = child_answers.ask(
        view,
        QUESTION,
        level_zero_child,
        libraries,
        hidden="ZE_AFFINITY_MASK",
        version=tables.DATA_VERSION,
    )
    if answer is None:
        return Answer(Ending.NOT_STARTED, errors=b"a frozen application has no interpreter")
    return answer


def parse(answer: Answer, files: IntelFiles, deadline: float = 10.0) -> IntelDriver:
    """Parse the raw answer.

    :param files: the facts from files; a missing answer is a problem only if they show a GPU.
    """
    report = child_answers.read_report(answer, _report)
    child_evidence = child_answers.evidence(answer, f"{QUESTION} child process")
    if report is None:
        problem = child_answers.missing_answer_reason(answer, _QUERIED, deadline)
        return IntelDriver(problem=problem, broken=True, evidence=child_evidence)
    problem, broken = _problem(report)
    # No bus shows whether there is an Intel GPU, and other programs install the loader without one.
    if files.unlisted and not broken:
        problem = ""
    return IntelDriver(
        gpus=report.gpus,
        problem=problem,
        broken=broken,
        evidence=report.calls or (child_evidence if broken else ()),
        warnings=report.warnings,
    )


def decode(version: int) -> DeviceIp:
    """Return the version in the 32 bits of Level Zero (P-133).

    >>> str(decode(0x030DC008))
    '12.55.8'
    """
    return DeviceIp(version >> 22 & 0x3FF, version >> 14 & 0xFF, version & 0x3F)


def _problem(report: _Report) -> tuple[str, bool]:
    """Return the reason there is no usable GPU, and whether that is a failure."""
    if not report.loaded:
        return "the Level Zero loader exists, but cannot be loaded", True
    if report.init is None:
        return "the Level Zero loader lacks the required functions", True
    if report.init == _UNINITIALIZED:
        start = "Level Zero finds no driver with a GPU; install Intel's compute runtime, and get "
        return f"{start}access to /dev/dri/renderD* (group render)", False
    if report.init == _NO_PERMISSION:
        return "Level Zero may not use the GPU; get access to /dev/dri/renderD*", False
    if report.init != 0:
        start = _WORDS.get(report.init, "error")
        return f"Level Zero does not start: {start} ({report.init:#x})", True
    if not report.gpus and not report.warnings:
        return "Level Zero lists no Intel GPU", False
    return "", False


@dataclass(frozen=True, slots=True)
class _Report:
    """The child's answer after every part was checked."""

    calls: tuple[Evidence, ...]
    loaded: bool
    init: int | None
    gpus: tuple[IntelGpu, ...]
    warnings: tuple[str, ...]


def _report(raw: Any) -> _Report:
    gpus, warnings = _devices(raw["devices"])
    return _Report(
        calls=child_answers.calls_of(raw),
        loaded=raw["loaded"] is not None,
        init=None if raw["init"] is None else int(raw["init"]),
        gpus=gpus,
        warnings=warnings,
    )


def _devices(raw: Any) -> tuple[tuple[IntelGpu, ...], tuple[str, ...]]:
    gpus: list[IntelGpu] = []
    warnings: list[str] = []
    for device in raw:
        index = int(device["index"])
        if "code" in device:
            code = int(device["code"])
            words = f"{device['call']} failed: {_WORDS.get(code, 'error')} ({code:#x})"
            warnings.append(f"GPU {index} is left out: {words}")
        elif device["vendor"] == FAMILY.pci_vendor and device["type"] == _GPU:
            version = int(device["ip"])
            name = str(device["name"])
            if version:
                integrated = bool(int(device["flags"]) & _INTEGRATED)
                gpus.append(IntelGpu(index, name, decode(version), integrated))
            else:
                words = (
                    f"GPU {index} ({name}) is left out: the driver does not report its IP version; "
                )
                warnings.append(f"{words}install a newer version of Intel's compute runtime")
    return tuple(gpus), tuple(warnings)
