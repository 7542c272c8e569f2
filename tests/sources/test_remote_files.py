"""Files over HTTP, in the cheapest way the server allows."""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.cache import Store
from wheelfit.sources.page import File
from wheelfit.sources.repository import TooCostly
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import (
    FileProblem,
    HashMismatch,
    InvalidWheel,
    UnexpectedStatus,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = release_document({"v": {"n": {"f": ["1"]}}}, static={"n": {"f": ["1"]}})


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a variant wheel of some size."""
    return build_wheel(
        tmp_path_factory.mktemp("upload"),
        "a",
        "1",
        label="v",
        document=DOCUMENT,
        requires=["b"],
        files={"a/data": os.urandom(300_000).hex()},
    )


class TestOpen:
    """The bytes of a wheel, as they are read."""

    def test_by_ranges(self, server: Any, make_files: Any, wheel: Path) -> None:
        """Members are read whole and in order, and others are not fetched."""
        body = wheel.read_bytes()
        file = server.listed(wheel)
        source = make_files().open(file)
        assert source.size == len(body)
        assert source.read_at(10, 20) == body[10:30]
        assert b"".join(source.read_at(at, 7000) for at in range(0, len(body), 7000)) == body
        assert source.read_at(len(body) - 5, 100) == body[-5:]
        assert source.read_at(len(body), 1) == b""
        with WheelArchive(source, parse_wheel_filename(wheel.name)) as archive:
            assert archive.variant_document() is not None
        assert len(server.requests) < 8

    def test_without_ranges(self, server: Any, make_files: Any, wheel: Path) -> None:
        """F-77: a server that gives no ranges is refused, as the whole wheel would be fetched."""
        files = make_files()
        entry = server.listed(wheel, ranges=False)
        for _ in range(2):
            with pytest.raises(TooCostly):
                files.open(entry)
        assert len(server.requests) == 1  # it is remembered

    def test_a_file_that_changes(self, server: Any, make_files: Any, wheel: Path) -> None:
        """Ranges of two files are never put together."""
        file = server.listed(wheel)
        source = make_files().open(file)
        server.serve_file(f"/{wheel.name}", wheel.read_bytes() + b"more")
        with pytest.raises(UnexpectedStatus, match="changed"):
            source.read_at(0, 10)


class TestMetadata:
    """METADATA, in the cheapest way the server allows."""

    def test_beside_the_wheel(self, server: Any, make_files: Any, wheel: Path) -> None:
        """PEP 658: a promised metadata file is fetched and checked."""
        body = b"Metadata-Version: 2.1\n"
        server.replies[f"/{wheel.name}.metadata"] = server.reply(body)
        promised = {"sha256": hashlib.sha256(body).hexdigest()}
        assert make_files().metadata(server.listed(wheel, metadata_hashes=promised)) == body
        assert server.paths == [f"/{wheel.name}.metadata"]

    def test_it_is_kept_once(
        self, server: Any, make_files: Any, wheel: Path, tmp_path: Path
    ) -> None:
        """What is kept by its hash is not kept as an answer of the server as well."""
        body = b"Metadata-Version: 2.1\n"
        answer = server.reply(body, headers={"etag": '"1"', "cache-control": "max-age=600"})
        server.replies[f"/{wheel.name}.metadata"] = answer
        entry = server.listed(wheel, metadata_hashes={"sha256": hashlib.sha256(body).hexdigest()})
        for _ in range(2):
            assert make_files(Store(tmp_path / "cache")).metadata(entry) == body
        assert len(server.requests) == 1
        kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
        assert len([path for path in kept if path.name != "CACHEDIR.TAG"]) == 1

    def test_beside_the_wheel_but_wrong(self, server: Any, make_files: Any, wheel: Path) -> None:
        """Metadata that is not the promised one is an error, not a reason to look elsewhere."""
        server.replies[f"/{wheel.name}.metadata"] = server.reply(b"evil")
        with pytest.raises(HashMismatch):
            make_files().metadata(server.listed(wheel, metadata_hashes={"sha256": "00" * 32}))

    @pytest.mark.parametrize("status", [403, 404, 503])
    def test_promised_but_absent(
        self, server: Any, make_files: Any, wheel: Path, status: int
    ) -> None:
        """A proxy that promises what it does not have costs a note; the wheel has it."""
        notes: list[str] = []
        server.replies[f"/{wheel.name}.metadata"] = server.reply(status=status)
        body = make_files(note=notes.append).metadata(server.listed(wheel, metadata_hashes={}))
        assert b"Requires-Dist: b" in body
        assert str(status) in notes[0]

    def test_by_ranges(self, server: Any, make_files: Any, wheel: Path) -> None:
        """Otherwise one range of the wheel is enough."""
        body = make_files().metadata(server.listed(wheel))
        assert b"Requires-Dist: b" in body
        assert len(server.requests) == 1

    def test_whole_wheel(self, server: Any, make_files: Any, wheel: Path, tmp_path: Path) -> None:
        """Without ranges the whole wheel is fetched, and not again for the installation."""
        files = make_files(Store(tmp_path / "cache"))
        entry = server.listed(wheel, ranges=False)
        assert b"Requires-Dist: b" in files.metadata(entry)
        assert files.download(entry, tmp_path).read_bytes() == wheel.read_bytes()
        assert len(server.requests) == 2

    def test_remembered_by_hash(
        self, server: Any, make_files: Any, wheel: Path, tmp_path: Path
    ) -> None:
        """What belongs to a hash never changes, so nobody is asked again, even offline."""
        entry = server.listed(wheel)
        first = make_files(Store(tmp_path / "cache")).metadata(entry)
        again = make_files(Store(tmp_path / "cache"), offline=True).metadata(entry)
        assert first == again
        assert len(server.requests) == 1

    def test_not_remembered_for_another_url(
        self, server: Any, make_files: Any, wheel: Path, tmp_path: Path
    ) -> None:
        """A server cannot say what is in a wheel of another server by naming its hash."""
        store = Store(tmp_path / "cache")
        liar = File(
            wheel.name,
            f"{server.url}/liar/{wheel.name}",
            server.listed(wheel).hashes,
            metadata_hashes={},
            source="liar",
        )
        server.replies[f"/liar/{wheel.name}.metadata"] = server.reply(b"a lie")
        assert make_files(store).metadata(liar) == b"a lie"
        assert make_files(store).metadata(server.listed(wheel)) != b"a lie"

    def test_no_metadata(self, server: Any, make_files: Any) -> None:
        """What is no wheel is an invalid wheel."""
        server.serve_file("/a-1-py3-none-any.whl", b"x" * 1000)
        entry = File("a-1-py3-none-any.whl", f"{server.url}/a-1-py3-none-any.whl", source="x")
        with pytest.raises(InvalidWheel):
            make_files().metadata(entry)

    def test_nobody_there(self, server: Any, make_files: Any) -> None:
        """A listed wheel that does not exist is an unexpected status."""
        entry = File("a-1-py3-none-any.whl", f"{server.url}/a-1-py3-none-any.whl", source="x")
        with pytest.raises(UnexpectedStatus, match="404"):
            make_files().metadata(entry)


class TestVariantDocument:
    """F-77: variant.json out of a wheel, by ranges or not at all."""

    def test_by_ranges(self, server: Any, make_files: Any, wheel: Path) -> None:
        """One request reads it."""
        found = make_files().variant_document(server.listed(wheel))
        assert found is not None
        assert b'"v"' in found
        assert len(server.requests) == 1

    def test_metadata_comes_along(
        self, server: Any, make_files: Any, wheel: Path, tmp_path: Path
    ) -> None:
        """Both lie side by side, so the second question costs nothing."""
        files = make_files(Store(tmp_path / "cache"))
        entry = server.listed(wheel)
        files.variant_document(entry)
        files.metadata(entry)
        assert len(server.requests) == 1

    def test_too_costly(self, server: Any, make_files: Any, wheel: Path) -> None:
        """Without ranges the answer is a signal; no wheel of that server is tried again."""
        files = make_files()
        entry = server.listed(wheel, ranges=False)
        for _ in range(3):
            with pytest.raises(TooCostly):
                files.variant_document(entry)
        assert len(server.requests) == 1

    def test_kept_wheel(self, server: Any, make_files: Any, wheel: Path, tmp_path: Path) -> None:
        """A wheel that is here anyway can always be read."""
        files = make_files(Store(tmp_path / "cache"))
        entry = server.listed(wheel, ranges=False)
        files.download(entry, tmp_path)
        assert files.variant_document(entry) is not None
        assert len(server.requests) == 1

    def test_plain_wheel(self, server: Any, make_files: Any, tmp_path: Path) -> None:
        """F-10: a wheel without label is plain; nobody is asked."""
        entry = server.listed(build_wheel(tmp_path, "a", "1"))
        assert make_files().variant_document(entry) is None
        assert server.requests == []

    def test_variant_wheel_without_document(
        self, server: Any, make_files: Any, tmp_path: Path
    ) -> None:
        """A variant wheel that has none gives None; whether that matters is decided elsewhere."""
        entry = server.listed(build_wheel(tmp_path, "a", "1", label="v"))
        assert make_files().variant_document(entry) is None


class TestRead:
    """Small files such as the index-level variants file."""

    def entry(self, server: Any, body: bytes, *, hashed: bool) -> File:
        """Serve a small file."""
        server.serve_file("/a-1-variants.json", body)
        hashes = {"sha256": hashlib.sha256(body).hexdigest()} if hashed else {}
        return File("a-1-variants.json", f"{server.url}/a-1-variants.json", hashes, source="x")

    def test_checked(self, server: Any, make_files: Any) -> None:
        """F-79: a wrong hash is an error."""
        entry = self.entry(server, b"{}", hashed=True)
        assert make_files().read(entry) == b"{}"
        self.entry(server, b"[]", hashed=True)
        with pytest.raises(HashMismatch):
            make_files().read(entry)

    def test_remembered_by_hash(self, server: Any, make_files: Any, tmp_path: Path) -> None:
        """F-73: the page says which content is valid now; that content is asked for once."""
        store = Store(tmp_path / "cache")
        entry = self.entry(server, b"{}", hashed=True)
        assert [make_files(store).read(entry) for _ in range(2)] == [b"{}", b"{}"]
        assert len(server.requests) == 1

    def test_without_hash_it_is_revalidated(
        self, server: Any, make_files: Any, tmp_path: Path
    ) -> None:
        """F-73: without a hash the file is not immutable."""
        store = Store(tmp_path / "cache")
        make_files(store).read(self.entry(server, b"{}", hashed=False))
        server.serve_file("/a-1-variants.json", b"[]", etag='"2"')
        assert make_files(store).read(self.entry(server, b"[]", hashed=False)) == b"[]"

    def test_missing(self, server: Any, make_files: Any) -> None:
        """F-79: a listed file that is not there is an unexpected status."""
        with pytest.raises(UnexpectedStatus, match="404"):
            make_files().read(File("a-1-variants.json", f"{server.url}/x", source="x"))


class TestDownload:
    """Whole wheels, into a folder."""

    def test_kept_by_hash(self, server: Any, make_files: Any, wheel: Path, tmp_path: Path) -> None:
        """A wheel is fetched once; the second time it comes from the store, whoever lists it."""
        store = Store(tmp_path / "cache")
        entry = server.listed(wheel)
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            path = make_files(store).download(entry, folder)
            assert path == folder / wheel.name
            assert path.read_bytes() == wheel.read_bytes()
            assert list(folder.iterdir()) == [path]
        assert len(server.requests) == 1

    def test_damaged_store(self, server: Any, make_files: Any, wheel: Path, tmp_path: Path) -> None:
        """A kept wheel that is damaged is noticed and fetched again."""
        store = Store(tmp_path / "cache")
        entry = server.listed(wheel)
        make_files(store).download(entry, tmp_path).unlink()
        kept = store.wheel(entry.hashes["sha256"])
        assert kept is not None
        kept.write_bytes(b"damaged")
        assert make_files(store).download(entry, tmp_path).read_bytes() == wheel.read_bytes()

    @pytest.mark.parametrize("hashed", [True, False])
    @pytest.mark.parametrize("kept", [True, False])
    def test_nothing_is_left_after_an_error(
        self,
        server: Any,
        make_files: Any,
        wheel: Path,
        tmp_path: Path,
        hashed: bool,  # noqa: FBT001
        kept: bool,  # noqa: FBT001
    ) -> None:
        """A download that fails leaves neither a file nor half of one anywhere."""
        entry = server.listed(wheel, hashed=hashed, size=wheel.stat().st_size + 1)
        folder = tmp_path / "folder"
        folder.mkdir()
        store = Store(tmp_path / "cache" if kept else None)
        with pytest.raises(Exception, match="another size"):
            make_files(store).download(entry, folder)
        assert list(folder.iterdir()) == []
        assert list((tmp_path / "cache").rglob("*.whl")) == []
        assert list(tmp_path.rglob("*.part")) == []

    def test_older_file_is_replaced(
        self, server: Any, make_files: Any, wheel: Path, tmp_path: Path
    ) -> None:
        """A file that lies there already is replaced."""
        (tmp_path / wheel.name).write_bytes(b"old")
        for hashed in (True, False):
            path = make_files().download(server.listed(wheel, hashed=hashed), tmp_path)
            assert path.read_bytes() == wheel.read_bytes()
            assert path.stat().st_mode == wheel.stat().st_mode  # others may read it

    def test_offline(self, server: Any, make_files: Any, wheel: Path, tmp_path: Path) -> None:
        """Offline, only kept wheels can be had."""
        with pytest.raises(Unreachable, match="offline"):
            make_files(offline=True).download(server.listed(wheel), tmp_path)

    def test_no_folder(self, server: Any, make_files: Any, wheel: Path, tmp_path: Path) -> None:
        """A folder that is not there is the user's problem, told as such."""
        with pytest.raises(FileProblem):
            make_files().download(server.listed(wheel), tmp_path / "absent")


class FullDisk(Store):
    """A store on a disk that takes nothing more."""

    @contextmanager
    def new_wheel(self) -> Iterator[tuple[BinaryIO, Path] | None]:
        """Give a file that cannot be written."""
        full = Path("/dev/full").open("w+b", buffering=0)  # noqa: SIM115
        try:
            yield full, Path("/dev/full")
        finally:
            with suppress(OSError):
                full.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")  # noqa: PTH110
def test_a_full_cache(server: Any, make_files: Any, wheel: Path, tmp_path: Path) -> None:
    """A cache that is full costs nothing but a note: the wheel goes where it is wanted."""
    said: list[str] = []
    store = FullDisk(tmp_path / "cache", note=said.append)
    folder = tmp_path / "folder"
    folder.mkdir()
    path = make_files(store).download(server.listed(wheel), folder)
    assert path.read_bytes() == wheel.read_bytes()
    (note,) = said
    assert note.startswith(f"the cache {tmp_path / 'cache'} cannot be written, ")
