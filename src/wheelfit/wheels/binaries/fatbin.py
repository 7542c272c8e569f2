"""Read CUDA fat binaries: which images they have, and for which GPUs (B-60).

NVIDIA does not document the layout. It was derived from the output of compilers from 11.8 to 13.5,
and the tests compare the results with NVIDIA's own ``cuobjdump``. A container has a header of
16 bytes (magic number, version, size of the header, size of the rest), then images, each with a
header of its own: kind, version, size of the header, size of the data, ...; the architecture is at
28, flags are at 40. The data is not read, so large fat binaries are fast to read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit.wheels.binaries.bounded_reader import Unreadable, Window
from wheelfit.wheels.binaries.facts import CodeKind, DeviceCode

if TYPE_CHECKING:
    from collections.abc import Iterator


MAGIC = b"\x50\xed\x55\xba"

# Names of sections in ELF, and as much of them as fits into those of PE.
LOADED_SECTIONS = frozenset([".nv_fatbin", ".nv_fatb"])
UNLINKED_SECTIONS = frozenset(["__nv_relfatbin", "__nv_rel"])

_CONTAINER = "<HHQ"
_CONTAINER_SIZE = 16
_IMAGE = "<HHIQIIHHI"
_IMAGE_SIZE = 64
_FLAGS_AT = 40
_KINDS = {1: CodeKind.PTX, 2: CodeKind.MACHINE, 8: CodeKind.NVVM}
_SPECIFIC, _FAMILY = 0x100000, 0x200000
_LARGEST_ARCHITECTURE = 999
_ALIGNMENT = 8


def read_images(window: Window, start: int, size: int) -> Iterator[DeviceCode]:
    """Yield the images of consecutive containers.

    :param size: bytes of all containers, including any zeros between them.
    :raises Unreadable: a container is invalid; images yielded before are valid.
    """
    if start < 0 or size < 0 or start + size > window.size:
        raise Unreadable("its fat binary lies past the end of the file")
    stop = start + size
    while stop - start >= _CONTAINER_SIZE:
        head = window.read(start, _CONTAINER_SIZE)
        if not any(head[:_ALIGNMENT]):
            start = _after_zeros(window, start, stop)
            continue
        if not head.startswith(MAGIC):
            raise Unreadable(f"there is no fat binary at {start}, where one should be")
        version, header, length = window.unpack(_CONTAINER, start + len(MAGIC))
        if version != 1 or header < _CONTAINER_SIZE:
            raise Unreadable(f"the fat binary at {start} has the unknown version {version}")
        first = start + header
        if first + length > stop:
            raise Unreadable(f"the fat binary at {start} is longer than its section")
        yield from _images(window, first, first + length)
        start = first + length
        start += -start % _ALIGNMENT


def _after_zeros(window: Window, start: int, stop: int) -> int:
    """Return the offset of the next non-zero byte, or the end."""
    while start < stop:
        piece = window.read(start, min(1 << 16, stop - start))
        if rest := piece.lstrip(b"\0"):
            position = start + len(piece) - len(rest)
            return position - position % _ALIGNMENT
        start += len(piece)
    return stop


def _images(window: Window, start: int, stop: int) -> Iterator[DeviceCode]:
    while start < stop:
        if stop - start < _IMAGE_SIZE:
            raise Unreadable(f"an image at {start} is longer than its fat binary")
        kind, _, header, length, _, _, minor, major, number = window.unpack(_IMAGE, start)
        (flags,) = window.unpack("<Q", start + _FLAGS_AT)
        if header < _IMAGE_SIZE or start + header + length > stop:
            raise Unreadable(f"an image at {start} is longer than its fat binary")
        if not 0 < number <= _LARGEST_ARCHITECTURE:
            raise Unreadable(f"an image at {start} is for the unknown architecture {number}")
        yield _code(_KINDS.get(kind, CodeKind.OTHER), number, flags, (major, minor))
        start += header + length


def _code(kind: CodeKind, number: int, flags: int, version: tuple[int, int]) -> DeviceCode:
    suffix = "a" if flags & _SPECIFIC else "f" if flags & _FAMILY else ""
    return DeviceCode(kind, number, suffix, version if kind is CodeKind.PTX else None)


_VERSION = re.compile(rb"^[ \t]*\.version[ \t]+(\d{1,2})\.(\d{1,2})\s", re.MULTILINE)
_TARGET = re.compile(rb"^[ \t]*\.target[ \t]+sm_(\d{1,3})([af]?)\b", re.MULTILINE)


def ptx_code(text: bytes) -> DeviceCode:
    r"""Return the target of a PTX text.

    >>> str(ptx_code(b".version 8.7\n.target sm_90a, debug\n"))
    'compute_90a (PTX 8.7)'
    """
    version, target = _VERSION.search(text), _TARGET.search(text)
    if version is None or target is None:
        raise Unreadable("it has no .version or no .target directive")
    return DeviceCode(
        CodeKind.PTX, int(target[1]), target[2].decode(), (int(version[1]), int(version[2]))
    )
