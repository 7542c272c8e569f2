"""The machines of the pages for people: presets and uploaded host files, never the server's own."""

from __future__ import annotations

import re
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs

from wheelfit.core.host_file import HostDetector, HostInterpreter
from wheelfit.core.host_file_mapping import parse_host_file
from wheelfit.errors import StorageUnavailable
from wheelfit.locking.environments import environments_for
from wheelfit.resolution.overview import OverviewHost
from wheelfit.resolution.preset_hosts import host_of_preset, presets_for
from wheelfit.server.store.blobs import draft_in
from wheelfit.server.uploads.form import FormLimits, read_form
from wheelfit_runtime.errors import FileProblem, UnknownHost, UserError
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.known_platforms import PYTHONS
from wheelfit_runtime.platforms.presets import compose, preset_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.tags import Tag

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.host_file import HostFile
    from wheelfit.core.target import Target
    from wheelfit.server.messages import Request
    from wheelfit.server.store.blobs import Draft
    from wheelfit_runtime.platforms.hardware_family import HardwareFamily


Python = tuple[int, int]

PYTHON_NAMES = tuple(f"{major}.{minor}" for major, minor in sorted(PYTHONS, reverse=True))
"""The Pythons that can be selected, newest first."""
_USUAL_PLATFORM = "linux-x86_64"
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine to choose for."""

    name: str
    """The preset, or the name of the file."""
    words: str
    """Its description; may be empty."""
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
def usual_target() -> Target:
    """Return the target for the parts that a description leaves open."""
    return _target(_usual_python())


def overview_hosts(document: VariantDocument | None) -> Iterator[OverviewHost]:
    """Yield the machines of the overview of a release."""
    for name in presets_for(document):
        host = _onlooker(name)
        if host is not None:
            yield host


@lru_cache(maxsize=1024)
def _onlooker(name: str) -> OverviewHost | None:
    """Return the machine of a preset; None if its parts contradict each other."""
    try:
        preset = compose([name])
    except UserError:
        return None
    file, _ = host_of_preset(preset)
    target = file.target(usual_target(), name)
    return OverviewHost(
        name, preset.words, target, HostDetector(file, name, "preset"), any_python=True
    )


def machine_of_preset(name: str, python: str, wheels: Iterable[frozenset[Tag]]) -> Machine:
    """Return the machine of a preset.

    :param python: minor version; empty: the newest that any of the wheels is for.
    :raises UnknownHost: there is no such preset.
    :raises UserError: ``invalid-preset``; parts of it contradict each other.
    """
    if len(name) > _LONGEST:
        raise UnknownHost(f"a preset has at most {_LONGEST} characters")
    preset = compose([name])
    file, notes = host_of_preset(preset)
    return _machine(preset.name, preset.words, file, "preset", python, wheels, notes)


def machine_of_file(
    data: bytes, name: str, python: str, wheels: Iterable[frozenset[Tag]]
) -> Machine:
    """Return the machine of a host file.

    :param python: as for `machine_of_preset`, if the file names none.
    :raises UserError: ``invalid-host-file``.
    """
    file = parse_host_file(data, name)
    notes = [*file.notes]
    if not file.platforms:
        notes.append(f"the file names no platform, so that of {_USUAL_PLATFORM} was taken")
    notes += [
        f"it was written while detection was overridden: {override}" for override in file.overrides
    ]
    return _machine(name, file.origin, file, "file", python, wheels, notes)


def _machine(
    name: str,
    words: str,
    file: HostFile,
    kind: str,
    python: str,
    wheels: Iterable[frozenset[Tag]],
    notes: Sequence[str],
) -> Machine:
    detector = HostDetector(file, name, "preset" if kind == "preset" else "file")
    if file.interpreter is not None:
        target = file.target(usual_target(), name)
        return Machine(name, words, target, detector, tuple(notes))
    if python:
        if python not in PYTHON_NAMES:
            raise UnknownHost(
                f"{python[:20]!r} is not a known version of Python",
                hint=f"it is one of {', '.join(PYTHON_NAMES)}",
            )
        return Machine(name, words, _of(file, name, _python(python)), detector, tuple(notes))
    target = _of(file, name, _newest_python(file, name, set(wheels)))
    version = target.python_full_version
    supposed = f"Python {version.major}.{version.minor} was taken, since none was named"
    return Machine(name, words, target, detector, (*notes, supposed))


def _newest_python(file: HostFile, name: str, wheels: set[frozenset[Tag]]) -> Python:
    """Return the newest Python that a wheel fits, or else that any wheel is for."""
    pythons = [_python(text) for text in PYTHON_NAMES]
    for python in pythons:
        tags = _of(file, name, python).tags
        if any(tags.best(wheel) is not None for wheel in wheels):
            return python
    named = {tag.interpreter for tags in wheels for tag in tags}
    usual = _usual_python()
    return next((one for one in pythons if f"cp{one[0]}{one[1]}" in named), usual)


def _of(file: HostFile, name: str, python: Python) -> Target:
    base = _target(python)
    interpreter = HostInterpreter(base.python_full_version)
    return replace(file, interpreter=interpreter).target(base, name)


def _usual_python() -> Python:
    return max(python for python, micro in PYTHONS.items() if micro > 2)  # not the very newest


@lru_cache(maxsize=16)
def _target(python: Python) -> Target:
    return environments_for([_USUAL_PLATFORM], [python])[0].target


def _python(text: str) -> Python:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


VERSIONED = re.compile(r"([a-z]+)-([0-9]+\.[0-9]+)-")
"""The beginning of a preset that has a version of a driver or toolkit, and a device."""


def group_of(preset: str) -> str:
    """Return the group of a preset.

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
    for family in providers.every():
        start = f"cpu-{family.namespace}" if family.presets is None else f"{family.presets.name}-"
        if preset.startswith(start):
            return family
    return None


