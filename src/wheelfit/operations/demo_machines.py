"""A demonstration: the build of torch that six machines get from a small copy of its index."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.building.plain_wheel import write_plain_wheel
from wheelfit.operations.demo import Demo, DemoStep
from wheelfit.operations.plain_data import plain_fields, plain_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.operations.context import Context
    from wheelfit.resolution.explain import Explanation

_PROJECT = "torch"
_FAMILY = "pytorch"
_BUILDS = {
    "2.13.0": ("cpu", "cu126", "cu130", "cu132", "rocm7.2"),
    "2.14.1": ("cpu", "cu126", "cu130", "cu132"),
    "2.15.0": ("cpu", "cu130", "cu132"),
}
"""The builds of each release in the index, as of November 2026."""
_PLATFORMS = ("manylinux_2_28_x86_64", "win_amd64")
_MAC = "macosx_14_0_arm64"
_MACHINES = (
    "cpu-linux", "h100-580", "v100-535", "rtx5090-windows", "mi300x-rocm7", "mac-m3",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MachineBuild:
    """The build that is chosen for a machine."""

    machine: str
    """The name of a preset."""
    description: str
    explanation: Explanation

    @property
    def build(self) -> str:
        """The version with its build, such as ``2.15.0+cpu``; empty if none is compatible."""
        return "" if self.explanation.chosen is None else str(self.explanation.chosen.version)


@dataclass(frozen=True, slots=True)
class MachinesReport:
    """The build for each machine."""

    builds: tuple[MachineBuild, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        machines = [
            plain_fields(row, "machine description explanation", build=row.build or None)
            for row in self.builds
        ]
        return plain_report(self, project=_PROJECT, machines=machines)


def demonstrate_machines(context: Context) -> Iterator[DemoStep | MachinesReport]:
    """Yield the steps of the demonstration, and the report at the end; no file is left."""
    with tempfile.TemporaryDirectory(prefix="wheelfit-demo-") as name:
        folder = Path(name)
        yield DemoStep(f"copying the layout of {_PROJECT}'s own index, with small wheels")
        count = sum(_write_release(folder, version) for version in _BUILDS)
        yield DemoStep(line=f"{count} wheels of {len(_BUILDS)} releases")
        yield DemoStep(f"choosing {_PROJECT} for {len(_MACHINES)} machines, without an option")
        builds = []
        demo = Demo(folder, str(folder), context, bridge=f"{_FAMILY}@{folder}")
        for machine in _MACHINES:
            report = demo.explain(_PROJECT, machine)
            description = "" if report.machine.host is None else report.machine.host.description
            builds.append(MachineBuild(machine, description, report.explanations[0]))
            yield DemoStep(line=f"{machine}: {builds[-1].build or 'nothing'}")
            yield DemoStep(line=f"  {builds[-1].description}")
    yield DemoStep("done; all files of the demo were removed")
    yield MachinesReport(tuple(builds))


def _write_release(folder: Path, version: str) -> int:
    """Write the wheels of a release in the layout of the index, and return their number."""
    count = 0
    for build in _BUILDS[version]:
        project_folder = folder / build / _PROJECT
        project_folder.mkdir(parents=True, exist_ok=True)
        platforms = _PLATFORMS[:1] if build.startswith("rocm") else _PLATFORMS
        wheels = [(f"{version}+{build}", platform) for platform in platforms]
        if build == "cpu":
            wheels.append((version, _MAC))
        for wheel_version, platform in wheels:
            path = write_plain_wheel(project_folder, _PROJECT, wheel_version, {"torch.py": ""})
            path.rename(project_folder / path.name.replace("-any.whl", f"-{platform}.whl"))
        count += len(wheels)
    return count
