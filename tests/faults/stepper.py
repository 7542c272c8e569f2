"""Run a command and stop it at each system call that changes files: a program of its own.

    python stepper.py ORDERS.json -- COMMAND …

The command and all it starts are traced (``ptrace``), and a filter in the kernel
(``seccomp``) stops exactly those calls that may change files, so that none is missed whoever
makes it: the C library, ``ctypes``, a compiled extension. A call counts if it is about
something below one of the folders of the orders; at the N-th, all processes are killed before
or after it, or the call fails with an error. Without that it is a plain run that counts. Calls
that count happen one at a time, so that threads cannot blur what happened first.

Orders, a JSON object: ``roots`` (folders), ``report`` (a file to write), ``at`` (which call,
from 1; 0: none), ``act`` (``kill``, ``kill-after``, ``fail``, ``fail-from``), ``errno``,
``only`` (names of calls that fail; empty: all), ``data`` (a file that takes what is written,
for `faults.disk`; empty: not wanted), ``numbers`` (which file number, st_ino, to pretend in
place of which: a disk that was made anew has others than the one that lost power). The report
has ``calls``, the list of all that counted, ``fired``, and ``status`` as ``subprocess`` has it.

For Linux on x86-64. Standard library only, so that it starts quickly with ``-I -S``.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import struct
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.restype = ctypes.c_long
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

_TRACEME, _CONT, _POKEUSER, _SYSCALL = 0, 7, 6, 24
_SETOPTIONS, _GET_SYSCALL_INFO = 0x4200, 0x420E
# SYSGOOD, FORK, VFORK, CLONE, EXEC, SECCOMP, EXITKILL
_OPTIONS = 1 | 2 | 4 | 8 | 16 | 128 | 1 << 20
_EVENT_SECCOMP = 7
_ORIG_RAX, _RAX = 15 * 8, 10 * 8
_ALL_CHILDREN = 0x40000000  # __WALL
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_FICLONE, _FICLONERANGE = 0x40049409, 0x4020940D
_SHARED, _PROT_WRITE = 1, 2

# Number, and which arguments are a folder with a path ("@", "p" a path alone), "f" a file.
CALLS: dict[str, tuple[int, str]] = {
    "write": (1, "f"),
    "open": (2, "p"),
    "mmap": (9, "    f"),
    "ioctl": (16, "f"),
    "pwrite64": (18, "f"),
    "writev": (20, "f"),
    "sendfile": (40, "f"),
    "fsync": (74, "f"),
    "fdatasync": (75, "f"),
    "truncate": (76, "p"),
    "ftruncate": (77, "f"),
    "rename": (82, "pp"),
    "mkdir": (83, "p"),
    "rmdir": (84, "p"),
    "creat": (85, "p"),
    "link": (86, "pp"),
    "unlink": (87, "p"),
    "symlink": (88, " p"),
    "chmod": (90, "p"),
    "fchmod": (91, "f"),
    "utime": (132, "p"),
    "mknod": (133, "p"),
    "sync": (162, ""),
    "setxattr": (188, "p"),
    "lsetxattr": (189, "p"),
    "fsetxattr": (190, "f"),
    "utimes": (235, "p"),
    "openat": (257, "@"),
    "mkdirat": (258, "@"),
    "mknodat": (259, "@"),
    "futimesat": (261, "@"),
    "unlinkat": (263, "@"),
    "renameat": (264, "@ @"),
    "linkat": (265, "@ @"),
    "symlinkat": (266, " @"),
    "fchmodat": (268, "@"),
    "splice": (275, "  f"),
    "sync_file_range": (277, "f"),
    "utimensat": (280, "@"),
    "fallocate": (285, "f"),
    "pwritev": (296, "f"),
    "syncfs": (306, "f"),
    "renameat2": (316, "@ @"),
    "copy_file_range": (326, "  f"),
    "pwritev2": (328, "f"),
    "openat2": (437, "@"),
    "fchmodat2": (452, "@"),
    "io_uring_setup": (425, ""),
}
"""The calls that may change files: number on x86-64, and what their arguments are."""

# Where in the arguments the answer goes, and where in that the file number is.
_LOOKS = {4: (1, 8), 5: (1, 8), 6: (1, 8), 262: (2, 8), 332: (4, 32)}
_ELSEWHERE = 1 << 40

_NAMES = {number: name for name, (number, _) in CALLS.items()}
_OPENING = {"open", "openat", "openat2", "creat"}
_DATA = {"write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile", "copy_file_range"}
_DATA |= {"splice", "ioctl"}


@dataclass(slots=True)
class _Call:
    """Hold one call, as it began."""

    name: str
    arguments: tuple[int, ...]
    paths: list[str]
    existed: bool = False


@dataclass(slots=True)
class _Orders:
    """Hold what is to be done."""

    roots: tuple[str, ...]
    report: str
    at: int = 0
    act: str = "kill"
    errno: int = 0
    only: tuple[str, ...] = ()
    data: str = ""
    numbers: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Report:
    """Hold what happened."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    fired: bool = False
    status: int = -1


