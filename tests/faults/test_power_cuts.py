"""The power goes in the middle of a change, and what was not waited for is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import cycle
from random import Random

import pytest
from faults.changes import CHANGES, Change
from faults.disk import Disk
from faults.scene import Step, snapshot
from faults.trials import Outcome, Prepared

pytestmark = pytest.mark.usefixtures("stepping")

SMALL = {"pages", "files", "members", "parsed", "interpreters"}
NEEDED = {"install": "demo==2.0", "upgrade": "demo==2.0", "sync": "demo==2.0"}


class Powerless:
    """Cut the power of one change again and again.

    :param prepared: the change.
    :param waits: False to forget whenever it waited for the disk.
    """

    def __init__(self, prepared: Prepared, *, waits: bool = True) -> None:
        self.prepared = prepared
        scene = prepared.scene
        written = scene.folder / "written"
        calls, numbers = list(prepared.plain.calls), prepared.numbers
        if not waits:
            calls = [call for call in calls if "sync" not in call["call"]]
        self.disk = Disk(scene.kept("before"), scene.state, calls, written, numbers)
        self.wanted = NEEDED.get(prepared.change.name, "demo==1.0")
        self.target = scene.state / "target"
        scene.must("install", "--no-cache-dir", self.wanted, "--target", self.target)
        self.right = snapshot(self.target)
        self.answers_lost = 0
        """How many small entries had to be dropped."""

    def cut(self, outcome: Outcome, random: Random, at: int, *, ordered: bool) -> None:
        """Cut the power before a call, boot, and judge environment and cache."""
        scene = self.prepared.scene
        shutil.rmtree(scene.state)
        numbers = self.disk.after_a_cut(scene.state, at, random, ordered=ordered)
        order = "in order" if ordered else "loose"
        what = f"{self.prepared.change.name}, power cut before call {at}, names {order}"
        for path in scene.temporary.iterdir():  # as systems do when they start
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.prepared.mend(outcome, what, "recover", step=Step(numbers=numbers))
        fault = self.fault_of_cache()
        if fault:
            outcome.broken.append(f"{what}: {fault}")

    def fault_of_cache(self) -> str:
        """Say what a command that takes its wheels from the cache got wrong; empty for nothing."""
        scene = self.prepared.scene
        result = scene.run("install", self.wanted, "--target", self.target)
        found = snapshot(self.target) if self.target.exists() else {}
        if result.code or found != self.right:
            return f"the cache gave a wrong installation ({result.code}): {result.err}"
        verify = ("cache", "verify", "--json", "--cache-dir", scene.cache)
        damaged = json.loads(scene.run(*verify).out)["damaged"]
        # What indexes and interpreters said is not waited for: it carries a checksum, and they are
        # asked again.
        wrong = [entry for entry in damaged if entry["kind"] not in SMALL]
        if wrong or scene.run(*verify).code:
            return f"the cache has damaged wheels: {wrong}"
        self.answers_lost += len(damaged)
        return ""


@pytest.mark.parametrize("trials", [2, pytest.param(35, marks=pytest.mark.faults_long)])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_power_cuts(
    change: Change,
    trials: int,
    prepared: Callable[[Change], Prepared],
    figures: Callable[[str], None],
) -> None:
    """After a power cut a change has happened or not, and the cache holds nothing wrong.

    At random moments, with both models of how names reach the disk.
    """
    powerless = Powerless(prepared(change))
    outcome, random = Outcome(), Random(len(change.name))
    for _, ordered in zip(range(trials), cycle([True, False]), strict=False):
        powerless.cut(outcome, random, random.randint(0, powerless.disk.calls), ordered=ordered)
    figures(
        f"power cut              {change.name:10} {outcome}; {powerless.answers_lost} answers lost"
    )
    assert not outcome.broken, outcome.report()


def test_waiting_is_what_does_it(prepared: Callable[[Change], Prepared]) -> None:
    """The same change, had it waited for nothing, is broken by a power cut before long."""
    powerless = Powerless(prepared(CHANGES[1]), waits=False)
    outcome, random = Outcome(), Random(5)  # most seeds need some more cuts
    while not outcome.broken:
        assert outcome.trials < 20
        powerless.cut(outcome, random, powerless.disk.calls, ordered=True)


def test_what_was_reported_stays(prepared: Callable[[Change], Prepared]) -> None:
    """Once the command has ended well, no power cut undoes it."""
    powerless = Powerless(prepared(CHANGES[1]))
    for seed in range(2):
        outcome = Outcome()
        powerless.cut(outcome, Random(seed), powerless.disk.calls, ordered=bool(seed % 2))
        assert not outcome.broken, outcome.report()
        assert outcome.found["new"] == 1
