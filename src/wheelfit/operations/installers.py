"""The indexes that the installers of a command would query; each has its own proxy.

A private project whose name is public too must come from the same index as without the proxy. So
each tool gets a proxy of its own, in front of exactly the indexes that are named by its variables,
its files, and the command line that we start.
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
from wheelfit.sources.pdm_configuration import read_pdm_configuration
from wheelfit.sources.settings import DEFAULT_INDEX
from wheelfit.sources.urls import origin, redact
from wheelfit.sources.uv_configuration import UvEnvironment, read_uv_configuration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wheelfit.sources.pdm_configuration import PdmIndexes
    from wheelfit.sources.settings import SourceSettings
    from wheelfit.sources.uv_configuration import UvIndexes


_TOOL = re.compile(r"(pip|uv|uvx|pdm)(?:[0-9.]*)(?:\.exe)?", re.IGNORECASE)
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*w?(?:\.exe)?", re.IGNORECASE)
_VALUES = (
    "index-url",
    "pypi-url",
    "extra-index-url",
    "index",
    "default-index",
    "trusted-host",
    "allow-insecure-host",
    "config-file",
    "project",
    "directory",
    "requirement",
    "requirements",
    "constraint",
    "constraints",
)
_SWITCHES = ("no-config", "no-index", "isolated")
_OF_PIP = (
    "index-url",
    "pypi-url",
    "extra-index-url",
    "trusted-host",
    "requirement",
    "constraint",
    "isolated",
    "no-index",
)
_SHORT = {"-i": "index-url", "-r": "requirement", "-c": "constraint"}
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class OfCommand:
    """The options about indexes on the command line of an installer."""

    tool: str = ""
    """``pip``, ``uv`` or ``pdm``; empty: another, unknown tool."""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Values of options by name, without hyphens; of a switch, none."""
    verb: str = ""
    """The first word that is not an option."""

    def last(self, *names: str) -> str | None:
        """Return the effective value of an option; None if it is not given."""
        values = [value for name in names for value in self.options.get(name, ())]
        return values[-1] if values else None

    def all(self, *names: str) -> tuple[str, ...]:
        """Return all values of an option."""
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


def read_command(words: Sequence[str]) -> OfCommand:
    """Read the command line of an installer; of any other program nothing is read."""
    words = list(words)
    name = PurePath(words[0]).name if words else ""
    if _PYTHON.fullmatch(name) and len(words) > 2 and words[1] == "-m":
        name, words = words[2], words[2:]
    match = _TOOL.fullmatch(name)
    if match is None:
        return OfCommand()
    tool = match[1].lower().removesuffix("x")
    options: dict[str, list[str]] = {}
    verb = ""
    rest = iter(words[1:])
    for word in rest:
        if word == "--":
            break
        option, equals, value = word.partition("=")
        short = _SHORT.get(word[:2])
        if short is not None and not word.startswith("--"):
            value = word[2:].removeprefix("=") or next(rest, "")
            options.setdefault(short, []).append(value)
        elif (known := _option(option, tool)) in _VALUES:
            options.setdefault(known, []).append(value if equals else next(rest, ""))
        elif known in _SWITCHES:
            options.setdefault(known, [])
        elif not word.startswith("-"):
            verb = verb or word
    return OfCommand(tool, {name: tuple(values) for name, values in options.items()}, verb)


def _option(text: str, tool: str) -> str:
    """Return the option that a word abbreviates; pip accepts any unique prefix."""
    if not text.startswith("--"):
        return ""
    name = text[2:]
    if tool != "pip":
        return name
    meant = [one for one in _OF_PIP if len(name) > 2 and one.startswith(name)]
    return meant[0] if len(meant) == 1 else name


