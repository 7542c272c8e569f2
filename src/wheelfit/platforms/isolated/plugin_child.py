"""Ask one plugin of PEP 850, in processes of their own (P-25, P-35, P-36, P-37).

Started as ``python -I -S -B plugin_child.py ORDER`` by ``plugin_process.py``, with the
interpreter of the plugin's environment and ORDER as JSON. Up to three processes do the work:

supervisor
    Runs nothing of the plugin. Keeps the deadline of what the plugin started, adopts what
    loses its parent, counts processes and memory, and ends everything when the *leash*, a
    pipe from whoever asked, is let go: because the deadline passed, or because they died.
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
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn

MOST_BYTES = 8 << 20
"""Of an answer (P-34)."""
MOST_FEATURES = 64
MOST_VALUES = 100_000
FLAGS = ("all_properties_compatible", "is_aot_plugin", "is_build_plugin")
_ITEM = ("name", "values", "multi_value")
_LONGEST_REASON = 2_000
_TURN = 0.05
"""Seconds between two looks at what a plugin uses."""
_PATIENCE = 0.9
"""Seconds in which killed processes must disappear."""


class Failed(Exception):
    """Say in one clause why there is no answer."""


class Order:
    """Hold what is asked, and the pipes."""

    def __init__(self, text: str) -> None:
        told = json.loads(text)
        self.endpoint: str = told["endpoint"]
        self.method: str = told["method"]
        self.folder: str = told["folder"]
        self.readable: list[str] = told["readable"]
        self.home: str = told["home"]
        self.memory: int = told["memory"]
        self.deadline: float = told["deadline"]
        self.asker: int = told["asker"]
        self.answer: int = told["answer"]
        self.control: int = told["control"]
        self.leash: int = told["leash"]

    def tell(self, **said: Any) -> None:
        """Write a line on the control pipe."""
        _write(self.control, json.dumps(said).encode() + b"\n")


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


# --- the plugin process -------------------------------------------------------------


def plugin_process(order: Order) -> NoReturn:
    """Run the plugin, answer, and leave without running what it left behind."""
    if order.control >= 0:
        os.close(order.control)
        os.close(order.leash)
    os.set_inheritable(order.answer, False)
    try:
        text = json.dumps(ask(order))
    except Failed as failed:
        text = json.dumps({"failure": str(failed)})
    except BaseException as error:  # noqa: BLE001 - whatever a plugin raises is an answer
        text = json.dumps({"failure": _described(error)})
    data = text.encode()
    _write(order.answer, b"%d\n" % len(data) + data)
    os._exit(0)


def ask(order: Order) -> dict[str, Any]:
    """Return the plugin's answer as plain data.

    :raises Failed: there is none; others for what the plugin raises.
    """
    import site  # noqa: PLC0415 - finds the environment, and runs its start-up files

    site.main()
    notes: list[str] = []
    plugin = find(order.endpoint)
    plugin, method = bound(plugin, order.endpoint, order.method, notes)
    if order.method == "get_supported_configs" and _wants_one(method):
        notes.append(f"{order.method} takes an argument, as in an older draft of PEP 850")
        configs = method(None)
    else:
        configs = method()
    read = _Reading()
    flags = {}
    for name in FLAGS:
        value = getattr(plugin, name, None)
        if value is not None:
            flags[name] = read.plain(value)
    return {"configs": read.configs(configs, order.method), "flags": flags, "notes": notes}


def find(endpoint: str) -> object:
    """Import the module and follow the attributes (P-25).

    :param endpoint: ``module.sub:attr.attr``, the attributes left out for the module itself.
    :raises Failed: there is no such module or attribute.
    """
    from importlib import import_module  # noqa: PLC0415 - not needed before

    module, _, attributes = endpoint.partition(":")
    try:
        found: object = import_module(module.strip())
    except ModuleNotFoundError as error:
        raise Failed(f"it cannot be imported: {_text_of(error)}") from None
    except ImportError as error:
        raise Failed(f"it cannot be imported: {_described(error)}") from None
    for name in filter(None, (part.strip() for part in attributes.split("."))):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise Failed(f"{endpoint} does not exist: there is no {name}") from None
    return found


def bound(
    plugin: object, endpoint: str, name: str, notes: list[str]
) -> tuple[object, Callable[..., object]]:
    """Return the plugin and its method, made an instance of if the method needs one (P-25).

    :raises Failed: there is no such method.
    """
    if isinstance(plugin, type):
        import types  # noqa: PLC0415 - loaded by now

        found = next((vars(base)[name] for base in plugin.__mro__ if name in vars(base)), None)
        if isinstance(found, types.FunctionType):
            notes.append(f"{endpoint} is a class whose {name} needs an instance")
            plugin = plugin()
    method = getattr(plugin, name, None)
    if not callable(method):
        raise Failed(f"{endpoint} has no {name}()")
    return plugin, method


def _wants_one(method: Callable[..., object]) -> bool:
    """Say whether a function has exactly one parameter that must be given."""
    import inspect  # noqa: PLC0415 - takes a while

    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return False
    required = [
        one
        for one in parameters
        if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    return len(required) == 1


class _Reading:
    """Turn what a plugin returned into plain data, without believing that it is small."""

    def __init__(self) -> None:
        self._room = MOST_BYTES

    def configs(self, configs: object, method: str) -> list[dict[str, Any]]:
        """Return the features with the attributes that mean something (P-27, P-31)."""
        if not isinstance(configs, (list, tuple)):
            raise Failed(f"{method}() returned {_kind(configs)} and no list")
        # One more than is allowed is enough to see that it is too much (P-34).
        items = list(islice(iter(configs), MOST_FEATURES + 1))
        absent = object()
        found = []
        left = MOST_VALUES + 1
        for item in items:
            seen = {}
            for name in _ITEM:
                value = getattr(item, name, absent)
                if value is absent:
                    continue
                if name == "values" and isinstance(value, (list, tuple)):
                    values = [self.plain(one) for one in islice(iter(value), left)]
                    left -= len(values)
                    seen[name] = values
                else:
                    seen[name] = self.plain(value)
            found.append(seen)
        return found

    def plain(self, value: object) -> Any:
        """Return a value as JSON has it; of anything else only the kind: ``{"kind": …}``."""
        self._room -= 16
        if isinstance(value, str):
            self._room -= len(value)
        if self._room < 0:
            raise Failed(f"its answer is larger than {MOST_BYTES >> 20} MiB")
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            # Not what a subclass makes of itself.
            return str.encode(value, "utf-8", "surrogatepass").decode("utf-8", "surrogatepass")
        if type(value) is float or (type(value) is int and abs(value) < 1 << 53):
            return value if value == value and abs(value) < 1e300 else _with_kind(value)  # noqa: PLR0124
        return _with_kind(value)


def _with_kind(value: object) -> dict[str, str]:
    return {"kind": _kind(value)}


def _kind(value: object) -> str:
    """Name a type, whatever it says of itself."""
    if value is None:
        return "None"
    name = str(type.__dict__["__name__"].__get__(type(value)))
    article = "an" if name[:1].lower() in "aeio" else "a"
    return f"{article} {name[:100]}"


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST_REASON]
    except BaseException:  # noqa: BLE001 - even that is the plugin's code
        return ""


def _described(error: BaseException) -> str:
    """Say what was raised, in a clause."""
    name = str(type.__dict__["__name__"].__get__(type(error)))[:100]
    if isinstance(error, SystemExit):
        return f"it called sys.exit({_text_of(error)})"
    if isinstance(error, MemoryError):
        return "it used more memory than it may"
    text = _text_of(error)
    return f"it raised {name}: {text}" if text else f"it raised {name}"


# --- giving up what a plugin does not need ------------------------------------------


def confine(order: Order, kernel: Any, *, inside: bool, users: bool, disk: str | None) -> None:
    """Confine this process for good and tell how far that went (P-35).

    :param kernel: the module ``confinement``.
    :param inside: whether this is a namespace of processes.
    :param users: whether it is one of users.
    :param disk: what limits the working folder, if anything.
    """
    confined: list[str] = []
    unconfined: list[str] = []

    def attempt(what: str, do: Callable[[], Any]) -> None:
        try:
            done = do()
        except (kernel.Refused, OSError) as refused:
            unconfined.append(f"{what}: {refused}")
        else:
            confined.extend([done] if isinstance(done, str) else done)

    if inside:
        confined.append("other processes cannot be reached (namespaces)")
    if disk:
        confined.append(disk)
    confined.extend(kernel.limit(order.memory, order.deadline, own_users=users))
    if sys.platform != "linux":
        unconfined.append(f"files, network, processes: nothing is enforced on {sys.platform}")
    else:
        confined.append(f"{order.memory >> 20} MiB and {kernel.PROCESSES} processes in all")
        protected = () if inside else (order.asker, os.getppid())
        attempt("privileges", kernel.drop_privileges)
        attempt("files", lambda: kernel.restrict_files(order.folder, _readable(order)))
        attempt("network, other system calls", lambda: kernel.restrict_calls(protected))
    order.tell(confined=confined, unconfined=unconfined)


def _readable(order: Order) -> Iterable[str]:
    """Return the folders of the interpreter and of its environment.

    None of them is, or holds, the home folder: then only what Python itself needs is allowed.
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


