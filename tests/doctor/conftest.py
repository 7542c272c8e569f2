"""What tests of the doctor need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from doctor.patient import Patient


@pytest.fixture
def patient(tmp_path: Path) -> Patient:
    """Return an empty environment."""
    return Patient(tmp_path / "env", tmp_path / "wheels")


@pytest.fixture
def nvidia() -> Callable[..., dict[str, dict[str, list[str]]]]:
    """Return a function that describes a machine with a driver and GPUs."""

    def machine(cuda: str | None, *capabilities: str) -> dict[str, dict[str, list[str]]]:
        if cuda is None:
            return {"nvidia": {}}
        features = {"cuda_version_lower_bound": [cuda, cuda.partition(".")[0]]}
        if capabilities:
            features["sm_arch"] = [
                f"{capability.replace('.', '')}_real" for capability in capabilities
            ]
        return {"nvidia": features}

    return machine
