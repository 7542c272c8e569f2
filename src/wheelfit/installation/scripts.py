"""Make the scripts of commands from the entry points of wheels.

PyPA's ``installer`` makes those that are not simple: launchers for Windows, and scripts for an
interpreter whose path the first line of a file cannot hold. It is imported only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from installer.scripts import LauncherKind, ScriptSection

    from wheelfit.wheels.entry_points import Command

_LONGEST = 127  # bytes of a first line that every kernel reads
_SCRIPT = """\
#!{interpreter}
import sys

from {module} import {name}

if __name__ == "__main__":
    sys.exit({attribute}())
"""


def script_of(command: Command, interpreter: str, launcher: str) -> tuple[str, bytes]:
    """Return the name and the content of the script that runs a command.

    :param launcher: kind of script, ``posix`` or one of Windows.
    """
    first = f"#!{interpreter}\n".encode()
    if launcher == "posix" and len(first) <= _LONGEST and not any(map(str.isspace, interpreter)):
        text = _SCRIPT.format(
            interpreter=interpreter,
            module=command.module,
            name=command.attribute.partition(".")[0],
            attribute=command.attribute,
        )
        return command.name, text.encode()
    from installer.scripts import Script  # imports a hundred modules

    section = cast("ScriptSection", command.section)
    script = Script(command.name, command.module, command.attribute, section)
    return script.generate(interpreter, cast("LauncherKind", launcher))
