"""Captured machines: a folder that stands for a machine, and what detection must say of it.

A captured machine is a folder with

``root/``
    the files that probes look at, below a folder that stands for ``/``;
``environ.json``
    its environment variables (may be missing: none);
``machine.toml``
    ``description``, ``origin``, ``system``, ``architecture``; if need be ``[driver]``
    (what a fake NVIDIA driver shows: ``cuda``, ``driver``, ``devices``, ``libraries``,
    ``settings``), ``[cpuid]`` (recorded answers of the instruction: ``"7.0" =
    "eax:ebx:ecx:edx"`` in hexadecimal, and ``xcr0``) and ``[sysctl]`` (macOS);
``expected.json``
    what detection must say of it.

To add a machine, run ``python -m wheelfit.testing.machines capture <folder>`` on it;
to write ``expected.json`` anew, ``python -m wheelfit.testing.machines expect <folder>``,
and look at the difference.
"""

from __future__ import annotations

import json
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from wheelfit.platforms.discovery import Machine
from wheelfit.platforms.facts import CpuidRegisters, CpuidTable
from wheelfit.platforms.probes import cpuid, sysctl
from wheelfit.platforms.providers import aarch64, nvidia, x86_64
from wheelfit.platforms.surroundings import Surroundings
from wheelfit.testing.drivers import compile_fake_driver

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit.platforms.features import Detection, FeatureConfig
    from wheelfit.testing.drivers import FakeDriver

__all__ = ["capture", "expectation", "main", "needs_driver", "open_machine"]


def __dir__() -> list[str]:
    return __all__


_DRIVER_FOLDER = "{driver}"
"""Stands for the folder of the fake driver in ``expected.json``."""

_VARIABLES = ("WHEELFIT_OVERRIDE_", "NV_VARIANT_PROVIDER_", "CUDA_VISIBLE_DEVICES")
"""Beginnings of the variables that are captured; no others leave the machine."""


def needs_driver(folder: Path) -> bool:
    """Say whether a captured machine wants a fake driver, hence a C compiler.

    :param folder: the captured machine.
    """
    return "driver" in _description(folder)


def open_machine(folder: Path, scratch: Path | None = None) -> Machine:
    """Return the machine that a folder stands for.

    :param folder: the captured machine.
    :param scratch: folder in which its fake driver is compiled; needed if it wants one.
    """
    told = _description(folder)
    environ = {}
    if (folder / "environ.json").is_file():
        environ = json.loads((folder / "environ.json").read_text("utf-8"))
    libraries: tuple[Path, ...] = ()
    if "driver" in told:
        if scratch is None:
            raise ValueError(f"{folder.name} wants a fake driver: give a scratch folder")
        driver = _driver(told["driver"], scratch)
        environ |= _driver_environ(driver, told["driver"])
        libraries = (driver.folder,)
    root = folder / "root"
    return Machine(
        root,
        environ,
        library_folders=libraries,
        system=told["system"],
        architecture=told["architecture"],
        recorded_cpuid=_cpuid_table(told["cpuid"]) if "cpuid" in told else None,
        recorded_sysctl=_sysctl_answers(told["sysctl"]) if "sysctl" in told else None,
    )


def expectation(machine: Machine) -> dict[str, Any]:
    """Return everything detection says of a machine, as ``expected.json`` holds it.

    Lists of values are texts, separated by blanks: the order matters and a
    difference should be readable.
    """
    folders = machine.surroundings.library_folders
    detections = {namespace: machine.detect(namespace) for namespace in machine.namespaces}
    return {
        "overrides": list(machine.overrides_in_effect()),
        **{
            namespace: _plain(detection, folders)
            for namespace, detection in detections.items()
            if detection is not None
        },
    }


def _plain(detection: Detection, library_folders: Sequence[str]) -> dict[str, Any]:
    def portable(text: str) -> str:
        for folder in library_folders:
            text = text.replace(folder, _DRIVER_FOLDER)
        return text

    return {
        "status": str(detection.status),
        "features": _feature_lines(detection.features),
        "devices": {
            device.device: f"{device.feature}: {' '.join(sorted(device.values))}"
            for device in detection.devices
        },
        "warnings": list(detection.warnings),
        "evidence": [f"{portable(e.source)}: {portable(e.value)}" for e in detection.evidence],
    }


def _feature_lines(features: Sequence[FeatureConfig]) -> list[str]:
    """Return one line per feature; neighbours that are just ``on`` share one."""
    lines: list[str] = []
    for feature in features:
        if feature.values != ("on",):
            several = " (several)" if feature.multi_value else ""
            lines.append(f"{feature.name}{several}: {' '.join(feature.values)}")
        elif lines and lines[-1].startswith("on: "):
            lines[-1] += f" {feature.name}"
        else:
            lines.append(f"on: {feature.name}")
    return lines


# --- what machine.toml says ------------------------------------------------------------


