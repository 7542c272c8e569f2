"""Claims about remembering what interpreters said of themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sampled_cases import sampled

from wheelfit.errors import UnusableInterpreter
from wheelfit.installation.interpreter import Interpreter, inspect_interpreter
from wheelfit.installation.known_interpreters import KIND
from wheelfit.sources.cache import Store, interpreter_key

if TYPE_CHECKING:
    from collections.abc import Callable


class Describing:
    """Describe interpreters, and tell whether one has to be started for it.

    :param folder: where the answers are kept.
    """

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "cache")
        self.environ = dict(os.environ)
        self.ahead = 3 * 10**9

    def __call__(self, path: Path) -> Interpreter:
        """Describe an interpreter, a moment later than it is."""
        return inspect_interpreter(
            path,
            self.environ,
            store=lambda: self.store,
            clock=lambda: time.time_ns() + self.ahead,
        )

    def asked(self, path: Path) -> bool:
        """Return whether it has to be started now: with no time to answer, that fails."""
        try:
            known = inspect_interpreter(
                path, self.environ, store=lambda: self.store, deadline=0.000_001
            )
        except UnusableInterpreter as error:
            assert "did not answer" in str(error)  # noqa: PT017
            return True
        assert known == inspect_interpreter(path, self.environ)
        return False


@pytest.fixture
def describe(tmp_path: Path) -> Describing:
    """Return what describes interpreters and remembers it."""
    return Describing(tmp_path)


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Return the interpreter of an environment."""
    return make_environment(tmp_path / "venv")


def make_environment(folder: Path) -> Path:
    """Make an environment as `venv` does, and return its interpreter."""
    (folder / "bin").mkdir(parents=True)
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    (folder / "bin" / "python").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    return folder / "bin" / "python"


def test_not_asked_twice(describe: Describing, python: Path) -> None:
    """What an interpreter said is known from then on, in every detail."""
    assert describe.asked(python)
    told = describe(python)
    assert not describe.asked(python)
    assert describe(python) == told
    assert not told.running


def test_other_work_is_done_while_it_is_started(describe: Describing, python: Path) -> None:
    """What is to be done meanwhile is left where nothing is started."""
    calls: list[str] = []
    for _ in range(2):
        inspect_interpreter(
            python,
            describe.environ,
            store=lambda: describe.store,
            clock=lambda: time.time_ns() + describe.ahead,
            meanwhile=lambda: calls.append("called"),
        )
    assert calls == ["called"]


def test_what_was_made_just_now(describe: Describing, tmp_path: Path) -> None:
    """Times do not tell apart two changes at once, so what is new is asked again."""
    python = make_environment(tmp_path / "new")
    describe.ahead = 0
    describe(python)
    assert describe.asked(python)


def test_two_environments(describe: Describing, python: Path, tmp_path: Path) -> None:
    """Each environment of one interpreter has an answer of its own."""
    other = make_environment(tmp_path / "other")
    describe(python)
    assert describe.asked(other)
    assert describe(other).prefix == tmp_path / "other"
    assert describe(python).prefix == tmp_path / "venv"
    assert not describe.asked(python)
    assert not describe.asked(other)


class TestChanges:
    """What may change the answer makes it be asked for."""

    def test_configuration(self, describe: Describing, python: Path, tmp_path: Path) -> None:
        """A ``pyvenv.cfg`` that was edited, even to the same length and time, counts anew."""
        file = tmp_path / "venv" / "pyvenv.cfg"
        file.write_text(file.read_text() + "include-system-site-packages = false\n")
        before = describe(python)
        assert not describe.asked(python)
        status = file.stat()
        file.write_text(file.read_text().replace("false", "true "))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert file.stat().st_size == status.st_size
        assert describe.asked(python)
        assert len(describe(python).site_packages) > len(before.site_packages)

    def test_no_configuration_any_more(
        self, describe: Describing, python: Path, tmp_path: Path
    ) -> None:
        """Without ``pyvenv.cfg`` it is the base."""
        describe(python)
        (tmp_path / "venv" / "pyvenv.cfg").unlink()
        assert describe.asked(python)
        assert not describe(python).virtual

    def test_nearer_configuration(self, describe: Describing, python: Path, tmp_path: Path) -> None:
        """A ``pyvenv.cfg`` beside the interpreter counts before the one above."""
        describe(python)
        shutil.copy(tmp_path / "venv" / "pyvenv.cfg", tmp_path / "venv" / "bin")
        assert describe.asked(python)

    def test_another_interpreter(self, describe: Describing, python: Path, tmp_path: Path) -> None:
        """A link that leads elsewhere is another interpreter."""
        another = shutil.copy2(python, tmp_path / "another")
        describe(python)
        python.unlink()
        python.symlink_to(another)
        assert describe.asked(python)

    def test_moved_and_copied(self, describe: Describing, python: Path, tmp_path: Path) -> None:
        """An environment that was moved away, and another in its place, are two."""
        describe(python)
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "venv", copy, symlinks=True)
        assert describe.asked(copy / "bin/python")
        (tmp_path / "venv").rename(tmp_path / "away")
        copy.rename(tmp_path / "venv")
        assert describe.asked(python)
        assert describe.asked(tmp_path / "away/bin/python")

    @pytest.mark.parametrize("what", sampled(["program", "managed"], fast={0}))
    def test_upgrade(self, describe: Describing, tmp_path: Path, what: str) -> None:
        """Another program, or a word of who manages it, is another answer."""
        python = a_whole_interpreter(tmp_path / "whole")
        describe(python)
        assert not describe.asked(python)
        library = describe(python).stdlib
        if what == "program":
            shutil.copy2(python, python.with_name("new"))
            python.with_name("new").replace(python)
        else:
            (library / "EXTERNALLY-MANAGED").write_text("[externally-managed]\nError=no\n")
        assert describe.asked(python)
        if what == "managed":
            assert describe(python).externally_managed

    @pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
    def test_unreadable_program(self, tmp_path: Path) -> None:
        """A program that may be run but not read is described, and not cached."""
        python = a_whole_interpreter(tmp_path / "whole")
        python.chmod(0o111)
        store = Store(tmp_path / "cache")
        assert inspect_interpreter(python, os.environ, store=lambda: store).executable == python

    def test_variables(self, describe: Describing, python: Path) -> None:
        """Variables by which an interpreter may be steered count, others do not."""
        describe(python)
        describe.environ["TERM_PROGRAM"] = "another"
        assert not describe.asked(python)
        describe.environ["LD_LIBRARY_PATH"] = "/nowhere"
        assert describe.asked(python)


