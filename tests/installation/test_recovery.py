"""Claims about what is found after a change that was killed, and made of it."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from installation.scene import (
    LIBRARY,
    NEW,
    OLD,
    THEIRS,
    change,
    files,
    fill,
    interrupt,
    journal_of,
    make,
    places_of,
    recorded,
    signed,
    tree,
)

from wheelfit.errors import NotRecoverable
from wheelfit.installation.journal import JournalStage, journal_stage_of, mark_of
from wheelfit.installation.recovery import RecoveryOutcome, recover
from wheelfit.installation.removal import files_in_record
from wheelfit.testing.file_systems import (
    FileSystemWithoutExchange,
    FullFileSystem,
    Killed,
    KillingFileSystem,
    ObservedFileSystem,
    OverlayFileSystem,
    ReadOnlyFileSystem,
)
from wheelfit.wheels.file_system import NATIVE, FileSystem

pytestmark = pytest.mark.integration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wheelfit.installation.environment_folders import EnvironmentFolders


class KillingLayers(KillingFileSystem, OverlayFileSystem):
    """Killed where folders cannot be renamed."""

    def __init__(self, after: int, below: str) -> None:
        KillingFileSystem.__init__(self, after)
        OverlayFileSystem.__init__(self, below)


class KillingWithoutExchange(FileSystemWithoutExchange, KillingFileSystem):
    """Killed where names cannot be exchanged."""


KINDS: dict[str, Callable[[int, Path], FileSystem]] = {
    "native": lambda after, _: KillingFileSystem(after),
    "layers": lambda after, root: KillingLayers(after, str(root / LIBRARY)),
    "no exchange": lambda after, _: KillingWithoutExchange(after),
}


def killed(tmp_path: Path, kind: str = "native", step: int = 1) -> Iterator[tuple[int, Path]]:
    """Yield an environment for each moment at which its change may be killed."""
    for number in range(0, 1000, step):
        root = tmp_path / f"env{number}"
        places = make(root)
        try:
            change(places, KINDS[kind](number, root))
        except Killed:
            yield number, root
            shutil.rmtree(root)
        else:
            return


@pytest.fixture
def before(tmp_path: Path) -> dict[str, str]:
    """Return the environment as it was."""
    make(tmp_path / "before")
    return tree(tmp_path / "before")


@pytest.fixture
def after(tmp_path: Path) -> dict[str, str]:
    """Return the environment as it shall be."""
    change(make(tmp_path / "after"))
    return tree(tmp_path / "after")


class TestKilled:
    """Nobody else was at work."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_old_or_new(
        self, kind: str, tmp_path: Path, before: dict[str, str], after: dict[str, str]
    ) -> None:
        """Whenever it was killed, the result is exactly the old or exactly the new."""
        seen = set()
        for number, root in killed(tmp_path, kind):
            stage = journal_stage_of(places_of(root))
            done = recover(places_of(root))
            found = tree(root)
            assert found in (before, after), number
            assert (done is None) == (number == 0)
            if done is not None:
                seen.add(done.outcome)
                assert done.notes == ()
                assert done.changes == (("install demo 2",) if stage else ())
                # What was decided is kept.
                if done.outcome is not RecoveryOutcome.CLEARED:
                    assert (found == after) == (stage is JournalStage.COMMITTED)
        assert seen == set(RecoveryOutcome)

    @pytest.mark.parametrize("kind", ["native", "layers"])
    def test_killed_again(
        self, kind: str, tmp_path: Path, before: dict[str, str], after: dict[str, str]
    ) -> None:
        """Recovery may be killed as well, and that again."""
        for number in (22, 41):
            for second in range(100):
                root = tmp_path / f"env{number}-{second}"
                places = make(root)
                with pytest.raises(Killed):
                    change(places, KINDS[kind](number, root))
                try:
                    recover(places, KillingFileSystem(second))
                except Killed:
                    pass
                else:
                    break
                with suppress(Killed):
                    recover(places, KillingFileSystem(1))
                recover(places)
                assert tree(root) in (before, after), (number, second)

    def test_nothing(self, tmp_path: Path) -> None:
        """Where nothing was begun nothing is done."""
        places = make(tmp_path / "env")
        assert recover(places) is None
        (tmp_path / "elsewhere").mkdir()
        Path(places.workplace).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(NotRecoverable, match="a link"):
            recover(places)
        assert (tmp_path / "elsewhere").exists()

    @pytest.mark.parametrize("kind", [ReadOnlyFileSystem, FullFileSystem])
    def test_no_room(
        self, kind: type[ReadOnlyFileSystem], tmp_path: Path, before: dict[str, str]
    ) -> None:
        """On a disk that cannot be written, nothing gets worse; later all is put right."""
        for _, root in killed(tmp_path, step=4):
            for allowed in range(0, 12, 3):
                with suppress(OSError):
                    recover(places_of(root), kind(allowed))
            recover(places_of(root))
            assert tree(root) == before or files(root)["bin/demo"] == "new"

    def test_moved(self, tmp_path: Path, before: dict[str, str]) -> None:
        """An environment may be moved to another place meanwhile."""
        places = make(tmp_path / "env")
        interrupt(places, 30)
        (tmp_path / "env").rename(tmp_path / "moved")
        make(tmp_path / "env")  # another one in its place is not touched
        recover(places_of(tmp_path / "moved"))
        assert tree(tmp_path / "moved") == tree(tmp_path / "env") == before


