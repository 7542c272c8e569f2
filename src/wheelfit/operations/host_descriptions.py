"""Descriptions of machines: those that there are, what is in one, and what differs in two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.core.host_difference import host_differences
from wheelfit.core.host_file import HostDetector, HostFile
from wheelfit.installation.environment import open_environment
from wheelfit.operations.detections import detection_json
from wheelfit.operations.hosts import Host, hosts_folder, load_host_file, open_host, own_hosts
from wheelfit_runtime.errors import WheelfitError
from wheelfit_runtime.platforms.presets import preset_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wheelfit.core.host_difference import Difference
    from wheelfit.core.target import Target
    from wheelfit.operations.context import Context
    from wheelfit_runtime.platforms.features import Detection
    from wheelfit_runtime.platforms.preset_parts import PresetLine

THIS = "this"
"""The name of this machine."""


@dataclass(frozen=True, slots=True)
class OwnHost:
    """A host file of the user's own."""

    name: str
    path: Path
    about: str
    """What it describes, or why it cannot be used, in a line."""


@dataclass(frozen=True, slots=True)
class HostList:
    """The host files of the user, and the parts of presets."""

    folder: Path
    own: tuple[OwnHost, ...]
    presets: tuple[PresetLine, ...]

    def presets_by_kind(self) -> dict[str, list[PresetLine]]:
        """Return the parts of presets by the kind of hardware, as the headings name it."""
        from wheelfit_runtime.platforms import families

        kinds = {"cpu": "processors"} | {
            family.presets.name: f"{family.devices}{family.presets.note}"
            for family in families.accelerators()
            if family.presets is not None
        }
        found: dict[str, list[PresetLine]] = {}
        for one in self.presets:
            kind = kinds.get(one.pattern.partition("-")[0], "platforms")
            found.setdefault(kind, []).append(one)
        return found

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {
            "version": 1,
            "folder": str(self.folder),
            "own": [
                {"name": one.name, "path": str(one.path), "about": one.about} for one in self.own
            ],
            "presets": [
                {"pattern": one.pattern, "example": one.example, "about": one.words}
                for one in self.presets
            ],
        }


@dataclass(frozen=True, slots=True)
class HostReport:
    """Everything that is known of a machine."""

    host: Host
    target: Target
    detections: tuple[Detection, ...]

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms of its wheel tags, the best first."""
        tags = self.target.tags
        return tuple(dict.fromkeys(tag.platform for tag in tags if tag.platform != "any"))

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        file, target = self.host.file, self.target
        return {
            "version": 1,
            "host": self.host.to_mapping(),
            "interpreter": {
                "implementation": target.environment["implementation_name"],
                "version": str(target.python_full_version),
                "stated": file.interpreter is not None,
            },
            "platforms": list(self.platforms),
            "tags": len(target.tags),
            "environment": dict(sorted(target.environment.items())),
            "namespaces": {one.namespace: detection_json(one) for one in self.detections},
            "filters": [
                {
                    "namespace": entry.namespace,
                    "plugin_api": entry.plugin_api,
                    "resolved": list(entry.resolved),
                }
                for entry in file.providers
                if entry.plugin_api or entry.resolved
            ],
            "notes": [*self.host.notes, *file.notes],
        }


@dataclass(frozen=True, slots=True)
class HostComparison:
    """What differs between two machines."""

    left: Host
    right: Host
    differences: tuple[Difference, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {
            "version": 1,
            "left": self.left.to_mapping(),
            "right": self.right.to_mapping(),
            "equal": not self.differences,
            "differences": [one.to_mapping() for one in self.differences],
        }


def list_hosts(words: Sequence[str], context: Context) -> HostList:
    """Return the host files of the user, and the parts of presets.

    :param words: each must be in the name or the description; empty: all.
    :param context: the surroundings.
    """

    def matches(*texts: str) -> bool:
        return all(any(word.lower() in text.lower() for text in texts) for word in words)

    own = (OwnHost(name, path, _about(path)) for name, path in own_hosts(context.environ).items())
    return HostList(
        hosts_folder(context.environ),
        tuple(one for one in own if matches(one.name, one.about)),
        tuple(one for one in preset_lines() if matches(*one)),
    )


def show_host(name: str, context: Context) -> HostReport:
    """Return everything that is known of a machine.

    :param name: a host file, a preset, or ``this``.
    :param context: the surroundings.
    :raises UnknownHost: there is nothing of that name.
    """
    current = _current(context)
    host = _open(name, current, context)
    detector = HostDetector(host.file, host.name, host.kind)
    namespaces = dict.fromkeys(entry.namespace for entry in host.file.providers)
    detections = tuple(detector.detect(namespace) for namespace in namespaces)
    return HostReport(host, host.file.target(current, host.name), detections)


def compare_hosts(first: str, second: str, context: Context) -> HostComparison:
    """Return what differs between two machines.

    :param first: as in `show_host`.
    :param second: the same.
    :param context: the surroundings.
    :raises UnknownHost: there is nothing of one of the names.
    """
    current = _current(context)
    left, right = (_open(name, current, context) for name in (first, second))
    return HostComparison(left, right, tuple(host_differences(left.file, right.file, current)))


def report_notes(host: Host, context: Context) -> None:
    """Report how a name was understood, and overrides under which the file was written."""
    for note in (*host.notes, *host.file.notes):
        context.reporter.note(f"note: {note}")
    for override in host.file.overrides:  # P-73
        context.reporter.warn(f"{host.name} was written while detection was overridden: {override}")


def _current(context: Context) -> Target:
    return open_environment(None, environ=context.environ).target()


def _open(name: str, current: Target, context: Context) -> Host:
    if name == THIS:
        return _this(current, context)
    host = open_host(name, context.environ)
    report_notes(host, context)
    return host


def _this(current: Target, context: Context) -> Host:
    from wheelfit_runtime import __version__
    from wheelfit_runtime.platforms.discovery import Machine

    machine = Machine(environ=context.environ, architecture=current.architecture)
    overrides = machine.overrides_in_effect()
    for override in overrides:  # P-73
        context.reporter.warn(f"the environment overrides detection: {override}")
    found = (machine.detect(namespace) for namespace in machine.namespaces)
    file = HostFile.from_detections(
        (one for one in found if one is not None),
        current,
        created_by=f"wheelfit {__version__}",
        origin="this machine",
        overrides=overrides,
    )
    return Host("this machine", "machine", file)


def _about(path: Path) -> str:
    """Return in one line what a host file describes."""
    try:
        file = load_host_file(str(path))
    except WheelfitError as error:
        return f"cannot be used: {error.message}"
    supported = [
        entry.namespace for entry in file.providers if any(f.values for f in entry.features)
    ]
    parts = [file.origin or "host file", *supported]
    return ", ".join(parts) + (f"; written by {file.created_by}" if file.created_by else "")
