"""Captured machines for tests: those of `wheelfit.platforms.recording`, or with a fake driver.

Where the behaviour of a child process is the point, ``machine.toml`` may have a table
``[driver]`` instead of recorded answers: what a compiled fake NVIDIA driver shows
(``cuda``, ``driver``, ``devices``, ``libraries``, ``settings``).

To add a machine, run ``wheelfit probe --record FOLDER`` on it; to write ``expected.json``
anew, ``python -m wheelfit.testing.machines FOLDER …``, and look at the difference.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wheelfit.platforms import recording
from wheelfit.platforms.discovery import Machine
from wheelfit.testing.drivers import compile_fake_driver

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["expectation", "main", "needs_driver", "open_machine"]


def __dir__() -> list[str]:
    return __all__


expectation = recording.as_expected


def needs_driver(folder: Path) -> bool:
    """Say whether a captured machine wants a fake driver, hence a C compiler.

    :param folder: the captured machine.
    """
    return "driver" in recording.description(folder)


def open_machine(folder: Path, scratch: Path | None = None) -> Machine:
    """Return the machine that a folder stands for.

    :param folder: the captured machine.
    :param scratch: folder in which its fake driver is compiled; needed if it wants one.
    """
    told = recording.description(folder)
    if "driver" not in told:
        return recording.open_recorded(folder)
    if scratch is None:
        raise ValueError(f"{folder.name} wants a fake driver: give a scratch folder")
    given = recording.surroundings_of(folder)
    for played_back in ("interpreter", "processes", "replayed"):
        del given[played_back]
    return Machine(**_with_driver(given, told["driver"], scratch))


def _with_driver(given: dict[str, Any], told: Mapping[str, Any], scratch: Path) -> dict[str, Any]:
    chosen = {"libraries": told["libraries"]} if "libraries" in told else {}
    driver = compile_fake_driver(scratch, **chosen)
    shown = driver.environ(
        devices=told.get("devices", ()),
        cuda=told["cuda"],
        driver=told["driver"],
        **told.get("settings", {}),
    )
    return given | {"environ": given["environ"] | shown, "library_folders": (driver.folder,)}


def main(folders: Sequence[str]) -> None:
    """Write what detection says of captured machines.

    :param folders: the captured machines.
    """
    for folder in map(Path, folders):
        with tempfile.TemporaryDirectory() as scratch:
            told = expectation(open_machine(folder, Path(scratch)))
        text = json.dumps(told, indent=2, ensure_ascii=False) + "\n"
        (folder / "expected.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
