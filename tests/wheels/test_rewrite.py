"""Copies of wheels with some members replaced."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import time
import zipfile
from typing import TYPE_CHECKING

import pytest
from hostile.archives import members_of, rebuilt

from wheelfit.testing.wheels import add_member, build_large_wheel, build_wheel
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.rewrite import RewriteOptions, copy_wheel, rewrite
from wheelfit.wheels.zip_directory import Member
from wheelfit_runtime.errors import FileProblem, InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

INFO = "some-1.0.dist-info"
DOCUMENT = f"{INFO}/variant.json"


def packed(path: Path, name: str) -> bytes:
    """Return the packed bytes of a member."""
    with WheelArchive(path) as wheel:
        member = wheel.member(name)
        return wheel.read_bytes(wheel.data_start(member), member.compressed_size)


def rows(path: Path) -> list[str]:
    """Return the paths in RECORD."""
    with WheelArchive(path) as wheel:
        return [row.path for row in wheel.record.rows]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Name an output in a folder of its own."""
    (tmp_path / "output").mkdir()
    return tmp_path / "output" / "some-1.0-py3-none-any.whl"


class TestCopy:
    """What is kept as it is."""

    def test_packed_bytes(self, plain: Path, output: Path) -> None:
        """B-30: unchanged members keep their packed bytes, time, mode and CRC."""
        assert rewrite(plain, output, replace_members={f"{INFO}/new.txt": b"new"}).notes == ()
        with zipfile.ZipFile(plain) as old, zipfile.ZipFile(output) as new:
            assert new.testzip() is None
            for info in old.infolist():
                if info.filename.endswith("/RECORD"):
                    continue
                copy = new.getinfo(info.filename)
                assert copy.date_time == info.date_time
                assert copy.external_attr == info.external_attr
                assert copy.compress_type == info.compress_type
                assert packed(plain, info.filename) == packed(output, info.filename)

    def test_nothing_to_do(self, plain: Path, output: Path) -> None:
        """A wheel of our own, copied without changes, is the same file."""
        rewrite(plain, output)
        assert output.read_bytes() == plain.read_bytes()

    def test_order(self, tmp_path: Path, output: Path) -> None:
        """B-39: dist-info moves to the end, RECORD to the very end; nothing else moves."""
        source = build_wheel(tmp_path / "whole", "some", "1.0", files={"b.py": "", "a.py": ""})
        path = tmp_path / source.name
        with zipfile.ZipFile(source) as whole, zipfile.ZipFile(path, "w") as mixed:
            for name in reversed(whole.namelist()):
                add_member(mixed, name, whole.read(name))
        rewrite(path, output, replace_members={DOCUMENT: b"{}"})
        with WheelArchive(output) as wheel:
            inside = ("WHEEL", "METADATA", "variant.json", "RECORD")
            assert wheel.names() == ("a.py", "b.py", *(f"{INFO}/{name}" for name in inside))

    def test_data_descriptors(self, streamed: Path, output: Path) -> None:
        """B-39: the result has no data descriptors, whatever the source has."""
        rewrite(streamed, output)
        with zipfile.ZipFile(streamed) as old, zipfile.ZipFile(output) as new:
            assert all(info.flag_bits & 8 for info in old.infolist())
            assert not any(info.flag_bits & 8 for info in new.infolist())
        assert b"PK\x07\x08" not in output.read_bytes()

    def test_comments_and_extra_fields(self, plain: Path, output: Path) -> None:
        """B-39: comments and extra fields stay behind."""
        clean = plain.read_bytes()
        with zipfile.ZipFile(plain) as old:
            members = [(info, old.read(info)) for info in old.infolist()]
        with zipfile.ZipFile(plain, "w") as new:
            for info, content in members:
                info.comment = b"comment"
                info.extra = b"UT\x05\x00\x01\x00\x00\x00\x00"
                new.writestr(info, content)
            new.comment = b"comment"
        rewrite(plain, output)
        assert output.read_bytes() == clean

    def test_names(self, plain: Path, output: Path) -> None:
        """B-35, B-39: names with commas and umlauts survive in the archive and in RECORD."""
        rewrite(plain, output, replace_members={DOCUMENT: b"{}"})
        assert "some/übung, 1.txt" in rows(output)
        with zipfile.ZipFile(output) as archive:
            info = archive.getinfo("some/übung, 1.txt")
            assert info.flag_bits & 0x800
            assert not archive.getinfo("some/tool").flag_bits & 0x800

    def test_large_member(self, tmp_path: Path, output: Path) -> None:
        """B-30: a large member is copied whole, and fast."""
        source = build_large_wheel(tmp_path, "some", "1.0", 20_000_000)
        rewrite(source, output, replace_members={DOCUMENT: b"{}"})
        with WheelArchive(output) as wheel:
            wheel.verify()
            assert wheel.member("some/zeros.bin").size == 20_000_000

    @pytest.mark.integration
    def test_zip64(self, tmp_path: Path, output: Path) -> None:
        """B-39: ZIP64 records are written when needed, and read again."""
        path = tmp_path / "some-1.0-py3-none-any.whl"
        source = build_wheel(tmp_path / "small", "some", "1.0")
        with zipfile.ZipFile(source) as small, zipfile.ZipFile(path, "w") as target:
            record = small.read(f"{INFO}/RECORD")
            row = ",sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n"
            for number in range(0x10000):
                target.writestr(zipfile.ZipInfo(f"some/{number}", (2026, 1, 1, 0, 0, 0)), b"")
                record = f"some/{number}{row}".encode() + record if number % 4096 == 0 else record
            extra = "".join(f"some/{n}{row}" for n in range(0x10000) if n % 4096).encode()
            for name in small.namelist():
                content = record + extra if name.endswith("/RECORD") else small.read(name)
                add_member(target, name, content)
        rewrite(path, output, replace_members={DOCUMENT: b"{}"})
        assert b"PK\x06\x06" in output.read_bytes()
        with zipfile.ZipFile(output) as archive:
            assert len(archive.namelist()) == 0x10000 + 5

    def test_no_zip64_without_need(self, plain: Path, output: Path) -> None:
        """B-39: an ordinary wheel has no ZIP64 records."""
        rewrite(plain, output)
        assert b"PK\x06\x06" not in output.read_bytes()


