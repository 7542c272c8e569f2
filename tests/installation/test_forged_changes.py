"""Attacks by what somebody left in an environment: forged changes, and links that lead out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from installation.scene import (
    LIBRARY,
    change,
    forged,
    interrupt,
    journal_of,
    make,
    places_of,
    removed_files,
    signed,
    tree,
    untouched,
)

from wheelfit.errors import LinkRefused, NotRecoverable
from wheelfit.installation.change_signatures import Signer
from wheelfit.installation.environment_folders import LOCK_FILE, WORKPLACE, EnvironmentFolders
from wheelfit.installation.journal import FOLDERS, MARK, check_workplace, mark_of, mark_workplace
from wheelfit.installation.recovery import recover
from wheelfit.installation.transaction import Transaction
from wheelfit.testing.file_systems import (
    FileSystemWithoutOwners,
    Killed,
    KillingFileSystem,
    ObservedFileSystem,
)
from wheelfit.wheels.file_system import NATIVE
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform == "win32", reason="plays with links of POSIX"),
]


@pytest.fixture
def places(tmp_path: Path) -> EnvironmentFolders:
    """Return a small environment."""
    return make(tmp_path / "env")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder of the user's that is none of the environment's business."""
    folder = tmp_path / "victim"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "thesis.txt").write_text("years of work")
    (folder / "thesis.txt").write_text("years of work")
    return folder


def refused(places: EnvironmentFolders, tmp_path: Path, match: str) -> None:
    """Check that recovering and changing are refused, and that nothing is touched."""
    before = tree(tmp_path)
    with pytest.raises(NotRecoverable, match=match) as excinfo:
        recover(places)
    assert excinfo.value.hint
    assert tree(tmp_path) == before
    with pytest.raises(WheelfitError):
        change(places)
    assert tree(tmp_path) == before


class TestForged:
    """A workplace that the user's own wheelfit did not make."""

    def test_workplaces_elsewhere(
        self, places: EnvironmentFolders, victim: Path, tmp_path: Path
    ) -> None:
        """A list of workplaces empties no folder through a link, whichever way it is written."""
        (Path(places.library) / "x").mkdir()
        (Path(places.library) / "x" / WORKPLACE).symlink_to(victim)
        Path(places.workplace).mkdir()
        document = {"workplaces": [f"purelib/x/{WORKPLACE}"], "made": {}}
        number = Path(places.workplace).stat().st_ino
        for data in (json.dumps(document).encode(), forged({**document, "workplace": number})):
            Path(places.workplace, FOLDERS).write_bytes(data)
            refused(places, tmp_path, "was not started by you")

    def test_made_folders(self, places: EnvironmentFolders, tmp_path: Path) -> None:
        """A list of folders that were made removes none of the user's."""
        Path(places.workplace).mkdir()
        Path(places.workplace, FOLDERS).write_bytes(
            forged({"workplace": 1, "workplaces": [], "made": {"headers": 99}})
        )
        (tmp_path / "env" / "include" / "site").mkdir(parents=True)
        refused(places, tmp_path, "was not started by you")

    def test_journal(self, places: EnvironmentFolders, victim: Path, tmp_path: Path) -> None:
        """A journal with a right checksum moves nothing."""
        Path(places.workplace).mkdir()
        Path(places.workplace, "evil").write_text("evil")
        (Path(places.library) / "out").symlink_to(victim)
        for place in ("purelib/out/evil", "purelib/evil"):
            for stage in ("journal", "committed", "undone"):
                step = ("take", place, f"purelib/{WORKPLACE}/evil", (), 0, 1)
                document = journal_of(places, steps=[step])
                Path(places.workplace, stage).write_bytes(forged(document))
                refused(places, tmp_path, "was not started by you")
                Path(places.workplace, stage).unlink()

    def test_journal_in_a_workplace_of_ours(
        self, places: EnvironmentFolders, tmp_path: Path
    ) -> None:
        """Another journal in the place of ours is none, though all around it is ours."""
        interrupt(places, 26)
        journal = Path(places.workplace, "journal")
        body = journal.read_bytes().partition(b"\n")[2]
        journal.write_bytes(forged(json.loads(body)))
        with untouched(tmp_path), pytest.raises(NotRecoverable, match="not written by you"):
            recover(places)

    def test_signed_journal_with_wrong_types(
        self, places: EnvironmentFolders, tmp_path: Path
    ) -> None:
        """A journal with a signature is refused too if a path in it is no text."""
        Path(places.workplace).mkdir(mode=0o700)
        mark_workplace(places, places.workplace, NATIVE, created=True)
        document = journal_of(places, steps=[("take", 1, f"purelib/{WORKPLACE}/x", (), 0, 1)])
        Path(places.workplace, "journal").write_bytes(signed(places, document))
        with untouched(tmp_path), pytest.raises(NotRecoverable, match="is not valid"):
            recover(places)

    @pytest.mark.parametrize("kind", ["folder", "file", "nothing", "itself"])
    def test_a_link(
        self, places: EnvironmentFolders, victim: Path, tmp_path: Path, kind: str
    ) -> None:
        """A workplace that is a link is not followed, by recovery nor by the next change."""
        to = {
            "folder": victim,
            "file": victim / "thesis.txt",
            "nothing": victim / "new",
            "itself": Path(WORKPLACE),
        }[kind]
        Path(places.workplace).symlink_to(to)
        refused(places, tmp_path, "a link is in the place")

    def test_a_file(self, places: EnvironmentFolders, tmp_path: Path) -> None:
        """A file in its place is said to be one."""
        Path(places.workplace).write_text("")
        refused(places, tmp_path, "a file is in the place")

    @pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
    def test_writable(self, places: EnvironmentFolders, tmp_path: Path, mode: int) -> None:
        """What other users can write is not followed, though the user made it."""
        interrupt(places, 26)
        assert Path(places.workplace).stat().st_mode & 0o777 == 0o700
        Path(places.workplace).chmod(mode)
        refused(places, tmp_path, "other users can write")

    @pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
    )
    def test_of_another_user(self, places: EnvironmentFolders, tmp_path: Path) -> None:
        """What another user began is reported."""
        interrupt(places, 26)
        os.chown(places.workplace, 12345, 12345)
        refused(places, tmp_path, "another user's")
        os.chown(places.workplace, 0, 0)
        os.chown(Path(places.workplace, "journal"), 12345, 12345)
        with pytest.raises(NotRecoverable, match="not written by you"):
            recover(places)

    def test_another_secret(self, places: EnvironmentFolders, tmp_path: Path) -> None:
        """With another secret, as in another home, it is reported."""
        interrupt(places, 26)
        other = EnvironmentFolders(places.roots, Signer(tmp_path / "state"))
        found = tree(tmp_path / "env")
        with pytest.raises(NotRecoverable, match="was not started by you"):
            recover(other)
        assert tree(tmp_path / "env") == found


