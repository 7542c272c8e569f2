"""Give up, in this process and all it will start, what a plugin does not need (P-35).

Linux only, by system calls through ``ctypes``, and without any privilege. Every function
does one thing and returns what it did in words, or raises `Refused` with the reason.
What a kernel lacks is thereby known and can be told; nothing is pretended.

Imported by ``plugin_child.py``, which runs on other interpreters: CPython 3.9 and later.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "PROCESSES",
    "Refused",
    "adopt_orphans",
    "clone_into_namespaces",
    "die_with_parent",
    "drop_privileges",
    "hide_memory",
    "limit",
    "mount_working_folder",
    "restrict_calls",
    "restrict_files",
]

PROCESSES = 64
"""How many processes a plugin may have at once."""
_THREADS = 512  # of all processes together; libraries start one for each processor
_FILE_SIZE = 16 << 20
_FOLDER_SIZE = 64 << 20
_FOLDER_FILES = 4096
_OPEN_FILES = 256


class Refused(Exception):
    """Say that the kernel does not do it, in a clause."""


def _call(number: int, *arguments: object) -> int:
    """Make a system call.

    :raises Refused: it failed.
    """
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
    """Have this process killed when the one that started it ends, whatever ends it.

    :param parent: its process id, in case it has ended already; 0: it is not visible from here.
    :raises Refused: the kernel does not do it.
    """
    _prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends.

    :raises Refused: the kernel does not do it.
    """
    _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def hide_memory() -> None:
    """Let no other process of this user look into this one.

    :raises Refused: the kernel does not do it.
    """
    _prctl(4, 0)  # PR_SET_DUMPABLE


# --- limits -----------------------------------------------------------------------


def limit(memory: int, seconds: float, *, own_users: bool) -> list[str]:
    """Limit what one process may use; works on macOS too, as far as that goes.

    The limit of memory counts what can be written to. Libraries of accelerators reserve
    far more address space than any machine has memory, so that is not limited.

    :param memory: bytes.
    :param seconds: of processor time.
    :param own_users: whether this is a user namespace, where processes are counted anew.
    """
    import resource  # noqa: PLC0415 - not on Windows

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


# --- namespaces -------------------------------------------------------------------

_NEWNS, _NEWIPC, _NEWUSER = 0x20000, 0x08000000, 0x10000000
_NEWPID, _NEWNET = 0x20000000, 0x40000000
_CLONE = {"x86_64": 56, "aarch64": 220}


def clone_into_namespaces(user: int, group: int) -> tuple[int, bool]:
    """Fork into namespaces of its own: processes, network, mounts, and users where it helps.

    Returns what ``fork`` returns, and whether there is a namespace of users. The child is
    the first process of its namespace: when it ends, all others are killed by the kernel.

    :param user: effective user id, which stays the same inside.
    :param group: effective group id, likewise.
    :raises Refused: the kernel, or the container around, does not allow it.
    """
    number = _CLONE.get(os.uname().machine)
    if number is None or sys.maxsize < 2**32:
        raise Refused("not known for this architecture")
    flags = _NEWPID | _NEWNET | _NEWIPC | _NEWNS | 17  # SIGCHLD
    users = True
    try:
        pid = _call(number, flags | _NEWUSER, 0, 0, 0, 0)
    except Refused:
        if user != 0:
            raise
        users = False
        pid = _call(number, flags, 0, 0, 0, 0)
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
    """Put a file system in memory over the working folder; it disappears with the namespace.

    :param folder: the working folder.
    :raises Refused: the kernel does not allow it.
    """
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


# --- privileges -------------------------------------------------------------------


def drop_privileges() -> str:
    """Give up every capability, and the way to get any by starting a program.

    :raises Refused: the kernel does not do it.
    """
    _prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
    for capability in range(64):
        try:
            _prctl(24, capability)  # PR_CAPBSET_DROP
        except Refused:
            break  # there are no more, or none may be dropped, and then there are none
    number = {"x86_64": 126, "aarch64": 91}.get(os.uname().machine)
    if number is not None:
        header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
        _call(number, header, ctypes.create_string_buffer(24))
    return "no privileges, and none from programs it starts"


