"""System calls that Python does not offer, on descriptors; each reports whether the system has it.

``ctypes`` takes a while to import, so this module is imported only when a call is needed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_UNSUPPORTED = frozenset(
    {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY}
)
"""Errors of file systems that do not support a call or its flags."""

_CURRENT_FOLDER = -2 if sys.platform == "darwin" else -100  # AT_FDCWD
_LINUX_NO_REPLACE, _LINUX_EXCHANGE = 1, 2
_MACOS_SWAP, _MACOS_EXCLUSIVE = 2, 4
_FICLONE, _FICLONERANGE = 0x40049409, 0x4020940D
_FALLOC_FL_KEEP_SIZE = 1
_SHARED_SIZE = 1 << 16  # a multiple of the blocks of any file system
_SYNC_FILE_RANGE_WRITE = 2
_RENAME_ARGUMENTS: Final = (
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_uint,
)
"""The arguments of ``renameat2`` and ``renameatx_np``."""
_CLONE_ARGUMENTS: Final = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint)
_FALLOCATE_ARGUMENTS: Final = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_SYNC_ARGUMENTS: Final = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_OPENAT2_ARGUMENTS: Final = (ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
"""The arguments of ``openat2``."""
_OPENAT2 = 437  # of every architecture
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 2, 4, 8  # RESOLVE_…
_MAX_OPEN_ATTEMPTS = 100  # attempts while other processes rename folders of the path
# The numbers of the system call, for C libraries without a function ``renameat2``.
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "ppc64le": 357, "s390x": 347, "riscv64": 276}


def exchange(
    first: str,
    second: str,
    first_folder: int | None = None,
    second_folder: int | None = None,
) -> bool:
    """Exchange the names of two files or folders in one step.

    :param first_folder: descriptor of the folder that the first name is relative to; None: the name
        is a path.
    :return: False if the system or the file system does not support it; nothing was changed.
    :raises OSError: these two names cannot be exchanged.
    """
    flags = _MACOS_SWAP if sys.platform == "darwin" else _LINUX_EXCHANGE
    return _rename(first, second, first_folder, second_folder, flags)


def move_exclusively(
    source: str,
    target: str,
    source_folder: int | None = None,
    target_folder: int | None = None,
) -> bool:
    """Rename a file or folder, without replacing another one.

    :param source_folder: descriptor of the folder that the source is relative to; None: the source
        is a path.
    :return: False if the system or the file system does not support it; nothing was changed.
    :raises FileExistsError: the name exists.
    :raises OSError: it cannot be moved.
    """
    flags = _MACOS_EXCLUSIVE if sys.platform == "darwin" else _LINUX_NO_REPLACE
    return _rename(source, target, source_folder, target_folder, flags)


def open_below(folder: int, name: str, flags: int) -> int | None:
    """Open a path below a folder, without following links or leaving the folder.

    :return: the file descriptor; None where the system has no such call.
    :raises OSError: it cannot be opened; ``ELOOP`` if a part of the path is a link.
    """
    if sys.platform != "linux" or not _has_openat2():
        return None
    open_how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
    encoded = os.fsencode(name)
    for _ in range(_MAX_OPEN_ATTEMPTS):
        result = _system_call(*_OPENAT2_ARGUMENTS)(
            _OPENAT2, folder, encoded, open_how, len(open_how)
        )
        if result >= 0:
            return int(result)
        if ctypes.get_errno() != errno.EAGAIN:
            break
    error = ctypes.get_errno()
    raise OSError(error, os.strerror(error), name)


def clone_file(source: str, target: str) -> None:
    """Create a file that shares its bytes with another until one of them is changed.

    Only on macOS; Linux has `share_bytes`.

    :raises OSError: the system or the file system cannot share bytes; then there is no new file.
    """
    call = _function("clonefile", *_CLONE_ARGUMENTS) if sys.platform == "darwin" else None
    if call is None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), target)
    _check(call(os.fsencode(source), os.fsencode(target), 0), source, target)


def share_bytes(source: int, target: int) -> None:
    """Share the bytes of a file with an empty one, until one of them is changed.

    Only on Linux.

    :raises OSError: the file system cannot share bytes.
    """
    from fcntl import ioctl  # not on Windows

    ioctl(target, _FICLONE, source)


def reserve_space(source: int, target: int, length: int) -> None:
    """Reserve disk space for a copy, unless the two files can share bytes.

    Large files are then written a third faster. Systems without such a call do nothing.

    :param length: bytes to reserve.
    :raises OSError: there is not enough space.
    """
    call = _function("fallocate", *_FALLOCATE_ARGUMENTS) if sys.platform == "linux" else None
    if call is None or _can_share(source, target):
        return
    if call(target, _FALLOC_FL_KEEP_SIZE, 0, length) != 0:
        code = ctypes.get_errno()
        if code in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(code, os.strerror(code))


def _can_share(source: int, target: int) -> bool:
    """Return whether two files can share bytes; the target is empty, and stays so."""
    from fcntl import ioctl  # not on Windows

    try:
        ioctl(target, _FICLONERANGE, struct.pack("=qQQQ", source, 0, _SHARED_SIZE, 0))
    except OSError:
        return False
    os.ftruncate(target, 0)
    return True


def sync_file_system(folder: int) -> bool:
    """Wait until everything written to the file system of a folder is on the disk.

    :return: False where there is no such call.
    :raises OSError: something could not be written.
    """
    call = _function("syncfs", ctypes.c_int) if sys.platform == "linux" else None
    if call is None:
        return False
    _check(call(folder), f"/proc/self/fd/{folder}")
    return True


def start_writeback(descriptor: int, start: int, length: int) -> None:
    """Begin to write a part of a file to the disk, without waiting for it.

    Waiting for gigabytes at the end takes much longer. Systems without such a call do nothing.
    """
    call = _function("sync_file_range", *_SYNC_ARGUMENTS) if sys.platform == "linux" else None
    if call is not None:
        call(descriptor, start, length, _SYNC_FILE_RANGE_WRITE)  # a hint, which may fail


def _rename(
    source: str, target: str, source_folder: int | None, target_folder: int | None, flags: int
) -> bool:
    call = _rename_function()
    if call is None:
        return False
    result = call(
        _CURRENT_FOLDER if source_folder is None else source_folder,
        os.fsencode(source),
        _CURRENT_FOLDER if target_folder is None else target_folder,
        os.fsencode(target),
        flags,
    )
    try:
        _check(result, source, target)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


def _check(result: int, source: str, target: str | None = None) -> None:
    """Raise the error of a failed call."""
    if result != 0:
        code = ctypes.get_errno()
        # OSError returns the subclass for the code, as FileExistsError.
        raise OSError(code, os.strerror(code), source, None, target)


@cache
def _library() -> Any:  # ctypes has no better type for it
    return ctypes.CDLL(None, use_errno=True)


@cache
def _function(name: str, *argument_types: Any) -> Callable[..., int] | None:
    """Return a function of the C library with argument types; None if it does not exist."""
    function = getattr(_library(), name, None)
    if function is not None:
        function.argtypes = list(argument_types)
        function.restype = ctypes.c_int
    return function


@cache
def _rename_function() -> Callable[..., int] | None:
    """Return ``renameat2`` or its equivalent on macOS; None where there is none."""
    name = {"linux": "renameat2", "darwin": "renameatx_np"}.get(sys.platform)
    function = None if name is None else _function(name, *_RENAME_ARGUMENTS)
    call_number = _RENAMEAT2.get(platform.machine()) if name == "renameat2" else None
    if function is not None or call_number is None:
        return function
    return partial(_system_call(*_RENAME_ARGUMENTS), call_number)


@cache
def _system_call(*argument_types: Any) -> Callable[..., int]:
    """Return the function ``syscall`` with argument types."""
    library = ctypes.CDLL(None, use_errno=True)  # a new object, as argument types differ by call
    syscall = library.syscall
    syscall.argtypes = [ctypes.c_long, *argument_types]
    syscall.restype = ctypes.c_long
    return syscall


@cache
def _has_openat2() -> bool:
    """Return whether ``openat2`` works: the kernel has it (Linux 5.6), and no filter forbids it."""
    open_how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _NO_MAGIC_LINKS)
    result = _system_call(*_OPENAT2_ARGUMENTS)(
        _OPENAT2, _CURRENT_FOLDER, b".", open_how, len(open_how)
    )
    if result >= 0:
        os.close(result)
    return bool(result >= 0)
