"""Read pip's configuration, so that wheelfit uses the same indexes and rules as pip.

``configuration_files`` returns the files that pip would read; ``settings_from`` and ``rules_from``
turn their contents and the environment into settings of the sources and rules about installing.
Only ``read_pip_configuration`` and ``read_pip_rules`` read the files.

The order is pip's: all ``[global]`` sections (system, user, environment, ``PIP_CONFIG_FILE``), then
all ``[install]`` sections, then ``PIP_*`` variables. A later value replaces an earlier one as a
whole, lists too; empty ones are ignored.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from wheelfit.sources.settings import SourceSettings
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import InvalidConfiguration, os_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from configparser import RawConfigParser

    from wheelfit.sources.cooldown import Cooldown


class PipContext(Struct, frozen=True):
    """Everything that pip's configuration is read from."""

    environ: Mapping[str, str]
    """Environment variables."""
    home: Path
    """The user's home folder."""
    platform: str
    """As ``sys.platform``."""
    prefixes: tuple[Path, ...]
    """Environments that may have a configuration, in ascending order of precedence."""
    is_folder: Callable[[Path], bool] = Path.is_dir
    """Returns whether a folder exists."""
    exists: Callable[[Path], bool] = Path.exists
    """Returns whether a file exists."""


class ConfigurationFile(Struct, frozen=True):
    """A configuration file as text."""

    path: str
    """Its path, for errors."""
    text: str
    """Its content."""


class InstallRules(Struct, frozen=True):
    """The options about installing in pip's configuration, independent of sources."""

    constraints: tuple[str, ...] = ()
    """Files that limit versions."""
    pre: bool = False
    """Whether pre-releases are allowed."""
    only_binary: tuple[str, ...] = ()
    """Projects that are installed from wheels only; also ``:all:`` and ``:none:``."""
    no_binary: tuple[str, ...] = ()
    """Projects that are never installed from wheels; also ``:all:`` and ``:none:``."""
    prefer_binary: bool = False
    """Whether an older release with a wheel is preferred to a newer one without."""
    require_hashes: bool = False
    """Whether every file must have an allowed hash."""
    require_virtualenv: bool = False
    """Whether only virtual environments may be changed."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Further options that decide what is installed or where, by pip's name, as written."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """The file or variable of each value, by pip's name of the option."""

    @property
    def hashes_required_by(self) -> str:
        """The place that requires hashes, for messages; empty: none does."""
        return self.origin_of("require-hashes") if self.require_hashes else ""

    def origin_of(self, name: str) -> str:
        """Return the place that sets an option, for messages.

        :param name: pip's name of an option that is set.
        """
        origin = self.origins[name]
        return origin if origin.startswith("PIP_") else f"{name} in {origin}"


def configuration_files(context: PipContext) -> tuple[Path, ...]:
    """Return the files that pip would read, in ascending order of precedence.

    They need not exist.
    """
    named = context.environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return ()
    windows = context.platform == "win32"
    name = "pip.ini" if windows else "pip.conf"
    files = [folder / name for folder in _system_folders(context)]
    # As in pip: a file named by the variable replaces the user's, if it exists.
    if not (named and context.exists(Path(named))):
        files.append(context.home / ("pip" if windows else ".pip") / name)
        files.append(_user_folder(context) / name)
    files.extend(prefix / name for prefix in context.prefixes)
    if named:
        files.append(Path(named))
    return tuple(files)


def _system_folders(context: PipContext) -> list[Path]:
    if context.platform == "win32":
        data = context.environ.get("ALLUSERSPROFILE") or "C:\\ProgramData"
        return [Path(data, "pip")]
    if context.platform == "darwin":
        folders = [Path("/Library/Application Support/pip")]
        if any(str(prefix).startswith("/opt/homebrew") for prefix in context.prefixes):
            folders.insert(0, Path("/opt/homebrew/share/pip"))
        return folders
    config_dirs = context.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    return [*(Path(folder, "pip") for folder in config_dirs.split(":") if folder), Path("/etc")]


def _user_folder(context: PipContext) -> Path:
    environ, home = context.environ, context.home
    if context.platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData/Roaming", "pip")
    if context.platform == "darwin":
        folder = home / "Library/Application Support/pip"
        return folder if context.is_folder(folder) else home / ".config/pip"
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config", "pip")


