"""Descriptions of machines, by name: a host file by its path or among the user's, or a preset.

Descriptions of machines by conda and pixi are accepted as host files too.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wheelfit.core import strict_toml
from wheelfit.core.host_file_mapping import parse_host_file, to_mapping
from wheelfit.core.virtual_package_files import read_platforms
from wheelfit.errors import reporting_os_errors
from wheelfit.operations.context import Context
from wheelfit.operations.plain_data import plain_fields
from wheelfit.operations.user_folders import configuration_file, home
from wheelfit_runtime.errors import UnknownHost, UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit.core.host_file import HostFile
    from wheelfit.core.virtual_packages import CondaPlatform


@dataclass(frozen=True, slots=True)
class Host:
    """A described machine."""

    name: str
    """The name or path that the user gave."""
    kind: Literal["file", "preset", "machine"]
    """``machine`` for this machine."""
    file: HostFile
    """The description of the machine."""
    description: str = ""
    """The description of a preset in words."""
    notes: tuple[str, ...] = ()
    """Notes for the user on the interpretation of the name."""

    @classmethod
    def load(cls, name: str, context: Context | None = None) -> Host:
        """Return the machine of a host file or preset, or of a file of conda or pixi.

        :param name: a path, the name of a file in the user's folder of hosts, or a preset as
            ``cuda-12.8-sm90``; a manifest of pixi with a platform as ``pixi.toml#linux-64``.
        :param context: the environment variables and the reporter; default: those of this process.
        :raises UnknownHost: there is no such machine.
        :raises FileProblem: the file cannot be read.
        :raises UserError: ``invalid-host-file``; the file is not a host file.
        """
        return open_host(name, (context or Context()).environ)

    @property
    def public_name(self) -> str:
        """The name for results that are stored: without folders, which may identify the user."""
        return Path(self.name).name if self.kind == "file" else self.name

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, for ``--json``."""
        return {
            **plain_fields(self, "kind name"),
            **plain_fields(self.file, "origin created_by overrides"),
        }


def hosts_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's own host files: ``hosts`` beside the configuration file."""
    return configuration_file(environ, sys.platform, home()).parent / "hosts"


def own_hosts(environ: Mapping[str, str]) -> dict[str, Path]:
    """Return the files in the user's folder of hosts, by name in alphabetical order."""
    try:
        paths = sorted(hosts_folder(environ).glob("*.toml"))
    except OSError:
        return {}
    return {path.stem: path for path in paths}


def open_host(name: str, environ: Mapping[str, str], *, rocm_same_major: bool = False) -> Host:
    """Return the machine of a name.

    A name with a slash or the suffix ``.toml`` is a path, with ``#NAME`` for the platform of a pixi
    manifest. Any other name is looked up first in the user's folder of hosts, then in the presets,
    and last in the current folder, so that a file there cannot replace a preset.

    :param rocm_same_major: whether older minor versions of a preset's ROCm count as installed
        (P-123).
    :raises UnknownHost: there is no such machine.
    :raises UserError: ``invalid-preset``; parts of a preset contradict each other.
    :raises FileProblem: the file cannot be read.
    :raises UserError: ``invalid-host-file``; it is not a host file.
    """
    from wheelfit_runtime.platforms.presets import compose, is_preset

    if "/" in name or os.sep in name or name.partition("#")[0].endswith(".toml"):
        return Host(name, "file", load_host_file(name))
    own_files = own_hosts(environ)
    if name in own_files:
        file = load_host_file(str(own_files[name]))
        note = f"{name} is your own host file, not the preset"
        return Host(name, "file", file, notes=(note,) if is_preset(name) else ())
    is_file = os.path.isfile(name)  # noqa: PTH113 - Path raises for names with NUL
    if not is_preset(name):
        if is_file:
            return Host(name, "file", load_host_file(name))
        raise _unknown_host(name, own_files)
    from wheelfit.resolution.preset_hosts import host_of_preset

    preset = compose([name])
    file, notes = host_of_preset(preset, rocm_same_major=rocm_same_major)
    if is_file:
        notes = (f"{name} is the preset; for the file of that name write ./{name}", *notes)
    return Host(preset.name, "preset", file, preset.description, notes)


