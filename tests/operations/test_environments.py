"""The environment of a request."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from operations.remarks import Remarks

from wheelfit.installation.environment import open_environment
from wheelfit.operations.context import Context
from wheelfit.operations.environments import note_default_environment
from wheelfit.operations.requests import EnvironmentOptions


@pytest.mark.parametrize(
    ("variable", "is_same", "is_noted"),
    [
        ("VIRTUAL_ENV", True, False),
        ("CONDA_PREFIX", True, False),
        ("CONDA_PREFIX", False, True),
        ("OTHER", True, True),
    ],
)
def test_note_of_the_default_environment(
    variable: str,
    is_same: bool,  # noqa: FBT001
    is_noted: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    """An environment that the user has activated is not noted, by venv or conda."""
    environment = open_environment(sys.executable, environ={})
    folder = environment.interpreter.prefix if is_same else tmp_path
    remarks = Remarks()
    context = Context({variable: str(folder)}, remarks)
    note_default_environment(EnvironmentOptions(), environment, context)
    assert bool(remarks.lines) is is_noted
