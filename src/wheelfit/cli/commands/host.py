"""List, show, compare and write descriptions of machines, for `--for` of any command.

ACTION is one of

  list [WORD]       your own host files, and the parts of presets (the default)
  show HOST         everything that is known of a machine
  diff HOST HOST    what differs between two machines
  new -o FILE PART  write a host file for a machine that cannot be probed

HOST is a host file, the name of one of your own, a preset as cuda-12.8-sm90+cpu-x86_64-v3, or
`this` for this machine.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit.cli.options.table.hardware import HOST, NEW_HOST
from wheelfit.cli.typed import check_action

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping, Sequence

    from wheelfit.cli.output import Output
    from wheelfit.core.host_difference import Difference
    from wheelfit.core.host_file import HostInterpreter
    from wheelfit.core.target import Target
    from wheelfit.operations.hosts import Host
    from wheelfit.platforms.preset_parts import PresetLine

_ACTIONS = ("list", "show", "diff", "new")
_THIS = "this"
DIFFERENT = 30
"""Exit code of `diff --exit-code` for machines that differ."""

_BEGINNING = re.compile(r"[a-z]+-(?:M\.m-)?")
_COLUMNS = 100

_LIBRARIES = ("glibc", "musl", "macos")
_HARDWARE = ("level", "cuda", "sm", "rocm", "gfx")
_OF_NEW = ("output", "save", "force", "python", "platform", *_LIBRARIES, *_HARDWARE)


OPTIONS = (HOST, NEW_HOST)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Do what ACTION says."""
    from wheelfit.errors import UsageError

    action, names = arguments.action, tuple(arguments.names)
    check_action(action, _ACTIONS)
    for key in _OF_NEW if action != "new" else ():
        if getattr(arguments, key):
            raise UsageError(f"--{key} belongs to `wheelfit host new`")
    if arguments.exit_code and action != "diff":
        raise UsageError("--exit-code belongs to `wheelfit host diff`")
    wanted = {"show": 1, "diff": 2}.get(action)
    if wanted is not None and len(names) != wanted:
        what = "one machine" if wanted == 1 else "two machines"
        raise UsageError(
            f"`wheelfit host {action}` takes {what}, not {len(names)}",
            hint="wheelfit host list shows what there is; `this` is this machine",
        )
    if action == "list":
        return _list(names, output, environ)
    if action == "new":
        return _new(arguments, output, environ)
    if action == "show":
        return _show(names[0], output, environ)
    return _diff(names[0], names[1], output, environ, exit_code=arguments.exit_code)


# --- list -------------------------------------------------------------------------------


def _list(words: Sequence[str], output: Output, environ: Mapping[str, str]) -> int:
    from wheelfit.operations.hosts import hosts_folder, own_hosts
    from wheelfit.platforms.presets import preset_lines

    def wanted(*texts: str) -> bool:
        return all(any(word.lower() in text.lower() for text in texts) for word in words)

    own = [(name, path, _about(str(path))) for name, path in own_hosts(environ).items()]
    own = [one for one in own if wanted(one[0], one[2])]
    lines = [one for one in preset_lines() if wanted(*one)]
    output.result_json(
        {
            "version": 1,
            "folder": str(hosts_folder(environ)),
            "own": [{"name": name, "path": str(path), "about": about} for name, path, about in own],
            "presets": [
                {"pattern": one.pattern, "example": one.example, "about": one.words}
                for one in lines
            ],
        }
    )
    if own:
        output.result(f"your own, in {hosts_folder(environ)}", "strong")
        width = max(len(name) for name, _, _ in own)
        for name, _, about in own:
            output.result(f"  {name:<{width}}  {about}")
        output.result()
    if lines:
        output.result("parts of presets, joined as cuda-12.8-sm90+cpu-x86_64-v3", "strong")
        for line in _preset_table(lines):
            output.result(line)
    if not own and not lines:
        output.result(f"nothing is called {' '.join(words)}")
    return 0


