"""One accident after another to the same change, and what is found afterwards."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from faults.changes import Change, write_lock
from faults.scene import Ended, Scene, Step, difference, snapshot

_LINES, _EXAMPLES = 8, 6

MARK = ".wheelfit"
"""What is in the name of everything that is there only for a while."""


@dataclass(slots=True)
class Outcome:
    """Count what was found after accidents."""

    found: Counter[str] = field(default_factory=Counter)
    """How often the environment was old, or new, at the end."""
    between: int = 0
    """How often it was neither right after the accident, before anything was mended."""
    broken: list[str] = field(default_factory=list)
    """What was wrong in the end, a paragraph each."""

    @property
    def trials(self) -> int:
        """How many accidents there were."""
        return self.found.total() + len(self.broken)

    def report(self) -> str:
        """Return what was wrong, the first few in full."""
        more = len(self.broken) - _EXAMPLES
        return "\n".join(self.broken[:_EXAMPLES]) + (f"\nand {more} more" if more > 0 else "")

    def __str__(self) -> str:
        return (
            f"{self.trials:5} accidents, {self.between:4} in mid-change; "
            f"then {self.found['old']:4} old, {self.found['new']:4} new, {len(self.broken)} broken"
        )


class Prepared:
    """Hold a change, the scene of it, and how that looks without any accident.

    :param change: what to do.
    :param folder: where to make the scene.
    :param index: URL of the index.
    :param wheels: the folder that it serves.
    """

    def __init__(self, change: Change, folder: Path, index: str, wheels: Path) -> None:
        self.change = change
        self.scene = Scene(folder, index)
        write_lock(self.scene, wheels)
        for words in change.before:
            self.scene.must(*words)
        self.scene.keep("before")
        self.numbers = self.scene.numbers()
        self.old = snapshot(self.scene.environment)
        self.plain = self.scene.run(*change.words, step=Step(data=folder / "written"))
        assert self.plain.code == 0, self.plain
        self.new = snapshot(self.scene.environment)
        self.cached = snapshot(self.scene.cache)
        self.scene.keep("after")
        assert self.old != self.new or change.name in {"reinstall", "rewrite"}
        assert not self.leftovers()

    @property
    def calls(self) -> int:
        """How many system calls of the change write something."""
        return len(self.plain.calls)

    def again(self, step: Step) -> Ended:
        """Do the change once more from the start, with an accident."""
        self.scene.back_to("before")
        return self.scene.run(*self.change.words, step=step)

    def state(self, *, leftovers: bool = False) -> str:
        """Say what the environment is now: old, new, or in what it differs from both.

        :param leftovers: leave aside what the next command will remove.
        """
        found = snapshot(self.scene.environment)
        if leftovers:
            found = {name: what for name, what in found.items() if MARK not in name}
        if found == self.new:
            return "new"
        if found == self.old:
            return "old"
        faults = [difference(found, self.old), difference(found, self.new)]
        return "\n    ".join(min(faults, key=len)[:_LINES])

    def leftovers(self, *, temporary: bool = True) -> list[str]:
        """Return what lies about that no user would want.

        :param temporary: also what is in the folder for temporary files.
        """
        scene = self.scene
        # Python itself tries out with a small file whether the folder can be written.
        found = [
            str(path)
            for path in scene.temporary.rglob("*")
            if temporary and not (path.is_file() and path.stat().st_size <= len("blat"))
        ]
        for folder, folders, files in os.walk(scene.environment):
            found += [f"{folder}/{name}" for name in folders + files if MARK in name]
        return found

    def mend(
        self,
        outcome: Outcome,
        what: str,
        *words: str,
        wanted: str = "",
        step: Step | None = None,
    ) -> None:
        """Look at what an accident left, let the next command mend it, and judge.

        :param outcome: where to count it.
        :param what: the accident, for people.
        :param words: the next command.
        :param wanted: the state to be in; either of old and new if empty.
        :param step: how the next command is run.
        """
        if self.state() not in {"old", "new"}:
            outcome.between += 1
        ended = self.scene.run(*words, step=step)
        state = self.state()
        faults = []
        # What has been removed cannot be removed again.
        is_gone = words[0] == "uninstall" and ended.code == 1 and state == "new"
        if (ended.code and not is_gone) or "Traceback" in ended.err:
            faults.append(f"{' '.join(words)} ended with {ended.code}: {ended.err}")
        if state not in ({wanted} if wanted else {"old", "new"}):
            faults.append(f"the environment is not {wanted or 'old or new'}: {state}")
        # A command that finds nothing to do looks for no temporary folders.
        left = self.leftovers(temporary=words[0] == "recover")
        faults += [f"left over: {path}" for path in left]
        if faults:
            outcome.broken.append(f"{what}:\n  " + "\n  ".join(faults))
        else:
            outcome.found[state] += 1


def spread(count: int, most: int, offset: int = 0) -> Iterable[int]:
    """Return at most so many of the numbers from 1, evenly spread.

    :param count: the highest number.
    :param most: how many to return.
    :param offset: where to begin, so that several callers see different ones.
    """
    if count <= most:
        return range(1, count + 1)
    return sorted({1 + (offset + number * count // most) % count for number in range(most)})
