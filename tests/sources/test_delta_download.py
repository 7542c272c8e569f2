"""A wheel put together from a kept sibling, and everything that may speak against it."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.errors import TooLarge
from wheelfit.sources.cache import Store
from wheelfit.sources.delta_download import DeltaDownload, begin_delta_download
from wheelfit.sources.download_limits import DownloadBudget
from wheelfit.sources.page import File
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit.sources.remote_files import RemoteFiles
from wheelfit.sources.segmented_download import UnusableDownload
from wheelfit.sources.wheel_store import Sibling
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.remote import RangeUnsupported
from wheelfit.wheels.unpacked import UnpackedWheel
from wheelfit.wheels.unpacking import unpack
from wheelfit_runtime.errors import InvalidWheel

SIZE = 5 << 20
NOISE = random.Random(1).randbytes(SIZE)
DOCUMENT = release_document(
    {label: {"n": {"f": [label[-1]]}} for label in ("v1", "v2")}, static={"n": {"f": ["1", "2"]}}
)


def build(
    folder: Path, label: str, version: str = "1", files: dict[str, bytes] | None = None
) -> Path:
    """Build a large variant wheel; those of one release share all but their label."""
    contents = {"a/__init__.py": b"", "a/data": NOISE, **(files or {})}
    return build_wheel(folder, "a", version, label=label, document=DOCUMENT, files=contents)


@dataclass(frozen=True)
class Kept:
    """Know some kept wheels."""

    wheels: tuple[Sibling, ...]

    def siblings(self, name: str, least: int) -> Iterator[Sibling]:
        """Yield those that are large enough."""
        assert name == "a"
        yield from (each for each in self.wheels if each.archive.stat().st_size >= least)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give wheels of one project."""
    folder = tmp_path_factory.mktemp("shelf")
    other = random.Random(2).randbytes(SIZE)
    return {
        "v1": build(folder, "v1"),
        "v2": build(folder, "v2"),
        "newer": build(folder, "v2", "2"),
        "different": build(folder, "v1", "3", {"a/data": other}),
        "front": build(folder, "v2", "5", {"a/__init__.py": b"another beginning"}),
        "half": build(folder, "v1", "4", {"a/more": other}),
    }


@pytest.fixture
def keep(shelf: dict[str, Path], tmp_path: Path) -> Callable[[str], Sibling]:
    """Give a function that unpacks a wheel as a cache has it."""

    def kept(name: str) -> Sibling:
        folder = tmp_path / f"kept-{name}"
        folder.mkdir()
        archive = folder / shelf[name].name
        shutil.copy(shelf[name], archive)
        with WheelArchive(archive) as wheel:
            return Sibling(archive, unpack(wheel, folder, sha256=digest(archive)))

    return kept


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def listed(server: Any, path: Path, **more: Any) -> File:
    """Serve a wheel with ranges and return its entry."""
    file: File = server.listed(path, **{"size": path.stat().st_size, **more})
    return file


@pytest.fixture
def begin(make_client: Any, target: BinaryIO) -> Callable[..., DeltaDownload | None]:
    """Give a function that begins an exchange."""

    def begun(file: File, *siblings: Sibling, **options: Any) -> DeltaDownload | None:
        settings: dict[str, Any] = {"budget": DownloadBudget(), "progress": NO_PROGRESS}
        return begin_delta_download(
            make_client(), file, Kept(siblings).siblings, target, **settings | options
        )

    return begun


def unpacked(begun: DeltaDownload, file: File, folder: Path) -> UnpackedWheel:
    """Unpack what was put together."""

    def finished() -> str:
        begun.finish()
        return file.hashes["sha256"]

    folder.mkdir()
    with begun, WheelArchive(begun.source, parse_wheel_filename(file.filename)) as archive:
        return unpack(archive, folder, sha256=finished, find_verified=begun.find_verified)


def fetched(server: Any) -> int:
    """Return how many bytes the server was asked for by ranges."""
    count = 0
    for request in server.requests:
        first, _, last = request.headers["range"].removeprefix("bytes=").partition("-")
        count += int(last) - int(first) + 1 if first else int(last)
    return count


# --- how it goes well -----------------------------------------------------------------


