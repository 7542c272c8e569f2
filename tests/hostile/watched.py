"""Run a command line and write down what runs and what is imported: ``watched.py FOLDER WORDS...``.

Reports, as JSON on standard error, what is imported after the first file has come into the
folder, every program that is started, and every module that comes out of the folder.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main() -> int:
    """Run and report."""
    folder, words = sys.argv[1], sys.argv[2:]
    late: list[str] = []
    programs: list[list[str]] = []
    (library,) = Path(folder).glob("lib/python*/site-packages")
    before = {path.name for path in library.iterdir()}

    def has_changed() -> bool:
        # However files get there: not every way is announced by the interpreter.
        with os.scandir(library) as found:  # imports nothing, whatever the version of Python
            return any(e.name not in before and ".wheelfit" not in e.name for e in found)

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        match event, arguments:
            case "import", (str() as name, *_) if has_changed():
                late.append(name)
            case "subprocess.Popen", (_, list() as command, *_):
                programs.append([os.fspath(word) for word in command])

    sys.addaudithook(watch)
    from wheelfit.cli.main import main as wheelfit

    code = wheelfit(words)
    ours = [
        name
        for name, module in tuple(sys.modules.items())
        if str(getattr(module, "__file__", None) or "").startswith(folder)
    ]
    report = {"changed": has_changed(), "late": late, "programs": programs, "from_folder": ours}
    sys.stderr.write("\n" + json.dumps(report) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
