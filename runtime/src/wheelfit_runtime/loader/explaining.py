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
from wheelfit_runtime.loader.declaration_files import escaped, find_module
from wheelfit_runtime.loader.exporting import load
from wheelfit_runtime.loader.loading import explain
from wheelfit_runtime.loader.quick_choice import variable_of
from wheelfit_runtime.platforms.child_processes import Ending, Question, RealProcesses, signal_name
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
    """Print an explanation, and return 0 if every group has an implementation, else 3."""
    options = _parse(arguments)
    explanation = explain(*options.group)
    if options.tries:
        interpreter = interpreter_of_this_process()
        if interpreter is None:
            err.write("error: --try needs a Python to start, and a frozen application has none\n")
            return 1
        add_trials(explanation, environ, interpreter, RealProcesses())
    if options.json:
        out.write(json.dumps(explanation, indent=2) + "\n")
    else:
        out.writelines(f"{escaped(line)}\n" for line in _lines(explanation))
    return 0 if all(map(_has_implementation, explanation["groups"])) else 3


def _has_implementation(group: Mapping[str, Any]) -> bool:
    """Return whether a group has an implementation; if imports were tried, one that loads."""
    if "tried" in group:
        return bool(group["tried"]["implementation"])
    return bool(group["chosen"])


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser("python -m wheelfit_runtime explain", description=__doc__)
    parser.add_argument("group", nargs="*", help="a package with implementations; default: all")
    help_text = "load each compatible implementation in a child process, and show the outcome"
    parser.add_argument("--try", dest="tries", action="store_true", help=help_text)
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
    for value in explanation["loaded_values"]:
        yield f"this process has {value['dimension']} {value['value']}: {value['reason']}"
    features = {
        text.rpartition(" :: ")[0]
        for group in explanation["groups"]
        for implementation in group["implementations"]
        for text in implementation["properties"]
    }
    for namespace, detection in explanation["machine"].items():
        best_values = {
            name: f"{name} {values[0]}" for name, values in detection["supported"].items() if values
        }
        # A machine has dozens of further features, which no implementation needs.
        texts = [text for name, text in best_values.items() if f"{namespace} :: {name}" in features]
        shown = ", ".join(texts or list(best_values.values())[:3])
        yield f"{namespace}: {shown or 'nothing is supported'}"
        yield from (f"  {text}" for text in (*detection["warnings"], *detection["overrides"]))
    yield from (f"warning: {text}" for text in explanation["problems"])


def _group(group: Mapping[str, Any]) -> Iterator[str]:
    state = "is in use" if group["loaded"] else "would be used"
    chosen = group["chosen"]
    nothing = "nothing fits" if group["implementations"] else "no implementation is installed"
    yield f"{group['group']}: {chosen} {state}" if chosen else f"{group['group']}: {nothing}"
    if "tried" in group:
        name = group["tried"]["implementation"]
        yield f"  tried: {f'{name} is used' if name else group['tried']['message']}"
        yield from (f"    warning: {text}" for text in group["tried"]["warnings"])
    if group["forced"]:
        names = [item["implementation"] for item in group["implementations"]]
        note = "" if group["forced"] in names else ", which is not installed"
        yield f"  {group['variable']}={group['forced']} is set{note}"
    for implementation in group["implementations"]:
        mark = {"chosen": "*", "fits": "+", "unsupported": "-"}[implementation["state"]]
        needs = ", ".join(implementation["properties"]) or "needs nothing"
        yield f"  {mark} {implementation['implementation']} ({implementation['module']}): {needs}"
        yield from (f"      {text}" for text in implementation["reasons"])
        if implementation.get("tried"):
            is_loaded = implementation["tried"]["implementation"] is not None
            result = f"loads in {implementation['tried']['seconds']:.1f} s"
            yield f"      tried: {result if is_loaded else implementation['tried']['message']}"
    if group["could_install"]:
        yield f"  this machine can also use: pip install {' '.join(group['could_install'])}"


LOADED = "loaded"
"""The outcome of a successful import."""
DEADLINE = 120.0
"""Seconds an import may take; libraries of some gigabytes take a minute from a slow disk."""

_MARK = "wheelfit-runtime-tried:"
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from wheelfit_runtime.loader.explaining import report; report(sys.argv[1])"
)
_MAX_LENGTH = 500


def add_trials(
    explanation: Mapping[str, Any],
    environ: Mapping[str, str],
    interpreter: str,
    processes: Processes,
) -> None:
    """Add the outcomes of trial imports to the result of `explain`, under ``tried``.

    A group is tried as a program would import it, then each compatible implementation by itself.

    :param interpreter: the path of the Python interpreter of the child processes.
    """
    for group in explanation["groups"]:
        name = group["group"]
        group["tried"] = _try(name, environ, interpreter, processes)
        for implementation in group["implementations"]:
            forced = {variable_of(name): implementation["implementation"]}
            is_candidate = implementation["state"] != "unsupported"
            implementation["tried"] = (
                _try(name, {**environ, **forced}, interpreter, processes) if is_candidate else None
            )


def _try(
    group: str, environ: Mapping[str, str], interpreter: str, processes: Processes
) -> dict[str, Any]:
    """Return the outcome of importing a group in a child process."""
    start = time.monotonic()
    # The arguments after the group are the entries of `sys.path` in the child process.
    arguments = (interpreter, "-c", _PROGRAM, group, *sys.path)
    answer = processes.ask(Question(f"import {group}", arguments, environ, DEADLINE))
    outcome = _read_outcome(answer)
    return {**outcome, "seconds": round(time.monotonic() - start, 3)}


def _read_outcome(answer: Answer) -> dict[str, Any]:
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
        return f"the process ends with {signal_name(answer.code)}"
    if answer.ending is Ending.EXITED:
        return f"the process ends with status {answer.code}"
    if answer.ending is Ending.LATE:
        return f"the import takes longer than {DEADLINE:.0f} s"
    errors = answer.errors.decode("utf-8", "replace").strip()
    return escaped(f"{answer.ending}: {errors}" if errors else str(answer.ending))[:_MAX_LENGTH]


def report(group: str) -> None:
    """Import a group in this process, and write the outcome; for a child process."""
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        outcome = _import_group(group)
    messages = [
        str(warning.message) for warning in recorded if issubclass(warning.category, VariantWarning)
    ]
    # On a separate line, whatever the imported modules print.
    sys.stdout.write(f"\n{_MARK}{json.dumps({**outcome, 'warnings': messages})}\n")
    sys.stdout.flush()


def _import_group(group: str) -> dict[str, Any]:
    try:
        if group.isidentifier() and find_module(group, None) is not None:
            __import__(group)
        load(group)
    except NoImplementation as error:
        # A failed import, as of a forced implementation, matters more than other reasons.
        reasons: list[Any] = [detail["reasons"] for detail in error.details]
        import_errors = [
            reason
            for reason_list in reasons
            for reason in reason_list
            if reason.startswith("cannot be loaded")
        ]
        return _outcome("not loadable", "; ".join(import_errors) or error.message)
    except BaseException as error:  # noqa: BLE001 - a program would end with any exception
        return _outcome("raised", f"{type(error).__name__}: {error}".rstrip(": "))
    from wheelfit_runtime.loader.loading import explain

    return _outcome(LOADED, "", explain(group)["groups"][0]["chosen"])


def _outcome(kind: str, message: str, implementation: str | None = None) -> dict[str, Any]:
    text = escaped("; ".join(message.splitlines()))[:_MAX_LENGTH]
    return {"outcome": kind, "implementation": implementation, "message": text}
