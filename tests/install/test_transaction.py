"""Claims about changing folders so that all of it happens or nothing."""

from __future__ import annotations

import errno
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from wheelfit.errors import EnvironmentReadOnly, EnvironmentUnavailable, FileConflict
from wheelfit.install.transaction import Transaction, environment_error, remove_abandoned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Boom(Exception):
    """What goes wrong in these tests."""


def tree(folder: Path) -> dict[str, str]:
    """Return every file, link and folder below a folder with its content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = "folder" if path.is_dir() else path.read_text()
    return found


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder with an old package of three files, one of them a link."""
    site = tmp_path / "site"
    (site / "old" / "sub").mkdir(parents=True)
    (site / "old" / "a.py").write_text("old a")
    (site / "old" / "sub" / "b.py").write_text("old b")
    (site / "old" / "link").symlink_to("a.py")
    return site


def fill(stage: Path, **files: str) -> Path:
    """Write files into a stage; ``__`` stands for a slash."""
    for name, content in files.items():
        path = stage / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return stage


def upgrade(transaction: Transaction, site: Path) -> None:
    """Replace the old package by a new one."""
    stage = fill(transaction.stage(site), old__a="new a", new__c="new c")
    for name in ("a.py", "link", "sub/b.py"):
        transaction.put_away(site / "old" / name)
    assert transaction.remove_empty(site / "old" / "sub")
    assert transaction.remove_empty(site / "old")
    transaction.place(stage, site)


def through_link(transaction: Transaction, site: Path) -> None:
    """Change what lies behind a link."""
    stage = fill(transaction.stage(site), linked__new="new", linked__deep__x="x")
    transaction.put_away(site / "linked" / "theirs")
    transaction.place(stage, site)


def in_vain(
    site: Path, change: Callable[[Transaction, Path], None], error: BaseException | None = None
) -> None:
    """Change a folder, and fail in the end."""
    with Transaction([site]) as transaction:
        change(transaction, site)
        raise error or Boom


class TestTransaction:
    """What a transaction leaves behind."""

    def test_success(self, site: Path) -> None:
        """In the end there is the new and nothing else."""
        with Transaction([site]) as transaction:
            upgrade(transaction, site)
        assert tree(site) == {"old": "folder", "old/a": "new a", "new": "folder", "new/c": "new c"}

    def test_failure(self, site: Path) -> None:
        """After an error everything is as before, links and folders too."""
        before = tree(site)
        with pytest.raises(Boom):
            in_vain(site, upgrade)
        assert tree(site) == before

    def test_interrupt(self, site: Path) -> None:
        """The same holds when the user interrupts."""
        before = tree(site)
        with pytest.raises(KeyboardInterrupt):
            in_vain(site, upgrade, KeyboardInterrupt())
        assert tree(site) == before

    def test_new_folders_go_again(self, tmp_path: Path) -> None:
        """Folders that had to be created are removed after an error."""

        def create(transaction: Transaction, site: Path) -> None:
            stage = fill(transaction.stage(site / "b"), x="x")
            transaction.place(stage, site / "b")

        with pytest.raises(Boom):
            in_vain(tmp_path / "a", create)
        assert tree(tmp_path) == {}

    def test_folder_of_somebody_else(self, tmp_path: Path) -> None:
        """A folder into which somebody else put something meanwhile stays."""

        def create(transaction: Transaction, site: Path) -> None:
            transaction.make_folder(site / "b")
            (site / "theirs").write_text("")

        with pytest.raises(Boom):
            in_vain(tmp_path / "a", create)
        assert tree(tmp_path) == {"a": "folder", "a/theirs": ""}

    def test_merge(self, site: Path) -> None:
        """A stage is merged into folders that stay."""
        with Transaction([site]) as transaction:
            transaction.place(fill(transaction.stage(site), old__n="n", old__sub__m="m"), site)
        assert tree(site)["old/n"] == "n"
        assert tree(site)["old/sub/m"] == "m"
        assert tree(site)["old/a.py"] == "old a"

    def test_nothing_is_overwritten(self, site: Path) -> None:
        """A file that appeared in the meantime is not overwritten; all is undone."""
        before = tree(site)

        def collide(transaction: Transaction, site: Path) -> None:
            stage = fill(transaction.stage(site), aaa="new", old__sub__b="n")
            (stage / "old" / "sub" / "b").rename(stage / "old" / "sub" / "b.py")
            transaction.place(stage, site)

        with pytest.raises(FileConflict):
            in_vain(site, collide)
        assert tree(site) == before

    def test_replace(self, site: Path) -> None:
        """With leave to replace it is, and comes back after an error."""
        before = tree(site)

        def replace(transaction: Transaction, site: Path) -> None:
            stage = fill(transaction.stage(site), old="now a file")
            transaction.place(stage, site, replace=True)
            assert (site / "old").read_text() == "now a file"

        with pytest.raises(Boom):
            in_vain(site, replace)
        assert tree(site) == before

    def test_full_folder_stays(self, site: Path) -> None:
        """A folder with something in it is not removed."""
        with Transaction([site]) as transaction:
            assert not transaction.remove_empty(site / "old")
            assert not transaction.remove_empty(site / "gone")

    def test_modes_come_back(self, site: Path) -> None:
        """A folder that was removed comes back with its mode."""
        (site / "empty").mkdir(mode=0o750)
        mode = (site / "empty").stat().st_mode

        def remove(transaction: Transaction, site: Path) -> None:
            assert transaction.remove_empty(site / "empty")

        with pytest.raises(Boom):
            in_vain(site, remove)
        assert (site / "empty").stat().st_mode == mode

    def test_no_way_back(self, site: Path) -> None:
        """If the old state cannot be restored, the old files are kept and it is said where."""

        def spoil(transaction: Transaction, site: Path) -> None:
            transaction.put_away(site / "old" / "a.py")
            (site / "old" / "link").unlink()
            transaction.put_away(site / "old" / "sub")
            (site / "old").rmdir()
            (site / "old").write_text("in the way")

        with pytest.raises(EnvironmentUnavailable, match="brought back") as caught:
            in_vain(site, spoil, Boom("first cause"))
        assert "first cause" in str(caught.value.note)
        (kept,) = site.glob(".wheelfit-*")
        assert str(kept) in str(caught.value.hint)
        assert {path.name for path in kept.iterdir()} == {"old-1", "old-2"}


