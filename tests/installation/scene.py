"""A small environment, and a change of it that has something of everything."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from wheelfit.installation.environment_folders import EnvironmentFolders
from wheelfit.installation.transaction import Transaction
from wheelfit.testing.file_systems import Killed, KillingFileSystem
from wheelfit.wheels.file_system import NATIVE, FileSystem

LIBRARY = "lib/site"

OLD = {
    f"{LIBRARY}/demo/__init__.py": "old",
    f"{LIBRARY}/demo/__pycache__/__init__.cpython-311.pyc": "old bytecode",
    f"{LIBRARY}/demo/sub/gone.py": "old",
    f"{LIBRARY}/only_old/deep/x.py": "old",
    f"{LIBRARY}/shared/old.py": "old",
    f"{LIBRARY}/shared/both.py": "old",
    f"{LIBRARY}/demo-1.dist-info/METADATA": "old",
    f"{LIBRARY}/demo-1.dist-info/RECORD": "",
    "bin/demo": "old",
}
"""The files of the version that goes."""

NEW = {
    f"{LIBRARY}/demo/__init__.py": "new",
    f"{LIBRARY}/demo/more/here.py": "new",
    f"{LIBRARY}/only_new.py": "new",
    f"{LIBRARY}/shared/both.py": "new",
    f"{LIBRARY}/shared/new.py": "new",
    f"{LIBRARY}/demo-2.dist-info/METADATA": "new",
    f"{LIBRARY}/demo-2.dist-info/RECORD": "",
    "bin/demo": "new",
    "share/doc/demo": "new",
}
"""The files of the version that comes."""

THEIRS = {
    f"{LIBRARY}/shared/theirs.py": "theirs",
    f"{LIBRARY}/other/__init__.py": "theirs",
    f"{LIBRARY}/other-1.dist-info/METADATA": "theirs",
    f"{LIBRARY}/other-1.dist-info/RECORD": "shared/theirs.py,,\nother/__init__.py,,\n",
    "bin/python": "theirs",
}
"""The files of others."""


def places_of(root: Path) -> EnvironmentFolders:
    """Return the places of an environment in a folder."""
    library = str(root / LIBRARY)
    return EnvironmentFolders(
        {
            "purelib": library,
            "platlib": library,
            "headers": str(root / "include" / "site"),
            "scripts": str(root / "bin"),
            "data": str(root),
        }
    )


def fill(root: Path, files: Mapping[str, str]) -> None:
    """Write files below a folder; RECORD of a distribution lists what is with it."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content or recorded(files))


def recorded(files: Mapping[str, str]) -> str:
    """Return the rows of RECORD for the files of one distribution."""
    return "".join(
        f"{os.path.relpath(name, LIBRARY)},,\n" for name in files if "__pycache__" not in name
    )


def make(root: Path) -> EnvironmentFolders:
    """Create the environment with the old version."""
    fill(root, {**OLD, **THEIRS})
    (root / LIBRARY / "demo" / "link").symlink_to("__init__.py")
    return places_of(root)


def by_folder(*paths: str) -> dict[str, dict[str, str]]:
    """Return files that go, all of one distribution, as they are noted."""
    found: dict[str, dict[str, str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        found.setdefault(folder, {})[name] = "demo"
    return found


def removed_files(places: EnvironmentFolders, *others: object) -> dict[str, dict[str, str]]:
    """Return what goes, by folder, with its owner."""
    paths = [f"{places.roots['data']}/{name}" for name in (*OLD, f"{LIBRARY}/demo/link")]
    return by_folder(*paths, *map(str, others))


def change(places: EnvironmentFolders, file_system: FileSystem = NATIVE) -> Transaction:
    """Exchange the old version for the new one."""
    with Transaction(places, file_system=file_system) as transaction:
        # As little by little as an installation does it.
        stage = transaction.stage("purelib")
        fill(stage, {name[len(LIBRARY) + 1 :]: NEW[name] for name in NEW if name[:3] == "lib"})
        for record in stage.glob("*.dist-info/RECORD"):
            record.write_text(recorded(NEW))
        fill(transaction.stage("scripts"), {"demo": "new"})
        fill(transaction.stage("data"), {"share/doc/demo": "new"})
        transaction.switch(removed_files(places), changes=["install demo 2"])
    return transaction


def forged(document: object, signature: str = "0" * 64) -> bytes:
    """Return a journal with a right checksum, and a signature."""
    body = json.dumps(document).encode()
    digest = hashlib.sha256(body).hexdigest()
    return f"wheelfit journal sha256={digest} by={signature}\n".encode() + body


def signed(places: EnvironmentFolders, document: object) -> bytes:
    """Return a journal signed by the user."""
    return forged(document, places.signer.of("journal", json.dumps(document).encode()))


def journal_of(places: EnvironmentFolders, **parts: object) -> dict[str, Any]:
    """Return the document of a journal of an existing workplace, without steps."""
    return {
        "version": 1,
        "layout": dict(places.layout),
        "workplace": os.stat(places.workplace).st_ino,  # noqa: PTH116
        "changes": [],
        "steps": [],
        **parts,
    }


def interrupt(places: EnvironmentFolders, after: int) -> None:
    """Kill the change after some changes of the disk."""
    with pytest.raises(Killed):
        change(places, KillingFileSystem(after))


def tree(folder: Path) -> dict[str, str]:
    """Return every file, link and folder below a folder with its content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = "folder" if path.is_dir() else path.read_text()
    return found


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """Check that nothing is changed below a folder."""
    before = tree(folder)
    yield
    assert tree(folder) == before


def files(folder: Path) -> dict[str, str]:
    """Return every file below a folder with its content, but not RECORD."""
    found = tree(folder)
    return {
        name: text
        for name, text in found.items()
        if text != "folder" and not name.endswith("RECORD")
    }
