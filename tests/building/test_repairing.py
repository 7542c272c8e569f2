"""Tools that know no labels repair wheels that have one."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wheelfit.building.repairing import is_for_any_platform, repair_wheel
from wheelfit.errors import BuildFailed
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.binaries.reading import binaries_of

DOCUMENT = release_document(
    {"v3": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
)
TOOL = """
import shutil, sys, zipfile
from packaging.utils import parse_wheel_filename
from pathlib import Path
source, folder, *words = sys.argv[1:]
parse_wheel_filename(Path(source).name)
name = Path(source).name.replace("linux_x86_64", "manylinux_2_28_x86_64")
if "take" in words:
    sys.exit(shutil.copy(words[-1], folder) and 0)
for word in words:
    if word == "fail":
        sys.exit("no room")
    if word == "none":
        sys.exit()
    if word == "other":
        name = name.replace("1.0", "2.0")
with zipfile.ZipFile(source) as old, zipfile.ZipFile(Path(folder, name), "w") as new:
    for one in old.infolist():
        if not (one.filename.endswith("variant.json") and "strip" in words):
            new.writestr(one, old.read(one) + (b" " if "harm" in words else b""))
"""
"""Does what auditwheel does with a name, and refuses the same ones."""


@pytest.fixture
def tool(tmp_path: Path) -> str:
    """Return the command of a tool."""
    script = tmp_path / "a tool.py"
    script.write_text(TOOL)
    return shlex.join([sys.executable, str(script)]) + " {wheel} {dest_dir}"


def wheel(folder: Path, label: str | None = "v3") -> Path:
    """Build a wheel for one platform."""
    document = DOCUMENT if label else None
    tag = "py3-none-linux_x86_64"
    return build_wheel(folder, "fast", "1.0", tag=tag, label=label, document=document)


@pytest.mark.parametrize("label", ["v3", None])
def test_the_label_stays(tool: str, tmp_path: Path, output: Path, label: str | None) -> None:
    """F-10: the tool sees a plain name; its result has the new tag, the label and the document."""
    source = wheel(tmp_path, label)
    result = repair_wheel(source, tool, output)
    stem = "fast-1.0-py3-none-manylinux_2_28_x86_64"
    assert [path.name for path in output.iterdir()] == [f"{stem}{'-v3' if label else ''}.whl"]
    with WheelArchive(result) as archive:
        archive.verify()
        assert archive.metadata()
        if label:
            assert b'"v3"' in (archive.variant_document() or b"")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("fail", "failed with 1"),
        ("none", "it made 0 wheels, not one"),
        ("other", "the result is not a valid wheel"),
        ("strip", "the result is not a valid wheel"),
        ("harm", "the result is not a valid wheel"),
    ],
)
def test_nothing_else_comes_of_it(
    tool: str, tmp_path: Path, output: Path, word: str, message: str
) -> None:
    """A tool that fails, or gives another wheel than it got, leaves nothing behind."""
    with pytest.raises(BuildFailed, match=message) as excinfo:
        repair_wheel(wheel(tmp_path), f"{tool} {word}", output)
    assert word != "fail" or excinfo.value.note == "no room"
    assert not list(output.iterdir())


def test_another_wheel(tool: str, tmp_path: Path, output: Path) -> None:
    """A sound wheel with other properties than the one that was given is refused."""
    document = release_document(
        {"v3": {"blas": {"library": ["openblas"]}}}, static={"blas": {"library": ["openblas"]}}
    )
    tag = "py3-none-linux_x86_64"
    other = build_wheel(tmp_path / "x", "fast", "1.0", tag=tag, label="v3", document=document)
    other = other.replace(other.with_name(other.name.replace("-v3", "")))
    with pytest.raises(BuildFailed, match="the result is another wheel"):
        repair_wheel(wheel(tmp_path), f"{tool} take {other}", output)


@pytest.mark.parametrize("command", ["auditwheel {wheel}", "auditwheel -w {dest_dir}"])
def test_a_command_without_a_place(tmp_path: Path, output: Path, command: str) -> None:
    """A command that does not say where the wheel is, or its result goes, is not run."""
    with pytest.raises(BuildFailed, match=r"has no \{"):
        repair_wheel(wheel(tmp_path), command, output)


@pytest.mark.parametrize("command", ["'auditwheel {wheel} {dest_dir}", "a\0 {wheel} {dest_dir}"])
def test_a_command_that_cannot_be_run(tmp_path: Path, output: Path, command: str) -> None:
    """A quotation without an end, or a NUL character, is an error like any other."""
    with pytest.raises(BuildFailed, match="cannot be"):
        repair_wheel(wheel(tmp_path), command, output)


MINGW = "x86_64-w64-mingw32-gcc"


@pytest.fixture
def windows_wheel(tmp_path: Path) -> Path:
    """Build a variant for Windows whose library needs another one, which is not in it."""
    pytest.importorskip("delvewheel", reason="needs delvewheel")
    if shutil.which(MINGW) is None:
        pytest.skip(f"needs {MINGW}")
    libraries = tmp_path / "libraries"
    libraries.mkdir()

    def compiled(name: str, source: str, *words: str) -> bytes:
        path = libraries / name
        command = [MINGW, "-shared", "-x", "c", "-", "-o", str(path), *words]
        subprocess.run(command, input=source.encode(), check=True)
        return path.read_bytes()

    compiled("help.dll", "__declspec(dllexport) int help_me(void) { return 42; }")
    source = "int help_me(void); __declspec(dllexport) int ask(void) { return help_me(); }"
    module = compiled("_fast.pyd", source, f"-L{libraries}", "-l:help.dll")
    files = {"fast/__init__.py": b"", "fast/_fast.pyd": module}
    tag = "cp313-cp313-win_amd64"
    return build_wheel(tmp_path, "fast", "1.0", tag=tag, label="v3", document=DOCUMENT, files=files)


def test_delvewheel(windows_wheel: Path, tmp_path: Path, output: Path) -> None:
    """F-10: libraries for Windows are put in; label, document, and a RECORD of all files stay."""
    words = [sys.executable, "-m", "delvewheel", "repair", "--add-path", tmp_path / "libraries"]
    command = f"{shlex.join(map(str, words))} -w {{dest_dir}} {{wheel}}"
    result = repair_wheel(windows_wheel, command, output)
    assert result.name == windows_wheel.name
    with WheelArchive(result) as archive, WheelArchive(windows_wheel) as before:
        archive.verify()
        assert archive.variant_document() == before.variant_document()
        assert {row.path for row in archive.record.rows} == set(archive.names())
        (library,) = [name for name in archive.names() if name.startswith("fast.libs/help-")]
        binaries = {one.member: one for one in binaries_of(archive)}
        assert library.rpartition("/")[2] in binaries["fast/_fast.pyd"].needed
        assert b"fast.libs" in archive.read("fast/__init__.py")


def test_no_such_tool(tmp_path: Path, output: Path) -> None:
    """A tool that is not there is named."""
    with pytest.raises(BuildFailed, match="no-such-tool cannot be run: No such file"):
        repair_wheel(wheel(tmp_path), "no-such-tool {wheel} {dest_dir}", output)


def test_wheels_for_any_platform(tmp_path: Path) -> None:
    """Tools refuse a wheel for any platform, so it needs no repair."""
    assert is_for_any_platform(build_wheel(tmp_path, "fast", "1.0"))
    assert not is_for_any_platform(wheel(tmp_path))
