"""Cache the facts of interpreters as long as they cannot have changed.

An interpreter names every file that its answer may depend on: what it ran and loaded, its C library
included, and the folders in which it looked. The answer counts while each of these is the very same
file, by device, inode, size and both times; the time of a change cannot be set, so an upgraded,
edited or replaced file is another one. Other influences are compared as well: the kernel, and the
variables that could steer an interpreter in spite of ``-I``.

Not cached are interpreters behind a script (which may choose another one tomorrow), systems that do
not list the files a process has loaded, and files changed just now. No error is raised: an entry
that cannot be read, or is damaged, is ignored.
"""
# Fifty files are looked at in a millisecond, which pathlib does not allow.
# ruff: noqa: PTH115, PTH118, PTH120

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

from wheelfit.sources.cache import interpreter_key
from wheelfit_runtime import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.sources.cache import Store

KIND = "interpreters"
"""The folder of the cache."""
_VARIABLES = (
    "CONDA", "DEB_", "DYLD_", "GLIBC_TUNABLES", "LANG", "LC_", "LD_", "MACOSX_", "NIX_", "PYENV_",
    "PYTHON", "_CONDA", "_PYTHON",
)  # fmt: skip
"""Beginnings of variables by which a Python, or a distributor's patch in it, may be steered."""
_JUST_NOW = 2 * 10**9
"""Nanoseconds that may lie between two changes of a file which its times do not distinguish."""
_MOST_LINKS = 40
_LIBRARIES = ("/etc/ld.so.cache", "/etc/ld.so.preload")
"""The files that decide the libraries a program loads, existing or not."""

Identity = list[list[int]]
"""The identity and state of a file, and of each link on the way to it."""


def recall(path: str, environ: Mapping[str, str], store: Store) -> Mapping[str, Any] | None:
    """Return the cached facts of an interpreter, if they still hold.

    :param path: the absolute path by which it would be started; links are not followed.
    :param environ: the variables with which it would be started.
    """
    entry = store.read(KIND, interpreter_key(path))
    if entry is None:
        return None
    try:
        told = json.loads(entry.body)
        if told["circumstances"] != _circumstances(environ):
            return None
        if any(_identity(name) != known for name, known in told["files"].items()):
            return None
        facts = told["facts"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None


def keep(
    path: str, environ: Mapping[str, str], facts: Mapping[str, Any], began: int, store: Store
) -> None:
    """Cache the facts of an interpreter, if their validity can be checked later.

    :param facts: its facts; ``files`` are the files that they depend on.
    :param began: when it was started, in nanoseconds since the epoch.
    """
    facts = dict(facts)
    loaded = facts.pop("files", None) or ()
    # A script starts another interpreter; and the target of links must be the program that ran.
    if facts["executable"] != path or os.path.realpath(path) not in loaded:
        return
    files = {name: _identity(name) for name in (path, *loaded, *_beside(path, loaded), *_LIBRARIES)}
    if any(known is not None and _latest(known) > began - _JUST_NOW for known in files.values()):
        return
    told = {"circumstances": _circumstances(environ), "files": files, "facts": facts}
    store.write(KIND, interpreter_key(path), {}, json.dumps(told, separators=(",", ":")).encode())


def _circumstances(environ: Mapping[str, str]) -> list[str]:
    """Return the influences besides files, such as the kernel."""
    system = os.uname() if hasattr(os, "uname") else ()
    return [
        __version__,
        *(text for place, text in enumerate(system) if place != 1),  # not the name of the host
        *(f"{name}={environ[name]}" for name in sorted(environ) if name.startswith(_VARIABLES)),
    ]


def _beside(path: str, loaded: Iterable[str]) -> Iterator[str]:
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
        for _ in range(_MOST_LINKS):
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


def _latest(identity: Iterable[list[int]]) -> int:
    return max(max(one[-2:]) for one in identity)
