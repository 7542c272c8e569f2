"""Claims about the store of unpacked wheels."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.cache import Store
from wheelfit.sources.local_files import LocalFiles
from wheelfit.sources.page import File
from wheelfit.sources.progress import Progress
from wheelfit.sources.wheel_store import WheelStore
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import add_member, build_wheel
from wheelfit.wheels.disk_operations import AnyPath
from wheelfit.wheels.file_system import FileSystem
from wheelfit.wheels.unpacked import MANIFEST, UnpackedWheel
from wheelfit_runtime.errors import FileProblem, HashMismatch, InvalidWheel


class Place:
    """Hold a wheel, a cache and what is said of both."""

    def __init__(self, base: Path) -> None:
        self.cache = base / "cache"
        self.scratch = base / "scratch"
        self.scratch.mkdir()
        self.path = build_wheel(
            base / "wheels", "demo", "1", files={"demo.py": "1", "demo/large": bytes(3 << 20)}
        )
        self.notes: list[str] = []

    @property
    def sha256(self) -> str:
        """The hash of the wheel."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def file(self, **hashes: str) -> File:
        """List the wheel."""
        return File(self.path.name, self.path.as_uri(), hashes)

    def store(self, files: FileSystem | None = None) -> WheelStore:
        """Open the store, as another process would."""
        store = Store(self.cache, note=self.notes.append)
        return WheelStore(store, note=self.notes.append, files=files or FileSystem())

    def unpacked(self, progress: Progress | None = None, **hashes: str) -> UnpackedWheel:
        """Return the wheel unpacked, from the cache or not."""
        files = LocalFiles(self.store())
        return files.unpacked(self.file(**hashes), self.scratch, progress or Progress())

    def read(self, later: float | None = None) -> int:
        """Return how many bytes of the wheel are read to have it unpacked."""
        clock = time.time if later is None else lambda: later
        store = WheelStore(Store(self.cache), clock=clock)
        progress = Counting()
        LocalFiles(store).unpacked(self.file(), self.scratch, progress)
        return progress.count

    def left(self) -> list[str]:
        """Return every file in the cache but entries of other kinds, by name."""
        folder = self.cache / "unpacked-1"
        return sorted(p.name for p in folder.rglob("*") if p.name.startswith(".") or p.is_file())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a wheel and an empty cache."""
    return Place(tmp_path)


class Counting(Progress):
    """Count the bytes that are read."""

    def __init__(self) -> None:
        self.count = 0

    def advance(self, count: int) -> None:
        """Count."""
        self.count += count

    def unpacking(self, total: int) -> Progress:  # noqa: ARG002
        """Count nothing of it."""
        return Progress()


class TestKept:
    """Wheels that were unpacked before."""

    def test_once(self, place: Place) -> None:
        """What is kept is not unpacked again, and no lock or temporary folder stays."""
        first = place.unpacked()
        again = place.unpacked(sha256=place.sha256)
        assert first.folder == again.folder
        assert place.cache in first.folder.parents
        assert dict(first.files) == dict(again.files)
        assert not list(place.scratch.iterdir())
        assert not [name for name in place.left() if name.startswith(".")]
        assert place.notes == []

    def test_a_local_file_is_read_once(self, place: Place) -> None:
        """A file that looks as it did when its hash was taken is not read again."""
        size = place.path.stat().st_size
        # Of a file that was changed a moment ago the next change may not show.
        later = time.time() + 60
        assert [place.read(**said) for said in ({}, {"later": later}, {"later": later})] == [
            size,
            size,
            0,
        ]
        os.utime(place.path)
        assert place.read(later=later) == size

    def test_labelled_file_keeps_its_published_name(self, place: Place) -> None:
        """A wheel with a label from a file beside it is unpacked under the name of its archive."""
        now = time.time() + 3600
        store = WheelStore(Store(place.cache), clock=lambda: now)
        filename = f"{place.path.stem}-cu12.whl"
        file = File(filename, place.path.as_uri(), declared_document=b"{}")
        wheels = [LocalFiles(store).unpacked(file, place.scratch) for _ in range(2)]
        assert [wheel.filename.text for wheel in wheels] == [place.path.name] * 2

    def test_other_bytes_under_the_same_name(self, place: Place) -> None:
        """A file that was replaced is another wheel."""
        first = place.unpacked()
        build_wheel(place.path.parent, "demo", "1", files={"demo.py": "2"})
        again = place.unpacked()
        assert again.folder != first.folder
        assert again.read("demo.py") == b"2"

    def test_a_promise_that_is_not_met(self, place: Place) -> None:
        """A kept wheel does not excuse a file that has another hash than promised."""
        place.unpacked()
        with pytest.raises(HashMismatch):
            place.unpacked(sha256="ab" * 32)
        with pytest.raises(HashMismatch):
            place.unpacked(sha256=place.sha256, md5="ab" * 16)

    def test_another_release(self, place: Place) -> None:
        """F-27: the bytes of one release are not taken for another one."""
        place.unpacked()
        other = place.path.rename(place.path.with_name("demo-2-py3-none-any.whl"))
        file = File(other.name, other.as_uri())
        with pytest.raises(InvalidWheel, match="does not match"):
            LocalFiles(place.store()).unpacked(file, place.scratch)


class TestDamaged:
    """Entries that are not as they were."""

    @pytest.mark.parametrize("name", ["demo.py", "demo/large"])
    def test_an_edited_file(self, place: Place, name: str) -> None:
        """A file that was edited through a link is never linked again; a note says so."""
        path = place.unpacked().path_of(name)
        link = place.scratch / "link"
        link.hardlink_to(path)
        link.write_bytes(b"3" * path.stat().st_size)
        os.utime(link, ns=(0, 0))
        again = place.unpacked()
        with zipfile.ZipFile(place.path) as archive:
            assert again.read(name) == archive.read(name)
        assert len(place.notes) == 1
        assert f"{name} of the unpacked" in place.notes[0]
        assert link.read_bytes().startswith(b"3")

    def test_a_damaged_manifest(self, place: Place) -> None:
        """An entry whose description is damaged is made anew."""
        manifest = place.unpacked().folder / MANIFEST
        data = manifest.read_bytes()
        for damaged in (b"", data[:-1], data.replace(b"demo", b"demi", 1)):
            manifest.write_bytes(damaged)
            assert place.unpacked().changed() is None
            assert manifest.read_bytes() != damaged

    def test_something_else_has_the_name(self, place: Place) -> None:
        """What is not an entry gives way to one."""
        folder = place.unpacked().folder
        (folder / MANIFEST).unlink()
        assert place.unpacked().folder == folder
        assert (folder / MANIFEST).is_file()

    def test_an_unsound_wheel(self, place: Place) -> None:
        """Nothing stays of a wheel that fails a check."""
        with zipfile.ZipFile(place.path, "a") as archive:
            add_member(archive, "unrecorded.py", b"")
        with pytest.raises(InvalidWheel, match="RECORD does not list"):
            place.unpacked()
        assert place.left() == []
        assert not list(place.scratch.iterdir())


class TestFailures:
    """A cache that cannot be used, and processes that were killed."""

    def test_a_cache_that_cannot_be_written(self, place: Place) -> None:
        """Then a wheel lies in the folder of the call; that costs a note and nothing else."""
        place.cache.write_text("no folder")
        wheel = place.unpacked()
        assert place.scratch in wheel.folder.parents
        assert wheel.changed() is None
        assert len(place.notes) == 1
        assert "nothing is cached" in place.notes[0]

    def test_no_room_at_all(self, place: Place) -> None:
        """Where neither can be written an error says so."""
        place.cache.write_text("no folder")
        place.scratch.rmdir()
        with pytest.raises(FileProblem, match="cannot be unpacked"):
            place.unpacked()

    def test_what_the_dead_left(self, place: Place) -> None:
        """What a killed process left of a wheel goes when the wheel is fetched again."""
        name = place.sha256
        folder = place.cache / "unpacked-1" / name[:2]
        mine = folder / f".{name[2:18]}-abc.part" / "tree"
        other = folder / ".0123456789abcdef-abc.part"
        for path in (mine, other):
            path.mkdir(parents=True)
        (folder / f".{name[2:]}.lock").touch()
        place.unpacked()
        assert not mine.parent.exists()
        assert other.exists()
        assert not (folder / f".{name[2:]}.lock").exists()

    def test_whoever_waits_can_be_stopped(self, place: Place) -> None:
        """Waiting for another process ends when its result is not wanted any more."""

        class Enough(Exception):
            """Say so."""

        class Impatient(Progress):
            def advance(self, count: int) -> None:
                if not count:
                    raise Enough

        with place.store().exclusive(place.sha256), pytest.raises(Enough):
            place.unpacked(Impatient())

    def test_on_the_disk_before_its_name(self, place: Place) -> None:
        """All contents are on the disk before the entry has its name."""
        steps: list[tuple[str, object]] = []

        class Recording(FileSystem):
            def sync_tree(self, folder: AnyPath) -> None:
                steps.append(("sync", (Path(folder) / MANIFEST).is_file()))
                super().sync_tree(folder)

            def move(self, source: AnyPath, target: AnyPath) -> None:
                steps.append(("move", Path(target).name))
                super().move(source, target)

        LocalFiles(place.store(Recording())).unpacked(place.file(), place.scratch)
        name = place.sha256
        assert steps == [("sync", True), ("move", name[2:])]


_FETCH = """
import sys
from pathlib import Path
from wheelfit.sources.open import open_sources
from wheelfit.sources.settings import SourceSettings
url, cache, scratch = sys.argv[1:]
settings = SourceSettings(index_url=url)
with open_sources(settings, cache_folder=Path(cache), environ={}) as sources:
    sys.stdin.read()
    (file,) = sources.project("demo").files
    print(sources.unpacked(file, Path(scratch)).folder)
"""


@pytest.mark.integration
def test_many_processes(place: Place) -> None:
    """Of many processes one fetches a wheel, and all use what it unpacked."""
    with RecordingIndex(place.path.parent) as index:
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", _FETCH, index.url, place.cache, place.scratch],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(6)
        ]
        said = {process.communicate()[0] for process in processes}
        assert [process.returncode for process in processes] == [0] * 6
        sent = sum(
            request.sent for request in index.requests if request.path.endswith(place.path.name)
        )
    assert sent == place.path.stat().st_size
    (folder,) = said
    assert Path(folder.strip(), MANIFEST).is_file()
    filename = parse_wheel_filename(place.path.name)
    wheel = place.store().find(place.sha256, filename, where="here")
    assert wheel is not None
    assert wheel.changed() is None
    assert not [name for name in place.left() if name.startswith(".")]
