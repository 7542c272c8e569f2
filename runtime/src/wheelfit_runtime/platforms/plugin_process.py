"""Run a plugin of PEP 850 in confined processes of its own, and report the outcome.

Only for plugins that the user trusts (P-18). Confinement guards against faults that trust does not
exclude: a plugin that hangs, crashes, prints, or acts beyond its task. The report lists what the
kernel enforced and what it did not. See ``isolated/plugin_child.py`` and
``docs/explanation/plugins.md``.
"""
# Paths are text here, as in the rest of this floor.
# ruff: noqa: PTH103, PTH111, PTH117, PTH118

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.child_processes import abandon
from wheelfit_runtime.platforms.override_names import names_in

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

Method = Literal["get_supported_configs", "get_all_configs"]

_GRACE = 2.0
"""Seconds that killed processes get to disappear before they are abandoned (P-37)."""
_MOST_BYTES = 8 << 20
"""Of an answer (P-34)."""
_MOST_TOLD = 1 << 16
"""Bytes on the control pipe; the child writes a few hundred."""
_TAIL = 16 << 10
"""Bytes kept of each stream."""
_MOST_BRACKETS = 110_000
"""Lists and objects in an answer: more than 100,000 values can need."""
_PROCESSES = 64

_LANGUAGE = re.compile(r"LANG|LANGUAGE|LC_[A-Z]+")
_PLACES = frozenset(name for family in providers.every() for name in family.homes)
"""Where vendors' software lies. Masks of devices are left out: the machine is described (P-89)."""
_SEARCHED = "LD_LIBRARY_PATH"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class PluginReport:
    """Everything about one question to a plugin."""

    configs: tuple[Mapping[str, object], ...] | None = None
    """``name``, ``values`` and ``multi_value`` of each feature as they came, as far as they were
    there; what is not JSON is ``{"kind": "a bytes"}``. None: there is no answer."""
    flags: Mapping[str, object] = field(default_factory=dict, hash=False)
    """``all_properties_compatible`` and its older names, as far as they were there (P-29)."""
    notes: tuple[str, ...] = ()
    """The outdated parts of the plugin's interface (P-25)."""
    failure: str | None = None
    """Why there is no answer, one clause (P-17)."""
    output: str = ""
    """The end of standard output; control characters are escaped (P-36)."""
    errors: str = ""
    """The end of standard error, likewise."""
    confinement: tuple[str, ...] = ()
    """The enforced limits, one clause each."""
    unconfined: tuple[str, ...] = ()
    """The limits that could not be enforced, each with the reason."""
    seconds: float = 0.0
    """How long it took."""


def ask(
    python: str,
    endpoint: str,
    *,
    method: Method = "get_supported_configs",
    environ: Mapping[str, str],
    deadline: float = 10.0,
    memory: int = 1 << 30,
) -> PluginReport:
    """Run a plugin and report the outcome; no fault of the plugin raises an error.

    :param python: interpreter of the plugin's own environment, a virtual environment.
    :param endpoint: ``module.sub:attr.attr`` (P-7).
    :param method: the method to call (P-26, P-28).
    :param environ: environment variables of the caller; few of them are passed on (P-35).
    :param deadline: seconds until the plugin is ended (P-37).
    """
    if os.name != "posix":
        return PluginReport(failure="plugins are not run on this system, which cannot confine them")
    import tempfile
    import time

    from wheelfit_runtime.platforms.isolated.working_folder import remove

    started = time.monotonic()
    try:
        folder = os.path.realpath(tempfile.mkdtemp(prefix="wheelfit-plugin-"))
    except OSError as error:
        return PluginReport(failure=f"there is no place for its working folder: {error}")
    try:
        os.makedirs(os.path.join(folder, "tmp"), mode=0o700)
        conversation = _Conversation(endpoint, method, deadline, memory)
        report = conversation.hold(python, folder, environ)
    except OSError as error:
        report = PluginReport(failure=f"its process cannot be started: {error}")
    finally:
        remove(folder)
    return replace(report, seconds=time.monotonic() - started)


