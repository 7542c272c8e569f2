"""Findings about the detected machine and its interpreter."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wheelfit.checking.findings import Finding, Location, Severity
from wheelfit.core.abi_dependency import ABI_OVERRIDE
from wheelfit.doctor import diagnoses
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.child_processes import Answer, Ending, Processes, Question
from wheelfit_runtime.platforms.features import Detection, Status
from wheelfit_runtime.platforms.override_names import unknown_overrides
from wheelfit_runtime.platforms.probes import sysctl
from wheelfit_runtime.platforms.providers.nvidia import files as nvidia_files
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability, NvidiaFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from wheelfit.core.target import Target
    from wheelfit_runtime.platforms.system_view import SystemView

_ARCHITECTURES_32 = frozenset({"i686", "armv7l", "armv8l"})
_ARCHITECTURES_64 = frozenset({"x86_64", "amd64", "aarch64", "arm64"})
_INTEGRATED_GPU = "0000:00:02.0"
"""The bus address of Intel's integrated GPU."""


def read_nvidia_files(view: SystemView) -> NvidiaFiles:
    """Return the signs of NVIDIA's hardware and driver (P-96)."""
    return nvidia_files.parse(nvidia_files.read(view))


def detection_findings(
    detections: Iterable[Detection], files: NvidiaFiles, *, translated: bool = False
) -> Iterator[Finding]:
    """Yield findings about failed detections, and about their warnings.

    :param translated: whether the interpreter runs through Rosetta 2; warnings that follow from it
        are left out, as `interpreter_findings` reports it.
    """
    for detection in detections:
        location = Location(detection.namespace)
        match detection.status:
            case Status.FAILED:
                yield location.finding(diagnoses.DETECTION_FAILED, _reason(detection))
                continue
            case Status.DISABLED if detection.warnings:
                yield location.finding(diagnoses.OVERRIDE_UNREADABLE, _reason(detection))
                continue
            case _:
                pass
        already_reported = (
            detection.warnings if translated and detection.namespace == "x86_64" else ()
        )
        if detection.namespace == "nvidia" and detection.status is Status.NOTHING:
            # It has all warnings, so a finding with this reason replaces one for each warning.
            reason = _reason(detection)
            has_no_driver = bool(files.pci_devices) and not files.has_driver
            has_no_libraries = files.has_driver and "missing" in reason
            if has_no_driver:
                already_reported = detection.warnings
                yield location.finding(diagnoses.DRIVER_MISSING, reason)
            elif has_no_libraries:
                already_reported = detection.warnings
                yield location.finding(diagnoses.DRIVER_UNREACHABLE, reason)
        for warning in detection.warnings:
            if warning not in already_reported:
                # The GPU in a processor is rarely used to compute; other GPUs have other addresses.
                severity = Severity.NOTE if f"(PCI {_INTEGRATED_GPU})" in warning else None
                remedy = "update NVIDIA's driver" if "is too old" in warning else ""
                yield location.finding(
                    diagnoses.DETECTION_WARNING, warning, remedy=remedy, severity=severity
                )
        yield from _driver_version_findings(detection, location)


def _driver_version_findings(detection: Detection, location: Location) -> Iterator[Finding]:
    """Yield evidence that NVIDIA's libraries and kernel module are of two releases (P-94)."""
    evidence = {entry.source: entry.value for entry in detection.evidence}
    if package := evidence.get("forward compatibility"):
        yield location.finding(diagnoses.FORWARD_COMPATIBLE, package)
    elif versions := evidence.get("driver versions"):
        kernel, library = (_numbers_in(text) for text in versions.split(",", 1))
        is_newer = library > kernel
        check = diagnoses.FORWARD_COMPATIBLE if is_newer else diagnoses.DRIVER_VERSIONS_DIFFER
        yield location.finding(check, versions)


def _numbers_in(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]+", text)]


def _reason(detection: Detection) -> str:
    return "; ".join(
        detection.warnings or (f"{entry.source}: {entry.value}" for entry in detection.evidence)
    )


def override_findings(
    overrides: Iterable[str], view: SystemView, namespaces: Iterable[str]
) -> Iterator[Finding]:
    """Yield findings about variables that override detection (P-73).

    :param overrides: those in effect, as ``NAME=value``.
    """
    for override in overrides:
        name = override.partition("=")[0]
        yield Location(name).finding(
            diagnoses.OVERRIDE_IN_EFFECT, f"{override} replaces what is detected"
        )
    if declared := view.environ.get(ABI_OVERRIDE):  # P-57
        yield Location(ABI_OVERRIDE).finding(
            diagnoses.OVERRIDE_IN_EFFECT,
            f"{ABI_OVERRIDE}={declared} replaces the versions of installed packages",
        )
    for name in unknown_overrides(view.environ, namespaces):
        yield Location(name).finding(
            diagnoses.OVERRIDE_WITHOUT_PROVIDER,
            f"{name} has no effect: no provider has this namespace",
        )