def test_sibling_variant_costs_a_few_kilobytes(
    server: Any, shelf: Any, keep: Any, begin: Any, tmp_path: Path
) -> None:
    """Of a wheel that differs in its label one small range is fetched, and it is the wheel."""
    file = listed(server, shelf["v2"])
    begun = begin(file, keep("v1"))
    assert begun.source.read_at(0, SIZE * 2) == shelf["v2"].read_bytes()
    wheel = unpacked(begun, file, tmp_path / "new")
    assert len(server.requests) == 1
    assert fetched(server) < 20_000
    assert wheel.read("a/data") == NOISE
    assert not begun.keeps_archive
    assert keep("v2").wheel.files.keys() == wheel.files.keys()


def test_equal_files_are_linked(
    server: Any, shelf: Any, keep: Any, begin: Any, tmp_path: Path
) -> None:
    """A large file of both wheels takes its place on the disk once; one that differs is written."""
    sibling, file = keep("v1"), listed(server, shelf["v2"])
    wheel = unpacked(begin(file, sibling), file, tmp_path / "new")
    assert wheel.path_of("a/data").samefile(sibling.wheel.path_of("a/data"))
    document = f"{wheel.dist_info}/variant.json"
    assert wheel.read(document) != sibling.wheel.read(document)
    assert wheel.changed() is None
    assert sibling.wheel.changed() is None


def test_other_version_with_renamed_folder(
    server: Any, shelf: Any, keep: Any, begin: Any, tmp_path: Path
) -> None:
    """What has another name, as all of dist-info in another version, is found by its content."""
    file = listed(server, shelf["newer"])
    wheel = unpacked(begin(file, keep("v2")), file, tmp_path / "new")
    assert fetched(server) < 20_000
    assert wheel.read("a/data") == NOISE


def test_wheel_that_begins_otherwise(
    server: Any, shelf: Any, keep: Any, begin: Any, tmp_path: Path
) -> None:
    """What was hashed of the sibling beforehand does not count where the wheel begins otherwise."""
    file = listed(server, shelf["front"])
    wheel = unpacked(begin(file, keep("v2")), file, tmp_path / "new")
    assert fetched(server) < 20_000
    assert wheel.read("a/__init__.py") == b"another beginning"


def test_best_of_several(server: Any, shelf: Any, keep: Any, begin: Any, tmp_path: Path) -> None:
    """The sibling that shares most is taken, and the one that cannot be read is passed over."""
    broken = keep("v2")
    broken.archive.write_bytes(bytes(SIZE))
    file = listed(server, shelf["newer"])
    begun = begin(file, broken, keep("different"), keep("v1"))
    unpacked(begun, file, tmp_path / "new")
    assert fetched(server) < 20_000


def test_much_of_its_own_is_kept_as_a_whole(
    server: Any, shelf: Any, keep: Any, begin: Any, tmp_path: Path
) -> None:
    """Where half must be fetched, the target ends as the wheel itself."""
    file = listed(server, shelf["half"])
    begun = begin(file, keep("v1"))
    assert begun.keeps_archive
    unpacked(begun, file, tmp_path / "new")
    assert (tmp_path / "target").read_bytes() == shelf["half"].read_bytes()
    assert SIZE / 2 < fetched(server) < 1.2 * SIZE


# --- when it is not begun -------------------------------------------------------------


@pytest.mark.parametrize(
    "change", [{"hashes": {}}, {"size": None}, {"size": 1000}, {"hashes": {"md5": "0"}}]
)
def test_nothing_to_go_by(
    server: Any, shelf: Any, keep: Any, begin: Any, change: dict[str, Any]
) -> None:
    """Without promised hash and size, and for small wheels, nobody is asked."""
    assert begin(listed(server, shelf["v2"], **change), keep("v1")) is None
    assert not server.requests


def test_no_sibling(server: Any, shelf: Any, begin: Any) -> None:
    """Without a kept wheel nobody is asked."""
    assert begin(listed(server, shelf["v2"])) is None
    assert not server.requests


def test_little_in_common(server: Any, shelf: Any, keep: Any, begin: Any) -> None:
    """Where less than a quarter is shared, one request was made and that is all."""
    assert begin(listed(server, shelf["different"]), keep("v1")) is None
    assert len(server.requests) == 1


def test_server_without_ranges(server: Any, shelf: Any, keep: Any, begin: Any) -> None:
    """Where the server gives no ranges, that is said and nothing is begun."""
    file = listed(server, shelf["v2"])
    server.replies[f"/{file.filename}"] = server.reply(shelf["v2"].read_bytes())
    with pytest.raises(RangeUnsupported):
        begin(file, keep("v1"))


