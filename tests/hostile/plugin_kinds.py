"""Plugins that mean harm, or are as broken as can be; `hostile.plugins` packs them.

Each is named after what it does. Never import this to call one: what they do, they do to
whatever process calls them. Those that try something forbidden answer with a feature for each
attempt, whose only value says how it went: ``done``, or the name of the exception.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["KINDS", "Feature", "at_start"]

TARGET = os.environ.get("HOSTILE_PROVIDER_FORCE_TARGET", "")
GIGABYTE = 1 << 30


class Feature:
    """Hold one feature as plugins return it."""

    def __init__(self, name: Any, values: Any, multi_value: Any = False) -> None:  # noqa: FBT002
        self.name = name
        self.values = values
        self.multi_value = multi_value


class Kind:
    """Be the plugin whose question is answered by a function."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.get_supported_configs = answer
        self.get_all_configs = answer
        self.__doc__ = answer.__doc__


KINDS: dict[str, Kind] = {}
"""All of them by name."""


def kind(answer: Callable[[], Any]) -> Kind:
    """Make a function a plugin."""
    KINDS[answer.__name__] = Kind(answer)
    return KINDS[answer.__name__]


def attempts(tries: dict[str, Callable[[], Any]]) -> list[Feature]:
    """Try everything and say how each went."""
    found = []
    for name, attempt in tries.items():
        try:
            outcome = attempt()
        except BaseException as error:
            outcome = type(error).__name__
        found.append(Feature(name, ["done" if outcome is None else str(outcome)]))
    return found


FINE = [Feature("fine", ["yes"])]

# --- not answering --------------------------------------------------------------------


@kind
def hangs() -> None:
    """Never return."""
    while True:
        time.sleep(1)


@kind
def spins() -> None:
    """Use a processor for ever."""
    while True:
        pass


@kind
def ignores_signals() -> None:
    """Never return from a C library, with all signals blocked."""
    import ctypes
    import signal

    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    ctypes.PyDLL(None).sleep(1000)


@kind
def hangs_on_import() -> None:
    """Never finish being imported; see the end of this module."""


@kind
def segfaults() -> None:
    """Read from address zero."""
    import ctypes

    ctypes.string_at(0)


@kind
def aborts() -> None:
    """Call abort()."""
    os.abort()


@kind
def leaves() -> None:
    """Leave at once with success and without an answer."""
    os._exit(0)


@kind
def exits() -> None:
    """Call sys.exit()."""
    sys.exit("that is enough")


@kind
def recurses() -> None:
    """Call itself without end."""
    recurses.get_supported_configs()


@kind
def recurses_in_c() -> None:
    """Fill the stack of a C function."""
    sys.setrecursionlimit(1 << 30)

    class Deep:
        def __repr__(self) -> str:
            return repr(self)

    repr(Deep())


@kind
def raises_badly() -> None:
    """Raise an exception that cannot be described."""

    class Indescribable(BaseException):
        def __str__(self) -> str:
            raise Indescribable

        __repr__ = __str__

    raise Indescribable


@kind
def raises_escapes() -> None:
    """Raise an exception with a message for the terminal."""
    raise RuntimeError("\x1b[2J\x1b]0;owned\x07 all is well")


# --- too much -------------------------------------------------------------------------


@kind
def prints_a_gigabyte() -> list[Feature]:
    """Print far more than anybody wants to keep, and answer."""
    line = b"x" * (1 << 20)
    for _ in range(GIGABYTE >> 20):
        os.write(1, line)
    return FINE


@kind
def answers_a_gigabyte() -> list[Feature]:
    """Answer with one value that is larger than any answer may be."""
    return [Feature("large", ["x" * (GIGABYTE >> 1)])]


