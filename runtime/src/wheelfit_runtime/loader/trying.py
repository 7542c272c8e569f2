"""Load implementations in child processes, to tell what would really happen.

Each child does what a program does: it imports the package, with the implementation demanded that
is tried, or with none. Whatever an import does, as to crash, happens to the child.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

from wheelfit_runtime import VariantWarning
from wheelfit_runtime.errors import NoImplementation
from wheelfit_runtime.loader.declaration_files import find_module, plain
from wheelfit_runtime.loader.exporting import load
from wheelfit_runtime.loader.quick_choice import variable_of
from wheelfit_runtime.platforms.child_processes import Ending, Question

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.child_processes import Answer, Processes

LOADED = "loaded"
"""The outcome of an import that went well."""
DEADLINE = 120.0
"""Seconds an import may take; libraries of some gigabytes take a minute from a slow disk."""

_MARK = "wheelfit-runtime-tried:"
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from wheelfit_runtime.loader.trying import report; report(sys.argv[1])"
)
_LONGEST = 500


def add_trials(
    found: Mapping[str, Any], environ: Mapping[str, str], interpreter: str, processes: Processes
) -> None:
    """Add to what `explain` returned what happens where it is tried, under ``tried``.

    A group is tried as a program would import it, then each implementation that fits by itself.

    :param interpreter: the Python of the children.
    """
    for group in found["groups"]:
        name = group["group"]
        group["tried"] = _try(name, environ, interpreter, processes)
        for one in group["implementations"]:
            demand = {variable_of(name): one["implementation"]}
            is_candidate = one["state"] != "unsupported"
            one["tried"] = (
                _try(name, {**environ, **demand}, interpreter, processes) if is_candidate else None
            )


def _try(
    group: str, environ: Mapping[str, str], interpreter: str, processes: Processes
) -> dict[str, Any]:
    """Return the outcome of importing a group in a child process."""
    start = time.monotonic()
    # The program of a child stands before its path, which may have any number of entries.
    arguments = (interpreter, "-c", _PROGRAM, group, *sys.path)
    answer = processes.ask(Question(f"import {group}", arguments, environ, DEADLINE))
    told = _told(answer)
    return {**told, "seconds": round(time.monotonic() - start, 3)}


def _told(answer: Answer) -> dict[str, Any]:
    lines = answer.output.decode("utf-8", "replace").splitlines()
    marked = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]
    if marked:
        told: dict[str, Any] = json.loads(marked[-1])
        return told
    return {
        "outcome": "crashed",
        "implementation": None,
        "message": _ending(answer),
        "warnings": [],
    }


def _ending(answer: Answer) -> str:
    if answer.ending is Ending.KILLED:
        return f"the process ends with {_signal(answer.code)}"
    if answer.ending is Ending.EXITED:
        return f"the process ends with status {answer.code}"
    if answer.ending is Ending.LATE:
        return f"the import takes longer than {DEADLINE:.0f} s"
    words = answer.errors.decode("utf-8", "replace").strip()
    return plain(f"{answer.ending}: {words}" if words else str(answer.ending))[:_LONGEST]


def _signal(number: int) -> str:
    import signal  # noqa: PLC0415 - only where something crashed

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def report(group: str) -> None:
    """Import a group in this process, and write what became of it; for a child process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told = _imported(group)
    own = [str(one.message) for one in caught if issubclass(one.category, VariantWarning)]
    # On a line of its own, whatever was printed by what was imported.
    sys.stdout.write(f"\n{_MARK}{json.dumps({**told, 'warnings': own})}\n")
    sys.stdout.flush()


def _imported(group: str) -> dict[str, Any]:
    try:
        if group.isidentifier() and find_module(group, None) is not None:
            __import__(group)
        load(group)
    except NoImplementation as error:
        # Of an implementation that was demanded, only what its import said is of interest.
        reasons: list[Any] = [one["reasons"] for one in error.details]
        failed = [each for one in reasons for each in one if each.startswith("cannot be loaded")]
        return _outcome("not loadable", "; ".join(failed) or error.message)
    except BaseException as error:  # noqa: BLE001 - whatever it is, a program would end with it
        return _outcome("raised", f"{type(error).__name__}: {error}".rstrip(": "))
    from wheelfit_runtime.loader.loading import explain  # noqa: PLC0415 - after the import

    return _outcome(LOADED, "", explain(group)["groups"][0]["chosen"])


def _outcome(outcome: str, message: str, implementation: str | None = None) -> dict[str, Any]:
    words = plain("; ".join(message.splitlines()))[:_LONGEST]
    return {"outcome": outcome, "implementation": implementation, "message": words}
