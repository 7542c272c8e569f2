"""Ask an x86-64 processor what it can do: the CPUID and XGETBV instructions (P-107).

Python cannot issue them, so a few bytes of machine code are written to a fresh
page, which is then made executable and no longer writable. A hardened system may
refuse that; then the answer is None.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from typing import TYPE_CHECKING, Final

from wheelfit_runtime.platforms.facts import CpuidRegisters, CpuidTable
from wheelfit_runtime.platforms.providers.x86_64 import tables
from wheelfit_runtime.platforms.system_view import architecture_of_this_process

if TYPE_CHECKING:
    from collections.abc import Callable

    from wheelfit_runtime.platforms.system_view import Surroundings

_LEAVES: Final = ((1, 0), (7, 0), (7, 1), (0xD, 1), (0x80000001, 0), (0x80000008, 0))

_OSXSAVE: Final = 1 << 27  # leaf 1, ecx
_YMM_STATE: Final = 0b110  # XCR0 bits 1, 2
_AVX512_STATE: Final = 0b1110_0110  # and 5, 6, 7
_AMX_STATE: Final = 0b11 << 17

# push rbx; <arguments to eax, ecx, r8>; cpuid; store eax, ebx, ecx, edx at [r8]; pop rbx; ret
_STORE: Final = "0fa2 418900 41895804 41894808 4189500c 5b c3"
SYSTEM_V: Final = bytes.fromhex("53 4989d0 89f8 89f1" + _STORE)
"""Function of leaf, subleaf and where the four registers go, as Unix calls it."""
WINDOWS: Final = bytes.fromhex("53 89c8 89d1" + _STORE)  # r8 is the third argument already
"""The same as Windows calls it."""
# xor ecx, ecx; xgetbv; shl rdx, 32; or rax, rdx; ret
_XGETBV: Final = bytes.fromhex("31c9 0f01d0 48c1e220 4809d0 c3")


def read(surroundings: Surroundings) -> CpuidTable | None:
    """Return the recorded table, or ask the processor; None where neither can be had.

    The instruction is issued only on the real machine and only by an x86-64 process.
    """
    if surroundings.recorded_cpuid is not None:
        return surroundings.recorded_cpuid
    if not surroundings.is_real or architecture_of_this_process() != "x86_64":
        return None
    try:
        return _ask_processor()
    except (OSError, ValueError, AttributeError):
        return None  # the mapping was refused, or there is no C library to ask


def parse(table: CpuidTable) -> frozenset[str]:
    """Return the flags, by Linux names, that processor and system together allow.

    :param table: answers of the instruction; missing leaves count as zero.
    """
    zero = CpuidRegisters(0, 0, 0, 0)
    flags = {
        flag
        for (leaf, subleaf, register), bits in tables.CPUID_FLAGS.items()
        for bit, flag in bits.items()
        if getattr(table.leaves.get((leaf, subleaf), zero), register) >> bit & 1
    }
    # XCR0 means something only if the system has switched it on.
    osxsave = table.leaves.get((1, 0), zero).ecx & _OSXSAVE
    state = (table.xcr0 or 0) if osxsave else 0
    if not osxsave:
        flags -= tables.NEEDS_XSAVE
    if state & _YMM_STATE != _YMM_STATE:
        flags -= tables.NEEDS_YMM_STATE
    if state & _AVX512_STATE != _AVX512_STATE:
        flags -= tables.NEEDS_AVX512_STATE
    if state & _AMX_STATE != _AMX_STATE:
        flags -= tables.NEEDS_AMX_STATE
    return frozenset(flags)


def _ask_processor() -> CpuidTable:
    code = WINDOWS if sys.platform == "win32" else SYSTEM_V
    page = code.ljust(64, b"\x90") + _XGETBV
    return _with_code(page, _fill_table)


def _fill_table(address: int) -> CpuidTable:
    cpuid = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(address)
    xgetbv = ctypes.CFUNCTYPE(ctypes.c_uint64)(address + 64)
    buffer = ctypes.create_string_buffer(16)

    def ask(leaf: int, subleaf: int) -> CpuidRegisters:
        cpuid(leaf, subleaf, ctypes.addressof(buffer))
        return CpuidRegisters(*struct.unpack("<4I", buffer.raw))

    highest = ask(0, 0).eax
    highest_extended = ask(0x80000000, 0).eax
    leaves = {
        (leaf, subleaf): ask(leaf, subleaf)
        for leaf, subleaf in _LEAVES
        if leaf <= (highest_extended if leaf >= 0x80000000 else highest)
    }
    # Leaf 7 says itself how many subleaves it has.
    if (7, 1) in leaves and leaves[7, 0].eax < 1:
        del leaves[7, 1]
    osxsave = leaves.get((1, 0), CpuidRegisters(0, 0, 0, 0)).ecx & _OSXSAVE
    return CpuidTable(leaves, xgetbv() if osxsave else None)


if sys.platform == "win32":

    def _with_code(code: bytes, use: Callable[[int], CpuidTable]) -> CpuidTable:
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

    def _with_code(code: bytes, use: Callable[[int], CpuidTable]) -> CpuidTable:
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
                del first  # or the page could not be given back
        finally:
            page.close()
