"""What people are told of what takes its time."""

from __future__ import annotations

import io
import time

from wheelfit_runtime.libraries.progress import Progress


def test_progress_waits_and_then_tells() -> None:
    """Nothing is said of what is quick; of the rest, each thing once where lines stay."""
    quick, slow = io.StringIO(), io.StringIO()
    Progress(quick).report("fetching x", 1, 2)
    assert quick.getvalue() == ""
    teller = Progress(slow, patience=0)
    for done in (1_000_000, 2_000_000):
        teller.report("fetching x", done, 90_000_000)
    teller.report("fetching y")
    teller.end()
    assert slow.getvalue() == "wheelfit: fetching x (1 of 90 MB)\nwheelfit: fetching y\n"


def test_progress_of_what_says_nothing() -> None:
    """While a child runs that says nothing, people are told all the same."""
    stream = io.StringIO()
    with Progress(stream, patience=0.01).during("resolving with pip"):
        while not stream.getvalue():
            time.sleep(0.01)
    assert stream.getvalue().startswith("wheelfit: resolving with pip")


def test_progress_where_nobody_listens() -> None:
    """A closed stream is told nothing."""
    stream = io.StringIO()
    stream.close()
    teller = Progress(stream, patience=0)
    teller.report("fetching x")
    teller.end()