def install_by_hand(root: Path, added: dict[str, str]) -> None:
    """Do as another tool does: write files over what is there, and what lists them."""
    for name, content in added.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(content or recorded(added))


def remove_by_hand(root: Path) -> None:
    """Do as another tool does: remove what RECORD lists, and folders that become empty."""
    for record in (root / LIBRARY).glob("demo-*.dist-info"):
        for path in files_in_record(record / "RECORD", record):
            Path(path).unlink(missing_ok=True)
            for folder in Path(path).parents:
                if folder == root / LIBRARY or not folder.is_dir() or any(folder.iterdir()):
                    break
                folder.rmdir()


def is_sound(root: Path) -> None:
    """Check that everything recorded is there, and everything there is recorded."""
    listed = {
        path
        for record in (root / LIBRARY).glob("*.dist-info")
        for path in files_in_record(record / "RECORD", record)
    }
    there = {str(root / name) for name, text in tree(root).items() if text != "folder"}
    known = {str(root / name) for name in THEIRS}
    missing = [path for path in listed - there if "__pycache__" not in path]
    assert not missing
    nobodys = {
        path
        for path in there - listed - known
        if "__pycache__" not in path and not path.endswith("demo/link")
    }
    assert not nobodys


THEIR_NEW = {
    f"{LIBRARY}/demo/plugins/added.py": "theirs",
    f"{LIBRARY}/shared/added.py": "theirs",
    f"{LIBRARY}/third-1.dist-info/METADATA": "theirs",
    f"{LIBRARY}/third-1.dist-info/RECORD": "",
    "bin/third": "theirs",
}
THEIR_DEMO = {
    f"{LIBRARY}/demo/__init__.py": "theirs",
    f"{LIBRARY}/demo/third.py": "theirs",
    f"{LIBRARY}/shared/both.py": "theirs",
    f"{LIBRARY}/demo-3.dist-info/METADATA": "theirs",
    f"{LIBRARY}/demo-3.dist-info/RECORD": "",
    "bin/demo": "theirs",
}