@pytest.mark.parametrize("owner", [0, 1000, 65534])
class TestWithoutOwners:
    """Where all files belong to one user and everybody may write, as on FAT or a share."""

    def test_a_change(self, places: EnvironmentFolders, tmp_path: Path, owner: int) -> None:
        """A change is made there, and nothing is left of it."""
        change(places, FileSystemWithoutOwners(owner))
        assert (tmp_path / "env" / LIBRARY / "only_new.py").exists()
        assert not Path(places.workplace).exists()

    def test_recovery(self, places: EnvironmentFolders, tmp_path: Path, owner: int) -> None:
        """One that was interrupted is undone by who has the secret, and by nobody else."""
        before = tree(tmp_path / "env")
        interrupt(places, 26)
        disk = FileSystemWithoutOwners(owner)
        for mark in Path(places.workplace).glob(f"{MARK}*"):
            mark.rename(mark.with_name(mark_of(places, places.workplace, disk)))
        other = EnvironmentFolders(places.roots, Signer(tmp_path / "state"))
        with pytest.raises(NotRecoverable):
            recover(other, disk)
        recover(places, disk)
        assert tree(tmp_path / "env") == before


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)
def test_a_workplace_that_was_exchanged(places: EnvironmentFolders) -> None:
    """What another user puts in the place of the one just made is refused all the same."""
    Path(places.workplace).mkdir()
    os.chown(places.workplace, 12345, 12345)
    with pytest.raises(NotRecoverable, match="another user's"):
        mark_workplace(places, places.workplace, NATIVE, created=True)
    os.chown(places.workplace, 0, 0)
    Path(places.workplace).chmod(0o777)
    with pytest.raises(NotRecoverable, match="other users can write"):
        mark_workplace(places, places.workplace, NATIVE, created=True)
    assert not list(Path(places.workplace).iterdir())


