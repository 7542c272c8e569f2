"""Drop the rights a plugin does not need, for this process and its descendants (P-35).

Linux only, by system calls through ``ctypes``, and without any privilege. Every function enforces
one limit and returns it in words, or raises `Refused` with the reason, so that limits a kernel
lacks are reported.

Imported by ``plugin_child.py``, which runs on other interpreters: CPython 3.9 and later.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

PROCESSES = 64
"""How many processes a plugin may start."""
_THREADS = 512  # of all processes together; libraries start one for each processor
_FILE_SIZE = 16 << 20
_FOLDER_SIZE = 64 << 20
_FOLDER_FILES = 4096
_OPEN_FILES = 256


class Refused(Exception):
    """Raised when the kernel refuses a limit; the message is the reason, one clause."""


def _system_call(number: int, *arguments: object) -> int:
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result = _libc().syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise Refused(os.strerror(ctypes.get_errno()))
    return int(result)


def _prctl(option: int, *arguments: int) -> None:
    words = [ctypes.c_ulong(word) for word in (*arguments, 0, 0, 0, 0)[:4]]
    if _libc().prctl(ctypes.c_int(option), *words) != 0:
        raise Refused(os.strerror(ctypes.get_errno()))


def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def die_with_parent(parent: int) -> None:
    """Arrange that this process is killed when its parent ends for any reason.

    :param parent: the process id of the parent, in case it has ended already; 0: it is not visible
        from here.
    """
    _prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def hide_memory() -> None:
    """Prevent other processes of this user from reading the memory of this one."""
    _prctl(4, 0)  # PR_SET_DUMPABLE


def limit(memory: int, seconds: float, *, own_users: bool) -> list[str]:
    """Limit the resources of a process; macOS supports some of the limits too.

    The limit of memory counts writable memory. Libraries of accelerators reserve far more address
    space than any machine has memory, so that is not limited.

    :param own_users: whether this is a user namespace, where processes are counted separately.
    """
    import resource  # not on Windows

    done = []
    limits = [
        ("RLIMIT_CORE", 0, None),
        ("RLIMIT_CPU", int(seconds) + 1, f"{int(seconds) + 1} s of processor time a process"),
        ("RLIMIT_FSIZE", _FILE_SIZE, f"files of {_FILE_SIZE >> 20} MiB"),
        ("RLIMIT_NOFILE", _OPEN_FILES, f"{_OPEN_FILES} open files a process"),
    ]
    if sys.platform == "linux":
        limits.append(("RLIMIT_DATA", memory, f"{memory >> 20} MiB of memory a process"))
    if own_users:
        limits.append(("RLIMIT_NPROC", _THREADS, None))
    for name, most, words in limits:
        kind = getattr(resource, name)
        _, hard = resource.getrlimit(kind)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (allowed, allowed))
        except (ValueError, OSError):
            continue
        done += [words] if words else []
    return done


_NEWNS, _NEWIPC, _NEWUSER = 0x20000, 0x08000000, 0x10000000
_NEWPID, _NEWNET = 0x20000000, 0x40000000
_CLONE = {"x86_64": 56, "aarch64": 220}


def clone_into_namespaces(user: int, group: int) -> tuple[int, bool]:
    """Fork into new namespaces of processes, network, IPC, mounts, and users.

    Where no namespace of users is allowed, root can make the others alone. The child is the first
    process of its namespace: when it ends, the kernel kills all others there.

    :return: the result of ``fork``, and whether there is a namespace of users.
    :raises Refused: the kernel, or the container around, does not allow it.
    """
    number = _CLONE.get(os.uname().machine)
    if number is None or sys.maxsize < 2**32:
        raise Refused("not known for this architecture")
    flags = _NEWPID | _NEWNET | _NEWIPC | _NEWNS | 17  # SIGCHLD
    users = True
    try:
        pid = _system_call(number, flags | _NEWUSER, 0, 0, 0, 0)
    except Refused:
        if user != 0:
            raise
        users = False
        pid = _system_call(number, flags, 0, 0, 0, 0)
    if pid == 0 and users:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            try:
                _write(f"/proc/self/{name}", text)
            except OSError as error:
                raise Refused(f"{name}: {error.strerror}") from None
    return pid, users


def mount_working_folder(folder: str) -> str:
    """Mount a file system in memory over the working folder; it disappears with the namespace."""
    libc = _libc()
    if libc.mount(b"none", b"/", None, ctypes.c_ulong(0x44000), None) != 0:  # REC, PRIVATE
        raise Refused(os.strerror(ctypes.get_errno()))
    options = f"size={_FOLDER_SIZE},nr_inodes={_FOLDER_FILES},mode=700".encode()
    flags = ctypes.c_ulong(2 | 4)  # NOSUID, NODEV
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", flags, options) != 0:
        raise Refused(os.strerror(ctypes.get_errno()))
    return f"{_FOLDER_SIZE >> 20} MiB in all in its working folder"


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def drop_privileges() -> list[str]:
    """Drop every capability, and the way to get any by starting a program."""
    _prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
    for capability in range(64):
        try:
            _prctl(24, capability)  # PR_CAPBSET_DROP
        except Refused:
            break  # no further one exists, or the process may drop none, as it has none
    number = {"x86_64": 126, "aarch64": 91}.get(os.uname().machine)  # capset
    if number is not None:
        header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
        _system_call(number, header, ctypes.create_string_buffer(24))
    return ["no privileges, and none from programs it starts"]


_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_IOCTL_DEV = 1 << 15
_FIRST_UNKNOWN_RIGHT = {1: 1 << 13, 2: 1 << 14, 3: 1 << 15, 4: 1 << 15, 5: 1 << 16}
"""By version of Landlock: the bit of the first right on files that it does not know; it knows the
bits below."""
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_TRUNCATE = 1 << 14
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

_SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/opt", "/proc", "/sys",
    "/nix/store", "/gnu/store", "/cvmfs",
    "/run/opengl-driver", "/run/opengl-driver-32", "/run/current-system", "/run/nvidia",
)  # fmt: skip
_ETC = (
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "alternatives", "localtime",
    "timezone", "os-release", "lsb-release", "redhat-release", "debian_version", "alpine-release",
    "nsswitch.conf", "passwd", "group", "OpenCL", "vulkan", "glvnd", "nvidia", "cuda",
    "nv_tegra_release", "nv_boot_control.conf", "amd", "rocm", "ascend_install.info",
    "Ascend", "hccn.conf", "machine-info", "mime.types", "python3", "ssl/openssl.cnf", "static",
)  # fmt: skip
_DEVICES = (
    "null", "full", "random", "urandom",
    "nvidia", "kfd", "dri", "accel", "dxg", "davinci", "devmm_svm", "hisi_hdc",
)  # fmt: skip
"""Beginnings of names: ``/dev/nvidia0``, ``/dev/dri/renderD128``. Never a disk or a terminal."""


def restrict_files(folder: str, readable: Iterable[str]) -> list[str]:
    """Allow reading of system files, and writing in one folder only.

    :param readable: further readable folders: the interpreter and the environment.
    :raises Refused: the kernel has no Landlock.
    """
    version = _system_call(444, None, 0, 1)  # of Landlock, 1 or more
    known = _FIRST_UNKNOWN_RIGHT.get(version, 1 << 16) - 1
    attributes = [known, 0, 0]
    size = 8
    done = [
        "no file is written outside its working folder (Landlock)",
        "only the system's files and its own environment are read (Landlock)",
    ]
    if version >= 4:
        attributes[1], size = 3, 16  # BIND_TCP, CONNECT_TCP
        done.append("no TCP (Landlock)")
    if version >= 6:
        attributes[2], size = 3, 24  # abstract sockets, signals
        done.append("no signals to other processes (Landlock)")
    buffer = ctypes.create_string_buffer(struct.pack("=QQQ", *attributes))
    ruleset = _system_call(444, buffer, size, 0)
    try:
        rules = _LandlockRules(ruleset, known)
        rules.allow(folder, known & ~(_EXECUTE | _MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV))
        for path in (*_SYSTEM, *readable):
            rules.allow(path, _READ)
        for name in _ETC:
            rules.allow(f"/etc/{name}", _READ)
        for name in _names("/etc"):
            if name.startswith("python3."):
                rules.allow(f"/etc/{name}", _READ)
        rules.allow("/dev", _READ_DIR)
        # Not writable: that would allow a shared mapping, memory that no limit counts.
        rules.allow("/dev/zero", _READ_FILE)
        for name in _names("/dev"):
            if name.startswith(_DEVICES):
                rules.allow(f"/dev/{name}", _READ_FILE | _READ_DIR | _WRITE_FILE | _IOCTL_DEV)
        _system_call(446, ruleset, 0)
    finally:
        os.close(ruleset)
    return done


class _LandlockRules:
    """The rules of a ruleset of Landlock.

    :param known: the rights on files that the kernel knows; others are left out.
    """

    def __init__(self, ruleset: int, known: int) -> None:
        self._ruleset = ruleset
        self._known = known

    def allow(self, path: str, rights: int) -> None:
        """Grant rights for a file, or for everything in a folder; none if it does not exist."""
        try:
            # Opened like this, even a device is not touched.
            descriptor = os.open(path, getattr(os, "O_PATH", 0o10000000) | os.O_CLOEXEC)
        except OSError:
            return
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                rights &= _ON_FILES
            rule = struct.pack("=Qi", rights & self._known, descriptor)
            _system_call(445, self._ruleset, 1, ctypes.create_string_buffer(rule), 0)
        finally:
            os.close(descriptor)


def _names(folder: str) -> Sequence[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - no need for more
    except OSError:
        return ()


def restrict_calls(protected: Iterable[int], hand_over: Callable[[int], None]) -> list[str]:
    """Refuse system calls that detection does not need.

    They fail as for lack of permission, so that a plugin sees an ordinary error. Starting a program
    is allowed, since vendors' tools are programs; the same limits hold for it. The kernel asks the
    supervisor (see `read_request`) before it starts a process, or creates shared memory, which no
    limit counts. So neither can grow faster than the supervisor can end the processes.

    :param protected: processes that may get no signal; signals to their groups, or to all
        processes, are refused too.
    :param hand_over: gives the supervisor the descriptor by which the kernel asks.
    :raises Refused: the kernel has no filters, or the architecture is not known.
    """
    from system_calls import filter_program  # type: ignore[import-not-found]

    # A 32-bit interpreter on a 64-bit kernel makes other calls.
    machine = os.uname().machine if sys.maxsize > 2**32 else "32 bits"
    counted = []
    try:
        program = filter_program(machine, protected, asks_supervisor=True)
    except KeyError:
        raise Refused("not known for this architecture") from None
    try:
        if not _can_continue_calls():
            raise Refused("too old")  # noqa: TRY301 - as if the kernel had said so
        listener = _install(program, 8)  # SECCOMP_FILTER_FLAG_NEW_LISTENER
    except Refused:  # an older Linux, or a container whose runtime listens already
        _install(filter_program(machine, protected, asks_supervisor=False), 0)
    else:
        hand_over(listener)
        os.close(listener)
        counted.append(f"no more than {PROCESSES} processes started (seccomp)")
    return [
        *counted,
        "no network and no sockets (seccomp)",
        "no change of owner, mode, times or attributes of files (seccomp)",
        "no tracing of other processes, no mounts, no kernel interfaces (seccomp)",
    ]


def _can_continue_calls() -> bool:
    """Return whether the supervisor may let a call continue, as since Linux 5.5."""
    parts = os.uname().release.split(".")[:2]
    return len(parts) == 2 and all(map(str.isdigit, parts)) and [int(p) for p in parts] >= [5, 5]


def _install(program: bytes, flags: int) -> int:
    """Install a filter for this process and its descendants, for good.

    :return: the descriptor by which the kernel asks, if the flags request one.
    """
    steps = ctypes.create_string_buffer(program)
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(steps))
    number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
    buffer = ctypes.create_string_buffer(header)
    return _system_call(number, 1, flags, buffer)  # SECCOMP_SET_MODE_FILTER


def read_request(listener: int) -> tuple[bytes, int | None] | None:
    """Read a request of the kernel: its id, and the bytes of memory to share.

    :return: None if the calling process was killed meanwhile. If the request is to start a process,
        only the bytes are None.
    """
    import fcntl  # not on Windows

    from system_calls import shared_memory

    request = bytearray(80)
    try:
        fcntl.ioctl(listener, 0xC0502100, request)  # SECCOMP_IOCTL_NOTIF_RECV
    except OSError:
        return None
    (call,) = struct.unpack_from("=i", request, 16)
    (length,) = struct.unpack_from("=Q", request, 40)
    return bytes(request[:8]), shared_memory(os.uname().machine, call, length, _FILE_SIZE)


def continue_call(listener: int, request_id: bytes) -> None:
    """Continue the system call of a request of the kernel."""
    import fcntl  # not on Windows

    with contextlib.suppress(OSError):  # the calling process was killed meanwhile
        answer = bytearray(request_id + struct.pack("=qiI", 0, 0, 1))  # 1: the call goes on
        fcntl.ioctl(listener, 0xC0182101, answer)  # SECCOMP_IOCTL_NOTIF_SEND
