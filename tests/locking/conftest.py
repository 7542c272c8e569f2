"""Fixtures of the tests of locking."""

from __future__ import annotations

import pytest
from locking.shelf import Shelf


@pytest.fixture
def shelf() -> Shelf:
    """Return an empty repository."""
    return Shelf()