def installers_of(
    command: OfCommand,
    settings: SourceSettings,
    environ: Mapping[str, str],
    *,
    home: Path,
    folder: Path,
    is_asked: bool,
) -> Installers:
    """Return the indexes that each tool queries.

    :param is_asked: whether the user named an index, which then replaces every default.
    """
    indexes, extra = _of_requirements(command, folder, environ)
    of_uv = command if command.tool == "uv" else OfCommand()
    pip, pip_notes = _pip(settings, command, indexes, extra)
    uv = read_uv_configuration(UvEnvironment(environ, home, folder, options=of_uv.options))
    if of_uv.tool:
        last = uv.default or (indexes[-1] if indexes else None)
        uv = replace(uv, first=(*uv.first, *extra), default=last)
    pdm = read_pdm_configuration(environ, home=home, folder=folder)
    is_named = is_asked or settings.index_url != DEFAULT_INDEX
    return Installers(
        pip,
        _behind(settings, uv, is_asked=is_asked, trusted=of_uv.all("allow-insecure-host")),
        _behind(settings, pdm, is_asked=is_asked),
        settings.index_url if is_named else None,
        settings.index_url if is_asked or (is_named and uv.default is None) else None,
        of_uv.verb in PROJECT_COMMANDS,
        (*pip_notes, *_notes_of_uv(of_uv, uv.flat)),
    )


def _behind(
    settings: SourceSettings,
    own: UvIndexes | PdmIndexes,
    *,
    is_asked: bool,
    trusted: Iterable[str] = (),
) -> SourceSettings:
    """Return the indexes of a tool; without a default of its own, with those of pip."""
    last = (own.default,) if own.default is not None and not is_asked else settings.index_urls
    asked = own.first if own.default is None else (*own.first, own.default)
    return _in_order(settings, (*own.first, *last), asked, trusted)


def _in_order(
    settings: SourceSettings,
    urls: Iterable[str],
    own: Iterable[str] = (),
    trusted: Iterable[str] = (),
) -> SourceSettings:
    """Return settings with these indexes; those configured in the tool may use plain HTTP."""
    first, *rest = dict.fromkeys(urls) or (settings.index_url,)
    plain = []
    for url in own:
        try:
            where = origin(url)
        except ValueError:
            continue
        if where.scheme == "http":
            plain.append(f"{where.host}:{where.port}")
    return structs.replace(
        settings,
        index_url=first,
        extra_index_urls=tuple(rest),
        trusted_hosts=(*settings.trusted_hosts, *trusted, *plain),
    )


def _pip(
    settings: SourceSettings, command: OfCommand, indexes: Sequence[str], extra: Sequence[str]
) -> tuple[SourceSettings, tuple[str, ...]]:
    if command.tool != "pip":
        return settings, ()
    notes = []
    if indexes:
        notes.append(
            f"a requirements file has --index-url {redact(indexes[-1])}, for which pip leaves out "
            "the proxy; give it to `wheelfit run` instead"
        )
    notes.extend(
        f"with --{switch} pip does not ask the proxy"
        for switch in ("isolated", "no-index")
        if switch in command.options
    )
    asked = settings.with_options(
        index_url=command.last("index-url", "pypi-url"),
        extra_index_urls=(*command.all("extra-index-url"), *extra),
        trusted_hosts=command.all("trusted-host"),
    )
    return asked, tuple(notes)


def _notes_of_uv(command: OfCommand, left: Iterable[str]) -> Iterator[str]:
    if command.all("index"):
        yield "uv asks what its --index names before the proxy; what its files name comes behind it"
    if command.all("extra-index-url"):
        yield (
            "uv asks what its --extra-index-url names in place of the proxy; UV_EXTRA_INDEX_URL or "
            "its files come behind it"
        )
    if "no-index" in command.options:
        yield "with --no-index uv does not ask the proxy"
    for url in left:
        yield (
            f"{redact(url)} is a flat list, which the proxy does not read: a variant of a public "
            "project counts more than a file of that name there"
        )


def _of_requirements(
    command: OfCommand, folder: Path, environ: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Return the indexes, and the further ones, that requirements files of a command name."""
    indexes: list[str] = []
    extra: list[str] = []
    seen: set[Path] = set()

    def read(path: Path, depth: int) -> None:
        path = path.resolve()
        if path in seen or depth > _DEEPEST:
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
            indexes.extend(options.all("index-url", "pypi-url"))
            extra.extend(options.all("extra-index-url"))
            for nested in options.all("requirement", "constraint"):
                read(path.parent / nested, depth + 1)

    names = ("requirement", "requirements", "constraint", "constraints")
    for name in command.all(*names):
        read(folder / name, 0)
    return indexes, extra
