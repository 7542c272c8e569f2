"""Run a command line and be killed at a step of it: ``killed.py STEP FOLDER WORDS...``.

A step is a change of the file system below the folder, as the interpreter announces it.
With step 0 nothing happens but that the number of steps is printed at the end.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

# For each event, where its arguments have the number of the open folder that a name is in.
_EVENTS = {"os.rename": 2, "os.remove": 1, "os.rmdir": 1, "os.mkdir": 2, "os.chmod": 2}


def place_of(event: str, arguments: tuple[object, ...]) -> str:
    """Return the path of what is changed, be it named by a path, a number, or below a folder."""
    what, folder = arguments[0], arguments[_EVENTS[event]]
    if isinstance(what, int):
        return str(Path(f"/proc/self/fd/{what}").readlink())
    name = os.fsdecode(what)  # type: ignore[arg-type]
    if isinstance(folder, int) and folder >= 0:
        return str(Path(f"/proc/self/fd/{folder}").readlink() / name)
    return name


def main() -> int:
    """Run, or die."""
    deadly, folder, words = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    count = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event not in _EVENTS or not place_of(event, arguments).startswith(folder):
            return
        count += 1
        if count == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    from wheelfit.cli.main import main as wheelfit

    code = wheelfit(words)
    sys.stderr.write(f"\nsteps: {count}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