def test_too_much_is_not_begun(server: Any, shelf: Any, keep: Any, begin: Any) -> None:
    """--max-download counts what is fetched, not what is shared."""
    file = listed(server, shelf["half"])
    with pytest.raises(TooLarge):
        begin(file, keep("v1"), budget=DownloadBudget(1 << 20))


# --- when it turns out wrong ----------------------------------------------------------


def test_wrong_hash(server: Any, shelf: Any, keep: Any, begin: Any, tmp_path: Path) -> None:
    """If the whole is not what the index promises, it does not count, however well it fits."""
    file = listed(server, shelf["v2"], hashes={"sha256": "0" * 64})
    begun = begin(file, keep("v1"))
    with pytest.raises(UnusableDownload):
        unpacked(begun, file, tmp_path / "new")


def test_damaged_sibling(server: Any, shelf: Any, keep: Any, begin: Any, tmp_path: Path) -> None:
    """A bit that tipped in the kept archive shows in the hash of the whole."""
    sibling, file = keep("v1"), listed(server, shelf["v2"])
    with sibling.archive.open("r+b") as archive:
        archive.seek(SIZE // 2)
        byte = archive.read(1)
        archive.seek(SIZE // 2)
        archive.write(bytes([byte[0] ^ 1]))
    begun = begin(file, sibling)
    with pytest.raises(UnusableDownload):
        unpacked(begun, file, tmp_path / "new")


def test_sibling_cut_off_meanwhile(server: Any, shelf: Any, keep: Any, begin: Any) -> None:
    """An archive that somebody truncates while it is read is no reason to crash."""
    sibling = keep("v1")
    begun = begin(listed(server, shelf["half"]), sibling)
    os.truncate(sibling.archive, 100)
    with begun, pytest.raises(UnusableDownload):
        begun.finish()


def test_edited_file_is_not_linked(
    server: Any, shelf: Any, keep: Any, begin: Any, tmp_path: Path
) -> None:
    """What somebody edited in an environment, and so in the cache, is inflated and not linked."""
    sibling, file = keep("v1"), listed(server, shelf["v2"])
    edited = sibling.wheel.path_of("a/data")
    edited.write_text("edited")
    wheel = unpacked(begin(file, sibling), file, tmp_path / "new")
    assert wheel.read("a/data") == NOISE
    assert not wheel.path_of("a/data").samefile(edited)


def test_equal_checksums_of_unequal_contents(
    server: Any, keep: Any, begin: Any, tmp_path: Path
) -> None:
    """Two files of one size and CRC-32 mislead the plan, and the hash of the whole shows it."""
    forged = forge(NOISE)
    assert forged != NOISE
    assert zlib.crc32(forged) == zlib.crc32(NOISE)
    file = listed(server, build(tmp_path / "forged", "v2", files={"a/data": forged}))
    begun = begin(file, keep("v1"))
    assert begun is not None
    with pytest.raises(UnusableDownload):
        unpacked(begun, file, tmp_path / "new")


def forge(data: bytes) -> bytes:
    """Change the first byte, and the last four so that the CRC-32 stays the same."""
    head = bytes([data[0] ^ 1]) + data[1:-4]
    state = zlib.crc32(head)
    # It is linear in the bits of the last bytes: a system of 32 equations.
    base = zlib.crc32(bytes(4), state)
    rows = [(zlib.crc32((1 << n).to_bytes(4, "little"), state) ^ base, 1 << n) for n in range(32)]
    wanted, suffix = base ^ zlib.crc32(data), 0
    for bit in range(32):
        pivot = next(row for row in rows if row[0] >> bit & 1)
        rows.remove(pivot)
        rows = [(a ^ pivot[0], b ^ pivot[1]) if a >> bit & 1 else (a, b) for a, b in rows]
        if wanted >> bit & 1:
            wanted, suffix = wanted ^ pivot[0], suffix ^ pivot[1]
    return head + suffix.to_bytes(4, "little")


def test_file_changes_on_the_server(
    server: Any, shelf: Any, keep: Any, begin: Any, tmp_path: Path
) -> None:
    """Parts of two states of a file are never joined."""
    file = listed(server, shelf["half"])
    path = f"/{file.filename}"
    before = server.replies[path]
    server.serve_file(path, shelf["half"].read_bytes(), etag='"2"')
    after = server.replies[path]

    def answer(asked: Any) -> Any:
        return before(asked) if len(server.requests) == 1 else after(asked)

    server.replies[path] = answer
    begun = begin(file, keep("v1"))
    with pytest.raises(UnusableDownload):
        unpacked(begun, file, tmp_path / "new")


def test_cancelling_leaves_no_thread(server: Any, shelf: Any, keep: Any, begin: Any) -> None:
    """What is not wanted any more ends, and gives no bytes."""
    with begin(listed(server, shelf["half"]), keep("v1")) as begun:
        pass
    assert not [each for each in threading.enumerate() if each.name.startswith("exchange")]
    with pytest.raises((UnusableDownload, ValueError)):
        begun.source.read_at(0, SIZE * 2)


# --- as part of fetching a wheel ------------------------------------------------------


@pytest.fixture
def make_files(make_pages: Any, tmp_path: Path) -> Callable[..., RemoteFiles]:
    """Give a function that makes readers with one cache."""

    def make(**options: Any) -> RemoteFiles:
        store = Store(tmp_path / "cache")
        return RemoteFiles(make_pages(store=store), store, **options)

    return make


def test_cache_supplies_siblings(server: Any, shelf: Any, make_files: Any, tmp_path: Path) -> None:
    """A wheel that the cache has a sibling of costs a few kilobytes, and is kept unpacked only."""
    make_files().unpacked(listed(server, shelf["v1"]), tmp_path)
    server.requests.clear()
    seen = Seen()
    wheel = make_files().unpacked(file := listed(server, shelf["v2"]), tmp_path, seen)
    assert fetched(server) < 20_000
    assert seen.size == file.size
    assert wheel.read("a/data") == NOISE
    assert wheel.filename.text == shelf["v2"].name
    store = Store(tmp_path / "cache")
    assert store.wheel(digest(shelf["v1"]))
    assert store.wheel(digest(shelf["v2"])) is None
    server.requests.clear()
    assert make_files().unpacked(file, tmp_path).changed() is None
    assert not server.requests


def test_much_of_its_own_is_kept(server: Any, shelf: Any, make_files: Any, tmp_path: Path) -> None:
    """A wheel of which much was fetched is kept packed, too."""
    make_files().unpacked(listed(server, shelf["v1"]), tmp_path)
    make_files().unpacked(listed(server, shelf["half"]), tmp_path)
    kept = Store(tmp_path / "cache").wheel(digest(shelf["half"]))
    assert kept is not None
    assert kept.read_bytes() == shelf["half"].read_bytes()


def test_damaged_cache_costs_a_download(
    server: Any, shelf: Any, make_files: Any, tmp_path: Path
) -> None:
    """If what is kept is damaged, the wheel is downloaded after all, and the user is told."""
    make_files().unpacked(listed(server, shelf["v1"]), tmp_path)
    kept = Store(tmp_path / "cache").wheel(digest(shelf["v1"]))
    assert kept is not None
    content = bytearray(kept.read_bytes())
    content[SIZE // 2] ^= 1
    kept.write_bytes(content)
    notes: list[str] = []
    wheel = make_files(note=notes.append).unpacked(listed(server, shelf["v2"]), tmp_path)
    assert wheel.read("a/data") == NOISE
    assert Store(tmp_path / "cache").wheel(digest(shelf["v2"])) is not None
    assert len(notes) == 1
    assert "so it is downloaded as a whole" in notes[0]


def test_wheel_that_is_invalid_itself(
    server: Any, shelf: Any, make_files: Any, tmp_path: Path
) -> None:
    """A wheel that was put together rightly and is not sound is refused without another try."""
    make_files().unpacked(listed(server, shelf["v1"]), tmp_path)
    content = shelf["v2"].read_bytes()
    spoilt = tmp_path / "spoilt" / shelf["v2"].name
    spoilt.parent.mkdir()
    # Of the packed document, whose CRC does not fit any more.
    place = content.index(b"variant.json") + len(b"variant.json") + 10
    spoilt.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    file = listed(server, spoilt)
    server.requests.clear()
    with pytest.raises(InvalidWheel):
        make_files().unpacked(file, tmp_path)
    assert fetched(server) < 20_000


class Seen(Progress):
    """Remember how large the file was said to be."""

    size = 0

    def set_full_size(self, size: int) -> None:
        """Remember."""
        self.size = size
