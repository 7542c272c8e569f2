"""Settings in layers: the values in effect where the command line sets none, and their origins.

In order of precedence: variables ``WHEELFIT_KEY``, the project's ``[tool.wheelfit]``, the user's
file, the site's file. Lists are joined in that order.

A project's file is read only for commands that work on a project (`project_file`): the project
decides about installed packages there anyway. It can only change settings that choose packages.
Other commands take no settings from a file in the current folder: an archive unpacked there must
not decide about installed packages. But they refuse to install a package that the file pins to an
index (`wheelfit.operations.projects.check_folder_pins`).
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from wheelfit.cli.options.option import PREFIX, Option, ProjectAccess
from wheelfit.cli.options.values import ValuePlace, unknown_setting
from wheelfit.operations.user_folders import (
    VARIABLE,
    configuration_file,
    home,
    refuse_pipe,
    site_folder,
)
from wheelfit_runtime.errors import InvalidConfiguration, os_reason

if TYPE_CHECKING:
    import os
    from argparse import Namespace
    from collections.abc import Callable, Mapping

    from wheelfit.cli.options.arguments import OptionParser

PROJECT = "project"
_MAX_SIZE = 1 << 20
"""The largest size of a configuration file, in bytes."""


class SettingOrigin(NamedTuple):
    """The file, variable or option of a setting."""

    layer: str
    """``command line``, ``variable``, ``project``, ``user`` or ``site``."""
    where: str = ""
    """File and line, or the variable."""

    def __str__(self) -> str:
        return self.where or self.layer


class Layer(NamedTuple):
    """The settings of one file, or of all variables."""

    name: str
    place: str
    """The file; empty for variables."""
    values: Mapping[str, tuple[Any, SettingOrigin]] = MappingProxyType({})
    """Values by key, each with its origin."""
    exists: bool = True
    """Whether the file exists."""
    is_restricted: bool = False
    """Whether it can only change settings that a project can."""


class EffectiveValue(NamedTuple):
    """The value of a key, and its layers."""

    value: Any
    """The value for commands; None if no layer sets one."""
    parts: tuple[tuple[SettingOrigin, Any], ...] = ()
    """The origin of each part, in order of precedence."""


class Configuration(NamedTuple):
    """The layers of settings, in order of precedence."""

    layers: tuple[Layer, ...] = ()

    def effective(self, key: str, argument: Any = None) -> EffectiveValue:
        """Return the value in effect for a key; lists are joined from all layers.

        :param argument: the value on the command line; None: there is none.
        """
        if not any(key in layer.values for layer in self.layers):
            return EffectiveValue(
                argument, () if argument is None else ((SettingOrigin("command line"), argument),)
            )
        from wheelfit.cli.options.settings import SETTINGS

        setting = SETTINGS[key]
        kind = setting.kind
        value: Any = None
        parts: tuple[tuple[SettingOrigin, Any], ...] = ()
        for layer in reversed(
            self.layers
        ):  # from the lowest one; `value` is that of the layers below
            if key not in layer.values:
                continue
            layer_value, origin = layer.values[key]
            allowed_value = layer_value
            if layer.is_restricted and setting.project is ProjectAccess.TIGHTEN:
                allowed_value = kind.tighten(layer_value, value)
                if allowed_value == value:
                    continue
            value = allowed_value if value is None else kind.join(allowed_value, value)
            parts = ((origin, layer_value), *(parts if kind.is_joined else ()))
        if argument is not None:
            value = argument if value is None else kind.join(argument, value)
            parts = ((SettingOrigin("command line"), argument), *(parts if kind.is_joined else ()))
        return EffectiveValue(value, parts)


def project_file(arguments: Namespace) -> Path | None:
    """Return the ``pyproject.toml`` of the project a command works on, if there is one.

    It is the file of ``--project``, else of the current folder if no requirements are named, or the
    file beside the lock. Commands that edit a project search parent folders, too.
    """
    if getattr(arguments, "edits_project", False):
        from wheelfit.operations.projects import nearest_project

        return nearest_project(arguments.project)
    if hasattr(arguments, "project"):
        if arguments.project is None and (arguments.requirements or arguments.requirement):
            return None
        path = Path(arguments.project or ".")
        with suppress(OSError):  # the error is reported where it is read
            if path.is_dir():
                return path / "pyproject.toml"
        return path
    if (lock := getattr(arguments, "lock", None)) is not None:
        return Path(lock).parent / "pyproject.toml"
    return None


# --- reading them -------------------------------------------------------------------------------


def read_layers(
    arguments: Namespace, environ: Mapping[str, str], site: Path | None = None
) -> Configuration:
    """Read the layers of settings for a command.

    :param arguments: of the command; they name its project.
    :param site: the folder of the site's files; default: that of this system.
    :raises InvalidConfiguration: a layer cannot be read, or has an unknown setting.
    """
    project = project_file(arguments)
    user = configuration_file(environ, sys.platform, home())
    folder = site_folder(sys.platform) if site is None else site
    return Configuration(
        (
            read_variables(environ),
            Layer(PROJECT, "") if project is None else read_project(project),
            Layer(PROJECT, "") if project is None else read_uv_settings(project),
            read_file(user, "user", must_exist=bool(environ.get(VARIABLE))),
            read_file(folder / "wheelfit.toml", "site"),
        )
    )


def read_variables(environ: Mapping[str, str]) -> Layer:
    """Read the settings of variables; empty ones are ignored.

    :raises InvalidConfiguration: a value is of the wrong kind.
    """
    values: dict[str, tuple[Any, SettingOrigin]] = {}
    for name in filter(_may_be_setting, environ):
        from wheelfit.cli.options.settings import (
            SETTINGS,
        )  # here: most environments have no setting

        option, text = SETTINGS.get(key_of_variable(name)), environ[name]
        if option is not None and option.variable and text.strip():
            value = option.kind.parse_variable(option.key, text, ValuePlace(name))
            values[option.key] = (value, SettingOrigin("variable", name))
    return Layer("variable", "", values)


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that resemble settings but are none: misspelt, or for projects only."""
    from wheelfit.cli.options.settings import SETTINGS

    return tuple(
        sorted(
            name
            for name in filter(_may_be_setting, environ)
            if (option := SETTINGS.get(key_of_variable(name))) is None or not option.variable
        )
    )


