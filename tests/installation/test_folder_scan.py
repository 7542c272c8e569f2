"""Claims about looking at folders in which others are at work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from error_codes import raises_code

from wheelfit.installation.checked_wheel import check_wheel
from wheelfit.installation.conflicts import lay_out
from wheelfit.installation.folder_scan import FolderScan
from wheelfit.installation.removal import RealPaths
from wheelfit.resolution.resolution import Pin
from wheelfit.testing.wheels import build_wheel, unpack_wheel

if TYPE_CHECKING:
    from wheelfit.installation.environment import Environment
    from wheelfit.installation.steps import FolderListing


def test_others_at_work(tmp_path: Path) -> None:
    """A folder whose content comes and goes meanwhile, as /tmp, is there all the same."""
    for number in range(200):
        (tmp_path / f"staying-{number}").mkdir()
    is_done = threading.Event()

    def come_and_go() -> None:
        while not is_done.is_set():
            for number in range(20):
                (tmp_path / f"{number}").mkdir()
            for number in range(20):
                (tmp_path / f"{number}").rmdir()

    others = threading.Thread(target=come_and_go)
    others.start()
    try:
        found = [FolderScan()(str(tmp_path)) for _ in range(100)]
    finally:
        is_done.set()
        others.join()
    assert None not in found
    assert all(one is not None and "staying-7" in one.folders for one in found)


def test_no_folder(tmp_path: Path) -> None:
    """What is a file, or not there, is not a folder; a link to one is."""
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    look = FolderScan()
    assert look(str(tmp_path / "file")) is None
    assert look(str(tmp_path / "missing")) is None
    assert look(str(tmp_path / "link")) == look(str(tmp_path))
    found = look(str(tmp_path))
    assert found is not None
    assert (set(found.files), set(found.folders)) == ({"file", "link"}, set())


def test_folders_above(environment: Environment, home: Path, pin: Callable[..., Pin]) -> None:
    """What an environment lies in need not be readable, as /home with mode 711."""
    inside = str(environment.schemes.data)
    looking = FolderScan()

    def look(folder: str) -> FolderListing | None:
        return looking(folder) if folder.startswith(inside) else None

    site = environment.schemes.purelib
    path = build_wheel(home, "demo", "1", files={"demo/deep/x.py": "", "demo/y.py": ""})
    checked = check_wheel(pin(path), unpack_wheel(path))

    def conflict() -> None:
        lay_out(
            [checked],
            environment,
            removed_files={},
            staying=(),
            real=RealPaths(),
            read_folder=look,
        )

    conflict()
    (site / "demo").mkdir()
    (site / "demo/y.py").write_text("mine\n")
    looking = FolderScan()
    with raises_code("file-conflict", match=r"demo/y\.py belongs to no installed distribution"):
        conflict()
    (site / "demo/y.py").unlink()
    (site / "demo/y.py").mkdir()
    looking = FolderScan()
    with raises_code("file-conflict", match=r"demo/y\.py is a folder"):
        conflict()
    (site / "demo/y.py").rmdir()
    (site / "demo/deep").write_text("mine\n")
    looking = FolderScan()
    with raises_code("file-conflict", match=r"demo/deep belongs to no installed distribution"):
        conflict()
