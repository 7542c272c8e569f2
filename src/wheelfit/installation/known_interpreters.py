"""Cache the descriptions of interpreters as long as they cannot have changed.

An interpreter lists every file that its description may depend on: the files it ran and loaded,
including the C library, and the folders it searched. The description is valid while each of these
is unchanged by device, inode, size and both times; programs cannot set the change time, so an
upgraded, edited or replaced file is detected. Other influences are compared as well: the kernel,
and the variables that affect an interpreter in spite of ``-I``.

Not cached are interpreters started by a script (which may choose another one tomorrow), systems
that do not list the loaded files of a process, and files changed just now. An entry that cannot be
read, or is damaged, is ignored.
"""
# Fifty files are checked in a millisecond, for which pathlib is too slow.
# ruff: noqa: PTH115, PTH118, PTH120

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

from wheelfit.sources.cache import Store, interpreter_key
from wheelfit_runtime import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


KIND = "interpreters"
"""The kind of the entries in the cache."""
_VARIABLES = (
    "CONDA", "DEB_", "DYLD_", "GLIBC_TUNABLES", "LANG", "LC_", "LD_", "MACOSX_", "NIX_", "PYENV_",
    "PYTHON", "_CONDA", "_PYTHON",
)  # fmt: skip
"""Prefixes of the variables that affect Python, or a distributor's patch of it."""
_TIME_RESOLUTION = 2 * 10**9
"""Nanoseconds within which two changes of a file may have the same times."""
_MAX_LINKS = 40
_LOADER_FILES = ("/etc/ld.so.cache", "/etc/ld.so.preload")
"""The files that decide the libraries a program loads, existing or not."""

Identity = list[list[int]]
"""The identity and state of a file, and of each link on the way to it."""


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
        if record["other_inputs"] != _other_inputs(environ):
            return None
        if any(_identity(name) != identity for name, identity in record["files"].items()):
            return None
        facts = record["facts"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None


def store_facts(
    path: str, environ: Mapping[str, str], facts: Mapping[str, Any], started_at: int, store: Store
) -> None:
    """Cache the facts of an interpreter, if their validity can be checked later.

    :param facts: its facts; ``files`` are the files that they depend on.
    :param started_at: the time of its start, in nanoseconds since the epoch.
    """
    facts = dict(facts)
    loaded = facts.pop("files", None) or ()
    # Facts of an interpreter that a script starts are not cached: it may start another one later.
    if facts["executable"] != path or os.path.realpath(path) not in loaded:
        return
    files = {
        name: _identity(name)
        for name in (path, *loaded, *_path_files(path, loaded), *_LOADER_FILES)
    }
    if any(
        identity is not None and _latest_change(identity) > started_at - _TIME_RESOLUTION
        for identity in files.values()
    ):
        return
    record = {"other_inputs": _other_inputs(environ), "files": files, "facts": facts}
    store.write(KIND, interpreter_key(path), {}, json.dumps(record, separators=(",", ":")).encode())


def _other_inputs(environ: Mapping[str, str]) -> list[str]:
    """Return the inputs of a description besides files, such as the kernel."""
    system = os.uname() if hasattr(os, "uname") else ()
    return [
        __version__,
        *(text for index, text in enumerate(system) if index != 1),  # not the name of the host
        *(f"{name}={environ[name]}" for name in sorted(environ) if name.startswith(_VARIABLES)),
    ]


def _path_files(path: str, loaded: Iterable[str]) -> Iterator[str]:
    """Yield the files that decide an interpreter's paths, existing or not."""
    programs = {path, os.path.realpath(path)}
    yield from (f"{name}._pth" for name in loaded if "/libpython" in name)
    for program in programs:
        yield f"{program}._pth"
        folder = os.path.dirname(program)
        for place in (folder, os.path.dirname(folder)):
            yield os.path.join(place, "pyvenv.cfg")
        yield from (os.path.join(folder, name) for name in ("pybuilddir.txt", "Modules"))


def _identity(path: str) -> Identity | None:
    """Return the identity of a file; None if it is missing."""
    identity = []
    try:
        for _ in range(_MAX_LINKS):
            status = os.lstat(path)
            identity.append(
                [
                    status.st_dev,
                    status.st_ino,
                    status.st_mode,
                    status.st_size,
                    status.st_mtime_ns,
                    status.st_ctime_ns,
                ]
            )
            if not stat.S_ISLNK(status.st_mode):
                break
            path = os.path.join(os.path.dirname(path), os.readlink(path))
    except (OSError, ValueError):
        return None
    return identity


def _latest_change(identity: Identity) -> int:
    return max(max(values[-2:]) for values in identity)
