"""Wheels whose members are packed with Zstandard, which `zipfile` cannot write everywhere."""

from __future__ import annotations

import zipfile
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

from wheelfit.testing.wheels import build_wheel
from wheelfit.wheels.zip_directory import STORED, Member
from wheelfit.wheels.zip_writing import encode_end, encode_entry, encode_local_header
from wheelfit.wheels.zstandard import ZSTANDARD, zstd_library


def build_zstd_wheel(folder: Path, name: str, version: str, **arguments: Any) -> Path:
    """Write a wheel as `build_wheel` does, with every member packed with Zstandard."""
    library = zstd_library()
    assert library is not None
    # The writer of Python 3.14, or its backport.
    is_own = library.__name__ == "compression.zstd"
    writer: Any = zipfile if is_own else import_module("backports.zstd.zipfile")
    path = build_wheel(folder, name, version, **arguments)
    with zipfile.ZipFile(path) as archive:
        contents = {one.filename: (archive.read(one), one) for one in archive.infolist()}
    with writer.ZipFile(path, "w", writer.ZIP_ZSTANDARD) as archive:
        for member, (content, one) in contents.items():
            info = writer.ZipInfo(member, one.date_time)
            info.external_attr = one.external_attr
            archive.writestr(info, content, writer.ZIP_ZSTANDARD)
    return path


def write_archive(path: Path, members: dict[str, tuple[bytes, bytes, int]]) -> None:
    """Write members, each with its content, its packed bytes and its attributes."""
    written: list[Member] = []
    with path.open("wb") as file:
        for name, (content, packed, attributes) in members.items():
            method = STORED if packed is content else ZSTANDARD
            place = (zlib.crc32(content), len(packed), len(content), file.tell(), 3, attributes)
            written.append(Member(name, method, 0, 0, 0x21, *place))
            file.write(encode_local_header(written[-1]) + packed)
        offset = file.tell()
        directory = b"".join(map(encode_entry, written))
        file.write(directory + encode_end(len(written), len(directory), offset))