def host_text(file: HostFile) -> str:
    """Return a host file as TOML text, with several items of a list on a line."""
    import tomli_w

    text = tomli_w.dumps(to_mapping(file), multiline_strings=False)
    return _LIST.sub(_with_filled_lines, text)


_LIST = re.compile(r'^(\S+ = )\[\n((?:    "(?:[^"\\\n]|\\.)*",\n)+)\]$', re.MULTILINE)
"""A list of strings as ``tomli_w`` writes it: one on each line."""
_WIDTH = 100


def _with_filled_lines(match: re.Match[str]) -> str:
    # Not `splitlines`, which also splits at other characters.
    items = [line[4:-1] for line in match[2].rstrip("\n").split("\n")]
    one_line = f"{match[1]}[{', '.join(items)}]"
    if len(one_line) <= _WIDTH:
        return one_line
    lines = ["   "]  # with the space in front of its first item, an indent of four
    for item in items:
        if lines[-1].strip() and len(lines[-1]) + len(item) + 2 > _WIDTH:
            lines.append("   ")
        lines[-1] += f" {item},"
    return "\n".join((f"{match[1]}[", *lines, "]"))


def load_host_file(name: str) -> HostFile:
    """Read a host file, or a description of a machine by conda or pixi.

    :param name: the path, followed by ``#NAME`` if a manifest of pixi has several platforms, or by
        ``#ENVIRONMENT:NAME`` if its environments have different requirements on a platform.
    :raises FileProblem: it cannot be read.
    :raises UserError: ``invalid-host-file``; it is too large, is not TOML, or is not valid.
    """
    path, hash_sign, platform_name = name.rpartition("#")
    if not hash_sign or os.path.lexists(name):
        path, platform_name = name, ""
    data = _read_host_file(path, name)
    if not data.strip():
        raise UserError(
            "the host file is empty",
            code="invalid-host-file",
            where=path,
            hint="`wheelfit probe -o FILE` writes one; the output of `conda info --json` or "
            "`pixi info --json` and a manifest of pixi are accepted too",
        )
    platforms = read_platforms(data, path)
    if platforms is None and not platform_name:
        return parse_host_file(data, path)
    from wheelfit.resolution.virtual_package_hosts import host_of_virtual_packages

    return host_of_virtual_packages(_find_platform(platform_name, platforms or (), path), path)


def _find_platform(name: str, platforms: tuple[CondaPlatform, ...], path: str) -> CondaPlatform:
    """Return the platform of a manifest with a name; for an empty name, the only platform.

    :raises UserError: ``invalid-host-file``; there is none, or there are several.
    """
    matching = [platform for platform in platforms if not name or name == platform.name]
    if len(matching) == 1:
        return matching[0]
    names = ", ".join(f"{path}#{platform.name}" for platform in platforms if platform.name)
    problem = f"has no platform {name!r}" if name else "describes several machines"
    raise UserError(
        f"the file {problem}",
        code="invalid-host-file",
        where=path,
        hint=f"name one of {names}" if names else "only manifests of pixi name platforms",
    )


def _read_host_file(path: str, name: str) -> bytes:
    """Return the content of a host file.

    :param name: the path in errors.
    """
    limit = strict_toml.DEFAULT_LIMITS.size
    hint = "write one on the machine it describes: `wheelfit probe -o FILE`"
    with (
        reporting_os_errors("the host file cannot be read", where=name, hint=hint),
        Path(path).open("rb") as file,
    ):
        data = file.read(limit + 1)
    if len(data) > limit:
        raise UserError(
            f"the host file has more than {limit} bytes", code="invalid-host-file", where=name
        )
    return data


def _unknown_host(name: str, own_names: Iterable[str]) -> UnknownHost:
    from wheelfit_runtime.platforms.presets import preset_lines

    names = [*own_names, *(line.example for line in preset_lines())]
    close = get_close_matches(name.lower(), names, n=3)
    suggestion = f"did you mean {' or '.join(close)}? " if close else ""
    return UnknownHost(
        f"{name[:80]!r} is neither a preset, nor one of your host files, nor a file",
        hint=f"{suggestion}`wheelfit host list` shows presets and your host files; "
        "`wheelfit probe -o FILE` describes a machine",
    )