@lru_cache(maxsize=1)
def preset_groups() -> tuple[PresetGroup, ...]:
    """Return the presets that a form offers."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for line in preset_lines():
        family = family_of(line.example)
        name = "Platforms" if family is None else family.devices
        groups.setdefault(name, []).append((line.example, line.words))
    return tuple(PresetGroup(name, tuple(presets)) for name, presets in groups.items())


_LIMITS = FormLimits(file=256 << 10, fields=4 << 10, parts=8)
"""A host file has some kilobytes."""
_AT_ONCE = threading.BoundedSemaphore(4)
"""Any client may send such a form, slowly; most threads for bodies must stay free for uploads."""
_LONGEST_QUERY = 4 << 10
_MOST_FIELDS = 20
_LONGEST_VALUE = 400
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class MachineQuery:
    """The input of the form."""

    preset: str = ""
    python: str = ""
    """Minor version; empty: any."""
    file: str = ""
    data: bytes | None = None

    def machine(self, wheels: Iterable[frozenset[Tag]]) -> Machine:
        """Return the machine.

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
    if len(query) > _LONGEST_QUERY:
        raise UserError("the address is too long")
    try:
        fields = parse_qs(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise UserError("the address has too many fields") from None
    return {name: values[0].strip()[:_LONGEST_VALUE] for name, values in fields.items()}


def read_upload(request: Request) -> MachineQuery:
    """Read a form with a host file.

    :raises UploadRefused: it is no such form, or too large.
    :raises StorageUnavailable: too many are being read at the moment.
    """
    if not _AT_ONCE.acquire(blocking=False):
        raise StorageUnavailable("too many uploads are running", hint="try again")
    content_type = request.headers.get("content-type", "")
    try:
        with read_form(request.body, content_type, _temporary_draft(), limits=_LIMITS) as upload:
            return MachineQuery(
                python=upload.first("python")[:_LONGEST_VALUE],
                file=Path(upload.filename.replace("\\", "/")).name[:_LONGEST_NAME],
                data=upload.draft.path.read_bytes(),
            )
    finally:
        _AT_ONCE.release()


@contextmanager
def _temporary_draft() -> Iterator[Draft]:
    with tempfile.TemporaryDirectory(prefix="wheelfit-") as folder, draft_in(Path(folder)) as draft:
        yield draft
