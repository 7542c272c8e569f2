"""Run a plugin of PEP 850 in confined processes of its own, and report the outcome.

Only for plugins that the user trusts (P-18). Confinement guards against faults that trust does not
exclude: a plugin that hangs, crashes, prints, or acts beyond its task. The report lists the limits
that the kernel enforced, and those it could not. See ``isolated/plugin_child.py`` and
``docs/explanation/plugins.md``.
"""
# Paths are text here, as everywhere in `wheelfit_runtime.platforms`.
# ruff: noqa: PTH103, PTH111, PTH117, PTH118

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.child_processes import abandon, signal_name
from wheelfit_runtime.platforms.isolated.plugin_question import MAX_ANSWER_BYTES
from wheelfit_runtime.platforms.override_names import override_variables

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

Method = Literal["get_supported_configs", "get_all_configs"]

_GRACE = 2.0
"""Seconds that killed processes get to disappear before they are abandoned (P-37)."""
_MAX_MESSAGE_BYTES = MAX_ANSWER_BYTES + 9
"""Bytes on the answer pipe: a line with the length, which has up to 8 digits, and the answer."""
_MAX_CONTROL_BYTES = 1 << 16
"""Bytes on the control pipe; the child writes a few hundred."""
_TAIL = 16 << 10
"""Bytes kept of each stream."""
_MAX_BRACKETS = 110_000
"""Lists and objects in an answer: more than 100,000 values can need."""

_LANGUAGE = re.compile(r"LANG|LANGUAGE|LC_[A-Z]+")
_HOME_VARIABLES = frozenset(name for family in providers.families() for name in family.homes)
"""Variables with the location of vendors' software. Device masks are not passed on (P-89)."""
_LIBRARY_PATH = "LD_LIBRARY_PATH"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class PluginReport:
    """Everything about one question to a plugin."""

    configs: tuple[Mapping[str, object], ...] | None = None
    """The existing ones of ``name``, ``values`` and ``multi_value`` of each feature, unchecked;
    values of other types than JSON's are ``{"kind": "a bytes"}``. None: there is no answer."""
    flags: Mapping[str, object] = field(default_factory=dict, hash=False)
    """The existing ones of ``all_properties_compatible`` and its older names (P-29)."""
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
    """The duration."""


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

    start = time.monotonic()
    try:
        folder = os.path.realpath(tempfile.mkdtemp(prefix="wheelfit-plugin-"))
    except OSError as error:
        return PluginReport(failure=f"its working folder cannot be created: {error}")
    try:
        os.makedirs(os.path.join(folder, "tmp"), mode=0o700)
        child = _PluginChild(endpoint, method, deadline, memory)
        report = child.run(python, folder, environ)
    except OSError as error:
        report = PluginReport(failure=f"its process cannot be started: {error}")
    finally:
        remove(folder)
    return replace(report, seconds=time.monotonic() - start)