def _may_be_setting(variable: str) -> bool:
    """Return whether a variable has the prefix of settings, and no other purpose."""
    return (
        variable.startswith(PREFIX)
        and not variable.endswith(("_FILE", "_CACHE_DIR"))
        and variable not in ("WHEELFIT_INDEX_TOKEN", "WHEELFIT_OIDC_TOKEN", "WHEELFIT_PROXY_SECRET")
        and not variable.startswith(
            ("WHEELFIT_OVERRIDE_", "WHEELFIT_FAKE_", "WHEELFIT_LIBRARY_", "WHEELFIT_SERVER_")
        )
    )


def key_of_variable(variable: str) -> str:
    """Return the key of the setting that a variable would set."""
    return variable.removeprefix(PREFIX).lower().replace("_", "-")


def read_file(path: Path, name: str, *, must_exist: bool = False) -> Layer:
    """Read a file of the user or of the site.

    :param name: its owner: ``user`` or ``site``.
    :param must_exist: whether the user named the file.
    :raises InvalidConfiguration: it cannot be read, or has an unknown setting.
    """
    data, status = _read(path, must_exist=must_exist)
    if not data:  # as /dev/null: nothing to parse, so the parser need not be imported
        return Layer(name, str(path), exists=status is not None)
    # A file that other users could write is limited to the settings of a project.
    is_restricted = name == "site" and not _is_owned_by_root(path, status)
    values = _read_settings(_parse(path, data), path, data, name, (), is_restricted=is_restricted)
    return Layer(name, str(path), values, is_restricted=is_restricted)


def read_project(path: Path) -> Layer:
    """Read the settings of a project under ``[tool.wheelfit]``.

    :param path: its ``pyproject.toml``; if missing, the layer is empty.
    :raises InvalidConfiguration: it cannot be read, or has settings that a project must not change.
    """
    data, status = _read(path, must_exist=False)
    if b"wheelfit" not in data:
        return Layer(PROJECT, str(path), exists=status is not None)
    table = _parse(path, data).get("tool", {})
    table = table.get("wheelfit", {}) if isinstance(table, dict) else {}
    if not isinstance(table, dict):
        raise InvalidConfiguration("tool.wheelfit is not a table", where=str(path))
    table = _settings_of(table)
    if not table:
        return Layer(PROJECT, str(path), is_restricted=True)
    values = _read_settings(table, path, data, PROJECT, ("tool", "wheelfit"), is_restricted=True)
    return Layer(PROJECT, str(path), values, is_restricted=True)