def read_pip_configuration(context: PipContext) -> SourceSettings:
    """Read the files that exist, and return the settings.

    :raises InvalidConfiguration: a file cannot be read or parsed, or a value is not of its type.
    """
    return settings_from(_read_files(context), context.environ, home=context.home)


def read_pip_rules(context: PipContext, command: str = "install") -> InstallRules:
    """Read the existing files, and return their rules about installing.

    :param command: the command of pip whose section is read.
    :raises InvalidConfiguration: as `read_pip_configuration`.
    """
    return rules_from(_read_files(context), context.environ, command)


def _read_files(context: PipContext) -> list[ConfigurationFile]:
    """Return the files that exist."""
    files = []
    for path in configuration_files(context):
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            continue
        except OSError as error:
            raise InvalidConfiguration(
                f"pip's configuration cannot be read: {os_reason(error)}",
                where=str(path),
                hint=f"make it readable, or set PIP_CONFIG_FILE={os.devnull} to ignore it",
            ) from error
        except UnicodeDecodeError as error:
            raise InvalidConfiguration(
                "pip's configuration is not UTF-8", where=str(path)
            ) from error
        files.append(ConfigurationFile(str(path), text))
    return files


def settings_from(
    files: Iterable[ConfigurationFile], environ: Mapping[str, str], *, home: Path
) -> SourceSettings:
    """Return the settings in files and variables.

    :param files: the least important first.
    :param environ: the environment; only ``PIP_*`` variables are read.
    :param home: the folder of ``~``.
    :raises InvalidConfiguration: a file has no sections, or a value is not of its kind.
    """
    settings = SourceSettings()
    origins: dict[str, str] = {}
    no_input = False
    for origin, key, value in _in_order(tuple(files), environ):
        if key == "no-input":
            no_input = _boolean(value, key, origin)
        elif key in _OPTIONS:
            field_name, convert = _OPTIONS[key]
            converted = convert(value, key, origin)
            if field_name in {"cert", "client_cert"}:
                converted = _expanded(converted, home)
            elif field_name == "find_links":
                converted = tuple(_expanded(link, home) for link in converted)
            settings = replace(settings, **{field_name: converted})
            origins[field_name] = origin
    settings = replace(settings, origins=origins)
    if no_input and settings.keyring == "auto":
        # As in pip: keyring might prompt the user, which ``no-input`` forbids.
        settings = replace(settings, keyring="disabled")
    return settings


def rules_from(
    files: Iterable[ConfigurationFile], environ: Mapping[str, str], command: str = "install"
) -> InstallRules:
    """Return the rules that files and variables express.

    :param files: the least important first.
    :param environ: the environment; only ``PIP_*`` variables are read.
    :param command: the command of pip whose section is read.
    :raises InvalidConfiguration: a file has no sections, or a value is not of its kind.
    """
    values: dict[str, Any] = {}
    others: dict[str, str] = {}
    origins: dict[str, str] = {}
    for origin, key, value in _in_order(tuple(files), environ, command):
        name = _RULE_NAMES.get(key, key)
        if name in _RULES:
            field_name, convert = _RULES[name]
            values[field_name] = convert(value, name, origin)
        elif name in _REPORTED:
            others[name] = value
        else:
            continue
        origins[name] = origin
    return InstallRules(**values, others=others, origins=origins)


def _in_order(
    files: tuple[ConfigurationFile, ...], environ: Mapping[str, str], command: str = "install"
) -> Iterable[tuple[str, str, str]]:
    """Yield (origin, key, value) in ascending order of precedence.

    The origin is a file and a section, or a variable.
    """
    parsed = [(file.path, _parse(file)) for file in files]
    for section in ("global", command):
        values: dict[str, tuple[str, str]] = {}
        for path, parser in parsed:
            if parser.has_section(section):
                for key, value in parser.items(section):
                    values[_key(key)] = (path, value)
        # pip drops empty values only now: an empty one in a later file removes the value of an
        # earlier file in the same section.
        for key, (path, value) in values.items():
            if value:
                yield f"{path} [{section}]", key, value
    for name, value in environ.items():
        if name.startswith("PIP_") and value:
            yield name, _key(name.removeprefix("PIP_")), value


