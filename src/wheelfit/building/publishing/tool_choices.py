"""The wheels of a release that installers would choose, before it is published.

No installer is run: the rules of pip and uv are reimplemented (`checking.tool_profiles`), and the
machines are presets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from wheelfit.checking.tool_profiles import is_read_by_uv, uv_detections
from wheelfit.core.abi_dependency import KnownVersions
from wheelfit.core.accelerators import ACCELERATORS, accelerators_of
from wheelfit.core.core_metadata import read_metadata
from wheelfit.core.host_file import HostDetector, HostInterpreter
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.core.property_support import Support, namespaces_used, support_for
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.selection import select
from wheelfit.locking.environments import environments_for
from wheelfit.resolution.preset_hosts import host_of_preset
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.platforms.features import Status
from wheelfit_runtime.platforms.known_platforms import PYTHONS
from wheelfit_runtime.platforms.presets import compose

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.building.publishing.release_files import OutgoingFile
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.target import Target
    from wheelfit.sources.page import File

    Python = tuple[int, int]

MACHINES = (
    "cpu-x86_64-v1",
    "cpu-x86_64-v2",
    "cpu-x86_64-v3",
    "cpu-x86_64-v4",
    "cpu-aarch64-8.2a",
    "musllinux-x86_64+cpu-x86_64-v3",
    "macos-arm64",
    "windows-x86_64+cpu-x86_64-v3",
    "cuda-11.8-sm70+cpu-x86_64-v3",
    "cuda-13.0-sm90+cpu-x86_64-v4",
    "rocm-6.4-gfx942+cpu-x86_64-v4",
    "intel-arc-b580+cpu-x86_64-v3",
)
"""Presets of the simulated machines."""

Tool = Literal["pip", "uv", "uv --preview", "wheelfit"]
TOOLS: tuple[Tool, ...] = ("pip", "uv", "uv --preview", "wheelfit")
Outcome = Literal["best", "slower", "no-accelerator", "source", "nothing"]
"""``best``: the choice of wheelfit; ``slower``: a build for lesser machines; ``no-accelerator``: a
CPU-only build on a machine whose accelerator the release supports; ``source``: the source
distribution would be built; ``nothing``: the release cannot be installed.
"""


class OfferedWheel(NamedTuple):
    """A wheel of a release as installers see it."""

    filename: WheelFilename
    requires_python: SpecifierSet | None = None
    has_variant_markers: bool = False
    """Whether its dependencies have variant markers, which pip and uv do not read (F-154)."""


def read_outgoing_wheel(file: OutgoingFile) -> OfferedWheel:
    """Read a wheel to upload, which must be valid."""
    with WheelArchive(file.path) as wheel:
        core = read_metadata(wheel.metadata(), str(file.path))
        filename = wheel.filename
    requirements = [
        parse_requirement(text, allow_variant_markers=True) for text in core.requires_texts
    ]
    markers = [requirement.marker for requirement in requirements if requirement.marker is not None]
    has_variant_markers = any(marker.uses_variants for marker in markers)
    return OfferedWheel(filename, core.requires_python, has_variant_markers)


def listed_wheel(file: File, filename: WheelFilename) -> OfferedWheel:
    """Return a wheel on an index; its dependencies are not read."""
    try:
        return OfferedWheel(filename, SpecifierSet(file.requires_python or ""))
    except InvalidSpecifier:  # installers ignore it
        return OfferedWheel(filename)


@dataclass(frozen=True, slots=True)
class PlannedRelease:
    """A release as it will be after publishing."""

    name: NormalizedName
    version: Version
    wheels: tuple[OfferedWheel, ...]
    document: VariantDocument | None = None
    """Its future ``-variants.json``; None if there are no variants, or they contradict each other.
    """
    has_source: bool = False


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The choice of one tool on one machine."""

    tool: Tool
    outcome: Outcome
    wheel: WheelFilename | None = None

    @property
    def build(self) -> str:
        """The label, or ``plain``, or the outcome without a wheel."""
        if self.wheel is None:
            return self.outcome
        return self.wheel.label or "plain"

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            "tool": self.tool,
            "outcome": self.outcome,
            "filename": None if self.wheel is None else self.wheel.text,
            "label": None if self.wheel is None else self.wheel.label,
        }