def interpreter_findings(target: Target, view: SystemView) -> Iterator[Finding]:
    """Yield findings about an interpreter that does not fit its machine."""
    machine = target.environment.get("platform_machine", "")
    if target.architecture in _ARCHITECTURES_32 and machine.lower() in _ARCHITECTURES_64:
        yield Location(target.name).finding(
            diagnoses.NARROW_INTERPRETER,
            f"the interpreter is for {target.architecture}, and the machine is {machine}",
        )
    if is_translated(view):
        yield Location(target.name).finding(
            diagnoses.TRANSLATED,
            "this Python was built for Intel processors and runs through Rosetta 2, without AVX",
        )


def is_translated(view: SystemView) -> bool:
    """Return whether the interpreter runs through Rosetta 2 on a Mac (P-106)."""
    if view.system != "Darwin":
        return False
    name = sysctl.TRANSLATED
    return any(sysctl.read(view, (name,)).get(name, b""))


ACCELERATORS: Mapping[str, str] = {
    family.namespace: family.presence for family in providers.accelerators() if family.presence
}
"""Namespaces of accelerators, and the feature whose values show a device."""

_SM_ARCH = re.compile(r"([0-9]+)([0-9])_real")
_VERSION = re.compile(r"([0-9]+)\.([0-9]+)")
_EXAMINED = (Status.SUPPORTED, Status.NOTHING)


@dataclass(frozen=True, slots=True)
class Hardware:
    """The facts about a machine's accelerators that installed packages depend on."""

    examined: frozenset[str] = frozenset()
    """Namespaces with a known state, even if nothing is supported."""
    present: frozenset[str] = frozenset()
    """Namespaces with a device that can be used."""
    cuda: Capability | None = None
    """The CUDA version of the driver, as 12.8; None without a driver."""
    capabilities: tuple[Capability, ...] = ()
    """The compute capabilities of the GPUs, the highest first, each once."""
    windows: bool = False
    """Whether the drivers are those for Windows, which are numbered in their own way."""

    @classmethod
    def of(cls, detections: Iterable[Detection], *, windows: bool = False) -> Hardware:
        """Return the hardware that detections show.

        :param windows: whether they are of a machine with Windows.
        """
        by_namespace = {
            detection.namespace: detection
            for detection in detections
            if detection.status in _EXAMINED
        }
        examined = frozenset(by_namespace)
        present = frozenset(
            namespace
            for namespace, feature in ACCELERATORS.items()
            if namespace in examined and by_namespace[namespace].values_of(feature)
        )
        nvidia = by_namespace.get("nvidia")
        if nvidia is None:
            return cls(examined, present, windows=windows)
        return cls(
            examined,
            present,
            _highest(nvidia.values_of("cuda_version_lower_bound"), _VERSION),
            _capabilities(nvidia),
            windows,
        )


def _capabilities(nvidia: Detection) -> tuple[Capability, ...]:
    devices = [device.values for device in nvidia.devices if device.feature == "sm_arch"]
    groups = devices or [frozenset(nvidia.values_of("sm_arch"))]
    highest = {_highest(group, _SM_ARCH) for group in groups}
    return tuple(sorted(filter(None, highest), reverse=True))


def _highest(values: Iterable[str], pattern: re.Pattern[str]) -> Capability | None:
    numbers = [
        Capability(int(match[1]), int(match[2]))
        for value in values
        if (match := pattern.fullmatch(value))
    ]
    return max(numbers, default=None)


@dataclass(frozen=True, slots=True)
class TimedProbe:
    """The outcome and duration of one child process."""

    name: str
    """The query, such as ``nvidia-smi -q``."""
    seconds: float
    ending: Ending
    code: int
    """Exit status, or the number of the signal that ended it."""

    def __str__(self) -> str:
        descriptions = {
            Ending.EXITED: f"exit status {self.code}",
            Ending.KILLED: f"crashed with signal {self.code}",
            Ending.LATE: "timed out",
            Ending.FLOODED: "stopped, as it wrote too much",
            Ending.NOT_STARTED: "could not be started",
        }
        return descriptions[self.ending]


@dataclass(frozen=True, slots=True)
class TimedProcesses:
    """A wrapper of ``Processes`` that records the duration of each child process."""

    processes: Processes
    clock: Callable[[], float] = time.perf_counter
    probes: list[TimedProbe] = field(default_factory=list)
    """The finished child processes, in the order in which they ended."""

    def ask(self, question: Question) -> Answer:
        """Run a child process, and record its duration."""
        started = self.clock()
        answer = self.processes.ask(question)
        seconds = self.clock() - started
        self.probes.append(TimedProbe(question.name, seconds, answer.ending, answer.code))
        return answer
