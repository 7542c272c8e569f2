"""Talk to an adapter: a child process that speaks JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suite.cases import FORMAT
from suite.judging import Report, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from suite.cases import Case

__all__ = ["AdapterError", "ask"]

_LONGEST = 16 * 1024 * 1024
_ANSWERS = frozenset(["result", "invalid", "unsupported", "error"])


class AdapterError(Exception):
    """The adapter, not the tool, does something wrong; the text says what."""


@dataclass(frozen=True, slots=True)
class _Announcement:
    tool: str
    version: str
    areas: frozenset[str]


def ask(
    command: Sequence[str], cases: Sequence[Case], *, silence: float, deadline: float
) -> Report:
    """Start an adapter, put all cases to it and judge its answers.

    :param command: program and arguments.
    :param cases: cases of areas that the adapter does not announce count as not supported.
    :param silence: seconds without a line after which it is stopped.
    :param deadline: seconds after which it is stopped in any case.
    :raises AdapterError: it cannot be started, does not speak the protocol, or is too slow.
    """
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=os.name == "posix",
        )
    except OSError as error:
        raise AdapterError(f"it cannot be started: {error}") from None
    try:
        return _Conversation(child, silence, time.monotonic() + deadline).hold(cases)
    finally:
        _stop(child)


class _Conversation:
    """Hold one conversation with a running adapter."""

    def __init__(self, child: subprocess.Popen[bytes], silence: float, end: float) -> None:
        self._child = child
        self._silence = silence
        self._end = end
        self._lines: queue.Queue[bytes | None] = queue.Queue()

    def hold(self, cases: Sequence[Case]) -> Report:
        _in_background(self._listen)
        announced = self._announcement()
        asked = [case for case in cases if case.area in announced.areas]
        _in_background(lambda: self._speak(asked))
        answers: dict[str, Mapping[str, Any]] = {}
        names = {case.id for case in asked}
        for line in self._received():
            answer = _answer(line)
            name = answer["id"]
            if name not in names:
                raise AdapterError(f"it answers {name!r}, which it was not asked")
            if name in answers:
                raise AdapterError(f"it answers {name!r} twice")
            answers[name] = answer
        missing = [case.id for case in asked if case.id not in answers]
        status = self._status()
        if missing:
            what = f"{len(missing)} cases without an answer, the first is {missing[0]}"
            raise AdapterError(f"it ended with status {status} and left {what}")
        if status:
            raise AdapterError(f"it answered everything, but ended with status {status}")
        other = {"unsupported": "the adapter does not know this area"}
        findings = tuple(judge(case, answers.get(case.id, other)) for case in cases)
        return Report(announced.tool, announced.version, findings)

    def _announcement(self) -> _Announcement:
        line = next(self._received(), None)
        if line is None:
            raise AdapterError(f"it ended with status {self._status()} and said nothing")
        content = _object(line)
        if content.get("format") != FORMAT:
            raise AdapterError(f"it speaks format {content.get('format')!r}, not {FORMAT}")
        tool, version, areas = (content.get(name) for name in ("tool", "version", "areas"))
        if not isinstance(tool, str) or not isinstance(version, str) or not isinstance(areas, list):
            raise AdapterError("its first line lacks tool, version or areas")
        return _Announcement(tool, version, frozenset(map(str, areas)))

    def _received(self) -> Iterator[bytes]:
        """Yield lines until the adapter closes its output."""
        while True:
            left = self._end - time.monotonic()
            try:
                line = self._lines.get(timeout=max(0.0, min(self._silence, left)))
            except queue.Empty:
                why = "said nothing for" if left > self._silence else "is not done after"
                limit = f"{self._silence:g} s" if left > self._silence else "the time it had"
                raise AdapterError(f"it {why} {limit} and was stopped") from None
            if line is None:
                return
            yield line

    def _status(self) -> int:
        try:
            return self._child.wait(
                timeout=max(0.0, min(self._silence, self._end - time.monotonic()))
            )
        except subprocess.TimeoutExpired:
            raise AdapterError("it closed its output but did not end, and was stopped") from None

    def _listen(self) -> None:
        assert self._child.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while line := self._child.stdout.readline(_LONGEST):
                self._lines.put(line)
        self._lines.put(None)

    def _speak(self, cases: Sequence[Case]) -> None:
        assert self._child.stdin is not None
        # Who ends early is found out by what it did not answer.
        with contextlib.suppress(OSError, ValueError), self._child.stdin as stream:
            for case in cases:
                stream.write(json.dumps(case.request()).encode() + b"\n")


def _answer(line: bytes) -> dict[str, Any]:
    content = _object(line)
    if not isinstance(content.get("id"), str):
        raise AdapterError(f"it answers without an id: {_shown(line)}")
    if len(_ANSWERS & content.keys()) != 1:
        kinds = ", ".join(sorted(_ANSWERS))
        raise AdapterError(f"its answer to {content['id']} does not have exactly one of {kinds}")
    return content


def _object(line: bytes) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except ValueError:
        raise AdapterError(f"it wrote a line that is not JSON: {_shown(line)}") from None
    if not isinstance(content, dict):
        raise AdapterError(f"it wrote a line that is not a JSON object: {_shown(line)}")
    return content


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace").strip()
    return ascii(text if len(text) <= 80 else text[:80] + "…")


def _in_background(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End an adapter that still runs, with what it started, and wait for it."""
    if child.poll() is None:
        with contextlib.suppress(OSError):
            # It leads a session of its own, so its group is what it started.
            os.killpg(child.pid, signal.SIGKILL) if os.name == "posix" else child.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=10)
    for stream in (child.stdin, child.stdout):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.close()