class TestRecord:
    """RECORD of the result."""

    def test_new_member(self, plain: Path, output: Path) -> None:
        """B-36: the new row stands before that of RECORD, with hash and size in bytes."""
        before = rows(plain)
        rewrite(plain, output, replace_members={DOCUMENT: "ü".encode()})
        assert rows(output) == [*before[:-1], DOCUMENT, f"{INFO}/RECORD"]
        with WheelArchive(output) as wheel:
            row = wheel.record.rows[-2]
            assert row.size == "2"
            assert row.hash.startswith("sha256=")
            assert not row.hash.endswith("=")

    def test_replaced_member(self, plain: Path, output: Path) -> None:
        """B-36: the row of a replaced member is removed whatever its quoting."""
        name = "some/übung, 1.txt"
        rewrite(plain, output, replace_members={name: b"new"})
        assert rows(output).count(name) == 1
        with WheelArchive(output) as wheel:
            assert wheel.read(name) == b"new"

    def test_rows_that_are_quoted(self, plain: Path, output: Path) -> None:
        """B-35, B-36: a row is found by what it says, not by how it is quoted; RECORD has none."""
        members = members_of(plain)
        with WheelArchive(plain) as wheel:
            quoted = [
                ",".join(f'"{cell}"' for cell in (row.path, row.hash, row.size))
                for row in wheel.record.rows
            ]
        record = {f"{INFO}/RECORD": "\n".join(quoted).encode()}
        plain.write_bytes(rebuilt(plain, record, honest=False))
        rewrite(plain, output, replace_members={"some/tool": b"new"})
        found = rows(output)
        assert sorted(found) == sorted(set(found)) == sorted(members)
        with WheelArchive(output) as wheel:
            wheel.verify()
            last = wheel.record.rows[-1]
        assert (last.path, last.hash, last.size) == (f"{INFO}/RECORD", "", "")

    def test_removed_member(self, plain: Path, output: Path) -> None:
        """What is removed leaves no row."""
        rewrite(plain, output, remove=["some/tool"])
        assert "some/tool" not in rows(output)
        with WheelArchive(output) as wheel:
            assert "some/tool" not in wheel

    @pytest.mark.parametrize("ending", ["\n", "\r\n"])
    def test_line_ends(self, plain: Path, output: Path, ending: str) -> None:
        """B-35: row order and line ends stay; a missing last one is supplied."""
        text = members_of(plain)[f"{INFO}/RECORD"].decode()
        record = text.replace("\n", ending).removesuffix(ending)
        plain.write_bytes(rebuilt(plain, {f"{INFO}/RECORD": record.encode()}, honest=False))
        rewrite(plain, output, replace_members={DOCUMENT: b"{}"})
        with WheelArchive(output) as wheel:
            text = wheel.read(f"{INFO}/RECORD").decode()
        first, rest = text.split(f"{INFO}/variant.json")
        assert first == record.removesuffix(f"{INFO}/RECORD,,")
        assert rest.endswith(f",2{ending}{INFO}/RECORD,,{ending}")

    @pytest.mark.parametrize("kind", ["jws", "p7s"])
    def test_signatures(self, with_member: Callable[..., Path], output: Path, kind: str) -> None:
        """B-37: signatures of the old RECORD are removed, with a note, whatever changes."""
        source = with_member(f"{INFO}/RECORD.{kind}")
        for change in ({DOCUMENT: b"{}"}, {}):
            (note,) = rewrite(
                source, output, replace_members=change, options=RewriteOptions(overwrite=True)
            ).notes
            assert f"RECORD.{kind}" in note
            with WheelArchive(output) as wheel:
                assert f"{INFO}/RECORD.{kind}" not in wheel
            assert f"{INFO}/RECORD.{kind}" not in rows(output)


