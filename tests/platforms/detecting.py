"""Machines that are folders, and what is detected on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wheelfit_runtime.platforms import recording
from wheelfit_runtime.platforms.child_processes import Answer, Question
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Detection
from wheelfit_runtime.platforms.system_view import SystemView

MACHINES = Path(__file__).parents[1] / "machines"
"""The captured machines."""


def view_of(root: Path, environ: Mapping[str, str] | None = None, **more: Any) -> SystemView:
    """Return the view of the machine below a folder: Linux on x86-64 without variables.

    :param more: other fields of the view, or other values of these.
    """
    usual = {"system": "Linux", "architecture": "x86_64"}
    return SystemView(str(root), environ or {}, **usual | more)


def detection_of(namespace: str, machine: Machine) -> Detection:
    """Return what a machine supports of a namespace that has a provider."""
    detection = machine.detect(namespace)
    assert detection is not None
    return detection


def detect(
    namespace: str, root: Path, environ: Mapping[str, str] | None = None, **more: Any
) -> Detection:
    """Return what the machine of `view_of` supports of a namespace."""
    return detection_of(namespace, Machine(view_of(root, environ, **more)))


def detect_captured(namespace: str, name: str, **environ: str) -> Detection:
    """Return what a captured machine supports of a namespace, with some more variables."""
    given = recording.view_arguments(MACHINES / name)
    given["environ"] |= environ
    return detection_of(namespace, Machine(SystemView(**given)))


def values_of(detection: Detection) -> dict[str, tuple[str, ...]]:
    """Return the supported values by feature, in the order of the features."""
    return {feature.name: feature.values for feature in detection.features}


def names_of(detection: Detection) -> list[str]:
    """Return the names of the supported features, in their order."""
    return [feature.name for feature in detection.features]


class FakeProcesses:
    """Child processes that answer as planned, and the questions that they were asked.

    :param answer: the answer to every question, or one for each program.
    """

    def __init__(self, answer: Answer | Mapping[str, Answer]) -> None:
        self.answer = answer
        self.questions: list[Question] = []

    @property
    def asked(self) -> list[str]:
        """The names of the questions."""
        return [question.name for question in self.questions]

    def ask(self, question: Question) -> Answer:
        """Return the planned answer."""
        self.questions.append(question)
        if isinstance(self.answer, Answer):
            return self.answer
        return self.answer[question.name.partition(" ")[0]]


def write_files(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files below the root of a machine, by their paths on it."""
    for name, content in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def touch(root: Path, *names: str) -> None:
    """Write empty files, as device nodes are below a root."""
    write_files(root, dict.fromkeys(names, ""))


def write_program(root: Path, name: str, script: str) -> None:
    """Write a shell script that can be run."""
    write_files(root, {name: f"#!/bin/sh\n{script}"})
    (root / name.lstrip("/")).chmod(0o755)


def add_device(
    root: Path,
    address: str,
    *,
    vendor: str,
    device: str = "0x0001",
    kind: str = "0x030000",
    driver: str = "",
) -> Path:
    """Put a device on the PCI bus and return its folder.

    :param address: as ``0000:03:00.0``.
    :param kind: class of the device.
    :param driver: which driver has it; none when empty.
    """
    folder = root / "sys/bus/pci/devices" / address.replace(":", "_")
    uevent = f"DRIVER={driver}\n" if driver else ""
    files = {"vendor": vendor, "device": device, "class": kind, "uevent": f"{uevent}PCI_CLASS=1"}
    write_files(folder, {name: f"{text}\n" for name, text in files.items()})
    return folder


def add_intel_gpu(
    root: Path, address: str = "0000:03:00.0", driver: str = "xe", node: str = "renderD128"
) -> None:
    """Put a GPU of Intel's on the bus, with its render node."""
    folder = add_device(root, address, vendor="0x8086", device="0x56a0", driver=driver)
    touch(folder, f"drm/{node}")
    touch(root, f"dev/dri/{node}")
