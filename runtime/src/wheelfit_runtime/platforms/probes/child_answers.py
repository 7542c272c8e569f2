"""Query vendors' libraries in a child process, and describe its ending (P-37, P-71).

No fault of a driver is an exception: a missing library, error codes, a crash, a hang and invalid
data are all results with evidence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from wheelfit_runtime.platforms.child_processes import Answer, Ending, signal_name
from wheelfit_runtime.platforms.features import Evidence
from wheelfit_runtime.platforms.isolated import library_child

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from wheelfit_runtime.platforms.system_view import SystemView


_Report = TypeVar("_Report")

_SHOWN = 2000
"""Characters of standard error that are evidence: the last ones."""


def ask(
    view: SystemView,
    name: str,
    questions: ModuleType,
    arguments: Sequence[str],
    *,
    hidden: str,
    version: str,
) -> Answer | None:
    """Query a library in a child process; return the raw answer, None if none can be started.

    :param questions: the questions, for `wheelfit_runtime.platforms.isolated.library_child`.
    :param hidden: regular expression of the variables that hide devices.
    """
    script = Path(library_child.__file__)
    if view.interpreter is None or not script.is_file():
        return None
    command = (view.interpreter, "-I", "-S", str(script), str(questions.__file__))
    return view.ask(name, *command, *arguments, hidden=hidden, version=version)


def read_report(answer: Answer, parse: Callable[[Any], _Report]) -> _Report | None:
    """Parse the line of JSON; None when no child would write it."""
    if answer.ending is not Ending.EXITED or answer.code not in (0, library_child.NOT_LASTING):
        return None
    try:
        return parse(json.loads(answer.output))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def calls_of(report: Any) -> tuple[Evidence, ...]:
    """Return the calls of the child with their outcomes, as evidence."""
    return tuple(Evidence(str(call), str(outcome)) for call, outcome in report["calls"])


def missing_answer_reason(answer: Answer, queried: str, deadline: float) -> str:
    """Return the fault of a child whose answer cannot be read, as a clause.

    :param queried: what was queried, such as ``the NVIDIA driver``.
    """
    call = _last_call(answer)
    match answer.ending:
        case Ending.LATE:
            return f"{queried} did not answer within {deadline:g} s{call}"
        case Ending.KILLED:
            return f"{queried} crashed with {signal_name(answer.code)}{call}"
        case Ending.NOT_STARTED:
            return f"{queried} could not be queried: no child process"
        case Ending.FLOODED:
            return f"{queried} wrote too much{call}"
        case Ending.EXITED:
            return f"{queried} gave no valid answer{call}"


def tool_failure(answer: Answer) -> str:
    """Return the failure of a tool, as a clause; empty if it answered."""
    match answer.ending:
        case Ending.LATE:
            return "did not answer in time"
        case Ending.KILLED:
            return f"crashed (signal {answer.code})"
        case Ending.NOT_STARTED:
            return "cannot be started"
        case Ending.FLOODED:
            return "wrote too much"
        case Ending.EXITED:
            return f"failed with exit status {answer.code}" if answer.code else ""


def is_broken(answer: Answer) -> bool:
    """Return whether a tool did not end by itself."""
    return answer.ending in (Ending.LATE, Ending.KILLED, Ending.FLOODED)


def _last_call(answer: Answer) -> str:
    """Return the last function called; the isolated scripts trace their calls."""
    lines = [line for line in answer.errors.splitlines() if line.startswith(b"calling ")]
    return f" (in {lines[-1][8:].decode('utf-8', 'replace')})" if lines else ""


def evidence(answer: Answer, child: str) -> tuple[Evidence, ...]:
    """Return evidence of a child without an answer."""
    lines = answer.errors.decode("utf-8", "replace")[-_SHOWN:].splitlines()
    last_lines = "; ".join(line for line in lines if line.strip())
    ending = Evidence(child, f"{answer.ending}, {answer.code}")
    return (ending, Evidence(f"{child}, standard error", last_lines)) if last_lines else (ending,)
