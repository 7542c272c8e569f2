"""Scripts that complete the command line in shells, generated from the table of options.

Completion never starts Python: all words are in the script. Commands, subcommands, options, choices
and the paths of files and folders are completed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit.cli.command import Command, leaf_commands
from wheelfit.cli.options.values import Flag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wheelfit.cli.options.option import Option


def completion_script(shell: str, commands: Mapping[str, Command]) -> str:
    """Return the completion script for a shell.

    :param shell: ``bash``, ``zsh`` or ``fish``.
    """
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    return "\n".join(write(commands)) + "\n"


def _command_groups(commands: Mapping[str, Command]) -> list[list[tuple[str, Command]]]:
    """Return the commands with subcommands, with their full names, one list for each depth."""
    groups_by_depth: dict[int, list[tuple[str, Command]]] = {}
    for top, command in commands.items():
        for name, group in command.parents(top):
            groups_by_depth.setdefault(name.count(" "), []).append((name, group))
    return [groups_by_depth[depth] for depth in sorted(groups_by_depth)]


def _takes_value(option: Option) -> bool:
    return not isinstance(option.kind, Flag)


# --- bash ---------------------------------------------------------------------------------------

_BASH_START = """\
# Completion of wheelfit for bash; written by `wheelfit completion bash`.
_wheelfit_words() {
    local IFS=$' \\t\\n'
    COMPREPLY=($(compgen -W "$1" -- "$cur"))
}
_wheelfit_paths() {
    local path
    COMPREPLY=()
    while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen "$1" -- "$cur")
    if type compopt >/dev/null 2>&1; then compopt -o filenames; fi
}
_wheelfit() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local command=${COMP_WORDS[1]} first=2 place
    COMPREPLY=()
    if [[ $cur == = ]]; then cur=
    elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi"""

_BASH_END = """\
}
complete -F _wheelfit wheelfit"""


def _bash(commands: Mapping[str, Command]) -> Iterator[str]:
    yield _BASH_START
    yield "    if ((COMP_CWORD == 1)); then"
    yield f'        _wheelfit_words "{" ".join([*commands, "--help", "--version"])}"; return'
    yield "    fi"
    for index, groups in enumerate(_command_groups(commands), 2):
        yield "    case $command in"
        for name, command in groups:
            words = " ".join([*command.subcommands, "--help"])
            yield f'    "{name}")'
            yield f"        if ((COMP_CWORD == {index})); then"
            yield f'            _wheelfit_words "{words}"; return'
            yield "        fi"
            yield f'        command="$command ${{COMP_WORDS[{index}]}}" first={index + 1} ;;'
        yield "    esac"
    yield "    for ((place = first; place < COMP_CWORD; place++)); do"
    yield "        if [[ ${COMP_WORDS[place]} == -- ]]; then _wheelfit_paths -f; return; fi"
    yield "    done"
    yield '    case "$command $prev" in'
    patterns_by_action: dict[str, list[str]] = {}
    for name, command in leaf_commands(commands):
        for option in command.command_line_options():
            if _takes_value(option) and not option.is_positional:
                patterns = patterns_by_action.setdefault(_bash_value(option), [])
                patterns += [f'"{name} {spelling}"' for spelling in option.names]
    for action, patterns in patterns_by_action.items():
        yield f"    {'|'.join(patterns)})"
        yield f"        {action}; return ;;"
    yield "    esac"
    yield "    if [[ $cur == -* ]]; then"
    yield "        case $command in"
    for name, command in leaf_commands(commands):
        options = [
            spelling
            for option in command.command_line_options()
            if not option.is_positional
            for spelling in option.names
        ]
        yield f'        "{name}") _wheelfit_words "{" ".join([*options, "--help"])}" ;;'
    yield "        esac"
    yield "        return"
    yield "    fi"
    yield '    case "$command" in'
    for name, command in leaf_commands(commands):
        positionals = [option for option in command.command_line_options() if option.is_positional]
        if not positionals:
            continue
        yield f'    "{name}")'
        yield f"        {_bash_value(positionals[0])} ;;"
    yield "    esac"
    yield _BASH_END


def _bash_value(option: Option) -> str:
    """Return the call that completes a value."""
    if option.kind.choices:
        return f'_wheelfit_words "{" ".join(option.kind.choices)}"'
    return {"files": "_wheelfit_paths -f", "folders": "_wheelfit_paths -d"}.get(
        option.kind.completes, ":"
    )


# --- zsh ----------------------------------------------------------------------------------------


def _zsh(commands: Mapping[str, Command]) -> Iterator[str]:
    yield "#compdef wheelfit"
    yield "# Completion of wheelfit for zsh; written by `wheelfit completion zsh`."
    yield "_wheelfit() {"
    yield "    local curcontext=$curcontext state line command"
    yield "    typeset -A opt_args"
    yield "    local -a names options"
    yield "    if (( CURRENT == 2 )); then"
    yield f"        names=({_zsh_names(commands)})"
    yield "        _describe -t commands 'command' names; return"
    yield "    fi"
    yield "    command=$words[2]"
    for groups in _command_groups(commands):
        yield "    case $command in"
        for name, command in groups:
            yield f"    {_quoted(name)})"
            yield "        if (( CURRENT == 3 )); then"
            yield f"            names=({_zsh_names(command.subcommands)})"
            yield "            _describe -t commands 'command' names; return"
            yield "        fi"
            yield '        command="$command $words[3]"'
            yield "        shift words; (( CURRENT-- )) ;;"
        yield "    esac"
    yield "    shift words; (( CURRENT-- ))"
    yield "    case $command in"
    for name, command in leaf_commands(commands):
        yield f"    {_quoted(name)})"
        yield "        options=("
        for option in command.command_line_options():
            for spec in _zsh_specs(option):
                yield f"            {spec}"
        yield "        ) ;;"
    yield "    *) return 1 ;;"
    yield "    esac"
    yield "    _arguments -s '(- *)--help[show the options]' $options"
    yield "}"
    yield "if [[ $funcstack[1] == _wheelfit ]]; then"
    yield '    _wheelfit "$@"'
    yield "else"
    yield "    compdef _wheelfit wheelfit"
    yield "fi"


def _zsh_names(commands: Mapping[str, Command]) -> str:
    return " ".join(
        _quoted(f"{name}:" + command.summary.replace(":", r"\:"))
        for name, command in commands.items()
    )


def _zsh_specs(option: Option) -> Iterator[str]:
    """Yield the specifications of ``_arguments`` for an option."""
    kind = option.kind
    action = {"files": "_files", "folders": "_files -/"}.get(kind.completes, " ")
    if kind.choices:
        action = f"({' '.join(kind.choices)})"
    title = re.sub(r"([:\\])", r"\\\1", option.metavar or option.name.strip("-"))
    value = f":{title}:{action}" if _takes_value(option) else ""
    if option.is_positional:
        position = {"*": "*", "+": "*", "?": ":"}.get(option.nargs, "")
        yield _quoted(f"{position}{value}")
        return
    text = re.sub(r"([\[\]:\\])", r"\\\1", option.help)
    all_names = f"({' '.join(option.names)})" if len(option.names) > 1 else ""
    for name in option.names:
        exclusions = "*" if kind.is_repeated else all_names
        separator = ("=" if name.startswith("--") else "+") if value else ""
        yield _quoted(f"{exclusions}{name}{separator}[{text}]{value}")


def _quoted(text: str) -> str:
    """Return a word in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"