class _PluginChild:
    """A supervised child process that runs a plugin, and its pipes.

    The child writes its answer and control messages, and the plugin may write output and errors.
    Closing the pipe ``leash`` makes the supervisor end the plugin.
    """

    def __init__(self, endpoint: str, method: str, deadline: float, memory: int) -> None:
        self._endpoint = endpoint
        self._method = method
        self._deadline = deadline
        self._memory = memory
        self._is_late = False
        self._received: dict[str, bytearray] = {}
        self._limits = {
            "answer": _MAX_MESSAGE_BYTES + 1,
            "control": _MAX_CONTROL_BYTES,
            "output": _TAIL,
            "errors": _TAIL,
        }

    def run(self, python: str, folder: str, environ: Mapping[str, str]) -> PluginReport:
        """Run the plugin and wait, no longer than the deadline and some grace.

        :raises OSError: the interpreter cannot be started.
        """
        import json
        import subprocess

        from wheelfit_runtime.platforms.isolated import __path__ as scripts

        our_ends: dict[str, int] = {}
        child_ends: dict[str, int] = {}
        try:
            for name in ("answer", "control"):
                our_ends[name], child_ends[name] = os.pipe()
            child_ends["leash"], our_ends["leash"] = os.pipe()
            for name in ("output", "errors"):
                our_ends[name], child_ends[name] = os.pipe()
            request = {
                "endpoint": self._endpoint,
                "method": self._method,
                "folder": folder,
                "readable": list(_library_folders(environ)),
                "home": environ.get("HOME") or os.path.expanduser("~"),
                "memory": self._memory,
                "deadline": self._deadline,
                "caller": os.getpid(),
                **{name: child_ends[name] for name in ("answer", "control", "leash")},
            }
            script = os.path.join(next(iter(scripts)), "plugin_child.py")
            # No "with": leaving it would wait without limit for a process stuck in the kernel.
            process = subprocess.Popen(
                [python, "-I", "-S", "-B", "-u", "-X", "utf8", script, json.dumps(request)],
                stdin=subprocess.DEVNULL,
                stdout=child_ends["output"],
                stderr=child_ends["errors"],
                cwd=folder,
                env=_child_environ(environ, folder),
                pass_fds=(child_ends["answer"], child_ends["control"], child_ends["leash"]),
                start_new_session=True,
            )
            while child_ends:
                os.close(child_ends.popitem()[1])
            try:
                self._listen(our_ends)
            finally:
                if "leash" in our_ends:
                    os.close(our_ends.pop("leash"))
                if b'"confined"' not in self._received.get("control", b""):
                    _kill(process)  # the supervisor has not started
                _wait_for_supervisor(process)
        finally:
            for descriptor in (*our_ends.values(), *child_ends.values()):
                os.close(descriptor)
        return self._report(process.returncode)

    def _listen(self, our_ends: dict[str, int]) -> None:
        """Read from all pipes until the supervisor, the last of all processes, has ended."""
        import selectors
        import time

        self._received = {name: bytearray() for name in self._limits}
        end = time.monotonic() + self._deadline
        with selectors.DefaultSelector() as selector:
            for name in self._limits:
                os.set_blocking(our_ends[name], False)
                selector.register(our_ends[name], selectors.EVENT_READ, name)
            open_pipes = set(self._limits)
            while "control" in open_pipes:
                seconds_left = end - time.monotonic()
                if seconds_left <= 0:
                    if "leash" not in our_ends:
                        return
                    self._is_late = True
                    os.close(our_ends.pop("leash"))
                    if not self._received["control"]:
                        return
                    end = time.monotonic() + _GRACE
                    continue
                for key, _ in selector.select(seconds_left):
                    if not self._receive(key.data, key.fd):
                        selector.unregister(key.fd)
                        open_pipes.discard(key.data)
                if len(self._received["answer"]) > _MAX_MESSAGE_BYTES and "leash" in our_ends:
                    os.close(our_ends.pop("leash"))
                    end = time.monotonic() + _GRACE
        for name in open_pipes:  # pipes without a writer may still have bytes
            for _ in range(256):
                if not self._receive(name, our_ends[name]):
                    break

    def _receive(self, name: str, descriptor: int) -> bool:
        """Read available bytes, up to the limit of the pipe; return False at the end."""
        try:
            data = os.read(descriptor, 1 << 16)
        except OSError:
            return False
        received, limit = self._received[name], self._limits[name]
        received += data
        if len(received) > limit:
            if name in ("output", "errors"):
                del received[: len(received) - limit]
            else:
                del received[limit:]
        return bool(data)

    def _report(self, status: int | None) -> PluginReport:
        """Build the report from the received messages.

        :param status: the exit status of the supervisor; None: it could not be collected.
        """
        messages = _control_messages(self._received["control"])
        report = PluginReport(
            output=_visible(self._received["output"]),
            errors=_visible(self._received["errors"]),
            confinement=tuple(messages.get("confined", ())),
            unconfined=tuple(messages.get("unconfined", ())),
        )
        failure = self._failure(messages, status)
        if failure is None:
            try:
                answer = _read_answer(bytes(self._received["answer"]))
            except (ValueError, RecursionError):
                failure = "its answer is invalid"
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
        limit, ended = messages.get("why"), messages.get("ended", {})
        if limit == "memory":
            return f"it used more than {self._memory >> 20} MiB of memory"
        if limit == "processes":
            from wheelfit_runtime.platforms.isolated.confinement import PROCESSES

            return f"it started more than {PROCESSES} processes"
        if len(self._received["answer"]) > _MAX_MESSAGE_BYTES:
            return f"its answer is larger than {MAX_ANSWER_BYTES >> 20} MiB"
        if self._is_late or limit == "late":
            return f"it did not answer within {self._deadline:g} s"
        if "confined" not in messages:
            status_clause = "" if status is None else f", which ended with status {status}"
            return f"its interpreter{status_clause}, could not prepare to run it"
        if "signal" in ended:
            name = signal_name(ended["signal"])
            cause = " after it had used up its processor time" if name == "SIGXCPU" else ""
            return f"it crashed: {name}{cause}"
        if ended.get("status") != 0 or not self._received["answer"]:
            if "status" not in ended:
                return "another process ended it"
            return f"it ended with status {ended['status']} and without an answer"
        return None