@kind
def answers_without_end() -> list[Feature]:
    """Answer with lists that never end."""

    class Endless(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            while True:
                yield Feature("endless", Endless())

    return Endless()


@kind
def takes_memory() -> None:
    """Ask for memory until there is none."""
    kept = []
    while True:
        kept.append(bytearray(16 << 20))


@kind
def takes_shared_memory() -> None:
    """Ask for memory that no limit of a process counts."""
    import mmap

    kept = []
    while True:
        part = mmap.mmap(-1, 16 << 20)
        part.write(b"x" * (16 << 20))
        kept.append(part)


@kind
def hides_memory() -> None:
    """Take memory in the way that TARGET says, and no more of it than a test can bear."""
    import contextlib
    import ctypes
    import mmap
    import socket

    size, most = 16 << 20, 30
    pairs: list[Any] = []
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    none = ctypes.c_long(0)
    address = libc.mmap(None, ctypes.c_size_t(8 << 30), 1, 0x4022, -1, none)
    for _ in range(most):
        if TARGET == "files":  # that lie nowhere
            with open(os.memfd_create("x"), "wb", closefd=False) as file:
                file.write(b"x" * size)
        elif TARGET == "unmapped":  # all but a page, and that keeps the rest
            part = libc.mmap(None, ctypes.c_size_t(size), 3, 0x21, -1, none)
            ctypes.memset(part, 1, size)
            libc.munmap(ctypes.c_void_p(part + 4096), ctypes.c_size_t(size - 4096))
        elif TARGET == "tables":  # a page of them for each 2 MiB of which nothing is there
            for table in range(size >> 12):
                ctypes.string_at(address + (table << 21), 1)
            address = libc.mmap(None, ctypes.c_size_t(8 << 30), 1, 0x4022, -1, none)
        elif TARGET == "sockets":  # that nobody reads from
            for _ in range(7):
                one, _other = socket.socketpair()
                one.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        one.send(b"x" * 4096)
                pairs += [one, _other]
        else:
            part = mmap.mmap(os.open("/dev/zero", os.O_RDWR), size)
            part.write(b"x" * size)


@kind
def forks() -> None:
    """Start processes that start processes."""
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)


@kind
def fills_the_disk() -> list[Feature]:
    """Write files into its own folder until it is not allowed to, 512 MiB at most."""
    part = b"x" * (8 << 20)

    def fill() -> str:
        written = 0
        try:
            for number in range(64):
                with open(f"{number}", "wb") as file:
                    written += file.write(part)
        finally:
            print(f"{written >> 20} MiB")
        return f"{written >> 20}"

    return attempts({"fill": fill})


@kind
def digs() -> list[Feature]:
    """Leave a folder deeper than any path, with parts that nobody may enter."""
    for _ in range(2000):
        os.mkdir("deeper")
        os.chdir("deeper")
    os.mkdir("closed", 0)
    return FINE


# --- staying --------------------------------------------------------------------------