def _preset_table(lines: Sequence[PresetLine]) -> Iterator[str]:
    """Yield the parts of presets by kind, those that mean the same in one row."""
    from textwrap import wrap

    from wheelfit.platforms import families

    kinds = {"cpu": "processors"} | {
        family.presets.name: f"{family.devices}{family.presets.note}"
        for family in families.accelerators()
        if family.presets is not None
    }
    width = max(len(one.pattern) for one in lines)
    groups: dict[str, dict[str, list[str]]] = {}
    for one in lines:
        heading = kinds.get(one.pattern.partition("-")[0], "platforms")
        groups.setdefault(heading, {}).setdefault(one.words, []).append(one.pattern)
    for heading, rows in groups.items():
        yield f"{heading}:"
        for words, (first, *others) in rows.items():
            also = ", ".join(_BEGINNING.sub("", other, count=1) for other in others)
            text = f"{words}; also {also}" if also else words
            for number, part in enumerate(wrap(text, max(40, _COLUMNS - width - 4))):
                yield f"  {'' if number else first:<{width}}  {part}"


def _about(path: str) -> str:
    """Say in one line what a host file describes."""
    from wheelfit.errors import WheelfitError
    from wheelfit.operations.hosts import load_host_file

    try:
        file = load_host_file(path)
    except WheelfitError as error:
        return f"cannot be used: {error.message}"
    supported = [
        entry.namespace for entry in file.providers if any(f.values for f in entry.features)
    ]
    parts = [file.origin or "host file", *supported]
    return ", ".join(parts) + (f"; written by {file.created_by}" if file.created_by else "")


# --- show and diff ------------------------------------------------------------------------


def _current(environ: Mapping[str, str]) -> Target:
    from wheelfit.install.environment import open_environment

    return open_environment(None, environ=environ).target()


def _open(name: str, current: Target, output: Output, environ: Mapping[str, str]) -> Host:
    """Return a machine by its name, and say what the user should know of it."""
    from wheelfit.operations.hosts import open_host

    if name == _THIS:
        return _this(current, output, environ)
    host = open_host(name, environ)
    for note in (*host.notes, *host.file.notes):
        output.say(f"note: {note}", "dim")
    for override in host.file.overrides:  # P-73
        output.warn(f"{host.name} was written while detection was overridden: {override}")
    return host


def _this(current: Target, output: Output, environ: Mapping[str, str]) -> Host:
    from wheelfit import __version__
    from wheelfit.core.host_file import HostFile
    from wheelfit.operations.hosts import Host
    from wheelfit.platforms.discovery import Machine

    machine = Machine(environ=environ, architecture=current.architecture)
    overrides = machine.overrides_in_effect()
    for override in overrides:  # P-73
        output.warn(f"the environment overrides detection: {override}")
    found = (machine.detect(namespace) for namespace in machine.namespaces)
    file = HostFile.from_detections(
        (one for one in found if one is not None),
        current,
        created_by=f"wheelfit {__version__}",
        origin="this machine",
        overrides=overrides,
    )
    return Host("this machine", "machine", file)


def _show(name: str, output: Output, environ: Mapping[str, str]) -> int:
    from wheelfit.cli.detections import detection_mapping, print_detections, shortened
    from wheelfit.core.host_file import HostDetector

    current = _current(environ)
    host = _open(name, current, output, environ)
    file, target = host.file, host.file.target(current, host.name)
    detector = HostDetector(file, host.name, host.kind)
    namespaces = dict.fromkeys(entry.namespace for entry in file.providers)
    detections = [detector.detect(namespace) for namespace in namespaces]
    platforms = tuple(dict.fromkeys(tag.platform for tag in target.tags if tag.platform != "any"))
    implementation = target.environment["implementation_name"]
    output.result_json(
        {
            "version": 1,
            "host": host.to_mapping(),
            "interpreter": {
                "implementation": implementation,
                "version": str(target.python_full_version),
                "stated": file.interpreter is not None,
            },
            "platforms": list(platforms),
            "tags": len(target.tags),
            "environment": dict(sorted(target.environment.items())),
            "namespaces": {one.namespace: detection_mapping(one) for one in detections},
            "filters": [
                {
                    "namespace": entry.namespace,
                    "plugin_api": entry.plugin_api,
                    "resolved": list(entry.resolved),
                }
                for entry in file.providers
                if entry.plugin_api or entry.resolved
            ],
            "notes": [*host.notes, *file.notes],
        }
    )
    output.result(f"{host.name}: {host.words}" if host.words else host.name, "strong")
    in_use = "" if file.interpreter else " (the one in use; the file names none)"
    rows = {
        "describes": file.origin,
        "created by": file.created_by,
        "interpreter": f"{implementation} {target.python_full_version}{in_use}",
        "platforms": shortened(platforms, output),
        "tags": f"{len(target.tags)} in all, the best is {next(iter(target.tags))}",
        "markers": ", ".join(
            f"{name} {value}" for name, value in sorted(file.environment.items()) if value
        ),
        "overrides": ", ".join(file.overrides),
    }
    for what, text in rows.items():
        if text:
            output.result(f"  {what:<12}{text}")
    for entry in file.providers:
        only = " ".join(filter(None, (entry.plugin_api, *entry.resolved)))
        if only:
            output.result(f"  {'only for':<12}{entry.namespace}: {only}")
    print_detections(detections, output, versions=True)
    return 0


