"""Cache the descriptions of interpreters as long as they have not changed.

A description is valid while the interpreter, its ``pyvenv.cfg`` and ``EXTERNALLY-MANAGED`` are
unchanged by device, inode, size and both times; programs cannot set the change time, so an
upgraded, edited or replaced file is detected. Other influences are compared as well: the kernel,
the C library, and the variables that affect an interpreter in spite of ``-I``.

Not cached are interpreters started by a script (which may choose another one tomorrow), those of
Windows, and files changed just now. An entry that cannot be read, or is damaged, is ignored.
"""
# ruff: noqa: PTH118, PTH120

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wheelfit.sources.cache import Store, interpreter_key
from wheelfit_runtime import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


KIND = "interpreters"
"""The kind of the entries in the cache."""
_VARIABLES = (
    "CONDA", "DEB_", "DYLD_", "GLIBC_TUNABLES", "LANG", "LC_", "LD_", "MACOSX_", "NIX_", "PYENV_",
    "PYTHON", "_CONDA", "_PYTHON",
)  # fmt: skip
"""Prefixes of the variables that affect Python, or a distributor's patch of it."""
_TIME_RESOLUTION = 2 * 10**9
"""Nanoseconds within which two changes of a file may have the same times."""


def read_facts(path: str, environ: Mapping[str, str], store: Store) -> Mapping[str, Any] | None:
    """Return the cached facts of an interpreter, if they are still valid.

    :param path: its absolute path; links are not followed.
    :param environ: the variables for its process.
    """
    entry = store.read(KIND, interpreter_key(path))
    if entry is None:
        return None
    try:
        record = json.loads(entry.body)
        facts = record["facts"]
        if (
            record["other_inputs"] == _other_inputs(environ)
            and record["files"] == _files(path, facts["stdlib"])
            and isinstance(facts, dict)
        ):
            return facts
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    return None


def store_facts(
    path: str, environ: Mapping[str, str], facts: Mapping[str, Any], started_at: int, store: Store
) -> None:
    """Cache the facts of an interpreter, if their validity can be checked later.

    :param started_at: the time of its start, in nanoseconds since the epoch.
    """
    # Elsewhere, as on Windows, an update of the system would not be noticed.
    if not hasattr(os, "uname") or facts["executable"] != path or _is_script(path):
        return
    files = _files(path, facts["stdlib"])
    if any(
        identity and max(identity[-2:]) > started_at - _TIME_RESOLUTION
        for identity in files.values()
    ):
        return
    record = {"other_inputs": _other_inputs(environ), "files": files, "facts": facts}
    store.write(KIND, interpreter_key(path), {}, json.dumps(record, separators=(",", ":")).encode())


def _other_inputs(environ: Mapping[str, str]) -> list[str]:
    """Return the inputs of a description besides files, such as the kernel."""
    from packaging import __version__ as packaging_version  # which computes the tags

    system = os.uname() if hasattr(os, "uname") else ()
    libc = None
    with suppress(AttributeError, ValueError, OSError):  # another C library or system
        libc = os.confstr("CS_GNU_LIBC_VERSION")
    return [
        __version__,
        packaging_version,
        *(text for index, text in enumerate(system) if index != 1),  # not the name of the host
        libc or "",
        *(f"{name}={environ[name]}" for name in sorted(environ) if name.startswith(_VARIABLES)),
    ]


def _files(path: str, stdlib: str) -> dict[str, list[int]]:
    """Return the files that a description depends on, with device, inode, size and times.

    A missing file has no values.
    """
    return {name: _identity(name) for name in _names_of_files(path, stdlib)}


def _names_of_files(path: str, stdlib: str) -> Iterator[str]:
    for program in (path, os.path.realpath(path)):
        yield program
        folder = os.path.dirname(program)
        for place in (folder, os.path.dirname(folder)):
            yield os.path.join(place, "pyvenv.cfg")
    yield os.path.join(stdlib, "EXTERNALLY-MANAGED")


def _identity(path: str) -> list[int]:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return []
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _is_script(path: str) -> bool:
    """Return whether a file is a script, or cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(2) == b"#!"
    except OSError:  # a program need not be readable
        return True
