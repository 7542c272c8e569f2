"""A command is killed before each of its system calls that change files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from faults.changes import CHANGES, Change
from faults.scene import Step
from faults.trials import Outcome, Prepared, spread

pytestmark = pytest.mark.usefixtures("stepping")

PARTS = 4


def kill_everywhere(prepared: Prepared, numbers: Iterable[int]) -> Outcome:
    """Kill a change at many of its calls, and let the next command mend it.

    Which one that is takes turns: twice ``recover``, then the same command again.
    """
    outcome = Outcome()
    for number in numbers:
        ended = prepared.again(Step(number))
        if not ended.fired:
            # Threads may make a call more or less; then it simply ran to its end.
            assert ended.code == 0, ended
            continue
        what = f"{prepared.change.name}, killed before call {number} {ended.calls[-1]}"
        if number % 3:
            prepared.mend(outcome, what, "recover")
        else:
            prepared.mend(outcome, what, *prepared.change.words, wanted="new")
    return outcome


def kill_the_mending(prepared: Prepared, numbers: Iterable[int], most: int) -> Outcome:
    """Kill a change, then many times the command that mends it, and let another one mend that."""
    outcome = Outcome()
    for number in numbers:
        prepared.again(Step(number))
        mended = prepared.scene.run("recover", step=Step())
        for second in spread(len(mended.calls), most, number):
            # From the start: what was interrupted knows its files by numbers, which copies lack.
            prepared.again(Step(number))
            prepared.scene.run("recover", step=Step(second))
            what = f"{prepared.change.name}, killed before call {number}, recover before {second}"
            prepared.mend(outcome, what, "recover")
    return outcome


@pytest.mark.parametrize(
    "part", [None, *(pytest.param(part, marks=pytest.mark.faults_long) for part in range(PARTS))]
)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_kills(
    change: Change,
    part: int | None,
    prepared: Callable[[Change], Prepared],
    figures: Callable[[str], None],
) -> None:
    """A change that is killed has happened or not, once the next command has run.

    Before two of its calls; the long run takes every single one, in four parts.
    """
    made = prepared(change)
    numbers = spread(made.calls, 2, sum(map(ord, change.name)))
    if part is not None:
        # A few more than there were: threads do not always need the same number.
        numbers = range(1 + part, made.calls + 5, PARTS)
    outcome = kill_everywhere(made, numbers)
    figures(f"kill at system calls   {change.name:10} {outcome}")
    assert not outcome.broken, outcome.report()


def test_what_is_there_already(prepared: Callable[[Change], Prepared]) -> None:
    """A reinstallation that is killed everywhere else never touches what is there already."""
    (change,) = [change for change in CHANGES if change.name == "reinstall"]
    made = prepared(change)
    paths = [path for call in made.plain.calls for path in call["paths"]]
    site = str(next(made.scene.environment.glob("lib/*/site-packages")))
    assert f"{site}/demo-1.0.dist-info" in paths
    assert f"{site}/demo_alone.py" in paths
    for folder in ("demo", "demo_more", "demo_gone"):
        assert not [path for path in paths if path.startswith(f"{site}/{folder}/")]
        assert f"{site}/{folder}" not in paths


def test_mending(prepared: Callable[[Change], Prepared], figures: Callable[[str], None]) -> None:
    """The command that mends may be killed as well; the next one mends all the same."""
    made = prepared(CHANGES[1])
    outcome = kill_the_mending(made, [made.calls * 3 // 4], 3)
    figures(f"kill of the mending    {made.change.name:10} {outcome}")
    assert not outcome.broken, outcome.report()


@pytest.mark.network
def test_other_tools_agree(prepared: Callable[[Change], Prepared], pip: Path, uv: Path) -> None:
    """After a kill and its mending pip and uv see what wheelfit sees, and find nothing wrong."""
    made = prepared(CHANGES[1])
    scene = made.scene
    made.again(Step(made.calls * 3 // 4))
    pip_line, uv_line = [str(pip), "--python", str(scene.python)], [str(uv), "pip"]
    # What is there between is not a project to anybody.
    assert "wheelfit" not in scene.run_line([*pip_line, "list"]).out
    scene.must("recover")
    listed = scene.must("list", "--json").out
    ours = {(entry["name"], entry["version"]) for entry in json.loads(listed)["packages"]}
    for line in ([*pip_line, "list"], [*uv_line, "list", "--python", str(scene.python)]):
        result = scene.run_line([*line, "--format", "json"])
        assert {(entry["name"], entry["version"]) for entry in json.loads(result.out)} == ours
    for line in ([*pip_line, "check"], [*uv_line, "check", "--python", str(scene.python)]):
        assert scene.run_line(line).code == 0


@pytest.mark.faults_long
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_all_mending(
    change: Change, prepared: Callable[[Change], Prepared], figures: Callable[[str], None]
) -> None:
    """The same after many kills, before each tenth call or so of what mends."""
    made = prepared(change)
    outcome = kill_the_mending(made, spread(made.calls, 10, 5), 6)
    figures(f"kill of the mending    {change.name:10} {outcome}")
    assert not outcome.broken, outcome.report()
