"""Claims about looking at folders in which others are at work."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from wheelfit.install.looking import Looking

if TYPE_CHECKING:
    from pathlib import Path


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
        found = [Looking()(str(tmp_path)) for _ in range(100)]
    finally:
        is_done.set()
        others.join()
    assert None not in found
    assert all(one is not None and "staying-7" in one.folders for one in found)


def test_no_folder(tmp_path: Path) -> None:
    """What is a file, or not there, is no folder; a link to one is."""
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    look = Looking()
    assert look(str(tmp_path / "file")) is None
    assert look(str(tmp_path / "missing")) is None
    assert look(str(tmp_path / "link")) == look(str(tmp_path))
    found = look(str(tmp_path))
    assert found is not None
    assert (set(found.files), set(found.folders)) == ({"file", "link"}, set())
