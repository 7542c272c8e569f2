"""The seccomp filter program for the system calls that a plugin may make (P-35).

The tables have names of calls with their numbers on x86_64 and aarch64; None: the call does not
exist there.

Imported by ``confinement.py``, which runs on other interpreters: CPython 3.9 and later.
"""

from __future__ import annotations

import errno
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DATA_VERSION = "2026-11"
"""Calls up to Linux 6.18."""

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
    "request_key": (249, 218), "memfd_secret": (447, 447),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
    "iopl": (172, None), "ioperm": (173, None), "acct": (163, 89), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "syslog": (103, 116), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "modify_ldt": (154, None),
}  # fmt: skip
# Landlock does not restrict these, so they are forbidden.
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
_OWNERS = {8, 10, 15}  # F_SETOWN, F_SETSIG and F_SETOWN_EX: the signals that a file sends
_FCNTL = (72, 25)
_CLONE3 = 435
_SOCKETPAIR = (53, 199)
_PAIR = 1 << 20  # bytes that may wait in a pair of sockets, which the kernel charges to no process

_STARTS = {"fork": (57, None), "vfork": (58, None)}
_MMAP, _MEMFD = (9, 222), (319, 279)
_SHARED, _ANONYMOUS = 0x01, 0x20
_CLONE_THREAD = 0x10000

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOWED, _ASKED, _FAILS = 0x7FFF0000, 0x7FC00000, 0x00050000
_DENIED = _FAILS | errno.EPERM


def filter_program(machine: str, protected: Iterable[int], *, asks_supervisor: bool) -> bytes:
    """Return the steps of the program, 8 bytes each.

    Calls that detection does not need fail as for lack of permission.

    :param protected: processes that may get no signal; signals to their groups, or to all
        processes, are refused too.
    :param asks_supervisor: whether the kernel asks the supervisor before a process is started, or
        memory is made that no process is charged with.
    :raises KeyError: the machine is not known.
    """
    column, architecture = _MACHINES[machine]
    counted = _ASKED if asks_supervisor else _ALLOWED
    steps = _Filter(architecture, column, tuple(protected), counted).assemble()
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def shared_memory(machine: str, call: int, length: int, most: int) -> int | None:
    """Return the shared memory a call would get; None: it starts a process.

    :param most: bytes that a file may have.
    """
    column, _ = _MACHINES[machine]
    shared = {_MMAP[column]: length, _MEMFD[column]: most, _SOCKETPAIR[column]: _PAIR}
    return shared.get(call)


class _Filter:
    """The filter program: each test falls through to the next one."""

    def __init__(
        self, architecture: int, column: int, protected: Sequence[int], counted: int
    ) -> None:
        self._architecture = architecture
        self._column = column
        self._protected = protected
        self._counted = counted
        self._steps: list[tuple[int, int, int, int]] = []

    def assemble(self) -> list[tuple[int, int, int, int]]:
        """Return the steps: code, jump if true, jump if false, operand."""
        add = self._steps.append
        add((_LOAD, 0, 0, _ARCHITECTURE))
        add((_EQUAL, 1, 0, self._architecture))
        add((_RETURN, 0, 0, _DENIED))  # 32-bit programs have other numbers
        add((_LOAD, 0, 0, _NUMBER))
        if self._column == 0:
            add((_AT_LEAST, 0, 1, _X32))
            add((_RETURN, 0, 0, _DENIED))
        for table in (_NETWORK, _PROCESSES, _KERNEL, _OWNERSHIP):
            for numbers in table.values():
                self._on(numbers[self._column], [(_RETURN, 0, 0, _DENIED)])
        # A filter cannot read the flags of clone3; without it, C libraries use clone.
        self._on(_CLONE3, [(_RETURN, 0, 0, _FAILS | errno.ENOSYS)])
        namespaces = 0x7E020000  # all flags CLONE_NEW…
        self._on(
            (56, 220)[self._column],
            [
                (_LOAD, 0, 0, _ARGUMENTS),
                (_ANY_BIT, 0, 1, namespaces),
                (_RETURN, 0, 0, _DENIED),
                (_ANY_BIT, 0, 1, _CLONE_THREAD),
                (_RETURN, 0, 0, _ALLOWED),
                (_RETURN, 0, 0, self._counted),
            ],
        )
        for numbers in _STARTS.values():
            self._on(numbers[self._column], [(_RETURN, 0, 0, self._counted)])
        # Memory that processes can share stays until the last one releases it, mapped or not, and
        # is then charged to no process.
        self._on(
            _MMAP[self._column],
            [
                (_LOAD, 0, 0, _ARGUMENTS + 24),
                (_ANY_BIT, 0, 2, _ANONYMOUS),
                (_ANY_BIT, 0, 1, _SHARED),
                (_RETURN, 0, 0, self._counted),
                (_RETURN, 0, 0, _ALLOWED),
            ],
        )
        self._on(_MEMFD[self._column], [(_RETURN, 0, 0, self._counted)])
        owners: list[tuple[int, int, int, int]] = [(_LOAD, 0, 0, _ARGUMENTS + 8)]
        for command in sorted(_OWNERS):
            owners += [(_EQUAL, 0, 1, command), (_RETURN, 0, 0, _DENIED)]
        self._on(_FCNTL[self._column], [*owners, (_RETURN, 0, 0, _ALLOWED)])
        # A pair of sockets is harmless, unless its messages can have an address.
        self._on(
            _SOCKETPAIR[self._column],
            [
                (_LOAD, 0, 0, _ARGUMENTS),
                (_EQUAL, 0, 4, 1),  # AF_UNIX
                (_LOAD, 0, 0, _ARGUMENTS + 8),
                (_AND, 0, 0, 0xF),
                (_EQUAL, 0, 1, 1),  # SOCK_STREAM
                (_RETURN, 0, 0, self._counted),
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
        """Add the filter steps of one system call."""
        if number is not None:
            self._steps.append((_EQUAL, 0, len(steps), number))
            self._steps += steps