class TestReproducibility:
    """Equal bytes for equal input."""

    def test_equal_bytes(self, plain: Path, output: Path) -> None:
        """B-39: neither the time of day nor the place gets into the result."""
        rewrite(plain, output, replace_members={DOCUMENT: b"{}"})
        first = output.read_bytes()
        time.sleep(0.01)
        rewrite(
            plain, output, replace_members={DOCUMENT: b"{}"}, options=RewriteOptions(overwrite=True)
        )
        assert output.read_bytes() == first

    def test_no_traces_of_a_machine(self, tmp_path: Path) -> None:
        """B-39: members of another order, with other times and modes, come to the same bytes."""
        content = {"fast/b.py": "2\n", "fast/a.sh": "#!/bin/sh\n"}
        results = []
        for number, (files, mask) in enumerate(
            [(content, 0o022), (dict(reversed(content.items())), 0o077)]
        ):
            source = build_wheel(
                tmp_path / f"in{number}", "fast", "1.0", files=files, executables=["fast/a.sh"]
            )
            changed = tmp_path / f"changed{number}" / source.name
            changed.parent.mkdir()
            with zipfile.ZipFile(source) as old, zipfile.ZipFile(changed, "w") as new:
                for info in old.infolist():
                    data = old.read(info)
                    info.date_time = (2000 + number, 1, 1, 0, 0, 0)
                    info.external_attr &= ~(mask << 16)
                    new.writestr(info, data)
            result = tmp_path / f"out{number}" / source.name
            result.parent.mkdir()
            rewrite(
                changed, result, options=RewriteOptions(epoch=1_700_000_000, is_reproducible=True)
            )
            results.append(result)
        first, second = results
        assert first.read_bytes() == second.read_bytes()
        with zipfile.ZipFile(first) as archive:
            names = archive.namelist()
            modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
        assert names[:2] == ["fast/a.sh", "fast/b.py"]
        assert names[-1].endswith("/RECORD")
        assert (modes["fast/a.sh"], modes["fast/b.py"]) == (0o100755, 0o100644)

    def test_again(self, plain: Path, output: Path) -> None:
        """B-32: rewriting the result gives what rewriting the source gives."""
        direct = output.with_name("some-1.0-py2.py3-none-any.whl")
        rewrite(plain, direct, replace_members={DOCUMENT: b"other"})
        rewrite(plain, output, replace_members={DOCUMENT: b"{}"})
        rewrite(output, output, replace_members={DOCUMENT: b"other"})
        assert output.read_bytes() == direct.read_bytes()

    @pytest.mark.parametrize(
        ("epoch", "moment"),
        [
            (None, (2026, 1, 1, 0, 0, 0)),
            (1_700_000_001, (2023, 11, 14, 22, 13, 20)),
            (0, (1980, 1, 1, 0, 0, 0)),
            (2**40, (2107, 12, 31, 23, 59, 58)),
        ],
    )
    def test_times(
        self, plain: Path, output: Path, epoch: int | None, moment: tuple[int, ...]
    ) -> None:
        """B-39: new members have the time given, else that of the old RECORD; mode 0644."""
        rewrite(
            plain, output, replace_members={DOCUMENT: b"{}"}, options=RewriteOptions(epoch=epoch)
        )
        with zipfile.ZipFile(output) as archive:
            for name in (DOCUMENT, f"{INFO}/RECORD"):
                info = archive.getinfo(name)
                assert info.date_time == moment
                assert info.external_attr >> 16 == 0o100644
                assert info.create_system == 3
            assert archive.getinfo(DOCUMENT).compress_type == zipfile.ZIP_STORED
            assert archive.getinfo(f"{INFO}/RECORD").compress_type == zipfile.ZIP_DEFLATED


