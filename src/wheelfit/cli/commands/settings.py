"""The command that shows the settings in effect, and their origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wheelfit.cli.command import Command, make_parser
from wheelfit.cli.options.table.upkeep import CONFIG, SETTINGS_SHOWN

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.configuration import Configuration, EffectiveValue
    from wheelfit.cli.output import Output, Style
    from wheelfit.operations.context import Context
    from wheelfit.operations.indexes import ConfiguredSource
    from wheelfit.operations.owner_indexes import OwnerIndex


def _show(arguments: Namespace, output: Output, context: Context) -> int:
    """Show settings, with their origins if requested."""
    from wheelfit.cli.configuration import read_layers, unknown_variables
    from wheelfit.cli.options.settings import SETTINGS
    from wheelfit.cli.render.diagnosis import owner_lines, source_lines

    command = " ".join(arguments.command) or None
    defaults, works_on_project = _defaults(command)
    configuration = read_layers(
        _project_arguments(arguments, works_on_project=works_on_project), context.environ
    )
    effective = {key: configuration.effective(key) for key in sorted(defaults)}
    sources, owners = _sources(effective, context) if "index" in effective else ((), ())
    output.result_json(
        {
            "version": 1,
            "command": command,
            "files": _files(configuration),
            "settings": {
                key: {
                    "value": _value(key, setting, defaults[key]),
                    "origin": [
                        {
                            "layer": origin.layer,
                            "where": origin.where,
                            "value": SETTINGS[key].kind.show(value),
                        }
                        for origin, value in setting.parts
                    ],
                }
                for key, setting in effective.items()
            },
            "sources": [source.to_json() for source in sources],
            "owners": [owner.to_json() for owner in owners],
        }
    )
    if not effective:
        output.result(f"no setting concerns {command}")
    for key, setting in effective.items():
        _print_setting(key, setting, defaults[key], output, with_origin=arguments.origin)
    if sources:
        output.result("# files come from, in this order:")
        for line in source_lines(sources):
            output.result(f"# {line}")
    for line in owner_lines(owners):
        output.result(f"# {line}")
    for name in unknown_variables(context.environ):
        output.warn(f"{name} is not a setting{_similar_variable(name)}")
    return 0


def _sources(
    effective: Mapping[str, EffectiveValue], context: Context
) -> tuple[tuple[ConfiguredSource, ...], tuple[OwnerIndex, ...]]:
    """Return the sources in effect, as all settings and pip's configuration have it.

    Also return the indexes of owners of projects, with whether they are in effect.
    """
    from wheelfit.operations.indexes import configured_sources, read_settings
    from wheelfit.operations.owner_indexes import OwnerIndexes
    from wheelfit.operations.requests import SourceOptions

    bridges = effective["bridges"]
    request = SourceOptions(
        index_table=effective["index"].value or (),
        pin_table=effective["sources"].value or (),
        bridge=tuple(bridges.value or ()),
        shipped_bridges=effective["shipped-bridges"].value or False,
    )
    settings = read_settings(request, context.environ)
    owners = OwnerIndexes(request, settings, context.environ)
    disabling = [origin for origin, families in bridges.parts if "none" in families]
    reason = f"bridges is set to [] by {disabling[0]}" if disabling else ""
    return configured_sources(settings), owners.indexes(reason)


def _project_arguments(arguments: Namespace, *, works_on_project: bool) -> Namespace:
    """Return the arguments of a command that works on the project, or on none."""
    import os
    from argparse import Namespace

    from wheelfit_runtime.errors import FileProblem

    if arguments.project and not os.path.lexists(arguments.project):
        raise FileProblem("the project does not exist", where=arguments.project)
    if not works_on_project:
        return Namespace()
    return Namespace(project=arguments.project, requirements=[], requirement=[])


def _defaults(name: str | None) -> tuple[Mapping[str, Any], bool]:
    """Return the default of each setting, and whether a command works on a project.

    :param name: the command, or the first words of several; None: all.
    """
    from wheelfit.cli.commands import working_commands
    from wheelfit.errors import UsageError, did_you_mean

    commands = working_commands()
    names = [
        command for command in commands if name is None or f"{command} ".startswith(f"{name} ")
    ]
    if not names:
        hint = did_you_mean(str(name), commands, "`wheelfit --help` lists the commands")
        raise UsageError(f"unknown command {name!r}", hint=hint)
    defaults: dict[str, Any] = {}
    works_on_project = False
    for command_name in names:
        parser = make_parser(command_name, commands[command_name])
        works_on_project |= any(
            option.destination in ("project", "lock")
            for option in commands[command_name].command_line_options()
        )
        for key, option in parser.settings.items():
            defaults.setdefault(key, parser.get_default(option.destination))
    return defaults, works_on_project


def _value(key: str, setting: EffectiveValue, default: Any) -> object:
    """Return the value in effect in the form of a file; None if there is none."""
    from wheelfit.cli.options.settings import SETTINGS

    value = default if setting.value is None else setting.value
    return None if value is None else SETTINGS[key].kind.show(value)


def _print_setting(
    key: str, setting: EffectiveValue, default: Any, output: Output, *, with_origin: bool
) -> None:
    from wheelfit.cli.configuration import value_in_toml
    from wheelfit.cli.options.settings import SETTINGS

    value = _value(key, setting, default)
    line = f"# {key} is not set" if value is None else f"{key} = {value_in_toml(value)}"
    style: Style = "plain" if setting.parts else "dim"
    if not with_origin:
        output.result(line, style)
        return
    if len(setting.parts) < 2:
        where = str(setting.parts[0][0]) if setting.parts else "default"
        output.result(f"{line}  # {where}", style)
        return
    output.result(line)
    for part_origin, part in setting.parts:
        output.result(f"  # {value_in_toml(SETTINGS[key].kind.show(part))}  {part_origin}", "dim")


def _path(arguments: Namespace, output: Output, context: Context) -> int:
    """Show the files with settings, in order of precedence."""
    from wheelfit.cli.configuration import read_layers

    files = _files(
        read_layers(_project_arguments(arguments, works_on_project=True), context.environ)
    )
    output.result_json({"version": 1, "files": files})
    for file in files:
        missing = "" if file["exists"] else "  (not there)"
        output.result(
            f"{file['layer']:<8} {file['path']}{missing}", "plain" if file["exists"] else "dim"
        )
    return 0


def _files(configuration: Configuration) -> list[dict[str, object]]:
    return [
        {"layer": layer.name, "path": layer.place, "exists": layer.exists}
        for layer in configuration.layers
        if layer.place
    ]


def _similar_variable(variable: str) -> str:
    """Return the closest known variable, as the end of a sentence."""
    from difflib import get_close_matches

    from wheelfit.cli.configuration import key_of_variable
    from wheelfit.cli.options.settings import SETTINGS

    key = key_of_variable(variable)
    if key in SETTINGS:
        return f"; {key} belongs to a project, under [tool.wheelfit] of its pyproject.toml"
    settable = [key for key, option in SETTINGS.items() if option.variable]
    matches = get_close_matches(key, settable, n=1)
    return f"; {SETTINGS[matches[0]].variable} is one" if matches else ""


COMMANDS = {
    "config": Command(
        "Show which settings are in effect, and who set them.",
        subcommands={
            "show": Command(
                """\
Show every setting, or those that concern one command, and who set them.

Without COMMAND, and for commands that work on a project, its pyproject.toml is read too. The output
is valid in a configuration file. It ends with the sources of files: all places of find-links and
indexes, in the order of use, each with the file or variable that sets it; then the projects for
which the index of their owner replaces the public registry, or the reason why it does not.
""",
                (SETTINGS_SHOWN, CONFIG),
                _show,
            ),
            "path": Command(
                "Show the configuration files in order of precedence.",
                (CONFIG,),
                _path,
            ),
        },
    ),
}
