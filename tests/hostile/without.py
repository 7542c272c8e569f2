"""Be an older kernel: ``without.py WHAT,WHAT COMMAND...`` runs a program that lacks something.

WHAT is ``landlock``, ``namespaces``, ``seccomp`` or ``listener`` (the question before a process
is started). The calls fail as they do where a kernel has not got them, or a container forbids
them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOWED, _FAILS = 0x7FFF0000, 0x50000
_CALLS = {
    "x86_64": {"clone": 56, "seccomp": 317},
    "aarch64": {"clone": 220, "seccomp": 277},
}.get(os.uname().machine, {})


def _steps(what: str) -> list[tuple[int, int, int, int]]:
    """Return the steps for one thing; each block leaves the call's number loaded."""
    match what:
        case "landlock":
            return [(_EQUAL, 0, 1, 444), (_RETURN, 0, 0, _FAILS | errno.ENOSYS)]
        case "seccomp":
            return [(_EQUAL, 0, 1, _CALLS["seccomp"]), (_RETURN, 0, 0, _FAILS | errno.ENOSYS)]
        case "namespaces":
            number, offset, bits = _CALLS["clone"], 16, 0x7E020000
        case "listener":
            number, offset, bits = _CALLS["seccomp"], 24, 8
        case _:
            raise ValueError(what)
    return [
        (_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, offset),
        (_ANY_BIT, 0, 1, bits),
        (_RETURN, 0, 0, _FAILS | errno.EPERM),
        (_LOAD, 0, 0, 0),
    ]


def main() -> None:
    """Install the filter, and become the program."""
    program = [
        (_LOAD, 0, 0, 0),
        *(step for what in sys.argv[1].split(",") for step in _steps(what)),
        (_RETURN, 0, 0, _ALLOWED),
    ]
    steps = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(steps)))
    libc = ctypes.CDLL(None, use_errno=True)
    nothing = ctypes.c_ulong(0)
    for words in ((38, 1, nothing, nothing, nothing), (22, 2, header, nothing, nothing)):
        if libc.prctl(*words) != 0:
            sys.exit("this kernel has no filters")
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