# --- fish ---------------------------------------------------------------------------------------


def _fish(commands: Mapping[str, Command]) -> Iterator[str]:
    yield "# Completion of wheelfit for fish; written by `wheelfit completion fish`."
    yield "function __wheelfit_at"
    yield "    set -l words (commandline -opc)"
    yield "    contains -- '--' $words; and return 1"
    yield "    set -l command $words[2]"
    for index, groups in enumerate(_command_groups(commands), 3):
        group_paths = " ".join(name.replace(" ", "/") for name, _ in groups)
        yield f'    if contains -- "$command" {group_paths}'
        yield f'        set command "$command/$words[{index}]"'
        yield "    end"
    yield '    contains -- "$command" $argv'
    yield "end"
    yield "complete -c wheelfit -n 'not contains -- -- (commandline -opc)' -f"
    for name, command in commands.items():
        yield _fish_row("", f"-f -a {name}", command.summary)
        for group, parent in command.parents(name):
            for word, subcommand in parent.subcommands.items():
                group_path = f"{group.replace(' ', '/')}/"
                yield _fish_row(group_path, f"-f -a {word}", subcommand.summary)
    names_by_option: dict[Option, list[str]] = {}
    for name, command in leaf_commands(commands):
        for option in command.command_line_options():
            names_by_option.setdefault(option, []).append(name.replace(" ", "/"))
    for option, names in names_by_option.items():
        yield _fish_row(" ".join(names), _fish_option(option), option.help)


def _fish_row(command_paths: str, arguments: str, text: str) -> str:
    condition = _fish_quoted(
        f"__wheelfit_at {command_paths}" if command_paths else '__wheelfit_at ""'
    )
    return f"complete -c wheelfit -n {condition} {arguments} -d {_fish_quoted(text)}"


def _fish_option(option: Option) -> str:
    kind = option.kind
    value = {"files": "-F", "folders": "-x -a '(__fish_complete_directories)'"}.get(
        kind.completes, "-x"
    )
    if kind.choices:
        value = f"-x -a {_fish_quoted(' '.join(kind.choices))}"
    if option.is_positional:
        return value.replace("-x", "-f")
    names = [
        f"-{'l' if name.startswith('--') else 's'} {name.lstrip('-')}" for name in option.names
    ]
    if not _takes_value(option):
        return f"{' '.join(names)} -f"
    return f"{' '.join(names)} -r {value}"


def _fish_quoted(text: str) -> str:
    """Return a word in single quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