def a_whole_interpreter(folder: Path) -> Path:
    """Make links to an installation that can be changed: its program is a copy."""
    program = "import sys, sysconfig; print(sys.executable, sysconfig.get_path('stdlib'))"
    base = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
    completed = subprocess.run([base, "-c", program], capture_output=True, text=True, check=True)
    executable, stdlib = map(Path, completed.stdout.split())
    library = folder / "lib" / stdlib.name
    library.mkdir(parents=True)
    for entry in stdlib.iterdir():
        if entry.name not in ("site-packages", "__pycache__", "test"):
            (library / entry.name).symlink_to(entry)
    for entry in stdlib.parent.glob("libpython*"):
        (folder / "lib" / entry.name).symlink_to(entry)
    (folder / "bin").mkdir()
    shutil.copy2(executable, folder / "bin" / "python")
    return folder / "bin" / "python"


class TestNotKept:
    """Where it cannot be told whether an answer still holds, none is kept."""

    def test_script(self, describe: Describing, python: Path, tmp_path: Path) -> None:
        """Behind a script may be another interpreter tomorrow."""
        script = tmp_path / "python"
        script.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
        script.chmod(0o755)
        describe(script)
        assert describe.asked(script)

    def test_script_that_gives_its_own_name(
        self, describe: Describing, python: Path, tmp_path: Path
    ) -> None:
        """A script may say that the interpreter behind it is itself."""
        script = tmp_path / "python"
        script.write_text(f'#!/bin/bash\nexec -a "$0" {python} "$@"\n')
        script.chmod(0o755)
        describe(script)
        assert describe.asked(script)

    def test_nowhere(self, python: Path, tmp_path: Path) -> None:
        """A store that keeps nothing leaves nothing, and the interpreter answers."""
        store = Store(None)
        assert inspect_interpreter(python, os.environ, store=lambda: store).virtual
        assert not (tmp_path / "cache").exists()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_read_only(self, python: Path, tmp_path: Path) -> None:
        """A folder that cannot be written stops nothing."""
        (tmp_path / "cache").mkdir(mode=0o500)
        store = Store(tmp_path / "cache")
        assert inspect_interpreter(python, os.environ, store=lambda: store).virtual

    def test_running_one(self) -> None:
        """The running interpreter knows itself; no store is opened."""

        def store() -> Store:
            raise AssertionError

        assert inspect_interpreter(None, os.environ, store=store).running


@pytest.mark.parametrize(
    "harm",
    sampled(
        fast={2},
        cases=[
            lambda data: data[:0],
            lambda data: data[:-20],
            lambda data: data.replace(b"cp3", b"cp4", 1),
        ],
    ),
)
def test_damaged(
    describe: Describing, python: Path, tmp_path: Path, harm: Callable[[bytes], bytes]
) -> None:
    """What was damaged is ignored, and written anew."""
    told = describe(python)
    (entry,) = (path for path in (tmp_path / "cache").rglob("*") if len(path.name) == 62)
    entry.write_bytes(harm(entry.read_bytes()))
    assert describe.asked(python)
    assert describe(python) == told
    assert not describe.asked(python)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b'{"other_inputs": []}', b"[" * 9999])
def test_nonsense(describe: Describing, python: Path, body: bytes) -> None:
    """What has another form is ignored."""
    describe.store.write(KIND, interpreter_key(str(python)), {}, body)
    assert describe.asked(python)


@pytest.mark.parametrize(
    ("old", "new"),
    sampled(
        fast={1},
        cases=[
            ('"launcher"', '"another"'),
            ('"tags":[[', '"tags":[[1,2,3],['),
            ('"tags":[[', '"tags":[7,['),
        ],
    ),
)
def test_facts_that_do_not_do(describe: Describing, python: Path, old: str, new: str) -> None:
    """Facts of which something is missing, or of another form, are asked for again."""
    describe(python)
    entry = describe.store.read(KIND, interpreter_key(str(python)))
    assert entry is not None
    body = entry.body.replace(old.encode(), new.encode(), 1)
    assert body != entry.body
    describe.store.write(KIND, interpreter_key(str(python)), {}, body)
    assert describe.asked(python)
    assert describe(python).launcher == "posix"
