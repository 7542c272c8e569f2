"""The rules for uploaded files, with all faults reported together."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from wheelfit.server.uploads.rules import UploadVerdict, check_file, check_name
from wheelfit.testing.wheels import build_wheel, release_document

DOCUMENT = release_document(
    {"null": {}, "mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
)


def verdict(path: Path, filename: str | None = None) -> UploadVerdict:
    """Check a file."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    name = path.name if filename is None else filename
    return check_file(path, name, sha256=digest, size=len(content))


def references(found: UploadVerdict) -> set[str]:
    """Return the references of a refusal."""
    return {violation.reference for violation in found.violations}


def repacked(path: Path, change: Callable[[zipfile.ZipFile, dict[str, bytes]], None]) -> Path:
    """Rewrite a wheel with a function of the archive and its contents."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        change(archive, contents)
    return path


def with_record(contents: Mapping[str, bytes], more: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the contents of a wheel with additional files, all in RECORD."""
    everything = {**contents, **more}
    record = next(name for name in everything if name.endswith("/RECORD"))
    rows = [f"{record},,"]
    for name, content in everything.items():
        if name != record:
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            rows.append(f"{name},sha256={digest.decode()},{len(content)}")
    return {**everything, record: "\n".join(rows).encode() + b"\n"}


def with_members(path: Path, more: Mapping[str, bytes]) -> Path:
    """Add members to a wheel or replace them, and RECORD accordingly."""

    def change(archive: zipfile.ZipFile, contents: dict[str, bytes]) -> None:
        for name, content in with_record(contents, more).items():
            archive.writestr(name, content)

    return repacked(path, change)


def with_metadata_version(path: Path, version: bytes) -> Path:
    """Change the version of METADATA in a wheel."""
    name = "some-1.0.dist-info/METADATA"
    with zipfile.ZipFile(path) as archive:
        text = archive.read(name)
    return with_members(path, {name: text.replace(b"Version: 2.1", b"Version: " + version, 1)})


def source(
    folder: Path,
    members: Mapping[str, bytes] | None = None,
    *,
    name: str = "some-1.0.tar.gz",
    information: str = "Metadata-Version: 2.1\nName: some\nVersion: 1.0\n",
) -> Path:
    """Write a source distribution."""
    top = name.removesuffix(".tar.gz").removesuffix(".zip")
    files = {f"{top}/PKG-INFO": information.encode(), f"{top}/setup.py": b"", **(members or {})}
    path = folder / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in files.items():
                archive.writestr(member, content)
    else:
        with tarfile.open(path, "w:gz") as tar:
            for member, content in files.items():
                header = tarfile.TarInfo(member)
                header.size = len(content)
                tar.addfile(header, io.BytesIO(content))
    return path


# --- variant markers where nobody can read them ---------------------------------------------


def test_variant_markers_of_plain_files(tmp_path: Path) -> None:
    """B-40, F-109: a plain wheel or a source distribution with variant markers is refused."""
    requires = ["numpy", 'mkl; "blas" in variant_namespaces']
    plain = build_wheel(tmp_path, "some", "1.0", requires=requires)
    assert references(verdict(plain)) == {"variant-marker-in-plain-wheel"}
    text = "Metadata-Version: 2.1\nName: some\nVersion: 1.0\n"
    text += "".join(f"Requires-Dist: {one}\n" for one in requires)
    assert references(verdict(source(tmp_path, information=text))) == {"invalid-requirement"}
    for label in ("mkl", "null"):
        path = build_wheel(
            tmp_path, "some", "1.0", label=label, document=DOCUMENT, requires=requires
        )
        assert not references(verdict(path))


# --- what is right ------------------------------------------------------------------------


def test_valid_wheel(tmp_path: Path) -> None:
    """A wheel without faults has all the data that is served."""
    path = build_wheel(
        tmp_path, "Some.Thing", "1.0", label="mkl", document=DOCUMENT, requires_python=">=3.9"
    )
    found = verdict(path)
    assert found.violations == ()
    assert found.file is not None
    assert (found.file.project, str(found.file.version)) == ("some-thing", "1.0")
    assert (found.file.label, found.file.requires_python) == ("mkl", ">=3.9")
    with zipfile.ZipFile(path) as archive:
        folder = "some_thing-1.0.dist-info"
        assert found.file.metadata == archive.read(f"{folder}/METADATA")
        assert found.file.document == archive.read(f"{folder}/variant.json")
    assert found.file.size == path.stat().st_size
    assert found.file.folded == path.name


