"""Scripts of commands, from the entry points of wheels.

PyPA's ``installer`` creates launchers for Windows, and is imported only then.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from installer.scripts import LauncherKind, ScriptSection

    from wheelfit.wheels.entry_points import Command

_MAX_SHEBANG_BYTES = 127  # the limit of the oldest Linux kernels
_SCRIPT = """\
{shebang}
import sys

from {module} import {name}

if __name__ == "__main__":
    sys.exit({attribute}())
"""


def shebang_of(interpreter: str, launcher: str) -> str:
    """Return the first line of a Python script, without its end.

    Where that line cannot name the interpreter, the shell starts it, and three lines are returned.

    :param launcher: kind of script, ``posix`` or one of Windows.
    """
    shebang = f"#!{interpreter}"
    has_blanks = any(map(str.isspace, interpreter))
    is_too_long = len(shebang.encode()) >= _MAX_SHEBANG_BYTES
    if launcher == "posix" and (has_blanks or is_too_long):
        # For Python, the lines after the first are a string.
        return f"#!/bin/sh\n'''exec' {shlex.quote(interpreter)} \"$0\" \"$@\"\n' '''"
    return shebang


def script_of(command: Command, interpreter: str, launcher: str) -> tuple[str, bytes]:
    """Return the name and the content of the script that runs a command.

    :param launcher: kind of script, ``posix`` or one of Windows.
    """
    if launcher == "posix":
        text = _SCRIPT.format(
            shebang=shebang_of(interpreter, launcher),
            module=command.module,
            name=command.attribute.partition(".")[0],
            attribute=command.attribute,
        )
        return command.name, text.encode()
    from installer.scripts import Script  # imports a hundred modules

    section = cast("ScriptSection", command.section)
    script = Script(command.name, command.module, command.attribute, section)
    return script.generate(interpreter, cast("LauncherKind", launcher))
