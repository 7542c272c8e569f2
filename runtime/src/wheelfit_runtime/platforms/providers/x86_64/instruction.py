"""Issue the CPUID and XGETBV instructions, and return the flags in their answers (P-107).

Python cannot issue them, so a few bytes of machine code are written to a new page, which is then
made executable and no longer writable. A hardened system may refuse that.
"""

# Imported when packages with several implementations are imported, so it imports few modules.
from __future__ import annotations

import ctypes
import mmap
import struct
import sys

from wheelfit_runtime.platforms.providers.x86_64 import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    Registers: TypeAlias = tuple[int, int, int, int]
    Answers: TypeAlias = tuple[dict[tuple[int, int], Registers], int | None]

_REGISTERS = ("eax", "ebx", "ecx", "edx")
_EAX, _ECX = 0, 2
_LEAVES = ((1, 0), (7, 0), (7, 1), (0xD, 1), (0x80000001, 0), (0x80000008, 0))

_OSXSAVE = 1 << 27  # leaf 1, ecx
_YMM_STATE = 0b110  # XCR0 bits 1, 2
_AVX512_STATE = 0b1110_0110  # and 5, 6, 7
_AMX_STATE = 0b11 << 17

# push rbx; <arguments to eax, ecx, r8>; cpuid; store eax, ebx, ecx, edx at [r8]; pop rbx; ret
_STORE = "0fa2 418900 41895804 41894808 4189500c 5b c3"
SYSTEM_V = bytes.fromhex("53 4989d0 89f8 89f1" + _STORE)
"""A function of leaf, subleaf and address for the four registers, by the convention of Unix."""
WINDOWS = bytes.fromhex("53 89c8 89d1" + _STORE)  # r8 is the third argument already
"""The same by the convention of Windows."""
# xor ecx, ecx; xgetbv; shl rdx, 32; or rax, rdx; ret
_XGETBV = bytes.fromhex("31c9 0f01d0 48c1e220 4809d0 c3")


def flags_of(
    leaves: Mapping[tuple[int, int], tuple[int, int, int, int]], xcr0: int | None
) -> frozenset[str]:
    """Return the flags, by Linux names, that processor and system allow.

    :param leaves: answers of the instruction, by leaf and subleaf; missing ones count as zero.
    :param xcr0: the register states that the system saves; None: unknown.
    """
    zero = (0, 0, 0, 0)
    flags = {
        flag
        for (leaf, subleaf, register), bits in tables.CPUID_FLAGS.items()
        for bit, flag in bits.items()
        if leaves.get((leaf, subleaf), zero)[_REGISTERS.index(register)] >> bit & 1
    }
    # XCR0 is valid only if the system has enabled it.
    osxsave = leaves.get((1, 0), zero)[_ECX] & _OSXSAVE
    state = (xcr0 or 0) if osxsave else 0
    if not osxsave:
        flags -= tables.NEEDS_XSAVE
    if state & _YMM_STATE != _YMM_STATE:
        flags -= tables.NEEDS_YMM_STATE
    if state & _AVX512_STATE != _AVX512_STATE:
        flags -= tables.NEEDS_AVX512_STATE
    if state & _AMX_STATE != _AMX_STATE:
        flags -= tables.NEEDS_AMX_STATE
    return frozenset(flags)


def unconfirmed(flags: frozenset[str], allowed: frozenset[str]) -> frozenset[str]:
    """Return the flags of another source that the instruction could report and did not (P-105)."""
    reported = frozenset(flag for bits in tables.CPUID_FLAGS.values() for flag in bits.values())
    return (flags & reported) - allowed


def read_registers() -> Answers:
    """Issue the instructions, and return the registers by leaf and subleaf, and XCR0.

    :raises OSError: the mapping was refused.
    :raises AttributeError: there is no C library to use.
    :raises ValueError: there is none, on some systems.
    """
    code = WINDOWS if sys.platform == "win32" else SYSTEM_V
    page = code.ljust(64, b"\x90") + _XGETBV
    return _with_code(page, _read_leaves)


def _read_leaves(address: int) -> Answers:
    cpuid = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(address)
    xgetbv = ctypes.CFUNCTYPE(ctypes.c_uint64)(address + 64)
    buffer = ctypes.create_string_buffer(16)

    def cpuid_registers(leaf: int, subleaf: int) -> Registers:
        cpuid(leaf, subleaf, ctypes.addressof(buffer))
        eax, ebx, ecx, edx = struct.unpack("<4I", buffer.raw)
        return eax, ebx, ecx, edx

    highest = cpuid_registers(0, 0)[_EAX]
    highest_extended = cpuid_registers(0x80000000, 0)[_EAX]
    leaves = {
        (leaf, subleaf): cpuid_registers(leaf, subleaf)
        for leaf, subleaf in _LEAVES
        if leaf <= (highest_extended if leaf >= 0x80000000 else highest)
    }
    # Leaf 7 contains the number of its subleaves.
    if (7, 1) in leaves and leaves[7, 0][_EAX] < 1:
        del leaves[7, 1]
    osxsave = leaves.get((1, 0), (0, 0, 0, 0))[_ECX] & _OSXSAVE
    return leaves, (xgetbv() if osxsave else None)


if sys.platform == "win32":

    def _with_code(code: bytes, use: Callable[[int], Answers]) -> Answers:
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.VirtualAlloc.restype = ctypes.c_void_p
        kernel.VirtualAlloc.argtypes = (
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_uint32,
        )  # fmt: skip
        kernel.VirtualProtect.argtypes = (
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_void_p,
        )  # fmt: skip
        kernel.VirtualFree.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32)
        # MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE
        address = kernel.VirtualAlloc(None, len(code), 0x3000, 0x04)
        if not address:
            raise ctypes.WinError(ctypes.get_last_error())
        try:
            ctypes.memmove(address, code, len(code))
            old = ctypes.c_uint32()
            if not kernel.VirtualProtect(address, len(code), 0x20, ctypes.byref(old)):
                raise ctypes.WinError(ctypes.get_last_error())
            return use(address)
        finally:
            kernel.VirtualFree(address, 0, 0x8000)  # MEM_RELEASE

else:

    def _with_code(code: bytes, use: Callable[[int], Answers]) -> Answers:
        library = ctypes.CDLL(None, use_errno=True)
        library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        try:
            page.write(code)
            first = ctypes.c_char.from_buffer(page)
            address = ctypes.addressof(first)
            try:
                if library.mprotect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC):
                    raise OSError(ctypes.get_errno(), "mprotect refused")
                return use(address)
            finally:
                del first  # otherwise the page cannot be closed
        finally:
            page.close()
