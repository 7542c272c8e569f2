"""Commands of wheels on platforms that are not this one."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner
from packaging.tags import Tag

from wheelfit.core.target import Target
from wheelfit.installation.environment import ScriptOptions, open_environment
from wheelfit.testing.wheels import build_wheel

FILES = {
    "demo.py": "def main():\n    pass\n",
    "demo-1.data/scripts/tool": "#!python\nprint('tool')\n",
    "demo-1.data/scripts/batch.bat": "@echo off\r\n",
    "demo-1.data/data/share/x.txt": "x",
    "demo-1.data/headers/demo.h": "h",
}
POINTS = {"console_scripts": {"hello": "demo:main"}, "gui_scripts": {"window": "demo:main"}}


def target(platform: str) -> Target:
    """Return a machine of a platform."""
    here = open_environment(None, environ={}, may_be_own=True).target
    return Target.of("elsewhere", here.environment, [Tag("py3", "none", platform)])


@pytest.mark.parametrize(
    ("platform", "launcher"),
    [("win_amd64", "win-amd64"), ("win_arm64", "win-arm64"), ("win32", "win-ia32")],
)
def test_launchers(platform: str, launcher: str, tmp_path: Path) -> None:
    """Each Windows has its launcher, and the interpreter is looked for where it runs."""
    environment = open_environment(None, environ={}, target=tmp_path)
    taken = environment.for_target(target(platform))
    assert taken.script_options == ScriptOptions(launcher, "python.exe")
    assert taken.interpreter == environment.interpreter


def test_names_on_macos(tmp_path: Path) -> None:
    """What is taken to macOS may lie on a file system that ignores case."""
    environment = open_environment(None, environ={}, target=tmp_path)
    taken = environment.for_target(target("macosx_11_0_arm64"))
    assert taken.is_for_macos
    assert not taken.is_windows
    assert taken.script_options == environment.script_options


@pytest.mark.parametrize("platform", ["manylinux_2_28_x86_64", "any"])
def test_no_launchers(platform: str, tmp_path: Path) -> None:
    """Everywhere else commands are scripts, as here."""
    environment = open_environment(None, environ={}, target=tmp_path)
    assert environment.for_target(target(platform)) == environment
    interpreter = environment.interpreter
    assert environment.script_options == ScriptOptions("posix", str(interpreter.executable))


@pytest.mark.usefixtures("own_settings")
def test_a_folder_for_windows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Launchers start the function with the Python of that machine; all of it is in RECORD."""
    run, folder = Runner(capsys), tmp_path / "folder"
    wheel = build_wheel(tmp_path, "demo", "1", files=FILES, entry_points=POINTS)
    words: list[Any] = ["install", "--for", "windows-x86_64", "--no-index", "--target", folder]
    for _ in range(2):
        run(*words, wheel)
    for name, python in (("hello", b"#!python.exe\n"), ("window", b"#!pythonw.exe\n")):
        data = (folder / "bin" / f"{name}.exe").read_bytes()
        assert data.startswith(b"MZ")
        assert python in data
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            assert b"from demo import main" in archive.read("__main__.py")
    assert (folder / "bin" / "tool").read_text() == "#!python.exe\nprint('tool')\n"
    assert (folder / "bin" / "batch.bat").read_bytes() == b"@echo off\r\n"
    assert (folder / "share" / "x.txt").read_text() == "x"
    assert not (folder / "bin" / "hello").exists()
    record = (folder / "demo-1.dist-info" / "RECORD").read_text()
    assert "bin/hello.exe,sha256=" in record
    run("uninstall", "--target", folder, "demo")
    assert not [path for path in folder.rglob("*") if path.is_file()]