def _diff(
    first: str, second: str, output: Output, environ: Mapping[str, str], *, exit_code: bool
) -> int:
    from wheelfit.core.host_difference import host_differences

    current = _current(environ)
    left, right = (_open(name, current, output, environ) for name in (first, second))
    found = host_differences(left.file, right.file, current)
    output.result_json(
        {
            "version": 1,
            "left": left.to_mapping(),
            "right": right.to_mapping(),
            "equal": not found,
            "differences": [one.to_mapping() for one in found],
        }
    )
    names = (left.name, right.name)
    output.result(f"{names[0]} and {names[1]}: {'alike' if not found else ''}".rstrip(" :"))
    for one in found:
        for line in _lines(one, names, output):
            output.result(line)
    return DIFFERENT if found and exit_code else 0


def _lines(one: Difference, names: tuple[str, str], output: Output) -> Iterator[str]:
    from wheelfit.cli.detections import shortened

    if len(one.left) < 2 and len(one.right) < 2:
        left, right = (" ".join(some) or "nothing" for some in (one.left, one.right))
        yield f"  {one.path}: {left} | {right}"
        return
    yield f"  {one.path}"
    for name, some in zip(names, (one.only_left, one.only_right), strict=True):
        if some:
            yield f"    only {name}: {shortened(some, output)}"
    if one.reordered:
        yield "    the rest stands in another order"


# --- new ------------------------------------------------------------------------------------


def _new(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    from wheelfit.errors import UsageError
    from wheelfit.operations.files import write_atomically
    from wheelfit.operations.hosts import host_text

    if bool(arguments.output) == bool(arguments.save):
        raise UsageError("`wheelfit host new` needs either -o FILE or --save NAME")
    if arguments.output == "-" and arguments.json:
        raise UsageError(
            "-o - and --json cannot both have standard output", hint="name a file after -o"
        )
    host = _composed(arguments, environ)
    for note in (*host.notes, *host.file.notes):
        output.say(f"note: {note}", "dim")
    for override in host.file.overrides:  # P-73
        output.warn(f"{host.name} was written while detection was overridden: {override}")
    text = host_text(host.file)
    if arguments.output == "-":
        output.result(text.rstrip("\n"))
        return 0
    path = arguments.output or _own_path(arguments.save, environ)
    write_atomically(path, text.encode(), replace=arguments.force)
    output.result_json({"version": 1, "path": path, "host": host.to_mapping()})
    output.result(f"wrote {path}: {host.words or host.file.origin or host.name}")
    output.say(f"use it anywhere: wheelfit install --for {arguments.save or path} …")
    return 0


def _own_path(name: str, environ: Mapping[str, str]) -> str:
    """Return where a host file of the user's own goes; its folder exists then."""
    from wheelfit.errors import FileProblem, UsageError
    from wheelfit.operations.hosts import hosts_folder

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name) or name.endswith(".toml"):
        raise UsageError(
            f"{name!r} cannot be the name of a host file", hint="use letters, digits, '-' and '_'"
        )
    if name == _THIS:
        raise UsageError("`this` is this machine", hint="choose another name")
    folder = hosts_folder(environ)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileProblem(
            f"the folder of host files cannot be made: {error.strerror}", where=str(folder)
        ) from None
    return str(folder / f"{name}.toml")


