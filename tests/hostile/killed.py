"""Run a command line and be killed at a step of it: ``killed.py STEP FOLDER WORDS...``.

A step is a change of the file system below the folder, as the interpreter announces it.
With step 0 nothing happens but that the number of steps is printed at the end.
"""

from __future__ import annotations

import os
import signal
import sys

_EVENTS = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod"})


def main() -> int:
    """Run, or die."""
    deadly, folder, words = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    count = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event not in _EVENTS or not os.fsdecode(arguments[0]).startswith(folder):  # type: ignore[arg-type]
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
