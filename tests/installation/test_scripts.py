"""Claims about the scripts of commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from installation.bench import Install

from wheelfit.installation.environment import open_environment
from wheelfit.installation.scripts import script_of
from wheelfit.testing.wheels import build_wheel
from wheelfit.wheels.entry_points import Command

COMMAND = Command("hello", "demo.inner", "Greeting.say", "console")
MODULE = """
import sys

class Greeting:
    @staticmethod
    def say():
        print(*sys.argv[1:])
        return 3
"""


@pytest.mark.parametrize("place", ["simple", "with a space", "long" * 40, "ünïcode"])
def test_they_run(tmp_path: Path, place: str) -> None:
    """Whatever the path of the interpreter, the function is called and its result is the status."""
    interpreter = tmp_path / place / "python"
    interpreter.parent.mkdir()
    interpreter.symlink_to(sys.executable)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/__init__.py").touch()
    (tmp_path / "demo/inner.py").write_text(MODULE)
    name, data = script_of(COMMAND, str(interpreter), "posix")
    script = tmp_path / name
    script.write_bytes(data)
    script.chmod(0o755)
    completed = subprocess.run(
        [script, "a", "b c"],
        capture_output=True,
        check=False,
        env={"PYTHONPATH": str(tmp_path)},
        text=True,
    )
    assert (completed.stdout, completed.returncode) == ("a b c\n", 3), completed.stderr


def test_scripts_in_data(home: Path, install: Install) -> None:
    """A script in the wheel runs too, if the environment's path has a space."""
    folder = home / "with a space"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    environment = open_environment(str(folder), environ={})
    script = "#!python\nimport sys\nprint(sys.prefix, *sys.argv[1:])\n"
    name = "demo-1.data/scripts/tool"
    install(environment, build_wheel(home, "demo", "1", files={name: script}, executables=[name]))
    command = [str(folder / "bin/tool"), "a b"]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert output == f"{folder} a b\n"


@pytest.mark.parametrize("section", ["console", "gui"])
def test_windows(section: str) -> None:
    """On Windows they are programs that start the right interpreter."""
    command = Command("hello", "demo", "main", section)
    name, data = script_of(command, r"C:\venv\python.exe", "win-amd64")
    assert name == "hello.exe"
    assert data.startswith(b"MZ")
    assert (b"pythonw.exe" in data) == (section == "gui")
