"""The build of torch that each of six machines gets, from a small copy of its owner's index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.building.plain_wheel import write_plain_wheel
from wheelfit.operations.demo import DemoStep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.operations.context import Context
    from wheelfit.resolution.explain import Explanation
    from wheelfit.sources.open import OpenedSources

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
    """What each machine gets."""

    builds: tuple[MachineBuild, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {
            "version": 1,
            "project": _PROJECT,
            "machines": [
                {
                    "machine": one.machine,
                    "description": one.description,
                    "build": one.build or None,
                    "explanation": one.explanation.to_mapping(),
                }
                for one in self.builds
            ],
        }


def demonstrate_machines(context: Context) -> Iterator[DemoStep | MachinesReport]:
    """Yield what each machine gets, and the report at the end; leave nothing behind.

    :raises WheelfitError: a step failed.
    """
    import tempfile

    with tempfile.TemporaryDirectory(prefix="wheelfit-demo-") as name:
        folder = Path(name)
        yield DemoStep(f"copying the layout of {_PROJECT}'s own index, with small wheels")
        count = sum(_write_release(folder, version) for version in _BUILDS)
        yield DemoStep(line=f"{count} wheels of {len(_BUILDS)} releases")
        yield DemoStep(f"choosing {_PROJECT} for {len(_MACHINES)} machines, without an option")
        builds = []
        for machine in _MACHINES:
            builds.append(_build_for(machine, folder, context))
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


def _build_for(machine: str, folder: Path, context: Context) -> MachineBuild:
    from wheelfit.core.requirements import parse_requirement
    from wheelfit.installation.environment import open_environment
    from wheelfit.operations.context import Reporter
    from wheelfit.operations.machine import choose_machine
    from wheelfit.operations.requests import MachineOptions
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.explain import explain_project
    from wheelfit.sources.bridges.catalogue import BridgeCatalogue
    from wheelfit.sources.bridges.repository import BridgedRepository

    def open_index(url: str, **_of_servers: object) -> OpenedSources:
        return _opened(url, context)

    target = open_environment(None, environ=context.environ, may_be_own=True).target()
    # The steps say which machine it is.
    quiet = replace(context, reporter=Reporter())
    chosen = choose_machine(MachineOptions(host=machine, no_plugins=True), target, quiet)
    words = "" if chosen.host is None else chosen.host.words
    shelf = BridgeCatalogue([f"{_FAMILY}@{folder}"])
    with _opened(str(folder), context) as empty:
        repository = BridgedRepository(empty, shelf, open_index)
        candidates = Candidates(
            repository, chosen.target, chosen.detector, user_lists=chosen.user_lists
        )
        requirement = parse_requirement(_PROJECT, allow_variant_markers=False)
        return MachineBuild(machine, words, explain_project(candidates, requirement))


def _opened(url: str, context: Context) -> OpenedSources:
    """Open a folder as an index and nothing else, with no cache: nothing of it may stay."""
    from wheelfit.sources.open import open_sources
    from wheelfit.sources.settings import SourceSettings

    return open_sources(SourceSettings(index_url=url), cache_folder=None, environ=context.environ)
