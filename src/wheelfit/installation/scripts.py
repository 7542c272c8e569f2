"""Scripts of commands, from the entry points of wheels.

PyPA's ``installer`` creates launchers for Windows, and scripts whose interpreter has a path that is
too long or has blanks. It is imported only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from installer.scripts import LauncherKind, ScriptSection

    from wheelfit.wheels.entry_points import Command

_MAX_SHEBANG_BYTES = 127  # the limit of the oldest Linux kernels
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
    shebang = f"#!{interpreter}\n".encode()
    if (
        launcher == "posix"
        and len(shebang) <= _MAX_SHEBANG_BYTES
        and not any(map(str.isspace, interpreter))
    ):
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