class _Conversation:
    """The conversation with a child over four pipes, and its verdict."""

    def __init__(self, endpoint: str, method: str, deadline: float, memory: int) -> None:
        self._endpoint = endpoint
        self._method = method
        self._deadline = deadline
        self._memory = memory
        self._late = False
        self._heard: dict[str, bytearray] = {}
        self._most = {
            "answer": _MOST_BYTES + 16,
            "control": _MOST_TOLD,
            "output": _TAIL,
            "errors": _TAIL,
        }

    def hold(self, python: str, folder: str, environ: Mapping[str, str]) -> PluginReport:
        """Run the plugin and wait, no longer than the deadline and some grace.

        :raises OSError: the interpreter cannot be started.
        """
        import json
        import subprocess

        from wheelfit_runtime.platforms.isolated import __path__ as scripts

        ours: dict[str, int] = {}
        theirs: dict[str, int] = {}
        try:
            for name in ("answer", "control"):
                ours[name], theirs[name] = os.pipe()
            theirs["leash"], ours["leash"] = os.pipe()
            for name in ("output", "errors"):
                ours[name], theirs[name] = os.pipe()
            order = {
                "endpoint": self._endpoint,
                "method": self._method,
                "folder": folder,
                "readable": list(_places(environ)),
                "home": environ.get("HOME") or os.path.expanduser("~"),
                "memory": self._memory,
                "deadline": self._deadline,
                "asker": os.getpid(),
                **{name: theirs[name] for name in ("answer", "control", "leash")},
            }
            script = os.path.join(next(iter(scripts)), "plugin_child.py")
            # No "with": leaving it would wait without limit for a process stuck in the kernel.
            process = subprocess.Popen(
                [python, "-I", "-S", "-B", "-u", "-X", "utf8", script, json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=theirs["output"],
                stderr=theirs["errors"],
                cwd=folder,
                env=_reduced(environ, folder),
                pass_fds=(theirs["answer"], theirs["control"], theirs["leash"]),
                start_new_session=True,
            )
            while theirs:
                os.close(theirs.popitem()[1])
            try:
                self._listen(ours)
            finally:
                if "leash" in ours:
                    os.close(ours.pop("leash"))
                if b'"confined"' not in self._heard.get("control", b""):
                    _kill(process)  # this interpreter does not run our code
                _end(process)
        finally:
            for descriptor in (*ours.values(), *theirs.values()):
                os.close(descriptor)
        return self._judge(process.returncode)

    def _listen(self, ours: dict[str, int]) -> None:
        """Read from all pipes until the supervisor is gone, which it is when all else is."""
        import selectors
        import time

        self._heard = {name: bytearray() for name in self._most}
        until = time.monotonic() + self._deadline
        with selectors.DefaultSelector() as selector:
            for name in self._most:
                os.set_blocking(ours[name], False)
                selector.register(ours[name], selectors.EVENT_READ, name)
            open_pipes = set(self._most)
            while "control" in open_pipes:
                left = until - time.monotonic()
                if left <= 0:
                    if "leash" not in ours:
                        return
                    self._late = True
                    os.close(ours.pop("leash"))
                    if not self._heard["control"]:
                        return
                    until = time.monotonic() + _GRACE
                    continue
                for key, _ in selector.select(left):
                    if not self._hear(key.data, key.fd):
                        selector.unregister(key.fd)
                        open_pipes.discard(key.data)
                if len(self._heard["answer"]) > _MOST_BYTES + 9 and "leash" in ours:
                    os.close(ours.pop("leash"))
                    until = time.monotonic() + _GRACE
        for name in open_pipes:  # the rest in the pipes, which have no writer any more
            for _ in range(256):
                if not self._hear(name, ours[name]):
                    break

    def _hear(self, name: str, descriptor: int) -> bool:
        """Read the available bytes up to the limit kept; False at the end."""
        try:
            data = os.read(descriptor, 1 << 16)
        except OSError:
            return False
        heard, most = self._heard[name], self._most[name]
        heard += data
        if len(heard) > most:
            if name in ("output", "errors"):
                del heard[: len(heard) - most]
            else:
                del heard[most:]
        return bool(data)

    def _judge(self, status: int | None) -> PluginReport:
        """Build the report from the received messages.

        :param status: the exit status of the supervisor; None: it could not be collected.
        """
        messages = _control_messages(self._heard["control"])
        report = PluginReport(
            output=_visible(self._heard["output"]),
            errors=_visible(self._heard["errors"]),
            confinement=tuple(messages.get("confined", ())),
            unconfined=tuple(messages.get("unconfined", ())),
        )
        failure = self._failure(messages, status)
        if failure is None:
            try:
                answer = _read(bytes(self._heard["answer"]))
            except (ValueError, RecursionError):
                failure = "its answer is garbage"
            else:
                failure = answer["failure"]
                if failure is None:
                    return replace(
                        report,
                        configs=tuple(answer["configs"]),
                        flags=answer["flags"],
                        notes=tuple(answer["notes"]),
                    )
        return replace(report, failure=failure)

    def _failure(self, messages: Mapping[str, Any], status: int | None) -> str | None:
        """Return the reason there is no answer; None: there is one."""
        why, ended = messages.get("why"), messages.get("ended", {})
        if why == "memory":
            return f"it used more than {self._memory >> 20} MiB of memory"
        if why == "processes":
            return f"it started more than {_PROCESSES} processes"
        if len(self._heard["answer"]) > _MOST_BYTES + 9:
            return f"its answer is larger than {_MOST_BYTES >> 20} MiB"
        if self._late or why == "late":
            return f"it did not answer within {self._deadline:g} s"
        if "confined" not in messages:
            how = "" if status is None else f", which ended with status {status}"
            return f"its interpreter{how}, could not prepare to run it"
        if "signal" in ended:
            import signal

            try:
                name = signal.Signals(ended["signal"]).name
            except ValueError:
                name = f"signal {ended['signal']}"
            used_up = " after it had used up its processor time" if name == "SIGXCPU" else ""
            return f"it crashed: {name}{used_up}"
        if ended.get("status") != 0 or not self._heard["answer"]:
            if "status" not in ended:
                return "its processes were ended by somebody else"
            return f"it ended with status {ended['status']} and without an answer"
        return None


def _control_messages(data: bytearray) -> dict[str, Any]:
    """Read the lines of the control pipe, which only our own code can write to."""
    import json

    messages: dict[str, Any] = {}
    for line in bytes(data).splitlines():
        try:
            messages.update(json.loads(line))
        except (ValueError, TypeError):
            continue
    return messages


def _read(data: bytes) -> dict[str, Any]:
    """Read an answer and check it, since the plugin may have written it itself.

    :raises ValueError: it is not what the child writes.
    """
    import json

    head, _, body = data.partition(b"\n")
    if not re.fullmatch(rb"[0-9]{1,8}", head) or int(head) != len(body):
        raise ValueError
    if body.count(b"[") + body.count(b"{") > _MOST_BRACKETS:
        raise ValueError
    answer = json.loads(body)
    if not isinstance(answer, dict):
        raise ValueError  # noqa: TRY004 - all that is wrong is the same
    failure = answer.get("failure")
    if failure is not None:
        if not isinstance(failure, str):
            raise ValueError
        return {"failure": _visible(failure)}
    configs, flags, notes = answer.get("configs"), answer.get("flags"), answer.get("notes")
    if (
        isinstance(configs, list)
        and all(isinstance(config, dict) for config in configs)
        and isinstance(flags, dict)
        and isinstance(notes, list)
        and all(isinstance(note, str) for note in notes)
    ):
        notes = [_visible(note) for note in notes]
        return {"failure": None, "configs": configs, "flags": flags, "notes": notes}
    raise ValueError


def _visible(text: str | bytes | bytearray) -> str:
    """Escape control characters."""
    if not isinstance(text, str):
        text = text.decode("utf-8", "backslashreplace")
    return "".join(
        character
        if character.isprintable() or character in "\n\t"
        else character.encode("unicode_escape").decode()
        for character in text
    )


def _reduced(environ: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the variables that are handed on (P-35)."""
    temporary = os.path.join(folder, "tmp")
    kept = {
        name: value
        for name, value in environ.items()
        if _LANGUAGE.fullmatch(name) or name in _PLACES or name == _SEARCHED
    }
    kept |= {name: environ[name] for name in names_in(environ)}
    kept["PATH"] = os.pathsep.join(_programs(environ)) or _PATH
    return kept | {"HOME": folder, "TMPDIR": temporary}


def _programs(environ: Mapping[str, str]) -> Iterator[str]:
    """Return the folders of programs that are no part of the user's home."""
    home = environ.get("HOME") or os.path.expanduser("~")
    for folder in environ.get("PATH", "").split(os.pathsep):
        if os.path.isabs(folder) and not _is_below(folder, home):
            yield folder


def _is_below(path: str, folder: str) -> bool:
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return path == folder or path.startswith(os.path.join(folder, ""))


def _places(environ: Mapping[str, str]) -> Iterator[str]:
    """Return the folders of vendors' libraries named by variables."""
    for name in (_SEARCHED, *sorted(_PLACES)):
        for folder in environ.get(name, "").split(os.pathsep):
            if os.path.isabs(folder):
                yield folder


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a group, with the group."""
    import signal

    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the supervisor for a grace period, then abandon it (P-37).

    It is not killed, since it still has to collect the processes that it killed. It ends on its
    own.
    """
    import subprocess

    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        abandon(process)
