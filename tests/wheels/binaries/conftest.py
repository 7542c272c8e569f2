"""What tests of binaries need."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave large wheels and NVIDIA's compiler to those who ask for them."""
    if "binaries_long" in config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("binaries_long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