@pytest.mark.parametrize("name", ["some-1.0.tar.gz", "some-1.0.zip"])
def test_valid_source_distribution(tmp_path: Path, name: str) -> None:
    """A source distribution without faults has the data of its PKG-INFO."""
    text = "Metadata-Version: 2.1\nName: Some\nVersion: 1.0\nRequires-Python: >=3.9\n"
    found = verdict(source(tmp_path, name=name, information=text))
    assert found.violations == ()
    assert found.file is not None
    assert (found.file.project, found.file.requires_python) == ("some", ">=3.9")
    assert found.file.metadata is None
    assert [path.name for path in tmp_path.iterdir()] == [name]  # what was unpacked is gone


@pytest.mark.parametrize(
    "tag",
    [
        "cp312-cp312-manylinux_2_28_x86_64",
        "cp312-cp312-manylinux2014_aarch64.manylinux_2_17_aarch64",
        "cp312-cp312-musllinux_1_2_x86_64",
        "cp312-cp312-linux_x86_64",
        "cp312-cp312-macosx_11_0_arm64",
        "cp312-cp312-win_arm64",
        "cp313-cp313-ios_13_0_arm64_iphonesimulator",
        "cp313-cp313-android_24_arm64_v8a",
        "cp312-cp312-pyodide_2024_0_wasm32",
    ],
)
def test_platforms(tmp_path: Path, tag: str) -> None:
    """Wheels for every platform that installers know are accepted."""
    assert verdict(build_wheel(tmp_path, "some", "1.0", tag=tag)).violations == ()


def test_local_version(tmp_path: Path) -> None:
    """Local versions are accepted, unlike at the public registry."""
    assert verdict(build_wheel(tmp_path, "some", "1.0+cu128")).violations == ()


def test_early_license_file(tmp_path: Path) -> None:
    """``License-File`` before metadata 2.4, which setuptools wrote for years, is a warning."""
    path = build_wheel(tmp_path, "some", "1.0", metadata_extra=[("License-File", "LICENSE")])
    found = verdict(path)
    assert found.violations == ()
    assert [warning.reference for warning in found.warnings] == ["invalid-metadata"]


def test_very_long_requires_python(tmp_path: Path) -> None:
    """Digits that make the version library fail on use are refused."""
    python = f">={'1' * 5000}"
    wheel = build_wheel(tmp_path, "some", "1.0", requires_python=python)
    sdist = source(
        tmp_path,
        information=f"Metadata-Version: 2.1\nName: some\nVersion: 1.0\nRequires-Python: {python}\n",
    )
    for path in (wheel, sdist):
        assert "invalid-metadata" in references(verdict(path))


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("Requires-Python: " + ">=1," * 200_000 + ">=1", ""),
        ("Description-Content-Type: text/plain" + ";a=b" * 200_000, ""),
        ("Content-Type: message/rfc822", "Content-Type: message/rfc822\n\n" * 5000),
    ],
    ids=["specifiers", "parameters", "messages"],
)
def test_expensive_metadata(tmp_path: Path, header: str, body: str) -> None:
    """Small metadata that is expensive to parse is refused quickly, with a reason."""
    name, _, value = header.partition(": ")
    wheel = build_wheel(tmp_path, "some", "1.0", metadata_extra=[(name, value)], description=body)
    text = f"Metadata-Version: 2.1\nName: some\nVersion: 1.0\n{header}\n\n{body}"
    for path in (wheel, source(tmp_path, information=text)):
        assert "invalid-metadata" in references(verdict(path))


@pytest.mark.parametrize(
    ("sign", "is_fine"),
    [
        ("\x00", False),
        ("\x07", False),
        ("\x0b", False),
        ("\x0c", False),
        ("\x1b[31m", False),
        ("\x1f", False),
        ("\x7f", False),
        ("\x85", False),
        ("\x9b31m", False),
        ("\rX-Forged: yes", False),
        ("\t", True),
        ("\xa0", True),
        ("\u05d0 and \u202b", True),
    ],
)
@pytest.mark.parametrize("field", ["Summary", "Description"])
def test_control_characters(tmp_path: Path, field: str, sign: str, *, is_fine: bool) -> None:
    """Control characters other than tabs are refused in metadata."""
    header = f"Summary: a {sign} b\n" if field == "Summary" else ""
    body = f"\na {sign} b\n" if field == "Description" else ""
    text = f"Metadata-Version: 2.1\nName: some\nVersion: 1.0\n{header}{body}".encode()
    more = {"some-1.0.dist-info/METADATA": text}
    wheel = with_members(build_wheel(tmp_path, "some", "1.0"), more)
    sdist = source(tmp_path, information=text.decode())
    for path in (wheel, sdist):
        found = verdict(path)
        assert references(found) == (set() if is_fine else {"invalid-metadata"})
        said = "".join(map(str, (*found.violations, *found.warnings)))
        assert is_fine or f"U+{ord(sign[0]):04X} in line {5 if body else 4}" in said
        assert sign not in said or is_fine


