"""The indexes that the installers of a command would query; each has its own proxy.

A private project whose name is public too must come from the same index as without the proxy. So
each tool gets a proxy of its own, in front of the indexes that its environment variables, its files
and its command line name.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from msgspec import structs

from wheelfit.resolution.requirements_file import option_lines
from wheelfit.server.proxy.user_agents import PROJECT_COMMANDS
from wheelfit.sources.installer_configuration import (
    InstallerIndexes,
    UvEnvironment,
    read_pdm_configuration,
    read_uv_configuration,
)
from wheelfit.sources.settings import DEFAULT_INDEX, SourceSettings
from wheelfit.sources.urls import origin, redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


_TOOL = re.compile(r"(pip|uv|uvx|pdm)(?:[0-9.]*)(?:\.exe)?", re.IGNORECASE)
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*w?(?:\.exe)?", re.IGNORECASE)
_VALUE_OPTIONS = (
    "index-url",
    "extra-index-url",
    "index",
    "default-index",
    "trusted-host",
    "allow-insecure-host",
    "config-file",
    "cache-dir",
    "color",
    "project",
    "directory",
    "requirement",
    "constraint",
)
_SWITCHES = ("no-config", "no-index", "isolated")
_PIP_OPTIONS = (
    "index-url",
    "pypi-url",
    "extra-index-url",
    "trusted-host",
    "requirement",
    "constraint",
    "isolated",
    "no-index",
)
"""Options of pip, for their abbreviations."""
_ALIASES = {"pypi-url": "index-url", "requirements": "requirement", "constraints": "constraint"}
_SHORT_OPTIONS = {"-i": "index-url", "-r": "requirement", "-c": "constraint"}
_MAX_DEPTH = 20
"""Requirements files, each named by the one before."""


@dataclass(frozen=True, slots=True)
class ToolCommand:
    """The options about indexes on the command line of an installer."""

    tool: str = ""
    """``pip``, ``uv`` or ``pdm``; empty: another, unknown tool."""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Values by the usual long name of an option, without leading hyphens; of a switch, none."""
    subcommand: str = ""
    """The first word that is not an option."""

    @property
    def index_url(self) -> str | None:
        """The effective ``--index-url``; None if it is not given."""
        values = self.all("index-url")
        return values[-1] if values else None

    def all(self, *names: str) -> tuple[str, ...]:
        """Return all values of some options."""
        return tuple(value for name in names for value in self.options.get(name, ()))


@dataclass(frozen=True, slots=True)
class Installers:
    """The indexes of each tool, behind the proxy."""

    pip: SourceSettings
    uv: SourceSettings
    pdm: SourceSettings
    pip_index: str | None = None
    """pip's default index beside the proxy; None: unchanged."""
    uv_index: str | None = None
    """The same for uv."""
    in_project: bool = False
    """Whether uv changes a project, whose files must not mention the proxy."""
    notes: tuple[str, ...] = ()
    """Warnings about indexes that the proxy does not cover."""

    def by_name(self) -> dict[str, SourceSettings]:
        """Return the settings by the name of the tool."""
        return {"pip": self.pip, "uv": self.uv, "pdm": self.pdm}


def read_command(words: Sequence[str]) -> ToolCommand:
    """Parse the command line of an installer; empty for any other program.

    It ends at a program that uv runs, whose arguments are its own.
    """
    words = list(words)
    name = PurePath(words[0]).name if words else ""
    if _PYTHON.fullmatch(name) and len(words) > 2 and words[1] == "-m":
        name, words = words[2], words[2:]
    match = _TOOL.fullmatch(name)
    if match is None:
        return ToolCommand()
    tool = match[1].lower().removesuffix("x")
    options: dict[str, list[str]] = {}
    subcommands = ["tool", "run"] if match[1].lower() == "uvx" else []
    may_be_value = False  # whether the word may belong to the option before it, unknown here
    rest = iter(words[1:])
    for word in rest:
        runs_program = subcommands[:1] == ["run"] or subcommands[:2] == ["tool", "run"]
        is_program = runs_program and not word.startswith("-") and not may_be_value
        if word == "--" or is_program:
            break
        may_be_value = False
        option, equals, value = word.partition("=")
        short = _SHORT_OPTIONS.get(word[:2])
        if short is not None and not word.startswith("--"):
            value = word[2:].removeprefix("=") or next(rest, "")
            options.setdefault(short, []).append(value)
        elif (long := _option(option, tool)) in _VALUE_OPTIONS:
            options.setdefault(long, []).append(value if equals else next(rest, ""))
        elif long in _SWITCHES:
            options.setdefault(long, [])
        elif word.startswith("-"):
            may_be_value = not equals
        else:
            subcommands.append(word)
    values_by_name = {name: tuple(values) for name, values in options.items()}
    return ToolCommand(tool, values_by_name, subcommands[0] if subcommands else "")