def _composed(arguments: Namespace, environ: Mapping[str, str]) -> Host:
    """Return the machine that names and options describe."""
    from wheelfit.errors import UsageError
    from wheelfit.operations.hosts import open_host, preset_host
    from wheelfit.platforms.presets import compose, is_preset
    from wheelfit.resolve.preset_hosts import platforms_of_preset

    interpreter = _interpreter(arguments.python) if arguments.python else None
    names = [name for name in arguments.names if not is_preset(name)]
    if _THIS in names:
        raise UsageError(
            "this machine need not be described, it can be looked at", hint="wheelfit probe -o FILE"
        )
    if not names:
        parts = [*arguments.names, *_named_parts(arguments)]
        if not parts:
            raise UsageError(
                "nothing says what the machine has",
                hint="name presets, or give --platform, --cuda and so on",
            )
        preset = compose(parts)
        version = _library(arguments, preset.platform)
        return preset_host(preset, interpreter=interpreter, version=version)
    hardware = [f"--{key}" for key in _HARDWARE if getattr(arguments, key)]
    if len(arguments.names) > 1 or hardware:
        other = hardware[0] if hardware else next(n for n in arguments.names if n != names[0])
        raise UsageError(
            f"{names[0]} is a host file, and {other} cannot be added to it",
            hint="edit the file; --python, --platform, --glibc, --musl and --macos can be added",
        )
    host = open_host(names[0], environ)
    file = replace(host.file, origin=host.file.origin or f"file {host.record}")
    if interpreter is not None:
        file = replace(file, interpreter=interpreter)
    if arguments.platform:
        preset = compose([arguments.platform])
        version = _library(arguments, preset.platform)
        file = replace(file, platforms=platforms_of_preset(preset, version))
    elif any(getattr(arguments, key) for key in _LIBRARIES):
        raise UsageError("--glibc, --musl and --macos need --platform beside a host file")
    return replace(host, file=file)


def _named_parts(arguments: Namespace) -> Iterator[str]:
    """Yield the parts of presets that the options stand for."""
    from wheelfit.errors import UsageError

    if arguments.cuda:
        device = re.sub(r"^sm_?|\.", "", arguments.sm or "")
        yield f"cuda-{arguments.cuda}" + (f"-sm{device}" if device else "")
    elif arguments.sm:
        raise UsageError(
            "--sm needs --cuda: without a driver a GPU supports nothing", hint="add --cuda 12.8"
        )
    if arguments.rocm:
        device = (arguments.gfx or "").removeprefix("gfx")
        yield f"rocm-{arguments.rocm}" + (f"-gfx{device}" if device else "")
    elif arguments.gfx:
        raise UsageError("--gfx needs --rocm", hint="add --rocm 6.4")
    if arguments.level:
        level = arguments.level.removeprefix("cpu-")
        if level.startswith("v"):
            level = f"x86_64-{level}"
        elif level[:1].isdigit():
            level = "aarch64" if level == "8a" else f"aarch64-{level}"
        yield f"cpu-{level}"
    if arguments.platform:
        yield arguments.platform


_VERSIONS = {
    "glibc": r"2\.\d{1,3}",
    "musl": r"1\.\d{1,3}",
    "macos": r"(?:10|1[1-9]|[2-9]\d)\.\d{1,2}",
}


def _library(arguments: Namespace, platform: str) -> str | None:
    """Return the version of what the wheels of a platform depend on; None: the usual one."""
    from wheelfit.errors import InvalidPreset, UsageError
    from wheelfit.platforms.tables.platforms import PLATFORMS

    library = PLATFORMS[platform].library
    for key, pattern in _VERSIONS.items():
        text = getattr(arguments, key)
        if not text:
            continue
        if key != library:
            raise InvalidPreset(f"{platform} has no {key}, so --{key} says nothing")
        if not re.fullmatch(pattern, text):
            example = PLATFORMS[platform].version
            raise UsageError(f"{text!r} is not a version of {key}", hint=f"write {example}")
    return getattr(arguments, library) if library else None


def _interpreter(text: str) -> HostInterpreter:
    from wheelfit.core.host_file import HostInterpreter
    from wheelfit.core.versions import parse_version
    from wheelfit.errors import UsageError

    match = re.fullmatch(r"(3)\.(\d{1,2})(\.\d{1,2})?(t?)", text)
    if match is None:
        raise UsageError(f"{text!r} is not a version of Python", hint="write 3.12 or 3.13t")
    version = parse_version(text.removesuffix("t"))
    return HostInterpreter(version, abis=(f"cp{match[1]}{match[2]}t",) if match[4] else ())
