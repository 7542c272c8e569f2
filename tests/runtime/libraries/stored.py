"""Wheels of libraries, as they come to a store and to those who ask an index."""

from __future__ import annotations

import os
from pathlib import Path

from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.libraries.progress import Progress
from wheelfit_runtime.libraries.store import Store, StoredWheel
from wheelfit_runtime.libraries.store_changes import add_wheel, working_folder
from wheelfit_runtime.libraries.toolkits import family_named
from wheelfit_runtime.libraries.transport_http import HttpTransport
from wheelfit_runtime.libraries.verifying import damage_of, sha256_of, unpack
from wheelfit_runtime.libraries.wheels import ListedWheel

CUDART = "nvidia-cuda-runtime-cu12"
SILENT = Progress(None)


def http(url: str, attempts: int = 1) -> HttpTransport:
    """Return a client without logins of its own."""
    return HttpTransport(url, {"NETRC": os.devnull}, attempts=attempts)


def foreign(mapped: list[str], paths: dict[str, str]) -> list[str]:
    """Return the CUDA libraries that a process has from elsewhere than the store.

    :param mapped: all libraries that it has.
    :param paths: those of the store.
    """
    ours = {os.path.realpath(path) for path in paths.values()}
    stems = family_named("cuda").stems
    return [path for path in mapped if Path(path).name.startswith(stems) and path not in ours]


def add_built(store: Store, folder: Path, name: str, files: dict[str, bytes]) -> StoredWheel:
    """Build a wheel with some files, and put it into a store."""
    wheel = build_wheel(folder, name, "1.0", files=files)
    sha256 = sha256_of(wheel)
    with working_folder(store) as working:
        listed = ListedWheel(name, "1.0", wheel.name, wheel.as_uri(), sha256)
        unpack(wheel, listed, Path(working, "entry"))
        entry = add_wheel(store, str(Path(working, "entry")), sha256)
    assert damage_of(entry) == []
    return entry
