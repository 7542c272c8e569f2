"""Run child processes with a deadline that always holds (P-37).

Vendors' libraries and tools are never called in this process (P-71). Probes put a `Question` to
`SystemView.processes`: real processes, or a wrapper that caches answers, records them or plays
recorded ones back.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO

_GRACE = 1.0
"""Seconds a killed process gets to disappear before it is abandoned."""
_CHUNK_SIZE = 64 * 1024
_OUTPUT_LIMIT = 8 * 1024 * 1024
"""Bytes a child may write to standard output, and to standard error."""


class Ending(StrEnum):
    """The way in which a child process ended."""

    EXITED = "exited"
    KILLED = "killed"
    """By a signal that was not ours: it crashed."""
    LATE = "late"
    """The deadline passed; it was killed, or abandoned if it could not be."""
    FLOODED = "wrote too much"
    """It wrote more than the limit, and was killed."""
    NOT_STARTED = "not started"


class Answer(NamedTuple):
    """The outcome of a child process."""

    ending: Ending
    code: int = 0
    """Exit status, or the number of the signal."""
    output: bytes = b""
    """Standard output."""
    errors: bytes = b""
    """Standard error; if it was not started, the error of the system."""
    is_uncertain: bool = False
    """Whether other code collected the child, so that its ending is unknown."""

    @property
    def succeeded(self) -> bool:
        """Return whether the child ended by itself, with status 0."""
        return self.ending is Ending.EXITED and self.code == 0


class Question(NamedTuple):
    """The question to one child process."""

    name: str
    """Its unique name in recordings and reports, such as ``nvidia-smi -q``."""
    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    """The child's whole environment."""
    deadline: float
    """Seconds it may take."""
    version: str = ""
    """Version of the tables that the question comes from, as the provider's ``DATA_VERSION``."""


def to_mapping(answer: Answer) -> dict[str, Any]:
    """Return an answer as plain data; bytes that are not UTF-8 are ``{"base64": "…"}``."""
    return {
        "ending": str(answer.ending),
        "code": answer.code,
        "output": _to_json(answer.output),
        "errors": _to_json(answer.errors),
    }


def from_mapping(value: Mapping[str, Any]) -> Answer:
    """Return the answer in plain data; missing parts are empty.

    :raises ValueError: the data has no answer; or TypeError, KeyError, AttributeError.
    """
    return Answer(
        Ending(value["ending"]),
        int(value.get("code", 0)),
        _from_json(value.get("output", "")),
        _from_json(value.get("errors", "")),
    )


