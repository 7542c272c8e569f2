"""Operations on descriptions of machines: list, show, compare and write them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wheelfit.core.host_difference import Difference, host_differences
from wheelfit.core.host_file import HostDetector, HostFile, HostInterpreter
from wheelfit.core.versions import parse_version
from wheelfit.core.virtual_packages import as_pixi, as_text, conda_platform
from wheelfit.errors import UsageError, reporting_os_errors
from wheelfit.installation.environment import open_environment
from wheelfit.operations.files import write_atomically
from wheelfit.operations.hosts import (
    Host,
    host_text,
    hosts_folder,
    load_host_file,
    open_host,
    own_hosts,
)
from wheelfit.operations.machine import target_in_effect
from wheelfit.operations.plain_data import PlainFields, plain_fields, plain_report
from wheelfit.operations.probe import namespaces_json
from wheelfit.operations.requests import ValidatedRequest
from wheelfit.resolution.preset_hosts import host_of_preset
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import UserError, WheelfitError
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.known_platforms import PLATFORMS
from wheelfit_runtime.platforms.presets import MACHINES, compose, is_preset, preset_lines
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wheelfit.core.target import Target
    from wheelfit.operations.context import Context
    from wheelfit_runtime.platforms.features import Detection
    from wheelfit_runtime.platforms.preset_parts import PresetLine


THIS = "this"
"""The name that stands for this machine."""


@dataclass(frozen=True, slots=True)
class OwnHost(PlainFields):
    """A host file of the user's own."""

    name: str
    path: Path
    about: str
    """Its description, or the reason why it cannot be used, in a line."""


@dataclass(frozen=True, slots=True)
class HostList:
    """The host files of the user, and the parts of presets."""

    folder: Path
    own: tuple[OwnHost, ...]
    presets: tuple[PresetLine, ...]

    def presets_by_kind(self) -> dict[str, list[PresetLine]]:
        """Return the parts of presets by the kind of hardware, as the headings name it."""
        kinds = {"cpu": "processors"} | {
            family.presets.name: f"{family.devices}{family.presets.note}"
            for family in providers.accelerators()
            if family.presets is not None
        }
        by_kind: dict[str, list[PresetLine]] = {}
        for preset in self.presets:
            kind = kinds.get(preset.pattern.partition("-")[0], "platforms")
            kind = "whole machines" if preset.pattern in MACHINES else kind
            by_kind.setdefault(kind, []).append(preset)
        return by_kind

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            "folder own",
            presets=[
                plain_fields(preset, "pattern example", about=preset.description)
                for preset in self.presets
            ],
        )


