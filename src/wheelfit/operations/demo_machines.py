"""The build of torch that each of six machines gets, from a small copy of its owner's index."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.building.plain_wheel import write_plain_wheel
from wheelfit.operations.demo import Demo, DemoStep
from wheelfit.operations.plain_data import plain_fields

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
"""The builds of releases in the index, as of November 2026."""
_PLATFORMS = ("manylinux_2_28_x86_64", "win_amd64")
_MAC = "macosx_14_0_arm64"
_MACHINES = (
    "cpu-linux", "h100-580", "v100-535", "rtx5090-windows", "mi300x-rocm7", "mac-m3",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MachineBuild:
    """The build that a machine gets."""

    machine: str
    """The name of a preset."""
    description: str
    explanation: Explanation

    @property
    def build(self) -> str:
        """The release with its build, as ``2.15.0+cpu``; empty: none fits."""
        return "" if self.explanation.chosen is None else str(self.explanation.chosen.version)


@dataclass(frozen=True, slots=True)
class MachinesReport:
    """The choice of each machine."""

    builds: tuple[MachineBuild, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {
            "version": 1,
            "project": _PROJECT,
            "machines": [
                plain_fields(one, "machine description explanation", build=one.build or None)
                for one in self.builds
            ],
        }


def demonstrate_machines(context: Context) -> Iterator[DemoStep | MachinesReport]:
    """Yield the choice for each machine, and the report at the end; remove all files after that."""
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
            words = "" if report.machine.host is None else report.machine.host.words
            builds.append(MachineBuild(machine, words, report.explanations[0]))
            yield DemoStep(line=f"{machine}: {builds[-1].build or 'nothing'}")
            yield DemoStep(line=f"  {builds[-1].description}")
    yield DemoStep("done; everything the demo made is gone")
    yield MachinesReport(tuple(builds))


def _write_release(folder: Path, version: str) -> int:
    """Write the wheels of a release as the index has them; return how many."""
    count = 0
    for build in _BUILDS[version]:
        place = folder / build / _PROJECT
        place.mkdir(parents=True, exist_ok=True)
        platforms = _PLATFORMS[:1] if build.startswith("rocm") else _PLATFORMS
        written = [(f"{version}+{build}", platform) for platform in platforms]
        written += [(version, _MAC)] if build == "cpu" else []
        for local, platform in written:
            path = write_plain_wheel(place, _PROJECT, local, {"torch.py": ""})
            path.rename(place / path.name.replace("-any.whl", f"-{platform}.whl"))
        count += len(written)
    return count