def _to_json(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        import base64

        return {"base64": base64.b64encode(data).decode()}


def _from_json(value: str | Mapping[str, str]) -> bytes:
    if isinstance(value, str):
        return value.encode()
    import base64

    return base64.b64decode(value["base64"], validate=True)


class Processes(Protocol):
    """A source of answers of child processes, real or recorded."""

    def ask(self, question: Question) -> Answer:
        """Return the outcome of the child, whatever it is."""
        ...


class RealProcesses:
    """A new child process for each question."""

    def ask(self, question: Question) -> Answer:
        """Run the child and wait for it, no longer than its deadline."""
        return run(question.arguments, environ=question.environ, deadline=question.deadline)


def run(
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    deadline: float,
    limit: int = _OUTPUT_LIMIT,
) -> Answer:
    """Run a program without input and return its outcome, whatever it is.

    The child leads a session of its own: the processes it started end with it, and it has no
    terminal. A process stuck in the kernel is not waited for, neither here nor when the interpreter
    exits (P-37).

    :param environ: the child's whole environment.
    :param deadline: seconds it may take.
    :param limit: bytes it may write to each of its two outputs.
    """
    import subprocess

    try:
        # No "with": leaving it would wait without limit for a process stuck in the kernel.
        process = subprocess.Popen(
            arguments,
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environ),
            start_new_session=True,  # without effect on Windows
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except (OSError, ValueError) as error:
        return Answer(Ending.NOT_STARTED, errors=str(error).encode())
    try:
        return _collect_output(process, time.monotonic() + deadline, limit)
    except BaseException:
        _kill(process)
        abandon(process)
        raise


def _collect_output(process: subprocess.Popen[bytes], end: float, limit: int) -> Answer:
    """Collect the output of a child until it ends, exceeds the limit, or the time is up."""
    assert process.stdout is not None  # noqa: S101 - for the type checker
    assert process.stderr is not None  # noqa: S101
    progress = threading.Semaphore(0)
    readers = [
        _OutputReader(pipe, limit, progress.release) for pipe in (process.stdout, process.stderr)
    ]
    is_late = False
    while not is_late and not all(reader.is_done for reader in readers):
        is_late = not progress.acquire(timeout=max(0.0, end - time.monotonic()))
        if any(reader.is_flooded for reader in readers):
            break
    is_flooded = any(reader.is_flooded for reader in readers)
    is_lost = False
    if not is_flooded and not is_late:
        is_lost = _is_lost(process, end)
        is_late = not _wait(process, end)
    if is_flooded or is_late:
        _kill(process)
        end = time.monotonic() + _GRACE
        if not _wait(process, end):
            abandon(process)  # stuck in the kernel
        for reader in readers:  # a grandchild that left the session may still have the pipes
            reader.thread.join(max(0.0, end - time.monotonic()))
    output, errors = (bytes(reader.data) for reader in readers)
    if is_flooded:
        return Answer(Ending.FLOODED, 0, output, errors)
    if is_late:
        return Answer(Ending.LATE, 0, output, errors)
    if process.returncode < 0:
        return Answer(Ending.KILLED, -process.returncode, output, errors)
    return Answer(Ending.EXITED, process.returncode, output, errors, is_lost)


class _OutputReader:
    """A thread that reads one output of a child, up to a limit."""

    def __init__(self, pipe: IO[bytes], limit: int, done: Callable[[], None]) -> None:
        self.data = bytearray()
        self.is_flooded = False
        """Whether the child wrote as much as the limit."""
        self.is_done = False
        """Whether nothing more will be read."""
        # A daemon, which is not waited for if another process keeps the pipe open.
        self.thread = threading.Thread(
            target=self._read, args=(pipe, limit, done), name="output of a child", daemon=True
        )
        self.thread.start()

    def _read(self, pipe: IO[bytes], limit: int, done: Callable[[], None]) -> None:
        # The reading thread also closes: a descriptor closed by another may be in use again.
        with pipe:
            while not self.is_flooded and (piece := pipe.read(_CHUNK_SIZE)):
                self.data += piece[: limit - len(self.data)]
                self.is_flooded = len(self.data) == limit
        self.is_done = True
        done()


def _is_lost(process: subprocess.Popen[bytes], end: float) -> bool:
    """Wait for a child to end, up to a deadline; return whether its status is lost.

    It is lost if the application ignores SIGCHLD, or waits for every child; `subprocess` reports 0.
    """
    pause = 0.0005
    while hasattr(os, "waitid") and time.monotonic() < end:
        try:
            status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return True
        if status is not None:
            break
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return False


def _wait(process: subprocess.Popen[bytes], end: float) -> bool:
    """Wait for a child to end, up to a deadline; return whether it did."""
    import subprocess

    try:
        process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and the processes in its session."""
    if process.returncode is None and hasattr(os, "killpg"):
        import signal

        with suppress(OSError):  # its id is not reused before it was waited for
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGSEGV``; its number if it has none."""
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def abandon(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process in a daemon thread."""
    threading.Thread(target=process.wait, name="abandoned child", daemon=True).start()


def run_in_thread(ask: Callable[[Callable[[str], None]], bytes], deadline: float) -> Answer:
    """Answer a question in a thread, where no interpreter can be started (P-71).

    A thread that hangs is abandoned; one that crashes ends the process.

    :param ask: does the work of the isolated script, and returns its answer; called with a function
        for lines of standard error, such as ``calling nvmlInit_v2``.
    """
    answers: list[Answer] = []
    lines: list[str] = []

    def errors() -> bytes:
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")

    def work() -> None:
        try:
            answers.append(Answer(Ending.EXITED, 0, ask(lines.append)))
        except Exception as error:  # noqa: BLE001 - as a script that ends with a traceback
            lines.append(f"{type(error).__name__}: {error}")
            answers.append(Answer(Ending.EXITED, 1))

    thread = threading.Thread(target=work, name="asking a driver", daemon=True)
    thread.start()
    thread.join(deadline)
    if not answers:
        return Answer(Ending.LATE, errors=errors())
    return answers[0]._replace(errors=errors())