def test_windows_line_ends(tmp_path: Path) -> None:
    """Line ends of Windows are not control characters."""
    text = "Metadata-Version: 2.1\r\nName: some\r\nVersion: 1.0\r\n\r\nsome\r\n"
    assert references(verdict(source(tmp_path, information=text))) == set()


def test_metadata_version_2_0(tmp_path: Path) -> None:
    """Metadata 2.0, which wheels had for five years, is a warning."""
    found = verdict(with_metadata_version(build_wheel(tmp_path, "some", "1.0"), b"2.0"))
    assert found.violations == ()
    assert [warning.reference for warning in found.warnings] == ["invalid-metadata"]


# --- names ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../some-1.0-py3-none-any.whl",
        "..\\some-1.0-py3-none-any.whl",
        "/etc/some-1.0-py3-none-any.whl",
        "C:some-1.0-py3-none-any.whl",
        "some-1.0-py3-none-any.whl\x00.whl",
        "some-1.0-py3-none-any.whl\r\nX-Header: y.whl",
        "some-1.0-py3-none-any.whl ",
        "so\u200dme-1.0-py3-none-any.whl",
        "söme-1.0-py3-none-any.whl",
        "some-1.0-py3-none-any.whl:stream",
        "some-1.0-py3-none-any.WHL",
        "some-1.0-py3-none-any.whl.",
        "some%2f-1.0-py3-none-any.whl",
        "some-1.0.tar.bz2",
        "some-1.0.exe",
        "some-1.0.whl",
        "some.tar.gz",
        "some-1.0-py3-none-any-CUDA.whl",
        "some-1.0-py3-none-any-...whl",
        "some-1.0-py3-none-any-con.whl",
        "some-x.y-py3-none-any.whl",
        "con.tar.gz",
        "-1.0.tar.gz",
        f"{'s' * 300}-1.0-py3-none-any.whl",
    ],
)
def test_hostile_names(tmp_path: Path, name: str) -> None:
    """Names that leave a folder, or that systems read differently, are refused."""
    path = build_wheel(tmp_path, "some", "1.0")
    found = verdict(path, name)
    assert references(found) & {"invalid-filename", "reserved-label", "long-filename"}
    assert all(len(violation.where) <= 300 for violation in found.violations)


def test_valid_names() -> None:
    """A valid name has no faults, whatever the file is."""
    assert check_name("some-1.0-py3-none-any.whl") == ()
    assert check_name("some-1.0.tar.gz") == ()


# --- wheels ----------------------------------------------------------------------------------


def test_all_faults_together(tmp_path: Path) -> None:
    """F-131: faults of name, archive, RECORD, metadata and document are in one response."""
    document = {**DOCUMENT, "unknown": 1}
    path = build_wheel(
        tmp_path,
        "some",
        "1.0",
        label="mkl",
        document=document,
        tag="py3-none-amiga_1_2",
        metadata_extra=[("Metadata-Version", "2.1"), ("Description-Content-Type", "text/word")],
        entry_points={"console_scripts": {"python": "some:main"}},
    )

    def change(archive: zipfile.ZipFile, contents: dict[str, bytes]) -> None:
        for name, content in contents.items():
            archive.writestr(name, content + b"#" if name.endswith(".py") else content)

    found = verdict(repacked(path, change))
    assert references(found) >= {
        "unknown-platform",
        "damaged-content",
        "invalid-metadata",
        "wrong-keys",
        "bad-script",
    }


def test_record_hashes(tmp_path: Path) -> None:
    """A member that differs from RECORD is refused, which no registry checks."""

    def change(archive: zipfile.ZipFile, contents: dict[str, bytes]) -> None:
        for name, content in contents.items():
            archive.writestr(
                name, content.replace(b"1.0", b"6.6") if name[-3:] == ".py" else content
            )

    assert references(verdict(repacked(build_wheel(tmp_path, "some", "1.0"), change))) == {
        "damaged-content"
    }


