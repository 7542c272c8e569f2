"""Every rule has its test."""

from __future__ import annotations

from rules.coverage import measure


def test_every_rule() -> None:
    """Every required rule has a test that names it, and no test names anything else."""
    assert measure().faults == ()
