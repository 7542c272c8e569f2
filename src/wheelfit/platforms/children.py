"""Ask child processes: with a deadline that is kept, whatever the child does (P-37).

Vendors' libraries and tools are never called in this process (P-71). Whoever wants to
know something from one puts a `Question` to `Surroundings.processes`: real processes,
or a wrapper that remembers answers, records them or plays recorded ones back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

__all__ = ["Answer", "Ending", "Processes", "Question", "RealProcesses", "run"]


def __dir__() -> list[str]:
    return __all__


_GRACE = 1.0
"""Seconds a killed process gets to disappear before it is abandoned."""


class Ending(StrEnum):
    """Say how a child process ended."""

    EXITED = "exited"
    KILLED = "killed"
    """By a signal that was not ours: it crashed."""
    LATE = "late"
    """The deadline passed; it was killed, or abandoned if it could not be."""
    NOT_STARTED = "not started"


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold what a child process left behind."""

    ending: Ending
    code: int = 0
    """Exit status, or the number of the signal."""
    output: bytes = b""
    """Standard output."""
    errors: bytes = b""
    """Standard error; what went wrong when it was not started."""


@dataclass(frozen=True, slots=True)
class Question:
    """Hold what is asked of one child process."""

    name: str
    """What it is called in recordings and reports, as ``nvidia-smi -q``; one for each question."""
    arguments: tuple[str, ...]
    """Program and arguments."""
    environ: Mapping[str, str]
    """The child's whole environment."""
    deadline: float
    """Seconds it may take."""


class Processes(Protocol):
    """Answer questions by child processes, or as those once did."""

    def ask(self, question: Question) -> Answer:
        """Return what the child left behind; never raises for anything it does."""
        ...


class RealProcesses:
    """Start a child for every question."""

    def ask(self, question: Question) -> Answer:
        """Run the child and wait for it, no longer than its deadline."""
        return run(question.arguments, environ=question.environ, deadline=question.deadline)


def run(arguments: Sequence[str], *, environ: Mapping[str, str], deadline: float) -> Answer:
    """Run a program without input and return everything about it; never raises for it.

    :param arguments: program and arguments.
    :param environ: the child's whole environment.
    :param deadline: seconds it may take.
    """
    import subprocess  # noqa: PLC0415 - most machines never come here

    try:
        # No "with": leaving it would wait without limit for a process stuck in the kernel.
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environ),
        )
    except (OSError, ValueError) as error:
        return Answer(Ending.NOT_STARTED, errors=str(error).encode())
    try:
        output, errors = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired as late:
        return _end(process, late)
    except BaseException:
        process.kill()
        _abandon(process)
        raise
    if process.returncode < 0:
        return Answer(Ending.KILLED, -process.returncode, output, errors)
    return Answer(Ending.EXITED, process.returncode, output, errors)


def _end(process: subprocess.Popen[bytes], late: subprocess.TimeoutExpired) -> Answer:
    import subprocess  # noqa: PLC0415 - see run()

    process.kill()
    try:
        output, errors = process.communicate(timeout=_GRACE)
    except subprocess.TimeoutExpired as still_there:
        # Stuck in the kernel, or a grandchild holds the pipes: take what came so far.
        _abandon(process)
        output = still_there.output or late.output or b""
        errors = still_there.stderr or late.stderr or b""
    return Answer(Ending.LATE, 0, output, errors)


def _abandon(process: subprocess.Popen[bytes]) -> None:
    """Close our ends of the pipes; a thread collects the process when it goes at last."""
    import threading  # noqa: PLC0415 - see run()

    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    threading.Thread(target=process.wait, name="abandoned child", daemon=True).start()
