"""Claims about unpacking wheels: all of it is verified, or there is an error."""

from __future__ import annotations

import hashlib
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import zipfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hostile.archives import members_of, rebuilt
from sampled_cases import sampled

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.testing.file_systems import CaseInsensitiveFileSystem
from wheelfit.testing.wheels import add_member, build_wheel, unpack_wheel
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.bytes_source import BytesInMemory
from wheelfit.wheels.record import RecordRow, format_record, parse_record, row_for
from wheelfit.wheels.unpacked import MANIFEST, TREE, UnpackedWheel, read_unpacked, write_manifest
from wheelfit.wheels.unpacking import VerifiedFile, unpack
from wheelfit.wheels.zip_directory import Member
from wheelfit_runtime.errors import InvalidWheel

NOISE = random.Random(5).randbytes(3 << 20)
GOOD_ROW = "a.py,sha256=a4ayc_80_OGda4BO_1o_V0etpOqiLx1JwB5S3beHW0s,1"
FILES = {
    "demo/__init__.py": b"import this\n" * 50,
    "demo/empty.py": b"",
    "demo/deep/er/data.bin": NOISE[:70_000],
    "demo/large.so": NOISE + bytes(3 << 20),
    "demo/larger.so": bytes(4 << 20) + NOISE,
    "top.py": b"1",
    "demo-1.data/scripts/run": b"#!python\n",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel with small and large members."""
    folder = tmp_path_factory.mktemp("wheels")
    return build_wheel(folder, "demo", "1", files=FILES, executables=["demo-1.data/scripts/run"])


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if not path.is_dir()
    }


class TestNamesOfOtherSystems:
    """Names count by what the system of the folder can have (B-34)."""

    @pytest.mark.parametrize("name", ["license./MIT", "demo/aux.py", "demo/a:b", "demo/LARGE.SO"])
    def test_elsewhere(self, tmp_path: Path, name: str) -> None:
        """Windows has no such names; a disk that ignores case has one of two."""
        path = build_wheel(tmp_path, "demo", "1", files={"demo/large.so": b"", name: b"1"})
        with WheelArchive(path) as archive:
            here = unpack(archive, empty(tmp_path / "here"), sha256="")
            assert here.path_of(name).read_bytes() == b"1"
            with pytest.raises(InvalidWheel, match=re.escape(name.rsplit("/", maxsplit=1)[-1])):
                unpack(archive, empty(tmp_path / "windows"), sha256="", is_windows=True)
            assert not list((tmp_path / "windows").iterdir())

    def test_case(self, tmp_path: Path) -> None:
        """Two names that differ in case are refused where the disk ignores it."""
        path = build_wheel(tmp_path, "demo", "1", files={"demo/a.py": b"", "demo/A.py": b"1"})
        with WheelArchive(path) as archive:
            with pytest.raises(InvalidWheel, match="ignore case"):
                unpack(
                    archive, empty(tmp_path / "case"), sha256="", files=CaseInsensitiveFileSystem()
                )
            assert not list((tmp_path / "case").iterdir())


def empty(folder: Path) -> Path:
    """Return a new folder."""
    folder.mkdir()
    return folder


class TestSound:
    """Wheels as they should be."""

    @pytest.mark.parametrize("in_order", [False, True])
    def test_the_files(self, wheel: Path, tmp_path: Path, *, in_order: bool) -> None:
        """The tree holds what the archive holds, and the table says what is there."""
        told: list[int] = []
        with WheelArchive(wheel) as archive:
            found = unpack(
                archive, tmp_path, sha256="ab" * 32, advance=told.append, in_order=in_order
            )
            names = archive.names()
        expected = members_of(wheel)
        assert contents(tmp_path / TREE) == expected
        assert sum(told) == sum(map(len, expected.values()))
        assert found.names() == names == tuple(expected)
        assert (found.folder, found.sha256, found.dist_info) == (
            tmp_path,
            "ab" * 32,
            "demo-1.dist-info",
        )
        for name, data in expected.items():
            file = found.files[name]
            assert file.row == row_for(name, data)
            assert (file.size, found.path_of(name).read_bytes()) == (len(data), data)
            assert file.mtime_ns == found.path_of(name).stat().st_mtime_ns
        assert [name for name in names if found.is_executable(name)] == ["demo-1.data/scripts/run"]
        assert found.changed() is None

    def test_the_hash_may_come_late(self, wheel: Path, tmp_path: Path) -> None:
        """Who learns the hash of an archive by reading it is asked when all was read."""
        told: list[int] = []
        with WheelArchive(wheel) as archive:
            found = unpack(
                archive, tmp_path, sha256=lambda: f"{sum(told):064}", advance=told.append
            )
        assert int(found.sha256) == sum(found.files.sizes)

    def test_reading_files(self, wheel: Path, tmp_path: Path) -> None:
        """The small files are read from the tree as from the archive."""
        with WheelArchive(wheel) as archive:
            found = unpack(archive, tmp_path, sha256="ab" * 32)
            assert found.metadata() == archive.metadata()
            assert found.record() == archive.record
            assert found.variant_document() is archive.variant_document() is None
        with pytest.raises(InvalidWheel, match="has no 'absent'"):
            found.read("absent")
        found.path_of("top.py").unlink()
        with pytest.raises(InvalidWheel, match="cannot be read"):
            found.read("top.py")

    def test_modes(self, wheel: Path, tmp_path: Path) -> None:
        """Files get the permissions that the umask leaves; programs can always be executed."""
        program = (
            "import os, sys; from pathlib import Path\n"
            "from wheelfit.testing.wheels import unpack_wheel\n"
            "os.umask(0o077); found = unpack_wheel(Path(sys.argv[1]))\n"
            "for name in ('top.py', 'demo/large.so', 'demo-1.data/scripts/run'):\n"
            "    print(oct(found.path_of(name).stat().st_mode & 0o777))\n"
            "print(oct(found.umask))"
        )
        copy = shutil.copy(wheel, tmp_path)
        completed = subprocess.run(
            [sys.executable, "-c", program, copy], capture_output=True, check=True, text=True
        )
        assert completed.stdout.split() == ["0o600", "0o600", "0o711", "0o77"]

    def test_a_wheel_that_promises_otherwise(self, tmp_path: Path) -> None:
        """B-36: stronger hashes count as well, padding or not, and rows without a file do not."""
        path = build_wheel(tmp_path, "demo", "1", files={"a.py": "1", "b.py": "2"})
        strong = f"sha512={b64encode(hashlib.sha512(b'1').digest(), b'-_').decode()}"
        padded = f"{row_for('b.py', b'2').hash}="
        _replace_record(path, {"a.py": strong, "b.py": padded}, "gone.py,sha256=x,1")
        found = unpack_wheel(path)
        assert found.files["a.py"].row == RecordRow("a.py", strong.rstrip("="), "1")
        assert found.files["b.py"].row == row_for("b.py", b"2")

    def test_signatures_are_not_in_record(self, tmp_path: Path) -> None:
        """B-36: a signature of RECORD cannot be in it."""
        path = build_wheel(tmp_path, "demo", "1")
        with zipfile.ZipFile(path, "a") as archive:
            add_member(archive, "demo-1.dist-info/RECORD.jws", b"signed")
        assert unpack_wheel(path).read("demo-1.dist-info/RECORD.jws") == b"signed"

    def test_a_wheel_of_one_file(self, tmp_path: Path) -> None:
        """However little there is, and with a folder entry, it is unpacked."""
        path = build_wheel(tmp_path, "demo", "1", files={})
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("demo/", b"")
        found = unpack_wheel(path)
        assert set(found.names()) == {
            f"demo-1.dist-info/{n}" for n in ("METADATA", "WHEEL", "RECORD")
        }


class TestDamaged:
    """Wheels that are not what they should be."""

    @pytest.mark.parametrize("step", sampled([1, 7], fast={1}))
    def test_every_byte(self, tmp_path: Path, step: int) -> None:
        """B-38: whichever byte is another one, the wheel is refused, or nothing in it differs."""
        path = build_wheel(tmp_path, "demo", "1", files={"demo.py": b"a" * 40, "s.py": b"xy"})
        data = path.read_bytes()
        expected = members_of(path)
        refused = 0
        positions = range(0, len(data), step)
        for position in positions:
            changed = bytearray(data)
            changed[position] ^= 0x41
            folder = tmp_path / str(position)
            folder.mkdir()
            try:
                source = BytesInMemory(bytes(changed))
                with WheelArchive(source, parse_wheel_filename(path.name)) as archive:
                    unpack(archive, folder, sha256="")
            except InvalidWheel:
                refused += 1
            else:
                assert contents(folder / TREE) == expected
            shutil.rmtree(folder)
        # Dates, permissions and the makers' versions say nothing of the content.
        assert refused > 0.85 * len(positions)

    @pytest.mark.parametrize("name", ["demo/large.so", "demo/larger.so", "demo/deep/er/data.bin"])
    @pytest.mark.parametrize("place", [0.0, 0.5, 0.99])
    def test_packed_data(self, wheel: Path, tmp_path: Path, name: str, place: float) -> None:
        """B-38: damage anywhere in the data of a member is seen, by whichever thread."""
        data = bytearray(wheel.read_bytes())
        with WheelArchive(wheel) as archive:
            member = archive.member(name)
            start = archive.data_start(member)
        data[start + int(place * member.compressed_size)] ^= 2
        with (
            WheelArchive(BytesInMemory(bytes(data)), parse_wheel_filename(wheel.name)) as archive,
            pytest.raises(InvalidWheel),
        ):
            unpack(archive, tmp_path, sha256="")
        assert not (tmp_path / MANIFEST).exists()

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            (
                "a.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,1",
                "the hash of 'a.py' is not",
            ),
            ("a.py,md5=xMpCOKC5I4INzFCab3WEmw,1", "no accepted hash"),
            ("a.py,,1", "no accepted hash"),
            ("a.py,sha256=a4ayc_80_OGda4BO_1o_V0etpOqiLx1JwB5S3beHW0s,2", "has 1 byte, but '2'"),
            ("a.py,sha256=a4ayc_80_OGda4BO_1o_V0etpOqiLx1JwB5S3beHW0s,", "has 1 byte, but ''"),
            ("a.py,sha256=a4ayc_80_OGda4BO_1o_V0etpOqiLx1JwB5S3beHW0s,٣", "has 1 byte, but '٣'"),
            ("b.py,sha256=a4ayc_80_OGda4BO_1o_V0etpOqiLx1JwB5S3beHW0s,1", "does not list 'a.py'"),
            ("\n".join([GOOD_ROW] * 2), "twice"),
        ],
    )
    def test_record(self, tmp_path: Path, row: str, message: str) -> None:
        """B-36: RECORD names every file once, with a strong hash and the right size."""
        path = build_wheel(tmp_path, "demo", "1", files={"a.py": "1"})
        _replace_record(path, {"a.py": None}, row)
        with pytest.raises(InvalidWheel, match=message):
            unpack_wheel(path)

    def test_the_header_of_a_folder(self, tmp_path: Path) -> None:
        """B-38: what is not unpacked is held against the directory as well."""
        path = build_wheel(tmp_path, "demo", "1")
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("other/", b"")
            offset = archive.getinfo("other/").header_offset
        data = bytearray(path.read_bytes())
        data[offset + 30] ^= 1
        path.write_bytes(data)
        with pytest.raises(InvalidWheel, match="another name"):
            unpack_wheel(path)


class TestFailures:
    """Reasons outside of the wheel."""

    @pytest.fixture
    def small_disk(self) -> Iterator[None]:
        """Let no file become larger than a megabyte."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
        yield
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    @pytest.mark.usefixtures("small_disk")
    def test_a_full_disk(self, wheel: Path, tmp_path: Path) -> None:
        """An error while writing ends the unpacking, in whichever thread it comes."""
        with WheelArchive(wheel) as archive, pytest.raises(OSError, match="too large"):
            unpack(archive, tmp_path, sha256="")

    def test_what_is_not_wanted_any_more(self, wheel: Path, tmp_path: Path) -> None:
        """Whoever follows the bytes may end it all."""

        class Enough(Exception):
            """Say so."""

        def advance(_count: int) -> None:
            raise Enough

        with WheelArchive(wheel) as archive, pytest.raises(Enough):
            unpack(archive, tmp_path, sha256="", advance=advance)

    def test_end_among_small_files(self, tmp_path: Path) -> None:
        """An unpacking of many small files can be ended before a whole batch is written."""
        wheel = build_wheel(tmp_path, "some", "1", files={f"some/{i}.py": b"" for i in range(500)})

        def advance(_count: int) -> None:
            raise KeyboardInterrupt

        with WheelArchive(wheel) as archive, pytest.raises(KeyboardInterrupt):
            unpack(archive, tmp_path, sha256="", advance=advance)
        assert len(list(tmp_path.rglob("*.py"))) < 200

    def test_a_file_that_is_there(self, wheel: Path, tmp_path: Path) -> None:
        """Nothing is overwritten."""
        (tmp_path / TREE).mkdir()
        with WheelArchive(wheel) as archive, pytest.raises(FileExistsError):
            unpack(archive, tmp_path, sha256="")


class TestVerifiedFiles:
    """Files that another wheel has as well."""

    def knowing(self, other: UnpackedWheel) -> Callable[[Member, RecordRow], VerifiedFile | None]:
        """Return a function that finds files with the same row."""

        def known(member: Member, row: RecordRow) -> VerifiedFile | None:
            file = other.files.get(member.name)
            if file is None or file.row != row:
                return None
            return VerifiedFile(str(other.path_of(member.name)), file.mtime_ns)

        return known

    def test_are_linked(self, wheel: Path, tmp_path: Path) -> None:
        """They are linked, the others unpacked, and the result is the same."""
        (tmp_path / "other").mkdir()
        changed = {**FILES, "top.py": b"2"}
        other = unpack_wheel(build_wheel(tmp_path / "other", "demo", "1", files=changed))
        (tmp_path / "new").mkdir()
        with WheelArchive(wheel) as archive:
            found = unpack(archive, tmp_path / "new", sha256="", find_verified=self.knowing(other))
        assert contents(found.folder / TREE) == members_of(wheel)
        assert found.changed() is None
        assert found.path_of("demo/large.so").samefile(other.path_of("demo/large.so"))
        assert not found.path_of("top.py").samefile(other.path_of("top.py"))
        # The other one is not a program there, and must not become one.
        script = "demo-1.data/scripts/run"
        assert os.access(found.path_of(script), os.X_OK)
        assert not found.path_of(script).samefile(other.path_of(script))

    def test_are_unpacked_if_edited(self, wheel: Path, tmp_path: Path) -> None:
        """A file that was changed since, or that is gone, is unpacked as any other."""
        (tmp_path / "other").mkdir()
        other = unpack_wheel(build_wheel(tmp_path / "other", "demo", "1", files=FILES))
        large = other.path_of("demo/large.so")
        data = large.read_bytes()
        large.write_bytes(bytes(len(data)))
        other.path_of("top.py").unlink()
        (tmp_path / "new").mkdir()
        with WheelArchive(wheel) as archive:
            found = unpack(archive, tmp_path / "new", sha256="", find_verified=self.knowing(other))
        assert contents(found.folder / TREE) == members_of(wheel)
        assert not found.path_of("demo/large.so").samefile(large)


class TestManifest:
    """The description of a tree."""

    @pytest.fixture
    def found(self, wheel: Path, tmp_path: Path) -> UnpackedWheel:
        """Unpack the wheel."""
        with WheelArchive(wheel) as archive:
            return unpack(archive, tmp_path, sha256="ab" * 32)

    def test_reading_back(self, found: UnpackedWheel, tmp_path: Path) -> None:
        """What was written is read again, for whatever name the wheel has now."""
        name = parse_wheel_filename("Demo-1.0-py3-none-any-cu128.whl")
        again = read_unpacked(tmp_path, name, where="here")
        assert again is not None
        assert (again.filename, again.where, again.sha256) == (name, "here", "ab" * 32)
        assert dict(again.files) == dict(found.files)
        assert (again.umask, again.dist_info) == (found.umask, found.dist_info)

    @pytest.mark.usefixtures("found")
    def test_another_release(self, tmp_path: Path) -> None:
        """F-27: bytes of one release are not taken for another one, whatever their name."""
        with pytest.raises(InvalidWheel, match="does not match"):
            read_unpacked(tmp_path, parse_wheel_filename("demo-2-py3-none-any.whl"), where="here")

    @pytest.mark.usefixtures("found")
    @pytest.mark.parametrize("step", sampled([7, 37], fast={1}))
    def test_damage(self, wheel: Path, tmp_path: Path, step: int) -> None:
        """A manifest of which any part is missing or another is none."""
        data = (tmp_path / MANIFEST).read_bytes()
        damaged = [data[:length] for length in range(0, len(data), step)]
        damaged += [
            data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            for place in range(0, len(data), step + 4)
        ]
        name = parse_wheel_filename(wheel.name)
        for each in damaged:
            (tmp_path / MANIFEST).write_bytes(each)
            assert read_unpacked(tmp_path, name, where="") is None
        (tmp_path / MANIFEST).unlink()
        assert read_unpacked(tmp_path, name, where="") is None

    @pytest.mark.parametrize(
        "edit",
        [
            lambda path: path.write_bytes(b"2"),
            lambda path: path.write_bytes(b"longer"),
            lambda path: path.unlink(),
            lambda path: (path.unlink(), path.symlink_to("large.so")),
            lambda path: os.utime(path, ns=(1, 1)),
        ],
        ids=["same size", "longer", "gone", "a link", "touched"],
    )
    def test_changes(self, found: UnpackedWheel, edit: Callable[[Path], object]) -> None:
        """A file that somebody edited is not as it was."""
        # Clocks of file systems are coarse.
        os.utime(found.path_of("top.py"), ns=(0, 12345678))
        times = [
            12345678 if n == "top.py" else t
            for n, t in zip(found.names(), found.files.times, strict=True)
        ]
        found.files.times = times
        write_manifest(found)
        assert found.changed() is None
        edit(found.path_of("top.py"))
        assert found.changed() == "top.py"


def _replace_record(path: Path, hashes: dict[str, str | None], more: str) -> None:
    """Write a wheel anew with other hashes in RECORD; None removes a row."""
    name = "demo-1.dist-info/RECORD"
    rows = [
        RecordRow(row.path, hashes.get(row.path) or row.hash, row.size)
        for row in parse_record(members_of(path)[name], where="").rows
        if hashes.get(row.path, "") is not None
    ]
    record = format_record(rows) + more.encode() + b"\n"
    path.write_bytes(rebuilt(path, {name: record}, honest=False))
