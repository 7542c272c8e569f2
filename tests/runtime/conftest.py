"""What is left to those who ask for it."""

from __future__ import annotations

import pytest

_LONG = ("cuda_real", "frozen_long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what takes minutes or hundreds of megabytes to those who name its marker."""
    asked = config.option.markexpr
    left = [
        item
        for item in items
        if any(item.get_closest_marker(name) and name not in asked for name in _LONG)
    ]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