def _control_messages(data: bytearray) -> dict[str, Any]:
    """Read the lines of the control pipe, to which the plugin cannot write."""
    import json

    messages: dict[str, Any] = {}
    for line in bytes(data).splitlines():
        try:
            messages.update(json.loads(line))
        except (ValueError, TypeError):
            continue
    return messages


def _read_answer(data: bytes) -> dict[str, Any]:
    """Read an answer and check it, since the plugin may have written to the pipe.

    :raises ValueError: it is invalid.
    """
    import json

    head, _, body = data.partition(b"\n")
    if not re.fullmatch(rb"[0-9]{1,8}", head) or int(head) != len(body):
        raise ValueError
    if body.count(b"[") + body.count(b"{") > _MAX_BRACKETS:
        raise ValueError
    answer = json.loads(body)
    if not isinstance(answer, dict):
        raise ValueError  # noqa: TRY004 - all faults are reported alike
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


def _child_environ(environ: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the environment of the child (P-35)."""
    temporary = os.path.join(folder, "tmp")
    variables = {
        name: value
        for name, value in environ.items()
        if _LANGUAGE.fullmatch(name) or name in _HOME_VARIABLES or name == _LIBRARY_PATH
    }
    variables |= {name: environ[name] for name in override_variables(environ)}
    variables["PATH"] = os.pathsep.join(_program_folders(environ)) or _PATH
    return variables | {"HOME": folder, "TMPDIR": temporary}


def _program_folders(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the folders on PATH outside of the user's home."""
    home = environ.get("HOME") or os.path.expanduser("~")
    for folder in environ.get("PATH", "").split(os.pathsep):
        if os.path.isabs(folder) and not _is_below(folder, home):
            yield folder


def _is_below(path: str, folder: str) -> bool:
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return path == folder or path.startswith(os.path.join(folder, ""))


def _library_folders(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the folders of vendors' libraries that variables name."""
    for name in (_LIBRARY_PATH, *sorted(_HOME_VARIABLES)):
        for folder in environ.get(name, "").split(os.pathsep):
            if os.path.isabs(folder):
                yield folder


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a group, with the group."""
    import signal

    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def _wait_for_supervisor(process: subprocess.Popen[bytes]) -> None:
    """Wait for the supervisor for a grace period, then abandon it (P-37).

    It is not killed, since it still has to wait for the processes that it killed.
    """
    import subprocess

    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        abandon(process)
