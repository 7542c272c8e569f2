"""Wheels that are broken in the ways that release managers meet, each made by code.

`benchmarks/check.py` shows them to other tools too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from checking.releases import DOCUMENT, rewritten

from wheelfit.testing.binaries import elf_file
from wheelfit.testing.wheels import build_wheel

LINUX = "cp313-cp313-manylinux_2_28_x86_64"
LARGE = elf_file(sections={".rodata": bytes(1_000_001)})
STABLE = "cp39-abi3-manylinux_2_28_x86_64"
CPP = "libstdc++.so.6"
CACHE = "fast/__pycache__/__init__.cpython-313.pyc"


def plain(folder: Path, **arguments: Any) -> Path:
    """Build a plain wheel."""
    return build_wheel(folder, "fast", "1.0", **arguments)


def variant(folder: Path, label: str = "mkl", **arguments: Any) -> Path:
    """Build a variant wheel."""
    whole = arguments.pop("document", DOCUMENT)
    return build_wheel(folder, "fast", "1.0", label=label, document=whole, **arguments)


def with_files(folder: Path, files: Mapping[str, bytes | str], tag: str = "py3-none-any") -> Path:
    """Build a plain wheel that has files besides its package."""
    return plain(folder, tag=tag, files={"fast/__init__.py": "", **files})


def stable_module(*wanted: str) -> bytes:
    """Return an extension module that wants some functions of Python."""
    return elf_file(exports=["PyInit__native"], imports=[*wanted, "PyModule_Create2", "malloc"])


def native(folder: Path, binary: bytes, tag: str = LINUX) -> Path:
    """Build a plain wheel that has one extension module."""
    return with_files(folder, {"fast/_native.abi3.so": binary}, tag)


BROKEN: dict[str, tuple[str, Callable[[Path], object]]] = {
    "tags of WHEEL": (
        "wrong-wheel-tags",
        lambda f: plain(f, tag="cp312-cp312-win_amd64").rename(f / "fast-1.0-py3-none-any.whl"),
    ),
    "native code for any platform": (
        "native-code-for-any",
        lambda f: native(f, elf_file(), "py3-none-any"),
    ),
    "module for another Python": (
        "foreign-extension",
        lambda f: with_files(f, {"fast/_c.cpython-312-x86_64-linux-gnu.so": elf_file()}, LINUX),
    ),
    "another processor": ("foreign-binary", lambda f: native(f, elf_file(machine=183))),
    "glibc too new": (
        "platform-too-old",
        lambda f: native(f, elf_file(versions={"libc.so.6": ["GLIBC_2.34"]})),
    ),
    "libstdc++ too new": (
        "platform-too-old",
        lambda f: native(f, elf_file(needed=[CPP], versions={CPP: ["GLIBCXX_3.4.29"]})),
    ),
    "glibc in a wheel for musl": (
        "foreign-binary",
        lambda f: native(
            f, elf_file(versions={"libc.so.6": ["GLIBC_2.5"]}), "py3-none-musllinux_1_2_x86_64"
        ),
    ),
    "library of the build machine": (
        "external-library",
        lambda f: native(f, elf_file(needed=["libc.so.6", "libfancy.so.3"])),
    ),
    "private functions of Python": (
        "outside-stable-abi",
        lambda f: native(f, stable_module("_PyDict_SetItem_KnownHash"), STABLE),
    ),
    "RPATH of the build machine": (
        "rpath-leads-out",
        lambda f: native(f, elf_file(runpath="$ORIGIN/../fast.libs:/home/ann/fast/build")),
    ),
    "debug information": (
        "debug-symbols",
        lambda f: native(f, elf_file(sections={".debug_info": bytes(1_000_001)})),
    ),
    "paths of the build machine": (
        "build-path",
        lambda f: native(f, elf_file(sections={".rodata": b"\0/project/fast/core.cpp\0"})),
    ),
    "unknown classifier": (
        "unknown-classifier",
        lambda f: plain(f, metadata_extra=[("Classifier", "License :: Mine")]),
    ),
    "libraries of all variants": (
        "duplicate-library",
        lambda f: [
            variant(f, label, files={"fast/libblas.so": LARGE}, tag=LINUX)
            for label in ("cu128", "mkl")
        ],
    ),
    "tests beside packages": (
        "generic-top-level",
        lambda f: with_files(f, {"tests/__init__.py": "", "tests/test_fast.py": ""}),
    ),
    "__pycache__": ("compiled-python", lambda f: with_files(f, {CACHE: b"\xf3\r\r\n"})),
    "promises of another form": (
        "wrong-abi-exports",
        lambda f: with_files(f, {"fast-1.0.dist-info/abi-exports.json": '{"level": "epoch"}'}),
    ),
    "content without a hash": (
        "bad-record",
        lambda f: rewritten(plain(f), additions={"fast/more.py": b""}),
    ),
    "content with another hash": (
        "damaged-content",
        lambda f: rewritten(plain(f), {"__init__.py": b"edited"}),
    ),
    "version of METADATA": (
        "wrong-metadata",
        lambda f: rewritten(plain(f), {"METADATA": b"Name: fast\nVersion: 2\n"}),
    ),
}
"""What is broken, the check that finds it, and how such a wheel is made."""
