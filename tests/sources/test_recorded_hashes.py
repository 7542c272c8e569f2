"""Hashes that are recorded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.utils import canonicalize_name

from wheelfit.sources.cache import Store
from wheelfit.sources.page import File
from wheelfit.sources.recorded_hashes import RecordedHashes
from wheelfit_runtime.errors import IntegrityError

if TYPE_CHECKING:
    from pathlib import Path

A = canonicalize_name("a")


def test_files_that_differ_in_the_query_only(tmp_path: Path) -> None:
    """A signature in the query may change, but a query may also say which file is meant."""
    recorded = RecordedHashes(Store(tmp_path))
    wheels = [File(f"a-{n}-py3-none-any.whl", f"https://h.example/f?id={n}") for n in (1, 2)]
    for number, wheel in enumerate(wheels):
        recorded.check(A, wheel, f"{number:064x}")
    again = File(wheels[0].filename, "https://h.example/f?id=1&signature=new")
    assert recorded.of(again) == f"{0:064x}"
    with pytest.raises(IntegrityError, match="has changed"):
        recorded.check(A, again, f"{1:064x}")