@dataclass(frozen=True, slots=True)
class HostReport:
    """The description of a machine."""

    host: Host
    target: Target
    detections: tuple[Detection, ...]

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms of its wheel tags, the best first."""
        return self.target.platforms

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        file, target = self.host.file, self.target
        return plain_report(
            self,
            "host platforms",
            interpreter={
                "implementation": target.environment["implementation_name"],
                "version": target.python_full_version,
                "stated": file.interpreter is not None,
            },
            tags=len(target.tags),
            environment=dict(sorted(target.environment.items())),
            namespaces=namespaces_json(self.detections),
            filters=[
                plain_fields(entry, "namespace plugin_api resolved")
                for entry in file.providers
                if entry.plugin_api or entry.resolved
            ],
            notes=[*self.host.notes, *file.notes],
        )


@dataclass(frozen=True, slots=True)
class HostComparison:
    """The differences between two machines."""

    left: Host
    right: Host
    differences: tuple[Difference, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(self, "left right differences", equal=not self.differences)


def list_hosts(words: Sequence[str], context: Context) -> HostList:
    """Return the host files of the user, and the parts of presets.

    :param words: each must be in the name or the description; empty: all.
    """

    def matches(*texts: str) -> bool:
        return all(any(word.lower() in text.lower() for text in texts) for word in words)

    own = (OwnHost(name, path, _about(path)) for name, path in own_hosts(context.environ).items())
    return HostList(
        hosts_folder(context.environ),
        tuple(host for host in own if matches(host.name, host.about)),
        tuple(line for line in preset_lines() if matches(*line)),
    )


def show_host(name: str, context: Context) -> HostReport:
    """Return the description of a machine.

    :param name: a host file, a preset, or ``this``.
    :raises UnknownHost: there is no such machine.
    """
    current = _current_target(context)
    host = _open(name, current, context)
    detector = HostDetector(host.file, host.name, host.kind)
    namespaces = dict.fromkeys(entry.namespace for entry in host.file.providers)
    detections = tuple(detector.detect(namespace) for namespace in namespaces)
    return HostReport(host, host.file.target(current, host.name), detections)


def format_host(report: HostReport, format_name: str, context: Context) -> str:
    """Return a machine in the format of conda or pixi; report facts that it cannot express.

    :param format_name: ``conda`` or ``pixi``.
    :raises UserError: ``invalid-host-file``; conda has no such platform.
    """
    platform, omissions = conda_platform(report.host.file, report.target)
    for omission in omissions:
        context.reporter.note(f"note: {omission}")
    return (
        as_text(platform) if format_name == "conda" else as_pixi(platform, report.host.public_name)
    )


def compare_hosts(first: str, second: str, context: Context) -> HostComparison:
    """Return the differences between two machines.

    :param first: as in `show_host`.
    :raises UnknownHost: one of the machines does not exist.
    """
    current = _current_target(context)
    left, right = (_open(name, current, context) for name in (first, second))
    return HostComparison(left, right, tuple(host_differences(left.file, right.file, current)))


def report_notes(host: Host, context: Context) -> None:
    """Report the interpretation of a name, and overrides under which the file was written."""
    for note in (*host.notes, *host.file.notes):
        context.reporter.note(f"note: {note}")
    for override in host.file.overrides:  # P-73
        context.reporter.warn(f"{host.name} was written while detection was overridden: {override}")


def _current_target(context: Context) -> Target:
    return open_environment(None, environ=context.environ, may_be_own=True).target


def _open(name: str, current: Target, context: Context) -> Host:
    if name == THIS:
        return _describe_this_machine(current, context)
    host = open_host(name, context.environ)
    report_notes(host, context)
    return host


def _describe_this_machine(current: Target, context: Context) -> Host:
    machine = Machine(SystemView(environ=context.environ, architecture=current.architecture))
    overrides = machine.overrides_in_effect()
    for override in overrides:  # P-73
        context.reporter.warn(f"the environment overrides detection: {override}")
    target, target_overrides = target_in_effect(current, context)
    detected = (machine.detect(namespace) for namespace in machine.namespaces)
    file = HostFile.from_detections(
        filter(None, detected),
        target,
        created_by=f"wheelfit {__version__}",
        origin="this machine",
        overrides=(*overrides, *target_overrides),
    )
    return Host("this machine", "machine", file)


def _about(path: Path) -> str:
    """Return the description of a host file in one line."""
    try:
        file = load_host_file(str(path))
    except WheelfitError as error:
        return f"cannot be used: {error.message}"
    supported = [
        provider.namespace
        for provider in file.providers
        if any(feature.values for feature in provider.features)
    ]
    parts = [file.origin or "host file", *supported]
    return ", ".join(parts) + (f"; written by {file.created_by}" if file.created_by else "")


class NewHostRequest(ValidatedRequest):
    """The parts of a machine, and the path of its host file."""

    names: tuple[str, ...] = ()
    """Presets, or one host file."""
    output: str | None = None
    save: str | None = None
    force: bool = False
    python: str | None = None
    glibc: str | None = None
    musl: str | None = None
    macos: str | None = None


@dataclass(frozen=True, slots=True)
class NewHost:
    """A host file that was written."""

    path: str
    name: str
    """Its name for ``--for``."""
    host: Host

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(self, "path host")


def write_host(request: NewHostRequest, context: Context) -> NewHost:
    """Write the host file of a machine that cannot be probed.

    :param request: it has either ``output`` or ``save``.
    :raises UsageError: options contradict each other.
    :raises FileProblem: the file cannot be written.
    """
    host = describe_host(request, context)
    path = request.output or _own_path(request.save or "", context)
    write_atomically(path, host_text(host.file).encode(), replace=request.force)
    return NewHost(path, request.save or path, host)


def describe_host(request: NewHostRequest, context: Context) -> Host:
    """Return the machine that names and options describe.

    :raises UsageError: names or options contradict each other.
    :raises UnknownHost: there is no preset or file of a name.
    """
    interpreter = _interpreter(request.python) if request.python else None
    files = [name for name in request.names if not is_preset(name)]
    if THIS in files:
        raise UsageError("this machine needs no description", hint="run `wheelfit probe -o FILE`")
    if files:
        host = _host_of_file(request, files[0], interpreter, context)
    else:
        host = _composed_preset(request, interpreter)
    report_notes(host, context)
    return host


def _own_path(name: str, context: Context) -> str:
    """Return the path of a new file in the user's folder of hosts, which is created if missing."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name) or name.endswith(".toml"):
        raise UsageError(
            f"{name!r} cannot be the name of a host file", hint="use letters, digits, '-' and '_'"
        )
    if name == THIS:
        raise UsageError("`this` is the name of this machine", hint="choose another name")
    folder = hosts_folder(context.environ)
    with reporting_os_errors("the folder of host files cannot be created", where=str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
    return str(folder / f"{name}.toml")


def _composed_preset(request: NewHostRequest, interpreter: HostInterpreter | None) -> Host:
    """Return the machine of presets, with the requested versions."""
    if not request.names:
        raise UsageError(
            "the machine is not described", hint="name presets, as cuda-12.8-sm90 linux-x86_64"
        )
    preset = compose(request.names)
    version = _library_version(request, preset.platform)
    file, notes = host_of_preset(preset, interpreter=interpreter, version=version)
    return Host(preset.name, "preset", file, preset.description, notes)


def _host_of_file(
    request: NewHostRequest, name: str, interpreter: HostInterpreter | None, context: Context
) -> Host:
    """Return the machine of a host file, with the requested Python."""
    others = [other for other in request.names if other != name]
    others += [f"--{key}" for key in _LIBRARY_VERSIONS if getattr(request, key)]
    if others:
        raise UsageError(
            f"{name} is a host file, so {others[0]} cannot be added to it",
            hint="edit the file; only --python can be added",
        )
    host = open_host(name, context.environ)
    origin = host.file.origin or f"file {host.public_name}"
    interpreter = interpreter or host.file.interpreter
    return replace(host, file=replace(host.file, origin=origin, interpreter=interpreter))


_LIBRARY_VERSIONS = {
    "glibc": r"2\.\d{1,3}",
    "musl": r"1\.\d{1,3}",
    "macos": r"(?:10|1[1-9]|[2-9]\d)\.\d{1,2}",
}
"""The pattern of the versions of each library, by its option."""


def _library_version(request: NewHostRequest, platform: str) -> str | None:
    """Return the version of the C library, or of macOS, for a platform; None: the usual one."""
    library = PLATFORMS[platform].library
    for key, pattern in _LIBRARY_VERSIONS.items():
        text = getattr(request, key)
        if not text:
            continue
        if key != library:
            others = [name for name, row in PLATFORMS.items() if row.library == key]
            raise UserError(
                f"{platform} has no {key}, so --{key} has no effect",
                code="invalid-preset",
                hint=f"leave it out, or name a platform with {key}: {', '.join(others)}",
            )
        if not re.fullmatch(pattern, text):
            example = PLATFORMS[platform].version
            raise UsageError(f"{text!r} is not a version of {key}", hint=f"write {example}")
    return getattr(request, library) if library else None


def _interpreter(text: str) -> HostInterpreter:
    match = re.fullmatch(r"3\.(\d{1,2})(?:\.\d{1,2})?(t?)", text)
    if match is None:
        raise UsageError(f"{text!r} is not a version of Python", hint="write 3.12 or 3.13t")
    version = parse_version(text.removesuffix("t"))
    return HostInterpreter(version, abis=(f"cp3{match[1]}t",) if match[2] else ())
