"""The command ``python -m wheelfit_runtime``: explains choices and manages the library store.

Each subcommand is a module with ``run(arguments, environ, out, err)``, which returns the exit
status; it is imported on use.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from importlib import import_module

SUBCOMMANDS = {
    "explain": "wheelfit_runtime.loader.explaining",
    "store": "wheelfit_runtime.libraries.store_command",
    "table": "wheelfit_runtime.freezing",
}
"""Modules of the subcommands, by name."""

_INTERRUPTED = 130

_USAGE = """usage: python -m wheelfit_runtime explain [GROUP ...] [--try] [--json]
       python -m wheelfit_runtime table
       python -m wheelfit_runtime store COMMAND [...]
"""


def main(arguments: list[str]) -> int:
    """Run a subcommand and return the exit status."""
    out = io.StringIO()
    err = sys.stderr or io.StringIO()  # None if the parent process closed it
    name = arguments[0] if arguments else ""
    module = SUBCOMMANDS.get(name)
    status = 0
    if name in ("-h", "--help"):
        out.write(_USAGE)
    elif module is None:
        err.write(_USAGE)
        status = 2
    else:
        try:
            status = import_module(module).run(arguments[1:], os.environ, out, err)
        except KeyboardInterrupt:
            err.write("error: interrupted from the keyboard\n")
            status = _INTERRUPTED
    problem = _write_output(out.getvalue())
    if problem:
        err.write(f"error: the output cannot be written: {problem}\n")
        return 1
    return status


def _write_output(text: str) -> str:
    """Write the output to standard output, and return the error, if any."""
    stream = sys.stdout
    if stream is None or not text:
        return ""
    encoding = stream.encoding or "utf-8"
    try:
        # The encoding may lack characters of the text.
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError as error:
        # The output is closed; without this, Python would try to flush it again at exit.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        from wheelfit_runtime.errors import os_reason

        # A reader that closes the pipe early, such as `head`, is no error.
        return "" if isinstance(error, BrokenPipeError) else os_reason(error)
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