class TestFiles:
    """What happens on disk."""

    def test_in_place(self, plain: Path) -> None:
        """B-31: source and destination may be one."""
        rewrite(plain, plain, replace_members={DOCUMENT: b"{}"})
        with WheelArchive(plain) as wheel:
            wheel.verify()
            assert wheel.variant_document() == b"{}"
        assert list(plain.parent.iterdir()) == [plain]

    def test_no_overwriting(self, plain: Path, output: Path) -> None:
        """B-31: an existing file is overwritten only when that is said."""
        output.write_bytes(b"precious")
        with pytest.raises(FileProblem, match="already exists"):
            rewrite(plain, output)
        assert output.read_bytes() == b"precious"
        rewrite(plain, output, options=RewriteOptions(overwrite=True))
        assert output.read_bytes() == plain.read_bytes()
        assert list(output.parent.iterdir()) == [output]

    def test_another_name_of_the_source(self, plain: Path, output: Path) -> None:
        """B-31: a link to the source is a file in the way, too."""
        for link in (output.symlink_to, output.hardlink_to):
            link(plain)
            with pytest.raises(FileProblem, match="already exists"):
                rewrite(plain, output)
            output.unlink()

    def test_mode(self, plain: Path, output: Path) -> None:
        """The result may be read by whoever may read other new files."""
        rewrite(plain, output)
        other = output.with_name("other")
        other.touch()
        assert stat.S_IMODE(output.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)

    @pytest.mark.parametrize("in_place", [False, True])
    def test_unsound_source(
        self, patched: Callable[..., Path], output: Path, *, in_place: bool
    ) -> None:
        """B-31, B-34: a fault of the source is found, and nothing is left."""
        source = patched(b"some/tool", b"\x55\xaa", last=False, offset=11)
        before = source.read_bytes()
        with pytest.raises(InvalidWheel) as excinfo:
            rewrite(source, source if in_place else output, replace_members={DOCUMENT: b"{}"})
        assert excinfo.value.where == str(source)
        assert source.read_bytes() == before
        assert list(output.parent.iterdir()) == []
        assert sorted(source.parent.iterdir()) == [output.parent, source]

    def test_incomplete_record_without_reading(
        self, with_member: Callable[..., Path], output: Path
    ) -> None:
        """B-34: that RECORD is incomplete shows even if content is not verified."""
        source = with_member("some/more.py")
        with pytest.raises(InvalidWheel, match="some/more"):
            rewrite(source, output, options=RewriteOptions(verify_content=False))
        assert list(output.parent.iterdir()) == []

    def test_no_such_folder(self, plain: Path, tmp_path: Path) -> None:
        """A folder that is not there is an error of the user."""
        with pytest.raises(FileProblem, match="cannot be written"):
            rewrite(plain, tmp_path / "nowhere" / plain.name)

    @pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on the size of files")
    def test_full_disk(self, tmp_path: Path, output: Path) -> None:
        """B-31: when the disk is full nothing is left."""
        source = build_large_wheel(tmp_path, "some", "1.0", 20_000_000)
        script = (
            "import resource, signal, sys\n"
            "from pathlib import Path\n"
            "from wheelfit_runtime.errors import FileProblem\n"
            "from wheelfit.wheels.rewrite import rewrite\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000_000, 10_000_000))\n"
            "try:\n"
            "    rewrite(Path(sys.argv[1]), Path(sys.argv[2]))\n"
            "except FileProblem as error:\n"
            "    print(error)\n"
        )
        completed = subprocess.run(
            [sys.executable, "-c", script, source, output],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "cannot be written" in completed.stdout
        assert list(output.parent.iterdir()) == []


@pytest.mark.parametrize("name", [f"{INFO}/RECORD", "../evil.py"])
def test_members_that_cannot_be_replaced(plain: Path, output: Path, name: str) -> None:
    """RECORD follows by itself, and no name leads out."""
    with pytest.raises(ValueError, match="cannot be replaced"):
        rewrite(plain, output, replace_members={name: b""})
    assert list(output.parent.iterdir()) == []


def test_contents_need_not_be_read(plain: Path, output: Path) -> None:
    """B-30: unless asked to verify, nothing is unpacked: content that cannot be is copied."""
    name = "some/__init__.py"
    with WheelArchive(plain) as wheel:
        member = wheel.member(name)
        start, size = wheel.data_start(member), member.compressed_size
    damaged = bytearray(plain.read_bytes())
    damaged[start : start + size] = b"\xff" * size
    plain.write_bytes(damaged)
    with pytest.raises(InvalidWheel):
        rewrite(plain, output, replace_members={DOCUMENT: b"{}"})
    rewrite(
        plain,
        output,
        replace_members={DOCUMENT: b"{}"},
        options=RewriteOptions(verify_content=False),
    )
    assert packed(output, name) == b"\xff" * size


def test_members_have_no_surprises() -> None:
    """The description of a member is hashable and complete."""
    member = Member("a", 0, 0, 0, 0, 0, 0, 0, 0, 3, 0)
    assert hash(member) == hash(Member("a", 0, 0, 0, 0, 0, 0, 0, 0, 3, 0))


class TestFolders:
    """Folders at the top get other names."""

    def test_renamed(self, plain: Path, tmp_path: Path) -> None:
        """B-43: members, RECORD and what is replaced follow; packed bytes stay."""
        metadata = b"Metadata-Version: 2.1\nName: other\nVersion: 2\n"
        path = tmp_path / "other-2-py3-none-any.whl"
        folders = {INFO: "other-2.dist-info"}
        new = {"other-2.dist-info/METADATA": metadata}
        rewrite(plain, path, replace_members=new, rename_folders=folders)
        with WheelArchive(path) as archive:
            archive.verify()
            assert archive.metadata() == metadata
            assert not [name for name in archive.names() if name.startswith(INFO)]

    def test_one_name_for_two(self, tmp_path: Path, output: Path) -> None:
        """B-34: two members that would have one name stop it, and nothing is written."""
        source = build_wheel(tmp_path, "some", "1.0", files={"a/x.py": "1", "b/x.py": "2"})
        with pytest.raises(InvalidWheel, match=r"a/x\.py"):
            rewrite(source, output, rename_folders={"b": "a"})
        assert list(output.parent.iterdir()) == []


class TestWrongRecord:
    """RECORD is mended on request."""

    def test_right_already(self, plain: Path, output: Path, tmp_path: Path) -> None:
        """B-34: a RECORD that is right stays as it is, and nothing is told."""
        other = tmp_path / "other" / plain.name
        other.parent.mkdir()
        rewrite(plain, output)
        assert rewrite(plain, other, options=RewriteOptions(repair_record=True)).notes == ()
        assert other.read_bytes() == output.read_bytes()

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            (f"{INFO}/RECORD,,\n", "", "did not list itself"),
            (f"{INFO}/RECORD,,\n", f"{INFO}/RECORD,,\n{INFO}/RECORD,,\n", "RECORD' twice"),
            (f"{INFO}/RECORD,,\n", f"{INFO}/RECORD,,3\n", "hash or size of itself"),
            (f"{DOCUMENT},sha256=", f"{DOCUMENT},sha256=A", "variant.json"),
            (f"{DOCUMENT},", f"{INFO}/other.json,", "did not list|does not list"),
            ("", f"{DOCUMENT},,\n", "variant.json' twice"),
        ],
    )
    def test_of_what_is_written_anew(
        self, tmp_path: Path, output: Path, old: str, new: str, said: str
    ) -> None:
        """B-34: a fault about RECORD itself or a replaced member is not mended in silence."""
        source = build_wheel(tmp_path, "some", "1.0", files={f"{INFO}/variant.json": "{}"})
        record = members_of(source)[f"{INFO}/RECORD"].decode().replace(old, new, 1)
        source.write_bytes(rebuilt(source, {f"{INFO}/RECORD": record.encode()}, honest=False))
        words = {DOCUMENT: b"{ }"}
        for verify in (True, False):
            options = RewriteOptions(verify_content=verify)
            with pytest.raises(InvalidWheel, match=said):
                rewrite(source, output, replace_members=words, options=options)
        assert list(output.parent.iterdir()) == []
        repair = RewriteOptions(repair_record=True)
        details = rewrite(source, output, replace_members=words, options=repair)
        assert re.search(said, "\n".join(details.notes))
        with WheelArchive(output) as archive:
            archive.verify()


