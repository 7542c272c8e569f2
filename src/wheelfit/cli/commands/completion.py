"""Print the script that completes commands and options in a shell.

The shell answers from the script alone: completing never starts wheelfit. Print it again after an
update, for it has the options of the version that printed it.

  bash  wheelfit completion bash
        > ~/.local/share/bash-completion/completions/wheelfit

  zsh   wheelfit completion zsh > ~/.zfunc/_wheelfit  (a folder of fpath)

  fish  wheelfit completion fish > ~/.config/fish/completions/wheelfit.fish
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.upkeep import COMPLETION

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output

OPTIONS = (COMPLETION,)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Print the script."""
    from wheelfit.cli.main import commands_with_options
    from wheelfit.cli.options.completion import completion_script

    del environ
    script = completion_script(arguments.shell, commands_with_options())
    output.result_json({"version": 1, "shell": arguments.shell, "script": script})
    output.result(script.rstrip("\n"))
    return 0