def main(words: list[str]) -> int:
    """Run the command of a command line as ordered, and return its exit status."""
    with open(words[0], encoding="utf-8") as file:
        orders = _Orders(**json.load(file))
    orders.roots = tuple(os.path.realpath(root) for root in orders.roots)
    child = os.fork()
    if not child:
        _become(words[2:], looks=bool(orders.numbers))
    report = _Tracer(orders, child).follow()
    with open(orders.report, "w", encoding="utf-8") as file:
        json.dump({"calls": report.calls, "fired": report.fired, "status": report.status}, file)
    return report.status if report.status >= 0 else 128 - report.status


def _become(command: list[str], *, looks: bool) -> NoReturn:
    """Replace this process by the command, stopped at first and filtered."""
    try:
        _ptrace(_TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        _install_filter(looks=looks)
        os.execvp(command[0], command)
    except BaseException as error:  # noqa: BLE001 - nobody above may go on in this process
        os.write(2, f"stepper: {error!r}\n".encode())
        os._exit(125)


def _install_filter(*, looks: bool) -> None:
    """Let the kernel stop this process, and all it starts, at the calls of `CALLS` alone.

    :param looks: stop at those as well that tell the numbers of files.
    """
    load, equal, masked, answer = 0x20, 0x15, 0x45, 0x06
    allow, trace = 0x7FFF0000, 0x7FF00000
    code = [(load, 0, 0, 4), (equal, 1, 0, 0xC000003E), (answer, 0, 0, allow), (load, 0, 0, 0)]

    def argument(number: int) -> tuple[int, int, int, int]:
        return (load, 0, 0, 16 + 8 * number)

    special: dict[str, list[tuple[int, int, int, int]]] = {
        "open": [argument(1), (masked, 0, 1, _WRITING)],
        "openat": [argument(2), (masked, 0, 1, _WRITING)],
        "mmap": [argument(3), (masked, 0, 1, _SHARED)],
        "ioctl": [argument(1), (equal, 1, 0, _FICLONE), (equal, 0, 1, _FICLONERANGE)],
    }
    for number in _LOOKS if looks else ():
        code += [(equal, 0, 1, number), (answer, 0, 0, trace)]
    for name, (number, _) in CALLS.items():
        test = special.get(name, [])
        # Where the test fails, its last line jumps over the answer to the next.
        code += [(equal, 0, len(test) + 2, number), *test]
        code += [(answer, 0, 0, trace), (answer, 0, 0, allow)]
    code.append((answer, 0, 0, allow))
    lines = b"".join(struct.pack("HBBI", *line) for line in code)
    buffer = ctypes.create_string_buffer(lines, len(lines))
    program = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buffer))
    )
    no_new_privileges, set_seccomp, filtered = 38, 22, 2
    if _LIBC.prctl(no_new_privileges, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    if _LIBC.prctl(set_seccomp, filtered, ctypes.c_void_p(ctypes.addressof(program)), 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


def _ptrace(request: int, process: int, address: int = 0, data: int = 0) -> int:
    result = int(_LIBC.ptrace(request, process, address, data))
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace {request}: {os.strerror(number)}")
    return result


class _Tracer:
    """Follow a process and all it starts to the end."""

    def __init__(self, orders: _Orders, child: int) -> None:
        self._orders = orders
        self._child = child
        self._report = _Report()
        self._known = {child}
        self._inside: tuple[int, _Call] | None = None
        self._waiting: list[int] = []
        self._looking: dict[int, int] = {}
        self._dying = False
        self._info = ctypes.create_string_buffer(88)
        self._data: BinaryIO | None = open(orders.data, "wb") if orders.data else None  # noqa: SIM115

    def follow(self) -> _Report:
        """Let it run, and report."""
        os.waitpid(self._child, 0)
        _ptrace(_SETOPTIONS, self._child, 0, _OPTIONS)
        self._resume(self._child)
        while True:
            try:
                process, status = os.waitpid(-1, _ALL_CHILDREN)
            except ChildProcessError:
                break
            if not os.WIFSTOPPED(status):
                self._ended(process, status)
            elif not self._dying:
                self._stopped(process, status)
            else:
                self._resume(process)
        if self._data is not None:
            self._data.close()
        return self._report

    def _ended(self, process: int, status: int) -> None:
        self._known.discard(process)
        if process == self._child:
            self._report.status = os.waitstatus_to_exitcode(status)
        if self._inside is not None and self._inside[0] == process:
            self._inside = None
            self._next()
        if process in self._waiting:
            self._waiting.remove(process)

    def _stopped(self, process: int, status: int) -> None:
        self._known.add(process)
        what, event = os.WSTOPSIG(status), status >> 16
        if event == _EVENT_SECCOMP:
            if self._orders.numbers and self._looks(process):
                return
            if self._inside is None:
                self._begins(process)
            else:
                self._waiting.append(process)
        elif what == signal.SIGTRAP | 0x80:
            self._ends(process)
        elif event or what in {signal.SIGTRAP, signal.SIGSTOP}:
            self._resume(process)  # a new process or thread, or a new program
        else:
            self._resume(process, data=what)

    def _resume(self, process: int, request: int = _CONT, data: int = 0) -> None:
        try:
            _ptrace(request, process, 0, data)
        except OSError as error:
            if error.errno != errno.ESRCH:  # killed meanwhile: it will be reported as ended
                raise

    def _next(self) -> None:
        while self._waiting and self._inside is None and not self._dying:
            self._begins(self._waiting.pop(0))

    def _kill(self) -> None:
        self._report.fired = self._dying = True
        for process in tuple(self._known):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue

    # --- one call ---------------------------------------------------------------------

    def _begins(self, process: int) -> None:
        try:
            call = self._read_call(process)
        except OSError:
            call = None  # it is dying
        if call is None:
            self._resume(process)
            return
        orders, calls = self._orders, self._report.calls
        calls.append({"call": call.name, "paths": call.paths})
        number = len(calls)
        if orders.at and number >= orders.at:
            if orders.act == "kill":
                self._kill()
                return
            wanted = not orders.only or call.name in orders.only
            again = number == orders.at if orders.act == "fail" else orders.act == "fail-from"
            if wanted and again:
                self._report.fired = True
                calls[-1]["failed"] = orders.errno
                _ptrace(_POKEUSER, process, _ORIG_RAX, -1)
                _ptrace(_POKEUSER, process, _RAX, -orders.errno)
                self._resume(process)
                return
        self._inside = (process, call)
        self._resume(process, _SYSCALL)

    def _looks(self, process: int) -> bool:
        """Let a process look at a file, and remember where it wants the answer."""
        number, arguments = self._entry(process)
        if number not in _LOOKS:
            return False
        argument, offset = _LOOKS[number]
        self._looking[process] = arguments[argument] + offset
        self._resume(process, _SYSCALL)
        return True

    def _pretend(self, process: int) -> None:
        """Change the number of a file that a process has looked at."""
        address = self._looking.pop(process)
        if self._result(process) == 0:
            with open(f"/proc/{process}/mem", "r+b", 0) as file:
                file.seek(address)
                number = struct.unpack("<Q", file.read(8))[0]
                number = self._orders.numbers.get(str(number), number + _ELSEWHERE)
                file.seek(address)
                file.write(struct.pack("<Q", number))
        self._resume(process)

    def _ends(self, process: int) -> None:
        if process in self._looking:
            self._pretend(process)
            return
        if self._inside is None or self._inside[0] != process:
            self._resume(process)
            return
        _, call = self._inside
        self._inside = None
        entry = self._report.calls[-1]
        result = self._result(process)
        entry["result"] = result
        if self._data is not None and result >= 0:
            self._describe(process, call, result, entry)
        if self._orders.act == "kill-after" and len(self._report.calls) == self._orders.at:
            self._kill()
            return
        self._resume(process)
        self._next()

    def _read_call(self, process: int) -> _Call | None:
        """Return the call at which a process stands if it is about one of our folders."""
        number, arguments = self._entry(process)
        name = _NAMES[number]
        signs = CALLS[name][1]
        paths = []
        if name == "mmap" and not arguments[2] & _PROT_WRITE:
            return None
        for position, sign in enumerate(signs):
            if sign == "f":
                paths.append(_file_path(process, arguments[position]))
            elif sign == "p":
                paths.append(_path(process, _AT_FDCWD, arguments[position]))
            elif sign == "@":
                paths.append(_path(process, arguments[position], arguments[position + 1]))
        if name == "openat2" and not self._opens_for_writing(process, arguments[2]):
            return None
        if signs and not any(self._is_ours(path) for path in paths):
            return None
        call = _Call(name, arguments, paths)
        if name in _OPENING:
            call.existed = os.path.lexists(paths[0])
        return call

    def _entry(self, process: int) -> tuple[int, tuple[int, ...]]:
        size = len(self._info)
        _ptrace(_GET_SYSCALL_INFO, process, size, ctypes.addressof(self._info))
        number, *arguments = struct.unpack_from("<7Q", self._info.raw, 24)
        return number, tuple(arguments)

    def _opens_for_writing(self, process: int, address: int) -> bool:
        flags: int = struct.unpack("<Q", _memory(process, address, 8))[0]
        return bool(flags & _WRITING)

    def _is_ours(self, path: str) -> bool:
        return any(path == root or path.startswith(root + os.sep) for root in self._orders.roots)

    def _result(self, process: int) -> int:
        _ptrace(_GET_SYSCALL_INFO, process, len(self._info), ctypes.addressof(self._info))
        return int(struct.unpack_from("<q", self._info.raw, 24)[0])

    # --- what it did, for the disk that loses power ---------------------------------------

    def _describe(self, process: int, call: _Call, result: int, entry: dict[str, Any]) -> None:
        """Add what one needs to do it again."""
        name, arguments = call.name, call.arguments
        if name in _OPENING:
            entry["created"] = not call.existed
            flags = {"open": arguments[1], "openat": arguments[2], "creat": os.O_TRUNC}.get(name, 0)
            entry["truncated"] = bool(flags & os.O_TRUNC) and call.existed
            found = os.stat(f"/proc/{process}/fd/{result}")
            entry["mode"], entry["changed"] = found.st_mode & 0o7777, found.st_mtime_ns
            entry["number"] = found.st_ino
        elif name in _DATA and result + (name == "ioctl") > 0:
            self._describe_data(process, call, result, entry)
        elif name in {"ftruncate", "truncate"}:
            entry["size"] = arguments[1]
        elif name == "fallocate":
            entry["size"] = os.stat(f"/proc/{process}/fd/{arguments[0]}").st_size
        elif name in {"mkdir", "mkdirat"}:
            found = os.lstat(call.paths[0])
            entry["mode"], entry["number"] = found.st_mode & 0o7777, found.st_ino
        elif name in {"chmod", "fchmod", "fchmodat", "fchmodat2"}:
            path = f"/proc/{process}/fd/{arguments[0]}" if name == "fchmod" else call.paths[0]
            entry["mode"] = os.stat(path).st_mode & 0o7777
        elif name in {"symlink", "symlinkat"}:
            entry["target"] = os.readlink(call.paths[0])
            entry["number"] = os.lstat(call.paths[0]).st_ino
        elif name == "renameat2":
            entry["exchanged"] = bool(arguments[4] & 2)
        elif name == "unlinkat":
            entry["folder"] = bool(arguments[2] & 0x200)
        elif name in {"utimensat", "utimes", "utime", "futimesat"}:
            path = call.paths[0]
            if os.path.lexists(path):
                entry["changed"] = os.lstat(path).st_mtime_ns

    def _describe_data(self, process: int, call: _Call, result: int, entry: dict[str, Any]) -> None:
        place = 2 if call.name in {"copy_file_range", "splice"} else 0
        descriptor = call.arguments[place]
        given: Callable[[], int | None] = lambda: None  # noqa: E731
        if call.name in {"pwrite64", "pwritev", "pwritev2"}:
            given = lambda: call.arguments[3]  # noqa: E731
        elif place and call.arguments[3]:
            given = lambda: (  # noqa: E731
                struct.unpack("<q", _memory(process, call.arguments[3], 8))[0] - result
            )
        with open(f"/proc/{process}/fd/{descriptor}", "rb") as file:
            offset = given()
            if call.name == "ioctl":
                offset, result = 0, os.fstat(file.fileno()).st_size
            elif offset is None:
                offset = _position(process, descriptor) - result
            file.seek(offset)
            content = file.read(result)
            entry["changed"] = os.fstat(file.fileno()).st_mtime_ns
        assert self._data is not None
        entry["offset"], entry["length"] = offset, len(content)
        entry["where"] = self._data.tell()
        self._data.write(content)


def _memory(process: int, address: int, length: int) -> bytes:
    with open(f"/proc/{process}/mem", "rb", 0) as file:
        file.seek(address)
        return file.read(length)


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def _file_path(process: int, descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/{process}/fd/{_signed(descriptor)}")
    except OSError:
        return ""


def _path(process: int, folder: int, address: int) -> str:
    """Return the path that a call names, absolute; links in its folders followed."""
    folder = _signed(folder)
    text = ""
    if address:
        page = 4096
        raw = b""
        while b"\0" not in raw:
            room = page - (address + len(raw)) % page
            raw += _memory(process, address + len(raw), room)
        text = os.fsdecode(raw[: raw.index(b"\0")])
    if not text:
        return _file_path(process, folder)
    if not text.startswith("/"):
        base = (
            os.readlink(f"/proc/{process}/cwd")
            if folder == _AT_FDCWD
            else _file_path(process, folder)
        )
        text = f"{base}/{text}"
    above, name = os.path.split(text.rstrip("/"))
    return os.path.join(os.path.realpath(above), name)


def _position(process: int, descriptor: int) -> int:
    with open(f"/proc/{process}/fdinfo/{descriptor}", encoding="ascii") as file:
        return int(file.readline().split()[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