class TestOthers:
    """Another tool changed the environment between the kill and the recovery."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_another_package(
        self, kind: str, tmp_path: Path, before: dict[str, str], after: dict[str, str]
    ) -> None:
        """What it installed beside ours, and into our folders, stays; ours is old or new."""
        for number, root in killed(tmp_path, kind, 1 if kind == "native" else 5):
            install_by_hand(root, THEIR_NEW)
            recover(places_of(root))
            found = tree(root)
            assert {name: found.get(name) for name, text in THEIR_NEW.items() if text} == {
                name: text for name, text in THEIR_NEW.items() if text
            }, number
            rest = {
                name: text
                for name, text in found.items()
                if name not in THEIR_NEW
                and not name.endswith(("demo/plugins", "third-1.dist-info"))
            }
            assert rest in (before, after), number

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_same_package(self, kind: str, tmp_path: Path) -> None:
        """If it replaced the very package, its version stays, and nothing of ours with it."""
        for number, root in killed(tmp_path, kind, 1 if kind == "native" else 5):
            remove_by_hand(root)
            install_by_hand(root, THEIR_DEMO)
            done = recover(places_of(root))
            found = files(root)
            for name, text in THEIR_DEMO.items():
                if text:
                    assert found[name] == text, (number, name)
            records = {path.name for path in (root / LIBRARY).glob("demo-*")}
            assert records == {"demo-3.dist-info"}, number
            is_sound(root)
            if done is not None and done.outcome is RecoveryOutcome.UNDONE:
                assert any("demo" in note for note in done.notes)

    def test_the_same_version(self, tmp_path: Path) -> None:
        """What it installed anew stays, also where its folders have the numbers that ours had."""
        theirs = {name: text and "theirs" for name, text in NEW.items()}
        for number, root in killed(tmp_path, step=5):
            names = [f"{LIBRARY}/demo-2.dist-info/held", f"{LIBRARY}/demo/held"]
            held = [root / name for name in names if (root / name).parent.is_dir()]
            for file in held:
                file.touch()
            remove_by_hand(root)
            for file in held:
                file.unlink()
            install_by_hand(root, theirs)
            recover(places_of(root))
            found = files(root)
            assert {name: found.get(name) for name, text in theirs.items() if text} == {
                name: text for name, text in theirs.items() if text
            }, number
            records = {path.name for path in (root / LIBRARY).glob("demo-*")}
            assert records == {"demo-2.dist-info"}, number
            is_sound(root)

    @pytest.mark.parametrize("kind", KINDS)
    def test_removed(self, kind: str, tmp_path: Path) -> None:
        """If it removed the very package, that does not come back."""
        for number, root in killed(tmp_path, kind, 1 if kind == "native" else 5):
            remove_by_hand(root)
            recover(places_of(root))
            records = {path.name for path in (root / LIBRARY).glob("demo-*")}
            assert records == set(), number
            found = files(root)
            assert {name for name in found if "theirs" not in found[name]} <= {
                name for name in found if "__pycache__" in name or name.endswith("demo/link")
            }, number

    def test_a_file_in_the_way(self, tmp_path: Path) -> None:
        """Where somebody made a file of the name of one that went, theirs stays, and it is said."""
        notes = 0
        for _, root in killed(tmp_path, step=2):
            place = root / LIBRARY / "only_old"
            if place.exists():
                continue
            place.write_text("somebody's")
            done = recover(places_of(root))
            assert place.read_text() == "somebody's"
            notes += done is not None and any("only_old" in note for note in done.notes)
        assert notes

    def test_many_added_files(self, tmp_path: Path) -> None:
        """All of them stay; the first ones are named, and the others counted."""
        notes: set[str] = set()
        for _, root in killed(tmp_path, step=2):
            folder = root / LIBRARY / "demo" / "added"
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(13):
                (folder / f"file{number:02}").write_text("somebody's")
            done = recover(places_of(root))
            assert len(list(folder.iterdir())) == 13
            notes.update(() if done is None else done.notes)
        assert "the same holds for 3 other paths" in notes

    def test_bytecode(self, tmp_path: Path, before: dict[str, str]) -> None:
        """Bytecode that Python wrote meanwhile keeps nothing back."""
        for _, root in killed(tmp_path, step=2):
            cache = root / LIBRARY / "demo" / "__pycache__"
            cache.mkdir(exist_ok=True)
            (cache / "__init__.cpython-312.pyc").write_text("new bytecode")
            recover(places_of(root))
            if (root / LIBRARY / "demo-1.dist-info").exists():
                (cache / "__init__.cpython-312.pyc").unlink(missing_ok=True)
                assert tree(root) == before


class TestJournal:
    """Journals that are not to be trusted."""

    @pytest.fixture
    def places(self, tmp_path: Path) -> EnvironmentFolders:
        """Return an environment whose change was interrupted."""
        places = make(tmp_path / "env")
        interrupt(places, 30)
        assert journal_stage_of(places) is JournalStage.JOURNAL
        return places

    @pytest.fixture
    def journal(self, places: EnvironmentFolders) -> Path:
        """Return its journal."""
        return Path(places.workplace, "journal")

    def refused(self, places: EnvironmentFolders, tmp_path: Path, match: str) -> None:
        """Check that nothing is touched."""
        found = tree(tmp_path)
        with pytest.raises(NotRecoverable, match=match) as excinfo:
            recover(places)
        assert excinfo.value.exit_code == 6
        assert tree(tmp_path) == found

    def test_torn(self, places: EnvironmentFolders, journal: Path, tmp_path: Path) -> None:
        """Half a journal is none."""
        data = journal.read_bytes()
        for size in (0, 10, 100, len(data) - 1):
            journal.write_bytes(data[:size])
            self.refused(places, tmp_path, "damaged")

    def test_edited(self, places: EnvironmentFolders, journal: Path, tmp_path: Path) -> None:
        """A byte that was changed is noticed."""
        journal.write_bytes(journal.read_bytes().replace(b"demo", b"dema"))
        self.refused(places, tmp_path, "damaged")

    def test_unreadable(self, places: EnvironmentFolders, journal: Path, tmp_path: Path) -> None:
        """A folder in its place is refused."""
        journal.unlink()
        journal.mkdir()
        self.refused(places, tmp_path, "cannot be read")

    @pytest.mark.parametrize(
        ("place", "aside"),
        [
            ("purelib/../../../outside", "purelib/.wheelfit-change/x"),
            ("purelib//etc/passwd", "purelib/.wheelfit-change/x"),
            ("/etc/passwd", "purelib/.wheelfit-change/x"),
            ("nowhere/x", "purelib/.wheelfit-change/x"),
            ("purelib/out/x", "purelib/.wheelfit-change/x"),
            ("purelib", "purelib/.wheelfit-change/x"),
            ("data/lib", "purelib/.wheelfit-change/x"),
            ("purelib/x", "purelib/demo/__init__.py"),
            ("purelib/x", "purelib/.wheelfit-change"),
            ("purelib/x", "purelib/out/.wheelfit-change/x"),
            ("purelib/x", ""),
            ("purelib/.wheelfit-change/y", "purelib/.wheelfit-change/x"),
            ("purelib/x\0", "purelib/.wheelfit-change/x"),
        ],
    )
    def test_hostile(
        self, place: str, aside: str, places: EnvironmentFolders, journal: Path, tmp_path: Path
    ) -> None:
        """A journal that came with a folder cannot move what lies outside, be it by a link."""
        (tmp_path / "outside").write_text("mine")
        (tmp_path / "elsewhere").mkdir()
        Path(places.library, "out").symlink_to(tmp_path / "elsewhere")
        for kind in ("put", "swap", "take"):
            document = journal_of(places, steps=[[kind, place, aside, [], 1, 1]])
            journal.write_bytes(signed(places, document))
            self.refused(places, tmp_path, "not valid for this environment")

    @pytest.mark.parametrize(
        "change",
        [
            {"version": 2},
            {"layout": {}},
            {"workplace": 1},
            {"steps": 1},
            {"steps": [["put"]]},
            {"changes": None},
        ],
        ids=str,
    )
    def test_other_documents(
        self, change: dict[str, Any], places: EnvironmentFolders, journal: Path, tmp_path: Path
    ) -> None:
        """Another version, another layout, and nonsense are refused."""
        journal.write_bytes(signed(places, journal_of(places, **change)))
        self.refused(places, tmp_path, "a change")

    def test_other_layout(self, places: EnvironmentFolders, tmp_path: Path) -> None:
        """Opened in another way, an environment has its folders elsewhere: that is refused."""
        other = type(places)({**places.roots, "scripts": str(tmp_path / "bin")})
        self.refused(other, tmp_path, "other folders")

    def test_folders(self, tmp_path: Path) -> None:
        """What names folders made elsewhere, though signed, cannot remove what is not ours."""
        places = make(tmp_path / "env")
        (tmp_path / "mine" / ".wheelfit-change").mkdir(parents=True)
        Path(places.library, "demo", ".wheelfit-change").mkdir()
        Path(places.library, "demo", ".wheelfit-change", "x").write_text("mine")
        (tmp_path / "env" / "share").mkdir()
        for document in (
            {"workplaces": ["../../mine/.wheelfit-change", "purelib/demo"], "made": {}},
            {"workplaces": ["purelib/demo"], "made": {"nowhere": 1}},
            {"workplaces": ["purelib/demo/.wheelfit-change"], "made": {"purelib": "x"}},
            {"workplaces": ["purelib/demo/.wheelfit-change"], "made": {}},
            ["nonsense"],
        ):
            for number in (0, 1):
                Path(places.workplace).mkdir(mode=0o700)
                with NATIVE.limited_to([places.library]) as disk:
                    Path(places.workplace, mark_of(places, places.workplace, disk)).touch()
                here = Path(places.workplace).stat().st_ino + number
                said = {"workplace": here, **document} if isinstance(document, dict) else document
                Path(places.workplace, "folders").write_bytes(signed(places, said))
                done = recover(places)
                assert done is not None
                assert done.created == ()
                assert (tmp_path / "mine" / ".wheelfit-change").exists()
                assert Path(places.library, "demo", ".wheelfit-change", "x").exists()


def test_all_is_told(tmp_path: Path) -> None:
    """What was done is said in a sentence, with what the change was."""
    places = make(tmp_path)
    interrupt(places, 30)
    assert str(recover(places)) == "an interrupted change was undone: install demo 2"


def test_scene(tmp_path: Path) -> None:
    """The environment of these tests is sound before and after."""
    places = make(tmp_path)
    is_sound(tmp_path)
    change(places)
    is_sound(tmp_path)
    assert not (OLD.keys() - NEW.keys()) & files(tmp_path).keys()
    fill(tmp_path, {"x": "x"})
    assert isinstance(NATIVE, ObservedFileSystem) is False