# --- the supervisor -----------------------------------------------------------------


def supervise(order: Order, kernel: Any) -> None:
    """Start the plugin process, watch it, and see to it that nothing of it stays."""
    linux = sys.platform == "linux"
    if linux:
        with contextlib.suppress(kernel.Refused):
            kernel.adopt_orphans()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    inside = _start_inside(order, kernel) if linux else None
    first = inside or _start(order, kernel)
    if linux:
        with contextlib.suppress(kernel.Refused):
            kernel.hide_memory()
    os.close(order.answer)
    why = _watch(order, kernel, first, woken)
    status = _end_all(first)
    if why is not None:
        order.tell(why=why)
    elif status is not None and inside is None:
        order.tell(ended=_ending(status))


def _ending(status: int) -> dict[str, int]:
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    return {"status": os.WEXITSTATUS(status)}


def _start(order: Order, kernel: Any) -> int:
    """Start the plugin process beside this one."""
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        _no_signals()
        try:
            if sys.platform == "linux":
                kernel.die_with_parent(supervisor)
            confine(order, kernel, inside=False, users=False, disk=None)
        except BaseException:  # noqa: BLE001 - no process may go on into the other's work
            os._exit(70)
        plugin_process(order)
    return pid


def _start_inside(order: Order, kernel: Any) -> int | None:
    """Start the plugin process in namespaces; None where there are none."""
    ready, told = os.pipe()
    try:
        pid, users = kernel.clone_into_namespaces(os.geteuid(), os.getegid())
        if pid == 0:
            _first_inside(order, kernel, told, users=users)
    except BaseException:  # noqa: BLE001 - see _start()
        if os.getpid() == 1:
            os._exit(70)
        os.close(ready)
        os.close(told)
        return None
    os.close(told)
    works = os.read(ready, 1)
    os.close(ready)
    if works:
        return int(pid)
    os.waitpid(pid, 0)
    return None