COPIES: dict[str, Callable[[Path, Path], object]] = {
    "cp": lambda one, other: subprocess.run(["cp", "-a", one, other], check=True),
    "tar": lambda one, other: shutil.unpack_archive(
        shutil.make_archive(f"{other}-packed", "tar", one), other
    ),
    "links": lambda one, other: subprocess.run(["cp", "-al", one, other], check=True),
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("after", [4, 12, 22, 26, 36])
def test_copies(places: EnvironmentFolders, tmp_path: Path, way: str, after: int) -> None:
    """An interrupted change that was copied is none, however far it was; the original still is."""
    before = tree(tmp_path / "env")
    with suppress(Killed):
        change(places, KillingFileSystem(after))
    found = tree(tmp_path / "env")
    COPIES[way](tmp_path / "env", tmp_path / "copy")
    copied = tree(tmp_path / "copy")
    if Path(places.workplace).exists():
        with pytest.raises(NotRecoverable, match="copied"):
            recover(places_of(tmp_path / "copy"))
    assert tree(tmp_path / "copy") == copied == found
    recover(places)
    assert tree(tmp_path / "env") == before or "only_new.py" in str(tree(tmp_path / "env"))


def test_git(places: EnvironmentFolders, tmp_path: Path) -> None:
    """What came with a clone is never the journal of a change."""
    interrupt(places, 26)
    if shutil.which("git") is None:
        pytest.skip("git is not here")
    configured = ["git", "-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    for words in (["init", "-q"], ["add", "-Af"], ["commit", "-qm", "x"]):
        subprocess.run([*configured, *words], check=True, cwd=tmp_path / "env")
    subprocess.run(["git", "clone", "-q", tmp_path / "env", tmp_path / "clone"], check=True)
    clone = places_of(tmp_path / "clone")
    assert Path(clone.workplace, "journal").exists()
    refused(clone, tmp_path / "clone" / "lib", "clone")


def test_every_moment(tmp_path: Path) -> None:
    """Whenever a process is killed, what it left is known again by who has the secret."""
    refusals = 0
    for number in range(1000):
        places = make(tmp_path / "env")
        try:
            change(places, KillingFileSystem(number))
        except Killed:
            other = EnvironmentFolders(places.roots, Signer(tmp_path / "state"))
            if Path(places.workplace).exists() and list(Path(places.workplace).iterdir()):
                with pytest.raises(NotRecoverable):
                    recover(other)
                refusals += 1
            recover(places)
            assert not Path(places.workplace).exists()
            shutil.rmtree(tmp_path / "env")
        else:
            break
    assert refusals > 20


def staged_change(places: EnvironmentFolders, before: Callable[[str], None]) -> None:
    """Change the environment as an installation does, which writes through open folders too."""
    with Transaction(places, file_system=ObservedFileSystem(before)) as transaction:
        stage = transaction.stage("purelib")
        for folder in ("demo", "shared"):
            transaction.files.make_folder(stage / folder)
            transaction.files.write(stage / folder / "new.py", b"new")
        transaction.switch(removed_files(places), changes=["install demo 2"])


def at_every_moment(
    folder: Path, name: str, victim: Path, attack: Callable[[Path, Callable[[str], None]], None]
) -> None:
    """Let a folder give way to a link at each moment of an attack, which changes nothing outside.

    :param attack: changes an environment, with a function to call before each call of the system.
    """
    theirs = tree(victim)
    swapped = 0
    for moment in range(200):
        root = folder / f"env{moment}"
        left = [moment]
        target = root / LIBRARY / name

        def swap(_: str, left: list[int] = left, target: Path = target) -> None:
            left[0] -= 1
            if left[0] == -1 and target.exists():
                target.rename(target.with_name("away"))
                target.symlink_to(victim)

        attack(root, swap)
        assert tree(victim) == theirs, moment
        swapped += (root / LIBRARY / "away").exists()
        shutil.rmtree(root)
        if left[0] >= 0:
            break
    assert swapped


@pytest.mark.parametrize("name", ["shared", "demo", WORKPLACE])
class TestRaces:
    """A folder gives way to a link while a change is going on."""

    def test_at_every_moment(self, tmp_path: Path, victim: Path, name: str) -> None:
        """Whenever that happens, nothing is written, moved or removed outside."""
        theirs = tree(victim)

        def attack(root: Path, swap: Callable[[str], None]) -> None:
            places = make(root)
            with suppress(OSError, WheelfitError):
                staged_change(places, swap)
            assert tree(victim) == theirs
            with suppress(OSError, WheelfitError):
                recover(places)

        at_every_moment(tmp_path, name, victim, attack)

    def test_while_recovering(self, tmp_path: Path, victim: Path, name: str) -> None:
        """Nor while a change is undone or cleared away."""
        (victim / "journal").write_text("theirs")

        def attack(root: Path, swap: Callable[[str], None]) -> None:
            places = make(root)
            interrupt(places, 27)
            with suppress(OSError, WheelfitError):
                recover(places, ObservedFileSystem(swap))

        at_every_moment(tmp_path, name, victim, attack)


class TestLinksWithin:
    """Links within an environment are followed when a change is planned."""

    def test_a_package_elsewhere_within(self, tmp_path: Path) -> None:
        """A package that is a link to another folder of the environment is changed there."""
        places = make(tmp_path / "env")
        root = tmp_path / "env"
        (root / LIBRARY / "shared").rename(root / "moved")
        (root / LIBRARY / "shared").symlink_to("../../moved")
        change(places)
        assert (root / LIBRARY / "shared").is_symlink()
        assert (root / "moved" / "new.py").read_text() == "new"
        assert (root / "moved" / "theirs.py").exists()
        assert not (root / "moved" / "old.py").exists()

    def test_a_package_outside(self, tmp_path: Path, victim: Path) -> None:
        """One that leads out is refused before anything is changed."""
        places = make(tmp_path / "env")
        shutil.rmtree(tmp_path / "env" / LIBRARY / "shared")
        (tmp_path / "env" / LIBRARY / "shared").symlink_to(victim)
        with untouched(tmp_path), pytest.raises(LinkRefused):
            change(places)

    def test_what_goes_outside(self, tmp_path: Path, victim: Path) -> None:
        """What was recorded behind a link that leads out is not removed."""
        places = make(tmp_path / "env")
        (tmp_path / "env" / LIBRARY / "out").symlink_to(victim)
        before = tree(tmp_path)
        with pytest.raises(LinkRefused), Transaction(places) as transaction:
            transaction.switch(removed_files(places, f"{places.library}/out/thesis.txt"))
        assert tree(tmp_path) == before


class TestSeal:
    """The secret of a user."""

    def test_kept(self, tmp_path: Path) -> None:
        """It is made once, for its user alone."""
        folder = tmp_path / "home" / "state"
        one = Signer(folder).of("x", 1, b"y")
        assert Signer(folder).of("x", 1, b"y") == one
        assert Signer(folder).is_of(one, "x", 1, b"y")
        assert not Signer(folder).is_of(one, "x1", b"y")
        assert not Signer(folder).is_of("\udcff", "x")
        assert Signer(tmp_path / "other").of("x", 1, b"y") != one
        assert folder.stat().st_mode & 0o777 == 0o700
        assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600]

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda folder: (folder / "secret").chmod(0o640),
            lambda folder: folder.chmod(0o770),
            lambda folder: (folder / "secret").write_bytes(b"short"),
            lambda folder: (
                (folder / "secret").rename(folder / "x"),
                (folder / "secret").symlink_to("x"),
            ),
        ],
        ids=["others read it", "others write the folder", "not whole", "a link"],
    )
    def test_not_relied_on(self, tmp_path: Path, spoil: Callable[[Path], object]) -> None:
        """One that others may know or have made does not count; a change goes on without."""
        one = Signer(tmp_path / "state").of("x")
        spoil(tmp_path / "state")
        signer = Signer(tmp_path / "state")
        assert not signer.is_of(one, "x")
        assert signer.storage_problem
        places = EnvironmentFolders(make(tmp_path / "env").roots, signer)
        change(places)
        assert tree(tmp_path / "env")["bin/demo"] == "new"

    def test_none_can_be_kept(self, tmp_path: Path) -> None:
        """Without a place for it a change is made, and undone after an error."""
        (tmp_path / "file").write_text("")
        for signer in (Signer(None), Signer(tmp_path / "file" / "state")):
            places = EnvironmentFolders(make(tmp_path / "env").roots, signer)
            before = tree(tmp_path / "env")

            def fail(method: str) -> None:
                if method == "exchange":
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                change(places, ObservedFileSystem(fail))
            assert signer.storage_problem
            assert tree(tmp_path / "env") == before
            shutil.rmtree(tmp_path / "env")


def test_marks(places: EnvironmentFolders) -> None:
    """The mark of one workplace is not that of another."""
    Path(places.workplace).mkdir(mode=0o700)
    with NATIVE.limited_to(places.roots.values()) as disk:
        check_workplace(places, places.workplace, disk)  # an empty one is nobody's
        Path(places.workplace, f"{MARK}{'0' * 32}").touch()
        with pytest.raises(NotRecoverable):
            check_workplace(places, places.workplace, disk)
        Path(places.workplace, mark_of(places, places.workplace, disk)).touch()
        check_workplace(places, places.workplace, disk)


def test_nothing_is_left(places: EnvironmentFolders, tmp_path: Path) -> None:
    """After a change neither the lock nor a mark is there."""
    change(places)
    names = [path.name for path in tmp_path.rglob("*")]
    assert not [name for name in names if name.startswith(MARK) or name in {WORKPLACE, LOCK_FILE}]
