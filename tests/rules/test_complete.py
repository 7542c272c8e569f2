"""Every rule has its test."""

from __future__ import annotations

import pytest
from rules.coverage import measure


@pytest.mark.integration  # beside the fast tests the script runs by itself
def test_every_rule() -> None:
    """Every required rule has a test that names it, and no test names anything else."""
    assert measure().faults == ()
