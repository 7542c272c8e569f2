"""New host files, for machines that cannot be probed."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wheelfit.core.host_file import HostInterpreter
from wheelfit.core.versions import parse_version
from wheelfit.errors import UsageError
from wheelfit.operations.files import write_atomically
from wheelfit.operations.host_descriptions import THIS, report_notes
from wheelfit.operations.hosts import Host, host_text, hosts_folder, open_host, preset_host
from wheelfit.operations.requests import Checked
from wheelfit.resolution.preset_hosts import platforms_of_preset
from wheelfit_runtime.errors import FileProblem, UserError
from wheelfit_runtime.platforms.presets import compose, is_preset
from wheelfit_runtime.platforms.tables.platforms import PLATFORMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.operations.context import Context

_LIBRARIES = ("glibc", "musl", "macos")
_HARDWARE = ("level", "cuda", "sm", "rocm", "gfx")


@dataclass(frozen=True, kw_only=True)
class NewHostRequest(Checked):
    """What a machine has, and the place of its host file."""

    names: tuple[str, ...] = ()
    """Presets, or one host file."""
    output: str | None = None
    save: str | None = None
    force: bool = False
    python: str | None = None
    platform: str | None = None
    glibc: str | None = None
    musl: str | None = None
    macos: str | None = None
    level: str | None = None
    cuda: str | None = None
    sm: str | None = None
    rocm: str | None = None
    gfx: str | None = None


@dataclass(frozen=True, slots=True)
class NewHost:
    """A host file that was written."""

    path: str
    name: str
    """Its name for ``--for``."""
    host: Host

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return {"version": 1, "path": self.path, "host": self.host.to_mapping()}


def write_host(request: NewHostRequest, context: Context) -> NewHost:
    """Write the host file of a machine that cannot be probed.

    :param request: what the machine has; either ``output`` or ``save``.
    :param context: the surroundings.
    :raises UsageError: options contradict each other.
    :raises FileProblem: the file cannot be written.
    """
    host = describe_host(request, context)
    path = request.output or _own_path(request.save or "", context)
    write_atomically(path, host_text(host.file).encode(), replace=request.force)
    return NewHost(path, request.save or path, host)


def describe_host(request: NewHostRequest, context: Context) -> Host:
    """Return the machine that names and options describe.

    :param request: what the machine has.
    :param context: the surroundings.
    :raises UsageError: options contradict each other.
    :raises UnknownHost: there is no preset or file of a name.
    """
    host = _composed(request, context)
    report_notes(host, context)
    return host


def _own_path(name: str, context: Context) -> str:
    """Return the path of a new host file of the user's own; make its folder."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name) or name.endswith(".toml"):
        raise UsageError(
            f"{name!r} cannot be the name of a host file", hint="use letters, digits, '-' and '_'"
        )
    if name == THIS:
        raise UsageError("`this` is this machine", hint="choose another name")
    folder = hosts_folder(context.environ)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileProblem(
            f"the folder of host files cannot be made: {error.strerror}", where=str(folder)
        ) from None
    return str(folder / f"{name}.toml")


def _composed(request: NewHostRequest, context: Context) -> Host:
    """Return the machine that names and options describe."""
    interpreter = _interpreter(request.python) if request.python else None
    names = [name for name in request.names if not is_preset(name)]
    if THIS in names:
        raise UsageError(
            "this machine need not be described, it can be looked at", hint="wheelfit probe -o FILE"
        )
    if not names:
        parts = [*request.names, *_named_parts(request)]
        if not parts:
            raise UsageError(
                "nothing says what the machine has",
                hint="name presets, or give --platform, --cuda and so on",
            )
        preset = compose(parts)
        version = _library(request, preset.platform)
        return preset_host(preset, interpreter=interpreter, version=version)
    hardware = [f"--{key}" for key in _HARDWARE if getattr(request, key)]
    if len(request.names) > 1 or hardware:
        other = hardware[0] if hardware else next(n for n in request.names if n != names[0])
        raise UsageError(
            f"{names[0]} is a host file, and {other} cannot be added to it",
            hint="edit the file; --python, --platform, --glibc, --musl and --macos can be added",
        )
    host = open_host(names[0], context.environ)
    file = replace(host.file, origin=host.file.origin or f"file {host.record}")
    if interpreter is not None:
        file = replace(file, interpreter=interpreter)
    if request.platform:
        preset = compose([request.platform])
        version = _library(request, preset.platform)
        file = replace(file, platforms=platforms_of_preset(preset, version))
    elif any(getattr(request, key) for key in _LIBRARIES):
        raise UsageError("--glibc, --musl and --macos need --platform beside a host file")
    return replace(host, file=file)


def _named_parts(request: NewHostRequest) -> Iterator[str]:
    """Yield the parts of presets that the options stand for."""
    if request.cuda:
        device = re.sub(r"^sm_?|\.", "", request.sm or "")
        yield f"cuda-{request.cuda}" + (f"-sm{device}" if device else "")
    elif request.sm:
        raise UsageError(
            "--sm needs --cuda: without a driver a GPU supports nothing", hint="add --cuda 12.8"
        )
    if request.rocm:
        device = (request.gfx or "").removeprefix("gfx")
        yield f"rocm-{request.rocm}" + (f"-gfx{device}" if device else "")
    elif request.gfx:
        raise UsageError("--gfx needs --rocm", hint="add --rocm 6.4")
    if request.level:
        level = request.level.removeprefix("cpu-")
        if level.startswith("v"):
            level = f"x86_64-{level}"
        elif level[:1].isdigit():
            level = "aarch64" if level == "8a" else f"aarch64-{level}"
        yield f"cpu-{level}"
    if request.platform:
        yield request.platform


_VERSIONS = {
    "glibc": r"2\.\d{1,3}",
    "musl": r"1\.\d{1,3}",
    "macos": r"(?:10|1[1-9]|[2-9]\d)\.\d{1,2}",
}


def _library(request: NewHostRequest, platform: str) -> str | None:
    """Return the version of the C library, or of macOS, for a platform; None: the usual one."""
    library = PLATFORMS[platform].library
    for key, pattern in _VERSIONS.items():
        text = getattr(request, key)
        if not text:
            continue
        if key != library:
            raise UserError(
                f"{platform} has no {key}, so --{key} says nothing", code="invalid-preset"
            )
        if not re.fullmatch(pattern, text):
            example = PLATFORMS[platform].version
            raise UsageError(f"{text!r} is not a version of {key}", hint=f"write {example}")
    return getattr(request, library) if library else None


def _interpreter(text: str) -> HostInterpreter:
    match = re.fullmatch(r"(3)\.(\d{1,2})(\.\d{1,2})?(t?)", text)
    if match is None:
        raise UsageError(f"{text!r} is not a version of Python", hint="write 3.12 or 3.13t")
    version = parse_version(text.removesuffix("t"))
    return HostInterpreter(version, abis=(f"cp{match[1]}{match[2]}t",) if match[4] else ())