def _settings_of(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a project's table.

    ``conflicts`` is left out, and so are sources that name locations: they are no settings.
    """
    from wheelfit.resolution.project_sources import is_own_source

    settings = {key: value for key, value in table.items() if key != "conflicts"}
    sources = settings.get("sources")
    if sources and isinstance(sources, dict):
        settings["sources"] = {name: row for name, row in sources.items() if not is_own_source(row)}
        if not settings["sources"]:
            del settings["sources"]
    return settings


def read_uv_settings(path: Path) -> Layer:
    """Read the indexes, pins, constraints, overrides and exclusions that a project names for uv.

    :param path: its ``pyproject.toml``; nothing is read where there is none.
    :raises InvalidConfiguration: it cannot be read, or has two indexes of one name.
    """
    data, _ = _read(path, must_exist=False)
    if b"uv" not in data:
        return Layer(PROJECT, "")
    from wheelfit.cli.options.file_tables import INDEXES, read_pin
    from wheelfit.cli.options.settings import SETTINGS
    from wheelfit.core.strict_json import path_of
    from wheelfit.core.toml_lines import lines_of

    tool = _parse(path, data).get("tool", {})
    table = tool.get("uv", {}) if isinstance(tool, dict) else {}
    rows = table.get("index", []) if isinstance(table, dict) else []
    lines = lines_of(data.decode())

    def place(steps: tuple[str | int, ...]) -> str:
        line = lines.get(path_of("tool", "uv", *steps))
        return f"{path}: tool.uv.{steps[0]}" if line is None else f"{path}:{line}"

    # Other keys of an index in uv's configuration are ignored, and so is a folder of links. The URL
    # is the name of an index without one.
    indexes = INDEXES.read(
        "index",
        [
            {"name": row["url"], **{key: row[key] for key in _INDEX_KEYS if key in row}}
            for row in (rows if isinstance(rows, list) else [])
            if isinstance(row, dict)
            and isinstance(row.get("url"), str)
            and row.get("format") != "flat"
        ],
        ValuePlace(place(("index",)), place),
    )
    sources = table.get("sources", {}) if isinstance(table, dict) else {}
    pins = tuple(
        read_pin(
            f"tool.uv.sources.{name}",
            name,
            {key: row[key] for key in ("index", "marker") if key in row},
            ValuePlace(place(("sources", name))),
        )
        for name, source in (sources.items() if isinstance(sources, dict) else ())
        for row in (source if isinstance(source, list) else [source])
        if isinstance(row, dict) and isinstance(row.get("index"), str)
    )
    values: dict[str, tuple[Any, SettingOrigin]] = {}
    for key, rows in (("index", indexes), ("sources", pins)):
        if rows:
            values[key] = (rows, SettingOrigin(PROJECT, f"{path}: tool.uv.{key}"))
    for key in ("constraints", "overrides", "excludes"):
        name = f"{key[:-1]}-dependencies"
        if isinstance(table, dict) and name in table:
            position = ValuePlace(place((name,)), place)
            requirements = SETTINGS[key].kind.read(f"tool.uv.{name}", table[name], position)
            values[key] = (requirements, SettingOrigin(PROJECT, f"{path}: tool.uv.{name}"))
    return Layer(PROJECT, "", values, is_restricted=True)


_INDEX_KEYS = ("name", "url", "explicit", "default")


def _read(path: Path, *, must_exist: bool) -> tuple[bytes, os.stat_result | None]:
    """Return the content of a file and its status; empty and None where there is no file."""
    import os

    try:
        if not must_exist:
            refuse_pipe(path)
        with path.open("rb") as file:
            return file.read(_MAX_SIZE + 1), os.fstat(file.fileno())
    except FileNotFoundError:
        if must_exist:
            raise InvalidConfiguration(
                "the configuration file does not exist", where=str(path), hint=f"see {VARIABLE}"
            ) from None
    except OSError as error:
        if must_exist or not isinstance(error, NotADirectoryError):
            raise InvalidConfiguration(
                f"the configuration file cannot be read: {os_reason(error)}",
                where=str(path),
                hint="make it readable, set HOME to a folder of your own, or name another file "
                f"with {VARIABLE}",
            ) from None
    return b"", None


def _parse(path: Path, data: bytes) -> Mapping[str, Any]:
    from wheelfit.core import strict_toml

    try:
        return strict_toml.load(data, strict_toml.TomlLimits(size=_MAX_SIZE))
    except ValueError as error:
        raise InvalidConfiguration(
            f"the configuration file is not TOML: {error}", where=str(path)
        ) from None


def _is_owned_by_root(path: Path, status: os.stat_result | None) -> bool:
    if sys.platform == "win32" or status is None:  # by default any user may make a folder there
        return False
    folder = path.parent.stat()
    return all(entry.st_uid == 0 and not entry.st_mode & 0o022 for entry in (status, folder))


def _read_settings(
    table: Mapping[str, Any],
    path: Path,
    data: bytes,
    name: str,
    above: tuple[str, ...],
    *,
    is_restricted: bool,
) -> dict[str, tuple[Any, SettingOrigin]]:
    """Read the settings of a table, with the origin of each.

    :param table: the keys with their values.
    :param above: the keys of the tables around it.
    :param is_restricted: whether it can only change settings that a project can.
    """
    from wheelfit.cli.options.settings import SETTINGS
    from wheelfit.core.strict_json import path_of
    from wheelfit.core.toml_lines import lines_of, nearest

    lines = lines_of(data.decode())

    def place(steps: tuple[str | int, ...]) -> str:
        line = nearest(path_of(*above, *steps), lines)
        return str(path) if line is None else f"{path}:{line}"

    values = {}
    for key, value in table.items():
        position = ValuePlace(place((key,)), place)
        setting = SETTINGS.get(key)
        if setting is None:
            raise unknown_setting(key, SETTINGS, position)
        if name != PROJECT and setting.project is ProjectAccess.PROJECT_ONLY:
            raise InvalidConfiguration(
                f"{key} belongs to a project",
                where=position.where,
                hint="write it under [tool.wheelfit] of its pyproject.toml",
            )
        if is_restricted and (
            setting.project is ProjectAccess.NONE
            or (setting.project is ProjectAccess.EMPTY and value != [])
        ):
            raise _not_allowed(setting, name, position)
        values[key] = (setting.kind.read(key, value, position), SettingOrigin(name, position.where))
    return values


def _not_allowed(setting: Option, name: str, place: ValuePlace) -> InvalidConfiguration:
    if name == PROJECT:
        variable = f", or in {setting.variable}" if setting.kind.is_text else ""
        rule = f"cannot set {setting.key}"
        if setting.project is ProjectAccess.EMPTY:
            rule = f"can only set {setting.key} to []"
        return InvalidConfiguration(
            f"a project {rule}: {setting.refusal_reason}",
            where=place.where,
            hint=f"it belongs in your own wheelfit.toml{variable} (`wheelfit config path`)",
        )
    return InvalidConfiguration(
        f"{setting.key} cannot be set in a file that others than the administrator can write: "
        f"{setting.refusal_reason}",
        where=place.where,
        hint="only root may own and write the file and its folder",
    )


def value_in_toml(value: object) -> str:
    """Return a value of a setting as TOML, on one line."""
    from wheelfit.core.toml_edits import key_in_toml, text_in_toml

    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(value_in_toml, value))}]"
    if isinstance(value, dict):
        pairs = (f"{key_in_toml(key)} = {value_in_toml(element)}" for key, element in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, str):
        return text_in_toml(value)
    return str(value).removesuffix(".0")


# --- settings as defaults of arguments ----------------------------------------------------------


def clear_defaults(parser: OptionParser) -> Mapping[str, Any]:
    """Set the arguments' defaults to None; return the original defaults.

    :param parser: the parser of a command; it now parses settings without an argument as None.
    """
    defaults = {
        option.destination: parser.get_default(option.destination)
        for option in parser.settings.values()
    }
    parser.set_defaults(**{name: None for name, default in defaults.items() if default is not None})
    return defaults


def complete(
    parser: OptionParser,
    arguments: Namespace,
    defaults: Mapping[str, Any],
    read: Callable[[], Configuration],
) -> None:
    """Fill in the arguments that the command line leaves open.

    :param parser: a parser without defaults.
    :param defaults: its defaults, as `clear_defaults` returned them.
    :param read: returns the settings.
    """
    configuration = read() if parser.settings else Configuration()
    for key, option in parser.settings.items():
        name = option.destination
        value = getattr(arguments, name)
        if not (option.disabled_by and getattr(arguments, option.disabled_by)):
            value = configuration.effective(key, value).value
        setattr(arguments, name, defaults[name] if value is None else value)
