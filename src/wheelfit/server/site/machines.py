"""The machines on the pages for people: presets and uploaded host files."""

from __future__ import annotations

import re
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import parse_qs

from wheelfit.core.host_file import HostDetector, HostFile, HostInterpreter
from wheelfit.core.host_file_mapping import parse_host_file
from wheelfit.errors import StorageUnavailable
from wheelfit.locking.environments import environments_for
from wheelfit.resolution.overview import OverviewHost
from wheelfit.resolution.preset_hosts import host_of_preset, presets_for
from wheelfit.server.store.blobs import Draft, draft_in
from wheelfit.server.uploads.form import FormLimits, read_form
from wheelfit_runtime.errors import FileProblem, UnknownHost, UserError
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.known_platforms import PYTHONS
from wheelfit_runtime.platforms.presets import compose, preset_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.tags import Tag

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.target import Target
    from wheelfit.server.messages import Request
    from wheelfit_runtime.platforms.hardware_family import HardwareFamily


Python = tuple[int, int]

PYTHON_NAMES = tuple(f"{major}.{minor}" for major, minor in sorted(PYTHONS, reverse=True))
"""The Pythons that can be selected, newest first."""
_DEFAULT_PLATFORM = "linux-x86_64"
_MAX_PRESET_LENGTH = 200
VERSIONED = re.compile(r"([a-z]+)-([0-9]+\.[0-9]+)-")
"""The beginning of a preset that has a version of a driver or toolkit, and a device."""

_LIMITS = FormLimits(file=256 << 10, fields=4 << 10, parts=8)
"""A host file has some kilobytes."""
_CONCURRENT_UPLOADS = threading.BoundedSemaphore(4)
"""Any client may send such forms slowly, and most threads for bodies are needed for uploads."""
_MAX_QUERY_LENGTH = 4 << 10
_MAX_FIELDS = 20
_MAX_VALUE_LENGTH = 400
_MAX_NAME_LENGTH = 100


@dataclass(frozen=True, slots=True)
class SiteMachine:
    """A machine for which wheels are chosen."""

    name: str
    """The name of the preset or file."""
    description: str
    """A description; may be empty."""
    target: Target
    detector: HostDetector
    notes: tuple[str, ...] = ()
    """Assumptions and uncertainties."""


class PresetGroup(NamedTuple):
    """Presets of one kind."""

    name: str
    presets: tuple[tuple[str, str], ...]
    """Names and descriptions."""


@lru_cache(maxsize=1)
def default_target() -> Target:
    """Return the target whose values replace those that a host file lacks."""
    return _target(_default_python())


def overview_hosts(document: VariantDocument | None) -> Iterator[OverviewHost]:
    """Yield the machines of the overview of a release."""
    for name in presets_for(document):
        host = _overview_host(name)
        if host is not None:
            yield host


@lru_cache(maxsize=1024)
def _overview_host(name: str) -> OverviewHost | None:
    """Return the machine of a preset; None if its parts contradict each other."""
    try:
        preset = compose([name])
    except UserError:
        return None
    file, _ = host_of_preset(preset)
    target = file.target(default_target(), name)
    return OverviewHost(
        name, preset.description, target, HostDetector(file, name, "preset"), any_python=True
    )


def machine_of_preset(name: str, python: str, wheels: Iterable[frozenset[Tag]]) -> SiteMachine:
    """Return the machine of a preset.

    :param python: minor version, such as ``3.13``; empty: the newest that a wheel fits.
    :param wheels: the tags of each wheel of the release.
    :raises UnknownHost: there is no such preset.
    :raises UserError: ``invalid-preset``; parts of it contradict each other.
    """
    if len(name) > _MAX_PRESET_LENGTH:
        raise UnknownHost(f"a preset has at most {_MAX_PRESET_LENGTH} characters")
    preset = compose([name])
    file, notes = host_of_preset(preset)
    return _machine(preset.name, preset.description, file, "preset", python, wheels, notes)


def machine_of_file(
    data: bytes, name: str, python: str, wheels: Iterable[frozenset[Tag]]
) -> SiteMachine:
    """Return the machine of a host file.

    :param python: minor version, if the file has none; else as for `machine_of_preset`.
    :raises UserError: ``invalid-host-file``.
    """
    file = parse_host_file(data, name)
    notes = [*file.notes]
    if not file.platforms:
        notes.append(f"the file names no platform, so {_DEFAULT_PLATFORM} is assumed")
    notes += [
        f"it was written while detection was overridden: {override}" for override in file.overrides
    ]
    return _machine(name, file.origin, file, "file", python, wheels, notes)


def _machine(
    name: str,
    description: str,
    file: HostFile,
    kind: Literal["preset", "file"],
    python: str,
    wheels: Iterable[frozenset[Tag]],
    notes: Sequence[str],
) -> SiteMachine:
    detector = HostDetector(file, name, kind)
    if file.interpreter is not None:
        target = file.target(default_target(), name)
        return SiteMachine(name, description, target, detector, tuple(notes))
    if python:
        if python not in PYTHON_NAMES:
            raise UnknownHost(
                f"{python[:20]!r} is not a known version of Python",
                hint=f"choose one of {', '.join(PYTHON_NAMES)}",
            )
        target = _target_of_file(file, name, _parse_python(python))
        return SiteMachine(name, description, target, detector, tuple(notes))
    target = _target_of_file(file, name, _newest_python(file, name, set(wheels)))
    version = target.python_full_version
    assumed = f"Python {version.major}.{version.minor} is assumed, since none was named"
    return SiteMachine(name, description, target, detector, (*notes, assumed))


