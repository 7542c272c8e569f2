"""Claims about changing an environment so that all of it happens or nothing."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from error_codes import raises_code
from installation.scene import (
    LIBRARY,
    by_folder,
    change,
    files,
    make,
    places_of,
    removed_files,
    tree,
    untouched,
)
from sampled_cases import sampled

from wheelfit.errors import EnvironmentBusy
from wheelfit.installation.environment_folders import WORKPLACE
from wheelfit.installation.recovery import recover
from wheelfit.installation.staging_folders import make_folders, remove_folders
from wheelfit.installation.transaction import Transaction, environment_error
from wheelfit.testing.file_systems import (
    CaseInsensitiveFileSystem,
    FileSystemWithoutExchange,
    FullFileSystem,
    ObservedFileSystem,
    OverlayFileSystem,
    ReadOnlyFileSystem,
    WindowsLikeFileSystem,
)
from wheelfit.wheels.disk_operations import AnyPath
from wheelfit.wheels.file_system import NATIVE, FileSystem
from wheelfit_runtime.errors import EnvironmentUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wheelfit.installation.environment_folders import EnvironmentFolders


class _Unwaiting(ObservedFileSystem):
    """Wait for no disk, which takes time, but tell of it."""

    def sync_folder(self, path: str | os.PathLike[str]) -> None:  # noqa: ARG002
        """Do nothing."""
        self.before("sync_folder")

    def sync_tree(self, folder: str | os.PathLike[str]) -> None:  # noqa: ARG002
        """Do nothing."""
        self.before("sync_tree")


@pytest.fixture
def places(tmp_path: Path) -> EnvironmentFolders:
    """Return a small environment."""
    return make(tmp_path / "env")


@pytest.fixture
def root(tmp_path: Path, places: EnvironmentFolders) -> Path:  # noqa: ARG001
    """Return its folder."""
    return tmp_path / "env"


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, str]:
    """Return how it looks after the change."""
    change(make(tmp_path / "expected"))
    return tree(tmp_path / "expected")


class Recorder(ObservedFileSystem):
    """Note what is done to the disk."""

    def __init__(self) -> None:
        self.done: list[str] = []
        super().__init__(self.done.append)


class TestSwitch:
    """What a transaction leaves behind."""

    def test_success(self, places: EnvironmentFolders, root: Path) -> None:
        """In the end there is the new, what others have, and nothing else."""
        change(places)
        found = files(root)
        assert set(found.values()) == {"new", "theirs"}
        assert not any("old" in name or WORKPLACE in name for name in tree(root))
        assert f"{LIBRARY}/demo/more/here.py" in found

    def test_few_renames(self, places: EnvironmentFolders, root: Path) -> None:
        """However many files a folder has, it moves as one."""
        for number in range(100):
            (root / LIBRARY / "only_old" / "deep" / f"{number}.py").write_text("old")
        gone = removed_files(places, *(root / LIBRARY / "only_old" / "deep").iterdir())
        disk = Recorder()
        with Transaction(places, file_system=disk) as transaction:
            transaction.stage("purelib")
            transaction.switch(gone)
        moves = [one for one in disk.done if one in {"move", "exchange"}]
        assert len(moves) == 6  # three folders, a record's with them, and single files
        assert not (root / LIBRARY / "only_old").exists()

    def test_no_hole(self, places: EnvironmentFolders, root: Path) -> None:
        """Whenever somebody looks, what both versions have is there, as a whole."""
        seen = set()

        def look(_: str) -> None:
            package = root / LIBRARY / "demo"
            seen.add(((package / "__init__.py").read_text(), (package / "more").exists()))
            assert (root / "bin/demo").exists()
            assert (root / LIBRARY / "shared/both.py").exists()
            assert list((root / LIBRARY).glob("demo-*.dist-info"))

        change(places, ObservedFileSystem(look))
        assert seen == {("old", False), ("new", True)}

    @pytest.mark.parametrize(
        ("error", "step"),
        sampled([(OSError(errno.EIO, "broken"), 1), (KeyboardInterrupt(), 1),
                 (KeyboardInterrupt(), 8)], fast={2}),
        ids=["error", "interrupt", "some interrupts"],
    )  # fmt: skip
    def test_failure(
        self, error: BaseException, step: int, root: Path, expected: dict[str, str]
    ) -> None:
        """Whatever change of the disk fails, all is as before; or as after, if that was decided."""
        before = tree(root)
        disk = Recorder()
        change(make(root.parent / "again"), disk)
        outcomes = []
        for number in range(0, len(disk.done), step):
            copy = root.parent / f"copy{number}"
            shutil.copytree(root, copy, symlinks=True)
            left = iter([False] * number + [True] + [False] * 1000)

            def fail(_: str, left: Iterator[bool] = left) -> None:
                if next(left):
                    raise error

            try:
                change(places_of(copy), ObservedFileSystem(fail))
            except type(error):
                pass
            found = tree(copy)
            if isinstance(error, KeyboardInterrupt):
                assert found in (before, expected), disk.done[number]
            recover(places_of(copy))
            assert tree(copy) in (before, expected), disk.done[number]
            # The error itself left nothing but, at most, what the next command removes.
            assert {name: text for name, text in found.items() if WORKPLACE not in name} in (
                before,
                expected,
            )
            outcomes.append(tree(copy) == expected)
        assert outcomes == sorted(outcomes)  # first always the old, then always the new
        assert len(set(outcomes)) == 2

    def test_signal_at_the_first_step(self, places: EnvironmentFolders, root: Path) -> None:
        """A signal that comes as soon as the workplace exists leaves no workplace."""

        class Interrupted(FileSystem):
            """A file system that is interrupted after it has created a folder."""

            def make_folder(self, path: AnyPath, mode: int = 0o777) -> None:
                super().make_folder(path, mode)
                raise KeyboardInterrupt

        before = tree(root)
        with pytest.raises(KeyboardInterrupt):
            change(places, Interrupted())
        assert tree(root) == before

    def test_nothing_came(self, places: EnvironmentFolders, root: Path) -> None:
        """What was staged and not switched is gone."""
        before = tree(root)
        with Transaction(places) as transaction:
            (transaction.stage("data") / "x").write_text("x")
        assert tree(root) == before

    def test_new_folders_go_again(self, tmp_path: Path) -> None:
        """Folders that had to be created are removed after an error."""
        places = places_of(tmp_path / "env")

        def fail() -> None:
            made = make_folders(places.library)
            try:
                with Transaction(places, created=made) as transaction:
                    (transaction.stage("headers") / "x.h").write_text("x")
                    (transaction.stage("data") / "etc").write_text("x")
                    raise KeyboardInterrupt  # noqa: TRY301
            except BaseException:
                remove_folders(made)
                raise

        with pytest.raises(KeyboardInterrupt):
            fail()
        assert tree(tmp_path) == {}

    def test_folders_that_two_places_have(self, tmp_path: Path) -> None:
        """Headers lie in a folder of the data; both make the same new folders."""
        places = make(tmp_path)
        with Transaction(places) as transaction:
            (transaction.stage("headers") / "x.h").write_text("x")
            (transaction.stage("data") / "include" / "site").mkdir(exist_ok=True, parents=True)
            (transaction.stage("data") / "include" / "site" / "y.h").write_text("y")
            transaction.switch({})
        assert {path.name for path in (tmp_path / "include" / "site").iterdir()} == {"x.h", "y.h"}

    def test_nothing_is_overwritten(self, places: EnvironmentFolders, root: Path) -> None:
        """A file that appeared in the meantime is not overwritten; all is as before."""
        (root / LIBRARY / "only_new.py").write_text("somebody's")
        with untouched(root), raises_code("file-conflict") as excinfo:
            change(places)
        assert excinfo.value.where == str(root / LIBRARY / "only_new.py")

    def test_replace(self, places: EnvironmentFolders, root: Path) -> None:
        """With leave to replace it is."""
        (root / LIBRARY / "single.py").write_text("somebody's")
        with Transaction(places) as transaction:
            (transaction.stage("purelib") / "single.py").write_text("new")
            transaction.switch({}, replace=True)
        assert (root / LIBRARY / "single.py").read_text() == "new"

    def test_folder_for_file(self, places: EnvironmentFolders, root: Path) -> None:
        """A module may become a package and the other way round."""
        old = root / LIBRARY / "was_module"
        old.write_text("old")
        with Transaction(places) as transaction:
            stage = transaction.stage("purelib")
            (stage / "was_module").mkdir()
            (stage / "was_module" / "x.py").write_text("new")
            (stage / "only_old").write_text("new")
            transaction.switch(removed_files(places, old))
        assert (old / "x.py").read_text() == "new"
        assert (root / LIBRARY / "only_old").read_text() == "new"

    def test_links_are_not_followed(
        self, places: EnvironmentFolders, root: Path, tmp_path: Path
    ) -> None:
        """A link that goes is removed, not what it leads to."""
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "x").write_text("mine")
        (root / LIBRARY / "linked").symlink_to(tmp_path / "mine")
        with Transaction(places) as transaction:
            transaction.switch(by_folder(f"{root / LIBRARY}/linked"))
        assert not (root / LIBRARY / "linked").is_symlink()
        assert (tmp_path / "mine" / "x").read_text() == "mine"

    def test_empty_folders_of_others(self, places: EnvironmentFolders, root: Path) -> None:
        """A folder somebody made stays, and the one around it; empty caches go."""
        (root / LIBRARY / "only_old" / "notes").mkdir()
        (root / LIBRARY / "demo" / "sub" / "__pycache__").mkdir()
        change(places)
        assert (root / LIBRARY / "only_old" / "notes").is_dir()
        assert not (root / LIBRARY / "only_old" / "deep").exists()
        assert not (root / LIBRARY / "demo" / "sub").exists()

    def test_interrupted_before(self, places: EnvironmentFolders) -> None:
        """Nothing is begun on top of a change that is not finished."""
        Path(places.workplace).mkdir()
        Path(places.workplace, "journal").touch()
        with pytest.raises(EnvironmentBusy, match="another process") as excinfo:
            change(places)
        assert "wheelfit recover" in str(excinfo.value.hint)

    def test_without_locks(self, places: EnvironmentFolders) -> None:
        """Where there are no locks, the folder of a change is one."""
        with (
            Transaction(places, lock_timeout=0.0),
            pytest.raises(EnvironmentBusy),
            Transaction(places, lock_timeout=0.1),
        ):
            pass
        with Transaction(places, lock_timeout=0.0):
            pass


class TestFileSystems:
    """Other file systems than this machine's."""

    @pytest.mark.parametrize("kind", [FileSystemWithoutExchange, WindowsLikeFileSystem])
    def test_no_exchange(
        self,
        kind: type[FileSystem],
        places: EnvironmentFolders,
        root: Path,
        expected: dict[str, str],
    ) -> None:
        """Where names cannot be exchanged, the old one goes and the new one comes."""
        change(places, kind())
        assert tree(root) == expected

    def test_layers(self, places: EnvironmentFolders, root: Path, expected: dict[str, str]) -> None:
        """In a container folders of the image cannot be renamed; then files are, one by one."""
        change(places, OverlayFileSystem(str(root / LIBRARY)))
        assert tree(root) == expected

    def test_open_files(self, places: EnvironmentFolders, root: Path) -> None:
        """A file that another program holds makes the change impossible, not half of it."""
        held = str(root / LIBRARY / "demo" / "sub" / "gone.py")
        with untouched(root), pytest.raises(PermissionError):
            change(places, WindowsLikeFileSystem({held}))

    def test_open_after_all(
        self, places: EnvironmentFolders, root: Path, expected: dict[str, str]
    ) -> None:
        """What was moved and cannot be deleted yet is left for the next command, with a note."""
        held: set[str] = set()

        class Busy(WindowsLikeFileSystem):
            def remove_file(self, path: str | os.PathLike[str]) -> None:
                if os.fspath(path).endswith("gone.py"):
                    held.add(os.fspath(path))
                super().remove_file(path)

            def move(self, source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
                NATIVE.move(source, target)

        done = change(places, Busy(held))
        assert "could not be removed yet" in done.notes[0]
        assert {k: v for k, v in tree(root).items() if WORKPLACE not in k} == expected
        recover(places)
        assert tree(root) == expected

    def test_case(self, tmp_path: Path) -> None:
        """Where case is ignored, an upgrade may change that of a name."""
        places = make(tmp_path)
        for name in ("Single.py", "Package/x.py", "Shared2/x.py", "Shared2/theirs.py"):
            path = tmp_path / LIBRARY / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("old")
        recorded = ("single.py", "Package/x.py", "Shared2/x.py")  # RECORD has it otherwise
        gone = by_folder(*(f"{places.library}/{name}" for name in recorded))
        with Transaction(places, file_system=CaseInsensitiveFileSystem()) as transaction:
            stage = transaction.stage("purelib")
            for name in ("single.py", "package/x.py", "shared2/X.py"):
                (stage / name).parent.mkdir(exist_ok=True)
                (stage / name).write_text("new")
            transaction.switch(gone)
        found = {name: text for name, text in files(tmp_path / LIBRARY).items() if text != "old"}
        assert (
            found.items()
            >= {
                "single.py": "new",
                "package/x.py": "new",
                "Shared2/X.py": "new",
            }.items()
        )
        assert not (tmp_path / LIBRARY / "Single.py").exists()
        assert not (tmp_path / LIBRARY / "Package").exists()
        assert not (tmp_path / LIBRARY / "Shared2" / "x.py").exists()

    @pytest.mark.parametrize("kind", [ReadOnlyFileSystem, FullFileSystem])
    def test_no_room(
        self, kind: type[ReadOnlyFileSystem], places: EnvironmentFolders, root: Path
    ) -> None:
        """A disk that becomes full or read-only leaves what was there."""
        before = tree(root)
        for after in range(8):
            with pytest.raises((OSError, EnvironmentUnavailable)):
                change(places, kind(after))
            recover(places)
            assert tree(root) == before

    @pytest.mark.parametrize(
        "lasts", sampled([False, True], fast={1}), ids=["once", "from then on"]
    )
    def test_error(self, tmp_path: Path, expected: dict[str, str], *, lasts: bool) -> None:
        """An error at any moment, also of the commit itself: all was done, or all is as before."""
        ended: list[str] = []
        for moment in range(10_000):
            root = tmp_path / str(moment)
            places = make(root)
            before, left = tree(root), [moment]

            def fail(method: str, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] == -1 or (lasts and left[0] < 0 and method != "replace"):
                    raise OSError(errno.EIO, os.strerror(errno.EIO), method)

            try:
                change(places, _Unwaiting(fail))
            except (OSError, EnvironmentUnavailable):
                if not lasts:
                    assert {k: v for k, v in tree(root).items() if WORKPLACE not in k} == before
                recover(places)
                assert tree(root) == before
                ended.append("undone")
            else:
                recover(places)
                assert tree(root) == expected
                ended.append("done")
            if left[0] >= 0:
                break
        assert ended == sorted(ended, reverse=True)

    def test_commit_in_doubt(
        self, places: EnvironmentFolders, root: Path, expected: dict[str, str]
    ) -> None:
        """A commit that can neither be waited for nor taken back is told as what it is."""
        broken: list[str] = []

        def fail(method: str) -> None:
            committed = os.path.lexists(f"{places.workplace}/committed")
            if broken or (committed and method == "sync_folder"):
                broken.append(method)
                raise OSError(errno.EIO, os.strerror(errno.EIO), method)

        with pytest.raises(EnvironmentUnavailable, match="was changed"):
            change(places, _Unwaiting(fail))
        assert broken[:2] == ["sync_folder", "replace"]
        recover(places)
        assert tree(root) == expected


@pytest.fixture
def small(tmp_path: Path, small_disk: Callable[[Path, str], Path]) -> Path:
    """Return a folder in a file system of its own with little space."""
    # In the environment, from which no link may lead out.
    return small_disk(tmp_path / "env" / "small", "256k")


class TestAcross:
    """More than one file system."""

    def through_link(self, places: EnvironmentFolders, content: str = "new") -> None:
        """Change what lies behind a link."""
        theirs = f"{places.library}/linked/old"
        with Transaction(places) as transaction:
            stage = transaction.stage("purelib") / "linked"
            (stage / "deep").mkdir(parents=True)
            (stage / "deep" / "x").write_text(content)
            (stage / "new").write_text("new")
            transaction.switch(by_folder(theirs))

    def test_link(self, places: EnvironmentFolders, small: Path) -> None:
        """A link inside the environment may lead to another file system."""
        (small / "old").write_text("old")
        (small / "theirs").write_text("theirs")
        Path(places.library, "linked").symlink_to(small)
        self.through_link(places)
        assert tree(small) == {"new": "new", "deep": "folder", "deep/x": "new", "theirs": "theirs"}
        assert not os.path.lexists(places.workplace)

    def test_full(self, places: EnvironmentFolders, root: Path, small: Path) -> None:
        """No space there: everything comes back."""
        (small / "old").write_text("old")
        Path(places.library, "linked").symlink_to(small)
        with untouched(root), pytest.raises(OSError, match="No space"):
            self.through_link(places, "x" * 1_000_000)
        assert tree(small) == {"old": "old"}

    def test_other_folders(self, tmp_path: Path, small: Path, expected: dict[str, str]) -> None:
        """Scripts may lie in another file system than modules."""
        places = make(tmp_path / "env")
        shutil.copytree(tmp_path / "env" / "bin", small / "bin")
        shutil.rmtree(tmp_path / "env" / "bin")
        (tmp_path / "env" / "bin").symlink_to(small / "bin")
        roots = {name: os.path.realpath(root) for name, root in places.roots.items()}
        change(type(places)(roots))
        assert tree(small) == {"bin": "folder", "bin/demo": "new", "bin/python": "theirs"}
        found = {k: v for k, v in tree(tmp_path / "env").items() if not k.startswith("small")}
        assert found.pop("bin") == f"-> {small}/bin"
        assert found == {k: v for k, v in expected.items() if not k.startswith("bin")}

    def test_mounted_twice(self, tmp_path: Path, expected: dict[str, str]) -> None:
        """One file system seen in two places counts as two: nothing can be renamed between."""
        places = make(tmp_path / "env")
        scripts = tmp_path / "env" / "bin"
        command = ["mount", "--bind", str(scripts), str(scripts)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            pytest.skip("this user may not mount file systems")
        try:
            change(places)
        finally:
            subprocess.run(["umount", str(scripts)], check=True)
        assert tree(tmp_path / "env") == expected


class TestErrors:
    """What the system says, in our words."""

    @pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
    def test_denied(self, number: int) -> None:
        """Whatever denies writing is a read-only environment."""
        error = environment_error(OSError(number, os.strerror(number), "/x"))
        assert error.reference == "environment-read-only"
        assert error.where == "/x"

    def test_full(self, tmp_path: Path) -> None:
        """A full disk is named by its mount point, with what is needed and what is free."""
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "x" / "y"))
        error = environment_error(full, needed=5_000_000)
        assert error.reference == "environment-unavailable"
        found = re.fullmatch(
            r"there is not enough space on the disk at (.+): 5\.0 MB are needed and .+ are free",
            error.message,
        )
        assert found is not None
        assert Path(found[1]).is_mount()
        assert tmp_path.is_relative_to(found[1])

    def test_full_for_a_copy(self, tmp_path: Path) -> None:
        """Of a copy it is the new file that has no room, not the one in the cache."""
        copy = str(tmp_path / "copy")
        error = environment_error(OSError(errno.ENOSPC, "full", "/cache/file", None, copy))
        assert error.where == copy

    def test_quota(self, tmp_path: Path) -> None:
        """Of a quota the system says what is exceeded; what is free on the disk is for others."""
        over = OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        message = environment_error(over, destination=tmp_path).message
        assert message.endswith(os.strerror(errno.EDQUOT))

    def test_other(self) -> None:
        """Anything else is told as it is."""
        error = environment_error(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        assert (error.exit_code, "Too many" in error.message) == (6, True)
