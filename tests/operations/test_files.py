"""Files a user names are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wheelfit.operations.files import write_atomically, write_files
from wheelfit_runtime.errors import FileProblem


def test_written_like_any_other_file(tmp_path: Path) -> None:
    """Content and permissions are those of an ordinary new file, and nothing else is left."""
    path = tmp_path / "host.toml"
    write_atomically(str(path), b"one")
    write_atomically(str(path), b"two")
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode == ordinary.stat().st_mode
    assert sorted(tmp_path.iterdir()) == [path, ordinary]


def test_the_mask_of_the_process_counts(tmp_path: Path) -> None:
    """Who hides new files from others gets a hidden file, and keeps the mask."""
    before = os.umask(0o077)
    try:
        write_atomically(str(tmp_path / "host.toml"), b"")
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(before)
    assert (tmp_path / "host.toml").stat().st_mode & 0o777 == 0o600


def test_relative_to_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare name lies where the user is."""
    monkeypatch.chdir(tmp_path)
    write_atomically("host.toml", b"here")
    assert (tmp_path / "host.toml").read_bytes() == b"here"


@pytest.mark.parametrize("place", ["missing/host.toml", "file/host.toml", "folder"])
def test_a_failure_leaves_everything_as_it_was(place: str, tmp_path: Path) -> None:
    """No folder, a file in its place, a folder in the place of the file: an error that names it."""
    (tmp_path / "file").write_text("a file")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileProblem) as excinfo:
        write_atomically(str(tmp_path / place), b"new")
    assert excinfo.value.where == str(tmp_path / place)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "a file"


def test_several_files(tmp_path: Path) -> None:
    """Several files are written together: if one cannot be, none has changed."""
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    first.write_bytes(b"old")
    third.symlink_to(first)
    write_files({str(third): b"new", str(second): b"new"})
    assert [path.read_bytes() for path in (first, second)] == [b"new", b"new"]
    assert third.is_symlink()
    for faulty in ("folder", "missing/file"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(FileProblem, match="cannot be"):
            write_files({str(first): b"newer", str(second): b"newer", str(tmp_path / faulty): b""})
        assert [path.read_bytes() for path in (first, second)] == [b"new", b"new"]
    assert {path.name for path in tmp_path.iterdir()} == {"first", "second", "third", "folder"}


def test_a_link_stays(tmp_path: Path) -> None:
    """Who keeps the file elsewhere and links to it finds the new content there."""
    link, kept = tmp_path / "host.toml", tmp_path / "kept"
    kept.write_bytes(b"old")
    link.symlink_to(kept)
    write_atomically(str(link), b"content")
    assert (link.readlink(), kept.read_bytes()) == (kept, b"content")


def test_a_link_makes_no_file_elsewhere(tmp_path: Path) -> None:
    """A link that leads to nothing, as one that came with a project, has nothing made there."""
    link, elsewhere = tmp_path / "pylock.toml", tmp_path / "elsewhere"
    link.symlink_to(elsewhere)
    with pytest.raises(FileProblem, match="dangling link") as excinfo:
        write_atomically(str(link), b"content")
    assert excinfo.value.where == str(link)
    assert not elsewhere.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_takes_the_data_and_stays(tmp_path: Path) -> None:
    """A device or a pipe is written into: a user who may replace ``/dev/null`` keeps it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDWR)
    try:
        write_atomically(str(path), b"content")
        assert os.read(reader, 100) == b"content"
    finally:
        os.close(reader)
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_full_device_is_an_error() -> None:
    """What does not arrive is told, with the name of the device."""
    with pytest.raises(FileProblem, match="No space left") as excinfo:
        write_atomically("/dev/full", b"content")
    assert excinfo.value.where == "/dev/full"
    assert Path("/dev/full").is_char_device()


def test_what_is_there_may_stay(tmp_path: Path) -> None:
    """With ``replace=False`` a file that is there is never touched, not even a broken link."""
    path = tmp_path / "host.toml"
    write_atomically(str(path), b"one", replace=False)
    with pytest.raises(FileProblem) as excinfo:
        write_atomically(str(path), b"two", replace=False)
    assert "--force" in (excinfo.value.hint or "")
    assert path.read_bytes() == b"one"
    link = tmp_path / "link.toml"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileProblem):
        write_atomically(str(link), b"two", replace=False)
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [path, link]
    assert path.stat().st_nlink == 1
