"""Opening wheels, sound and unsound."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import TYPE_CHECKING

import pytest
from hostile.archives import members_of, rebuilt

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.errors import InvalidFilename
from wheelfit.testing.wheels import add_member, build_wheel, release_document
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import FileProblem, InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DOCUMENT = release_document(
    {"null": {}, "mkl": {"blas": {"library": ["mkl"]}}},
    static={"blas": {"library": ["openblas", "mkl"]}},
)
INFO = "some-1.0.dist-info"


def refused(path: Path) -> str:
    """Return why a wheel cannot be opened."""
    with pytest.raises(InvalidWheel) as excinfo:
        WheelArchive(path)
    return f"{excinfo.value.message}\n{excinfo.value.note}"


def faults(path: Path) -> str:
    """Return what `verify` says of a wheel that can be opened."""
    with WheelArchive(path) as wheel, pytest.raises(InvalidWheel) as excinfo:
        wheel.verify()
    assert excinfo.value.where == str(path)
    return f"{excinfo.value.message}\n{excinfo.value.note}"


class TestSoundWheels:
    """What can be done with a sound wheel."""

    def test_members(self, plain: Path) -> None:
        """Names come in the order of the archive; content and executable bit are right."""
        with WheelArchive(plain) as wheel, zipfile.ZipFile(plain) as reference:
            assert wheel.names() == tuple(reference.namelist())
            assert all(wheel.read(name) == reference.read(name) for name in wheel.names())
            for name in wheel.names():
                assert reference.read(name).startswith(wheel.beginning(name))
                assert bool(wheel.beginning(name)) is bool(reference.read(name))
            assert wheel.member("some/tool").is_executable
            assert not wheel.member("some/__init__.py").is_executable
            assert wheel.dist_info == INFO
            assert wheel.metadata().startswith(b"Metadata-Version: 2.1\nName: some\n")
            assert [row.path for row in wheel.record.rows] == list(wheel.names())

    def test_verify(self, plain: Path) -> None:
        """B-34: a sound wheel passes, and every byte was looked at."""
        seen: list[int] = []
        with WheelArchive(plain) as wheel:
            wheel.verify(seen.append)
            unhashed = wheel.member(f"{INFO}/RECORD").size
            assert sum(seen) == sum(member.size for member in wheel.members) - unhashed

    def test_a_file_instead_of_a_path(self, plain: Path) -> None:
        """An open binary file will do, stays open, and errors name the wheel."""
        file = io.BytesIO(plain.read_bytes())
        with WheelArchive(file, parse_wheel_filename(plain.name)) as wheel:
            wheel.verify()
            assert wheel.where == plain.name
        assert not file.closed

    def test_folder_entries(self, tmp_path: Path) -> None:
        """Entries for folders are fine, are no files, and need no row."""
        path = build_wheel(tmp_path, "some", "1.0")
        with zipfile.ZipFile(path, "a") as archive:
            archive.mkdir("some/sub")
        with WheelArchive(path) as wheel:
            wheel.verify()
            assert "some/sub/" not in wheel.names()

    def test_variant_document(self, tmp_path: Path) -> None:
        """F-27: the document lies in dist-info; a plain wheel has none."""
        variant = build_wheel(tmp_path, "some", "1.0", label="mkl", document=DOCUMENT)
        with WheelArchive(variant) as wheel:
            wheel.verify()
            assert b'"mkl"' in (wheel.variant_document() or b"")
        with WheelArchive(build_wheel(tmp_path, "some", "1.0")) as wheel:
            assert wheel.variant_document() is None

    def test_null_needs_no_entry(self, tmp_path: Path) -> None:
        """F-26: a null wheel whose document lists nothing is sound."""
        document = b'{"$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",'
        document += b'"default-priorities": {"namespace": ["a"]}, "variants": {},'
        document += b'"providers": {"a": {"static-properties": {"b": ["c"]}}}}'
        path = build_wheel(tmp_path, "some", "1.0", label="null", document=document)
        with WheelArchive(path) as wheel:
            wheel.verify()

    def test_spelling_of_dist_info(self, tmp_path: Path) -> None:
        """The folder may spell name and version unlike the file name."""
        path = build_wheel(tmp_path, "some", "1.0")
        other = path.with_name("Some-1.0.0-py3-none-any.whl")
        path.rename(other)
        with WheelArchive(other) as wheel:
            wheel.verify()

    @pytest.mark.integration
    def test_zip64(self, tmp_path: Path) -> None:
        """More members than 16 bits can count are read."""
        path = tmp_path / "some-1.0-py3-none-any.whl"
        source = build_wheel(tmp_path / "small", "some", "1.0")
        with zipfile.ZipFile(path, "w") as target, zipfile.ZipFile(source) as small:
            for number in range(0x10000):
                target.writestr(zipfile.ZipInfo(f"some/{number}", (2026, 1, 1, 0, 0, 0)), b"")
            for name in small.namelist():
                add_member(target, name, small.read(name))
        with WheelArchive(path) as wheel:
            assert len(wheel.names()) > 0x10000
            assert wheel.metadata()


class TestStructure:
    """What is refused on opening."""

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("../evil.py", "leads out"),
            ("/evil.py", "absolute"),
            ("some\\evil.py", "backslash"),
            ("some/e\nvil.py", "control"),
            ("some/tool", "exists twice"),
            ("some/tool/evil.py", "also the folder"),
            ("other-1.0.dist-info/METADATA", "several .dist-info"),
        ],
    )
    def test_names(self, with_member: Callable[..., Path], name: str, reason: str) -> None:
        """No member may escape, or fall together with another."""
        assert reason in refused(with_member(name))

    @pytest.mark.parametrize("name", ["license./MIT", "some/aux.py", "some/a:b", "some/TOOL"])
    def test_names_that_other_systems_refuse(
        self, with_member: Callable[..., Path], name: str
    ) -> None:
        """What only Windows or a disk that ignores case refuses is no fault (B-34)."""
        with WheelArchive(with_member(name)) as wheel:
            assert name in wheel.names()

    def test_name_with_a_nul(self, patched: Callable[..., Path]) -> None:
        """Readers that stop at a NUL would see another name."""
        assert "control" in refused(patched(b"some/tool", b"some/to\0l"))

    def test_name_that_is_not_utf8(self, patched: Callable[..., Path]) -> None:
        """A name whose encoding is not stated means different things to readers."""
        assert "UTF-8" in refused(patched(b"some/tool", b"some/to\xffl"))

    @pytest.mark.parametrize("size", [0, 10, 22, 100])
    def test_cut_off_or_no_zip(self, plain: Path, size: int) -> None:
        """What has no end record is no wheel."""
        plain.write_bytes(plain.read_bytes()[:size])
        assert "end record" in refused(plain)

    def test_trailing_bytes(self, plain: Path) -> None:
        """Two archives glued together could be read as either."""
        data = plain.read_bytes()
        plain.write_bytes(data + b"\0")
        assert "follow" in refused(plain)
        plain.write_bytes(data + data)
        assert "before the archive" in refused(plain)

    def test_leading_bytes(self, plain: Path) -> None:
        """Something before the archive is something else's code."""
        plain.write_bytes(b"#!/bin/sh\n" + plain.read_bytes())
        assert "before the archive" in refused(plain)

    def test_leading_bytes_with_right_offsets(self, plain: Path) -> None:
        """The same when every offset takes them into account."""
        with zipfile.ZipFile(plain) as old:
            members = [(name, old.read(name)) for name in old.namelist()]
        plain.write_bytes(b"prefix")
        with zipfile.ZipFile(plain, "a") as new:
            for name, content in members:
                add_member(new, name, content)
        assert "before the archive" in refused(plain)

    def test_end_record_in_a_comment(self, plain: Path) -> None:
        """A comment that looks like an end record is not searched for a second archive."""
        with zipfile.ZipFile(plain, "a") as archive:
            archive.comment = b"PK\x05\x06" + bytes(30)
        assert "follow" in refused(plain)

    def test_comment(self, plain: Path) -> None:
        """An ordinary comment harms nobody."""
        with zipfile.ZipFile(plain, "a") as archive:
            archive.comment = b"made with love"
        WheelArchive(plain).close()

    @pytest.mark.parametrize(("field", "value"), [(8, 3), (10, 3)])
    def test_wrong_count(self, plain: Path, field: int, value: int) -> None:
        """The end record must count right."""
        data = bytearray(plain.read_bytes())
        struct.pack_into("<H", data, len(data) - 22 + field, value)
        plain.write_bytes(data)
        assert refused(plain)

    @pytest.mark.parametrize(
        ("offset", "value", "reason"),
        [
            (8, 0x0001, "encrypted"),
            (8, 0x0020, "patched"),
            (10, 12, "method 12"),
            (42, 7, "overlaps"),
            (34, 1, "volume"),
        ],
    )
    def test_entries(
        self, patched: Callable[..., Path], offset: int, value: int, reason: str
    ) -> None:
        """Encryption, odd packing, overlaps and volumes are refused."""
        position = offset - 46
        path = patched(b"some/tool", struct.pack("<H", value), offset=position)
        assert reason in refused(path)

    def test_links(self, plain: Path) -> None:
        """A symbolic link could lead out of the environment."""
        with zipfile.ZipFile(plain, "a") as archive:
            info = zipfile.ZipInfo("some/link")
            info.create_system = 3
            info.external_attr = 0o120777 << 16
            archive.writestr(info, "/etc/passwd")
        assert "neither a file nor a folder" in refused(plain)

    def test_second_name_in_an_extra_field(self, plain: Path) -> None:
        """Some readers prefer the Unicode path field, so it must not differ."""
        with zipfile.ZipFile(plain, "a") as archive:
            info = zipfile.ZipInfo("some/a.txt")
            info.extra = struct.pack("<2HBL", 0x7075, 5 + 8, 1, 0) + b"evil.txt"
            archive.writestr(info, "x")
        assert "second name" in refused(plain)

    def test_bomb(self, plain: Path) -> None:
        """An archive that unpacks to more than fifty times its size is refused."""
        with zipfile.ZipFile(plain, "a") as archive:
            add_member(archive, "some/zeros", bytes(65 << 20))
        assert "times its size" in refused(plain)

    @pytest.mark.parametrize("missing", ["METADATA", "WHEEL", "RECORD"])
    def test_missing_parts(self, tmp_path: Path, missing: str) -> None:
        """METADATA, WHEEL and RECORD must be there."""
        path = build_wheel(tmp_path, "some", "1.0")
        path.write_bytes(rebuilt(path, {f"{INFO}/{missing}": None}, honest=False))
        assert f"{INFO} has no {missing}" in refused(path)

    def test_no_dist_info(self, tmp_path: Path) -> None:
        """Without a dist-info folder it is no wheel."""
        path = tmp_path / "some-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            add_member(archive, "some.py", b"")
        assert "no .dist-info" in refused(path)

    @pytest.mark.parametrize("name", ["other-1.0-py3-none-any.whl", "some-1.1-py3-none-any.whl"])
    def test_another_release(self, plain: Path, name: str) -> None:
        """dist-info must be that of the file name."""
        other = plain.with_name(name)
        plain.rename(other)
        assert "does not match" in refused(other)

    def test_variant_without_document(self, tmp_path: Path) -> None:
        """F-27: a variant wheel without its document is invalid."""
        path = build_wheel(tmp_path, "some", "1.0", label="mkl")
        assert "variant.json" in refused(path)

    def test_wheel_version(self, tmp_path: Path) -> None:
        """A wheel of a later major format version is not understood."""
        path = build_wheel(tmp_path, "some", "1.0")
        text = members_of(path)[f"{INFO}/WHEEL"]
        later = text.replace(b"Wheel-Version: 1.0", b"Wheel-Version: 2.0")
        path.write_bytes(rebuilt(path, {f"{INFO}/WHEEL": later}))
        assert "Wheel-Version is 2.0" in refused(path)

    def test_what_cannot_be_read(self, tmp_path: Path) -> None:
        """A missing file is the user's problem; a strange name is no wheel."""
        with pytest.raises(FileProblem):
            WheelArchive(tmp_path / "some-1.0-py3-none-any.whl")
        with pytest.raises(InvalidFilename):
            WheelArchive(tmp_path / "some.zip")


class TestLocalHeaders:
    """The local headers, looked at when a member is read."""

    def test_other_name(self, patched: Callable[..., Path]) -> None:
        """A reader that streams would unpack under another name."""
        path = patched(b"some/tool", b"some/evil", last=False)
        with WheelArchive(path) as wheel:
            with pytest.raises(InvalidWheel, match="another name"):
                wheel.read("some/tool")
            assert wheel.read("some/__init__.py") == b""
        assert "another name" in faults(path)

    @pytest.mark.parametrize("offset", [6, 8, 14, 18, 22])
    def test_other_values(self, patched: Callable[..., Path], offset: int) -> None:
        """Flags, method, CRC and both sizes must be those of the directory."""
        path = patched(b"some/tool", b"\x09", last=False, offset=offset - 30)
        assert "contradicts" in faults(path)

    def test_missing(self, patched: Callable[..., Path]) -> None:
        """Where the directory points there must be a header."""
        path = patched(b"some/tool", b"PK\0\0", last=False, offset=-30)
        assert "is missing" in faults(path)


class TestVerify:
    """RECORD and identity."""

    def test_not_in_record(self, with_member: Callable[..., Path]) -> None:
        """B-36: every member has a row."""
        assert "RECORD does not list 'some/more.py'" in faults(with_member("some/more.py"))

    def test_all_faults_at_once(self, with_member: Callable[..., Path]) -> None:
        """B-34: several faults are reported together."""
        with_member("some/a.py")
        found = faults(with_member("some/b.py"))
        assert "2 faults" in found
        assert "a.py" in found
        assert "b.py" in found

    def test_signatures(self, with_member: Callable[..., Path]) -> None:
        """Signature files of RECORD stand outside it."""
        with WheelArchive(with_member(f"{INFO}/RECORD.jws")) as wheel:
            wheel.verify()

    @pytest.mark.parametrize(
        ("old", "new", "reason"),
        [
            ("sha256=47DEQpj8HBSa", "sha256=47DEQpj8HBSb", "hash of 'some/__init__.py' is not"),
            ("sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU", "md5=x", "hash of 'some/__init"),
            ("sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0", ",", "hash of 'some/__init"),
            ("SuFU,0", "SuFU,1", "but '1' in RECORD"),
            (f"{INFO}/RECORD,,", f"{INFO}/RECORD,sha256=x,1", "of itself"),
            (f"{INFO}/RECORD,,", "", "list itself"),
            ("some/__init__.py", "some/tool", "'some/tool' twice"),
            (f"{INFO}/RECORD,,", f"{INFO}/RECORD,,\nnot/there.py,,", "does not contain"),
        ],
    )
    def test_wrong_rows(self, tmp_path: Path, old: str, new: str, reason: str) -> None:
        """B-34: hash, size and name of each row are compared."""
        path = build_wheel(
            tmp_path, "some", "1.0", files={"some/__init__.py": "", "some/tool": "x"}
        )
        record = members_of(path)[f"{INFO}/RECORD"].decode()
        assert old in record
        changed = {f"{INFO}/RECORD": record.replace(old, new, 1).encode()}
        path.write_bytes(rebuilt(path, changed, honest=False))
        assert reason in faults(path)

    def test_damaged_data(self, patched: Callable[..., Path]) -> None:
        """Changed bytes are found, whichever check they meet first."""
        assert "some/tool" in faults(patched(b"some/tool", b"\x55\xaa", last=False, offset=10))

    @pytest.mark.parametrize("entry", ["Name: other", "Version: 2"])
    def test_metadata_of_another_release(self, tmp_path: Path, entry: str) -> None:
        """METADATA must agree with the file name."""
        path = build_wheel(tmp_path, "other", "2", files={"a.py": ""})
        members = members_of(path)
        name, version = ("some", "2") if "Name" in entry else ("other", "1.0")
        path = tmp_path / f"{name}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as changed:
            for member, content in members.items():
                renamed = member.replace("other-2", f"{name}-{version}")
                moved = content.replace(b"other-2", f"{name}-{version}".encode())
                add_member(changed, renamed, moved)
        assert entry.split(": ")[1] in faults(path)

    @pytest.mark.parametrize(
        ("document", "reason"),
        [
            (release_document({"null": {}}, static={"a": {"b": ["c"]}}), "describes null"),
            (DOCUMENT, "describes null"),
            ({**DOCUMENT, "variants": {"mkl": {"blas": 3}}}, "unusable"),
            ({"a": 1}, "cannot be used"),
        ],
    )
    def test_document(self, tmp_path: Path, document: dict[str, object], reason: str) -> None:
        """F-24: the document has exactly the label of the file name."""
        data = json.dumps(document).encode()
        path = build_wheel(tmp_path, "some", "1.0", label="mkl", document=data)
        assert reason in faults(path)


def test_data_descriptors_are_read(streamed: Path) -> None:
    """Wheels written as a stream have sizes behind the data, and are sound."""
    with WheelArchive(streamed) as wheel:
        assert all(member.flags & 8 for member in wheel.members)
        wheel.verify()