def _description(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "machine.toml").read_text("utf-8"))


def _driver(told: Mapping[str, Any], scratch: Path) -> FakeDriver:
    chosen = {"libraries": told["libraries"]} if "libraries" in told else {}
    return compile_fake_driver(scratch, **chosen)


def _driver_environ(driver: FakeDriver, told: Mapping[str, Any]) -> dict[str, str]:
    return driver.environ(
        devices=told.get("devices", ()),
        cuda=told["cuda"],
        driver=told["driver"],
        **told.get("settings", {}),
    )


def _cpuid_table(told: Mapping[str, Any]) -> CpuidTable:
    leaves = {}
    for name, registers in told.items():
        if name != "xcr0":
            leaf, subleaf = (int(number, 16) for number in name.split("."))
            leaves[leaf, subleaf] = CpuidRegisters(*(int(r, 16) for r in registers.split(":")))
    return CpuidTable(leaves, told.get("xcr0"))


def _sysctl_answers(told: Mapping[str, int | str]) -> dict[str, bytes]:
    return {
        name: value.encode() + b"\0" if isinstance(value, str) else value.to_bytes(4, "little")
        for name, value in told.items()
    }


# --- capturing ---------------------------------------------------------------------------


class _Recording(Surroundings):
    """Keep a copy of everything that probes look at."""

    __slots__ = ("destination",)

    def __init__(self, destination: Path, source: Surroundings) -> None:
        names = Surroundings.__dataclass_fields__
        super().__init__(**{name: getattr(source, name) for name in names})
        object.__setattr__(self, "destination", destination)

    def exists(self, name: str) -> bool:
        """Keep an empty file for what exists: a device cannot be copied."""
        found = super().exists(name)
        if found:
            self._keep(name, b"")
        return found

    def read_bytes(self, name: str, limit: int = 16 * 1024 * 1024) -> bytes | None:
        """Keep what was read; the loader's cache names only libraries, and is left out."""
        data = super().read_bytes(name, limit)
        if data is not None and not name.endswith("ld.so.cache"):
            self._keep(name, data)
        return data

    def _keep(self, name: str, data: bytes) -> None:
        destination: Path = object.__getattribute__(self, "destination")
        path = destination / name.replace(":", "").lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if data or not path.exists():
            path.write_bytes(data)


def capture(folder: Path, machine: Machine | None = None) -> None:
    """Write a captured machine into a folder, without ``expected.json``.

    Of the environment only variables that concern detection are kept.

    :param folder: where it goes; made if missing.
    :param machine: what is captured; default: the one this runs on.
    """
    seen = (machine or Machine()).surroundings
    recording = _Recording(folder / "root", seen)
    (folder / "root").mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {
        "description": f"{seen.system} on {seen.architecture}",
        "origin": "captured",
        "system": seen.system,
        "architecture": seen.architecture,
    }
    driver = nvidia.read(recording)
    if driver.cuda_version is not None:
        told["driver"] = {
            "cuda": str(driver.cuda_version),
            "driver": driver.driver_version or "",
            "devices": [f"{gpu.capability} {gpu.name}" for gpu in driver.gpus],
        }
    if seen.architecture == "x86_64":
        x86_64.read(recording)
    if seen.architecture == "aarch64":
        aarch64.read(recording)
    table = cpuid.read(seen)
    if table is not None:
        told["cpuid"] = {
            f"{leaf:x}.{subleaf:x}": ":".join(f"{register:08x}" for register in registers)
            for (leaf, subleaf), registers in table.leaves.items()
        }
        if table.xcr0 is not None:
            told["cpuid"]["xcr0"] = table.xcr0
    answers = sysctl.read(seen, (*sysctl.X86_NAMES, *sysctl.ARM_NAMES))
    if answers:
        told["sysctl"] = {name: _sysctl_value(raw) for name, raw in answers.items()}
    environ = {n: v for n, v in seen.environ.items() if n.startswith(_VARIABLES)}
    (folder / "environ.json").write_text(json.dumps(environ, indent=2) + "\n", "utf-8")
    (folder / "machine.toml").write_text(tomli_w.dumps(told), "utf-8")


def _sysctl_value(raw: bytes) -> int | str:
    if raw.endswith(b"\0") and raw[:-1].isascii() and raw[:1].isalpha():
        return raw.rstrip(b"\0").decode()
    return int.from_bytes(raw, "little")


def main(arguments: Sequence[str]) -> None:
    """Capture this machine, or write what detection says of captured ones.

    :param arguments: ``capture`` or ``expect``, then folders.
    """
    verb, *folders = arguments
    for folder in map(Path, folders):
        if verb == "capture":
            capture(folder)
        with tempfile.TemporaryDirectory() as scratch:
            told = expectation(open_machine(folder, Path(scratch)))
        text = json.dumps(told, indent=2, ensure_ascii=False) + "\n"
        (folder / "expected.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
