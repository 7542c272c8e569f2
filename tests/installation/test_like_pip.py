"""Claims about --prefix, --root and --target, compared with what pip leaves behind."""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from installation.bench import Bench, Install, Pip

from wheelfit.installation.environment import Environment, open_environment
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration


FILES = {
    "demo.py": "def main():\n    print('hello')\n",
    "demo-1.data/scripts/tool": "#!python\nprint('tool')\n",
    "demo-1.data/data/share/demo/x.txt": "x",
    "demo-1.data/headers/demo.h": "h",
}


@pytest.fixture
def wheel(home: Path) -> Path:
    """Return a wheel with something for every place."""
    points = {"console_scripts": {"hello": "demo:main"}}
    return build_wheel(home, "demo", "1", files=FILES, entry_points=points)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder that do not depend on the installer."""
    own = ("RECORD", "INSTALLER", "wheelfit.json", "direct_url.json", "REQUESTED")
    return {
        path.relative_to(folder).as_posix(): path.read_bytes().replace(b"\r", b"")
        for path in folder.rglob("*")
        if path.is_file() and path.name not in own and path.suffix != ".pyc"
    }


def without_entry_point(found: dict[str, bytes]) -> dict[str, bytes]:
    """Leave out the one script whose text is the installer's own."""
    return {name: content for name, content in found.items() if not name.endswith("bin/hello")}


def recorded(folder: Path) -> set[str]:
    """Return the paths in RECORD, without what only one of the installers writes."""
    (record,) = folder.rglob("RECORD")
    with record.open(newline="") as stream:
        rows = {row[0] for row in csv.reader(stream)}
    own = ("wheelfit.json", "direct_url.json", "REQUESTED", ".pyc")
    return {row for row in rows if not row.endswith(own)}


class TestPlaces:
    """The same files in the same places."""

    @pytest.mark.parametrize("option", ["prefix", "root"])
    def test_prefix_and_root(
        self, venv: Path, wheel: Path, tmp_path: Path, install: Install, pip: Pip, option: str
    ) -> None:
        """Files, contents and RECORD are those of pip."""
        theirs, ours = tmp_path / "theirs", tmp_path / "ours"
        done = pip("--python", venv, "install", "--no-index", f"--{option}", theirs, wheel)
        assert done.returncode == 0, done.stderr
        prefix, root = (ours, None) if option == "prefix" else (None, ours)
        environment = open_environment(str(venv), environ=os.environ, prefix=prefix, root=root)
        install(environment, wheel)
        assert without_entry_point(contents(ours)) == without_entry_point(contents(theirs))
        assert contents(ours).keys() == contents(theirs).keys()
        assert recorded(ours) == recorded(theirs)
        assert [str(entry) for entry in environment.installed()] == ["demo 1"]

    def test_both(
        self, venv: Path, wheel: Path, tmp_path: Path, install: Install, pip: Pip
    ) -> None:
        """So are they with both together."""
        theirs, ours = tmp_path / "theirs", tmp_path / "ours"
        pip(
            "--python", venv, "install", "--no-index", "--root", theirs, "--prefix", "/opt/x", wheel
        )
        install(
            open_environment(str(venv), environ=os.environ, root=ours, prefix=Path("/opt/x")),
            wheel,
        )
        assert (ours / "opt/x/bin/hello").exists()
        assert contents(ours).keys() == contents(theirs).keys()
        assert recorded(ours) == recorded(theirs)

    def test_target(
        self, venv: Path, wheel: Path, tmp_path: Path, install: Install, pip: Pip
    ) -> None:
        """So are they in a flat folder, except headers; RECORD is right, unlike pip's."""
        theirs, ours = tmp_path / "theirs", tmp_path / "ours"
        done = pip("--python", venv, "install", "--no-index", "--target", theirs, wheel)
        assert done.returncode == 0, done.stderr
        install(open_environment(str(venv), environ=os.environ, target=ours), wheel)
        kept = {name for name in contents(theirs) if not name.endswith("demo.h")}
        assert {name for name in contents(ours) if not name.endswith("demo.h")} == kept
        assert (ours / "include/demo/demo.h").exists()
        for row in recorded(ours):
            assert (ours / row).exists(), row

    def test_plain(
        self, make_venv: Callable[[], Path], wheel: Path, install: Install, pip: Pip
    ) -> None:
        """So are they in the environment itself."""
        theirs, ours = make_venv(), make_venv()
        assert pip("--python", theirs, "install", "--no-index", wheel).returncode == 0
        install(open_environment(str(ours), environ=os.environ), wheel)
        expected = {
            name: content.replace(os.fsencode(theirs), os.fsencode(ours))
            for name, content in without_entry_point(contents(theirs)).items()
        }
        assert without_entry_point(contents(ours)) == expected
        assert recorded(ours) == recorded(theirs)


class TestScripts:
    """Scripts find the interpreter they were installed for."""

    def test_prefix(self, bench: Bench, wheel: Path, tmp_path: Path, install: Install) -> None:
        """Below a prefix they name the interpreter, which needs to be told of the modules."""
        found = bench.opened(prefix=tmp_path / "p")
        install(found, wheel)
        completed = subprocess.run(
            [tmp_path / "p/bin/hello"],
            capture_output=True,
            check=True,
            env={"PYTHONPATH": str(found.schemes.purelib)},
            text=True,
        )
        assert completed.stdout == "hello\n"

    def test_root(self, bench: Bench, wheel: Path, tmp_path: Path, install: Install) -> None:
        """Below a root they name the interpreter as it will be, without the root."""
        found = bench.opened(root=tmp_path / "r")
        install(found, wheel, compile_bytecode=True)
        text = (found.schemes.scripts / "tool").read_text()
        assert text.startswith(f"#!{bench.environment.interpreter.prefix}/bin/python\n")
        (pyc,) = found.schemes.purelib.rglob("demo.*.pyc")
        assert str(tmp_path / "r").encode() not in pyc.read_bytes()
        assert str(bench.site / "demo.py").encode() in pyc.read_bytes()


class TestTargetAgain:
    """A target folder that already holds something."""

    @pytest.fixture
    def flat(self, bench: Bench, tmp_path: Path) -> Environment:
        """Return a target folder."""
        return bench.opened(target=tmp_path / "flat")

    def test_upgrade(self, flat: Environment, wheel: Path, bench: Bench, install: Install) -> None:
        """An upgrade replaces the old version as a whole; pip leaves its .dist-info."""
        install(flat, wheel)
        install(flat, bench.wheel("demo", "2", files={"other.py": ""}))
        assert {path.parts[0] for path in map(Path, contents(flat.schemes.purelib))} == {
            "demo-2.dist-info",
            "other.py",
        }

    def test_installed_elsewhere(
        self, bench: Bench, flat: Environment, wheel: Path, install: Install
    ) -> None:
        """What the interpreter has installed does not count, nor does it change."""
        bench.install(wheel)
        assert flat.installed() == ()
        install(flat, wheel)
        assert [str(entry) for entry in flat.installed()] == ["demo 1"]
        assert bench.environment.installed()

    @pytest.mark.network
    def test_uv_is_content(self, bench: Bench, wheel: Path, uv: Path) -> None:
        """What uv lists and checks is what was installed."""
        bench.install(wheel)
        python = bench.environment.interpreter.executable
        listed = subprocess.run(
            [uv, "pip", "list", "--python", python], capture_output=True, check=True, text=True
        )
        assert listed.stdout.splitlines()[-1].split() == ["demo", "1"]
        subprocess.run([uv, "pip", "check", "--python", python], capture_output=True, check=True)
