"""Kinds of the fake drivers."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.testing.drivers import (
    FakeDriver,
    FakeLevelZero,
    compile_fake_driver,
    compile_fake_level_zero,
)


@pytest.fixture(scope="session")
def fake_libcuda(fake_driver_folder: Path) -> FakeDriver:
    """Return a driver with libcuda only, as on a Jetson."""
    return compile_fake_driver(fake_driver_folder / "cuda", libraries=["libcuda.so.1"])


@pytest.fixture(scope="session")
def fake_old_driver(fake_driver_folder: Path) -> FakeDriver:
    """Return a driver that lacks the newer functions."""
    return compile_fake_driver(fake_driver_folder / "old", without_v2=True)


@pytest.fixture(scope="session")
def fake_level_zero(fake_driver_folder: Path) -> FakeLevelZero:
    """Return a Level Zero loader."""
    return compile_fake_level_zero(fake_driver_folder / "level zero")


@pytest.fixture(scope="session")
def fake_old_level_zero(fake_driver_folder: Path) -> FakeLevelZero:
    """Return a Level Zero loader that lacks the newer function."""
    return compile_fake_level_zero(fake_driver_folder / "old level zero", without_init_drivers=True)
