"""Wheels that are wrong in one respect."""

from __future__ import annotations

import warnings
import zipfile
from typing import TYPE_CHECKING

import pytest
from wheels.members import Pipe

from wheelfit.testing.wheels import add_member, build_wheel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Build a sound plain wheel with a few members."""
    files: dict[str, bytes | str] = {
        "some/__init__.py": "",
        "some/data.bin": bytes(range(256)) * 300,
        "some/tool": "#!/bin/sh\n",
        "some/übung, 1.txt": "hello\n",
    }
    return build_wheel(tmp_path, "some", "1.0", files=files, executables=["some/tool"])


@pytest.fixture
def with_member(plain: Path) -> Callable[..., Path]:
    """Add a member that RECORD does not know."""

    def add(name: str, content: bytes = b"x", *, method: int = zipfile.ZIP_STORED) -> Path:
        with warnings.catch_warnings(), zipfile.ZipFile(plain, "a") as archive:
            warnings.simplefilter("ignore")  # zipfile complains of duplicates, and writes them
            add_member(archive, name, content, method=method)
        return plain

    return add


@pytest.fixture
def streamed(plain: Path) -> Path:
    """Write the wheel anew as a stream, which puts sizes and CRC behind the data."""
    pipe = Pipe()
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(pipe, "w") as new:
        for name in old.namelist():
            add_member(new, name, old.read(name))
    plain.write_bytes(pipe.getvalue())
    return plain


@pytest.fixture
def patched(plain: Path) -> Callable[..., Path]:
    """Replace bytes of the archive, the last or the first time they occur."""

    def patch(old: bytes, new: bytes, *, last: bool = True, offset: int = 0) -> Path:
        data = bytearray(plain.read_bytes())
        position = (data.rfind(old) if last else data.find(old)) + offset
        assert position >= offset
        data[position : position + len(new)] = new
        plain.write_bytes(data)
        return plain

    return patch