def _option(text: str, tool: str) -> str:
    """Return the usual name of a long option, which pip accepts abbreviated to a unique prefix."""
    if not text.startswith("--"):
        return ""
    name = text[2:]
    if tool == "pip" and len(name) > 2:
        options = [option for option in _PIP_OPTIONS if option.startswith(name)]
        name = options[0] if len(options) == 1 else name
    return _ALIASES.get(name, name)


def installers_of(
    command: ToolCommand,
    settings: SourceSettings,
    environ: Mapping[str, str],
    *,
    home: Path,
    folder: Path,
    is_index_named: bool,
) -> Installers:
    """Return the indexes that each tool queries.

    :param is_index_named: whether the user named an index, which then replaces every default.
    """
    indexes, extra = _indexes_in_files(command, folder, environ)
    uv_command = command if command.tool == "uv" else ToolCommand()
    pip, pip_notes = _pip_settings(settings, command, indexes, extra)
    uv = read_uv_configuration(UvEnvironment(environ, home, folder, options=uv_command.options))
    if uv_command.tool:
        last = uv.default or (indexes[-1] if indexes else None)
        uv = replace(uv, first=(*uv.first, *extra), default=last)
    pdm = read_pdm_configuration(environ, home=home, folder=folder)
    has_index = is_index_named or settings.index_url != DEFAULT_INDEX
    return Installers(
        pip,
        _tool_settings(
            settings,
            uv,
            is_index_named=is_index_named,
            trusted=uv_command.all("allow-insecure-host"),
        ),
        _tool_settings(settings, pdm, is_index_named=is_index_named),
        settings.index_url if has_index else None,
        settings.index_url if is_index_named or (has_index and uv.default is None) else None,
        uv_command.subcommand in PROJECT_COMMANDS,
        (*pip_notes, *_uv_notes(uv_command, uv.flat)),
    )


def _tool_settings(
    settings: SourceSettings,
    own: InstallerIndexes,
    *,
    is_index_named: bool,
    trusted: Iterable[str] = (),
) -> SourceSettings:
    """Return the indexes of a tool, with those of pip if it has no default of its own.

    Indexes that the tool configures may use plain HTTP.
    """
    default = () if own.default is None else (own.default,)
    last = settings.index_urls if is_index_named or not default else default
    first, *rest = dict.fromkeys((*own.first, *last)) or (settings.index_url,)
    plain_hosts = []
    for url in (*own.first, *default):
        try:
            address = origin(url)
        except ValueError:
            continue
        if address.scheme == "http":
            plain_hosts.append(f"{address.host}:{address.port}")
    return structs.replace(
        settings,
        index_url=first,
        extra_index_urls=tuple(rest),
        trusted_hosts=(*settings.trusted_hosts, *trusted, *plain_hosts),
    )


def _pip_settings(
    settings: SourceSettings,
    command: ToolCommand,
    indexes: Sequence[str],
    extra: Sequence[str],
) -> tuple[SourceSettings, tuple[str, ...]]:
    if command.tool != "pip":
        return settings, ()
    notes = []
    if indexes:
        notes.append(
            f"a requirements file has --index-url {redact(indexes[-1])}, which pip uses instead of "
            "the proxy; pass it to `wheelfit run`"
        )
    notes.extend(
        f"with --{switch} pip does not use the proxy"
        for switch in ("isolated", "no-index")
        if switch in command.options
    )
    pip_settings = settings.with_options(
        index_url=command.index_url,
        extra_index_urls=(*command.all("extra-index-url"), *extra),
        trusted_hosts=command.all("trusted-host"),
    )
    return pip_settings, tuple(notes)


def _uv_notes(command: ToolCommand, flat: Iterable[str]) -> Iterator[str]:
    if command.all("index"):
        yield "uv queries its --index before the proxy, and indexes of its files after the proxy"
    if command.all("extra-index-url"):
        yield (
            "uv queries its --extra-index-url instead of the proxy, and UV_EXTRA_INDEX_URL and its "
            "files after the proxy"
        )
    if "no-index" in command.options:
        yield "with --no-index uv does not use the proxy"
    for url in flat:
        yield (
            f"{redact(url)} is a flat index, which the proxy does not read: variants of a public "
            "project are preferred to files of the same project there"
        )


def _indexes_in_files(
    command: ToolCommand, folder: Path, environ: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Return the indexes and the extra indexes in the requirements files of a command."""
    indexes: list[str] = []
    extra: list[str] = []
    seen: set[Path] = set()

    def read(path: Path, depth: int) -> None:
        path = path.resolve()
        if path in seen or depth > _MAX_DEPTH:
            return
        seen.add(path)
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:  # the tool reports it
            return
        for line in option_lines(text, environ):
            try:
                words = shlex.split(line)
            except ValueError:
                continue
            options = read_command(["pip", *words])
            indexes.extend(options.all("index-url"))
            extra.extend(options.all("extra-index-url"))
            for nested in options.all("requirement", "constraint"):
                read(path.parent / nested, depth + 1)

    for name in command.all("requirement", "constraint"):
        read(folder / name, 0)
    return indexes, extra
