"""The archives of fastzip/malo, if a checkout is named: every verdict is the one expected.

They are no wheels, so they are read as archives, by the code through which wheels go as well.
`hostile.attacks` makes the same faults anew, so that they are tested without the checkout too.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wheelfit.wheels.zip_archive import ZipArchive
from wheelfit_runtime.errors import InvalidWheel

VARIABLE = "WHEELFIT_MALO"
HARMLESS = {
    "crc_collision_empty_nonempty.zip",
    "crc_collision_two_nonempty.zip",
    "crc_zero_nonempty.zip",
    "nosubdir.zip",
}
"""Of those that are odd, the ones that nobody can read in two ways."""
COUNTS = {"accept": 9, "iffy": 49, "malicious": 8, "reject": 13}


@pytest.fixture(scope="module")
def malo() -> Path:
    """Give the folder with the archives, or skip."""
    folder = Path(os.environ.get(VARIABLE) or "nowhere", "zip")
    if not folder.is_dir():
        pytest.skip(f"set {VARIABLE} to a checkout of github.com/fastzip/malo")
    return folder


def verdict(path: Path) -> str:
    """Read every member; return why the archive is refused, or nothing."""
    try:
        with ZipArchive(path, where=path.name) as archive:
            for member in archive.members:
                for _ in archive.chunks(member.name):
                    pass
    except InvalidWheel as error:
        return error.message
    return ""


@pytest.mark.corpora
@pytest.mark.parametrize("kind", COUNTS)
def test_verdicts(malo: Path, kind: str) -> None:
    """What is sound is read; what is malicious or wrong is refused, and what is odd mostly too."""
    verdicts = {path.name: verdict(path) for path in sorted((malo / kind).glob("*.zip"))}
    assert len(verdicts) >= COUNTS[kind]
    read = {name for name, reason in verdicts.items() if not reason}
    expected = {"accept": set(verdicts), "iffy": HARMLESS}.get(kind, set())
    assert read == expected
