"""Claims about the number of processors."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.wheels.processors import processor_count


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        ("50000 100000", 1),
        ("100000 100000", 1),
        ("150000 100000", 2),
        ("max 100000", None),
        ("6400000 100000", None),
        ("not a limit at all", None),
        (None, None),
    ],
)
def test_share_of_a_container(tmp_path: Path, limit: str | None, most: int | None) -> None:
    """A share of the processors' time limits their number, if it is less."""
    everything = processor_count(tmp_path / "no such group")
    if limit is not None:
        (tmp_path / "cpu.max").write_text(f"{limit}\n")
    assert processor_count(tmp_path) == min(everything, most or everything)
