"""A system call that changes files fails: the disk is full, read-only or broken, files run out."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from faults.changes import CHANGES, Change
from faults.scene import Step
from faults.trials import Outcome, Prepared, spread

pytestmark = pytest.mark.usefixtures("stepping")

OPENING = ("open", "openat", "creat", "openat2")
GROWING = (
    *OPENING,
    *("write", "pwrite64", "writev", "pwritev", "ftruncate", "fallocate", "sendfile"),
    *("copy_file_range", "mkdir", "mkdirat", "symlink", "symlinkat", "link", "linkat"),
)
ENDS = {0, 1, 5, 6}
"""Done after all (a cache that is full keeps nobody from installing), no temporary file can be
written, what was downloaded cannot be kept, or the environment cannot be changed."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Describe what goes wrong."""

    name: str
    act: str
    errno: int
    only: tuple[str, ...] = ()


TROUBLES = (
    Trouble("one error of the disk", "fail", errno.EIO),
    Trouble("no space for a moment", "fail", errno.ENOSPC),
    Trouble("no space from then on", "fail-from", errno.ENOSPC, GROWING),
    Trouble("quota used up", "fail-from", errno.EDQUOT, GROWING),
    Trouble("read-only from then on", "fail-from", errno.EROFS),
    Trouble("no more open files", "fail-from", errno.EMFILE, OPENING),
)


def fail_everywhere(prepared: Prepared, trouble: Trouble, most: int) -> Outcome:
    """Let a change run into trouble at many of its calls."""
    outcome = Outcome()
    offset = sum(map(ord, prepared.change.name + trouble.name))
    for number in spread(prepared.calls, most, offset):
        ended = prepared.again(Step(number, trouble.act, trouble.errno, trouble.only))
        calls = [call for call in ended.calls if "failed" in call]
        what = f"{prepared.change.name}, {trouble.name} at call {number} {calls[:1]}"
        faults = []
        if ended.code not in ENDS or "Traceback" in ended.err:
            faults.append(f"ended with {ended.code}: {ended.err[-600:]}")
        # Where nothing can be written any more nothing can be undone either, until later.
        if trouble.errno != errno.EROFS:
            state = prepared.state(leftovers=True)
            if state != ("new" if ended.code == 0 else "old") and prepared.old != prepared.new:
                faults.append(f"after exit {ended.code} the environment is {state}: {ended.err}")
        if faults:
            outcome.broken.append(f"{what}: " + "\n  ".join(faults))
        wanted = "new" if ended.code == 0 else ""
        prepared.mend(outcome, what, "recover", wanted=wanted)
    return outcome


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_some(
    change: Change, prepared: Callable[[Change], Prepared], figures: Callable[[str], None]
) -> None:
    """A change that meets an error has happened or not, and says so in words."""
    made = prepared(change)
    number = CHANGES.index(change)
    broken = []
    for trouble in (TROUBLES[number % len(TROUBLES)], TROUBLES[(number + 3) % len(TROUBLES)]):
        outcome = fail_everywhere(made, trouble, 2)
        broken += outcome.broken
        figures(f"failing system calls   {change.name:10} {outcome}  {trouble.name}")
    assert not broken, "\n".join(broken)


@pytest.mark.faults_long
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.name)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_all(
    change: Change,
    trouble: Trouble,
    prepared: Callable[[Change], Prepared],
    figures: Callable[[str], None],
) -> None:
    """The same at every third call, in every kind of trouble."""
    made = prepared(change)
    outcome = fail_everywhere(made, trouble, made.calls // 3)
    figures(f"failing system calls   {change.name:10} {outcome}  {trouble.name}")
    assert not outcome.broken, outcome.report()
