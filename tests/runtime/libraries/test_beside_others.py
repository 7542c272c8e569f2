"""Others that look for NVIDIA's libraries find those of the store."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import wheelfit

CODE = """
import json
from wheelfit.runtime import initialize_cuda
cuda = initialize_cuda("13", ["cudart"])
from cuda.pathfinder import load_nvidia_dynamic_lib
found = load_nvidia_dynamic_lib("cudart")
print(json.dumps([cuda.path("cudart"), found.abs_path, found.was_already_loaded_from_elsewhere]))
"""


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="needs x86-64 Linux"
)
def test_pathfinder_finds_ours(environment_with: Callable[..., Path], tmp_path: Path) -> None:
    """cuda-pathfinder, which CuPy and numba-cuda ask, takes what was loaded from the store."""
    python = environment_with("cuda-pathfinder==1.9.0")
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WHEELFIT_")}
    environ = {
        **kept,
        "PYTHONPATH": str(Path(wheelfit.__file__).parents[1]),
        "WHEELFIT_LIBRARY_STORE": str(tmp_path),
    }
    done = subprocess.run(
        [str(python), "-c", CODE], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    ours, theirs, was_loaded = json.loads(done.stdout)
    assert Path(ours).samefile(theirs)
    assert was_loaded