def test_document_of_another_label(tmp_path: Path) -> None:
    """F-24: the document of a wheel is for the label of its file name."""
    path = build_wheel(tmp_path, "some", "1.0", label="mkl", document=DOCUMENT)
    other = path.rename(tmp_path / "some-1.0-py3-none-any-open.whl")
    assert "wrong-label" in references(verdict(other))


def test_null_with_properties(tmp_path: Path) -> None:
    """F-6: the null variant has no properties."""
    document = {**DOCUMENT, "variants": {"null": {"blas": {"library": ["mkl"]}}}}
    path = build_wheel(tmp_path, "some", "1.0", label="null", document=document)
    assert "null-with-properties" in references(verdict(path))


def test_label_without_document(tmp_path: Path) -> None:
    """F-27: a variant wheel has a variant.json."""
    path = build_wheel(tmp_path, "some", "1.0", label="mkl")
    assert "missing-document" in references(verdict(path))


def test_metadata_of_another_release(tmp_path: Path) -> None:
    """Name and version equal those of METADATA and of the dist-info folder."""
    path = build_wheel(tmp_path, "some", "1.0")
    other = path.rename(tmp_path / "other-1.0-py3-none-any.whl")
    assert "unsound-archive" in references(verdict(other))


def test_spelling_of_the_dist_info_folder(tmp_path: Path) -> None:
    """The dist-info folder is spelled like the file name."""
    path = build_wheel(tmp_path, "Some_Thing", "1.0")
    other = path.rename(tmp_path / "Some_Thing-1.0-py3-none-any.whl")
    found = verdict(other)
    assert references(found) == {"dist-info-spelling"}
    assert found.file is not None
    assert found.file.folded == "some_thing-1.0-py3-none-any.whl"


def test_data_descriptor(tmp_path: Path) -> None:
    """Sizes have to precede the data."""
    path = build_wheel(tmp_path, "some", "1.0")
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise OSError

    stream = Pipe()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    path.write_bytes(stream.getvalue())
    assert references(verdict(path)) == {"data-descriptor"}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"some/tool": b"", "some/tool/a.py": b""}, "unsound-archive"),
        ({"../evil.py": b""}, "unsound-archive"),
        ({"some-1.0.dist-info/entry_points.txt": b"no section"}, "bad-entry-points"),
        ({"some-1.0.dist-info/entry_points.txt": b"[a]\nx = y\nx = z\n"}, "bad-entry-points"),
    ],
)
def test_invalid_members(tmp_path: Path, more: dict[str, bytes], expected: str) -> None:
    """Colliding or escaping names, and invalid entry points."""
    path = with_members(build_wheel(tmp_path, "some", "1.0"), more)
    assert references(verdict(path)) == {expected}


@pytest.mark.parametrize(
    ("tag", "expected"), [("py3-none-any", set()), ("py3-none-win_amd64", {"unportable-name"})]
)
def test_names_invalid_on_windows(tmp_path: Path, tag: str, expected: set[str]) -> None:
    """B-34: they are refused in wheels for Windows, and a warning in others."""
    found = verdict(build_wheel(tmp_path, "some", "1.0", tag=tag, files={"some/aux.py": ""}))
    assert references(found) == expected
    assert expected or [warning.reference for warning in found.warnings] == ["unportable-name"]


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("METADATA", (16 << 20) + 1, {"unsound-archive"}),
        ("WHEEL", (1 << 20) + 1, {"unsound-archive"}),
        ("entry_points.txt", (1 << 20) + 1, {"bad-script"}),
        ("RECORD", 1 << 18, {"bad-record"}),
    ],
)
def test_endless_texts(tmp_path: Path, name: str, size: int, expected: set[str]) -> None:
    """A text that unpacks to very much is refused before it is parsed."""

    def change(archive: zipfile.ZipFile, contents: dict[str, bytes]) -> None:
        member = f"some-1.0.dist-info/{name}"
        more = {} if name == "RECORD" else {member: contents.get(member, b"").ljust(size, b"\n")}
        everything = with_record(contents, more)
        everything[member] = everything[member].ljust(size, b"\n")
        for one, content in everything.items():
            archive.writestr(one, content, zipfile.ZIP_DEFLATED)

    assert references(verdict(repacked(build_wheel(tmp_path, "some", "1.0"), change))) == expected