def test_without_waiting(plain: Path, output: Path) -> None:
    """Whether the disk is waited for changes no byte."""
    rewrite(plain, output)
    content = output.read_bytes()
    output.unlink()
    rewrite(plain, output, options=RewriteOptions(sync=False))
    assert output.read_bytes() == content


def test_large_without_waiting(tmp_path: Path, output: Path) -> None:
    """A large member is the same however it is copied."""
    source = build_large_wheel(tmp_path, "some", "1.0", 20_000_000)
    for sync in (True, False):
        rewrite(
            source, output, options=RewriteOptions(sync=sync, overwrite=True, verify_content=None)
        )
        with WheelArchive(output) as archive:
            archive.verify()
    assert output.stat().st_blocks * 512 <= 1.1 * source.stat().st_size + (1 << 20)


def test_opened_already(plain: Path, output: Path) -> None:
    """A source that is open already is read as it is, and stays open."""
    with WheelArchive(plain) as archive:
        rewrite(plain, output, open_source=archive)
        archive.verify()


def test_copy(plain: Path, output: Path, tmp_path: Path) -> None:
    """A wheel is copied byte by byte; what is not an archive is not."""
    copy_wheel(plain, output)
    assert output.read_bytes() == plain.read_bytes()
    with pytest.raises(FileProblem, match="exists"):
        copy_wheel(plain, output)
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"no archive")
    with pytest.raises(InvalidWheel):
        copy_wheel(broken, tmp_path / "copy.whl")
    assert not (tmp_path / "copy.whl").exists()
