"""Ask vendors' libraries in a child process, and read what it answers (P-71).

Nothing a driver does is an exception: no library, error codes, a crash, a hang and garbage are all
data with evidence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from wheelfit_runtime.platforms.child_processes import Ending
from wheelfit_runtime.platforms.features import Evidence
from wheelfit_runtime.platforms.isolated import library_child

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from wheelfit_runtime.platforms.child_processes import Answer
    from wheelfit_runtime.platforms.system_view import SystemView

_Report = TypeVar("_Report")


def ask(
    surroundings: SystemView,
    name: str,
    questions: ModuleType,
    arguments: Sequence[str],
    *,
    hidden: str,
    version: str,
) -> Answer | None:
    """Ask a library in a child process, and return the raw answer; None if none can be started.

    :param name: what the question is called in recordings.
    :param questions: what is asked, for `wheelfit_runtime.platforms.isolated.library_child`.
    :param hidden: regular expression of the variables that hide devices.
    :param version: of the knowledge that the question comes from.
    """
    script = Path(library_child.__file__)
    if surroundings.interpreter is None or not script.is_file():
        return None
    command = (surroundings.interpreter, "-I", "-S", str(script), str(questions.__file__))
    return surroundings.ask(name, *command, *arguments, hidden=hidden, version=version)


def read_report(answer: Answer, parse: Callable[[Any], _Report]) -> _Report | None:
    """Parse the line of JSON; None when it is not what a child would write."""
    if answer.ending is not Ending.EXITED or answer.code not in (0, library_child.NOT_LASTING):
        return None
    try:
        return parse(json.loads(answer.output))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def calls_of(report: Any) -> tuple[Evidence, ...]:
    """Return what the child tried, and its outcome."""
    return tuple(Evidence(str(what), str(outcome)) for what, outcome in report["calls"])
