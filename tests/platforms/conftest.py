"""The fake NVIDIA driver, compiled once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wheelfit.testing.drivers import FakeDriver, compile_fake_driver, find_compiler

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def fake_driver_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a scratch folder for fake drivers, or skip without a C compiler."""
    if find_compiler() is None:
        pytest.skip("needs a C compiler (cc, gcc or clang) for the fake NVIDIA driver")
    return tmp_path_factory.mktemp("fake driver")


@pytest.fixture(scope="session")
def fake_driver(fake_driver_folder: Path) -> FakeDriver:
    """Return a driver with NVML and libcuda."""
    return compile_fake_driver(fake_driver_folder / "both")


@pytest.fixture(scope="session")
def fake_libcuda(fake_driver_folder: Path) -> FakeDriver:
    """Return a driver with libcuda only, as on a Jetson."""
    return compile_fake_driver(fake_driver_folder / "cuda", libraries=["libcuda.so.1"])


@pytest.fixture(scope="session")
def fake_old_driver(fake_driver_folder: Path) -> FakeDriver:
    """Return a driver that lacks the newer functions."""
    return compile_fake_driver(fake_driver_folder / "old", without_v2=True)
