"""Whether the linker here can write into a library which level of x86-64 it needs."""

from __future__ import annotations

import shlex
import shutil
from typing import TYPE_CHECKING

from wheelfit.wheels.binaries.reading import read_binary
from wheelfit_runtime.platforms.children import run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_DEADLINE = 60.0


def marks_level(
    level: str, option: str, command: str, environ: Mapping[str, str], folder: Path
) -> bool:
    """Link a library with an option, and return whether it then says which level it needs.

    Linkers differ: that of binutils does it since 2.36, gold refuses the option, lld ignores it.

    :param level: as ``v3``.
    :param option: as ``-Wl,-z,x86-64-v3``.
    :param command: of the compiler where ``CC`` names none.
    :param environ: of the backend, whose ``CC`` and ``LDFLAGS`` count.
    :param folder: for files; an empty one.
    :raises NeedsExtra: what reads libraries is not installed.
    """
    words = _words(environ.get("CC") or command)
    path = environ.get("PATH")
    if not words or shutil.which(words[0], path=path) is None:
        words = ["cc"]
    program = shutil.which(words[0], path=path)
    if program is None:
        return False
    source, library = folder / "empty.c", folder / "empty.so"
    source.write_text("int wheelfit_empty;\n")
    command_line = [program, *words[1:], "-shared", "-fPIC", str(source), "-o", str(library)]
    command_line += [*_words(environ.get("LDFLAGS", "")), option]
    if not run(command_line, environ=environ, deadline=_DEADLINE).succeeded:
        return False
    try:
        with library.open("rb") as file:
            binary = read_binary(file, library.name)
    except OSError:
        return False
    return binary is not None and binary.levels.needed == level


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []
