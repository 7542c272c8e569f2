"""Archives of projects: sound ones, and each way to be hostile."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from projects.writing import write_archive

from wheelfit.errors import InvalidSource
from wheelfit.projects.archives import ArchiveLimits, unpack_archive
from wheelfit_runtime.errors import FileProblem

Files = Mapping[str, bytes | str | tarfile.TarInfo]

PROJECT: Files = {
    "demo-1.0/pyproject.toml": "[project]\n",
    "demo-1.0/src/demo/__init__.py": "x = 1\n",
}


def unpacked(path: Path, name: str | None = None, limits: ArchiveLimits = ArchiveLimits()) -> Path:
    """Unpack beside the archive."""
    folder = path.with_name(f"unpacked-{path.name}")
    folder.mkdir()
    return unpack_archive(path, folder, name or path.name, where=path.name, limits=limits)


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    """Return a member that is a link."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def special(name: str, kind: bytes) -> tarfile.TarInfo:
    """Return a member of another kind."""
    member = tarfile.TarInfo(name)
    member.type = kind
    return member


def refused(path: Path, words: str, name: str | None = None) -> None:
    """Make sure that an archive is refused, and that nothing appears outside of its folder."""
    around = path.parent / "around"
    around.mkdir()
    before = {str(one) for one in path.parent.rglob("*")}
    with pytest.raises(InvalidSource, match=words) as refusal:
        unpacked(path, name)
    assert refusal.value.where
    made = {str(one) for one in path.parent.rglob("*")} - before
    assert all(one.startswith(str(path.with_name(f"unpacked-{path.name}"))) for one in made)


class TestSound:
    """What is unpacked."""

    @pytest.mark.parametrize(
        ("ending", "pack"),
        [
            (".tar.gz", lambda data: data),
            (".tgz", lambda data: data),
            (".tar.bz2", lambda data: bz2.compress(gzip.decompress(data))),
            (".tar.xz", lambda data: lzma.compress(gzip.decompress(data))),
        ],
    )
    def test_kinds_of_tar(
        self, ending: str, pack: Callable[[bytes], bytes], tmp_path: Path
    ) -> None:
        """Every usual compression is read."""
        plain = write_archive(tmp_path / "plain.tar.gz", PROJECT)
        path = tmp_path / f"demo-1.0{ending}"
        path.write_bytes(pack(plain.read_bytes()))
        top = unpacked(path)
        assert (top / "src/demo/__init__.py").read_text() == "x = 1\n"
        assert list(top.parent.iterdir()) == [top]

    def test_zip(self, tmp_path: Path) -> None:
        """A ZIP archive is read too, with its executable bits."""
        path = tmp_path / "demo-1.0.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.mkdir("demo-1.0")
            for name, text in PROJECT.items():
                archive.writestr(name, str(text))
            tool = zipfile.ZipInfo("demo-1.0/configure")
            tool.create_system, tool.external_attr = 3, 0o100755 << 16
            archive.writestr(tool, "#!/bin/sh\n")
        top = unpacked(path)
        assert (top / "pyproject.toml").read_text() == "[project]\n"
        assert os.access(top / "configure", os.X_OK)
        assert not os.access(top / "pyproject.toml", os.X_OK)

    def test_links_within(self, tmp_path: Path) -> None:
        """Links that stay inside are made, a second name of a file is a file."""
        files: Files = {
            **PROJECT,
            "demo-1.0/docs": link("demo-1.0/docs", "src/demo"),
            "demo-1.0/again.py": link(
                "demo-1.0/again.py", "demo-1.0/src/demo/__init__.py", tarfile.LNKTYPE
            ),
        }
        top = unpacked(write_archive(tmp_path / "demo-1.0.tar.gz", files))
        assert (top / "docs" / "__init__.py").read_text() == "x = 1\n"
        assert not (top / "again.py").is_symlink()
        assert (top / "again.py").read_text() == "x = 1\n"

    def test_modes(self, tmp_path: Path) -> None:
        """Of the permissions only the executable bit counts: nothing is set-user-id."""
        path = tmp_path / "demo-1.0.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name, mode in (("tool", 0o4755), ("text", 0o666)):
                member = tarfile.TarInfo(f"demo-1.0/{name}")
                member.mode = mode
                archive.addfile(member, io.BytesIO())
        top = unpacked(path)
        assert (top / "tool").stat().st_mode & 0o7111 == 0o0111
        assert (top / "text").stat().st_mode & 0o7111 == 0

    @pytest.mark.parametrize(("time", "is_kept"), [(1_700_000_000, True), (0, False), (-5, False)])
    def test_times(self, time: int, is_kept: bool, tmp_path: Path) -> None:  # noqa: FBT001
        """Files keep their times, but for those that no wheel could hold."""
        path = tmp_path / "demo-1.0.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            member = tarfile.TarInfo("demo-1.0/x")
            member.mtime = time
            archive.addfile(member, io.BytesIO())
        assert ((unpacked(path) / "x").stat().st_mtime == time) is is_kept

    def test_dots(self, tmp_path: Path) -> None:
        """Some tools begin every name with a dot and a slash."""
        path = write_archive(
            tmp_path / "demo-1.0.tar.gz", {f"./{n}": t for n, t in PROJECT.items()}
        )
        assert (unpacked(path) / "pyproject.toml").is_file()


@pytest.mark.skipif(os.name == "nt", reason="Windows refuses such names")
@pytest.mark.parametrize("name", ["aux.py", "licences./MIT", "a:b", "PyProject.toml"])
def test_names_that_other_systems_refuse(name: str, tmp_path: Path) -> None:
    """What only Windows, or a file system that ignores case, cannot have is unpacked here."""
    path = write_archive(tmp_path / "demo-1.0.tar.gz", {**PROJECT, f"demo-1.0/{name}": "x"})
    assert (unpacked(path) / name).read_text() == "x"


class TestHostile:
    """What is refused before anything of it is written outside its folder."""

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("../evil.py", "leads out of the archive"),
            ("demo-1.0/../../evil.py", "leads out of the archive"),
            ("/evil.py", "absolute path"),
            ("C:/evil.py", "must consist of one folder"),
            ("demo-1.0/a\\..\\b", "backslash"),
            ("demo-1.0/a\nb", "control character"),
            ("demo-1.0-evil/x.py", "must consist of one folder"),
            ("demo-1.0//x.py", "not a normalized path"),
            ("demo-1.0/pyproject.toml/x", "also the folder of"),
        ],
    )
    def test_names(self, name: str, words: str, tmp_path: Path) -> None:
        """A name that escapes, or lies beside its folder (CVE-2026-1703), or hides another."""
        path = write_archive(tmp_path / "demo-1.0.tar.gz", {**PROJECT, name: "x"})
        refused(path, words)

    @pytest.mark.parametrize(
        "member",
        [
            link("demo-1.0/x", "/etc"),
            link("demo-1.0/x", "../around"),
            link("demo-1.0/x", ".."),
            link("demo-1.0/src/x", "../../demo-1.0-evil"),
            link("demo-1.0/x", "../outside", tarfile.LNKTYPE),
            link("demo-1.0/x", "/etc/passwd", tarfile.LNKTYPE),
            link("demo-1.0/x", "demo-1.0/missing", tarfile.LNKTYPE),
            special("demo-1.0/x", tarfile.FIFOTYPE),
            special("demo-1.0/x", tarfile.CHRTYPE),
            special("demo-1.0/x", tarfile.BLKTYPE),
        ],
        ids=lambda one: f"{one.name} {one.linkname} {one.type!r}",
    )
    def test_links_and_devices(self, member: tarfile.TarInfo, tmp_path: Path) -> None:
        """CVE-2025-8869: no link leads out, no second name is of a stranger, nothing is special."""
        path = write_archive(tmp_path / "demo-1.0.tar.gz", {**PROJECT, member.name: member})
        refused(path, "link that leads out|not a file in the archive|neither a file nor a folder")

    def test_a_link_through_a_link(self, tmp_path: Path) -> None:
        """Two links that are harmless each may lead out together."""
        files: Files = {
            **PROJECT,
            "demo-1.0/deep": link("demo-1.0/deep", "src/demo"),
            "demo-1.0/out": link("demo-1.0/out", "deep/../../../.."),
        }
        path = write_archive(tmp_path / "demo-1.0.tar.gz", files)
        refused(path, "link that leads out")

    def test_a_file_below_a_link(self, tmp_path: Path) -> None:
        """Nothing is written through a link, however the members are ordered."""
        files: Files = {
            **PROJECT,
            "demo-1.0/x": link("demo-1.0/x", "src"),
            "demo-1.0/x/evil.py": "",
        }
        refused(write_archive(tmp_path / "demo-1.0.tar.gz", files), "also the folder of")

    def test_twice(self, tmp_path: Path) -> None:
        """Two members of one name are two contents for two readers."""
        path = tmp_path / "demo-1.0.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for text in (b"one", b"two"):
                member = tarfile.TarInfo("demo-1.0/x")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text))
        refused(path, "exists twice")

    def test_two_sizes(self, tmp_path: Path) -> None:
        """A size in a PAX header that the plain header contradicts is read in two ways."""
        path = tmp_path / "demo-1.0.tar.gz"
        with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
            member = tarfile.TarInfo("demo-1.0/x")
            member.size = 512
            member.pax_headers = {"size": "1024"}
            archive.addfile(member, io.BytesIO(b"a" * 512))
            archive.addfile(tarfile.TarInfo("demo-1.0/y"), io.BytesIO())
        refused(path, "two different sizes|damaged")

    def test_one_size_in_two_headers(self, tmp_path: Path) -> None:
        """Sources packed by uv have a PAX header with the size of each member."""
        path = tmp_path / "demo-1.0.tar.gz"
        with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
            for name, text in (("é/pyproject.toml", b""), ("é/x", b"a" * 600)):
                member = tarfile.TarInfo(name)
                member.size = len(text)
                member.pax_headers = {"size": str(len(text))}
                archive.addfile(member, io.BytesIO(text))
        assert (unpacked(path) / "x").read_bytes() == b"a" * 600

    @pytest.mark.parametrize("inside", [True, False])
    def test_something_behind(self, inside: bool, tmp_path: Path) -> None:  # noqa: FBT001
        """CVE-2026-3219: one archive behind another is refused, packed together or apart."""
        first = write_archive(tmp_path / "demo-1.0.tar.gz", PROJECT)
        other = io.BytesIO()
        with zipfile.ZipFile(other, "w") as archive:
            archive.writestr("evil-1.0/setup.py", "")
        data = first.read_bytes()
        if inside:
            data = gzip.compress(gzip.decompress(data) + other.getvalue())
        else:
            data += other.getvalue()
        first.write_bytes(data)
        refused(first, "follows the end|damaged")

    @pytest.mark.parametrize(("name", "real"), [("x.zip", "x.tar.gz"), ("x.tar.gz", "x.zip")])
    def test_the_name_decides(self, name: str, real: str, tmp_path: Path) -> None:
        """What an archive is called says what it is; another content is not an archive."""
        path = tmp_path / real
        if real.endswith(".zip"):
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("x/pyproject.toml", "")
        else:
            write_archive(path, {"x/pyproject.toml": ""})
        with pytest.raises(InvalidSource):
            unpacked(path, name)

    def test_bombs(self, tmp_path: Path) -> None:
        """A small file that stands for a large one is given up before it fills the disk."""
        path = write_archive(tmp_path / "demo-1.0.tar.gz", {"demo-1.0/zeros": bytes(4 << 20)})
        with pytest.raises(InvalidSource, match="more than 1048576 bytes"):
            unpacked(path, limits=ArchiveLimits(size=1 << 20, members=10))
        tar = tmp_path / "demo-2.0.tar.gz"
        write_archive(tar, {f"demo-1.0/{number}": "" for number in range(20)})
        packed = tmp_path / "demo-2.0.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            for number in range(20):
                archive.writestr(f"demo-1.0/{number}", "")
        for path in (tar, packed):
            with pytest.raises(InvalidSource, match="more than 10 members"):
                unpacked(path, limits=ArchiveLimits(members=10))

    def test_second_names(self, tmp_path: Path) -> None:
        """A file with many names is so many files."""
        files: dict[str, bytes | str | tarfile.TarInfo] = {"demo-1.0/zeros": bytes(1 << 20)}
        for number in range(5):
            name = f"demo-1.0/{number}"
            files[name] = link(name, "demo-1.0/zeros", tarfile.LNKTYPE)
        path = write_archive(tmp_path / "demo-1.0.tar.gz", files)
        with pytest.raises(InvalidSource, match="more than 5242880 bytes"):
            unpacked(path, limits=ArchiveLimits(size=5 << 20))
        path = path.rename(tmp_path / "demo-2.0.tar.gz")
        assert (unpacked(path, limits=ArchiveLimits(size=6 << 20)) / "4").stat().st_size == 1 << 20

    def test_large_headers(self, tmp_path: Path) -> None:
        """A name as long as the memory is large is never read into it."""
        member = tarfile.TarInfo("demo-1.0/pyproject.toml")
        member.pax_headers = {"comment": "x" * (2 << 20)}
        path = write_archive(tmp_path / "demo-1.0.tar.gz", {member.name: member})
        refused(path, "a header of more than 1048576 bytes")

    @pytest.mark.parametrize("time", ["1e300", "inf"])
    def test_impossible_times(self, time: str, tmp_path: Path) -> None:
        """A time that no file can have makes an archive invalid."""
        member = tarfile.TarInfo("demo-1.0/pyproject.toml")
        member.pax_headers = {"mtime": time}
        refused(write_archive(tmp_path / "demo-1.0.tar.gz", {member.name: member}), "out of range")

    def test_zip_rules(self, tmp_path: Path) -> None:
        """A ZIP archive is held to the rules for wheels: no links, nothing before or between."""
        path = tmp_path / "demo-1.0.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("demo-1.0/pyproject.toml", "")
            member = zipfile.ZipInfo("demo-1.0/x")
            member.create_system, member.external_attr = 3, 0o120777 << 16
            archive.writestr(member, "/etc")
        refused(path, "link")
        (tmp_path / "around").rmdir()
        other = tmp_path / "other-1.0.zip"
        with zipfile.ZipFile(other, "w") as archive:
            archive.writestr("other-1.0/pyproject.toml", "")
        other.write_bytes(b"#!/bin/sh\n" + other.read_bytes())
        refused(other, ".")

    def test_a_second_name_that_is_not_text(self, tmp_path: Path) -> None:
        """A name before a file that is not the UTF-8 that it should be makes an archive invalid."""
        path = tmp_path / "demo-1.0.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("demo-1.0/é", "")
        path.write_bytes(path.read_bytes().replace("é".encode(), b"\xff\xff", 1))
        refused(path, "damaged")

    @pytest.mark.parametrize("cut", [10, 60, -30])
    def test_cut_off(self, cut: int, tmp_path: Path) -> None:
        """A file that ends too early is damaged, whatever is left of it."""
        path = write_archive(tmp_path / "demo-1.0.tar.gz", PROJECT)
        path.write_bytes(path.read_bytes()[:cut])
        with pytest.raises(InvalidSource, match="damaged"):
            unpacked(path)

    def test_a_single_file(self, tmp_path: Path) -> None:
        """An archive of one file is not a project."""
        refused(write_archive(tmp_path / "demo-1.0.tar.gz", {"demo-1.0": "x"}), "not a project")

    def test_no_archive(self, tmp_path: Path) -> None:
        """Nothing else is unpacked, and what cannot be read is told."""
        path = tmp_path / "demo.rar"
        path.write_bytes(b"")
        with pytest.raises(InvalidSource, match="not an archive"):
            unpacked(path)
        with pytest.raises(FileProblem):
            unpacked(tmp_path / "missing-1.0.tar.gz")