# --- Landlock: files, signals, TCP --------------------------------------------------

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_IOCTL_DEV = 1 << 15
_RIGHTS = {1: 1 << 13, 2: 1 << 14, 3: 1 << 15, 4: 1 << 15, 5: 1 << 16}
"""By version of the interface: one more than the rights on files it knows."""
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | _IOCTL_DEV

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
    "null", "zero", "full", "random", "urandom",
    "nvidia", "kfd", "dri", "accel", "dxg", "davinci", "devmm_svm", "hisi_hdc",
)  # fmt: skip
"""Beginnings of names: ``/dev/nvidia0``, ``/dev/dri/renderD128``. Never a disk or a terminal."""


def landlock_version() -> int:
    """Return the version of the interface, 1 or more.

    :raises Refused: the kernel has none.
    """
    return _call(444, None, 0, 1)


def restrict_files(folder: str, readable: Iterable[str]) -> list[str]:
    """Allow reading of what a system consists of, and writing in one folder only.

    :param folder: where everything is allowed.
    :param readable: what may be read besides: the interpreter and the environment.
    :raises Refused: the kernel has no Landlock.
    """
    version = landlock_version()
    known = _RIGHTS.get(version, 1 << 16) - 1
    attributes = [known, 0, 0]
    size = 8
    done = [
        "no file is written outside its working folder (Landlock)",
        "only the system's files and its own environment are read (Landlock)",
    ]
    if version >= 4:
        attributes[1], size = 3, 16  # BIND_TCP, CONNECT_TCP
    if version >= 6:
        attributes[2], size = 3, 24  # abstract sockets, signals
        done.append("no signals to other processes (Landlock)")
    buffer = ctypes.create_string_buffer(struct.pack("=QQQ", *attributes))
    ruleset = _call(444, buffer, size, 0)
    try:
        allow = _Allowing(ruleset, known)
        allow.below(folder, known & ~(_EXECUTE | _MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV))
        for path in (*_SYSTEM, *readable):
            allow.below(path, _READ)
        for name in _ETC:
            allow.below(f"/etc/{name}", _READ)
        for name in _names("/etc"):
            if name.startswith("python3."):
                allow.below(f"/etc/{name}", _READ)
        allow.below("/dev", _READ_DIR)
        for name in _names("/dev"):
            if name.startswith(_DEVICES):
                allow.below(f"/dev/{name}", _READ_FILE | _READ_DIR | _WRITE_FILE | _IOCTL_DEV)
        _call(446, ruleset, 0)
    finally:
        os.close(ruleset)
    return done


class _Allowing:
    """Add rules to a set of Landlock."""

    def __init__(self, ruleset: int, known: int) -> None:
        self._ruleset = ruleset
        self._known = known

    def below(self, path: str, rights: int) -> None:
        """Allow something for a file, or for all there is in a folder."""
        try:
            # Opened like this, even a device is not touched.
            descriptor = os.open(path, getattr(os, "O_PATH", 0o10000000) | os.O_CLOEXEC)
        except OSError:
            return
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                rights &= _ON_FILES
            rule = struct.pack("=Qi", rights & self._known, descriptor)
            _call(445, self._ruleset, 1, ctypes.create_string_buffer(rule), 0)
        finally:
            os.close(descriptor)


def _names(folder: str) -> Sequence[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - no need for more
    except OSError:
        return ()


# --- seccomp: system calls ----------------------------------------------------------

# Names with their numbers on x86_64 and aarch64; None: there is none.
_NETWORK = {
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
}  # fmt: skip
_PROCESSES = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "process_madvise": (440, 440),
    "process_mrelease": (448, 448), "shmget": (29, 194), "shmat": (30, 196),
    "shmctl": (31, 195), "semget": (64, 190), "semctl": (66, 191), "semop": (65, 193),
    "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181),
}  # fmt: skip
_KERNEL = {
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "mount": (165, 40), "umount2": (166, 39), "move_mount": (429, 429), "open_tree": (428, 428),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
    "iopl": (172, None), "ioperm": (173, None), "acct": (163, 89), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "syslog": (103, 116), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "modify_ldt": (154, None),
}  # fmt: skip
# Landlock leaves these alone, so they are not allowed at all.
_OWNERSHIP = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "removexattrat": (466, 466), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "file_setattr": (469, 469),
}  # fmt: skip
_ITSELF_ONLY = {
    "prlimit64": (302, 261), "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
}  # fmt: skip
_SIGNALS = {
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
}  # fmt: skip
_CLONE3 = 435
_SOCKETPAIR = (53, 199)

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOWED, _FAILS = 0x7FFF0000, 0x00050000
_DENIED = _FAILS | errno.EPERM


