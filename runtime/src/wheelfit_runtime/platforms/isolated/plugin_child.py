"""Run one plugin of PEP 850 in separate processes (P-25, P-35, P-36, P-37).

Started as ``python -I -S -B plugin_child.py ORDER`` by ``plugin_process.py``, with the
interpreter of the plugin's environment and ORDER as JSON. Up to three processes do the work:

supervisor
    Runs nothing of the plugin. Keeps the deadline of what the plugin started, adopts what
    loses its parent, counts processes and memory, and ends everything when the *leash*, a
    pipe from the caller, is closed: because the deadline passed, or the caller ended.
first process of a namespace
    Only where the kernel allows namespaces; the kernel ends everything inside with it.
plugin process
    Gives up what a plugin does not need, and then looks at the environment for the first
    time: even start-up files of the environment run confined.

Two private pipes lead back. On *control*, which the plugin process closes before anything of
the plugin runs, come lines of JSON: ``{"confined": [...], "unconfined": [...]}`` and
``{"ended": {"signal": 11}}``, with ``status`` instead of ``signal``; or ``{"why": "memory"}``
if the supervisor ended it. On *answer* comes the plugin's answer: its length in bytes as
text, a line feed, and one JSON object.

Runs on CPython 3.9 and later.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn

_INTERVAL = 0.02
"""Seconds between two looks at what a plugin uses."""
_COUNTED = ("RssAnon:", "RssShmem:", "VmSwap:", "VmPTE:")
"""Memory of a process that is not a file, swapped out or not, and the tables that map it."""
_STARTED = "."
_PERSISTENCE = 60.0
"""Seconds in which killed processes must disappear; the caller waits for less."""


class PluginOrder:
    """The endpoint and method to call, the limits, and the pipes.

    :param text: the order as JSON.
    :param question: the module `plugin_question`.
    """

    def __init__(self, text: str, question: Any) -> None:
        order = json.loads(text)
        self.question = question
        self.endpoint: str = order["endpoint"]
        self.method: str = order["method"]
        self.folder: str = order["folder"]
        self.readable: list[str] = order["readable"]
        self.home: str = order["home"]
        self.memory: int = order["memory"]
        self.deadline: float = order["deadline"]
        self.caller: int = order["caller"]
        self.answer: int = order["answer"]
        self.control: int = order["control"]
        self.leash: int = order["leash"]

    def report(self, **message: Any) -> None:
        """Write a line on the control pipe."""
        with contextlib.suppress(OSError):  # the caller may have ended
            _write(self.control, json.dumps(message).encode() + b"\n")


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def plugin_process(order: PluginOrder) -> NoReturn:
    """Run the plugin, answer, and exit without running its exit handlers."""
    import site  # runs the start-up files of the environment

    question = order.question
    os.closerange(3, order.answer)
    os.closerange(order.answer + 1, 1 << 16)
    os.set_inheritable(order.answer, False)
    for own_module in ("confinement", "plugin_question", "system_calls", "working_folder"):
        sys.modules.pop(own_module, None)  # a plugin may have a module of this name
    try:
        site.main()
        text = json.dumps(question.ask(order.endpoint, order.method))
    except question.Failed as failed:
        text = json.dumps({"failure": str(failed)})
    except BaseException as error:  # noqa: BLE001 - whatever a plugin raises is an answer
        text = json.dumps({"failure": question.described(error)})
    data = text.encode()
    _write(order.answer, b"%d\n" % len(data) + data)
    os._exit(0)


class Namespaces:
    """The Linux namespaces in which the plugin process runs, and the limits that they bring."""

    def __init__(self) -> None:
        self.of_processes = False
        self.of_users = False
        self.confined: list[str] = []
        """The enforced limits, one clause each."""
        self.unconfined: list[str] = []
        """The limits that could not be enforced, each with the reason."""


def confine(
    order: PluginOrder, kernel: Any, namespaces: Namespaces, hand_over: Callable[[int], None]
) -> None:
    """Confine this process for good and report the enforced limits (P-35).

    :param kernel: the module `confinement`.
    :param hand_over: called with the descriptor on which the kernel reports new processes.
    """
    confined, unconfined = [*namespaces.confined], [*namespaces.unconfined]

    def attempt(do: Callable[[], Any], otherwise: str) -> None:
        try:
            confined.extend(do())
        except (kernel.Refused, OSError) as refused:
            unconfined.append(f"{otherwise}: {refused}")

    confined.extend(kernel.limit(order.memory, order.deadline, own_users=namespaces.of_users))
    if sys.platform == "linux":
        confined.append(f"{order.memory >> 20} MiB of memory in all")
        protected: tuple[int, ...] = ()
        if not namespaces.of_processes:  # the caller need not lead its process group
            protected = (order.caller, os.getpgid(order.caller), os.getppid())
        attempt(kernel.drop_privileges, "it has the privileges that you have")
        attempt(
            lambda: kernel.restrict_files(order.folder, _readable(order)),
            "it may read and write what you may (no Landlock)",
        )
        attempt(
            lambda: kernel.restrict_calls(protected, hand_over),
            "it may make all system calls (no seccomp)",
        )
        if not namespaces.of_processes and not any("(Landlock)" in words for words in confined):
            unconfined.append(
                "it may look into your other processes and change them, wheelfit included "
                "(neither namespaces nor Landlock)"
            )
        if not any("processes started" in words for words in confined):
            unconfined.append(
                f"it is seen only now and then if it starts over {kernel.PROCESSES}, and memory "
                "that it shares and maps nowhere is not counted"
            )
    else:
        unconfined.append(
            f"on {sys.platform} files, network and memory are as open to it as to you"
        )
    order.report(confined=confined, unconfined=unconfined)


def _readable(order: PluginOrder) -> Iterable[str]:
    """Return the folders of the interpreter and of its environment.

    A folder that is or contains the home folder is left out: then only the files Python itself
    needs are allowed.
    """
    environment = os.path.dirname(os.path.dirname(os.path.abspath(sys.executable)))  # noqa: PTH100, PTH120
    folders = [*order.readable, sys.base_prefix, sys.base_exec_prefix, *sys.path]
    if os.path.exists(os.path.join(environment, "pyvenv.cfg")):  # noqa: PTH110, PTH118
        folders.append(environment)
    home = os.path.realpath(order.home)
    for folder in folders:
        real = os.path.realpath(folder)
        if real in ("/", home) or home.startswith(real + os.sep):
            continue
        yield folder


def supervise(order: PluginOrder, kernel: Any) -> None:
    """Start the plugin process, watch it, and end all processes that it started."""
    linux = sys.platform == "linux"
    if linux:
        with contextlib.suppress(kernel.Refused):
            kernel.adopt_orphans()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    handover = _Handover()
    namespaces = Namespaces()
    inside = _start_in_namespaces(order, kernel, namespaces, handover) if linux else None
    first = inside or _start_without_namespaces(order, kernel, namespaces, handover)
    if linux:
        with contextlib.suppress(kernel.Refused):
            kernel.hide_memory()
    os.close(order.answer)
    why, status = _watch(order, kernel, handover, first, woken)
    _end_all(first)
    if why is not None:
        order.report(why=why)
    elif status is not None and inside is None:
        order.report(ended=_ending(status))


class _Handover:
    """The handover of a descriptor from the plugin process to the supervisor."""

    def __init__(self) -> None:
        import _socket  # socket takes longer to load than everything else here

        self._kind = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
        self.ours, self.theirs = _socket.socketpair()

    def send(self, descriptor: int) -> None:
        """Send a descriptor; called in the plugin process."""
        data = descriptor.to_bytes(4, sys.byteorder)
        self.theirs.sendmsg([b"."], [(*self._kind, data)])

    def close(self) -> None:
        """Close both ends, which the plugin must not have."""
        self.ours.close()
        self.theirs.close()

    def receive(self) -> int:
        """Return the descriptor; -1: there is none. Called in the supervisor."""
        _, parts, _, _ = self.ours.recvmsg(1, 64)
        return int.from_bytes(parts[0][2][:4], sys.byteorder) if parts else -1


def _ending(status: int) -> dict[str, int]:
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    return {"status": os.WEXITSTATUS(status)}


def _start_without_namespaces(
    order: PluginOrder, kernel: Any, namespaces: Namespaces, handover: _Handover
) -> int:
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        _no_signals()
        try:
            os.setpgid(0, 0)
            if sys.platform == "linux":
                kernel.die_with_parent(supervisor)
            confine(order, kernel, namespaces, handover.send)
            handover.close()
        except BaseException:  # noqa: BLE001 - no process may go on into the other's work
            os._exit(70)
        plugin_process(order)
    return pid


def _start_in_namespaces(
    order: PluginOrder, kernel: Any, namespaces: Namespaces, handover: _Handover
) -> int | None:
    """Start the plugin process in namespaces; None where there are none."""
    ready, notify = os.pipe()
    pid = -1
    try:
        pid, namespaces.of_users = kernel.clone_into_namespaces(os.geteuid(), os.getegid())
        if pid == 0:
            _run_first_process(order, kernel, namespaces, handover, notify)
        os.close(notify)
        answer = os.read(ready, 200).decode("utf-8", "replace")
    except BaseException as error:  # noqa: BLE001 - as above
        if os.getpid() == 1:  # in the child, the first process of its namespace
            os.write(notify, str(error).encode("utf-8", "replace")[:200])
            os._exit(70)
        os.close(notify)
        answer = str(error)
    os.close(ready)
    if answer == _STARTED:
        return pid
    if pid > 0:
        os.waitpid(pid, 0)
    namespaces.unconfined.append(f"it may see your other processes (no namespaces): {answer}")
    namespaces.of_users = False
    return None


def _run_first_process(
    order: PluginOrder, kernel: Any, namespaces: Namespaces, handover: _Handover, notify: int
) -> NoReturn:
    """Run as the first process of the namespaces, and end them after the plugin process."""
    _no_signals()
    os.setpgid(0, 0)
    kernel.die_with_parent(0)
    namespaces.of_processes = True
    namespaces.confined.append("no other process is reached, and no network (namespaces)")
    try:
        namespaces.confined.append(kernel.mount_working_folder(order.folder))
        os.mkdir(os.path.join(order.folder, "tmp"), 0o700)  # noqa: PTH102, PTH118
    except (kernel.Refused, OSError) as refused:
        namespaces.unconfined.append(f"its working folder takes any number of files: {refused}")
    os.chdir(order.folder)
    plugin = os.fork()
    if plugin == 0:
        try:
            kernel.die_with_parent(1)
            confine(order, kernel, namespaces, handover.send)
            handover.close()
            os.close(notify)
        except BaseException:  # noqa: BLE001 - as above
            os._exit(70)
        plugin_process(order)
    os.write(notify, _STARTED.encode())
    os.close(notify)
    os.close(order.answer)
    handover.close()
    with contextlib.suppress(kernel.Refused):
        kernel.hide_memory()
    while True:
        pid, status = os.wait()
        if pid == plugin:
            order.report(ended=_ending(status))
            os._exit(0)


def _no_signals() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _watch(
    order: PluginOrder, kernel: Any, handover: _Handover, first: int, woken: int
) -> tuple[str | None, int | None]:
    """Wait until the plugin process ends or must be ended; return why, and its status."""
    import select

    until = time.monotonic() + order.deadline + 1
    poll = select.poll()
    for source in (order.leash, woken, handover.ours.fileno()):
        poll.register(source, select.POLLIN)
    listener = -1
    started = shared = 0
    last_look = 0.0
    while True:
        ready = dict(poll.poll(1000 * _INTERVAL))
        now = time.monotonic()
        if order.leash in ready or now > until:
            return "late", None
        if woken in ready:
            os.read(woken, 4096)
        if handover.ours.fileno() in ready:
            poll.unregister(handover.ours)
            listener = handover.receive()
            if listener >= 0:
                poll.register(listener, select.POLLIN)
        if ready.get(listener, 0) & select.POLLIN:
            request = kernel.read_request(listener)
            if request is not None:
                request_id, length = request
                started += length is None
                shared += length or 0
                if started > kernel.PROCESSES:  # the calling process waits until it is killed
                    return "processes", None
                if shared > order.memory:
                    return "memory", None
                kernel.continue_call(listener, request_id)
        elif listener in ready:  # no process is left that could ask
            poll.unregister(listener)
            listener = -1
        pid, status = os.waitpid(first, os.WNOHANG)
        if pid:
            return None, status
        if sys.platform == "linux" and now - last_look >= _INTERVAL:
            last_look = now
            processes = descendants(os.getpid(), kernel.PROCESSES + 3)
            if len(processes) > kernel.PROCESSES + 2:
                return "processes", None
            if sum(map(_resident, processes)) > order.memory:
                return "memory", None


def _end_all(first: int) -> None:
    """Kill and collect all remaining processes.

    The first process of a namespace takes all others with it. Elsewhere, what loses its
    parent becomes a child of this process, and is looked for again until there is none.
    Where orphans cannot be adopted, the group of the plugin process is killed.
    """
    until = time.monotonic() + _PERSISTENCE
    with contextlib.suppress(OSError):
        os.killpg(first, signal.SIGKILL)
    while time.monotonic() < until:
        for pid in descendants(os.getpid(), 1000) if sys.platform == "linux" else ():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def descendants(pid: int, most: int) -> list[int]:
    """Return the descendants of a process, oldest first.

    :param most: the largest number to return; there may be more every moment.
    """
    listed = os.path.exists(f"/proc/{pid}/task/{pid}/children")  # noqa: PTH110
    children_of = _listed_children if listed else _scanned_children()
    pids: list[int] = []
    waiting = [pid]
    while waiting and len(pids) < most:
        children = children_of(waiting.pop(0))
        pids += children
        waiting += children
    return pids


def _listed_children(pid: int) -> list[int]:
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{thread}/children") as file:  # noqa: PTH123
                pids += map(int, file.read().split())
    except (OSError, ValueError):
        pass
    return pids


def _scanned_children() -> Callable[[int], list[int]]:
    """Read the parents of all processes; return a function that returns children."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # The name of the program may hold blanks and brackets.
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(name))
    return lambda pid: children.get(pid, [])


def _resident(pid: int) -> int:
    """Return the bytes of memory of a process without mapped files."""
    try:
        with open(f"/proc/{pid}/status") as file:  # noqa: PTH123
            lines = [line for line in file if line.startswith(_COUNTED)]
        return sum(int(line.split()[1]) << 10 for line in lines)
    except (OSError, ValueError, IndexError):
        return 0


def main(arguments: list[str]) -> None:
    """Run the order that the arguments name."""
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path.insert(0, folder)
    import confinement  # type: ignore[import-not-found]
    import plugin_question  # type: ignore[import-not-found]
    import system_calls  # type: ignore[import-not-found]  # noqa: F401
    import working_folder  # type: ignore[import-not-found]

    sys.path.remove(folder)
    os.umask(0o077)
    order = PluginOrder(arguments[0], plugin_question)
    supervise(order, confinement)
    if os.getppid() != order.caller:  # the caller has ended, and cannot remove it
        working_folder.remove(order.folder)


if __name__ == "__main__":
    main(sys.argv[1:])
