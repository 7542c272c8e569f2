"""Read the bundles in which clang puts code for AMD's GPUs (B-60).

LLVM documents the layout (``clang-offload-bundler``): a magic text, the number of entries, and for
each of them offset, size, and an identifier as ``hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+``. Each
unit of compilation has a bundle of its own, which begins at a page. A compressed bundle has its
sizes in its header; bundles compressed by zstd are not read.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from wheelfit.wheels.binaries.bounded_reader import Unreadable, Window, printable
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator


# The name of the section in ELF, and its first eight characters in PE.
SECTIONS = frozenset([".hip_fatbin", ".hip_fat"])

_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED = b"CCOB"
_ZLIB = 0
_PAGE = 4096
_MAX_ENTRIES = 1000
_MAX_NAME_SIZE = 256
_KINDS = ("hip-", "hipv4-")
_HEAD_SIZE = 1 << 13
"""Bytes at the beginning of a bundle that are read; they contain its table."""


def read_targets(window: Window, start: int, size: int) -> Iterator[str]:
    """Yield the targets of adjacent bundles, such as ``gfx90a:xnack+``.

    :param size: bytes of all bundles, with zeros between them.
    :raises Unreadable: a bundle is invalid; the targets yielded before are valid.
    """
    if start < 0 or size < 0 or start + size > window.size:
        raise Unreadable("its bundle of code for AMD's GPUs lies past the end of the file")
    position, stop = start, start + size
    while stop - position >= len(_MAGIC):
        head = window.read(position, min(_HEAD_SIZE, stop - position))
        if head.startswith(_MAGIC):
            targets, length = _table(head, stop - position)
            yield from targets
        elif head.startswith(_COMPRESSED):
            content, length = _unpack(head)
            yield from _table(content, None)[0]
        elif not head.strip(b"\0"):
            length = len(head)
        else:
            raise Unreadable(f"no bundle of code begins at {position}, where one should")
        position += length
        position += -(position - start) % _PAGE  # round up to the next page


_NAME = pattern(r"gfx[0-9a-f]{3,5}")
_GENERIC = {
    "gfx9-generic": ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"),
    "gfx9-4-generic": ("gfx942", "gfx950"),
    "gfx10-1-generic": ("gfx1010", "gfx1011", "gfx1012", "gfx1013"),
    "gfx10-3-generic": tuple(f"gfx103{last}" for last in range(7)),
    "gfx11-generic": tuple(f"gfx11{chip}{last}" for chip in (0, 5) for last in range(4)),
    "gfx12-generic": ("gfx1200", "gfx1201"),
}


def values_of(target: str) -> tuple[str, ...]:
    """Return the values of ``gfx_arch`` that a target stands for.

    >>> values_of("gfx90a:xnack+"), values_of("gfx12-generic"), values_of("spirv")
    (('gfx90a',), ('gfx1200', 'gfx1201'), ())
    """
    name = target.partition(":")[0]
    return _GENERIC.get(name, (name,) if _NAME.fullmatch(name) else ())


def _table(data: bytes, size: int | None) -> tuple[list[str], int]:
    """Return the targets of a bundle, and its size.

    :param size: bytes of the rest of the section; None: unknown.
    """
    position = len(_MAGIC) + 8
    count = int.from_bytes(data[position - 8 : position], "little")
    if not data.startswith(_MAGIC) or count > _MAX_ENTRIES:
        raise Unreadable("a bundle of code for AMD's GPUs has no table that can be read")
    targets, end = [], position
    for _ in range(count):
        offset, length, name_size = (
            int.from_bytes(data[position + field : position + field + 8], "little")
            for field in (0, 8, 16)
        )
        position += 24 + name_size
        if (
            name_size > _MAX_NAME_SIZE
            or position > len(data)
            or (size is not None and offset + length > size)
        ):
            raise Unreadable("a bundle of code for AMD's GPUs is longer than its section")
        end = max(end, position, offset + length)
        name = printable(data[position - name_size : position])
        _, separator, target = name.partition("--")
        if separator and name.startswith(_KINDS):
            targets.append(target)
    return targets, end


def _unpack(head: bytes) -> tuple[bytes, int]:
    """Return the beginning of a compressed bundle's content, and the bundle's size."""
    # The fields are the magic text, version, method, both sizes, and a hash of 8 bytes.
    version, method = (int.from_bytes(head[field : field + 2], "little") for field in (4, 6))
    field_size = 8 if version >= 3 else 4
    length = int.from_bytes(head[8 : 8 + field_size], "little")
    data_start = 8 + 2 * field_size + 8
    if version not in (2, 3):
        raise Unreadable(f"a compressed bundle has the unknown version {version}")
    if method != _ZLIB:
        raise Unreadable("code for AMD's GPUs is compressed by zstd, which is not supported")
    try:
        return zlib.decompressobj().decompress(head[data_start:length], _HEAD_SIZE), length
    except zlib.error:
        raise Unreadable("a compressed bundle of code for AMD's GPUs is damaged") from None
