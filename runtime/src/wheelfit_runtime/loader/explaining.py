"""Show which implementation would be chosen and why: ``python -m wheelfit_runtime explain``."""

from __future__ import annotations

import json
import sys
import time
import warnings
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from wheelfit_runtime import VariantWarning
from wheelfit_runtime.errors import NoImplementation
from wheelfit_runtime.loader.declaration_files import find_module, plain
from wheelfit_runtime.loader.exporting import load
from wheelfit_runtime.loader.loading import explain
from wheelfit_runtime.loader.quick_choice import variable_of
from wheelfit_runtime.platforms.child_processes import Ending, Question, RealProcesses
from wheelfit_runtime.platforms.system_view import interpreter_of_this_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TextIO

    from wheelfit_runtime.platforms.child_processes import Answer, Processes


def run(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    out: TextIO,
    err: TextIO,
) -> int:
    """Explain, and return 0 if every group has an implementation, else 3."""
    asked = _parse(arguments)
    explanation = explain(*asked.group)
    if asked.tries:
        interpreter = interpreter_of_this_process()
        if interpreter is None:
            err.write("error: --try needs a Python to start, and a frozen application has none\n")
            return 1
        add_trials(explanation, environ, interpreter, RealProcesses())
    if asked.json:
        out.write(json.dumps(explanation, indent=2) + "\n")
    else:
        out.writelines(f"{plain(line)}\n" for line in _lines(explanation))
    return 0 if all(map(_has_one, explanation["groups"])) else 3


def _has_one(group: Mapping[str, Any]) -> bool:
    """Return whether a group has an implementation; where it was tried, whether it loads."""
    if "tried" in group:
        return bool(group["tried"]["implementation"])
    return bool(group["chosen"])


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser("python -m wheelfit_runtime explain", description=__doc__)
    parser.add_argument("group", nargs="*", help="a package with implementations; default: all")
    words = "load each that fits in a child process, and tell what happens"
    parser.add_argument("--try", dest="tries", action="store_true", help=words)
    parser.add_argument("--json", action="store_true", help="write JSON")
    return parser.parse_args(arguments)


def _lines(explanation: Mapping[str, Any]) -> Iterator[str]:
    """Yield the result of `wheelfit_runtime.explain` as lines for users."""
    if not explanation["groups"]:
        yield "nothing that is installed has implementations to choose from"
    for group in explanation["groups"]:
        yield from _group(group)
    for dimension, value in explanation["agreed"].items():
        yield f"all agree on {dimension} {value}"
    for one in explanation["held"]:
        yield f"this process has {one['dimension']} {one['value']}: {one['because']}"
    asked = {
        words.rpartition(" :: ")[0]
        for group in explanation["groups"]
        for each in group["implementations"]
        for words in each["properties"]
    }
    for namespace, detection in explanation["machine"].items():
        best = {
            name: f"{name} {values[0]}" for name, values in detection["supported"].items() if values
        }
        # Of the rest a machine has dozens, and nothing here depends on them.
        wanted = [words for name, words in best.items() if f"{namespace} :: {name}" in asked]
        shown = ", ".join(wanted or list(best.values())[:3])
        yield f"{namespace}: {shown or 'nothing is supported'}"
        yield from (f"  {words}" for words in (*detection["warnings"], *detection["overrides"]))
    yield from (f"warning: {words}" for words in explanation["problems"])


def _group(group: Mapping[str, Any]) -> Iterator[str]:
    state = "is in use" if group["loaded"] else "would be used"
    chosen = group["chosen"]
    nothing = "nothing fits" if group["implementations"] else "no implementation is installed"
    yield f"{group['group']}: {chosen} {state}" if chosen else f"{group['group']}: {nothing}"
    if "tried" in group:
        taken = group["tried"]["implementation"]
        yield f"  tried: {f'{taken} is used' if taken else group['tried']['message']}"
        yield from (f"    warning: {words}" for words in group["tried"]["warnings"])
    if group["demanded"]:
        named = any(
            each["implementation"] == group["demanded"] for each in group["implementations"]
        )
        yield f"  {group['variable']}={group['demanded']} is set" + (
            "" if named else ", which is none"
        )
    for each in group["implementations"]:
        mark = {"chosen": "*", "fits": "+", "unsupported": "-"}[each["state"]]
        needs = ", ".join(each["properties"]) or "needs nothing"
        yield f"  {mark} {each['implementation']} ({each['module']}): {needs}"
        yield from (f"      {words}" for words in each["reasons"])
        if each.get("tried"):
            is_loaded = each["tried"]["implementation"] is not None
            result = f"loads in {each['tried']['seconds']:.1f} s"
            yield f"      tried: {result if is_loaded else each['tried']['message']}"
    if group["could_install"]:
        yield f"  this machine can also use: pip install {' '.join(group['could_install'])}"


LOADED = "loaded"
"""The outcome of an import that went well."""
DEADLINE = 120.0
"""Seconds an import may take; libraries of some gigabytes take a minute from a slow disk."""

_MARK = "wheelfit-runtime-tried:"
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from wheelfit_runtime.loader.explaining import report; report(sys.argv[1])"
)
_LONGEST = 500


def add_trials(
    explanation: Mapping[str, Any],
    environ: Mapping[str, str],
    interpreter: str,
    processes: Processes,
) -> None:
    """Add the outcomes of trial imports to the result of `explain`, under ``tried``.

    A group is tried as a program would import it, then each compatible implementation by itself.

    :param interpreter: the Python of the children.
    """
    for group in explanation["groups"]:
        name = group["group"]
        group["tried"] = _try(name, environ, interpreter, processes)
        for implementation in group["implementations"]:
            demand = {variable_of(name): implementation["implementation"]}
            is_candidate = implementation["state"] != "unsupported"
            implementation["tried"] = (
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
    outcome = _outcome_of(answer)
    return {**outcome, "seconds": round(time.monotonic() - start, 3)}


def _outcome_of(answer: Answer) -> dict[str, Any]:
    lines = answer.output.decode("utf-8", "replace").splitlines()
    marked = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]
    if marked:
        outcome: dict[str, Any] = json.loads(marked[-1])
        return outcome
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
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def report(group: str) -> None:
    """Import a group in this process, and write the outcome; for a child process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = _imported(group)
    own = [
        str(warning.message) for warning in caught if issubclass(warning.category, VariantWarning)
    ]
    # On a line of its own, independent of output of the imported modules.
    sys.stdout.write(f"\n{_MARK}{json.dumps({**outcome, 'warnings': own})}\n")
    sys.stdout.flush()


def _imported(group: str) -> dict[str, Any]:
    try:
        if group.isidentifier() and find_module(group, None) is not None:
            __import__(group)
        load(group)
    except NoImplementation as error:
        # Of a forced implementation only the error of its import matters.
        reasons: list[Any] = [detail["reasons"] for detail in error.details]
        failed = [
            each
            for reason_list in reasons
            for each in reason_list
            if each.startswith("cannot be loaded")
        ]
        return _outcome("not loadable", "; ".join(failed) or error.message)
    except BaseException as error:  # noqa: BLE001 - whatever it is, a program would end with it
        return _outcome("raised", f"{type(error).__name__}: {error}".rstrip(": "))
    from wheelfit_runtime.loader.loading import explain

    return _outcome(LOADED, "", explain(group)["groups"][0]["chosen"])


def _outcome(outcome: str, message: str, implementation: str | None = None) -> dict[str, Any]:
    words = plain("; ".join(message.splitlines()))[:_LONGEST]
    return {"outcome": outcome, "implementation": implementation, "message": words}
