"""Bridges with real distributions of the registry, on machines of several kinds."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from programs import run_program

pytestmark = [pytest.mark.network, pytest.mark.usefixtures("registry")]

CPU, CUDA_11, CUDA_12, CUDA_13 = "cpu-x86_64-v3", "cuda-11.8", "cuda-12.8", "cuda-13.0-sm90"


def dry_run(folder: Path, machine: str, *words: str, code: int = 0) -> dict[str, str]:
    """Return the names and labels of what would be installed."""
    command = [sys.executable, "-m", "wheelfit", "install", *words, "--dry-run", "--json"]
    options = ["--for", machine, "--target", str(folder / "target")]
    environ = {**os.environ, "WHEELFIT_CACHE_DIR": str(folder / "cache")}
    completed = run_program(*command, *options, code=code, env=environ)
    report = json.loads(completed.stdout)
    if code:
        return {"error": report["error"]["code"], "hint": report["error"]["hint"]}
    return {pin["name"]: pin["label"] or "plain" for pin in report["install"]}


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (CUDA_13, {"cupy": "cuda13", "cupy-cuda13x": "plain"}),
        (CUDA_12, {"cupy": "cuda12", "cupy-cuda12x": "plain"}),
        (CUDA_11, {"cupy": "cuda11", "cupy-cuda11x": "plain"}),
    ],
)
def test_cupy(tmp_path: Path, machine: str, expected: dict[str, str]) -> None:
    """Only the wheel for the driver's CUDA version is chosen."""
    found = dry_run(tmp_path, machine, "cupy")
    assert {name: label for name, label in found.items() if "cupy" in name} == expected


def test_cupy_without_gpu(tmp_path: Path) -> None:
    """Without a GPU there is a clear error."""
    result = dry_run(tmp_path, CPU, "cupy", code=3)
    assert result["error"] == "no-compatible-wheel"
    assert "needs an NVIDIA GPU" in result["hint"]


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (CUDA_13, {"onnxruntime": "cuda13", "onnxruntime-gpu": "plain"}),
        (CUDA_12, {"onnxruntime": "cuda12_cudnn9.10", "onnxruntime-gpu": "plain"}),
        (CUDA_11, {"onnxruntime": "plain"}),
        (CPU, {"onnxruntime": "plain"}),
    ],
)
def test_dependent_of_onnxruntime(tmp_path: Path, machine: str, expected: dict[str, str]) -> None:
    """A dependent gets the build for the machine, and never both."""
    found = dry_run(tmp_path, machine, "magika")
    assert {name: label for name, label in found.items() if "onnx" in name} == expected


def test_several_families(tmp_path: Path) -> None:
    """Trusted families are chosen together, whatever release the Python version gets."""
    words = ["xgboost", "faiss", "--bridge", "xgboost", "--bridge", "faiss"]
    found = dry_run(tmp_path, CUDA_12, *words)
    assert (found["xgboost"], found["faiss"][:6]) == ("cuda12", "cuda12")
    assert "xgboost-cpu" not in found
    found = dry_run(tmp_path, CPU, *words)
    assert {"xgboost-cpu", "faiss-cpu"} <= found.keys()
    assert not any(name.startswith("nvidia") for name in found)