def _newest_python(file: HostFile, name: str, wheels: set[frozenset[Tag]]) -> Python:
    """Return the newest Python with a compatible wheel, else the newest that a wheel names."""
    pythons = [_parse_python(text) for text in PYTHON_NAMES]
    for python in pythons:
        tags = _target_of_file(file, name, python).tags
        if any(tags.best(wheel) is not None for wheel in wheels):
            return python
    interpreters = {tag.interpreter for tags in wheels for tag in tags}
    for major, minor in pythons:
        if f"cp{major}{minor}" in interpreters:
            return major, minor
    return _default_python()


def _target_of_file(file: HostFile, name: str, python: Python) -> Target:
    """Return the target of a host file, with this Python."""
    base = _target(python)
    interpreter = HostInterpreter(base.python_full_version)
    return replace(file, interpreter=interpreter).target(base, name)


def _default_python() -> Python:
    """Return the newest Python with several bug-fix releases, which most wheels support."""
    return max(python for python, micro in PYTHONS.items() if micro > 2)


@lru_cache(maxsize=16)
def _target(python: Python) -> Target:
    return environments_for([_DEFAULT_PLATFORM], [python])[0].target


def _parse_python(text: str) -> Python:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def group_of(preset: str) -> str:
    """Return the name of the group in which a preset is shown.

    >>> group_of("cuda-12.8-sm90")
    'NVIDIA GPUs, CUDA 12.8'
    """
    family = family_of(preset)
    if family is None:
        return "Platforms, no accelerator"
    match = VERSIONED.match(preset)
    if match is not None and family.presets is not None and family.presets.version_name:
        return f"{family.devices}, {family.presets.version_name} {match[2]}"
    return family.devices


def family_of(preset: str) -> HardwareFamily | None:
    """Return the family whose accelerator or processor a preset names."""
    for family in providers.families():
        start = f"cpu-{family.namespace}" if family.presets is None else f"{family.presets.name}-"
        if preset.startswith(start):
            return family
    return None


@lru_cache(maxsize=1)
def preset_groups() -> tuple[PresetGroup, ...]:
    """Return the presets that the form offers, by family."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for line in preset_lines():
        family = family_of(line.example)
        name = "Platforms" if family is None else family.devices
        groups.setdefault(name, []).append((line.example, line.description))
    return tuple(PresetGroup(name, tuple(presets)) for name, presets in groups.items())


@dataclass(frozen=True, slots=True)
class MachineQuery:
    """The values of the form for a machine."""

    preset: str = ""
    python: str = ""
    """Minor version; empty: any."""
    file: str = ""
    """The name of the uploaded host file."""
    data: bytes | None = None
    """The content of the uploaded host file; None if there is none."""

    def machine(self, wheels: Iterable[frozenset[Tag]]) -> SiteMachine:
        """Return the machine that the values describe.

        :raises UserError: there is no such preset, or the file is not a host file.
        """
        if self.data is None:
            return machine_of_preset(self.preset, self.python, wheels)
        if not self.data:
            raise FileProblem(
                "no host file came with the form",
                hint="choose one; `wheelfit probe -o FILE` writes it on the machine",
            )
        return machine_of_file(self.data, self.file or "the host file", self.python, wheels)


def read_query(query: str) -> Mapping[str, str]:
    """Return the first value of each field of a query, stripped.

    :raises UserError: it is too long, or has too many fields.
    """
    if len(query) > _MAX_QUERY_LENGTH:
        raise UserError("the address is too long")
    try:
        fields = parse_qs(query, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise UserError("the address has too many fields") from None
    return {name: values[0].strip()[:_MAX_VALUE_LENGTH] for name, values in fields.items()}


def read_upload(request: Request) -> MachineQuery:
    """Read a form with a host file.

    :raises UploadRefused: it is another form, or too large.
    :raises StorageUnavailable: too many forms are being read at the moment.
    """
    if not _CONCURRENT_UPLOADS.acquire(blocking=False):
        raise StorageUnavailable("too many uploads are running", hint="try again")
    content_type = request.headers.get("content-type", "")
    try:
        with read_form(request.body, content_type, _temporary_draft(), limits=_LIMITS) as upload:
            return MachineQuery(
                python=upload.first("python")[:_MAX_VALUE_LENGTH],
                file=Path(upload.filename.replace("\\", "/")).name[:_MAX_NAME_LENGTH],
                data=upload.draft.path.read_bytes(),
            )
    finally:
        _CONCURRENT_UPLOADS.release()


@contextmanager
def _temporary_draft() -> Iterator[Draft]:
    with tempfile.TemporaryDirectory(prefix="wheelfit-") as folder, draft_in(Path(folder)) as draft:
        yield draft