def restrict_calls(protected: Iterable[int]) -> list[str]:
    """Have system calls fail that find out nothing about a machine.

    They fail as for lack of permission, so that a plugin sees an ordinary error. Starting
    a program is allowed, since vendors' tools are programs; all this holds for it as well.

    :param protected: processes that get no signals; their groups and all processes neither.
    :raises Refused: the kernel has no filters, or the architecture is not known.
    """
    known = _MACHINES.get(os.uname().machine)
    if known is None or sys.maxsize < 2**32:
        raise Refused("not known for this architecture")
    column, architecture = known
    program = _Filter(architecture, column, tuple(protected)).assemble()
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    steps = ctypes.create_string_buffer(code)
    header = struct.pack("@HP", len(program), ctypes.addressof(steps))
    buffer = ctypes.create_string_buffer(header)
    _prctl(22, 2, ctypes.addressof(buffer))  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    return [
        "no network and no sockets (seccomp)",
        "no change of owner, mode, times or attributes of files (seccomp)",
        "no look into other processes, no mounts, no kernel interfaces (seccomp)",
    ]


class _Filter:
    """Write the filter program: each test falls through to the next one."""

    def __init__(self, architecture: int, column: int, protected: Sequence[int]) -> None:
        self._architecture = architecture
        self._column = column
        self._protected = protected
        self._steps: list[tuple[int, int, int, int]] = []

    def assemble(self) -> list[tuple[int, int, int, int]]:
        """Return the steps: code, jump if true, jump if false, operand."""
        add = self._steps.append
        add((_LOAD, 0, 0, _ARCHITECTURE))
        add((_EQUAL, 1, 0, self._architecture))
        add((_RETURN, 0, 0, _DENIED))  # programs for 32 bits would have other numbers
        add((_LOAD, 0, 0, _NUMBER))
        if self._column == 0:
            add((_AT_LEAST, 0, 1, _X32))
            add((_RETURN, 0, 0, _DENIED))
        for table in (_NETWORK, _PROCESSES, _KERNEL, _OWNERSHIP):
            for numbers in table.values():
                self._on(numbers[self._column], [(_RETURN, 0, 0, _DENIED)])
        # Flags of clone3 cannot be looked at; C libraries then take clone.
        self._on(_CLONE3, [(_RETURN, 0, 0, _FAILS | errno.ENOSYS)])
        namespaces = 0x7E020000
        self._on(
            (56, 220)[self._column],
            [
                (_LOAD, 0, 0, _ARGUMENTS),
                (_ANY_BIT, 0, 1, namespaces),
                (_RETURN, 0, 0, _DENIED),
                (_RETURN, 0, 0, _ALLOWED),
            ],
        )
        # A pair of sockets leads nowhere, unless messages can be given an address.
        self._on(
            _SOCKETPAIR[self._column],
            [
                (_LOAD, 0, 0, _ARGUMENTS),
                (_EQUAL, 0, 4, 1),  # AF_UNIX
                (_LOAD, 0, 0, _ARGUMENTS + 8),
                (_AND, 0, 0, 0xF),
                (_EQUAL, 0, 1, 1),  # SOCK_STREAM
                (_RETURN, 0, 0, _ALLOWED),
                (_RETURN, 0, 0, _DENIED),
            ],
        )
        for numbers in _ITSELF_ONLY.values():
            self._on(
                numbers[self._column],
                [
                    (_LOAD, 0, 0, _ARGUMENTS),
                    (_EQUAL, 1, 0, 0),
                    (_RETURN, 0, 0, _DENIED),
                    (_RETURN, 0, 0, _ALLOWED),
                ],
            )
        for numbers in _SIGNALS.values() if self._protected else ():
            tests: list[tuple[int, int, int, int]] = [(_LOAD, 0, 0, _ARGUMENTS)]
            for pid in (-1, *(sign * pid for pid in self._protected for sign in (1, -1))):
                tests += [(_EQUAL, 0, 1, pid & 0xFFFFFFFF), (_RETURN, 0, 0, _DENIED)]
            self._on(numbers[self._column], [*tests, (_RETURN, 0, 0, _ALLOWED)])
        add((_RETURN, 0, 0, _ALLOWED))
        return self._steps

    def _on(self, number: int | None, steps: Sequence[tuple[int, int, int, int]]) -> None:
        """Do these steps for one call, and none of them for others."""
        if number is not None:
            self._steps.append((_EQUAL, 0, len(steps), number))
            self._steps += steps