@dataclass(frozen=True, slots=True)
class MachineChoices:
    """The choices of all tools on one machine."""

    machine: str
    """The preset, as for ``--for``."""
    description: str
    choices: tuple[ToolChoice, ...]

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data."""
        tools = [choice.to_mapping() for choice in self.choices]
        return {"machine": self.machine, "description": self.description, "tools": tools}


@dataclass(frozen=True, slots=True)
class ReleaseChoices:
    """The choices of every tool in a release on every machine."""

    name: NormalizedName
    version: Version
    python: str
    """The Python of all machines, such as ``3.13``."""
    machines: tuple[MachineChoices, ...]

    def warnings(self) -> Iterator[str]:
        """Yield the machines on which tools find nothing, or silently choose a slower build."""
        for outcome, words in _WARNINGS.items():
            tools_by_machines: dict[tuple[str, ...], list[str]] = {}
            for tool in TOOLS:
                if machines := self._machines_with(tool, outcome):
                    tools_by_machines.setdefault(machines, []).append(tool)
            for machines, tools in tools_by_machines.items():
                yield f"{', '.join(tools)}: {words}: {', '.join(machines)}"

    def _machines_with(self, tool: Tool, outcome: Outcome) -> tuple[str, ...]:
        return tuple(
            row.machine
            for row in self.machines
            for choice in row.choices
            if (choice.tool, choice.outcome) == (tool, outcome)
        )

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "project": self.name,
            "version": str(self.version),
            "python": self.python,
            "machines": [machine.to_mapping() for machine in self.machines],
            "warnings": list(self.warnings()),
        }


_WARNINGS: dict[Outcome, str] = {
    "nothing": "nothing can be installed",
    "source": "the source distribution is built",
    "no-accelerator": "silently a build without the accelerator",
    "slower": "silently a slower build than the machine can run",
}


def tool_choices(release: PlannedRelease, machines: Sequence[str] = MACHINES) -> ReleaseChoices:
    """Return the choices of all tools for a release."""
    python = _newest_python(release)
    base = environments_for(["linux-x86_64"], [python])[0].target
    rows = tuple(_on_machine(release, name, base) for name in machines)
    return ReleaseChoices(release.name, release.version, ".".join(map(str, python)), rows)


def _newest_python(release: PlannedRelease) -> Python:
    """Return the newest Python with a wheel of its own; else the newest one in common use.

    A Python with more than two bug-fix releases counts as in common use.
    """
    pythons = {
        python
        for wheel in release.wheels
        for tag in wheel.filename.tags
        for python in PYTHONS
        if tag.interpreter == f"cp{python[0]}{python[1]}" and tag.abi not in ("abi3", "abi3t")
    }
    return max(pythons or (python for python, micro in PYTHONS.items() if micro > 2))


def _on_machine(release: PlannedRelease, name: str, base: Target) -> MachineChoices:
    preset = compose([name])
    host, _ = host_of_preset(preset, interpreter=HostInterpreter(base.python_full_version))
    chooser = _MachineChooser(release, host.target(base, name), HostDetector(host, name, "preset"))
    best = chooser.wheelfit()
    chosen: dict[Tool, WheelFilename | None] = {
        "pip": chooser.pip(),
        "uv": chooser.pip(),
        "uv --preview": chooser.uv_preview(),
        "wheelfit": best,
    }
    choices = tuple(
        ToolChoice(tool, chooser.outcome(wheel, best), wheel) for tool, wheel in chosen.items()
    )
    return MachineChoices(name, preset.description, choices)


class _MachineChooser:
    """The choice of each tool on one machine."""

    def __init__(self, release: PlannedRelease, target: Target, detector: HostDetector) -> None:
        self._release = release
        self._target = target
        document = release.document
        self._support = Support()
        if document is not None:
            self._support = support_for(
                document,
                None,
                environment=target.environment,
                host_detector=detector,
                namespaces=namespaces_used(document.variants.values()),
                known=KnownVersions(is_open=True),
            )

    def wheelfit(self) -> WheelFilename | None:
        """Return the wheel that wheelfit selects, of all labels."""
        return self._select(self._release.wheels, self._support)

    def pip(self) -> WheelFilename | None:
        """Return the plain wheel with the best tags; pip ignores variants."""
        plain = [wheel for wheel in self._release.wheels if not wheel.filename.is_variant]
        return self._unless_unreadable(self._select(plain, Support()))

    def uv_preview(self) -> WheelFilename | None:
        """Return the wheel with the best label among those that uv's providers support."""
        document = self._release.document
        if document is None:
            return self.pip()
        if not is_read_by_uv(document):
            return None  # one fault makes the whole release unusable
        detections = uv_detections(document, self._support.detections)
        support = Support(detections, examined=self._support.examined)
        listed = [
            wheel
            for wheel in self._release.wheels
            if wheel.filename.label is None or wheel.filename.label in document.variants
        ]
        return self._unless_unreadable(self._select(listed, support, checks_python_last=True))

    def outcome(self, wheel: WheelFilename | None, best: WheelFilename | None) -> Outcome:
        """Compare a choice with the best wheel of the machine."""
        if wheel is None:
            return "source" if self._release.has_source else "nothing"
        if self._usable_accelerators() and not accelerators_of(self._properties(wheel)):
            return "no-accelerator"
        return "best" if best is None or wheel.label == best.label else "slower"

    def _usable_accelerators(self) -> Collection[str]:
        """Return the accelerators of the machine for which the release has builds."""
        document = self._release.document
        variants = () if document is None else document.variants.values()
        accelerators = {name for properties in variants for name in accelerators_of(properties)}
        return {
            name
            for name, detection in self._support.detections.items()
            if name in accelerators & ACCELERATORS.keys() and detection.status is Status.SUPPORTED
        }

    def _properties(self, wheel: WheelFilename) -> PropertySet:
        document = self._release.document
        if document is None or wheel.label is None:
            return EMPTY
        return document.properties(wheel.label) or EMPTY

    def _select(
        self, wheels: Sequence[OfferedWheel], support: Support, *, checks_python_last: bool = False
    ) -> WheelFilename | None:
        """Return the best wheel, or None.

        :param checks_python_last: whether Requires-Python is compared after the choice (F-94): if
            it excludes the best wheel, no wheel is chosen. Else excluded wheels are left out
            before.
        """
        unsupported = {
            wheel.filename.text: "Requires-Python"
            for wheel in wheels
            if not self._supports_python(wheel)
        }
        chosen = select(
            [wheel.filename for wheel in wheels],
            document=self._release.document,
            support=support,
            tags=self._target.tags,
            extra_rejections={} if checks_python_last else unsupported,
        ).chosen
        return None if chosen is not None and chosen.text in unsupported else chosen

    def _supports_python(self, wheel: OfferedWheel) -> bool:
        specifier = wheel.requires_python
        return specifier is None or specifier.contains(
            self._target.python_full_version, prereleases=True
        )

    def _unless_unreadable(self, wheel: WheelFilename | None) -> WheelFilename | None:
        """Return the chosen wheel; None if pip and uv cannot read its metadata (F-154).

        They read the metadata of the chosen wheel only, and then skip the release.
        """
        unreadable = {
            offered.filename for offered in self._release.wheels if offered.has_variant_markers
        }
        return None if wheel in unreadable else wheel
