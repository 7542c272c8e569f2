"""`explain --try` loads what it tells of, in processes that may fail."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from python_runs import RUNTIME_SOURCE, plain_environ, run_python
from runtime.declaring import LOADS_SPAM, declaration, declare

from wheelfit_runtime.loader.declaration_files import FOLDER
from wheelfit_runtime.loader.explaining import add_trials
from wheelfit_runtime.platforms.child_processes import Answer, Ending, Question


class World:
    """Return an environment with a package that is split."""

    def __init__(self, site: Path) -> None:
        self.site = site
        (site / FOLDER).mkdir()
        (site / "spam.py").write_text(LOADS_SPAM)

    def declare(self, name: str, text: str, *, priority: int = 0, needs: str = "") -> None:
        """Install an implementation with some code."""
        told = declaration(f"spam-{name}", *([needs] if needs else []), priority=priority)
        declare(self.site, f"spam-{name}.json", told)
        (self.site / f"spam_{name}.py").write_text(text)

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run ``explain --try``."""
        path = os.pathsep.join([str(self.site), str(RUNTIME_SOURCE)])
        words = ("-m", "wheelfit_runtime", "explain", "spam", "--try", *arguments)
        given = {**plain_environ(), "PYTHONPATH": path, **environ}
        return run_python(*words, environ=given, cwd=self.site)

    def told(self) -> dict[str, Any]:
        """Return what is told of the group, and the status, as ``status``."""
        done = self.run("--json")
        assert done.stderr == ""
        (group,) = json.loads(done.stdout)["groups"]
        tried = {
            implementation["implementation"]: implementation["tried"]
            for implementation in group["implementations"]
        }
        return {"group": group["tried"], **tried, "status": done.returncode}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return an environment with spam, whose one implementation runs everywhere and prints."""
    found = World(tmp_path)
    found.declare("generic", "import spam\nprint('hello', end='')\nNAME = 'generic'\n")
    return found


@pytest.mark.integration
def test_what_loads(world: World) -> None:
    """What goes well is said to, and for how long it took."""
    told = world.told()
    assert told["group"]["implementation"] == told["generic"]["implementation"] == "generic"
    assert 0 < told["generic"]["seconds"] < 60
    assert told["status"] == 0
    assert "  tried: generic is used\n  * generic (spam_generic): needs nothing\n" in (
        world.run().stdout
    )


def test_the_next_is_taken(world: World) -> None:
    """Without the library of the best, what is really used is another, with a warning."""
    world.declare("best", "import no_such_library\n", priority=1)
    told = world.told()
    words = "cannot be loaded: No module named 'no_such_library'"
    assert (told["best"]["outcome"], told["best"]["message"]) == ("not loadable", words)
    assert told["group"]["implementation"] == "generic"
    assert told["group"]["warnings"] == [
        f"spam uses generic; could not be used: best ({words})",
    ]
    shown = world.run().stdout
    assert shown.startswith("spam: best would be used\n  tried: generic is used\n    warning: spam")
    assert f"      tried: {words}\n" in shown


@pytest.mark.parametrize(
    ("code", "outcome", "words"),
    [
        ("raise ValueError('of its own')", "raised", "ValueError: of its own"),
        pytest.param("raise SystemExit", "raised", "SystemExit", marks=pytest.mark.integration),
        ("import os; os._exit(9)", "crashed", "the process ends with status 9"),
        pytest.param(
            "import os, signal; os.kill(os.getpid(), signal.SIGILL)",
            "crashed",
            "the process ends with SIGILL",
            marks=pytest.mark.skipif(os.name != "posix", reason="needs signals"),
        ),
    ],
)
def test_what_a_program_would_not_survive(
    world: World, code: str, outcome: str, words: str
) -> None:
    """What ends the import ends that of the group, for nothing else is tried; it is no fit."""
    world.declare("best", code, priority=1)
    told = world.told()
    for one in ("best", "group"):
        assert (told[one]["outcome"], told[one]["message"]) == (outcome, words)
        assert told[one]["implementation"] is None
    assert told["generic"]["outcome"] == "loaded"
    assert told["status"] == 3


def test_what_does_not_fit(world: World) -> None:
    """What this machine does not support is not loaded: it might damage what it meets."""
    world.declare("none", "open('loaded', 'w')", needs="acme :: rod :: 1")
    assert world.told()["none"] is None
    assert not (world.site / "loaded").exists()


def test_a_demand(world: World) -> None:
    """A variable that demands one counts for the group."""
    world.declare("best", "", priority=1)
    assert "tried: generic is used" in world.run(SPAM_IMPLEMENTATION="generic").stdout


def test_nothing_is_installed(tmp_path: Path) -> None:
    """A group of which nothing is there is told of as ever, and why."""
    world = World(tmp_path)
    (tmp_path / "spam.py").unlink()
    assert world.run().returncode == 3


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(Ending.LATE), "the import takes longer than 120 s"),
        (Answer(Ending.NOT_STARTED, errors=b"no\nmemory"), r"not started: no\nmemory"),
        (Answer(Ending.FLOODED), "wrote too much"),
        (Answer(Ending.KILLED, 99), "the process ends with signal 99"),
    ],
)
def test_other_endings(answer: Answer, words: str) -> None:
    """However a child ends, it is told in words."""

    class Ended:
        def ask(self, question: Question) -> Answer:
            assert question.arguments[0] == "python"
            return answer

    found: dict[str, Any] = {"groups": [{"group": "spam", "implementations": []}]}
    add_trials(found, {}, "python", Ended())
    assert found["groups"][0]["tried"]["message"] == words