class TestAbandoned:
    """What a killed process leaves."""

    def test_a_stage_goes(self, site: Path) -> None:
        """Unpacked wheels are of no use to anybody."""
        before = tree(site)
        for name in (".wheelfit-abcdefgh/new-12345678/demo", ".wheelfit-_______0"):
            (site / name).mkdir(parents=True)
        (site / ".wheelfit-abcdefgh/new-12345678/demo/a.py").write_text("a")
        removed = remove_abandoned(site)
        assert [path.name for path in removed] == [".wheelfit-_______0", ".wheelfit-abcdefgh"]
        assert tree(site) == before

    @pytest.mark.parametrize(
        "name",
        [
            ".wheelfit-abcdefgh/old-1",  # moved away, and perhaps the only copy
            ".wheelfit-abcdefgh/new-12345678",  # a file, which no stage is
            ".wheelfit-abcdefgh/notes.txt",
            ".wheelfit-notes/new-12345678/mine",
            ".wheelfit-abcdefgh/new-mine/mine",
            "wheelfit-abcdefgh/new-12345678/mine",
            ".wheelfit.lock",
        ],
    )
    def test_everything_else_stays(self, name: str, site: Path) -> None:
        """A file that was moved away, or that somebody made, is left where it is."""
        (site / ".wheelfit-abcdefgh" / "new-abcdefgh").mkdir(parents=True)
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text("mine")
        remove_abandoned(site)
        assert (site / name).read_text() == "mine"

    def test_links_are_left(self, site: Path, tmp_path: Path) -> None:
        """What a link leads to was not made here."""
        (tmp_path / "mine" / "new-12345678").mkdir(parents=True)
        (site / ".wheelfit-abcdefgh").symlink_to(tmp_path / "mine")
        (site / ".wheelfit-12345678").mkdir()
        (site / ".wheelfit-12345678" / "new-12345678").symlink_to(tmp_path / "mine")
        before = tree(tmp_path)
        assert remove_abandoned(site) == ()
        assert tree(tmp_path) == before


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in a file system of its own with little space."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount file systems")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


class TestFileSystems:
    """More than one file system, and full ones."""

    def test_across(self, site: Path, small: Path) -> None:
        """A link inside the environment may lead to another file system."""
        (small / "theirs").write_text("theirs")
        (site / "linked").symlink_to(small)
        with Transaction([site]) as transaction:
            through_link(transaction, site)
        assert tree(small) == {"new": "new", "deep": "folder", "deep/x": "x"}
        assert not list(site.glob(".wheelfit-*"))

    def test_across_and_back(self, site: Path, small: Path) -> None:
        """The same undone."""
        (small / "theirs").write_text("theirs")
        (site / "linked").symlink_to(small)
        with pytest.raises(Boom):
            in_vain(site, through_link)
        assert tree(small) == {"theirs": "theirs"}

    def test_full(self, site: Path, small: Path) -> None:
        """No space: while moving across, everything comes back."""
        (site / "linked").symlink_to(small)
        before = tree(site)

        def overflow(transaction: Transaction, site: Path) -> None:
            stage = fill(transaction.stage(site), aaa="x", linked__big="x" * 1_000_000)
            transaction.place(stage, site)

        with pytest.raises(OSError, match="No space"):
            in_vain(site, overflow)
        assert tree(site) == before
        assert tree(small) == {}


class TestErrors:
    """What the system says, in our words."""

    @pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
    def test_denied(self, number: int) -> None:
        """Whatever denies writing is a read-only environment."""
        error = environment_error(OSError(number, os.strerror(number), "/x"))
        assert isinstance(error, EnvironmentReadOnly)
        assert error.where == "/x"

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
    def test_full(self, number: int) -> None:
        """A full disk is named."""
        error = environment_error(OSError(number, os.strerror(number)))
        assert "space" in error.message
        assert error.exit_code == 6

    def test_other(self) -> None:
        """Everything else is given in the system's words."""
        error = environment_error(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        assert os.strerror(errno.EMFILE) in error.message
