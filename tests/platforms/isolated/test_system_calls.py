"""The filter of system calls, run step by step as the kernel would, for both architectures."""

from __future__ import annotations

import errno
import struct

import pytest

from wheelfit_runtime.platforms.isolated.system_calls import filter_program, shared_memory

X86_64, AARCH64 = 0xC000003E, 0xC00000B7
ALLOWED, ASKED, DENIED = "allowed", "asked", "denied"
CALLS = {  # of both, as the kernel's headers number them
    "read": (0, 63),
    "openat": (257, 56),
    "execve": (59, 221),
    "sendto": (44, 206),
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "ptrace": (101, 117),
    "bpf": (321, 280),
    "mount": (165, 40),
    "unshare": (272, 97),
    "setns": (308, 268),
    "keyctl": (250, 219),
    "finit_module": (313, 273),
    "io_uring_setup": (425, 425),
    "fchmodat": (268, 53),
    "fchownat": (260, 54),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "process_vm_readv": (310, 270),
    "perf_event_open": (298, 241),
}
FREE = {"read", "openat", "execve", "sendto"}


def run(machine: str, number: int, *arguments: int, architecture: int = 0) -> str:
    """Run the program on one call, and return what becomes of it."""
    architecture = architecture or {"x86_64": X86_64, "aarch64": AARCH64}[machine]
    code = filter_program(machine, [77], asks_supervisor=True)
    program = [struct.unpack("=HBBI", code[at : at + 8]) for at in range(0, len(code), 8)]
    words = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *(word % 2**64 for word in words))
    at = value = 0
    while True:
        kind, yes, no, operand = program[at]
        at += 1
        match kind:
            case 0x20:
                (value,) = struct.unpack_from("=I", data, operand)
            case 0x54:
                value &= operand
            case 0x15:
                at += yes if value == operand else no
            case 0x35:
                at += yes if value >= operand else no
            case 0x45:
                at += yes if value & operand else no
            case 0x06:
                if operand & 0xFFFF0000 == 0x00050000:
                    return {errno.EPERM: DENIED}.get(
                        operand & 0xFFFF, errno.errorcode[operand & 0xFFFF]
                    )
                return {0x7FFF0000: ALLOWED, 0x7FC00000: ASKED}[operand]
            case _:
                raise AssertionError(kind)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("call", CALLS)
def test_calls(machine: str, call: str) -> None:
    """P-35: what finds out nothing about a machine is denied, whatever its arguments."""
    number = CALLS[call][machine == "aarch64"]
    expected = ALLOWED if call in FREE else DENIED
    assert run(machine, number) == run(machine, number, 1, 2, 3, 4, 5, 6) == expected


@pytest.mark.parametrize(("machine", "clone"), [("x86_64", 56), ("aarch64", 220)])
def test_processes(machine: str, clone: int) -> None:
    """P-35: threads are free, a new process is asked about, a new namespace is denied."""
    threads = 0x3D0F00
    assert run(machine, clone, threads) == ALLOWED
    assert run(machine, clone, 17) == ASKED
    assert run(machine, clone, 0x4111) == ASKED  # as posix_spawn does it
    for namespace in (0x20000, 0x2000000, 0x4000000, 0x8000000, 1 << 28, 1 << 29, 1 << 30):
        assert run(machine, clone, 17 | namespace) == DENIED
        assert run(machine, clone, threads | namespace) == DENIED
    assert run(machine, 435) == "ENOSYS"  # C libraries then take clone
    if machine == "x86_64":
        assert run(machine, 57) == run(machine, 58) == ASKED


@pytest.mark.parametrize(("machine", "pair"), [("x86_64", 53), ("aarch64", 199)])
def test_pairs_of_sockets(machine: str, pair: int) -> None:
    """P-35: a pair of streams leads nowhere else; datagrams could be sent to anybody."""
    close_on_exec = 0o2000000
    assert run(machine, pair, 1, 1 | close_on_exec) == ASKED  # what waits in it is counted
    assert shared_memory(machine, pair, 1, 7) == 1 << 20
    assert run(machine, pair, 1, 2) == DENIED
    assert run(machine, pair, 1, 5) == DENIED
    assert run(machine, pair, 2, 1) == DENIED


@pytest.mark.parametrize(("machine", "kill", "limit"), [("x86_64", 62, 302), ("aarch64", 129, 261)])
def test_other_processes(machine: str, kill: int, limit: int) -> None:
    """P-35: whoever asked gets no signals, and nobody else's limits are changed."""
    for target in (77, -77, -1):
        assert run(machine, kill, target, 9) == DENIED
    assert run(machine, kill, 78, 9) == run(machine, kill, 0, 15) == ALLOWED
    assert run(machine, limit, 0, 7) == ALLOWED
    assert run(machine, limit, 77, 7) == DENIED


@pytest.mark.parametrize(("machine", "fcntl"), [("x86_64", 72), ("aarch64", 25)])
def test_signals_by_files(machine: str, fcntl: int) -> None:
    """P-35: no file is told whom to send a signal, which the kernel would do for it."""
    for command in (8, 10, 15):  # F_SETOWN, F_SETSIG, F_SETOWN_EX
        assert run(machine, fcntl, 1, command, 77) == DENIED
    for command in (0, 1, 2, 3, 4, 9, 1030):
        assert run(machine, fcntl, 1, command, 77) == ALLOWED


@pytest.mark.parametrize(("machine", "mmap", "memfd"), [("x86_64", 9, 319), ("aarch64", 222, 279)])
def test_memory_to_share(machine: str, mmap: int, memfd: int) -> None:
    """P-35: what is not a process's memory is asked about, with its size; all other is free."""
    private, shared, validated, anonymous, reserved = 2, 1, 3, 0x20, 0x4000
    for flags in (private, shared, validated, private | anonymous, private | anonymous | reserved):
        assert run(machine, mmap, 0, 5000, 3, flags) == ALLOWED
    for flags in (shared | anonymous, validated | anonymous, shared | anonymous | reserved):
        assert run(machine, mmap, 0, 5000, 3, flags) == ASKED
    assert run(machine, memfd, 0, 0) == ASKED
    assert shared_memory(machine, mmap, 5000, 7) == 5000
    assert shared_memory(machine, memfd, 0, 7) == 7
    assert shared_memory(machine, 56, 0, 7) is None


def test_other_numbers() -> None:
    """P-35: calls by the numbers of another architecture are denied."""
    assert run("x86_64", 3, architecture=0x40000003) == DENIED  # 32 bits
    assert run("x86_64", 0x40000000) == DENIED  # x32
    assert run("aarch64", 3, architecture=0x40000028) == DENIED
    with pytest.raises(KeyError):
        filter_program("riscv64", [], asks_supervisor=True)