@kind
def stays() -> list[Feature]:
    """Leave a process behind that has nothing to do with its parents any more."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    os.wait()
    return FINE


@kind
def leaves_threads() -> list[Feature]:
    """Leave a thread behind that never ends, and a function that hangs at the exit."""
    import atexit

    atexit.register(time.sleep, 1000)
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return FINE


# --- reaching out ---------------------------------------------------------------------


@kind
def writes() -> list[Feature]:
    """Write where it has no business, and change what is there; TARGET is a folder."""
    import site

    def write(path: str) -> Callable[[], None]:
        def attempt() -> None:
            with open(path, "a") as file:
                file.write("hostile")

        return attempt

    def make_link() -> None:
        os.link(os.path.join(TARGET, "secret"), "link")

    secret = os.path.join(TARGET, "secret")
    tries: dict[str, Callable[[], Any]] = {
        "new_file": write(os.path.join(TARGET, "hostile")),
        "old_file": write(secret),
        "package": write(__file__),
        "environment": write(os.path.join(site.getsitepackages()[0], "hostile.pth")),
        "beside": write(os.path.join(os.path.dirname(os.getcwd()), "hostile")),
        "shared_memory": write("/dev/shm/hostile"),
        "kernel": write("/proc/sys/kernel/domainname"),
        "folder": lambda: os.mkdir(os.path.join(TARGET, "folder")),
        "remove": lambda: os.unlink(secret),
        "rename": lambda: os.rename(secret, f"{secret}.old"),
        "link": make_link,
        "truncate": lambda: os.truncate(secret, 0),
        "mode": lambda: os.chmod(secret, 0o777),
        "times": lambda: os.utime(secret, (0, 0)),
        "attribute": lambda: os.setxattr(secret, "user.hostile", b"1"),
        "device": lambda: os.mknod(os.path.join(TARGET, "device"), 0o20600, os.makedev(1, 1)),
        "own_folder": write("mine"),
        "temporary": write(os.path.join(os.environ["TMPDIR"], "mine")),
    }
    return attempts(tries)


@kind
def reads() -> list[Feature]:
    """Read what it has no business with; TARGET is a folder that holds a ``secret``."""

    def read(path: str) -> Callable[[], None]:
        def attempt() -> None:
            with open(path, "rb") as file:
                file.read(1)

        return attempt

    def environments() -> str:
        found = 0
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    found += b"PLANTED_SECRET" in file.read()
            except OSError:
                continue
        return f"{found}"

    tries: dict[str, Callable[[], Any]] = {
        "file": read(os.path.join(TARGET, "secret")),
        "folder": lambda: os.listdir(TARGET)[:0] or None,
        "through_proc": read(f"/proc/self/root{TARGET}/secret"),
        "passwords": read("/etc/shadow"),
        "others": environments,
        "own": lambda: ",".join(sorted(os.environ)),
        "system": read("/etc/passwd"),
        "program": read(sys.executable),
    }
    return attempts(tries)


@kind
def connects() -> list[Feature]:
    """Use the network in every way; TARGET is the port of a listener on the loopback interface."""
    import ctypes
    import socket
    import subprocess

    port = int(TARGET)

    def connect() -> None:
        socket.create_connection(("127.0.0.1", port), timeout=2).send(b"hostile")

    def send() -> None:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"hostile", ("127.0.0.1", port))

    def local(address: str) -> Callable[[], None]:
        return lambda: socket.socket(socket.AF_UNIX).connect(address)

    def pair() -> None:
        one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        one.sendto(b"hostile", "/dev/log")

    def stream() -> None:
        one, other = socket.socketpair()
        one.send(b"x")
        other.recv(1)

    def ring() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(425, 1, ctypes.create_string_buffer(120)) < 0:
            raise OSError(ctypes.get_errno(), "io_uring_setup")

    def program() -> None:
        text = f"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=2)"
        subprocess.run([sys.executable, "-I", "-c", text], check=True, stderr=subprocess.DEVNULL)

    tries: dict[str, Callable[[], Any]] = {
        "tcp": connect,
        "udp": send,
        "tcp6": lambda: socket.socket(socket.AF_INET6).connect(("::1", port)),
        "local": local("/run/dbus/system_bus_socket"),
        "abstract": local("\0hostile"),
        "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).bind((0, 0)),
        "name": lambda: socket.getaddrinfo("example.org", 80)[:0] or None,
        "listen": lambda: socket.create_server(("127.0.0.1", 0)).close(),
        "pair_of_datagrams": pair,
        "pair_of_streams": stream,
        "ring": ring,
        "program": program,
    }
    return attempts(tries)


@kind
def attacks() -> list[Feature]:
    """Attack the process that asked, whose number is TARGET, and the kernel."""
    import ctypes
    import fcntl
    import resource

    asker = int(TARGET)
    libc = ctypes.CDLL(None, use_errno=True)

    def call(number: int, *arguments: int) -> Callable[[], None]:
        def attempt() -> None:
            if libc.syscall(number, *arguments) < 0:
                raise OSError(ctypes.get_errno(), "")

        return attempt

    def signalled(pid: int) -> Callable[[], None]:
        return lambda: os.kill(pid, 0)

    def mount() -> None:
        if libc.mount(b"x", b"/tmp", b"tmpfs", 0, None) != 0:
            raise OSError(ctypes.get_errno(), "")

    is_x86 = os.uname().machine == "x86_64"
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    tries: dict[str, Callable[[], Any]] = {
        "signal": signalled(asker),
        "signal_group": signalled(-asker),
        "signal_own_group_of_asker": lambda: os.kill(-os.getpgid(asker), 0),
        "signal_by_a_file": lambda: fcntl.fcntl(1, fcntl.F_SETOWN, asker) or None,
        "any_signal_by_a_file": lambda: fcntl.fcntl(1, 10, 9) or None,  # F_SETSIG
        "limits": lambda: print(resource.prlimit(asker, resource.RLIMIT_CPU)),
        "own_limits": lambda: resource.setrlimit(resource.RLIMIT_DATA, unlimited),
        "trace": call(101 if is_x86 else 117, 0x4206, asker, 0, 0),  # seize: it goes on running
        "memory": lambda: open(f"/proc/{asker}/mem", "rb").close(),
        "files": lambda: os.readlink(f"/proc/{asker}/fd/0")[:0] or None,
        "namespace": call(272 if is_x86 else 97, 0x10000000),
        "mount": mount,
        "keys": call(250 if is_x86 else 219, 0, -3, 0),
        "bpf": call(321 if is_x86 else 280, 0, 0, 0),
        "user": lambda: os.setuid(0 if os.getuid() else 1),
        "clock": lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()),
        "root": lambda: os.chroot("."),
        "terminal": lambda: open("/dev/tty", "rb").close(),
        "renice": lambda: os.setpriority(os.PRIO_PROCESS, asker, 19),
        "child": lambda: os.kill(os.getpid(), 0),
    }
    return attempts(tries)


@kind
def closes_everything() -> list[Feature]:
    """Close every file that is open, those of others too."""
    os.closerange(0, 256)
    return FINE


@kind
def writes_everywhere() -> list[Feature]:
    """Write garbage into every file that is open."""
    for number in range(256):
        try:
            os.write(number, b"\xff{garbage\n")
        except OSError:
            continue
    return FINE


@kind
def forges() -> None:
    """Write an answer of its own, TARGET in hexadecimal, or one of another shape."""
    body = b'{"configs": {"name": 1}, "flags": [], "notes": null}'
    forged = bytes.fromhex(TARGET) if TARGET else b"%d\n" % len(body) + body
    for number in range(3, 256):
        try:
            os.write(number, forged)
        except OSError:
            continue
    os._exit(0)


@kind
def floods_the_answer() -> None:
    """Write without end into every file that is open."""
    while True:
        for number in range(3, 64):
            try:
                os.write(number, b"9" * 65536)
            except OSError:
                continue


@kind
def prints_escapes() -> list[Feature]:
    """Print what a terminal obeys."""
    print("\x1b[31mred\x1b[0m\x07\r\x9b2J", flush=True)
    print("\x1b]0;title\x07", file=sys.stderr, flush=True)
    return FINE


@kind
def replaces_modules() -> list[Feature]:
    """Put something else in the place of what everybody uses."""
    import builtins
    import json

    sys.stdout = sys.stderr = None
    json.dumps = lambda *_, **__: "{}"
    os.write = lambda *_: 0
    for name in ("isinstance", "len", "list", "getattr", "str"):
        setattr(builtins, name, None)
    return FINE


@kind
def starts_up() -> list[Feature]:
    """Do its work before anybody imports it, by a start-up file of its environment."""
    return [Feature("at_start", [FOUND[0] if FOUND else "never"])]


FOUND: list[str] = []


def at_start() -> None:
    """Try to write into the folder TARGET."""
    (feature,) = attempts({"x": lambda: os.mkdir(os.path.join(TARGET, "started"))})
    FOUND.append(feature.values[0])


# --- wrong answers --------------------------------------------------------------------

_WRONG: dict[str, Callable[[], Any]] = {
    "answers_none": lambda: None,
    "answers_text": lambda: "avx2",
    "answers_mapping": lambda: {"level": ["v3"]},
    "answers_generator": lambda: (feature for feature in FINE),
    "answers_numbers": lambda: [1, 2.5, None, b"x", FINE[0]],
    "values_text": lambda: [Feature("level", "v3"), FINE[0]],
    "values_none": lambda: [Feature("level", None), FINE[0]],
    "values_generator": lambda: [Feature("level", (str(n) for n in range(3))), FINE[0]],
    "values_mixed": lambda: [
        Feature("level", [1, b"v3", None, float("nan"), 1 << 80, [], "v2"]),
        FINE[0],
    ],
    "values_upper": lambda: [Feature("level", ["V3", "v2"]), Feature("Level", ["v1"]), FINE[0]],
    "values_unicode": lambda: [Feature("level", ["v³", "\ud800", "v\n2", "", "v2"]), FINE[0]],
    "values_twice": lambda: [Feature("level", ["v2", "v2"]), Feature("level", ["v9"]), FINE[0]],
    "names_odd": lambda: [Feature(name, ["x"]) for name in (None, 7, "", "a-b", "Ä", "fine")],
    "too_many_features": lambda: [Feature(f"f{number}", ["x"]) for number in range(10_000)],
    "too_many_values": lambda: [Feature("f", [str(number) for number in range(1_000_000)])],
    "says_nothing_of_several": lambda: [Bare("level", ["v2"])],
    "looks_raise": lambda: [Raising()],
}


class Bare:
    """Lack ``multi_value``."""

    def __init__(self, name: str, values: list[str]) -> None:
        self.name, self.values = name, values


class Raising:
    """Raise when looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"nobody looks at {name}")


for _name, _answer in _WRONG.items():
    KINDS[_name] = Kind(_answer)
    KINDS[_name].__doc__ = f"Return something wrong: {_name.replace('_', ' ')}."
globals().update(KINDS)

if __name__ == "hostile_hangs_on_import":
    hangs.get_supported_configs()
