"""Claims about finding an interpreter and learning what it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.tags import sys_tags
from sampled_cases import sampled

from wheelfit.errors import UnusableInterpreter
from wheelfit.installation.interpreter import (
    DEADLINE,
    find_interpreter,
    inspect_interpreter,
    is_running,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ENVIRON = dict(os.environ)
NOWHERE = Path("/nonexistent")
"""A folder below which nothing is."""
OTHERS = sorted(Path.home().glob(".pyenv/versions/*/bin/python"))


def inspect(path: Path | str | None, deadline: float = DEADLINE) -> object:
    """Inspect with the variables of the test."""
    return inspect_interpreter(None if path is None else Path(path), ENVIRON, deadline=deadline)


def script(folder: Path, text: str) -> Path:
    """Write a program that pretends to be an interpreter."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


class TestFind:
    """The order: what was named, the active environment, ``.venv`` of a folder above."""

    def test_running_is_no_default(self) -> None:
        """Without anything named or active there is none; the running one is not taken."""
        assert find_interpreter(None, {}, NOWHERE) is None

    def test_active_environment(self, venv: Path) -> None:
        """VIRTUAL_ENV names the environment to use."""
        interpreter = find_interpreter(None, {"VIRTUAL_ENV": str(venv)}, NOWHERE)
        assert interpreter == venv / "bin" / "python"

    def test_conda(self, venv: Path) -> None:
        """CONDA_PREFIX names the environment to use, but not the base one, where conda lives."""
        environ = {"CONDA_PREFIX": str(venv), "CONDA_DEFAULT_ENV": "work"}
        assert find_interpreter(None, environ, NOWHERE) == venv / "bin" / "python"
        environ["CONDA_DEFAULT_ENV"] = "base"
        assert find_interpreter(None, environ, NOWHERE) is None

    def test_virtual_environment_beats_conda(self, make_venv: Callable[[], Path]) -> None:
        """Both may be active, and the virtual environment was activated within the other."""
        inner, outer = make_venv(), make_venv()
        environ = {"VIRTUAL_ENV": str(inner), "CONDA_PREFIX": str(outer)}
        assert find_interpreter(None, environ, NOWHERE) == inner / "bin" / "python"

    def test_nearest_folder_above(self, venv: Path, tmp_path: Path) -> None:
        """``.venv`` of the folder itself or of the nearest one above is used."""
        inner = tmp_path / "project" / "src" / "package"
        inner.mkdir(parents=True)
        (tmp_path / "project" / ".venv").symlink_to(venv)
        (tmp_path / "project" / "src" / ".venv").mkdir()  # no environment
        interpreter = find_interpreter(None, {}, inner)
        assert interpreter == tmp_path / "project" / ".venv" / "bin" / "python"

    @pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="this is not a virtual environment")
    def test_own_environment_is_not_found(self, tmp_path: Path) -> None:
        """Even as ``.venv`` of the folder, the environment that runs this is not meant."""
        (tmp_path / ".venv").symlink_to(sys.prefix)
        assert find_interpreter(None, {}, tmp_path) is None

    def test_environment_of_another_user(self, tmp_path: Path) -> None:
        """Its Python would run with our rights: nobody is led into that by a folder above."""
        venv = tmp_path / ".venv"
        venv.mkdir()
        (venv / "pyvenv.cfg").touch()
        try:
            os.chown(venv, 12345, -1)
        except OSError:
            pytest.skip("only root can give a folder away")
        with pytest.raises(UnusableInterpreter, match="another user") as excinfo:
            find_interpreter(None, {}, tmp_path)
        assert f"--python {venv}" in str(excinfo.value.hint)

    def test_system(self, venv: Path, tmp_path: Path) -> None:
        """The system's Python is the first on PATH that belongs to no virtual environment."""
        python = script(tmp_path, "exit 0").rename(tmp_path / "python3")
        (tmp_path / "folder" / "python3").mkdir(parents=True)  # as /usr/lib/python3
        path = os.pathsep.join(
            ["", "bin", str(venv / "bin"), str(tmp_path / "folder"), str(tmp_path)]
        )
        environ = {"PATH": path, "VIRTUAL_ENV": str(venv)}
        assert find_interpreter(None, environ, NOWHERE, system=True) == python
        with pytest.raises(UnusableInterpreter, match="virtual environments"):
            find_interpreter(None, {"PATH": str(venv / "bin")}, NOWHERE, system=True)

    def test_named_beats_active(self, make_venv: Callable[[], Path]) -> None:
        """What is named explicitly wins over VIRTUAL_ENV."""
        named, active = make_venv(), make_venv()
        assert (
            find_interpreter(str(named), {"VIRTUAL_ENV": str(active)}, NOWHERE)
            == named / "bin/python"
        )

    def test_path(self, venv: Path) -> None:
        """A path of an interpreter is taken as it is."""
        path = venv / "bin" / "python"
        assert find_interpreter(str(path), {}, NOWHERE) == path

    def test_name_on_path(self, venv: Path) -> None:
        """A bare name is looked up on the PATH of the given variables."""
        name = "my-python"
        (venv / "bin" / name).symlink_to("python")
        interpreter = find_interpreter(name, {"PATH": str(venv / "bin")}, NOWHERE)
        assert interpreter == venv / "bin" / name

    def test_version(self, venv: Path) -> None:
        """A version stands for the command of that version."""
        (venv / "bin" / "python3.77").symlink_to("python")
        interpreter = find_interpreter("3.77", {"PATH": str(venv / "bin")}, NOWHERE)
        assert interpreter == venv / "bin" / "python3.77"

    def test_free_threaded_version(self, venv: Path, tmp_path: Path) -> None:
        """The folders of uv and pyenv name free-threaded builds each in their own way."""
        for variable, folder in (
            ("PYENV_ROOT", "versions/3.77.0t"),
            ("UV_PYTHON_INSTALL_DIR", "cpython-3.77.0+freethreaded-linux-x86_64-gnu"),
        ):
            program = tmp_path / variable / folder / "bin" / "python3.77t"
            program.parent.mkdir(parents=True)
            program.symlink_to(venv / "bin" / "python")
            environ = {"PATH": "/nowhere", variable: str(tmp_path / variable)}
            assert find_interpreter("3.77t", environ, NOWHERE) == program

    @pytest.mark.parametrize(
        ("python", "command"),
        [("3.77", "python3.77"), ("python3.77", "python3.77"), ("my-python", "my-python")],
    )
    def test_nothing_of_the_current_folder(
        self, venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str, command: str
    ) -> None:
        """A version or a command never starts a program that lies in the current folder."""
        if python == "my-python":
            script(tmp_path, "exit 1").rename(tmp_path / python)
        else:
            (tmp_path / python / "bin").mkdir(parents=True)
            script(tmp_path / python / "bin", "exit 1")
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UnusableInterpreter, match="on PATH") as excinfo:
            find_interpreter(python, {"PATH": "/nonexistent"}, NOWHERE)
        assert f"write ./{python}" in str(excinfo.value.hint)
        assert find_interpreter(f"./{python}", {"PATH": "/nonexistent"}, NOWHERE)
        (venv / "bin" / command).symlink_to("python")
        interpreter = find_interpreter(python, {"PATH": str(venv / "bin")}, NOWHERE)
        assert interpreter == venv / "bin" / command

    def test_which_as_on_windows(self, venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """There `shutil.which` begins with the current folder, which does not count here."""
        monkeypatch.setattr(shutil, "which", lambda name, path: f"./{name}" if path else None)
        with pytest.raises(UnusableInterpreter, match="not found on PATH"):
            find_interpreter("python3.77", {"PATH": str(venv / "bin")}, NOWHERE)

    def test_folder_without_a_slash(
        self, venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An environment in the current folder may be called like a command, as ``env``."""
        for name in ("env", ".venv"):
            (tmp_path / name).symlink_to(venv)
        monkeypatch.chdir(tmp_path)
        for name in ("env", ".venv"):
            assert find_interpreter(name, ENVIRON, NOWHERE) == Path(name, "bin/python")
        monkeypatch.chdir(tmp_path / "env")
        assert find_interpreter(".", ENVIRON, NOWHERE) == Path("bin/python")

    def test_running_by_path(self) -> None:
        """The path of the running interpreter means the running one: no child is needed."""
        assert is_running(Path(sys.executable))

    def test_base_is_not_the_environment(self, venv: Path) -> None:
        """A link that leads to the running program is still another environment."""
        assert not is_running(venv / "bin" / "python")

    @pytest.mark.parametrize(
        ("python", "message"),
        [
            ("no-such-python", "on PATH"),
            ("./no/such/python", "Python interpreter does not exist"),
            ("9.99", "'python9.99'"),
            ("", "Python interpreter '' was not found"),
        ],
    )
    def test_missing(self, python: str, message: str) -> None:
        """What does not exist is refused with a hint."""
        with pytest.raises(UnusableInterpreter, match=message) as excinfo:
            find_interpreter(python, {"PATH": "/nonexistent"}, NOWHERE)
        assert excinfo.value.hint is not None

    def test_folder_without_interpreter(self, tmp_path: Path) -> None:
        """A folder that is not an environment is refused."""
        with pytest.raises(UnusableInterpreter, match="not a virtual environment"):
            find_interpreter(str(tmp_path), {}, NOWHERE)

    def test_active_environment_is_gone(self, tmp_path: Path) -> None:
        """A stale VIRTUAL_ENV is named, not ignored: another environment would be changed."""
        with pytest.raises(UnusableInterpreter, match="does not exist") as excinfo:
            find_interpreter(None, {"VIRTUAL_ENV": str(tmp_path / "gone")}, NOWHERE)
        assert excinfo.value.hint is not None
        assert "VIRTUAL_ENV" in excinfo.value.hint


class TestInspect:
    """What is learnt of an interpreter."""

    def test_child_and_process_agree(self) -> None:
        """The running interpreter says the same of itself in process and in a child."""
        inside = inspect_interpreter(None, ENVIRON)
        outside = inspect_interpreter(Path(sys.executable), ENVIRON)
        assert inside.running
        assert not outside.running
        for name in ("version", "prefix", "virtual", "stdlib", "schemes", "prefix_schemes"):
            assert getattr(inside, name) == getattr(outside, name), name
        assert inside.tags == outside.tags == tuple(sys_tags())
        assert inside.environment == outside.environment

    def test_environment_of_a_virtual_environment(self, venv: Path) -> None:
        """A virtual environment is recognised; its folders lie inside it."""
        interpreter = inspect_interpreter(venv / "bin" / "python", ENVIRON)
        assert interpreter.virtual
        assert interpreter.prefix == venv
        assert interpreter.executable == venv / "bin" / "python"
        assert interpreter.schemes.scripts == venv / "bin"
        assert interpreter.schemes.data == venv
        assert interpreter.schemes.purelib.is_relative_to(venv)
        assert interpreter.site_packages == (interpreter.schemes.purelib,)
        assert interpreter.externally_managed is None

    @pytest.mark.parametrize(
        "python",
        sampled(OTHERS, fast={0, len(OTHERS) - 1}),
        ids=lambda path: path.parts[-3],
    )
    def test_every_interpreter_here(self, python: Path) -> None:
        """CPython from 3.10 on describes itself with our packaging; older ones are refused."""
        version = tuple(int(part) for part in python.parts[-3].split(".")[:2])
        if version < (3, 10):
            with pytest.raises(UnusableInterpreter, match="too old"):
                inspect(python)
            return
        interpreter = inspect_interpreter(python, ENVIRON)
        assert interpreter.version[:2] == version
        assert interpreter.environment["python_version"] == "{}.{}".format(*version)
        assert interpreter.tags[0].interpreter == "cp{}{}".format(*version)
        # The same as the interpreter's own pip would say.
        command = "import json, sysconfig; print(json.dumps(sysconfig.get_paths()))"
        output = subprocess.run(
            [python, "-I", "-c", command], check=True, capture_output=True, text=True
        ).stdout
        paths = json.loads(output)
        assert str(interpreter.schemes.purelib) == paths["purelib"]
        assert str(interpreter.schemes.scripts) == paths["scripts"]

    def test_variables_do_not_reach_it(self, venv: Path, tmp_path: Path) -> None:
        """PYTHON* variables cannot put modules in front of the standard library's."""
        (tmp_path / "json.py").write_text("raise SystemExit(3)\n")
        interpreter = inspect_interpreter(
            venv / "bin/python", {**ENVIRON, "PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nope"}
        )
        assert interpreter.prefix == venv

    def test_own_packaging_is_not_used(self, venv: Path) -> None:
        """A packaging that is installed in the environment takes no part."""
        site = inspect_interpreter(venv / "bin/python", ENVIRON).schemes.purelib
        (site / "packaging").mkdir()
        (site / "packaging" / "__init__.py").write_text("raise SystemExit(3)\n")
        assert inspect_interpreter(venv / "bin/python", ENVIRON).tags

    @pytest.mark.integration
    @pytest.mark.parametrize("python", OTHERS, ids=lambda path: path.parts[-3])
    @pytest.mark.parametrize("options", [[], ["--system-site-packages"]], ids=["own", "system"])
    def test_as_with_start_up_files(self, python: Path, options: list[str], tmp_path: Path) -> None:
        """What is learnt without the start-up of the interpreter is what it would know after it."""
        version = tuple(int(part) for part in python.parts[-3].split(".")[:2])
        if version < (3, 10):
            pytest.skip("nothing is learnt of such old ones")
        place = tmp_path / "venv"
        subprocess.run(
            [python, "-m", "venv", "--without-pip", *options, place],
            check=True,
            env=ENVIRON,
        )
        interpreter = inspect_interpreter(place / "bin/python", ENVIRON)
        command = (
            "import json, site, sys, sysconfig; print(json.dumps(["
            "sys.prefix, sys.base_prefix, site.getsitepackages(), sysconfig.get_paths()]))"
        )
        output = subprocess.run(
            [place / "bin/python", "-I", "-c", command], check=True, capture_output=True, text=True
        ).stdout
        prefix, base, folders, paths = json.loads(output)
        assert (str(interpreter.prefix), interpreter.virtual) == (prefix, prefix != base)
        assert list(map(str, interpreter.site_packages)) == folders
        assert len(folders) == (2 if options else 1)
        for name in ("purelib", "platlib", "scripts", "data"):
            assert str(getattr(interpreter.schemes, name)) == paths[name]
        assert str(interpreter.stdlib) == paths["stdlib"]

    def test_start_up_files_do_not_run(self, venv: Path, tmp_path: Path) -> None:
        """Nothing of the environment runs while it describes itself."""
        site = inspect_interpreter(venv / "bin/python", ENVIRON).schemes.purelib
        mark = tmp_path / "ran"
        trap = f"open({str(mark)!r}, 'a').write('ran')\n"
        (site / "trap.pth").write_text(f"import sys; {trap}")
        for name in ("sitecustomize", "usercustomize", "json", "platform"):
            (site / f"{name}.py").write_text(trap)
        assert inspect_interpreter(venv / "bin/python", ENVIRON).virtual
        assert not mark.exists()

    def test_chatter_is_ignored(self, venv: Path) -> None:
        """Start-up files that print do not disturb the answer."""
        site = inspect_interpreter(venv / "bin/python", ENVIRON).schemes.purelib
        (site / "noise.pth").write_text("import sys; print('hello'); print('wheelfit')\n")
        assert inspect_interpreter(venv / "bin/python", ENVIRON).prefix == venv

    def test_base_packages_visible(self, tmp_path: Path) -> None:
        """With --system-site-packages the base's folders are searched after its own."""
        folder = tmp_path / "venv"
        options = ["--without-pip", "--system-site-packages"]
        subprocess.run([sys.executable, "-m", "venv", *options, str(folder)], check=True)
        interpreter = inspect_interpreter(folder / "bin/python", ENVIRON)
        assert interpreter.site_packages[0] == interpreter.schemes.purelib
        assert len(interpreter.site_packages) > 1

    def test_externally_managed(self, tmp_path: Path) -> None:
        """PEP 668: the marker file is read where the standard library lies."""
        # A relocated interpreter: the program with a folder of links as standard library.
        base = Path(sys._base_executable)  # type: ignore[attr-defined]
        interpreter = inspect_interpreter(base, ENVIRON)
        assert interpreter.externally_managed is None or "[externally-managed]" in (
            interpreter.externally_managed
        )
        home = tmp_path / "python"
        stdlib = home / interpreter.stdlib.relative_to(interpreter.prefix)
        stdlib.mkdir(parents=True)
        for entry in interpreter.stdlib.iterdir():
            if entry.name != "EXTERNALLY-MANAGED":
                (stdlib / entry.name).symlink_to(entry)
        (home / "bin").mkdir()
        shutil.copy2(base.resolve(), home / "bin" / "python3")
        (stdlib / "EXTERNALLY-MANAGED").write_text("[externally-managed]\nError=Use apt.\n")
        managed = inspect_interpreter(home / "bin" / "python3", ENVIRON)
        if managed.stdlib != stdlib:
            pytest.skip("this interpreter cannot be moved")
        assert managed.externally_managed == "[externally-managed]\nError=Use apt.\n"


class TestUnusable:
    """Interpreters that do not do, each with its reason."""

    def test_no_python(self) -> None:
        """A program that is not an interpreter is named as such."""
        with pytest.raises(UnusableInterpreter, match="not a Python interpreter"):
            inspect("/bin/true")

    def test_no_program(self, tmp_path: Path) -> None:
        """A file that cannot be run is refused with the system's reason."""
        path = tmp_path / "python"
        path.write_text("no program")
        with pytest.raises(UnusableInterpreter, match="cannot be started"):
            inspect(path)
        path.chmod(0o755)
        with pytest.raises(UnusableInterpreter, match="cannot be started"):
            inspect(path)

    def test_dangling_link(self, tmp_path: Path) -> None:
        """An environment whose base has been removed is refused, naming the link."""
        (tmp_path / "python").symlink_to(tmp_path / "gone")
        with pytest.raises(UnusableInterpreter, match="cannot be started") as excinfo:
            inspect(tmp_path / "python")
        assert excinfo.value.where == str(tmp_path / "python")

    def test_crash(self, tmp_path: Path) -> None:
        """An interpreter that dies on start is reported with its signal."""
        text = 'case "$*" in *isolated*) kill -SEGV $$;; esac\nexec ' + sys.executable + ' "$@"'
        with pytest.raises(UnusableInterpreter, match="ended by signal 11"):
            inspect(script(tmp_path, text))

    def test_failure_shows_why(self, tmp_path: Path) -> None:
        """What a failing interpreter wrote is part of the error."""
        text = 'case "$*" in *isolated*) echo no stdlib >&2; exit 4;; esac\n'
        text += f'exec {sys.executable} "$@"'
        with pytest.raises(UnusableInterpreter, match="status 4") as excinfo:
            inspect(script(tmp_path, text))
        assert excinfo.value.note == "no stdlib"

    def test_silence(self, tmp_path: Path) -> None:
        """An interpreter that does not answer is given up after the deadline."""
        with pytest.raises(UnusableInterpreter, match="did not answer"):
            inspect(script(tmp_path, "exec sleep 60"), deadline=0.3)

    def test_interrupted_meanwhile(self, tmp_path: Path) -> None:
        """What is interrupted while an interpreter describes itself does not wait for it."""

        def interrupted() -> None:
            raise KeyboardInterrupt

        python = script(tmp_path, "exec sleep 60")
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            inspect_interpreter(python, ENVIRON, meanwhile=interrupted)
        assert time.monotonic() - begin < 30

    def test_nonsense(self, tmp_path: Path) -> None:
        """An answer of the wrong shape is no answer."""
        with pytest.raises(UnusableInterpreter, match="not a Python interpreter"):
            inspect(script(tmp_path, "echo 'wheelfit-interpreter:{}'"))