def test_missing_licence_file(tmp_path: Path) -> None:
    """PEP 639: a licence file that METADATA names has to exist."""
    headers = [("License-File", "LICENSE"), ("License-Expression", "MIT")]
    path = build_wheel(tmp_path, "some", "1.0", metadata_extra=headers)
    assert references(verdict(with_metadata_version(path, b"2.4"))) == {"missing-license"}


def test_zip_and_tar_in_one_file(tmp_path: Path) -> None:
    """CVE-2026-3219: a file that is an archive of two formats is refused as either."""
    wheel = build_wheel(tmp_path, "some", "1.0").read_bytes()
    path = source(tmp_path)
    path.write_bytes(path.read_bytes() + wheel)
    assert references(verdict(path)) == {"unsound-archive"}


def test_archive_bomb(tmp_path: Path) -> None:
    """A small archive that unpacks to very much is refused before it is unpacked."""
    path = source(tmp_path, {"some-1.0/zeros": bytes(65 << 20)})
    assert references(verdict(path)) == {"unsound-archive"}


@pytest.mark.integration
def test_too_many_files(tmp_path: Path) -> None:
    """A source distribution with more files than any project has is not unpacked."""
    path = tmp_path / "some-1.0.tar.gz"
    path.write_bytes(gzip.compress(tarfile.TarInfo("some-1.0/file").tobuf() * 50_001, 1))
    found = verdict(path)
    assert references(found) == {"unsound-archive"}
    assert "50000 members" in found.violations[0].message


# --- source distributions ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"some-1.0/../../evil": b""}, "unsound-archive"),
        ({"/etc/evil": b""}, "unsound-archive"),
        ({"other/file": b""}, "unsound-archive"),
        ({"some-1.0/a": b"", "some-1.0/a/b": b""}, "unsound-archive"),
    ],
)
@pytest.mark.parametrize("name", ["some-1.0.tar.gz", "some-1.0.zip"])
def test_members_of_source_distributions(
    tmp_path: Path, name: str, members: dict[str, bytes], expected: str
) -> None:
    """Members that could not be unpacked safely are refused."""
    assert references(verdict(source(tmp_path, members, name=name))) == {expected}


@pytest.mark.parametrize(
    ("information", "expected"),
    [
        ("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n", {"wrong-metadata"}),
        ("Metadata-Version: 2.1\nName: some\nVersion: 2.0\n", {"wrong-metadata"}),
        ("Metadata-Version: 2.1\nName: some\n", {"wrong-metadata"}),
        ("Metadata-Version: 9.0\nName: some\nVersion: 1.0\n", {"wrong-metadata"}),
        (
            "Metadata-Version: 2.4\nName: some\nVersion: 1.0\nLicense-File: ../../../etc/passwd\n",
            {"missing-license", "invalid-metadata"},
        ),
        (
            "Metadata-Version: 2.4\nName: some\nVersion: 1.0\nLicense-File: COPYING\n",
            {"missing-license"},
        ),
    ],
)
def test_metadata_of_source_distributions(
    tmp_path: Path, information: str, expected: set[str]
) -> None:
    """PKG-INFO is about this release, and names no missing files."""
    assert references(verdict(source(tmp_path, information=information))) == expected


def test_missing_metadata_of_source_distributions(tmp_path: Path) -> None:
    """PKG-INFO has to exist, in a folder named like the file."""
    path = source(tmp_path)
    path = path.rename(tmp_path / "some-1.0.0.tar.gz")
    assert references(verdict(path)) == {"wrong-folder"}
    with tarfile.open(path, "w:gz") as tar:
        header = tarfile.TarInfo("some-1.0.0/setup.py")
        tar.addfile(header)
    assert references(verdict(path)) == {"wrong-metadata"}


def test_metadata_as_a_link(tmp_path: Path) -> None:
    """PKG-INFO has to be a file, not a link."""
    path = tmp_path / "some-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        header = tarfile.TarInfo("some-1.0/setup.py")
        tar.addfile(header)
        link = tarfile.TarInfo("some-1.0/PKG-INFO")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    assert references(verdict(path)) == {"unsound-archive"}


def test_files_that_are_not_archives(tmp_path: Path) -> None:
    """Arbitrary bytes are refused under every name."""
    for name in ("some-1.0-py3-none-any.whl", "some-1.0.tar.gz", "some-1.0.zip"):
        (tmp_path / name).write_bytes(b"nothing at all")
        assert references(verdict(tmp_path / name)) == {"unsound-archive"}