def _first_inside(order: Order, kernel: Any, told: int, *, users: bool) -> NoReturn:
    """Be the first process of the namespaces, and end them when the plugin process ends."""
    _no_signals()
    kernel.die_with_parent(0)
    disk = None
    try:
        disk = kernel.mount_working_folder(order.folder)
        os.mkdir(os.path.join(order.folder, "tmp"), 0o700)  # noqa: PTH102, PTH118
    except (kernel.Refused, OSError):
        pass
    os.chdir(order.folder)
    plugin = os.fork()
    if plugin == 0:
        try:
            kernel.die_with_parent(1)
            confine(order, kernel, inside=True, users=users, disk=disk)
        except BaseException:  # noqa: BLE001 - no process may go on into the other's work
            os._exit(70)
        os.close(told)
        plugin_process(order)
    os.write(told, b".")
    os.close(told)
    os.close(order.answer)
    with contextlib.suppress(kernel.Refused):
        kernel.hide_memory()
    while True:
        pid, status = os.wait()
        if pid == plugin:
            order.tell(ended=_ending(status))
            os._exit(0)


def _no_signals() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _watch(order: Order, kernel: Any, first: int, woken: int) -> str | None:
    """Wait until the plugin process ends or must be ended; say why, or None."""
    import select  # noqa: PLC0415 - only this process needs it

    until = time.monotonic() + order.deadline + _PATIENCE
    while True:
        ready, _, _ = select.select([order.leash, woken], [], [], _TURN)
        if order.leash in ready or time.monotonic() > until:
            return "late"
        if woken in ready:
            os.read(woken, 4096)
        if _has_ended(first):
            return None
        if sys.platform == "linux":
            processes = descendants(os.getpid())
            if len(processes) > kernel.PROCESSES:
                return "processes"
            if sum(map(_resident, processes)) > order.memory:
                return "memory"


def _has_ended(pid: int) -> bool:
    """Say whether a child has ended, without taking note of it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _end_all(first: int) -> int | None:
    """Kill everything that is left and collect it; return the plugin's status.

    Whoever forks while its parent is killed becomes a child of this process, so it is
    looked for again until there is none; no longer than some patience (P-37).
    """
    result = None
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        for pid in descendants(os.getpid()) if sys.platform == "linux" else (first,):
            try:
                if pid != first or not _has_ended(first):
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == first:
                    result = status
        except ChildProcessError:
            return result
        time.sleep(0.002)
    return result


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):  # noqa: PTH208
                with open(f"/proc/{parent}/task/{thread}/children") as file:  # noqa: PTH123
                    children = [int(word) for word in file.read().split()]
                found += children
                waiting += children
        except (OSError, ValueError):
            continue
    return found


def _resident(pid: int) -> int:
    """Return how many bytes of memory a process uses that are no files."""
    try:
        with open(f"/proc/{pid}/status") as file:  # noqa: PTH123
            lines = [line for line in file if line.startswith(("RssAnon:", "RssShmem:"))]
        return sum(int(line.split()[1]) << 10 for line in lines)
    except (OSError, ValueError, IndexError):
        return 0


def main(arguments: list[str]) -> None:
    """Do what ORDER says."""
    order = Order(arguments[0])
    if os.name != "posix":
        plugin_process(order)
    os.umask(0o077)
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path.insert(0, folder)
    import confinement  # type: ignore[import-not-found]  # noqa: PLC0415

    sys.path.remove(folder)
    del sys.modules["confinement"]  # a plugin may have a module of this name
    supervise(order, confinement)


if __name__ == "__main__":
    main(sys.argv[1:])