def _key(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


def _parse(file: ConfigurationFile) -> RawConfigParser:
    import configparser

    parser = configparser.RawConfigParser()
    try:
        parser.read_string(file.text, source=file.path)
    except configparser.Error as error:
        # The message may quote a line with credentials.
        raise InvalidConfiguration(
            "pip's configuration cannot be parsed",
            where=file.path,
            note=redact(error.message),
            hint="`pip config debug` shows which files pip reads",
        ) from None
    return parser


# --- values ----------------------------------------------------------------------


def _text(value: str, _key: str, _origin: str) -> str:
    return value


def _list(value: str, _key: str, _origin: str) -> tuple[str, ...]:
    return tuple(value.split())


def _names(value: str, _key: str, _origin: str) -> tuple[str, ...]:
    return tuple(value.replace(",", " ").split())


def _boolean(value: str, key: str, origin: str) -> bool:
    lowered = value.strip().lower()
    if lowered in {"y", "yes", "t", "true", "on", "1"}:
        return True
    if lowered in {"n", "no", "f", "false", "off", "0"}:
        return False
    raise _invalid_value(value, key, origin, "yes or no")


def _no_cache(value: str, key: str, origin: str) -> bool:
    # As in pip, for historical reasons: any valid value, even "no", turns the cache off.
    _boolean(value, key, origin)
    return False


def _seconds(value: str, key: str, origin: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise _invalid_value(value, key, origin, "a number of seconds")
    return seconds


_MAX_DIGITS = 18


def _count(value: str, key: str, origin: str) -> int:
    if not value.strip().isdecimal() or len(value) > _MAX_DIGITS:
        raise _invalid_value(value, key, origin, "a number")
    return int(value)


def _keyring(value: str, key: str, origin: str) -> str:
    if value not in {"auto", "disabled", "import", "subprocess"}:
        raise _invalid_value(value, key, origin, "auto, disabled, import or subprocess")
    return value


def _cooldown(value: str, key: str, origin: str) -> Cooldown:
    from wheelfit.sources.cooldown import Cooldown, parse_cutoff

    try:
        return Cooldown(parse_cutoff(value))
    except ValueError:
        raise _invalid_value(value, key, origin, "a date, a time or a duration as P7D") from None


def _invalid_value(value: str, key: str, origin: str, expected: str) -> InvalidConfiguration:
    return InvalidConfiguration(
        f"{key} must be {expected}, not {redact(value)!r}",
        where=origin,
        hint="correct it there; pip does not accept it either",
    )


def _expanded(text: str, home: Path) -> str:
    if text == "~" or text.startswith(("~/", "~\\")):
        return str(home) + text[1:]
    return text


_OPTIONS: Mapping[str, tuple[str, Callable[[str, str, str], Any]]] = {
    "index-url": ("index_url", _text),
    "pypi-url": ("index_url", _text),
    "extra-index-url": ("extra_index_urls", _list),
    "find-links": ("find_links", _list),
    "no-index": ("no_index", _boolean),
    "cert": ("cert", _text),
    "client-cert": ("client_cert", _text),
    "proxy": ("proxy", _text),
    "no-proxy-env": ("no_proxy_env", _boolean),
    "trusted-host": ("trusted_hosts", _list),
    "timeout": ("timeout", _seconds),
    "default-timeout": ("timeout", _seconds),
    "retries": ("retries", _count),
    "resume-retries": ("resume_retries", _count),
    "keyring-provider": ("keyring", _keyring),
    "no-cache-dir": ("cache", _no_cache),
    "uploaded-prior-to": ("cooldown", _cooldown),
}
"""pip's name of each option, the setting it becomes, and how its text is read."""

_RULES: Mapping[str, tuple[str, Callable[[str, str, str], Any]]] = {
    "constraint": ("constraints", _list),
    "pre": ("pre", _boolean),
    "only-binary": ("only_binary", _names),
    "no-binary": ("no_binary", _names),
    "prefer-binary": ("prefer_binary", _boolean),
    "require-hashes": ("require_hashes", _boolean),
    "require-virtualenv": ("require_virtualenv", _boolean),
}
"""The same for rules about installing."""

_RULE_NAMES = {"require-venv": "require-virtualenv"}
"""The usual name of a rule, by another name in pip."""

_REPORTED = frozenset(["prefix", "root", "target"])
"""Options that are not supported but reported, since they decide the location of files."""
